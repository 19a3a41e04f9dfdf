/* test_compile.c - whole images made by hand: which section wins where, what is found by its bytes, what is
 * broken.
 *
 * The image has 64 KiB of code at CODE, an .eh_frame, a .debug_frame, and section headers. Functions are
 * distinguished by the size of their frame. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cfi.h"

#define CODE       0x10000
#define CODE_SIZE  0x10000
#define EH_FRAME   0x30000
#define FRAME_SIZE 0x1000
#define DEBUG_AT   (EH_FRAME + FRAME_SIZE)
#define HEADERS_AT (DEBUG_AT + FRAME_SIZE)
#define IMAGE_SIZE (HEADERS_AT + 0x1000)

struct builder {
    uint8_t *bytes;
    size_t eh_size, debug_size, eh_signal_cie;
};

static void put(uint8_t *bytes, size_t *at, uint64_t value, unsigned size)
{
    memcpy(bytes + *at, &value, size);
    *at += size;
}

/* "zR" or "zRS", addresses pc-relative; CFA = rsp + 8, return address at CFA - 8. Returns where it is. */
static size_t put_eh_cie(struct builder *builder, bool signal)
{
    uint8_t *section = builder->bytes + EH_FRAME;
    size_t start = builder->eh_size, at = start;
    put(section, &at, 0, 8);
    put(section, &at, 1, 1);
    put(section, &at, signal ? 0x53527a : 0x527a, signal ? 4 : 3);
    put(section, &at, 0x1b01107801,
        5); /* code 1, data -8, column 16; 1 byte of augmentation data: pcrel sdata4 */
    put(section, &at, 0x08070c, 3); /* def_cfa: rsp + 8 */
    put(section, &at, 0x0190, 2);   /* offset: return address at CFA - 8 */
    builder->eh_size = at;
    at -= start;
    size_t length = start;
    put(section, &length, at - 4, 4);
    return start;
}

static void put_eh_fde(struct builder *builder, size_t cie, uint64_t start, uint64_t size, uint8_t frame)
{
    uint8_t *section = builder->bytes + EH_FRAME;
    size_t at = builder->eh_size;
    put(section, &at, 4 + 4 + 4 + 1 + 2, 4);
    put(section, &at, at - cie, 4);
    put(section, &at, start - (EH_FRAME + at), 4);
    put(section, &at, size, 4);
    put(section, &at, 0, 1);
    put(section, &at, 0x0e | frame << 8, 2); /* def_cfa_offset */
    builder->eh_size = at;
}

static void put_debug_fde(struct builder *builder, uint64_t start, uint64_t size, uint8_t frame)
{
    static const uint8_t cie[] = {16, 0,    0,  0,    0xff, 0xff, 0xff, 0xff, 3, 0,
                                  1,  0x78, 16, 0x0c, 7,    8,    0x90, 1,    0, 0};
    uint8_t *section = builder->bytes + DEBUG_AT;
    size_t at = builder->debug_size;
    if (at == 0) {
        memcpy(section, cie, sizeof cie);
        at = sizeof cie;
    }
    put(section, &at, 4 + 8 + 8 + 2, 4);
    put(section, &at, 0, 4);
    put(section, &at, start, 8);
    put(section, &at, size, 8);
    put(section, &at, 0x0e | frame << 8, 2);
    builder->debug_size = at;
}

static void put_headers(struct builder *builder, uint64_t entry)
{
    static const char names[] = "\0.eh_frame\0.debug_frame\0.names\0.text";
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_DYN,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_entry = entry,
                         .e_phoff = sizeof header,
                         .e_shoff = HEADERS_AT,
                         .e_ehsize = sizeof header,
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 2,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = 5,
                         .e_shstrndx = 3};
    const Elf64_Phdr segments[] = {
        {PT_LOAD, PF_R | PF_X, CODE, CODE, CODE, CODE_SIZE, CODE_SIZE, 0x1000},
        {PT_LOAD, PF_R, EH_FRAME, EH_FRAME, EH_FRAME, FRAME_SIZE, FRAME_SIZE, 0x1000}};
    const Elf64_Shdr sections[] = {
        {0},
        {1, SHT_PROGBITS, SHF_ALLOC, EH_FRAME, EH_FRAME, builder->eh_size, 0, 0, 8, 0},
        {11, SHT_PROGBITS, 0, 0, DEBUG_AT, builder->debug_size, 0, 0, 8, 0},
        {24, SHT_STRTAB, 0, 0, HEADERS_AT + 5 * sizeof(Elf64_Shdr), sizeof names, 0, 0, 1, 0},
        {31, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, CODE, CODE, CODE_SIZE, 0, 0, 16, 0},
    };
    memcpy(builder->bytes, &header, sizeof header);
    memcpy(builder->bytes + sizeof header, segments, sizeof segments);
    memcpy(builder->bytes + HEADERS_AT, sections, sizeof sections);
    memcpy(builder->bytes + HEADERS_AT + sizeof sections, names, sizeof names);
}

