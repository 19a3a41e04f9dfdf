/* test_slab_plan.c - what is planned for each form of instruction, and why something is left alone.
 *
 * Images are made of hand-written functions, each in 64 bytes of which the rest is int3:
 *
 *     callee  0x1000   a named function            taker   0x1040   takes the address of `taken` (lea)
 *     cold    0x1080   "callee.cold"               nobody  0x10c0   no symbol, not called
 *     flags   0x1100   begins with setc al         taken   0x1140   varies
 *     caller  0x1180   varies */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan.h"
#include "plan_elf.h"
#include "slab.h"
#include "stub_bytes.h"

#define CALLEE 0x1000
#define NOBODY 0x10c0
#define TAKEN  0x1140
#define CALLER 0x1180
#define BIAS   0x7f0000000000

enum { CALLEE_INDEX, TAKER_INDEX, COLD_INDEX, NOBODY_INDEX, FLAGS_INDEX, TAKEN_INDEX, CALLER_INDEX };

static void add_function(struct plan_elf *elf, const char *name, const char *text, int has_fde)
{
    uint8_t bytes[64];
    size_t size = stub_bytes_read(text, bytes, sizeof bytes);
    plan_elf_function(elf, name, bytes, size, has_fde);
    plan_elf_fill(elf, 0xcc, 64 - size);
}

static void plan_of(struct plan *plan, const char *taken, const char *caller)
{
    struct plan_elf elf = {0};
    struct base_error error = {0};
    add_function(&elf, "callee", "48 89 f8 48 83 c0 01 c3 ; mov rax, rdi; add rax, 1; ret", 1);
    add_function(&elf, "taker", "48 8d 05 f9 00 00 00 c3  ; lea rax, [0x1140]; ret", 1);
    add_function(&elf, "callee.cold", "48 89 f8 48 83 c0 02 c3", 1);
    add_function(&elf, NULL, "48 89 f8 48 83 c0 03 c3", 1);
    add_function(&elf, "flags", "0f 92 c0 48 83 c0 03 c3  ; setc al", 1);
    add_function(&elf, "taken", taken != NULL ? taken : "48 89 f8 48 83 c0 04 c3", 1);
    add_function(&elf, "caller", caller != NULL ? caller : "c3", 1);
    struct elf_image *image = plan_elf_image(&elf);
    assert_non_null(image);
    assert_int_equal(plan_make(image, NULL, plan, &error), BASE_OK);
    elf_image_close(image);
    plan_elf_free(&elf);
}

/* The only site of the caller. */
static void expect_site(const char *caller, const struct plan_site *expected)
{
    struct plan plan;
    plan_of(&plan, NULL, caller);
    assert_int_equal(plan.header->site_count, 1);
    const struct plan_site *site = &plan.sites[0];
    assert_int_equal(site->kind, expected->kind);
    assert_int_equal(site->address, expected->address);
    assert_int_equal(site->length, expected->length);
    assert_int_equal(site->target, expected->target);
    assert_int_equal(site->callee, expected->callee);
    assert_int_equal(site->slot, expected->slot);
    assert_int_equal(site->island, expected->island);
    assert_int_equal(site->function, CALLER_INDEX);
    plan_free(&plan);
}

static void expect_refusal(const char *caller, enum stub_reason reason)
{
    struct plan plan;
    plan_of(&plan, NULL, caller);
    for (unsigned i = 0; i < PLAN_REASONS; i++)
        assert_int_equal(plan.header->reasons[i], i == reason);
    assert_int_equal(plan.header->site_count, 0);
    plan_free(&plan);
}

#define DIRECT(kind_, length_)                                                                               \
    {                                                                                                        \
        .kind = kind_, .address = CALLER, .length = length_, .target = CALLEE, .callee = CALLEE_INDEX        \
    }
#define INDIRECT(kind_, address_, length_)                                                                   \
    {                                                                                                        \
        .kind = kind_, .address = address_, .length = length_, .callee = PLAN_NONE                           \
    }

