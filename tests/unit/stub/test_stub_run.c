/* test_stub_run.c - stubs and hooks at work on this machine: sites are called as a program would call
 * them, and what arrives must be what would have arrived without Tally - every register, the stack, the
 * return address - and one more in the counter. For each form of the counter, near and at the limits of
 * reach. */
#include <asm/prctl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "stub_block.h"
#include "stub_bytes.h"
#include "stub_harness.h"
#include "stub_x86_64_entry.h"

#define SPAN      (UINT64_C(5) << 30)
#define MIDDLE    (UINT64_C(5) << 29) /* text lies here in the span */
#define WORD      0x20000000u
#define BLOCK_MAX 0x10000
#define COUNTER   100

static uint8_t *span;          /* 5 GiB of addresses, of which pages are opened */
static uint64_t *block;        /* of PLAIN and LOCK, and of this thread in THREAD */
static struct stub_block *low; /* what gs base 0 finds: the fallback */

static uint8_t *open_pages(uint64_t offset, size_t size)
{
    uint8_t *start = span + (offset & ~UINT64_C(0xfff));
    assert_return_code(mprotect(start, size + 0x1000, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    return span + offset;
}

static void set_gs(uint64_t base)
{
    assert_return_code(syscall(SYS_arch_prctl, ARCH_SET_GS, base), 0);
}

static int set_up(void **state)
{
    (void)state;
    span = mmap(NULL, SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    low = mmap((void *)(uintptr_t)WORD, BLOCK_MAX, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (span == MAP_FAILED || (uintptr_t)low != WORD)
        return -1;
    low->self = WORD;
    block = (void *)open_pages(MIDDLE + 0x100000, BLOCK_MAX);
    block[0] = (uint64_t)(uintptr_t)block;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    set_gs(0);
    munmap(low, BLOCK_MAX);
    return munmap(span, SPAN);
}

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static struct stub_x86_64_counter counter_of(enum stub_form form)
{
    return (struct stub_x86_64_counter){form, address_of(block), WORD, COUNTER};
}

/* jmp [rip]; the far address */
static void put_far_jump(uint8_t *at, const void *target)
{
    uint64_t address = address_of(target);
    memcpy(at, "\xff\x25\0\0\0\0", 6);
    memcpy(at + 6, &address, 8);
}

static void put_code(const struct stub_x86_64_code *code)
{
    assert_int_equal(code->refused, STUB_FINE);
    memcpy((void *)(uintptr_t)code->address, code->bytes, code->size);
}

static void fill_registers(void)
{
    for (unsigned i = 0; i < 16; i++) {
        stub_harness_in.general[i] = 0x1111111111111111u * i + 0x0123456789abcdefu;
        stub_harness_in.vector[i][0] = 0x0101010101010101u * i;
        stub_harness_in.vector[i][1] = ~stub_harness_in.vector[i][0];
    }
    stub_harness_in.flags = 0x2;
}

static void run_at(const uint8_t *entry)
{
    stub_harness_in.entry = address_of(entry);
    memset(&stub_harness_out, 0, sizeof stub_harness_out);
    stub_harness_enter();
}

/* rsp of the harness is only known when it runs: everything but rsp must be as it went in. */
static void registers_are_kept(void)
{
    for (unsigned i = 0; i < 16; i++)
        if (i != 4)
            assert_int_equal(stub_harness_out.general[i], stub_harness_in.general[i]);
    assert_memory_equal(stub_harness_out.vector, stub_harness_in.vector, sizeof stub_harness_in.vector);
}

static void uses_gs(enum stub_form form)
{
    set_gs(form == STUB_THREAD ? address_of(block) - WORD : 0);
}

/* --- sites --- */

struct layout {
    uint64_t site, stub, callee; /* offsets in the span */
};

static const struct layout near_by = {MIDDLE, MIDDLE + 0x10000, MIDDLE + 0x20000};

/* Writes the site's old bytes, then a jump out of the harness; the callee; the stub; and last the new
 * bytes. */
static struct stub_x86_64_request place(enum stub_kind kind, const char *text, const struct layout *layout,
                                        enum stub_form form, uint8_t old[16])
{
    uint8_t *at = open_pages(layout->site, 64), *callee = open_pages(layout->callee, 64);
    struct stub_x86_64_counter counter = counter_of(form);
    struct stub_x86_64_code code;
    size_t length = stub_bytes_read(text, old, 16);
    struct stub_x86_64_request site = {.kind = kind,
                                       .length = (uint8_t)length,
                                       .address = address_of(at),
                                       .old = old,
                                       .target = address_of(callee)};
    put_far_jump(callee, stub_harness_seen);
    put_far_jump(at + length, stub_harness_leave);
    stub_x86_64_code_begin(&code, address_of(open_pages(layout->stub, 256)));
    stub_x86_64_site(&code, &site, &counter);
    put_code(&code);
    assert_int_equal(stub_x86_64_site_bytes(&site, code.address, at), STUB_FINE);
    uses_gs(form);
    return site;
}

static void arrives_and_counts(const struct stub_x86_64_request *site)
{
    uint64_t before = block[COUNTER];
    run_at((const uint8_t *)(uintptr_t)site->address);
    assert_int_equal(stub_harness_out.times, 1);
    assert_int_equal(block[COUNTER], before + 1);
    assert_int_equal(stub_harness_out.stack[8], site->address + site->length); /* the return address */
    assert_int_equal(stub_harness_out.general[4], stub_harness_in.host_sp - 8);
    registers_are_kept();
}

#define EACH_FORM(form) for (enum stub_form form = STUB_PLAIN; form <= STUB_LOCK; form++)

static void calls_arrive_with_everything(void **state)
{
    (void)state;
    uint8_t old[16];
    fill_registers();
    EACH_FORM(form)
    {
        struct stub_x86_64_request site = place(STUB_CALL, "e8 00 00 00 00", &near_by, form, old);
        arrives_and_counts(&site);
        site = place(STUB_CALL, "66 48 e8 00 00 00 00", &near_by, form, old);
        arrives_and_counts(&site);
    }
}

/* A jump's stub: the red zone, too, arrives as it was. A `call +0` before the site makes the return
 * address. */
static void jumps_leave_the_red_zone_alone(void **state)
{
    (void)state;
    static const char *const jumps[] = {"e9 00 00 00 00", "0f 85 00 00 00 00"}; /* jne: zf is clear */
    uint8_t old[16];
    fill_registers();
    for (unsigned i = 0; i < 2; i++) {
        EACH_FORM(form)
        {
            struct stub_x86_64_request site =
                place(i == 0 ? STUB_JUMP : STUB_BRANCH, jumps[i], &near_by, form, old);
            uint8_t *front = span + near_by.site - 0x40;
            open_pages(near_by.site - 0x40, 0x40);
            /* mov [rsp-16], rdi; mov [rsp-24], rsi; call over; (leave); over: here the site runs in a frame
             * of its own */
            stub_bytes_read("e8 10 00 00 00", front, 5);
            put_far_jump(front + 5, stub_harness_leave);
            stub_bytes_read("48 89 7c 24 f8 48 89 74 24 c0 eb 1f", front + 0x15, 12);
            uint64_t before = block[COUNTER];
            run_at(front);
            assert_int_equal(stub_harness_out.times, 1);
            assert_int_equal(block[COUNTER], before + 1);
            assert_int_equal(stub_harness_out.stack[8], address_of(front) + 5);
            assert_int_equal(stub_harness_out.stack[7], stub_harness_in.general[7]); /* [rsp-8] = rdi */
            assert_int_equal(stub_harness_out.stack[0], stub_harness_in.general[6]); /* [rsp-64] = rsi */
            assert_int_equal(stub_harness_out.general[4], stub_harness_in.host_sp - 8);
            registers_are_kept();
            (void)site;
        }
    }
}

static void branches_not_taken_are_not_counted(void **state)
{
    (void)state;
    uint8_t old[16];
    fill_registers();
    EACH_FORM(form)
    {
        struct stub_x86_64_request site =
            place(STUB_BRANCH, "0f 84 00 00 00 00", &near_by, form, old); /* je */
        uint64_t before = block[COUNTER];
        run_at((const uint8_t *)(uintptr_t)site.address);
        assert_int_equal(stub_harness_out.times, 0);
        assert_int_equal(block[COUNTER], before);
    }
}

static void two_byte_jumps_arrive(void **state)
{
    (void)state;
    uint8_t old[16], *at = open_pages(near_by.site, 64);
    fill_registers();
    EACH_FORM(form)
    {
        struct stub_x86_64_request site = {.kind = STUB_JUMP_SHORT,
                                           .length = 2,
                                           .address = address_of(at + 32),
                                           .old = old,
                                           .target = address_of(span + near_by.callee),
                                           .island = address_of(at + 64)};
        struct stub_x86_64_counter counter = counter_of(form);
        struct stub_x86_64_code code;
        stub_bytes_read("eb 70", old, 2);
        put_far_jump(open_pages(near_by.callee, 64), stub_harness_seen);
        stub_bytes_read("e8 1b 00 00 00", at, 5);
        put_far_jump(at + 5, stub_harness_leave);
        stub_x86_64_code_begin(&code, address_of(open_pages(near_by.stub, 64)));
        stub_x86_64_site(&code, &site, &counter);
        put_code(&code);
        assert_int_equal(stub_x86_64_site_bytes(&site, code.address, at + 32), STUB_FINE);
        assert_int_equal(stub_x86_64_site_island(site.island, code.address, at + 64), STUB_FINE);
        uses_gs(form);
        uint64_t before = block[COUNTER];
        run_at(at);
        assert_int_equal(stub_harness_out.times, 1);
        assert_int_equal(block[COUNTER], before + 1);
        assert_int_equal(stub_harness_out.stack[8], address_of(at) + 5);
        registers_are_kept();
    }
}

/* Each operand names the callee's address in its own way. */
static const struct {
    enum stub_kind kind;
    const char *text;
} indirect_forms[] = {
    {STUB_CALL_INDIRECT, "ff 15 2a 00 00 00       ; call [rip+0x2a]: the word at site + 0x30"},
    {STUB_CALL_INDIRECT, "ff 93 00 01 00 00       ; call [rbx+0x100]"},
    {STUB_CALL_INDIRECT, "41 ff 94 c5 00 01 00 00 ; call [r13+rax*8+0x100]"},
    {STUB_CALL_GROUP, "4c 8b 63 08 41 ff 14 24    ; mov r12, [rbx+8]; call [r12]"},
    {STUB_CALL_GROUP, "48 89 d9 ff 53 10          ; mov rcx, rbx; call [rbx+16]"},
    {STUB_CALL_GROUP, "48 8d 3d 00 00 00 00 ff d2 ; lea rdi, [rip]; call rdx"},
};

/* Where the registers lead to, and what groups make of them. */
static void aim_registers(uint64_t callee, uint64_t *words)
{
    words[0x100 / 8] = words[2] = words[4] = callee;
    words[1] = address_of(words + 4);
    words[0x110 / 8] = callee;
    fill_registers();
    stub_harness_in.general[3] = address_of(words);  /* rbx */
    stub_harness_in.general[13] = address_of(words); /* r13 */
    stub_harness_in.general[0] = 2;                  /* rax */
    stub_harness_in.general[2] = callee;             /* rdx */
}

static void indirect_call_has_arrived(unsigned form, const struct stub_x86_64_request *site,
                                      const uint64_t *words)
{
    assert_int_equal(stub_harness_out.times, 1);
    assert_int_equal(stub_harness_out.stack[8], site->address + site->length);
    assert_int_equal(stub_harness_out.general[4], stub_harness_in.host_sp - 8);
    if (form == 3)
        stub_harness_in.general[12] = words[1];
    if (form == 4)
        stub_harness_in.general[1] = stub_harness_in.general[3];
    if (form == 5)
        stub_harness_in.general[7] = site->address + 7;
    registers_are_kept();
}

#define INDIRECT_FORMS (sizeof indirect_forms / sizeof *indirect_forms)

static struct stub_x86_64_request place_indirect(unsigned i, enum stub_form form, uint8_t old[16],
                                                 uint64_t **words)
{
    struct stub_x86_64_request site =
        place(indirect_forms[i].kind, indirect_forms[i].text, &near_by, form, old);
    uint64_t callee = address_of(span + near_by.callee);
    *words = (void *)open_pages(near_by.callee + 0x1000, 0x400);
    *(uint64_t *)(void *)(span + near_by.site + 0x30) = callee;
    aim_registers(callee, *words);
    return site;
}

static void indirect_calls_arrive(void **state)
{
    (void)state;
    uint8_t old[16];
    for (unsigned i = 0; i < INDIRECT_FORMS; i++) {
        EACH_FORM(form)
        {
            uint64_t *words;
            struct stub_x86_64_request site = place_indirect(i, form, old, &words);
            uint64_t before = block[COUNTER];
            run_at((const uint8_t *)(uintptr_t)site.address);
            assert_int_equal(block[COUNTER], before + 1);
            indirect_call_has_arrived(i, &site, words);
        }
    }
}

#define GUESSED (COUNTER + 50)

/* Replaces the site's stub by one that tries `callee`, whose calls go on at `past`. */
static void place_guess(const struct stub_x86_64_request *site, enum stub_form form, uint64_t callee,
                        const uint8_t *past)
{
    struct stub_x86_64_counter counter = counter_of(form);
    struct stub_x86_64_guess guess = {callee, address_of(past), GUESSED};
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, address_of(open_pages(near_by.stub, 256)));
    stub_x86_64_site_guessing(&code, site, &counter, &guess);
    put_code(&code);
}

/* Right: past the hook, where the callee itself must not be entered. Wrong in the upper or the lower half of
 * the address, or 0: as without a guess. */
static void guesses_are_right_or_wrong(void **state)
{
    (void)state;
    uint8_t old[16], *past = open_pages(near_by.callee + 0x800, 64), *callee = span + near_by.callee;
    const uint64_t tried[] = {address_of(callee), address_of(callee) ^ UINT64_C(1) << 32,
                              address_of(callee) ^ 1, 0};
    for (unsigned i = 0; i < INDIRECT_FORMS; i++) {
        for (unsigned j = 0; j < sizeof tried / sizeof *tried; j++) {
            EACH_FORM(form)
            {
                uint64_t *words;
                struct stub_x86_64_request site = place_indirect(i, form, old, &words);
                uint64_t counted = block[COUNTER], guessed = block[GUESSED];
                put_far_jump(past, j == 0 ? stub_harness_seen : stub_harness_leave);
                put_far_jump(callee, j == 0 ? stub_harness_leave : stub_harness_seen);
                place_guess(&site, form, tried[j], past);
                run_at((const uint8_t *)(uintptr_t)site.address);
                indirect_call_has_arrived(i, &site, words);
                assert_int_equal(block[COUNTER], counted + (j != 0));
                assert_int_equal(block[GUESSED], guessed + (j == 0));
            }
        }
    }
}

/* What a call reads of the stack, and copies of the stack pointer, mean the caller's stack. */
static void operands_on_the_stack_mean_the_same(void **state)
{
    (void)state;
    uint8_t old[16], raw[64], *at = span + near_by.site;
    fill_registers();
    EACH_FORM(form)
    {
        /* push rdx (the callee); then the site; then out */
        struct stub_x86_64_request site =
            place(STUB_CALL_GROUP, "48 89 e7 ff 14 24 ; mov rdi, rsp; call [rsp]", &near_by, form, old);
        open_pages(near_by.site - 16, 16);
        at[-1] = 0x52;
        stub_harness_in.general[2] = address_of(span + near_by.callee);
        uint64_t before = block[COUNTER];
        run_at(at - 1);
        assert_int_equal(stub_harness_out.times, 1);
        assert_int_equal(block[COUNTER], before + 1);
        assert_int_equal(stub_harness_out.stack[8], site.address + site.length);
        assert_int_equal(stub_harness_out.stack[9], stub_harness_in.general[2]);
        assert_int_equal(stub_harness_out.general[7], stub_harness_in.host_sp - 8);
        stub_harness_out.general[7] = stub_harness_in.general[7];
        registers_are_kept();
        memcpy(raw, at, site.length);
    }
}

/* A frame is made, the group takes it down and jumps: what arrives is the caller's stack. */
static void a_grouped_jump_arrives(enum stub_kind kind, const char *text)
{
    uint8_t old[16], *at = span + near_by.site;
    fill_registers();
    EACH_FORM(form)
    {
        struct stub_x86_64_request site = place(kind, text, &near_by, form, old);
        open_pages(near_by.site - 0x40, 0x40);
        /* call over; (leave); over: push rbx; push rsi; then the site */
        stub_bytes_read("e8 39 00 00 00", at - 0x40, 5);
        put_far_jump(at - 0x3b, stub_harness_leave);
        stub_bytes_read("53 56", at - 2, 2);
        stub_harness_in.general[2] = address_of(span + near_by.callee);
        uint64_t before = block[COUNTER];
        run_at(at - 0x40);
        assert_int_equal(stub_harness_out.times, 1);
        assert_int_equal(block[COUNTER], before + 1);
        assert_int_equal(stub_harness_out.stack[8], address_of(at) - 0x3b);
        assert_int_equal(stub_harness_out.general[4], stub_harness_in.host_sp - 8);
        registers_are_kept();
        assert_int_equal(site.length, 7);
    }
}

static void grouped_jumps_arrive(void **state)
{
    (void)state;
    a_grouped_jump_arrives(STUB_JUMP_GROUP, "48 83 c4 08 5b ff e2 ; add rsp, 8; pop rbx; jmp rdx");
    a_grouped_jump_arrives(STUB_JUMP_GROUP_SHORT, "48 83 c4 08 5b eb 00 ; add rsp, 8; pop rbx; jmp callee");
}

static void reaches_two_gigabytes(void **state)
{
    (void)state;
    uint8_t old[16];
    /* The stub as far below and above the site as a displacement goes; the block is between. */
    const struct layout far[] = {
        {MIDDLE, MIDDLE + 5 + 0x7fffffff, MIDDLE + 0x20000 + 0x200000},
        {MIDDLE, MIDDLE + 5 - 0x80000000, MIDDLE - 0x200000},
    };
    fill_registers();
    for (unsigned i = 0; i < 2; i++) {
        struct stub_x86_64_request site = place(STUB_CALL, "e8 00 00 00 00", &far[i], STUB_THREAD, old);
        arrives_and_counts(&site);
    }
}

static void a_thread_without_gs_counts_in_the_fallback(void **state)
{
    (void)state;
    uint8_t old[16];
    uint64_t *fallback = (uint64_t *)low;
    fill_registers();
    struct stub_x86_64_request site = place(STUB_CALL, "e8 00 00 00 00", &near_by, STUB_THREAD, old);
    uint64_t own = block[COUNTER], before = fallback[COUNTER];
    set_gs(0);
    run_at((const uint8_t *)(uintptr_t)site.address);
    assert_int_equal(fallback[COUNTER], before + 1);
    assert_int_equal(block[COUNTER], own);
    registers_are_kept();
}

/* --- hooks --- */

struct hooked {
    struct stub_x86_64_entry entry;
    struct stub_x86_64_hook hook;
    uint8_t old[24];
    uint64_t behind; /* what follows the replaced bytes goes to the callee */
};

/* A function at the callee's place that begins with `text`, goes on to stub_harness_seen, and is hooked. */
static void hook_function(struct hooked *hooked, enum stub_kind kind, const char *text, enum stub_form form)
{
    uint8_t *at = open_pages(near_by.callee, 256), *island = at + 64, fresh[5];
    unsigned jump = kind == STUB_ENTRY_SHORT ? 2 : 5;
    struct stub_x86_64_counter counter = counter_of(form);
    struct stub_x86_64_code code, recorder;
    size_t length = stub_bytes_read(text, hooked->old, sizeof hooked->old);
    put_far_jump(at + length, stub_harness_seen);
    memcpy(hooked->old + length, at + length, 1);
    memcpy(at, hooked->old, length);
    hooked->entry = (struct stub_x86_64_entry){kind,        (uint8_t)length,    address_of(at),
                                               hooked->old, address_of(island), false};
    stub_x86_64_code_begin(&recorder, address_of(open_pages(near_by.stub + 0x8000, 512)));
    stub_x86_64_entry_recorder(&recorder, &counter);
    put_code(&recorder);
    stub_x86_64_code_begin(&code, address_of(open_pages(near_by.stub, 512)));
    stub_x86_64_entry_hook(&code, &hooked->entry, &counter, recorder.address, &hooked->hook);
    put_code(&code);
    assert_int_equal(stub_x86_64_entry_bytes(&hooked->entry, code.address, fresh), jump);
    memcpy(at, fresh, jump);
    if (kind == STUB_ENTRY_SHORT)
        assert_int_equal(stub_x86_64_site_island(address_of(island), code.address, island), STUB_FINE);
    memset(block + COUNTER, 0, sizeof(struct stub_hook_words));
    ((struct stub_block *)(void *)block)->mark_stack = 0; /* jumps of earlier tests that met no hook */
    uses_gs(form);
}

/* A caller at `offset` from the sites' place: call callee; leave. Returns the return address. */
static uint64_t put_caller(uint64_t offset)
{
    uint8_t *at = open_pages(near_by.site + offset, 32);
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, address_of(at));
    stub_x86_64_code_put(&code, 0xe8);
    stub_x86_64_code_relative(&code, address_of(span + near_by.callee), 0);
    put_code(&code);
    put_far_jump(at + 5, stub_harness_leave);
    return address_of(at) + 5;
}

static struct stub_table *new_table(uint64_t entries)
{
    struct stub_table *table = calloc(1, sizeof *table + entries * sizeof(struct stub_table_entry));
    assert_non_null(table);
    table->mask = entries - 1;
    block[1] = address_of(table);
    return table;
}

static uint64_t calls_in(const struct stub_table *table, uint64_t return_address)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i <= table->mask; i++)
        if (table->entries[i].return_address == return_address && table->entries[i].callee == 8 * COUNTER)
            sum += table->entries[i].calls;
    return sum;
}

