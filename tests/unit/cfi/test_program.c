/* test_program.c - call-frame programs byte by byte, with what they say in the margin, to rows.
 *
 * A section is put together from a CIE and an FDE as they would stand in .eh_frame or .debug_frame; the rows
 * that come out are compared whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cfi_program.h"

#define CODE 0x1000
#define SIZE 0x100

struct expected {
    uint32_t offset;
    struct wire_rule rule;
};

/* cfa: register, offset; then where fp, return address and base are: slots of 8 bytes from the CFA, 0 = kept.
 */
#define RULE(reg, off, fp, ra, base)                                                                         \
    {                                                                                                        \
        .cfa_kind = WIRE_CFA_REGISTER, .cfa_register = (reg), .cfa_offset = (off), .fp_slot = (fp),          \
        .ra_slot = (ra), .base_slot = (base),                                                                \
        .save_kinds = (uint8_t)(((fp) != 0 ? WIRE_SAVE_CFA : 0) | ((ra) != 0 ? WIRE_SAVE_CFA << 4 : 0))      \
    }
#define ODD                                                                                                  \
    {                                                                                                        \
        .cfa_kind = WIRE_CFA_ODD                                                                             \
    }

static const uint8_t x86_cie[] = {
    0x0c, 7, 8,  /* DW_CFA_def_cfa: rsp + 8 */
    0x80 + 16, 1 /* DW_CFA_offset: return address at CFA - 8 */
};
static const uint8_t arm_cie[] = {0x0c, 31, 0 /* DW_CFA_def_cfa: sp + 0 */};

static void put(uint8_t **at, uint64_t value, unsigned size)
{
    memcpy(*at, &value, size);
    *at += size;
}

/* One CIE ("zR" with pc-relative 4-byte addresses) and one FDE for [CODE, CODE + SIZE) at address 0. */
static size_t make_section(const struct arch *arch, const uint8_t *cie, size_t cie_size,
                           const uint8_t *program, size_t size, uint8_t *bytes)
{
    uint8_t *at = bytes;
    put(&at, 4 + 1 + 3 + 3 + 2 + cie_size, 4);
    put(&at, 0, 4);
    put(&at, 1, 1);        /* version */
    put(&at, 0x00527a, 3); /* "zR" */
    put(&at, arch->code_alignment, 1);
    put(&at, 0x78, 1); /* data alignment -8 */
    put(&at, arch->return_column, 1);
    put(&at, 1, 1);
    put(&at, 0x1b, 1); /* DW_EH_PE_pcrel | sdata4 */
    memcpy(at, cie, cie_size);
    at += cie_size;
    size_t fde = (size_t)(at - bytes);
    put(&at, 4 + 4 + 4 + 1 + size, 4);
    put(&at, fde + 4, 4);
    put(&at, (uint64_t)CODE - (fde + 8), 4);
    put(&at, SIZE, 4);
    put(&at, 0, 1);
    memcpy(at, program, size);
    return (size_t)(at - bytes) + size;
}

static enum cfi_program_result compile(const struct arch *arch, const uint8_t *program, size_t size,
                                       struct cfi_rules *rules, struct cfi_row_list *rows)
{
    uint8_t *bytes = malloc(4096);
    bool arm = arch == &arch_aarch64;
    struct cfi_section section = {.bytes = bytes, .eh = true};
    section.size = make_section(arch, arm ? arm_cie : x86_cie, arm ? sizeof arm_cie : sizeof x86_cie, program,
                                size, bytes);
    struct cfi_entries entries;
    struct cfi_fde fde;
    assert_true(cfi_entries_start(&entries, arch, &section));
    assert_int_equal(cfi_entries_next(&entries, &fde), CFI_ENTRY_FDE);
    assert_int_equal(fde.start, CODE);
    assert_int_equal(fde.end, CODE + SIZE);
    enum cfi_program_result result =
        cfi_program_run(arch, &section, &entries.cies[fde.cie], &fde, rules, rows);
    assert_int_equal(cfi_entries_next(&entries, &fde), CFI_ENTRY_END);
    cfi_entries_free(&entries);
    free(bytes);
    return result;
}