static void direct_calls_and_jumps(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct plan_site site;
    } cases[] = {
        {"e8 7b fe ff ff c3             ; call callee; ret", DIRECT(STUB_CALL, 5)},
        {"66 48 e8 79 fe ff ff c3       ; data16 rex.W call", DIRECT(STUB_CALL, 7)},
        {"67 e8 7a fe ff ff c3          ; addr32 call", DIRECT(STUB_CALL, 6)},
        {"2e e8 7a fe ff ff c3          ; cs call", DIRECT(STUB_CALL, 6)},
        {"f2 e8 7a fe ff ff c3          ; bnd call", DIRECT(STUB_CALL, 6)},
        {"e9 7b fe ff ff                ; jmp callee", DIRECT(STUB_JUMP, 5)},
        {"f2 e9 7a fe ff ff             ; bnd jmp", DIRECT(STUB_JUMP, 6)},
        {"0f 84 7a fe ff ff c3          ; je callee", DIRECT(STUB_BRANCH, 6)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_site(cases[i].text, &cases[i].site);
}

/* A short jump from the caller to `taken`: the island is in the padding behind `taken`, at 0x1148. */
static void two_byte_jumps_take_padding(void **state)
{
    (void)state;
    struct plan_site site = {.kind = STUB_JUMP_SHORT,
                             .address = CALLER,
                             .length = 2,
                             .target = TAKEN,
                             .callee = TAKEN_INDEX,
                             .island = 0x1108};
    expect_site("eb be ; jmp taken", &site);
    site.kind = STUB_BRANCH_SHORT;
    expect_site("74 be c3 ; je taken", &site);
}

/* No byte between functions, and none within reach of a two-byte jump: 144 bytes of another function before
 * and behind. The target is at 0x1090, the caller at 0x1094. */
static void plan_of_packed(struct plan *plan, const char *caller)
{
    struct plan_elf elf = {0};
    struct base_error error = {0};
    uint8_t filler[144], bytes[64];
    memset(filler, 0x90, sizeof filler);
    filler[sizeof filler - 1] = 0xc3;
    plan_elf_function(&elf, "before", filler, sizeof filler, 1);
    plan_elf_function(&elf, "target", "\x48\x89\xf8\xc3", 4, 1);
    plan_elf_function(&elf, "caller", bytes, stub_bytes_read(caller, bytes, sizeof bytes), 1);
    plan_elf_function(&elf, "behind", filler, sizeof filler, 1);
    struct elf_image *image = plan_elf_image(&elf);
    assert_non_null(image);
    assert_int_equal(plan_make(image, NULL, plan, &error), BASE_OK);
    elf_image_close(image);
    plan_elf_free(&elf);
}

static void two_byte_jumps_without_padding_move_others_too(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t address;
        unsigned length;
    } cases[] = {
        {"55 5d 0f b7 f0 eb f5    ; push; pop; movzx esi, ax; jmp target: as few as do", 0x1096, 5},
        {"89 df 31 f6 eb f6       ; mov edi, ebx; xor esi, esi; jmp target", 0x1094, 6},
        {"48 83 c4 08 5b eb f5    ; add rsp, 8; pop rbx; jmp target", 0x1094, 7},
        {"90 85 ff 74 02 eb f5 90 c3 ; nop; test edi, edi; je over it; jmp target", 0x1095, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan;
        plan_of_packed(&plan, cases[i].text);
        assert_int_equal(plan.header->site_count, 1);
        assert_int_equal(plan.sites[0].kind, STUB_JUMP_GROUP_SHORT);
        assert_int_equal(plan.sites[0].address, cases[i].address);
        assert_int_equal(plan.sites[0].length, cases[i].length);
        assert_int_equal(plan.sites[0].target, 0x1090);
        assert_int_equal(plan.sites[0].callee, 1);
        assert_int_equal(plan.sites[0].island, 0);
        assert_true(plan.functions[1].facts & PLAN_FUNCTION_COVERED);
        assert_int_equal(plan.header->hook_count, 0);
        plan_free(&plan);
    }
}

static void two_byte_jumps_that_are_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum stub_reason reason;
    } cases[] = {
        {"eb fa                      ; jmp target at the start", STUB_REASON_NO_ISLAND},
        {"90 eb f9                   ; too little before it", STUB_REASON_NO_ISLAND},
        {"e8 00 00 00 00 eb f5       ; call next", STUB_REASON_NO_ISLAND},
        {"48 89 df 74 f7 c3          ; je target: who stays must stay here", STUB_REASON_NO_ISLAND},
        {"74 03 48 89 df eb f5       ; je to the jump", STUB_REASON_BRANCH_INTO},
        {"67 8d 35 00 10 00 00 eb f3 ; lea esi, [eip+0x1000]", STUB_REASON_IMMOVABLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan;
        plan_of_packed(&plan, cases[i].text);
        assert_int_equal(plan.header->site_count, 0);
        assert_int_equal(plan.header->reasons[cases[i].reason], 1);
        plan_free(&plan);
    }
}