/* 300 callers, the n-th calls n times; nothing is lost and every register arrives. */
static void hooks_count_every_caller(void **state)
{
    (void)state;
    EACH_FORM(form)
    {
        struct hooked hooked;
        struct stub_table *table = new_table(1024);
        const struct stub_hook_words *words = (const void *)(block + COUNTER);
        fill_registers();
        hook_function(&hooked, STUB_ENTRY, "55 48 89 e5 5d 90", form); /* push rbp; mov rbp, rsp; pop rbp */
        for (unsigned n = 1; n <= 300; n++) {
            put_caller(32 * n);
            for (unsigned i = 0; i < n; i++) {
                run_at(span + near_by.site + (uint64_t)32 * n);
                assert_int_equal(stub_harness_out.times, 1);
                assert_int_equal(stub_harness_out.stack[8], address_of(span + near_by.site) + 32 * n + 5);
                assert_int_equal(stub_harness_out.general[4], stub_harness_in.host_sp - 8);
                stub_harness_out.general[5] = stub_harness_in.general[5]; /* its own doing */
                registers_are_kept();
            }
        }
        assert_int_equal(words->return_address, address_of(span + near_by.site) + 32 + 5);
        assert_int_equal(words->calls, 1);
        assert_int_equal(words->overflow, 0);
        for (unsigned n = 2; n <= 300; n++)
            assert_int_equal(calls_in(table, address_of(span + near_by.site) + 32 * n + 5), n);
        free(table);
        block[1] = 0;
    }
}

