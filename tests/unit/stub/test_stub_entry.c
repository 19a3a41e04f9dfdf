/* test_stub_entry.c - the bytes of entry hooks and of their recorder, and which functions can be hooked. The
 * function lies at 0x1000, the hook at 0x40000, the recorder at 0x41000, the block at 0x50000 or
 * gs:0x20000000. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "stub_bytes.h"
#include "stub_x86_64_entry.h"

/* push rbp; mov rbp, rsp; je 0x1016 - for PLAIN, THREAD, LOCK */
static const char *const hooks[] = {
    "48 3b 25 09 00 01 00       ; cmp rsp,qword [rip+0x10009]\n"
    "0f 84 86 00 00 00          ; je 0x40093\n"
    "51                         ; push rcx\n"
    "48 8b 4c 24 08             ; mov rcx,qword [rsp+0x8]\n"
    "48 3b 0d 06 03 01 00       ; cmp rcx,qword [rip+0x10306]\n"
    "0f 85 17 00 00 00          ; jne 0x40037\n"
    "48 ff 05 01 03 01 00       ; inc qword [rip+0x10301]\n"
    "59                         ; pop rcx\n"
    "55                         ; push rbp\n"
    "48 89 e5                   ; mov rbp,rsp\n"
    "0f 84 e4 0f fc ff          ; je 0x1016\n"
    "e9 cf 0f fc ff             ; jmp 0x1006\n"
    "52                         ; push rdx\n"
    "56                         ; push rsi\n"
    "48 8b 35 c8 ff 00 00       ; mov rsi,qword [rip+0xffc8]\n"
    "48 85 f6                   ; test rsi,rsi\n"
    "74 39                      ; je 0x4007e\n"
    "ba 20 03 00 00             ; mov edx,0x320\n"
    "48 8d 14 d1                ; lea rdx,[rcx+rdx*8]\n"
    "48 69 d2 2f eb d4 27       ; imul rdx,rdx,0x27d4eb2f\n"
    "48 c1 ea 14                ; shr rdx,0x14\n"
    "48 23 16                   ; and rdx,qword [rsi]\n"
    "48 c1 e2 05                ; shl rdx,0x5\n"
    "48 39 4c 16 20             ; cmp qword [rsi+rdx*1+0x20],rcx\n"
    "75 17                      ; jne 0x4007e\n"
    "48 81 7c 16 28 20 03 00 00 ; cmp qword [rsi+rdx*1+0x28],0x320\n"
    "75 0c                      ; jne 0x4007e\n"
    "48 ff 44 16 30             ; inc qword [rsi+rdx*1+0x30]\n"
    "5e                         ; pop rsi\n"
    "5a                         ; pop rdx\n"
    "e9 a9 ff ff ff             ; jmp 0x40027\n"
    "5e                         ; pop rsi\n"
    "5a                         ; pop rdx\n"
    "50                         ; push rax\n"
    "48 8d 05 98 02 01 00       ; lea rax,[rip+0x10298]\n"
    "e8 73 0f 00 00             ; call 0x41000\n"
    "58                         ; pop rax\n"
    "e9 94 ff ff ff             ; jmp 0x40027\n"
    "51                         ; push rcx\n"
    "52                         ; push rdx\n"
    "48 8b 15 7c ff 00 00       ; mov rdx,qword [rip+0xff7c]\n"
    "48 8d 4c 24 10             ; lea rcx,[rsp+0x10]\n"
    "48 29 0d 68 ff 00 00       ; sub qword [rip+0xff68],rcx\n"
    "48 89 d1                   ; mov rcx,rdx\n"
    "5a                         ; pop rdx\n"
    "74 05                      ; je 0x400b3\n"
    "48 8b 4c 24 08             ; mov rcx,qword [rsp+0x8]\n"
    "e9 5b ff ff ff             ; jmp 0x40013\n",
    "65 48 3b 24 25 10 00 00 20 ; cmp rsp,qword gs:0x20000010\n"
    "0f 84 8f 00 00 00          ; je 0x4009e\n"
    "51                         ; push rcx\n"
    "50                         ; push rax\n"
    "65 48 8b 04 25 00 00 00 20 ; mov rax,qword gs:0x20000000\n"
    "48 8b 4c 24 10             ; mov rcx,qword [rsp+0x10]\n"
    "48 3b 88 20 03 00 00       ; cmp rcx,qword [rax+0x320]\n"
    "0f 85 18 00 00 00          ; jne 0x40044\n"
    "48 ff 80 28 03 00 00       ; inc qword [rax+0x328]\n"
    "58                         ; pop rax\n"
    "59                         ; pop rcx\n"
    "55                         ; push rbp\n"
    "48 89 e5                   ; mov rbp,rsp\n"
    "0f 84 d7 0f fc ff          ; je 0x1016\n"
    "e9 c2 0f fc ff             ; jmp 0x1006\n"
    "52                         ; push rdx\n"
    "56                         ; push rsi\n"
    "48 8b b0 08 00 00 00       ; mov rsi,qword [rax+0x8]\n"
    "48 85 f6                   ; test rsi,rsi\n"
    "74 39                      ; je 0x4008b\n"
    "ba 20 03 00 00             ; mov edx,0x320\n"
    "48 8d 14 d1                ; lea rdx,[rcx+rdx*8]\n"
    "48 69 d2 2f eb d4 27       ; imul rdx,rdx,0x27d4eb2f\n"
    "48 c1 ea 14                ; shr rdx,0x14\n"
    "48 23 16                   ; and rdx,qword [rsi]\n"
    "48 c1 e2 05                ; shl rdx,0x5\n"
    "48 39 4c 16 20             ; cmp qword [rsi+rdx*1+0x20],rcx\n"
    "75 17                      ; jne 0x4008b\n"
    "48 81 7c 16 28 20 03 00 00 ; cmp qword [rsi+rdx*1+0x28],0x320\n"
    "75 0c                      ; jne 0x4008b\n"
    "48 ff 44 16 30             ; inc qword [rsi+rdx*1+0x30]\n"
    "5e                         ; pop rsi\n"
    "5a                         ; pop rdx\n"
    "e9 a8 ff ff ff             ; jmp 0x40033\n"
    "5e                         ; pop rsi\n"
    "5a                         ; pop rdx\n"
    "48 8d 80 20 03 00 00       ; lea rax,[rax+0x320]\n"
    "e8 67 0f 00 00             ; call 0x41000\n"
    "e9 95 ff ff ff             ; jmp 0x40033\n"
    "51                         ; push rcx\n"
    "50                         ; push rax\n"
    "65 48 8b 04 25 00 00 00 20 ; mov rax,qword gs:0x20000000\n"
    "52                         ; push rdx\n"
    "48 8b 90 18 00 00 00       ; mov rdx,qword [rax+0x18]\n"
    "48 8d 4c 24 18             ; lea rcx,[rsp+0x18]\n"
    "48 29 88 10 00 00 00       ; sub qword [rax+0x10],rcx\n"
    "48 89 d1                   ; mov rcx,rdx\n"
    "5a                         ; pop rdx\n"
    "74 05                      ; je 0x400c8\n"
    "48 8b 4c 24 10             ; mov rcx,qword [rsp+0x10]\n"
    "e9 52 ff ff ff             ; jmp 0x4001f\n",
    "51                         ; push rcx\n"
    "48 8b 4c 24 08             ; mov rcx,qword [rsp+0x8]\n"
    "48 3b 0d 13 03 01 00       ; cmp rcx,qword [rip+0x10313]\n"
    "0f 85 18 00 00 00          ; jne 0x4002b\n"
    "f0 48 ff 05 0d 03 01 00    ; lock inc qword [rip+0x1030d]\n"
    "59                         ; pop rcx\n"
    "55                         ; push rbp\n"
    "48 89 e5                   ; mov rbp,rsp\n"
    "0f 84 f0 0f fc ff          ; je 0x1016\n"
    "e9 db 0f fc ff             ; jmp 0x1006\n"
    "52                         ; push rdx\n"
    "56                         ; push rsi\n"
    "48 8b 35 d4 ff 00 00       ; mov rsi,qword [rip+0xffd4]\n"
    "48 85 f6                   ; test rsi,rsi\n"
    "74 3a                      ; je 0x40073\n"
    "ba 20 03 00 00             ; mov edx,0x320\n"
    "48 8d 14 d1                ; lea rdx,[rcx+rdx*8]\n"
    "48 69 d2 2f eb d4 27       ; imul rdx,rdx,0x27d4eb2f\n"
    "48 c1 ea 14                ; shr rdx,0x14\n"
    "48 23 16                   ; and rdx,qword [rsi]\n"
    "48 c1 e2 05                ; shl rdx,0x5\n"
    "48 39 4c 16 20             ; cmp qword [rsi+rdx*1+0x20],rcx\n"
    "75 18                      ; jne 0x40073\n"
    "48 81 7c 16 28 20 03 00 00 ; cmp qword [rsi+rdx*1+0x28],0x320\n"
    "75 0d                      ; jne 0x40073\n"
    "f0 48 ff 44 16 30          ; lock inc qword [rsi+rdx*1+0x30]\n"
    "5e                         ; pop rsi\n"
    "5a                         ; pop rdx\n"
    "e9 a8 ff ff ff             ; jmp 0x4001b\n"
    "5e                         ; pop rsi\n"
    "5a                         ; pop rdx\n"
    "50                         ; push rax\n"
    "48 8d 05 a3 02 01 00       ; lea rax,[rip+0x102a3]\n"
    "e8 7e 0f 00 00             ; call 0x41000\n"
    "58                         ; pop rax\n"
    "e9 93 ff ff ff             ; jmp 0x4001b\n",
};