static void indirect_calls_and_jumps(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct plan_site site;
    } cases[] = {
        {"ff 90 88 00 00 00 c3          ; call [rax+0x88]", INDIRECT(STUB_CALL_INDIRECT, CALLER, 6)},
        {"41 ff 54 c5 08 c3             ; call [r13+rax*8+8]", INDIRECT(STUB_CALL_INDIRECT, CALLER, 5)},
        {"ff 94 24 80 00 00 00 c3       ; call [rsp+0x80]", INDIRECT(STUB_CALL_INDIRECT, CALLER, 7)},
        {"ff a0 88 00 00 00             ; jmp [rax+0x88]", INDIRECT(STUB_JUMP_INDIRECT, CALLER, 6)},
        {"55 48 89 df ff d0 c3          ; push rbp; mov rdi, rbx; call rax",
         INDIRECT(STUB_CALL_GROUP, CALLER + 1, 5)},
        {"55 89 df 31 f6 ff d0 c3       ; mov edi, ebx; xor esi, esi; call rax",
         INDIRECT(STUB_CALL_GROUP, CALLER + 1, 6)},
        {"55 90 90 90 ff d0 c3          ; as few as do: three nops",
         INDIRECT(STUB_CALL_GROUP, CALLER + 1, 5)},
        {"55 48 89 e7 ff 14 24 c3       ; mov rdi, rsp; call [rsp]",
         INDIRECT(STUB_CALL_GROUP, CALLER + 1, 6)},
        {"55 48 83 c4 08 ff e0          ; push rbp; add rsp, 8; jmp rax",
         INDIRECT(STUB_JUMP_GROUP, CALLER + 1, 6)},
        {"55 5d 5b ff 60 18             ; pop rbp; pop rbx; jmp [rax+0x18]",
         INDIRECT(STUB_JUMP_GROUP, CALLER + 1, 5)},
        {"55 41 ff 54 24 08 c3          ; call [r12+8]: five bytes",
         INDIRECT(STUB_CALL_INDIRECT, CALLER + 1, 5)},
        {"55 85 ff 75 03 ff 60 18 c3    ; push rbp; test; jne over it; jmp [rax+0x18]",
         INDIRECT(STUB_JUMP_GROUP, CALLER + 3, 5)},
        {"55 ff e0                      ; push rbp; jmp rax, over the padding behind `flags`",
         {.kind = STUB_JUMP_INDIRECT_SHORT,
          .address = CALLER + 1,
          .length = 2,
          .callee = PLAN_NONE,
          .island = 0x1108}},
        {"74 03 48 89 df 41 ff e3 c3    ; je to the jump; mov rdi, rbx; jmp r11",
         {.kind = STUB_JUMP_INDIRECT_SHORT,
          .address = CALLER + 5,
          .length = 3,
          .callee = PLAN_NONE,
          .island = 0x1108}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_site(cases[i].text, &cases[i].site);
    /* A word that ld.so does not fill is a variable: no slot, though its address is known. */
    struct plan_site variable = INDIRECT(STUB_CALL_INDIRECT, CALLER, 6);
    expect_site("ff 15 7a 0e 00 00 c3 ; call [0x2000]", &variable);
}

static void what_is_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum stub_reason reason;
    } cases[] = {
        {"e8 00 00 00 00 58 c3          ; call next; pop rax", STUB_REASON_GET_PC},
        {"e8 01 00 00 00 c3 90 c3       ; call into itself", STUB_REASON_OWN_FUNCTION},
        {"e8 7e fe ff ff c3             ; call callee+3", STUB_REASON_NOT_AN_ENTRY},
        {"e8 7b fe ff 7f c3             ; call far outside", STUB_REASON_OUTSIDE},
        {"e9 fb fe ff ff                ; jmp callee.cold", STUB_REASON_FRAGMENT},
        {"0f 8e fa fe ff ff c3          ; jle callee.cold", STUB_REASON_FRAGMENT},
        {"0f 84 3a ff ff ff c3          ; je nobody", STUB_REASON_FRAGMENT},
        {"0f 82 7a ff ff ff c3          ; jc flags, which reads carry: inc leaves it alone, setc is fine",
         STUB_FINE},
        {"ff d0 c3                      ; call rax at the start", STUB_REASON_TOO_SHORT},
        {"55 ff d0 c3                   ; push rbp; call rax", STUB_REASON_TOO_SHORT},
        {"50 41 57 90 90 ff d0 c3       ; nops do", STUB_FINE},
        {"41 57 41 56 ff d0 c3          ; push r15; push r14; call rax", STUB_REASON_IMMOVABLE},
        {"ff 94 24 f0 ff ff ff c3       ; call [rsp-16]", STUB_REASON_IMMOVABLE},
        {"74 03 48 89 df ff d0 c3       ; je to the call", STUB_REASON_BRANCH_INTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].reason != STUB_FINE)
            expect_refusal(cases[i].text, cases[i].reason);
    }
}

