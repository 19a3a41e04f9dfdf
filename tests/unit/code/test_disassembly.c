/* code_disassembly: the text of single instructions, in both syntaxes and of both machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <elf.h>

#include <cmocka.h>

#include "code_disassembly.h"
#include "failing.h"

struct line {
    uint8_t bytes[16];
    uint8_t size, length;
    const char *att, *intel;
};

static const struct line lines[] = {
    {{0x31, 0xc0}, 2, 2, "xor %eax, %eax", "xor eax, eax"},
    {{0x48, 0x8b, 0x44, 0xca, 0x18}, 5, 5, "mov 0x18(%rdx,%rcx,8), %rax", "mov rax, [rdx+rcx*8+0x18]"},
    {{0x48, 0x8d, 0x05, 0xe2, 0x2e, 0, 0}, 7, 7, "lea 0x2ee2(%rip), %rax", "lea rax, [rip+0x2ee2]"},
    {{0xe8, 0xfb, 0x0f, 0, 0}, 5, 5, "call <2000>", "call <2000>"},
    {{0x75, 0xee}, 2, 2, "jnz <ff0>", "jnz <ff0>"},
    {{0xf2, 0xe9, 0xfa, 0x0f, 0, 0}, 6, 6, "bnd jmp <2000>", "bnd jmp <2000>"},
    {{0xff, 0x15, 0x10, 0, 0, 0}, 6, 6, "call 0x10(%rip)", "call [rip+0x10]"},
    {{0x83, 0xc0, 0xff}, 3, 3, "add $-0x1, %eax", "add eax, 0xffffffff"},
    {{0x06}, 1, 0, "(bad)", "(bad)"},
    {{0x48, 0x8b}, 2, 0, "(bad)", "(bad)"},
};

static void in_brackets(void *context, uint64_t target, char *text, size_t size)
{
    ++*(unsigned *)context;
    snprintf(text, size, "<%lx>", (unsigned long)target);
}

static void x86_64(void **state)
{
    (void)state;
    for (unsigned syntax = CODE_ATT; syntax <= CODE_INTEL; syntax++) {
        struct code_disassembly *disassembly;
        assert_int_equal(code_disassembly_new(EM_X86_64, syntax, &disassembly, NULL), BASE_OK);
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            char text[CODE_DISASSEMBLY_MAX];
            unsigned names = 0;
            const struct code_disassembly_source source = {lines[i].bytes, lines[i].size, 0x1000, in_brackets,
                                                           &names};
            size_t length = code_disassembly_text(disassembly, &source, text, sizeof text);
            assert_string_equal(text, syntax == CODE_ATT ? lines[i].att : lines[i].intel);
            assert_int_equal(length, lines[i].length);
            assert_int_equal(names, strchr(text, '<') != NULL);
        }
        code_disassembly_free(disassembly);
    }
}

static void aarch64(void **state)
{
    static const struct {
        uint32_t word;
        const char *text;
    } words[] = {
        {0x8b030042, "add x2, x2, x3"},
        {0x94000006, "bl <1018>"},
        {0x54ffffa1, "b.ne <ff4>"},
        {0xb4000100, "cbz x0, <1020>"},
        {0x371fff00, "tbnz w0, #3, <fe0>"},
        {0xf8408423, "ldr x3, [x1], #8"},
        {0xd65f03c0, "ret"},
        {0xd61f0060, "br x3"},
        {0x00000001, "(bad)"},
    };
    struct code_disassembly *disassembly;
    (void)state;
    assert_int_equal(code_disassembly_new(EM_AARCH64, CODE_ATT, &disassembly, NULL), BASE_OK);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char text[CODE_DISASSEMBLY_MAX];
        unsigned names = 0;
        const struct code_disassembly_source source = {(const uint8_t *)&words[i].word, 4, 0x1000,
                                                       in_brackets, &names};
        code_disassembly_text(disassembly, &source, text, sizeof text);
        assert_string_equal(text, words[i].text);
    }
    code_disassembly_free(disassembly);
}

static void without_names_and_room(void **state)
{
    struct code_disassembly *disassembly;
    char text[8];
    (void)state;
    assert_int_equal(code_disassembly_new(EM_X86_64, CODE_ATT, &disassembly, NULL), BASE_OK);
    const struct code_disassembly_source source = {lines[3].bytes, 5, 0x1000, NULL, NULL};
    assert_int_equal(code_disassembly_text(disassembly, &source, text, sizeof text), 5);
    assert_string_equal(text, "call 0x");
    code_disassembly_free(disassembly);
    code_disassembly_free(NULL);
}

static void other_machines(void **state)
{
    struct code_disassembly *disassembly;
    struct base_error error = {{0}};
    (void)state;
    assert_int_equal(code_disassembly_new(EM_RISCV, CODE_ATT, &disassembly, &error), BASE_EUNSUPPORTED);
    assert_string_equal(error.text, "code of ELF machine 243 cannot be shown");
    assert_null(disassembly);
}

/* The libraries bring their own allocator calls from outside; those of this module are one a disassembly. */
static void memory_may_run_out(void **state)
{
    struct code_disassembly *disassembly;
    (void)state;
    failing_begin(1);
    assert_int_equal(code_disassembly_new(EM_X86_64, CODE_ATT, &disassembly, NULL), BASE_ENOMEM);
    failing_end();
    assert_null(disassembly);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(x86_64),
        cmocka_unit_test(aarch64),
        cmocka_unit_test(without_names_and_room),
        cmocka_unit_test(other_machines),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
