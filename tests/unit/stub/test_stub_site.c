/* test_stub_site.c - the bytes of each stub and of each rewritten site, for each form of the counter.
 * Stubs lie at 0x40000, the block at 0x50000 (or at gs:0x20000000), the counter is number 100. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "stub_bytes.h"
#include "stub_x86_64_site.h"

#define STUB 0x40000
#define SITE 0x1000

struct expected {
    const char *plain, *thread, *lock, *site;
};

static void expect_at(enum stub_kind kind, const char *old, uint64_t target, const struct expected *expected)
{
    const char *stubs[] = {expected->plain, expected->thread, expected->lock};
    uint8_t bytes[16], fresh[STUB_X86_64_SITE_MAX];
    size_t length = stub_bytes_read(old, bytes, sizeof bytes);
    struct stub_x86_64_request site = {.kind = kind,
                                       .length = (uint8_t)length,
                                       .address = SITE,
                                       .old = bytes,
                                       .target = target,
                                       .island = 0x1012};
    for (int form = STUB_PLAIN; form <= STUB_LOCK; form++) {
        struct stub_x86_64_counter counter = {form, 0x50000, 0x20000000, 100};
        struct stub_x86_64_code code;
        stub_x86_64_code_begin(&code, STUB);
        stub_x86_64_site(&code, &site, &counter);
        assert_int_equal(code.refused, STUB_FINE);
        stub_bytes_are(code.bytes, code.size, stubs[form]);
    }
    assert_int_equal(stub_x86_64_site_bytes(&site, STUB, fresh), STUB_FINE);
    stub_bytes_are(fresh, site.length, expected->site);
}

#define COUNT_PLAIN "48 ff 05 19 03 01 00        ; inc qword [rip+0x10319]\n"
#define COUNT_LOCK  "f0 48 ff 05 18 03 01 00     ; lock inc qword [rip+0x10318]\n"
#define COUNT_THREAD                                                                                         \
    "50                          ; push rax\n"                                                               \
    "65 48 8b 04 25 00 00 00 20  ; mov rax, gs:0x20000000\n"                                                 \
    "48 ff 80 20 03 00 00        ; inc qword [rax+0x320]\n"                                                  \
    "58                          ; pop rax\n"
#define COUNT_THREAD_UNMARK                                                                                  \
    "50                          ; push rax\n"                                                               \
    "65 48 8b 04 25 00 00 00 20  ; mov rax, gs:0x20000000\n"                                                 \
    "48 ff 80 20 03 00 00        ; inc qword [rax+0x320]\n"                                                  \
    "48 89 40 10                 ; mov [rax+0x10], rax\n"                                                    \
    "58                          ; pop rax\n"
#define COUNT_PLAIN_UNMARK COUNT_PLAIN "48 c7 05 fe ff 00 00 00 00 00 00 ; mov qword [0x50010], 0\n"
#define COUNT_PLAIN_MARK                                                                                     \
    COUNT_PLAIN                                                                                              \
    "48 89 25 02 00 01 00        ; mov [0x50010], rsp\n"                                                     \
    "48 c7 05 ff ff 00 00 9b ff ff ff ; mov qword [0x50018], ~100\n"
#define MARK_THREAD                                                                                          \
    "65 48 89 24 25 10 00 00 20  ; mov gs:0x20000010, rsp\n"                                                 \
    "65 48 c7 04 25 18 00 00 20 9b ff ff ff ; mov qword gs:0x20000018, ~100\n"
#define COUNT_THREAD_JUMP "65 48 ff 04 25 20 03 00 20  ; inc qword gs:0x20000320\n"

static const struct expected to_2000_called = {
    .plain = COUNT_PLAIN "e9 f4 1f fc ff ; jmp 0x2000\n",
    .thread = COUNT_THREAD "e9 e9 1f fc ff ; jmp 0x2000\n",
    .lock = COUNT_LOCK "e9 f3 1f fc ff ; jmp 0x2000\n",
};
static const struct expected to_2000_jumped = {
    .plain = COUNT_PLAIN "e9 f4 1f fc ff ; jmp 0x2000\n",
    .thread = COUNT_THREAD_JUMP "e9 f2 1f fc ff ; jmp 0x2000\n",
    .lock = COUNT_LOCK "e9 f3 1f fc ff ; jmp 0x2000\n",
};

static void expect_direct(enum stub_kind kind, const char *old, const struct expected *stubs,
                          const char *site)
{
    struct expected expected = *stubs;
    expected.site = site;
    expect_at(kind, old, 0x2000, &expected);
}

static void calls_get_a_new_displacement(void **state)
{
    (void)state;
    expect_direct(STUB_CALL, "e8 fb 0f 00 00", &to_2000_called, "e8 fb ef 03 00 ; call 0x40000\n");
    expect_direct(STUB_CALL, "66 48 e8 f9 0f 00 00", &to_2000_called,
                  "66 48 e8 f9 ef 03 00 ; as __tls_get_addr is called\n");
    expect_direct(STUB_CALL, "67 e8 fa 0f 00 00", &to_2000_called, "67 e8 fa ef 03 00\n");
    expect_direct(STUB_CALL, "2e e8 fa 0f 00 00", &to_2000_called, "2e e8 fa ef 03 00\n");
    expect_direct(STUB_CALL, "f2 e8 fa 0f 00 00", &to_2000_called, "f2 e8 fa ef 03 00 ; bnd call\n");
}

static void jumps_keep_off_the_stack(void **state)
{
    (void)state;
    expect_direct(STUB_JUMP, "e9 fb 0f 00 00", &to_2000_jumped, "e9 fb ef 03 00 ; jmp 0x40000\n");
    expect_direct(STUB_JUMP, "f2 e9 fa 0f 00 00", &to_2000_jumped, "f2 e9 fa ef 03 00 ; bnd jmp\n");
    expect_direct(STUB_BRANCH, "0f 84 fa 0f 00 00", &to_2000_jumped, "0f 84 fa ef 03 00 ; je 0x40000\n");
    expect_direct(STUB_BRANCH, "2e 0f 8f f9 0f 00 00", &to_2000_jumped,
                  "2e 0f 8f f9 ef 03 00 ; jg, hinted\n");
}

static void calls_through_the_got_are_replaced_whole(void **state)
{
    (void)state;
    expect_at(STUB_CALL_INDIRECT, "ff 15 fa 0f 00 00 ; call [rip+0xffa] = [0x2000]", 0,
              &(struct expected){.plain = COUNT_PLAIN_UNMARK "ff 25 e8 1f fc ff ; jmp [0x2000]\n",
                                 .thread = COUNT_THREAD_UNMARK "ff 25 e4 1f fc ff ; jmp [0x2000]\n",
                                 .lock = COUNT_LOCK "ff 25 f2 1f fc ff ; jmp [0x2000]\n",
                                 .site = "40 e8 fa ef 03 00 ; rex call 0x40000\n"});
    expect_at(STUB_JUMP_INDIRECT, "ff 25 fa 0f 00 00 ; jmp [0x2000]", 0,
              &(struct expected){.plain = COUNT_PLAIN_MARK "ff 25 e1 1f fc ff ; jmp [0x2000]\n",
                                 .thread = COUNT_THREAD_JUMP MARK_THREAD "ff 25 db 1f fc ff ; jmp [0x2000]\n",
                                 .lock = COUNT_LOCK "ff 25 f2 1f fc ff ; jmp [0x2000]\n",
                                 .site = "40 e9 fa ef 03 00 ; rex jmp 0x40000\n"});
    expect_at(STUB_CALL_INDIRECT, "f2 ff 15 f9 0f 00 00 ; bnd call [0x2000]", 0,
              &(struct expected){.plain = COUNT_PLAIN_UNMARK "f2 ff 25 e7 1f fc ff ; bnd jmp [0x2000]\n",
                                 .thread = COUNT_THREAD_UNMARK "f2 ff 25 e3 1f fc ff ; bnd jmp [0x2000]\n",
                                 .lock = COUNT_LOCK "f2 ff 25 f1 1f fc ff ; bnd jmp [0x2000]\n",
                                 .site = "2e 40 e8 f9 ef 03 00 ; cs rex call 0x40000\n"});
}

/* Each form counts and then jumps through `jump`. */
static void expect_indirect(enum stub_kind kind, const char *old, const char *jump, const char *site)
{
    char plain[512], thread[512], lock[512];
    bool is_jump = kind == STUB_JUMP_INDIRECT;
    const char *in_thread = is_jump ? COUNT_THREAD_JUMP MARK_THREAD : COUNT_THREAD_UNMARK;
    snprintf(plain, sizeof plain, "%s%s", is_jump ? COUNT_PLAIN_MARK : COUNT_PLAIN_UNMARK, jump);
    snprintf(thread, sizeof thread, "%s%s", in_thread, jump);
    snprintf(lock, sizeof lock, "%s%s", COUNT_LOCK, jump);
    expect_at(kind, old, 0, &(struct expected){plain, thread, lock, site});
}