static void a_full_table_overflows_visibly(void **state)
{
    (void)state;
    EACH_FORM(form)
    {
        struct hooked hooked;
        struct stub_table *table = new_table(8);
        const struct stub_hook_words *words = (const void *)(block + COUNTER);
        fill_registers();
        hook_function(&hooked, STUB_ENTRY, "90 90 90 90 90", form);
        for (unsigned round = 0; round < 3; round++)
            for (unsigned n = 0; n < 20; n++) {
                put_caller(32 * n);
                run_at(span + near_by.site + (uint64_t)32 * n);
                registers_are_kept();
            }
        uint64_t in_table = 0;
        for (unsigned i = 0; i < 8; i++)
            in_table += table->entries[i].calls;
        assert_int_equal(words->calls, 3);
        assert_int_equal(in_table, 8 * 3);
        assert_int_equal(words->overflow, 11 * 3);
        block[1] = 0; /* and without any table */
        run_at(span + near_by.site + 32 * 5);
        assert_int_equal(words->overflow, 11 * 3 + 1);
        registers_are_kept();
        free(table);
    }
}

/* The moved instructions do what they did: operands of rip, branches either way, loops, calls with their old
 * return address. After each the function goes on behind the replaced bytes. */
static void moved_entries_behave(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool sets_rax;
    } entries[] = {
        {"48 8d 05 fa ff ff ff ; lea rax, [rip-6]", true},
        {"74 05 90 90 90 90    ; je +5, not taken", false},
        {"31 c0 74 01 cc       ; xor eax, eax; je over the trap, behind the replaced bytes", true},
        {"e3 04 90 90 90 90    ; jrcxz, not taken", false},
        {"0f 1f 80 00 00 00 00 ; nop", false},
    };
    for (unsigned i = 0; i < 2 * sizeof entries / sizeof *entries; i++) {
        EACH_FORM(form)
        {
            struct hooked hooked;
            fill_registers();
            hook_function(&hooked, i % 2 ? STUB_ENTRY_SHORT : STUB_ENTRY, entries[i / 2].text, form);
            put_caller(0);
            run_at(span + near_by.site);
            assert_int_equal(stub_harness_out.times, 1);
            if (entries[i / 2].sets_rax)
                stub_harness_in.general[0] = i / 2 == 0 ? hooked.entry.address + 1 : 0;
            registers_are_kept();
            assert_int_equal(block[COUNTER + 1], 1);
        }
    }
}