/* `inc` leaves the carry alone; a target that reads another flag is left alone. */
static void flags_of_targets(void **state)
{
    (void)state;
    struct plan plan;
    plan_of(&plan, NULL, "e9 7b ff ff ff ; jmp flags (setc)");
    assert_int_equal(plan.header->site_count, 1);
    plan_free(&plan);
    plan_of(&plan, "0f 94 c0 48 83 c0 01 c3 ; sete al", "e9 bb ff ff ff ; jmp taken");
    assert_int_equal(plan.header->site_count, 0);
    assert_int_equal(plan.header->reasons[STUB_REASON_FLAGS_LIVE], 1);
    plan_free(&plan);
}

/* A nameless function is an entry once it is called. */
static void a_call_proves_an_entry(void **state)
{
    (void)state;
    struct plan plan;
    plan_of(&plan, "e8 7b ff ff ff c3 ; call nobody", "e9 3b ff ff ff ; jmp nobody");
    assert_int_equal(plan.header->site_count, 2);
    assert_int_equal(plan.sites[0].kind, STUB_CALL);
    assert_int_equal(plan.sites[1].kind, STUB_JUMP);
    assert_int_equal(plan.sites[1].callee, NOBODY_INDEX);
    assert_int_equal(plan.header->reasons[STUB_REASON_FRAGMENT], 0);
    assert_int_equal(plan_site_ending(&plan, TAKEN + 5), 0);
    assert_int_equal(plan_site_ending(&plan, CALLER + 5), 1);
    assert_int_equal(plan_site_ending(&plan, CALLER + 4), PLAN_NONE);
    plan_free(&plan);
}

static void hooks_of_functions_whose_address_is_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum stub_kind kind;
        unsigned length;
        enum stub_reason reason;
    } cases[] = {
        {"48 89 f8 48 83 c0 04 c3       ; mov rax, rdi; add rax, 4", STUB_ENTRY, 7, STUB_FINE},
        {"55 48 89 e5 5d c3             ; push; mov; pop", STUB_ENTRY, 5, STUB_FINE},
        {"f3 0f 1e fa c3                ; endbr64; ret", STUB_ENTRY_ENDBR, 4, STUB_FINE},
        {"f3 0f 1e fa 48 89 f8 c3       ; endbr64; mov", STUB_ENTRY_ENDBR, 4, STUB_FINE},
        {"31 c0 c3                      ; three bytes, then padding", STUB_ENTRY, 5, STUB_FINE},
        {"c3                            ; one byte, then padding", STUB_ENTRY, 5, STUB_FINE},
        {"e9 bb fe ff ff                ; jmp callee", STUB_ENTRY, 5, STUB_FINE},
        {"48 ff cf 75 fb c3             ; dec rdi; jne start", 0, 0, STUB_REASON_ENTRY_BRANCH},
        {"90 48 ff cf 75 fb c3          ; nop; dec rdi; jne behind the nop", 0, 0, STUB_REASON_ENTRY_BRANCH},
        {"67 8b 05 00 10 00 00 c3       ; mov eax, [eip+0x1000]", 0, 0, STUB_REASON_ENTRY_IMMOVABLE},
        {"06 c3                         ; no instruction", 0, 0, STUB_REASON_ENTRY_NOT_DECODED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan;
        plan_of(&plan, cases[i].text, NULL);
        assert_int_equal(plan.header->taken, 1);
        assert_int_equal(plan.header->hook_count, cases[i].reason == STUB_FINE);
        if (cases[i].reason == STUB_FINE) {
            assert_int_equal(plan.hooks[0].address, TAKEN);
            assert_int_equal(plan.hooks[0].kind, cases[i].kind);
            assert_int_equal(plan.hooks[0].length, cases[i].length);
            assert_int_equal(plan.functions[TAKEN_INDEX].hook, 0);
        } else {
            assert_int_equal(plan.header->reasons[cases[i].reason], 1);
            assert_int_equal(plan.functions[TAKEN_INDEX].reason, cases[i].reason);
            assert_true(plan.functions[TAKEN_INDEX].facts & PLAN_FUNCTION_CALLABLE);
            assert_false(plan.functions[TAKEN_INDEX].facts & PLAN_FUNCTION_COVERED);
        }
        plan_free(&plan);
    }
}