static void long_indirect_calls_are_moved_whole(void **state)
{
    (void)state;
    expect_indirect(STUB_CALL_INDIRECT, "ff 90 88 00 00 00 ; call [rax+0x88]",
                    "ff a0 88 00 00 00 ; jmp [rax+0x88]", "40 e8 fa ef 03 00");
    expect_indirect(STUB_CALL_INDIRECT, "ff 14 c5 00 10 00 00 ; call [rax*8+0x1000]",
                    "ff 24 c5 00 10 00 00 ; jmp [rax*8+0x1000]", "2e 40 e8 f9 ef 03 00");
    expect_indirect(STUB_CALL_INDIRECT, "41 ff 54 c5 08 ; call [r13+rax*8+8]",
                    "41 ff 64 c5 08 ; jmp [r13+rax*8+8]", "e8 fb ef 03 00");
    expect_indirect(STUB_CALL_INDIRECT, "64 ff 14 25 10 00 00 00 ; call fs:0x10",
                    "64 ff 24 25 10 00 00 00 ; jmp fs:0x10", "2e 2e 40 e8 f8 ef 03 00");
    expect_indirect(STUB_CALL_INDIRECT, "3e ff 90 88 00 00 00 ; notrack call [rax+0x88]",
                    "3e ff a0 88 00 00 00 ; notrack jmp [rax+0x88]", "2e 40 e8 f9 ef 03 00");
    expect_indirect(STUB_JUMP_INDIRECT, "ff a0 88 00 00 00 ; jmp [rax+0x88]",
                    "ff a0 88 00 00 00 ; jmp [rax+0x88]", "40 e9 fa ef 03 00");
    expect_indirect(STUB_JUMP_INDIRECT, "ff a4 24 80 00 00 00 ; jmp [rsp+0x80]",
                    "ff a4 24 80 00 00 00 ; nothing was pushed", "2e 40 e9 f9 ef 03 00");
}