struct compiled {
    struct elf_image *image;
    struct unwind_rows rows;
    struct cfi_statistics statistics;
    void *blob;
};

static struct compiled finish(struct builder *builder, uint64_t entry)
{
    struct compiled compiled;
    size_t size;
    put_headers(builder, entry);
    assert_int_equal(elf_image_open_memory(builder->bytes, IMAGE_SIZE, "made", &compiled.image, NULL),
                     BASE_OK);
    assert_int_equal(cfi_compile(compiled.image, NULL, &compiled.blob, &size, &compiled.statistics, NULL),
                     BASE_OK);
    assert_true(unwind_rows_open(&compiled.rows, compiled.blob, size));
    free(builder->bytes);
    return compiled;
}

static void drop(struct compiled *compiled)
{
    free(compiled->blob);
    elf_image_close(compiled->image);
}

static struct builder begin(void)
{
    struct builder builder = {.bytes = calloc(1, IMAGE_SIZE)};
    assert_non_null(builder.bytes);
    memset(builder.bytes + CODE, 0x90, CODE_SIZE);
    return builder;
}

static int frame_at(const struct compiled *compiled, uint64_t address)
{
    const struct wire_rule *rule = unwind_rows_find(&compiled->rows, address);
    return rule->cfa_kind == WIRE_CFA_REGISTER ? rule->cfa_offset : -(int)rule->cfa_kind;
}

static void gaps_have_no_rule_and_overlaps_one(void **state)
{
    (void)state;
    struct builder builder = begin();
    size_t cie = put_eh_cie(&builder, false);
    put_eh_fde(&builder, cie, CODE + 0x300, 0x100, 48); /* not in order */
    put_eh_fde(&builder, cie, CODE + 0x100, 0x100, 16);
    put_eh_fde(&builder, cie, CODE + 0x180, 0x100, 24);         /* overlaps: begins where the other ends */
    put_eh_fde(&builder, cie, CODE + 0x120, 0x10, 32);          /* inside another: nothing is left of it */
    put_eh_fde(&builder, cie, CODE + 0x400, 0x100, 48);         /* touches, same rule: one row */
    put_eh_fde(&builder, cie, CODE + CODE_SIZE - 8, 0x100, 56); /* reaches past the code */
    put_eh_fde(&builder, cie, 0x5000000, 0x100, 64);            /* no code there: broken */
    put_eh_fde(&builder, cie + 4, CODE + 0x800, 0x100, 64);     /* no CIE there: broken */
    put_eh_fde(&builder, cie, CODE + 0x900, 0, 64);             /* empty: broken */
    struct compiled compiled = finish(&builder, 0);
    static const struct {
        uint64_t offset;
        int frame;
    } expected[] = {{0, 0},      {0xff, 0},    {0x100, 16},  {0x17f, 16}, {0x1ff, 16},
                    {0x200, 24}, {0x27f, 24},  {0x280, 0},   {0x300, 48}, {0x3ff, 48},
                    {0x400, 48}, {0x4ff, 48},  {0x500, 0},   {0x800, 0},  {0x900, 0},
                    {0xfff7, 0}, {0xfff8, 56}, {0xffff, 56}, {0x10000, 0}};
    for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(frame_at(&compiled, CODE + expected[i].offset), expected[i].frame);
    assert_int_equal(compiled.statistics.fdes, 9);
    assert_int_equal(compiled.statistics.broken_fdes, 3);
    assert_int_equal(compiled.statistics.odd_rules, 0);
    assert_int_equal(compiled.rows.header->row_count, 7 + 1); /* the last NONE opens the next page */
    drop(&compiled);
}