static const char recorder_thread[] = "52                         ; push rdx\n"
                                      "56                         ; push rsi\n"
                                      "57                         ; push rdi\n"
                                      "48 89 c2                   ; mov rdx,rax\n"
                                      "65 48 8b 34 25 00 00 00 20 ; mov rsi,qword gs:0x20000000\n"
                                      "48 83 3a 00                ; cmp qword [rdx],0x0\n"
                                      "74 3d                      ; je 0x41052\n"
                                      "48 8b 7e 08                ; mov rdi,qword [rsi+0x8]\n"
                                      "48 85 ff                   ; test rdi,rdi\n"
                                      "74 34                      ; je 0x41052\n"
                                      "48 29 f2                   ; sub rdx,rsi\n"
                                      "48 8d 04 d1                ; lea rax,[rcx+rdx*8]\n"
                                      "48 69 c0 2f eb d4 27       ; imul rax,rax,0x27d4eb2f\n"
                                      "48 c1 e8 14                ; shr rax,0x14\n"
                                      "48 23 07                   ; and rax,qword [rdi]\n"
                                      "48 c1 e0 05                ; shl rax,0x5\n"
                                      "48 8d 44 07 20             ; lea rax,[rdi+rax*1+0x20]\n"
                                      "48 39 08                   ; cmp qword [rax],rcx\n"
                                      "75 0e                      ; jne 0x4104f\n"
                                      "48 39 50 08                ; cmp qword [rax+0x8],rdx\n"
                                      "75 08                      ; jne 0x4104f\n"
                                      "48 ff 40 10                ; inc qword [rax+0x10]\n"
                                      "5f                         ; pop rdi\n"
                                      "5e                         ; pop rsi\n"
                                      "5a                         ; pop rdx\n"
                                      "c3                         ; ret\n"
                                      "48 01 f2                   ; add rdx,rsi\n"
                                      "41 50                      ; push r8\n"
                                      "41 51                      ; push r9\n"
                                      "41 52                      ; push r10\n"
                                      "31 c0                      ; xor eax,eax\n"
                                      "48 0f b1 0a                ; cmpxchg qword [rdx],rcx\n"
                                      "74 6f                      ; je 0x410cf\n"
                                      "48 39 c8                   ; cmp rax,rcx\n"
                                      "74 6a                      ; je 0x410cf\n"
                                      "49 89 d1                   ; mov r9,rdx\n"
                                      "49 29 f1                   ; sub r9,rsi\n"
                                      "48 8b 7e 08                ; mov rdi,qword [rsi+0x8]\n"
                                      "48 85 ff                   ; test rdi,rdi\n"
                                      "74 61                      ; je 0x410d5\n"
                                      "4a 8d 04 c9                ; lea rax,[rcx+r9*8]\n"
                                      "48 69 c0 2f eb d4 27       ; imul rax,rax,0x27d4eb2f\n"
                                      "48 c1 e8 14                ; shr rax,0x14\n"
                                      "48 8b 37                   ; mov rsi,qword [rdi]\n"
                                      "41 ba 40 00 00 00          ; mov r10d,0x40\n"
                                      "48 21 f0                   ; and rax,rsi\n"
                                      "49 89 c0                   ; mov r8,rax\n"
                                      "49 c1 e0 05                ; shl r8,0x5\n"
                                      "4e 8d 44 07 20             ; lea r8,[rdi+r8*1+0x20]\n"
                                      "50                         ; push rax\n"
                                      "31 c0                      ; xor eax,eax\n"
                                      "49 0f b1 08                ; cmpxchg qword [r8],rcx\n"
                                      "75 06                      ; jne 0x410aa\n"
                                      "4d 89 48 08                ; mov qword [r8+0x8],r9\n"
                                      "eb 16                      ; jmp 0x410c0\n"
                                      "48 39 c8                   ; cmp rax,rcx\n"
                                      "75 06                      ; jne 0x410b5\n"
                                      "4d 39 48 08                ; cmp qword [r8+0x8],r9\n"
                                      "74 0b                      ; je 0x410c0\n"
                                      "58                         ; pop rax\n"
                                      "48 ff c0                   ; inc rax\n"
                                      "41 ff ca                   ; dec r10d\n"
                                      "75 ce                      ; jne 0x4108c\n"
                                      "eb 15                      ; jmp 0x410d5\n"
                                      "58                         ; pop rax\n"
                                      "49 ff 40 10                ; inc qword [r8+0x10]\n"
                                      "41 5a                      ; pop r10\n"
                                      "41 59                      ; pop r9\n"
                                      "41 58                      ; pop r8\n"
                                      "5f                         ; pop rdi\n"
                                      "5e                         ; pop rsi\n"
                                      "5a                         ; pop rdx\n"
                                      "c3                         ; ret\n"
                                      "48 ff 42 08                ; inc qword [rdx+0x8]\n"
                                      "eb f0                      ; jmp 0x410c5\n"
                                      "48 ff 42 10                ; inc qword [rdx+0x10]\n"
                                      "eb ea                      ; jmp 0x410c5\n";