static void operands_on_the_stack_are_raised(void **state)
{
    (void)state;
    expect_indirect(STUB_CALL_INDIRECT, "ff 94 24 80 00 00 00 ; call [rsp+0x80]",
                    "ff a4 24 88 00 00 00 ; jmp [rsp+0x88]", "2e 40 e8 f9 ef 03 00");
    expect_indirect(STUB_CALL_INDIRECT, "ff 94 24 10 00 00 00 ; call [rsp+0x10], long",
                    "ff 64 24 18 ; jmp [rsp+0x18]", "2e 40 e8 f9 ef 03 00");
    expect_indirect(STUB_CALL_INDIRECT, "ff 94 cc f8 ff ff ff ; call [rsp+rcx*8-8]",
                    "ff 64 cc 00 ; jmp [rsp+rcx*8]", "2e 40 e8 f9 ef 03 00");
}

static void short_calls_move_with_what_stands_before(void **state)
{
    (void)state;
    static const struct expected grouped = {
        .plain = "48 8d 7c 24 08              ; lea rdi, [rsp+8] (was mov rdi, rsp)\n"
                 "48 ff 05 14 03 01 00        ; inc qword [rip+0x10314]\n"
                 "48 c7 05 f9 ff 00 00 00 00 00 00 ; mov qword [0x50010], 0\n"
                 "ff a4 24 80 00 00 00        ; jmp [rsp+0x80]\n",
        .thread = "48 8d 7c 24 08              ; lea rdi, [rsp+8]\n" COUNT_THREAD_UNMARK
                  "ff a4 24 80 00 00 00        ; jmp [rsp+0x80]\n",
        .lock = "48 8d 7c 24 08              ; lea rdi, [rsp+8]\n"
                "f0 48 ff 05 13 03 01 00     ; lock inc qword [rip+0x10313]\n"
                "ff a4 24 80 00 00 00        ; jmp [rsp+0x80]\n",
        .site = "2e 40 e8 f9 ef 03 00        ; call 0x40000\n",
    };
    expect_at(STUB_CALL_GROUP,
              "48 89 e7    ; mov rdi, rsp\n"
              "ff 54 24 78 ; call [rsp+0x78]",
              0, &grouped);
    uint8_t old[] = {0x48, 0x8b, 0x3d, 0x10, 0, 0, 0, 0xff, 0xd0}, fresh[STUB_X86_64_SITE_MAX];
    struct stub_x86_64_request site = {
        .kind = STUB_CALL_GROUP, .length = sizeof old, .address = SITE, .old = old};
    struct stub_x86_64_counter counter = {STUB_PLAIN, 0x50000, 0, 100};
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, STUB);
    stub_x86_64_site(&code, &site, &counter);
    stub_bytes_are(code.bytes, code.size,
                   "48 8b 3d 10 10 fc ff        ; mov rdi, [0x1017]\n"
                   "48 ff 05 12 03 01 00        ; inc qword [rip+0x10312]\n"
                   "48 c7 05 f7 ff 00 00 00 00 00 00 ; mov qword [0x50010], 0\n"
                   "ff e0                       ; jmp rax\n");
    assert_int_equal(stub_x86_64_site_bytes(&site, STUB, fresh), STUB_FINE);
    stub_bytes_are(fresh, sizeof old, "2e 2e 2e 40 e8 f7 ef 03 00  ; call 0x40000\n");
}

/* A jump pushes nothing, so what goes with it may even use the stack. */
static void short_jumps_move_with_what_stands_before(void **state)
{
    (void)state;
    static const struct expected grouped = {
        .plain = "48 83 c4 08                 ; add rsp, 8\n"
                 "5b                          ; pop rbx\n"
                 "48 ff 05 14 03 01 00        ; inc qword [rip+0x10314]\n"
                 "48 89 25 fd ff 00 00        ; mov [0x50010], rsp: as it is at the jump\n"
                 "48 c7 05 fa ff 00 00 9b ff ff ff ; mov qword [0x50018], ~100\n"
                 "ff e0                       ; jmp rax\n",
        .thread = "48 83 c4 08 5b\n" COUNT_THREAD_JUMP MARK_THREAD "ff e0 ; jmp rax\n",
        .lock = "48 83 c4 08 5b\n"
                "f0 48 ff 05 13 03 01 00     ; lock inc qword [rip+0x10313]\n"
                "ff e0                       ; jmp rax\n",
        .site = "2e 40 e9 f9 ef 03 00        ; jmp 0x40000\n",
    };
    expect_at(STUB_JUMP_GROUP,
              "48 83 c4 08 ; add rsp, 8\n"
              "5b          ; pop rbx\n"
              "ff e0       ; jmp rax",
              0, &grouped);
}