static void debug_frame_fills_what_eh_frame_leaves(void **state)
{
    (void)state;
    struct builder builder = begin();
    size_t cie = put_eh_cie(&builder, false);
    put_eh_fde(&builder, cie, CODE + 0x100, 0x100, 16);
    put_eh_fde(&builder, cie, CODE + 0x300, 0x100, 24);
    put_debug_fde(&builder, CODE + 0x80, 0x400, 88); /* before, between and behind */
    put_debug_fde(&builder, 0, 0x100, 96);           /* dropped by the linker: no fault */
    struct compiled compiled = finish(&builder, 0);
    static const int expected[] = {0, 16, 88, 24, 88};
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(frame_at(&compiled, CODE + 0x100 * i), expected[i]);
    assert_int_equal(frame_at(&compiled, CODE + 0x80), 88);
    assert_int_equal(frame_at(&compiled, CODE + 0x47f), 88);
    assert_int_equal(frame_at(&compiled, CODE + 0x480), 0);
    assert_int_equal(compiled.statistics.broken_fdes, 0);
    struct cfi_range *ranges;
    size_t count;
    assert_int_equal(cfi_ranges(compiled.image, &ranges, &count, NULL), BASE_OK);
    assert_int_equal(count, 5);
    assert_int_equal(ranges[1].start, CODE + 0x100);
    assert_int_equal(ranges[1].end, CODE + 0x200);
    free(ranges);
    drop(&compiled);
}

static void trampolines_are_found_by_mark_and_by_bytes(void **state)
{
    (void)state;
    struct builder builder = begin();
    size_t plain = put_eh_cie(&builder, false), signal = put_eh_cie(&builder, true);
    const struct arch *arch = &arch_x86_64;
    memcpy(builder.bytes + CODE + 0x200, arch->sigreturn,
           arch->sigreturn_size); /* described by nobody: musl */
    memcpy(builder.bytes + CODE + 0x400, arch->sigreturn, arch->sigreturn_size); /* 'S' */
    memcpy(builder.bytes + CODE + 0x800, arch->sigreturn,
           arch->sigreturn_size); /* in .debug_frame only: Go */
    put_eh_fde(&builder, plain, CODE + 0x100, 0x80, 16);
    put_eh_fde(&builder, signal, CODE + 0x400, 0x10, 16);
    put_eh_fde(&builder, signal, CODE + 0x600, 0x10, 24); /* 'S', but no such code: as it says */
    put_debug_fde(&builder, CODE + 0x700, 0x200, 88);
    struct compiled compiled = finish(&builder, 0);
    assert_int_equal(frame_at(&compiled, CODE + 0x1fe), 0);
    assert_int_equal(frame_at(&compiled, CODE + 0x1ff), -WIRE_CFA_SIGNAL); /* the return address, one early */
    assert_int_equal(frame_at(&compiled, CODE + 0x208), -WIRE_CFA_SIGNAL);
    assert_int_equal(frame_at(&compiled, CODE + 0x209), 0);
    assert_int_equal(frame_at(&compiled, CODE + 0x3ff), -WIRE_CFA_SIGNAL);
    assert_int_equal(frame_at(&compiled, CODE + 0x40f), -WIRE_CFA_SIGNAL);
    assert_int_equal(frame_at(&compiled, CODE + 0x600), 24);
    assert_int_equal(frame_at(&compiled, CODE + 0x7fe), 88);
    assert_int_equal(frame_at(&compiled, CODE + 0x7ff), -WIRE_CFA_SIGNAL);
    assert_int_equal(frame_at(&compiled, CODE + 0x809), 88);
    drop(&compiled);
}

static void an_undescribed_entry_point_is_the_end(void **state)
{
    (void)state;
    for (unsigned described = 0; described < 2; described++) {
        struct builder builder = begin();
        size_t cie = put_eh_cie(&builder, false);
        if (described)
            put_eh_fde(&builder, cie, CODE + 0x100, 0x10, 16);
        put_eh_fde(&builder, cie, CODE + 0x120, 0x10, 24);
        struct compiled compiled = finish(&builder, CODE + 0x100);
        assert_int_equal(frame_at(&compiled, CODE + 0x100), described ? 16 : -WIRE_CFA_END);
        assert_int_equal(frame_at(&compiled, CODE + 0x110), described ? 0 : -WIRE_CFA_END);
        assert_int_equal(frame_at(&compiled, CODE + 0x120), 24);
        drop(&compiled);
    }
}

