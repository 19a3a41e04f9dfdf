/* The doorbell's bytes, those of the stubs that lead to it, and the functions whose place it can take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "stub_bytes.h"
#include "stub_x86_64_doorbell.h"

static const char doorbell_bytes[] = "50                      ; push rax\n"
                                     "9c                      ; pushfq\n"
                                     "48 b8 78 56 34 12 00 7f 00 00 ; mov rax, 0x7f0012345678\n"
                                     "83 78 00 00             ; cmp dword [rax], 0        active\n"
                                     "75 03                   ; jne 0x40015\n"
                                     "9d                      ; popfq\n"
                                     "58                      ; pop rax\n"
                                     "c3                      ; ret\n"
                                     "51 52 53 55 56 57       ; push rcx, rdx, rbx, rbp, rsi, rdi\n"
                                     "41 50 41 51             ; push r8, r9\n"
                                     "41 52 41 53             ; push r10, r11\n"
                                     "48 89 c3                ; mov rbx, rax\n"
                                     "bd 01 00 00 00          ; mov ebp, 1\n"
                                     "f0 0f c1 6b 08          ; lock xadd [rbx+8], ebp    notified\n"
                                     "ff c5                   ; inc ebp\n"
                                     "f0 ff 43 10             ; lock inc dword [rbx+16]   waiting\n"
                                     "48 8d 7b 08             ; lea rdi, [rbx+8]\n"
                                     "be 01 00 00 00          ; mov esi, 1                FUTEX_WAKE\n"
                                     "ba 01 00 00 00          ; mov edx, 1\n"
                                     "b8 ca 00 00 00          ; mov eax, 202              futex\n"
                                     "0f 05                   ; syscall\n"
                                     "44 8b 4b 14             ; mov r9d, [rbx+20]         beats\n"
                                     "41 ff c9                ; dec r9d\n"
                                     "83 7b 00 00             ; cmp dword [rbx], 0\n"
                                     "74 5a                   ; je 0x400b2\n"
                                     "8b 43 14                ; mov eax, [rbx+20]         beats\n"
                                     "41 91                   ; xchg eax, r9d\n"
                                     "44 39 c8                ; cmp eax, r9d\n"
                                     "74 06                   ; je 0x40068\n"
                                     "41 b8 00 50 00 00       ; mov r8d, 5 * 4096\n"
                                     "8b 53 0c                ; mov edx, [rbx+12]         answered\n"
                                     "89 d0                   ; mov eax, edx\n"
                                     "29 e8                   ; sub eax, ebp\n"
                                     "79 41                   ; jns 0x400b2\n"
                                     "45 85 c0                ; test r8d, r8d\n"
                                     "7e 35                   ; jle 0x400ab\n"
                                     "48 8d 7b 0c             ; lea rdi, [rbx+12]\n"
                                     "31 f6                   ; xor esi, esi              FUTEX_WAIT\n"
                                     "4c 8d 15 46 00 00 00    ; lea r10, [0x400c9]\n"
                                     "b8 ca 00 00 00          ; mov eax, 202\n"
                                     "0f 05                   ; syscall\n"
                                     "83 f8 92                ; cmp eax, -110             -ETIMEDOUT\n"
                                     "74 13                   ; je 0x400a2\n"
                                     "41 ff c8                ; dec r8d\n"
                                     "85 c0                   ; test eax, eax\n"
                                     "74 bc                   ; je 0x40052\n"
                                     "83 f8 fc                ; cmp eax, -4               -EINTR\n"
                                     "74 b7                   ; je 0x40052\n"
                                     "83 f8 f5                ; cmp eax, -11              -EAGAIN\n"
                                     "74 b2                   ; je 0x40052\n"
                                     "eb 10                   ; jmp 0x400b2\n"
                                     "41 81 e8 00 10 00 00    ; sub r8d, 4096\n"
                                     "eb a7                   ; jmp 0x40052\n"
                                     "c7 43 00 00 00 00 00    ; mov dword [rbx], 0\n"
                                     "f0 ff 4b 10             ; lock dec dword [rbx+16]\n"
                                     "41 5b 41 5a             ; pop r11, r10\n"
                                     "41 59 41 58             ; pop r9, r8\n"
                                     "5f 5e 5d 5b 5a 59       ; pop rdi, rsi, rbp, rbx, rdx, rcx\n"
                                     "e9 49 ff ff ff          ; jmp 0x40012\n"
                                     "00 00 00 00 00 00 00 00 ; 0 s\n"
                                     "80 f0 fa 02 00 00 00 00 ; 50,000,000 ns\n";

static void the_doorbell_is_these_bytes(void **state)
{
    (void)state;
    struct stub_x86_64_code code;
    struct stub_x86_64_doorbell doorbell = {UINT64_C(0x7f0012345678), STUB_DOORBELL_TIMEOUT,
                                            STUB_DOORBELL_ROUNDS, offsetof(struct stub_doorbell, active)};
    stub_x86_64_code_begin(&code, 0x40000);
    stub_x86_64_doorbell(&code, &doorbell);
    assert_int_equal(code.refused, STUB_FINE);
    stub_bytes_are(code.bytes, code.size, doorbell_bytes);
    doorbell.timeout = 2500;
    stub_x86_64_code_begin(&code, 0x40000);
    stub_x86_64_doorbell(&code, &doorbell);
    stub_bytes_are(code.bytes + code.size - 16, 16,
                   "02 00 00 00 00 00 00 00 00 65 cd 1d 00 00 00 00 ; 2 s, 500,000,000 ns");
    doorbell.rounds = 1 << 19;
    stub_x86_64_code_begin(&code, 0x40000);
    stub_x86_64_doorbell(&code, &doorbell);
    assert_int_equal(code.refused, STUB_REASON_TOO_MANY);
}

/* The doorbell of creations differs in three bytes. */
static void creations_have_a_doorbell_of_their_own(void **state)
{
    (void)state;
    struct stub_x86_64_code code, other;
    struct stub_x86_64_doorbell doorbell = {UINT64_C(0x7f0012345678), STUB_DOORBELL_TIMEOUT,
                                            STUB_DOORBELL_ROUNDS, 0};
    stub_x86_64_code_begin(&code, 0x40000);
    stub_x86_64_doorbell(&code, &doorbell);
    doorbell.enabled = offsetof(struct stub_doorbell, creations);
    stub_x86_64_code_begin(&other, 0x40000);
    stub_x86_64_doorbell(&other, &doorbell);
    assert_int_equal(other.refused, STUB_FINE);
    stub_bytes_are(other.bytes + 12, 4, "83 78 04 00 ; cmp dword [rax+4], 0");
    stub_bytes_are(other.bytes + 0x52, 4, "83 7b 04 00 ; cmp dword [rbx+4], 0");
    stub_bytes_are(other.bytes + 0xab, 7, "c7 43 04 00 00 00 00 ; mov dword [rbx+4], 0");
    unsigned differences = 0;
    assert_int_equal(code.size, other.size);
    for (unsigned i = 0; i < code.size; i++)
        differences += code.bytes[i] != other.bytes[i];
    assert_int_equal(differences, 3);
}