static const char moved_far[] = "e2 02                      ; loop 0x7f0000040039\n"
                                "eb 05                      ; jmp 0x7f000004003e\n"
                                "e9 d4 0f fc ff             ; jmp 0x7f0000001012\n"
                                "e8 01 00 00 00             ; call 0x7f0000040044\n"
                                "cc                         ; int3\n"
                                "48 8d 64 24 08             ; lea rsp,[rsp+0x8]\n"
                                "ff 35 05 00 00 00          ; push qword [0x7f0000040054]\n"
                                "e9 b4 11 ff 03             ; jmp 0x7f0004031208\n"
                                "07 10 00 00 00 7f 00 00    ; 0x7f0000001007\n"
                                "e9 a6 0f fc ff             ; jmp 0x7f0000001007\n";

static struct stub_x86_64_counter counter_of(enum stub_form form)
{
    return (struct stub_x86_64_counter){form, 0x50000, 0x20000000, 100};
}

static void hooks_count_then_do_what_was_replaced(void **state)
{
    (void)state;
    const uint8_t old[] = {0x55, 0x48, 0x89, 0xe5, 0x74, 0x10};
    struct stub_x86_64_entry entry = {STUB_ENTRY, sizeof old, 0x1000, old, 0, false};
    uint8_t fresh[5];
    for (int form = STUB_PLAIN; form <= STUB_LOCK; form++) {
        struct stub_x86_64_counter counter = counter_of(form);
        struct stub_x86_64_code code;
        struct stub_x86_64_hook hook;
        stub_x86_64_code_begin(&code, 0x40000);
        stub_x86_64_entry_hook(&code, &entry, &counter, 0x41000, &hook);
        assert_int_equal(code.refused, STUB_FINE);
        stub_bytes_are(code.bytes, code.size, hooks[form]);
        assert_int_equal(hook.count, 3);
        assert_int_equal(stub_x86_64_entry_body_of(&entry, &hook, 0x1000), hook.body);
        assert_int_equal(stub_x86_64_entry_body_of(&entry, &hook, 0x1001), hook.body + 1);
        assert_int_equal(stub_x86_64_entry_body_of(&entry, &hook, 0x1004), hook.body + 4);
        assert_int_equal(stub_x86_64_entry_body_of(&entry, &hook, 0x1002), 0);
        assert_int_equal(stub_x86_64_entry_body_of(&entry, &hook, 0x1006), 0);
    }
    assert_int_equal(stub_x86_64_entry_bytes(&entry, 0x40000, fresh), 5);
    stub_bytes_are(fresh, 5, "e9 fb ef 03 00 ; jmp 0x40000");
    assert_int_equal(stub_x86_64_entry_bytes(&entry, 0x1005 + UINT64_C(0x80000000), fresh), 0);
}