/* Loops back to the second instruction, or no room for five bytes: two, and the first padding that they
 * reach. */
static void short_jumps_lead_to_hooks_over_islands(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned length;
    } cases[] = {
        {"48 29 fe 83 e9 20 7f fb c3    ; sub rsi, rdi; sub ecx, 32; jg -5", 3},
        {"66 0f ef ed 83 ea 10 7f fb c3 ; pxor; sub edx, 16; jg -5", 4},
        {"90 90 83 e9 20 7f fb c3       ; nop; nop; sub ecx, 32; jg -5", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan;
        plan_of(&plan, cases[i].text, NULL);
        const struct plan_hook *hook = &plan.hooks[0];
        assert_int_equal(plan.header->hook_count, 1);
        assert_int_equal(hook->address, TAKEN);
        assert_int_equal(hook->kind, STUB_ENTRY_SHORT);
        assert_int_equal(hook->length, cases[i].length);
        assert_int_equal(plan_hook_island(hook), 0x10c8);
        assert_memory_equal(hook->island_old, "\xcc\xcc\xcc\xcc\xcc", 5);
        assert_int_equal(plan.header->reasons[STUB_REASON_ENTRY_BRANCH], 0);
        assert_true(plan.functions[TAKEN_INDEX].facts & PLAN_FUNCTION_COVERED);
        plan_free(&plan);
    }
}

/* One island is not given to two: the short jump of the caller takes the next. */
static void islands_of_hooks_are_taken(void **state)
{
    (void)state;
    struct plan plan;
    plan_of(&plan, "48 29 fe 83 e9 20 7f fb c3 ; loops", "74 be c3 ; je taken");
    assert_int_equal(plan_hook_island(&plan.hooks[0]), 0x10c8);
    assert_int_equal(plan.header->site_count, 1);
    assert_int_equal(plan.sites[0].kind, STUB_BRANCH_SHORT);
    assert_true(plan.sites[0].island >= 0x1108);
    plan_free(&plan);
}

/* Where the jump at `bytes`, which lie at `address`, goes. */
static uint64_t jump_at(const uint8_t *bytes, uint64_t address)
{
    int32_t displacement;
    assert_int_equal(bytes[0], 0xe9);
    memcpy(&displacement, bytes + 1, sizeof displacement);
    return address + 5 + (uint64_t)(int64_t)displacement;
}

static void expect_write(const struct slab_write *write, uint64_t image_address, uint8_t length,
                         const char *old)
{
    assert_int_equal(write->address, BIAS + image_address);
    assert_int_equal(write->length, length);
    assert_memory_equal(write->old, old, length);
}

/* The function is led to its hook by two bytes and an island, the caller past it: its stub has the
 * instruction that moved. */