static void check(const struct arch *arch, const uint8_t *program, size_t size,
                  const struct expected *expected, size_t count)
{
    struct cfi_rules rules;
    struct cfi_row_list rows = {0};
    assert_true(cfi_rules_create(&rules));
    assert_int_equal(compile(arch, program, size, &rules, &rows), CFI_PROGRAM_DONE);
    assert_int_equal(rows.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(rows.items[i].offset, expected[i].offset);
        assert_memory_equal(&rules.items[rows.items[i].rule], &expected[i].rule, sizeof expected[i].rule);
    }
    free(rows.items);
    cfi_rules_free(&rules);
}
#define CHECK(arch, program, expected)                                                                       \
    check(&(arch), program, sizeof(program), expected, sizeof(expected) / sizeof(expected)[0])

static void push_and_pop(void **state)
{
    (void)state;
    static const uint8_t program[] = {
        0x41,                 /* advance 1: after push %rbp */
        0x0e,     16,         /* def_cfa_offset 16 */
        0x80 + 6, 2,          /* offset: rbp at CFA - 16 */
        0x41,                 /* advance 1: after push %rbx */
        0x0e,     24,         /* def_cfa_offset 24 */
        0x80 + 3, 3,          /* offset: rbx at CFA - 24 */
        0x02,     0x50,       /* advance1 80: after pop %rbx */
        0x0e,     16,         /* def_cfa_offset 16 */
        0xc0 + 3,             /* restore rbx */
        0x03,     0x01, 0x00, /* advance2 1: after pop %rbp */
        0x0e,     8,          /* def_cfa_offset 8 */
        0xc0 + 6,             /* restore rbp */
        0,        0,          /* nop */
    };
    static const struct expected expected[] = {
        {0, RULE(7, 8, 0, -1, 0)},    {1, RULE(7, 16, -2, -1, 0)}, {2, RULE(7, 24, -2, -1, -3)},
        {82, RULE(7, 16, -2, -1, 0)}, {83, RULE(7, 8, 0, -1, 0)},
    };
    CHECK(arch_x86_64, program, expected);
}

static void frame_pointer_and_early_returns(void **state)
{
    (void)state;
    static const uint8_t program[] = {
        0x41, 0x0e, 16,   0x86, 2, /* push %rbp */
        0x43, 0x0d, 6,             /* mov %rsp,%rbp: def_cfa_register rbp */
        0x50, 0x0a,                /* advance 16; remember_state */
        0x41, 0x0c, 7,    8,       /* leave: def_cfa rsp + 8 */
        0x41, 0x0b,                /* ret; restore_state: the body goes on */
        0x0a, 0x0a,                /* states nest */
        0x44, 0x0c, 7,    8,       /* another return */
        0x41, 0x0b, 0x0b,          /* and twice back */
    };
    static const struct expected expected[] = {
        {0, RULE(7, 8, 0, -1, 0)},    {1, RULE(7, 16, -2, -1, 0)},  {4, RULE(6, 16, -2, -1, 0)},
        {21, RULE(7, 8, -2, -1, 0)},  {22, RULE(6, 16, -2, -1, 0)}, {26, RULE(7, 8, -2, -1, 0)},
        {27, RULE(6, 16, -2, -1, 0)},
    };
    CHECK(arch_x86_64, program, expected);
}

static void every_way_to_say_it(void **state)
{
    (void)state;
    static const uint8_t program[] = {
        0x05, 6,    2,                         /* offset_extended rbp, CFA - 16 */
        0x13, 0x7e,                            /* def_cfa_offset_sf -2 * -8 = 16 */
        0x44, 0x12, 7,    0x7d,                /* def_cfa_sf rsp, 24 */
        0x11, 6,    3,                         /* offset_extended_sf rbp, CFA - 24 */
        0x04, 4,    0,    0,    0,             /* advance4 4 */
        0x2f, 6,    0x04,                      /* negative_offset_extended rbp: CFA + 32 */
        0x2e, 40,                              /* GNU_args_size 40: of no account */
        0x44, 0x08, 6,                         /* same_value rbp */
        0x44, 0x07, 6,                         /* undefined rbp */
        0x44, 0x09, 6,    5,                   /* register: rbp in rdi */
        0x44, 0x14, 6,    0x02,                /* val_offset: rbp = CFA - 16 */
        0x44, 0x15, 6,    0x7e,                /* val_offset_sf: rbp = CFA + 16 */
        0x44, 0x06, 6,                         /* restore_extended rbp */
        0x44, 0x09, 16,   5,                   /* the return address in rdi: vfork */
        0x1d, 4,    0,    0,    0, 0, 0, 0, 0, /* advance8 4 */
        0x07, 16,                              /* undefined return address: the end */
    };
    static const struct expected expected[] = {
        {0, RULE(7, 16, -2, -1, 0)},
        {4, RULE(7, 24, -3, -1, 0)},
        {8, RULE(7, 24, 4, -1, 0)},
        {12, RULE(7, 24, 0, -1, 0)},
        {16, {24, 0, -1, 0, 0, 0, 7, WIRE_CFA_REGISTER, WIRE_SAVE_UNDEFINED | WIRE_SAVE_CFA << 4}},
        {20, {24, 5, -1, 0, 0, 0, 7, WIRE_CFA_REGISTER, WIRE_SAVE_REGISTER | WIRE_SAVE_CFA << 4}},
        {24, {24, -2, -1, 0, 0, 0, 7, WIRE_CFA_REGISTER, WIRE_SAVE_CFA_VALUE | WIRE_SAVE_CFA << 4}},
        {28, {24, 2, -1, 0, 0, 0, 7, WIRE_CFA_REGISTER, WIRE_SAVE_CFA_VALUE | WIRE_SAVE_CFA << 4}},
        {32, RULE(7, 24, 0, -1, 0)},
        {36, {24, 0, 5, 0, 0, 0, 7, WIRE_CFA_REGISTER, WIRE_SAVE_SAME | WIRE_SAVE_REGISTER << 4}},
        {40, {.cfa_kind = WIRE_CFA_END}},
    };
    CHECK(arch_x86_64, program, expected);
}