static void the_recorder_finds_the_pair(void **state)
{
    (void)state;
    struct stub_x86_64_counter counter = counter_of(STUB_THREAD);
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, 0x41000);
    stub_x86_64_entry_recorder(&code, &counter);
    assert_int_equal(code.refused, STUB_FINE);
    stub_bytes_are(code.bytes, code.size, recorder_thread);
}

/* A call's return address is written over that of a real call; a loop goes over a jump. */
static void loops_and_calls_move(void **state)
{
    (void)state;
    const uint8_t old[] = {0xe2, 0x10, 0xe8, 0x01, 0x02, 0x03, 0x04};
    struct stub_x86_64_entry entry = {STUB_ENTRY, sizeof old, 0x7f0000001000, old, 0, false};
    struct stub_x86_64_counter counter = counter_of(STUB_THREAD);
    struct stub_x86_64_code code;
    struct stub_x86_64_hook hook;
    stub_x86_64_code_begin(&code, 0x7f0000040000);
    stub_x86_64_entry_hook(&code, &entry, &counter, 0x7f0000041000, &hook);
    assert_int_equal(code.refused, STUB_FINE);
    unsigned front = (unsigned)(hook.body - code.address);
    stub_bytes_are(code.bytes + front, (size_t)(hook.slow - hook.body), moved_far);
}

