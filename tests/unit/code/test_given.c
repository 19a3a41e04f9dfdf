/* code_given on bytes with their disassembly in the margin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "code_given.h"

#define AT UINT64_C(0x401000)

static void what_is_read_before_it_is_written(void **state)
{
    static const struct {
        const char *text;
        uint8_t bytes[24];
        bool given;
    } cases[] = {
        {"ret", {0xc3}, true},
        {"mov %rdi,%rax; ret", {0x48, 0x89, 0xf8, 0xc3}, true},
        {"add %esi,%r9d; ret", {0x41, 0x01, 0xf1, 0xc3}, true},
        {"addsd %xmm7,%xmm0; ret", {0xf2, 0x0f, 0x58, 0xc7, 0xc3}, true},
        {"endbr64; xor %eax,%eax; ret", {0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xc3}, true},
        {"pxor %xmm9,%xmm9; ret", {0x66, 0x45, 0x0f, 0xef, 0xc9, 0xc3}, true},
        {"nopw 0x0(%rax,%rax,1); ret", {0x66, 0x0f, 0x1f, 0x44, 0, 0, 0xc3}, true},
        {"push %rbx; push %r15; push %rax; ret", {0x53, 0x41, 0x57, 0x50, 0xc3}, true},
        {"mov %rbp,-0x10(%rsp); ret", {0x48, 0x89, 0x6c, 0x24, 0xf0, 0xc3}, true},
        {"test %al,%al; ret: vector registers used", {0x84, 0xc0, 0xc3}, true},
        {"mov (%rdi),%rbx; mov %rbx,%rax; ret", {0x48, 0x8b, 0x1f, 0x48, 0x89, 0xd8, 0xc3}, true},
        {"mov %edi,%eax; cltd; idiv %esi; ret", {0x89, 0xf8, 0x99, 0xf7, 0xfe, 0xc3}, true},
        {"test %edi,%edi; je; jmp *(%rdi)", {0x85, 0xff, 0x74, 0, 0xff, 0x27}, true},
        {"mov (%rdi),%rax; jmp *0x8(%rax)", {0x48, 0x8b, 0x07, 0xff, 0x60, 8}, true},
        {"call: what is behind it is not looked at", {0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xd8}, true},
        {"mov %rax,%rdi", {0x48, 0x89, 0xc7, 0xc3}, false},
        {"mov %eax,(%rdi)", {0x89, 0x07, 0xc3}, false},
        {"test %eax,%eax", {0x85, 0xc0, 0xc3}, false},
        {"mov (%r10),%rax", {0x49, 0x8b, 0x02, 0xc3}, false},
        {"lea 0x8(%rdi,%r11,1),%rax", {0x4a, 0x8d, 0x44, 0x1f, 8, 0xc3}, false},
        {"mov %rdi,(%rbx)", {0x48, 0x89, 0x3b, 0xc3}, false},
        {"xor %ecx,%eax: reads eax", {0x31, 0xc8, 0xc3}, false},
        {"cmove %edi,%eax: may keep eax", {0x0f, 0x44, 0xc7, 0xc3}, false},
        {"cltd: from eax", {0x99, 0xc3}, false},
        {"movaps %xmm8,%xmm0", {0x41, 0x0f, 0x28, 0xc0, 0xc3}, false},
        {"push (%rax)", {0xff, 0x30, 0xc3}, false},
        {"call *%rbx", {0xff, 0xd3}, false},
        {"jmp *%rax", {0xff, 0xe0}, false},
        {"test %edi,%edi; je; mov %r12,%rax", {0x85, 0xff, 0x74, 0, 0x4c, 0x89, 0xe0, 0xc3}, false},
        {"no instruction", {0x06}, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct code_piece piece = {AT, cases[i].bytes, sizeof cases[i].bytes};
        struct code_text text = {&piece, 1};
        if (code_given_only(&text, AT) != cases[i].given)
            fail_msg("%s", cases[i].text);
    }
    struct code_text nothing = {NULL, 0};
    assert_false(code_given_only(&nothing, AT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_before_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