static void known_expressions(void **state)
{
    (void)state;
    static const uint8_t program[] = {
        0x0f, 11,   0x77, 8,    0x80, 0,    0x3f, 0x1a, 0x3b,
        0x2a, 0x33, 0x24, 0x22,                               /* the PLT: litN is lit11 */
        0x44, 0x0f, 3,    0x76, 0x78, 0x06,                   /* CFA = *(rbp - 8) */
        0x10, 6,    2,    0x76, 0,                            /* expression: rbp at rbp + 0 */
        0x44, 0x0f, 5,    0x77, 0x28, 0x06, 0x23, 8,          /* CFA = *(rsp + 40) + 8: OpenSSL */
        0x44, 0x0f, 5,    0x77, 0x28, 0x06, 0x38, 0x22,       /* the same with lit8; plus */
        0x44, 0x0f, 2,    0x76, 0x10,                         /* CFA = rbp + 16, the long way */
        0x44, 0x0c, 7,    32,   0x10, 6,    2,    0x77, 0x08, /* rbp at rsp + 8, which is CFA - 24 */
        0x44, 0x0f, 2,    0x31, 0x1c,                         /* lit1; minus: nothing we know */
        0x44, 0x0c, 7,    8,    0x16, 6,    1,    0x30,       /* val_expression of rbp: only rbp is lost */
        0x44, 0x16, 16,   1,    0x30,                         /* val_expression of the return address: odd */
    };
    static const struct expected expected[] = {
        {0, {11, 0, -1, 0, 0, 0, 7, WIRE_CFA_PLT, WIRE_SAVE_CFA << 4}},
        {4, {-8, 0, -1, 0, 0, 0, 6, WIRE_CFA_DEREFERENCE, WIRE_SAVE_FP | WIRE_SAVE_CFA << 4}},
        {8, {40, 0, -1, 0, 0, 1, 7, WIRE_CFA_DEREFERENCE, WIRE_SAVE_FP | WIRE_SAVE_CFA << 4}},
        {16, {16, 0, -1, 0, 0, 0, 6, WIRE_CFA_REGISTER, WIRE_SAVE_FP | WIRE_SAVE_CFA << 4}},
        {20, RULE(7, 32, -3, -1, 0)},
        {24, ODD},
        {28, {8, 0, -1, 0, 0, 0, 7, WIRE_CFA_REGISTER, WIRE_SAVE_UNDEFINED | WIRE_SAVE_CFA << 4}},
        {32, ODD},
    };
    CHECK(arch_x86_64, program, expected);
}

static void the_kernels_signal_frame(void **state)
{
    (void)state;
    static const uint8_t program[] = {
        0x0f, 4,  0x77, 0xa0, 0x01, 0x06, /* CFA = *(rsp + 160) */
        0x10, 6,  3,    0x77, 0xf8, 0x00, /* rbp at rsp + 120 */
        0x10, 7,  3,    0x77, 0xa0, 0x01, /* rsp at rsp + 160 */
        0x10, 16, 3,    0x77, 0xa8, 0x01, /* return address at rsp + 168 */
    };
    static const struct expected expected[] = {{0, {.cfa_kind = WIRE_CFA_SIGNAL}}};
    CHECK(arch_x86_64, program, expected);
}