/* Two bytes that name a function move like those that do not, and leave no mark: they go past its hook. */
static void short_direct_jumps_move_with_what_stands_before(void **state)
{
    (void)state;
    static const struct expected grouped = {
        .plain = "0f b7 f0                    ; movzx esi, ax\n"
                 "48 ff 05 16 03 01 00        ; inc qword [rip+0x10316]\n"
                 "e9 71 10 fc ff              ; jmp 0x1080\n",
        .thread = "0f b7 f0\n" COUNT_THREAD_JUMP "e9 6f 10 fc ff ; jmp 0x1080\n",
        .lock = "0f b7 f0\n"
                "f0 48 ff 05 15 03 01 00     ; lock inc qword [rip+0x10315]\n"
                "e9 70 10 fc ff              ; jmp 0x1080\n",
        .site = "e9 fb ef 03 00              ; jmp 0x40000\n",
    };
    expect_at(STUB_JUMP_GROUP_SHORT,
              "0f b7 f0 ; movzx esi, ax\n"
              "eb 7b    ; jmp 0x1080",
              0x1080, &grouped);
}

static enum stub_reason refusal_of(enum stub_kind kind, const char *old)
{
    uint8_t bytes[16];
    size_t length = stub_bytes_read(old, bytes, sizeof bytes);
    struct stub_x86_64_request site = {
        .kind = kind, .length = (uint8_t)length, .address = SITE, .old = bytes};
    struct stub_x86_64_counter counter = {STUB_PLAIN, 0x50000, 0, 100};
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, STUB);
    stub_x86_64_site(&code, &site, &counter);
    return code.refused;
}

static void what_does_not_survive_is_refused(void **state)
{
    (void)state;
    static const char *const groups[] = {
        "50 41 5b ff d0          ; push rax; pop r11; call rax",
        "48 83 ec 08 ff d0       ; sub rsp, 8",
        "48 01 e7 ff d0          ; add rdi, rsp",
        "48 8b 7c 24 f0 ff d0    ; mov rdi, [rsp-16]: below the stack",
        "48 89 e4 ff d0          ; mov rsp, rsp",
        "66 89 e7 ff d0          ; mov di, sp",
        "c9 41 ff d3 ff d0       ; leave, and a call in the middle",
        "67 8b 05 00 00 00 00 ff d0 ; mov eax, [eip]",
        "0f 05 90 ff d4          ; call rsp",
        "9c 90 90 ff d0          ; pushf",
    };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        assert_int_equal(refusal_of(STUB_CALL_GROUP, groups[i]), STUB_REASON_IMMOVABLE);
    assert_int_equal(refusal_of(STUB_JUMP_GROUP_SHORT, "67 8b 05 00 00 00 00 eb 00 ; mov eax, [eip]; jmp"),
                     STUB_REASON_IMMOVABLE);
    assert_int_equal(refusal_of(STUB_JUMP_GROUP_SHORT, "06 06 06 eb 00 ; no instructions"),
                     STUB_REASON_IMMOVABLE);
    assert_int_equal(refusal_of(STUB_CALL_INDIRECT, "ff 94 24 f8 ff ff ff ; call [rsp-8]"),
                     STUB_REASON_IMMOVABLE);
    assert_int_equal(refusal_of(STUB_CALL_INDIRECT, "ff 98 00 00 00 00 ; far call"), STUB_REASON_IMMOVABLE);
    assert_int_equal(refusal_of(STUB_CALL_INDIRECT, "48 ff 98 00 00 00 00 ; far call"),
                     STUB_REASON_IMMOVABLE);
    assert_int_equal(refusal_of(STUB_CALL_INDIRECT, "67 ff 15 00 00 00 00 ; call [eip]"),
                     STUB_REASON_IMMOVABLE);
    assert_int_equal(refusal_of(STUB_CALL_INDIRECT, "06 06 06 06 06 ; no instruction"),
                     STUB_REASON_IMMOVABLE);
    assert_int_equal(refusal_of(STUB_CALL_GROUP, "06 06 06 06 06"), STUB_REASON_IMMOVABLE);
    assert_int_equal(refusal_of(STUB_CALL_GROUP, "90 90 90 e8 00"), STUB_REASON_IMMOVABLE);
}