static void expect_creation_stub(const struct stub_x86_64_creation *creation, const char *bytes)
{
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, 0x40000);
    stub_x86_64_doorbell_stub(&code, creation);
    assert_int_equal(code.refused, STUB_FINE);
    stub_bytes_are(code.bytes, code.size, bytes);
}

static void stubs_of_creations_are_these_bytes(void **state)
{
    (void)state;
    static const uint8_t vfork_begins[] = {0x5f, 0xb8, 0x3a, 0, 0, 0}; /* pop rdi; mov eax, 58 */
    static const uint8_t syscall_begins[] = {0x48, 0x89, 0xf8,
                                             0x48, 0x89, 0xf7}; /* mov rax, rdi; mov rdi, rsi */
    static const uint32_t numbers[] = {56, 435};
    const struct stub_x86_64_creation of_vfork = {0x50000, 0x41000, vfork_begins, sizeof vfork_begins, 0,
                                                  NULL,    0};
    const struct stub_x86_64_creation of_syscall = {
        0x50000, 0x41000, syscall_begins, sizeof syscall_begins, 7, numbers, 2};
    expect_creation_stub(&of_vfork, "e8 fb 0f 00 00       ; call 0x41000\n"
                                    "5f b8 3a 00 00 00    ; pop rdi; mov eax, 58\n"
                                    "e9 f6 ff 00 00       ; jmp 0x50006\n");
    expect_creation_stub(&of_syscall, "9c                   ; pushfq\n"
                                      "81 ff 38 00 00 00    ; cmp edi, 56\n"
                                      "74 0b                ; je 0x40014\n"
                                      "81 ff b3 01 00 00    ; cmp edi, 435\n"
                                      "74 03                ; je 0x40014\n"
                                      "9d                   ; popfq\n"
                                      "eb 06                ; jmp 0x4001a\n"
                                      "9d                   ; popfq\n"
                                      "e8 e6 0f 00 00       ; call 0x41000\n"
                                      "48 89 f8 48 89 f7    ; mov rax, rdi; mov rdi, rsi\n"
                                      "e9 e1 ff 00 00       ; jmp 0x50006\n");
}