static void aarch64_link_register_and_signing(void **state)
{
    (void)state;
    static const uint8_t program[] = {
        0x41, 0x2d, /* paciasp: AARCH64_negate_ra_state; code factor 4 */
        0x41, 0x0e, 32, 0x80 + 29, 4,         0x80 + 30, 3, /* stp x29, x30, [sp, #-32]! */
        0x41, 0x0d, 29,                                     /* mov x29, sp; CFA by x29 */
        0x48, 0x0c, 31, 0,         0xc0 + 29, 0xc0 + 30,    /* ldp x29, x30, [sp], #32 */
        0x41, 0x2d,                                         /* autiasp */
    };
    static const struct expected expected[] = {
        {0, RULE(31, 0, 0, 0, 0)},
        {8, RULE(31, 32, -4, -3, 0)},
        {12, RULE(29, 32, -4, -3, 0)},
        {44, RULE(31, 0, 0, 0, 0)},
    };
    CHECK(arch_aarch64, program, expected);
}

static void broken_programs_leave_no_rows(void **state)
{
    (void)state;
    static const uint8_t programs[][8] = {
        {0x0b},                   /* restore_state without remember_state */
        {0x3f},                   /* no such instruction */
        {0x41, 0x0e},             /* cut off (the rest is the next line's nops: see size) */
        {0x0f, 0x7f, 0x77},       /* an expression longer than the program */
        {0x0f, 1, 0x30, 0x0e, 8}, /* def_cfa_offset where the CFA is an expression */
        {0x41, 0x01, 0, 0, 0, 0}, /* set_loc backwards */
    };
    static const size_t sizes[] = {1, 1, 2, 3, 5, 6};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct cfi_rules rules;
        struct cfi_row_list rows = {0};
        assert_true(cfi_rules_create(&rules));
        assert_int_equal(compile(&arch_x86_64, programs[i], sizes[i], &rules, &rows), CFI_PROGRAM_BROKEN);
        assert_int_equal(rows.count, 0);
        free(rows.items);
        cfi_rules_free(&rules);
    }
}

static void states_nest_at_least_sixteen_deep(void **state)
{
    uint8_t program[200];
    size_t size = 0;
    struct expected expected[41];
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        const uint8_t step[] = {0x0a, 0x41, 0x0e, (uint8_t)(16 + 4 * i)};
        memcpy(program + size, step, sizeof step);
        size += sizeof step;
        expected[i] = (struct expected){i, RULE(7, i == 0 ? 8 : (int)(12 + 4 * i), 0, -1, 0)};
    }
    for (unsigned i = 0; i < 20; i++) {
        program[size++] = 0x41;
        program[size++] = 0x0b;
        expected[20 + i] = (struct expected){20 + i, RULE(7, (int)(12 + 4 * (20 - i)), 0, -1, 0)};
    }
    expected[40] = (struct expected){40, RULE(7, 8, 0, -1, 0)};
    check(&arch_x86_64, program, size, expected, 41);
}

/* A rule each way there is; the 65,536th and later ones are odd. */
static void rules_run_out_gracefully(void **state)
{
    struct cfi_rules rules;
    (void)state;
    assert_true(cfi_rules_create(&rules));
    for (int i = 0; i < 70000; i++) {
        struct wire_rule rule = {.cfa_kind = WIRE_CFA_REGISTER, .cfa_offset = i};
        uint32_t number = cfi_rules_number(&rules, &rule);
        assert_int_equal(number, i + 2 < CFI_RULES_MAX ? i + 2 : CFI_RULE_ODD);
    }
    struct wire_rule again = {.cfa_kind = WIRE_CFA_REGISTER, .cfa_offset = 777};
    assert_int_equal(cfi_rules_number(&rules, &again), 779);
    cfi_rules_free(&rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(push_and_pop),
        cmocka_unit_test(frame_pointer_and_early_returns),
        cmocka_unit_test(every_way_to_say_it),
        cmocka_unit_test(known_expressions),
        cmocka_unit_test(the_kernels_signal_frame),
        cmocka_unit_test(aarch64_link_register_and_signing),
        cmocka_unit_test(broken_programs_leave_no_rows),
        cmocka_unit_test(states_nest_at_least_sixteen_deep),
        cmocka_unit_test(rules_run_out_gracefully),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