/* call as a first instruction: its return address is in the function, not in the hook. */
static void moved_calls_return_to_the_function(void **state)
{
    (void)state;
    EACH_FORM(form)
    {
        struct hooked hooked;
        fill_registers();
        hook_function(&hooked, STUB_ENTRY, "e8 3b 00 00 00 ; call +0x40", form);
        put_far_jump(span + near_by.callee + 0x40, stub_harness_seen);
        put_far_jump(span + near_by.callee + 5, stub_harness_leave);
        put_caller(0);
        run_at(span + near_by.site);
        assert_int_equal(stub_harness_out.times, 1);
        assert_int_equal(stub_harness_out.stack[8], hooked.entry.address + 5);
        registers_are_kept();
    }
}

static void direct_calls_pass_the_hook_by(void **state)
{
    (void)state;
    EACH_FORM(form)
    {
        struct hooked hooked;
        fill_registers();
        hook_function(&hooked, STUB_ENTRY, "53 5b 90 90 90", form);
        uint8_t *at = open_pages(near_by.site, 32);
        struct stub_x86_64_code code;
        stub_x86_64_code_begin(&code, address_of(at));
        stub_x86_64_code_put(&code, 0xe8);
        stub_x86_64_code_relative(&code, hooked.hook.body, 0);
        put_code(&code);
        put_far_jump(at + 5, stub_harness_leave);
        run_at(at);
        assert_int_equal(stub_harness_out.times, 1);
        assert_int_equal(block[COUNTER + 1], 0);
        registers_are_kept();
    }
}