static void the_jump_reaches_two_gigabytes(void **state)
{
    (void)state;
    uint8_t fresh[STUB_X86_64_DOORBELL_JUMP];
    assert_true(stub_x86_64_doorbell_bytes(0x1000, 0x40000, fresh));
    stub_bytes_are(fresh, sizeof fresh, "e9 fb ef 03 00 ; jmp 0x40000");
    assert_true(stub_x86_64_doorbell_bytes(0x1000, UINT64_C(0x1005) + 0x7fffffff, fresh));
    assert_false(stub_x86_64_doorbell_bytes(0x1000, 0x1005 + UINT64_C(0x80000000), fresh));
}

static bool fits_doorbell(const char *text)
{
    uint8_t bytes[STUB_X86_64_DOORBELL_LOOK];
    return stub_x86_64_doorbell_fits(bytes, stub_bytes_read(text, bytes, sizeof bytes));
}

static void only_empty_functions_fit(void **state)
{
    (void)state;
    static const char *const empty[] = {
        "c3 66 66 2e 0f 1f 84 00 00 00 00 00 ; ret; nop of eleven bytes: glibc",
        "c3 66 2e 0f 1f 84 00 00 00 00 00    ; musl",
        "f3 0f 1e fa c3                      ; endbr64; ret, and nothing more is needed",
        "f3 0f 1e fa f3 c3                   ; endbr64; repz ret",
        "f3 c3 0f 1f 00                      ; repz ret; nop",
        "f2 c3 0f 1f 00                      ; bnd ret; nop",
        "90 90 c3 90 90                      ; nop; nop; ret; nop; nop",
        "c3 cc cc cc cc                      ; int3 as padding",
        "66 90 66 90 c3",
    };
    static const char *const others[] = {
        "c3                                  ; the end of the text",
        "c3 90 90 90",
        "c3 48 89 e5 c3                      ; another function behind",
        "cc 90 90 90 c3                      ; a debugger's breakpoint",
        "cc 0f 1e fa c3                      ; the same over endbr64",
        "c3 90 90 90 c3                      ; another ret",
        "c2 08 00 90 90                      ; ret 8",
        "cb 90 90 90 90                      ; far ret",
        "90 90 90 90 90                      ; goes on",
        "f3 0f 1e fa 90 c3                   ; the ret is behind the five",
        "e9 00 00 00 00                      ; jmp: somebody's hook",
        "c3 66 66 2e 0f                      ; the nop is cut off",
        "c3 0f 05 90 90                      ; syscall",
        "55 c3 90 90 90                      ; push rbp",
        "c3 06 06 06 06                      ; no instruction",
        "",
    };
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (!fits_doorbell(empty[i]))
            fail_msg("refused: %s", empty[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (fits_doorbell(others[i]))
            fail_msg("taken: %s", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_doorbell_is_these_bytes),
        cmocka_unit_test(creations_have_a_doorbell_of_their_own),
        cmocka_unit_test(stubs_of_creations_are_these_bytes),
        cmocka_unit_test(the_jump_reaches_two_gigabytes),
        cmocka_unit_test(only_empty_functions_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