static void slabs_have_hooks_over_islands(void **state)
{
    (void)state;
    struct plan plan;
    uint64_t other;
    plan_of(&plan, "48 29 fe 83 e9 20 7f fb c3 ; sub rsi, rdi; sub ecx, 32; jg -5",
            "e8 bb ff ff ff c3 ; call taken");
    assert_int_equal(plan.header->site_count, 1);
    struct slab_region region = {BIAS - 0x100000, NULL, slab_size(&plan), 0};
    region.bytes = test_malloc(region.size);
    struct slab slab = {.plan = &plan,
                        .bias = BIAS,
                        .counter = {STUB_PLAIN, BIAS - 0x200000, 0, STUB_BLOCK_WORDS},
                        .regions = &region,
                        .region_count = 1};
    assert_int_equal(slab_make(&slab, NULL), BASE_OK);
    assert_int_equal(slab.write_count, 3);
    expect_write(&slab.writes[0], 0x10c8, 5, "\xcc\xcc\xcc\xcc\xcc"); /* the island */
    assert_int_equal(jump_at(slab.writes[0].fresh, slab.writes[0].address), slab.entries[0]);
    expect_write(&slab.writes[1], TAKEN, 2, "\x48\x29");
    assert_memory_equal(slab.writes[1].fresh, "\xeb\x86", 2); /* jmp 0x10c8 */
    expect_write(&slab.writes[2], CALLER, 5, "\xe8\xbb\xff\xff\xff");
    const uint8_t *stub = region.bytes + (slab.stubs[0] - region.address);
    assert_memory_equal(stub, "\x48\xff\x05", 3); /* inc [counter] */
    assert_memory_equal(stub + 7, "\x48\x29\xfe", 3);
    assert_int_equal(jump_at(stub + 10, slab.stubs[0] + 10), BIAS + TAKEN + 3);
    assert_int_equal(slab.inlined[0], 0);
    assert_int_equal(slab_place(&slab, BIAS + TAKEN + 1, &other), SLAB_STEP);
    assert_int_equal(slab_place(&slab, BIAS + TAKEN + 3, &other), SLAB_FREE);
    slab_free(&slab);
    test_free(region.bytes);
    plan_free(&plan);
}

/* A call by a site that cannot be rewritten is counted by a hook: nothing of the function is lost. */
static void unseen_ways_get_a_hook(void **state)
{
    (void)state;
    struct plan_elf elf = {0};
    struct plan plan;
    /* 0x1000: jmp rel8 to 0x1008, no padding anywhere */
    add_function(&elf, "caller", "eb 3e", 1);
    elf.text.length = 2;
    elf.functions[0].size = 2;
    plan_elf_function(&elf, "callee", "\x48\x89\xf8\x48\x83\xc0\x01\xc3", 8, 1);
    elf.text.data[1] = 0;
    struct elf_image *image = plan_elf_image(&elf);
    assert_int_equal(plan_make(image, NULL, &plan, NULL), BASE_OK);
    /* jmp +0 goes to the next function's first byte */
    assert_int_equal(plan.header->site_count, 0);
    assert_int_equal(plan.header->hook_count, plan.header->reasons[STUB_REASON_NO_ISLAND]);
    plan_free(&plan);
    elf_image_close(image);
    plan_elf_free(&elf);
}

static void functions_left_alone(void **state)
{
    (void)state;
    struct plan_elf elf = {0};
    struct plan plan;
    add_function(&elf, "callee", "48 89 f8 48 83 c0 01 c3", 1);
    add_function(&elf, "broken", "e8 bb ff ff ff 06 c3 ; call callee; no instruction", 1);
    add_function(&elf, "assembly", "e8 7b ff ff ff c3    ; call callee, no call-frame information", 0);
    add_function(&elf, "good", "e8 3b ff ff ff c3", 1);
    struct elf_image *image = plan_elf_image(&elf);
    assert_int_equal(plan_make(image, NULL, &plan, NULL), BASE_OK);
    assert_int_equal(plan.header->reasons[STUB_REASON_UNDECODABLE], 1);
    assert_int_equal(plan.header->reasons[STUB_REASON_NO_CFI], 1);
    assert_int_equal(plan.header->site_count, 1);
    assert_string_equal(plan_function_name(&plan, plan.sites[0].function), "good");
    assert_int_equal(plan.header->hook_count,
                     1); /* the callee's: it is called from the assembly, unseen there */
    assert_int_equal(plan.header->covered, plan.header->callable);
    plan_free(&plan);
    elf_image_close(image);
    plan_elf_free(&elf);
}

static void named_thunks_and_profiling_hooks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum stub_reason reason;
    } cases[] = {
        {"__fentry__", STUB_REASON_PROFILING_HOOK},
        {"mcount", STUB_REASON_PROFILING_HOOK},
        {"__x86_indirect_thunk_rax", STUB_REASON_RETPOLINE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_elf elf = {0};
        struct plan plan;
        add_function(&elf, cases[i].name, "48 89 f8 48 83 c0 01 c3", 1);
        add_function(&elf, "caller", "e8 bb ff ff ff c3", 1);
        struct elf_image *image = plan_elf_image(&elf);
        assert_int_equal(plan_make(image, NULL, &plan, NULL), BASE_OK);
        assert_int_equal(plan.header->site_count, 0);
        assert_int_equal(plan.header->reasons[cases[i].reason], 1);
        plan_free(&plan);
        elf_image_close(image);
        plan_elf_free(&elf);
    }
}