/* Direct, but through a linkage stub: as the indirect ones. In the form LOCK nothing is marked. */
static void linkage_stubs_may_lead_to_a_hook(void **state)
{
    (void)state;
    static const char *const stubs[2][3] = {
        {COUNT_PLAIN_UNMARK "e9 e9 1f fc ff ; jmp 0x2000", COUNT_THREAD_UNMARK "e9 e5 1f fc ff ; jmp 0x2000",
         COUNT_LOCK "e9 f3 1f fc ff ; jmp 0x2000"},
        {COUNT_PLAIN_MARK "e9 e2 1f fc ff ; jmp 0x2000",
         COUNT_THREAD_JUMP MARK_THREAD "e9 dc 1f fc ff ; jmp 0x2000",
         COUNT_LOCK "e9 f3 1f fc ff ; jmp 0x2000"},
    };
    uint8_t old[] = {0xe8, 0xfb, 0x0f, 0, 0};
    for (int is_jump = 0; is_jump < 2; is_jump++)
        for (int form = STUB_PLAIN; form <= STUB_LOCK; form++) {
            struct stub_x86_64_request site = {.kind = is_jump ? STUB_JUMP : STUB_CALL,
                                               .length = 5,
                                               .address = SITE,
                                               .old = old,
                                               .target = 0x2000,
                                               .by_slot = true};
            struct stub_x86_64_counter counter = {form, 0x50000, 0x20000000, 100};
            struct stub_x86_64_code code;
            stub_x86_64_code_begin(&code, STUB);
            stub_x86_64_site(&code, &site, &counter);
            assert_int_equal(code.refused, STUB_FINE);
            stub_bytes_are(code.bytes, code.size, stubs[is_jump][form]);
        }
}

/* Where nobody would take it, no mark is left. */
static void quiet_jumps_leave_no_mark(void **state)
{
    (void)state;
    uint8_t old[] = {0xff, 0x25, 0xfa, 0x0f, 0, 0};
    static const char *const stubs[] = {COUNT_PLAIN "ff 25 f3 1f fc ff ; jmp [0x2000]",
                                        COUNT_THREAD_JUMP "ff 25 f1 1f fc ff ; jmp [0x2000]"};
    for (int form = STUB_PLAIN; form <= STUB_THREAD; form++) {
        struct stub_x86_64_request site = {
            .kind = STUB_JUMP_INDIRECT, .length = 6, .address = SITE, .old = old, .quiet = true};
        struct stub_x86_64_counter counter = {form, 0x50000, 0x20000000, 100};
        struct stub_x86_64_code code;
        stub_x86_64_code_begin(&code, STUB);
        stub_x86_64_site(&code, &site, &counter);
        stub_bytes_are(code.bytes, code.size, stubs[form]);
    }
}

static void two_byte_jumps_go_over_an_island(void **state)
{
    (void)state;
    uint8_t old[] = {0xeb, 0x10}, condition[] = {0x74, 0x10}, fresh[STUB_X86_64_SITE_MAX], island[5];
    struct stub_x86_64_request site = {.kind = STUB_JUMP_SHORT,
                                       .length = 2,
                                       .address = SITE,
                                       .old = old,
                                       .target = 0x1012,
                                       .island = 0x1081};
    assert_int_equal(stub_x86_64_site_bytes(&site, STUB, fresh), STUB_FINE);
    stub_bytes_are(fresh, 2, "eb 7f ; jmp 0x1081");
    site.island = 0xf82;
    site.kind = STUB_BRANCH_SHORT;
    site.old = condition;
    assert_int_equal(stub_x86_64_site_bytes(&site, STUB, fresh), STUB_FINE);
    stub_bytes_are(fresh, 2, "74 80 ; je 0xf82");
    site.island = 0xf81;
    assert_int_equal(stub_x86_64_site_bytes(&site, STUB, fresh), STUB_REASON_NO_ISLAND);
    site.island = 0x1082;
    assert_int_equal(stub_x86_64_site_bytes(&site, STUB, fresh), STUB_REASON_NO_ISLAND);
    assert_int_equal(stub_x86_64_site_island(0xf82, STUB, island), STUB_FINE);
    stub_bytes_are(island, 5, "e9 79 f0 03 00 ; jmp 0x40000");
    assert_int_equal(stub_x86_64_site_island(0xf82, 0xf87 + 0x80000000, island), STUB_REASON_OUT_OF_REACH);
}