/* A section that ends anywhere: what is whole is used. */
static void truncated_sections_give_what_is_whole(void **state)
{
    (void)state;
    struct builder whole = begin();
    size_t cie = put_eh_cie(&whole, false);
    for (unsigned i = 0; i < 8; i++)
        put_eh_fde(&whole, cie, CODE + 0x100 * i, 0x100, 16);
    free(whole.bytes);
    for (size_t size = 0; size <= whole.eh_size; size++) {
        struct builder builder = begin();
        cie = put_eh_cie(&builder, false);
        size_t head = builder.eh_size;
        for (unsigned i = 0; i < 8; i++)
            put_eh_fde(&builder, cie, CODE + 0x100 * i, 0x100, 16);
        size_t fde_size = (builder.eh_size - head) / 8;
        builder.eh_size = size;
        struct compiled compiled = finish(&builder, 0);
        unsigned kept = size > head ? (unsigned)((size - head) / fde_size) : 0;
        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(frame_at(&compiled, CODE + 0x100 * i), i < kept ? 16 : 0);
        drop(&compiled);
    }
}

static void bare_frames_hold_a_return_address_alone(void **state)
{
    (void)state;
    struct builder builder = begin();
    size_t cie = put_eh_cie(&builder, false);
    put_eh_fde(&builder, cie, CODE + 0x100, 0x100, 8);
    put_eh_fde(&builder, cie, CODE + 0x200, 0x100, 16);
    put_debug_fde(&builder, CODE + 0x200, 0x200, 8); /* its first half is the other section's */
    struct compiled compiled = finish(&builder, 0);
    const uint64_t addresses[] = {CODE,         CODE + 0x100, CODE + 0x1ff, CODE + 0x200,
                                  CODE + 0x2ff, CODE + 0x300, CODE + 0x3ff, CODE + 0x400};
    static const bool expected[] = {false, true, true, false, false, true, true, false};
    bool bare[sizeof expected];
    assert_int_equal(cfi_bare_frames(compiled.image, addresses, 8, bare, NULL), BASE_OK);
    assert_memory_equal(bare, expected, sizeof expected);
    assert_int_equal(cfi_bare_frames(compiled.image, addresses, 0, bare, NULL), BASE_OK);
    drop(&compiled);
}

/* Beside the rows of a real program: the C library that runs this. */
static void bare_frames_are_those_of_rows(void **state)
{
    (void)state;
    enum { MOST = 200000, STEP = 7 };
    struct elf_image *image;
    struct cfi_range *ranges;
    size_t range_count, size, count = 0, found = 0;
    struct unwind_rows rows;
    void *blob;
    if (elf_image_open("/lib/x86_64-linux-gnu/libc.so.6", &image, NULL) != BASE_OK)
        skip();
    uint64_t *addresses = calloc(MOST, sizeof *addresses);
    bool *bare = calloc(MOST, sizeof *bare);
    assert_int_equal(cfi_compile(image, NULL, &blob, &size, NULL, NULL), BASE_OK);
    assert_true(unwind_rows_open(&rows, blob, size));
    assert_int_equal(cfi_ranges(image, &ranges, &range_count, NULL), BASE_OK);
    for (size_t i = 0; i < range_count; i++)
        for (uint64_t at = ranges[i].start; at < ranges[i].end && count < MOST; at += STEP)
            addresses[count++] = at;
    assert_int_equal(cfi_bare_frames(image, addresses, count, bare, NULL), BASE_OK);
    for (size_t i = 0; i < count; i++) {
        const struct wire_rule *rule = unwind_rows_find(&rows, addresses[i]);
        bool expected = rule->cfa_kind == WIRE_CFA_REGISTER && rule->cfa_register == rows.arch->sp &&
                        rule->cfa_offset == 8 && wire_rule_ra_kind(rule) == WIRE_SAVE_CFA &&
                        rule->ra_slot == -1;
        if (bare[i] != expected)
            fail_msg("at 0x%lx: %d", (unsigned long)addresses[i], bare[i]);
        found += bare[i];
    }
    assert_true(found > 1000 && count - found > 1000);
    free(addresses);
    free(bare);
    free(blob);
    free(ranges);
    elf_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_have_no_rule_and_overlaps_one),
        cmocka_unit_test(debug_frame_fills_what_eh_frame_leaves),
        cmocka_unit_test(trampolines_are_found_by_mark_and_by_bytes),
        cmocka_unit_test(an_undescribed_entry_point_is_the_end),
        cmocka_unit_test(truncated_sections_give_what_is_whole),
        cmocka_unit_test(bare_frames_hold_a_return_address_alone),
        cmocka_unit_test(bare_frames_are_those_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