/* Pieces of code that only jumps lead to: `caller` at 0x1000 jumps to `piece` at 0x1040, and at 0x1080 there is
 * a function `other`. */
struct pieces {
    const char *name, *piece, *caller;
    uint8_t frame_of_piece, frame_of_caller;
    enum stub_reason reason; /* why the jump is left alone; or STUB_FINE */
    const char *other;       /* NULL: returns */
};

static void judge_piece(const struct pieces *pieces)
{
    struct plan_elf elf = {0};
    struct plan plan;
    add_function(&elf, "caller", pieces->caller, 1);
    elf.functions[0].frame = pieces->frame_of_caller;
    add_function(&elf, pieces->name, pieces->piece, 1);
    elf.functions[1].frame = pieces->frame_of_piece;
    add_function(&elf, "other", pieces->other != NULL ? pieces->other : "c3", 1);
    struct elf_image *image = plan_elf_image(&elf);
    assert_int_equal(plan_make(image, NULL, &plan, NULL), BASE_OK);
    bool fine = pieces->reason == STUB_FINE;
    assert_int_equal(plan.header->reasons[STUB_REASON_FRAGMENT], pieces->reason == STUB_REASON_FRAGMENT);
    assert_int_equal(plan.header->reasons[STUB_REASON_FLAGS_LIVE], pieces->reason == STUB_REASON_FLAGS_LIVE);
    assert_int_equal(plan.header->site_count > 0 && plan.sites[0].target == 0x1040, fine);
    assert_int_equal(plan.functions[1].facts & PLAN_FUNCTION_COVERED, fine ? PLAN_FUNCTION_COVERED : 0);
    if (pieces->frame_of_caller == 0)
        assert_int_equal(plan.functions[1].facts & PLAN_FUNCTION_FRAGMENT,
                         pieces->reason == STUB_REASON_FRAGMENT ? PLAN_FUNCTION_FRAGMENT : 0);
    assert_int_equal(plan.header->hook_count, 0);
    plan_free(&plan);
    elf_image_close(image);
    plan_elf_free(&elf);
}