/* Whatever it names, it is as long as before. */
static void short_indirect_jumps_go_over_an_island(void **state)
{
    (void)state;
    static const struct {
        const char *old, *fresh;
    } cases[] = {
        {"ff e0 ; jmp rax", "eb 7f ; jmp 0x1081"},
        {"41 ff e3 ; jmp r11", "2e eb 7e"},
        {"ff 60 18 ; jmp [rax+0x18]", "2e eb 7e"},
        {"41 ff 62 08 ; jmp [r10+8]", "2e 2e eb 7d"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t old[STUB_X86_64_SITE_MAX], fresh[STUB_X86_64_SITE_MAX];
        struct stub_x86_64_request site = {.kind = STUB_JUMP_INDIRECT_SHORT,
                                           .length = (uint8_t)stub_bytes_read(cases[i].old, old, sizeof old),
                                           .address = SITE,
                                           .old = old,
                                           .island = 0x1081};
        assert_int_equal(stub_x86_64_site_bytes(&site, STUB, fresh), STUB_FINE);
        stub_bytes_are(fresh, site.length, cases[i].fresh);
        site.island = SITE + site.length - 129u;
        assert_int_equal(stub_x86_64_site_bytes(&site, STUB, fresh), STUB_REASON_NO_ISLAND);
    }
    static const struct expected alone = {
        .plain = "48 ff 05 19 03 01 00        ; inc qword [rip+0x10319]\n"
                 "48 89 25 02 00 01 00        ; mov [0x50010], rsp\n"
                 "48 c7 05 ff ff 00 00 9b ff ff ff ; mov qword [0x50018], ~100\n"
                 "ff e0                       ; jmp rax\n",
        .thread = COUNT_THREAD_JUMP MARK_THREAD "ff e0 ; jmp rax\n",
        .lock = "f0 48 ff 05 18 03 01 00     ; lock inc qword [rip+0x10318]\n"
                "ff e0                       ; jmp rax\n",
        .site = "eb 10                       ; jmp 0x1012\n",
    };
    expect_at(STUB_JUMP_INDIRECT_SHORT, "ff e0 ; jmp rax", 0, &alone);
}

/* A branch leaves the group before anything is counted. */
static void branches_move_with_a_jump(void **state)
{
    (void)state;
    static const struct expected grouped = {
        .plain = "85 ff                       ; test edi, edi\n"
                 "0f 84 00 10 fc ff           ; je 0x1008\n"
                 "48 ff 05 11 03 01 00        ; inc qword [rip+0x10311]\n"
                 "48 89 25 fa ff 00 00        ; mov [0x50010], rsp\n"
                 "48 c7 05 f7 ff 00 00 9b ff ff ff ; mov qword [0x50018], ~100\n"
                 "ff e0                       ; jmp rax\n",
        .thread = "85 ff 0f 84 00 10 fc ff\n" COUNT_THREAD_JUMP MARK_THREAD "ff e0 ; jmp rax\n",
        .lock = "85 ff 0f 84 00 10 fc ff\n"
                "f0 48 ff 05 10 03 01 00     ; lock inc qword [rip+0x10310]\n"
                "ff e0                       ; jmp rax\n",
        .site = "40 e9 fa ef 03 00           ; jmp 0x40000\n",
    };
    expect_at(STUB_JUMP_GROUP,
              "85 ff       ; test edi, edi\n"
              "74 04       ; je 0x1008\n"
              "ff e0       ; jmp rax",
              0, &grouped);
}

/* A displacement is good from -2^31 to 2^31 - 1, counted from the end of its instruction. */
static void reach_ends_at_two_gigabytes(void **state)
{
    (void)state;
    uint8_t call[] = {0xe8, 0, 0, 0, 0}, fresh[STUB_X86_64_SITE_MAX];
    uint64_t site_address = UINT64_C(0x7f1234560000), next = site_address + 5;
    struct stub_x86_64_request site = {.kind = STUB_CALL, .length = 5, .address = site_address, .old = call};
    assert_int_equal(stub_x86_64_site_bytes(&site, next + 0x7fffffff, fresh), STUB_FINE);
    stub_bytes_are(fresh, 5, "e8 ff ff ff 7f");
    assert_int_equal(stub_x86_64_site_bytes(&site, next + 0x80000000, fresh), STUB_REASON_OUT_OF_REACH);
    assert_int_equal(stub_x86_64_site_bytes(&site, next - 0x80000000, fresh), STUB_FINE);
    stub_bytes_are(fresh, 5, "e8 00 00 00 80");
    assert_int_equal(stub_x86_64_site_bytes(&site, next - 0x80000001, fresh), STUB_REASON_OUT_OF_REACH);

    /* The counter: inc at `stub`, 7 bytes; then the target of the jump at stub + 7, 5 bytes. */
    uint64_t stub = next + 0x1000;
    struct stub_x86_64_counter counter = {STUB_PLAIN, stub + 7 + 0x7fffffff - 800, 0, 100};
    struct stub_x86_64_code code;
    site.target = stub + 12 + 0x7fffffff;
    stub_x86_64_code_begin(&code, stub);
    stub_x86_64_site(&code, &site, &counter);
    assert_int_equal(code.refused, STUB_FINE);
    stub_bytes_are(code.bytes, code.size, "48 ff 05 ff ff ff 7f e9 ff ff ff 7f");
    counter.block++;
    stub_x86_64_code_begin(&code, stub);
    stub_x86_64_site(&code, &site, &counter);
    assert_int_equal(code.refused, STUB_REASON_OUT_OF_REACH);
    counter.block = stub;
    site.target++;
    stub_x86_64_code_begin(&code, stub);
    stub_x86_64_site(&code, &site, &counter);
    assert_int_equal(code.refused, STUB_REASON_OUT_OF_REACH);
    counter = (struct stub_x86_64_counter){STUB_THREAD, 0, 0x20000000, (0x80000000u - 0x20000000u) / 8};
    site.target = stub;
    stub_x86_64_code_begin(&code, stub);
    stub_x86_64_site(&code, &site, &counter);
    assert_int_equal(code.refused, STUB_REASON_TOO_MANY);
}

/* --- guesses: the callee 0x1234567890, whose calls go on at 0x3000 and are counted in number 200 --- */

static enum stub_reason guess_at(enum stub_kind kind, const char *old, enum stub_form form,
                                 struct stub_x86_64_code *code)
{
    uint8_t bytes[16];
    size_t length = stub_bytes_read(old, bytes, sizeof bytes);
    struct stub_x86_64_request site = {
        .kind = kind, .length = (uint8_t)length, .address = SITE, .old = bytes, .target = 0x2000};
    struct stub_x86_64_counter counter = {form, 0x50000, 0x20000000, 100};
    struct stub_x86_64_guess guess = {0x1234567890, 0x3000, 200};
    stub_x86_64_code_begin(code, STUB);
    stub_x86_64_site_guessing(code, &site, &counter, &guess);
    return code->refused;
}

static void expect_guess(enum stub_kind kind, const char *old, enum stub_form form, const char *expected)
{
    struct stub_x86_64_code code;
    assert_int_equal(guess_at(kind, old, form, &code), STUB_FINE);
    stub_bytes_are(code.bytes, code.size, expected);
}

#define GUESSED_THREAD                                                                                       \
    "50                          ; push rax\n"                                                               \
    "65 48 8b 04 25 00 00 00 20  ; mov rax, gs:0x20000000\n"                                                 \
    "48 ff 80 40 06 00 00        ; inc qword [rax+0x640]\n"                                                  \
    "58                          ; pop rax\n"
#define CALLEE "90 78 56 34 12 00 00 00     ; 0x1234567890\n"

static void guesses_of_registers_are_compared_as_they_are(void **state)
{
    (void)state;
    static const char call_r11[] = "48 8b 07 41 ff d3 ; mov rax, [rdi]; call r11";
    expect_guess(STUB_CALL_GROUP, call_r11, STUB_PLAIN,
                 "48 8b 07                    ; mov rax, [rdi]\n"
                 "4c 3b 1d 26 00 00 00        ; cmp r11, [0x40030]\n"
                 "75 0c                       ; jne 0x40018\n"
                 "48 ff 05 2d 06 01 00        ; inc qword [0x50640]\n"
                 "e9 e8 2f fc ff              ; jmp 0x3000\n"
                 "48 ff 05 01 03 01 00        ; inc qword [0x50320]\n"
                 "48 c7 05 e6 ff 00 00 00 00 00 00 ; mov qword [0x50010], 0\n"
                 "41 ff e3                    ; jmp r11\n"
                 "cc cc cc                    ; 0x40030:\n" CALLEE);
    expect_guess(STUB_CALL_GROUP, call_r11, STUB_THREAD,
                 "48 8b 07                    ; mov rax, [rdi]\n"
                 "4c 3b 1d 36 00 00 00        ; cmp r11, [0x40040]\n"
                 "75 17                       ; jne 0x40023\n" GUESSED_THREAD
                 "e9 dd 2f fc ff              ; jmp 0x3000\n" COUNT_THREAD_UNMARK
                 "41 ff e3                    ; jmp r11\n"
                 "cc cc cc cc                 ; 0x40040:\n" CALLEE);
    expect_guess(STUB_CALL_GROUP, call_r11, STUB_LOCK,
                 "48 8b 07                    ; mov rax, [rdi]\n"
                 "4c 3b 1d 1e 00 00 00        ; cmp r11, [0x40028]\n"
                 "75 0d                       ; jne 0x40019\n"
                 "f0 48 ff 05 2c 06 01 00     ; lock inc qword [0x50640]\n"
                 "e9 e7 2f fc ff              ; jmp 0x3000\n"
                 "f0 48 ff 05 ff 02 01 00     ; lock inc qword [0x50320]\n"
                 "41 ff e3                    ; jmp r11\n"
                 "cc cc cc cc                 ; 0x40028:\n" CALLEE);
}

static void guesses_of_jumps_leave_no_mark(void **state)
{
    (void)state;
    static const char jump_rax[] = "48 8b 07 ff e0 ; mov rax, [rdi]; jmp rax";
    expect_guess(STUB_JUMP_GROUP, jump_rax, STUB_PLAIN,
                 "48 8b 07                    ; mov rax, [rdi]\n"
                 "48 3b 05 2e 00 00 00        ; cmp rax, [0x40038]\n"
                 "75 0c                       ; jne 0x40018\n"
                 "48 ff 05 2d 06 01 00        ; inc qword [0x50640]\n"
                 "e9 e8 2f fc ff              ; jmp 0x3000\n"
                 "48 ff 05 01 03 01 00        ; inc qword [0x50320]\n"
                 "48 89 25 ea ff 00 00        ; mov [0x50010], rsp\n"
                 "48 c7 05 e7 ff 00 00 9b ff ff ff ; mov qword [0x50018], ~100\n"
                 "ff e0                       ; jmp rax\n"
                 "cc cc cc cc cc              ; 0x40038:\n" CALLEE);
    expect_guess(STUB_JUMP_GROUP, jump_rax, STUB_THREAD,
                 "48 8b 07                    ; mov rax, [rdi]\n"
                 "48 3b 05 36 00 00 00        ; cmp rax, [0x40040]\n"
                 "75 0e                       ; jne 0x4001a\n"
                 "65 48 ff 04 25 40 06 00 20  ; inc qword gs:0x20000640\n"
                 "e9 e6 2f fc ff              ; jmp 0x3000\n" COUNT_THREAD_JUMP MARK_THREAD
                 "ff e0                       ; jmp rax\n"
                 "cc cc cc cc cc              ; 0x40040:\n" CALLEE);
}

static void guesses_of_memory_go_by_a_saved_register(void **state)
{
    (void)state;
    expect_guess(STUB_CALL_INDIRECT, "ff 15 fa 0f 00 00 ; call [0x2000]", STUB_PLAIN,
                 "51                          ; push rcx\n"
                 "48 8b 0d f8 1f fc ff        ; mov rcx, [0x2000]\n"
                 "48 3b 0d 29 00 00 00        ; cmp rcx, [0x40038]\n"
                 "59                          ; pop rcx\n"
                 "75 0c                       ; jne 0x4001e\n"
                 "48 ff 05 27 06 01 00        ; inc qword [0x50640]\n"
                 "e9 e2 2f fc ff              ; jmp 0x3000\n"
                 "48 ff 05 fb 02 01 00        ; inc qword [0x50320]\n"
                 "48 c7 05 e0 ff 00 00 00 00 00 00 ; mov qword [0x50010], 0\n"
                 "ff 25 ca 1f fc ff           ; jmp [0x2000]\n"
                 "cc cc                       ; 0x40038:\n" CALLEE);
    expect_guess(STUB_CALL_INDIRECT, "41 ff 94 c5 00 01 00 00 ; call [r13+rax*8+0x100]", STUB_THREAD,
                 "51                          ; push rcx\n"
                 "49 8b 8c c5 00 01 00 00     ; mov rcx, [r13+rax*8+0x100]\n"
                 "48 3b 0d 38 00 00 00        ; cmp rcx, [0x40048]\n"
                 "59                          ; pop rcx\n"
                 "75 17                       ; jne 0x4002a\n" GUESSED_THREAD
                 "e9 d6 2f fc ff              ; jmp 0x3000\n" COUNT_THREAD_UNMARK
                 "41 ff a4 c5 00 01 00 00     ; jmp [r13+rax*8+0x100]\n" CALLEE);
    expect_guess(STUB_CALL_GROUP, "48 89 e7 ff 54 24 08 ; mov rdi, rsp; call [rsp+8]", STUB_LOCK,
                 "48 8d 7c 24 08              ; lea rdi, [rsp+8]\n"
                 "51                          ; push rcx\n"
                 "48 8b 4c 24 18              ; mov rcx, [rsp+24]\n"
                 "48 3b 0d 1e 00 00 00        ; cmp rcx, [0x40030]\n"
                 "59                          ; pop rcx\n"
                 "75 0d                       ; jne 0x40022\n"
                 "f0 48 ff 05 23 06 01 00     ; lock inc qword [0x50640]\n"
                 "e9 de 2f fc ff              ; jmp 0x3000\n"
                 "f0 48 ff 05 f6 02 01 00     ; lock inc qword [0x50320]\n"
                 "ff 64 24 10                 ; jmp [rsp+16]\n"
                 "cc cc                       ; 0x40030:\n" CALLEE);
}

static void guesses_that_need_more_are_refused(void **state)
{
    (void)state;
    struct stub_x86_64_code code;
    static const struct {
        enum stub_kind kind;
        const char *old;
    } refused[] = {
        {STUB_JUMP_INDIRECT, "ff 25 fa 0f 00 00 ; jmp [0x2000]: no stack to save a register on"},
        {STUB_CALL_GROUP, "48 8b 07 3e ff d0 ; notrack call rax"},
        {STUB_CALL_INDIRECT, "64 ff 14 25 00 00 00 00 ; call fs:[0]"},
        {STUB_CALL_GROUP, "48 8b 07 ff d4 ; call rsp"},
        {STUB_CALL, "e8 fb 0f 00 00 ; it goes to one function anyway"},
        {STUB_CALL_GROUP, "06 06 06 06 06 ; no instruction"},
    };
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++)
        for (enum stub_form form = STUB_PLAIN; form <= STUB_LOCK; form++)
            assert_int_equal(guess_at(refused[i].kind, refused[i].old, form, &code), STUB_REASON_IMMOVABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_get_a_new_displacement),
        cmocka_unit_test(jumps_keep_off_the_stack),
        cmocka_unit_test(calls_through_the_got_are_replaced_whole),
        cmocka_unit_test(long_indirect_calls_are_moved_whole),
        cmocka_unit_test(operands_on_the_stack_are_raised),
        cmocka_unit_test(short_calls_move_with_what_stands_before),
        cmocka_unit_test(short_jumps_move_with_what_stands_before),
        cmocka_unit_test(short_direct_jumps_move_with_what_stands_before),
        cmocka_unit_test(what_does_not_survive_is_refused),
        cmocka_unit_test(linkage_stubs_may_lead_to_a_hook),
        cmocka_unit_test(quiet_jumps_leave_no_mark),
        cmocka_unit_test(two_byte_jumps_go_over_an_island),
        cmocka_unit_test(short_indirect_jumps_go_over_an_island),
        cmocka_unit_test(branches_move_with_a_jump),
        cmocka_unit_test(reach_ends_at_two_gigabytes),
        cmocka_unit_test(guesses_of_registers_are_compared_as_they_are),
        cmocka_unit_test(guesses_of_jumps_leave_no_mark),
        cmocka_unit_test(guesses_of_memory_go_by_a_saved_register),
        cmocka_unit_test(guesses_that_need_more_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