/* endbr64: the jump's top byte is the byte that follows, 0x00 or 0xff here: within 16 MiB after or before. */
static void endbr_gives_way_to_a_punned_jump(void **state)
{
    (void)state;
    for (unsigned top = 0; top < 2; top++) {
        EACH_FORM(form)
        {
            struct stub_x86_64_counter counter = counter_of(form);
            struct stub_x86_64_code code, recorder;
            uint8_t *at = open_pages(near_by.callee, 64), fresh[5];
            uint64_t low_end, high_end;
            fill_registers();
            /* endbr64; add [rax], al | dec ecx ... here: byte 4 is the first of the next instruction */
            stub_bytes_read(top == 0 ? "f3 0f 1e fa 00 c0" : "f3 0f 1e fa ff c0", at,
                            6); /* add al, al; inc eax */
            put_far_jump(at + 6, stub_harness_seen);
            uint8_t old[5];
            memcpy(old, at, 5);
            struct stub_x86_64_entry entry = {STUB_ENTRY_ENDBR, 4, address_of(at), old, 0, false};
            stub_x86_64_entry_window(&entry, &low_end, &high_end);
            uint64_t place_at = top == 0 ? address_of(span + near_by.callee + 0x1000)
                                         : address_of(span + near_by.callee - 0x1000);
            assert_true(place_at >= low_end && place_at <= high_end);
            struct stub_x86_64_hook hook;
            stub_x86_64_code_begin(&recorder, address_of(open_pages(near_by.stub + 0x8000, 512)));
            stub_x86_64_entry_recorder(&recorder, &counter);
            put_code(&recorder);
            open_pages(place_at - address_of(span), 256);
            stub_x86_64_code_begin(&code, place_at);
            stub_x86_64_entry_hook(&code, &entry, &counter, recorder.address, &hook);
            put_code(&code);
            assert_int_equal(hook.body, entry.address + 4);
            assert_int_equal(stub_x86_64_entry_bytes(&entry, place_at, fresh), 4);
            assert_int_equal(fresh[4], old[4]);
            assert_int_equal(stub_x86_64_entry_bytes(&entry, high_end, fresh), 4);
            assert_int_equal(stub_x86_64_entry_bytes(&entry, low_end, fresh), 4);
            assert_int_equal(stub_x86_64_entry_bytes(&entry, high_end + 1, fresh), 0);
            assert_int_equal(stub_x86_64_entry_bytes(&entry, low_end - 1, fresh), 0);
            stub_x86_64_entry_bytes(&entry, place_at, fresh);
            memcpy(at, fresh, 4);
            memset(block + COUNTER, 0, sizeof(struct stub_hook_words));
            uses_gs(form);
            put_caller(0);
            run_at(span + near_by.site);
            assert_int_equal(stub_harness_out.times, 1);
            assert_int_equal(block[COUNTER + 1], 1);
            stub_harness_in.general[0] = top == 0 ? (stub_harness_in.general[0] & ~UINT64_C(0xff)) |
                                                        ((stub_harness_in.general[0] * 2) & 0xff)
                                                  : (uint32_t)(stub_harness_in.general[0] + 1);
            registers_are_kept();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_arrive_with_everything),
        cmocka_unit_test(jumps_leave_the_red_zone_alone),
        cmocka_unit_test(branches_not_taken_are_not_counted),
        cmocka_unit_test(two_byte_jumps_arrive),
        cmocka_unit_test(indirect_calls_arrive),
        cmocka_unit_test(guesses_are_right_or_wrong),
        cmocka_unit_test(operands_on_the_stack_mean_the_same),
        cmocka_unit_test(grouped_jumps_arrive),
        cmocka_unit_test(reaches_two_gigabytes),
        cmocka_unit_test(a_thread_without_gs_counts_in_the_fallback),
        cmocka_unit_test(hooks_count_every_caller),
        cmocka_unit_test(a_full_table_overflows_visibly),
        cmocka_unit_test(moved_entries_behave),
        cmocka_unit_test(moved_calls_return_to_the_function),
        cmocka_unit_test(direct_calls_pass_the_hook_by),
        cmocka_unit_test(endbr_gives_way_to_a_punned_jump),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