static void halves_of_functions_are_told_from_functions(void **state)
{
    (void)state;
    static const struct pieces cases[] = {
        /* The rest of a function whose beginning was inlined. */
        {"f.part.0", "48 89 f8 c3 ; mov rax, rdi", "e9 3b 00 00 00", 0, 0, STUB_FINE, NULL},
        {"f.part.0", "48 89 f8 c3", "0f 84 3a 00 00 00 c3", 0, 0, STUB_FINE, NULL},
        {"f.part.0", "48 89 f8 c3", "e9 3b 00 00 00", 0, 16, STUB_REASON_FRAGMENT, NULL},
        {"f.part.0", "48 89 f8 c3", "e9 3b 00 00 00", 16, 0, STUB_REASON_FRAGMENT, NULL},
        {"f.part.0", "0f 94 c0 c3 ; sete al", "e9 3b 00 00 00", 0, 0, STUB_REASON_FLAGS_LIVE, NULL},
        /* Whatever it looks like. */
        {"f.cold", "48 89 f8 c3", "e9 3b 00 00 00", 0, 0, STUB_REASON_FRAGMENT, NULL},
        {"f.part.0.cold", "48 89 f8 c3", "e9 3b 00 00 00", 0, 0, STUB_REASON_FRAGMENT, NULL},
        /* LLVM's: `other` calls it. */
        {"f.cold.1", "48 89 f8 c3", "e9 3b 00 00 00", 0, 0, STUB_FINE, "e8 bb ff ff ff c3"},
        {NULL, "48 89 f8 c3", "e9 3b 00 00 00", 0, 0, STUB_FINE, NULL},
        {NULL, "53 48 89 fb 31 c0 5b c3 ; push rbx; mov; xor eax, eax", "e9 3b 00 00 00", 0, 0, STUB_FINE,
         NULL},
        {NULL, "41 54 4c 89 64 24 f8 84 c0 41 5c c3 ; saves r12; test al, al", "e9 3b 00 00 00", 0, 0,
         STUB_FINE, NULL},
        /* `js f.cold` of a leaf with a red zone. */
        {NULL, "48 8b 44 24 f8 c3 ; mov rax, [rsp-8]", "85 ff 0f 88 38 00 00 00 c3", 0, 0,
         STUB_REASON_FRAGMENT, NULL},
        {NULL, "48 89 f8 c3", "e9 3b 00 00 00", 16, 0, STUB_REASON_FRAGMENT, NULL},
        {NULL, "48 89 f8 c3", "e9 3b 00 00 00", 0, 16, STUB_REASON_FRAGMENT, NULL},
        /* Registers that a function is not given: by value, as an address, to jump to, above the seventh. */
        {NULL, "48 89 c7 c3 ; mov rdi, rax", "e9 3b 00 00 00", 0, 0, STUB_REASON_FRAGMENT, NULL},
        {NULL, "49 8b 02 c3 ; mov rax, [r10]", "e9 3b 00 00 00", 0, 0, STUB_REASON_FRAGMENT, NULL},
        {NULL, "41 ff e3 ; jmp r11", "e9 3b 00 00 00", 0, 0, STUB_REASON_FRAGMENT, NULL},
        {NULL, "66 41 0f 6f c0 c3 ; movdqa xmm0, xmm8", "e9 3b 00 00 00", 0, 0, STUB_REASON_FRAGMENT, NULL},
        /* Comes back. */
        {NULL, "31 c0 e9 be ff ff ff ; xor eax, eax; jmp caller+5", "e9 3b 00 00 00 c3", 0, 0,
         STUB_REASON_FRAGMENT, NULL},
        /* Is entered in its middle too. */
        {NULL, "31 c0 90 c3", "e9 3b 00 00 00", 0, 0, STUB_REASON_FRAGMENT, "31 ff e9 bb ff ff ff"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        judge_piece(&cases[i]);
}

/* Five bytes of padding between the jump and an aligned label; where the label is not entered, or another
 * instruction than a jump stands before it, they may be more than that. */
static void islands_lie_inside_functions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t island;
    } cases[] = {
        {"0f 1f 44 00 00 90 90 90 90 90 90 90 90 90 90 90 90 90 90 85 ff 74 06 c3 0f 1f 44 00 00 eb dd "
         "; je to the jump; ret; nop",
         0x10ac},
        {"0f 1f 44 00 00 90 90 90 90 90 90 90 90 90 90 90 90 90 90 85 ff 74 06 90 0f 1f 44 00 00 eb dd "
         "; no ret",
         0},
        {"0f 1f 44 00 00 90 90 90 90 90 90 90 90 90 90 90 90 90 90 85 ff 74 05 c3 0f 1f 40 00 eb de "
         "; four bytes",
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan;
        plan_of_packed(&plan, cases[i].text);
        if (cases[i].island == 0) {
            assert_true(plan.header->site_count == 0 || plan.sites[0].island == 0);
        } else {
            assert_int_equal(plan.header->site_count, 1);
            assert_int_equal(plan.sites[0].kind, STUB_JUMP_SHORT);
            assert_int_equal(plan.sites[0].island, cases[i].island);
            assert_memory_equal(plan.sites[0].island_old, "\x0f\x1f\x44\x00\x00", 5);
        }
        plan_free(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_calls_and_jumps),
        cmocka_unit_test(two_byte_jumps_take_padding),
        cmocka_unit_test(two_byte_jumps_without_padding_move_others_too),
        cmocka_unit_test(two_byte_jumps_that_are_left_alone),
        cmocka_unit_test(indirect_calls_and_jumps),
        cmocka_unit_test(what_is_left_alone),
        cmocka_unit_test(flags_of_targets),
        cmocka_unit_test(a_call_proves_an_entry),
        cmocka_unit_test(hooks_of_functions_whose_address_is_taken),
        cmocka_unit_test(short_jumps_lead_to_hooks_over_islands),
        cmocka_unit_test(islands_of_hooks_are_taken),
        cmocka_unit_test(slabs_have_hooks_over_islands),
        cmocka_unit_test(unseen_ways_get_a_hook),
        cmocka_unit_test(functions_left_alone),
        cmocka_unit_test(named_thunks_and_profiling_hooks),
        cmocka_unit_test(halves_of_functions_are_told_from_functions),
        cmocka_unit_test(islands_lie_inside_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