/* Two loops and a call become 57 bytes: no room to look into the table here, the recorder does it, as for a
 * brief one. */
static void what_has_no_room_leaves_the_table_to_the_recorder(void **state)
{
    (void)state;
    const uint8_t few[] = {0xe2, 0x10, 0xe8, 0x01, 0x02, 0x03, 0x04},
                  many[] = {0xe2, 0x10, 0xe2, 0x10, 0xe8, 0x01, 0x02, 0x03, 0x04};
    const struct stub_x86_64_entry entries[] = {
        {STUB_ENTRY, sizeof few, 0x7f0000001000, few, 0, false},
        {STUB_ENTRY, sizeof few, 0x7f0000001000, few, 0, true},
        {STUB_ENTRY, sizeof many, 0x7f0000001000, many, 0, false},
    };
    struct stub_x86_64_counter counter = counter_of(STUB_THREAD);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        struct stub_x86_64_code code;
        struct stub_x86_64_hook hook;
        stub_x86_64_code_begin(&code, 0x7f0000040000);
        stub_x86_64_entry_hook(&code, &entries[i], &counter, 0x7f0000041000, &hook);
        assert_int_equal(code.refused, STUB_FINE);
        const uint8_t *slow = code.bytes + (hook.slow - code.address);
        if (i == 0)
            stub_bytes_are(slow, 2, "52 56 ; push rdx; push rsi");
        else
            stub_bytes_are(slow, 7, "48 8d 80 20 03 00 00 ; lea rax, [rax+0x320]");
    }
}

static void expect_length(const char *text, unsigned length, enum stub_reason reason)
{
    uint8_t bytes[32];
    enum stub_reason found;
    size_t size = stub_bytes_read(text, bytes, sizeof bytes);
    assert_int_equal(stub_x86_64_entry_length(bytes, size, STUB_X86_64_ENTRY_JUMP, &found), length);
    assert_int_equal(found, reason);
}

static void first_instructions_that_move(void **state)
{
    (void)state;
    expect_length("55 48 89 e5 41 57       ; push rbp; mov rbp, rsp; push r15", 6, STUB_FINE);
    expect_length("48 83 ec 18 31 c0 c3    ; sub rsp, 24; xor eax, eax", 6, STUB_FINE);
    expect_length("48 8d 05 00 00 00 00 c3 ; lea rax, [rip]", 7, STUB_FINE);
    expect_length("74 05 48 89 f8 c3       ; je +5", 5, STUB_FINE);
    expect_length("e9 00 10 00 00          ; jmp", 5, STUB_FINE);
    expect_length("31 c0 c3 66 90          ; xor eax, eax; ret; padding", 5, STUB_FINE);
    expect_length("c3 0f 1f 40 00          ; ret; padding", 5, STUB_FINE);
    expect_length("c3 cc cc cc cc          ; ret; padding", 5, STUB_FINE);
    expect_length("ff 15 00 00 00 00       ; call [rip]", 6, STUB_FINE);
    expect_length("f3 0f 1e fa 55          ; endbr64 moves as well", 5, STUB_FINE);
}

static void first_instructions_that_do_not(void **state)
{
    (void)state;
    expect_length("31 c0 c3                ; three bytes", 0, STUB_REASON_ENTRY_SHORT);
    expect_length("c3", 0, STUB_REASON_ENTRY_SHORT);
    expect_length("", 0, STUB_REASON_ENTRY_SHORT);
    expect_length("55 06 06 06 06          ; no instruction", 0, STUB_REASON_ENTRY_SHORT);
    expect_length("90 90 eb fd 90          ; jmp into the replaced bytes", 0, STUB_REASON_ENTRY_IMMOVABLE);
    expect_length("e2 ff 90 90 90          ; loop into itself", 0, STUB_REASON_ENTRY_IMMOVABLE);
    expect_length("c7 f8 00 00 00 00       ; xbegin", 0, STUB_REASON_ENTRY_IMMOVABLE);
    expect_length("67 8b 05 00 00 00 00    ; mov eax, [eip]", 0, STUB_REASON_ENTRY_IMMOVABLE);
    expect_length("48 ff 2d 00 00 00 00    ; far jmp", 0, STUB_REASON_ENTRY_IMMOVABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hooks_count_then_do_what_was_replaced),
        cmocka_unit_test(the_recorder_finds_the_pair),
        cmocka_unit_test(loops_and_calls_move),
        cmocka_unit_test(what_has_no_room_leaves_the_table_to_the_recorder),
        cmocka_unit_test(first_instructions_that_move),
        cmocka_unit_test(first_instructions_that_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
