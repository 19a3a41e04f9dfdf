/* code_flags on bytes with their disassembly in the margin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "code_flags.h"

#define AT  UINT64_C(0x401000)
#define ALL CODE_FLAGS_ADD

static void instructions_read_and_write(void **state)
{
    static const struct {
        const char *text;
        uint8_t bytes[15];
        uint8_t read, written;
    } cases[] = {
        {"mov %rax,%rbx", {0x48, 0x89, 0xc3}, 0, 0},
        {"lea 0x8(%rax),%rbx", {0x48, 0x8d, 0x58, 8}, 0, 0},
        {"add %rax,%rbx", {0x48, 0x01, 0xc3}, 0, ALL},
        {"inc %eax: keeps CF", {0xff, 0xc0}, 0, CODE_FLAGS_INC},
        {"test %eax,%eax", {0x85, 0xc0}, 0, ALL},
        {"xor %eax,%eax", {0x31, 0xc0}, 0, ALL},
        {"adc $0,%eax", {0x83, 0xd0, 0}, CODE_CF, ALL},
        {"sbb %eax,%eax", {0x19, 0xc0}, CODE_CF, ALL},
        {"cmc", {0xf5}, CODE_CF, CODE_CF},
        {"stc", {0xf9}, 0, CODE_CF},
        {"je", {0x74, 0}, CODE_ZF, 0},
        {"jbe", {0x76, 0}, CODE_ZF | CODE_CF, 0},
        {"jg", {0x7f, 0}, CODE_ZF | CODE_SF | CODE_OF, 0},
        {"sete %al", {0x0f, 0x94, 0xc0}, CODE_ZF, 0},
        {"cmovs %eax,%ebx", {0x0f, 0x48, 0xd8}, CODE_SF, 0},
        {"fcmovb %st(1),%st", {0xda, 0xc1}, CODE_CF, 0},
        {"loopne", {0xe0, 0}, CODE_ZF, 0},
        {"loop", {0xe2, 0}, 0, 0},
        {"jrcxz", {0xe3, 0}, 0, 0},
        {"shl $1,%eax", {0xd1, 0xe0}, 0, ALL},
        {"shl $3,%eax", {0xc1, 0xe0, 3}, 0, ALL},
        {"shl $32,%eax: by nothing", {0xc1, 0xe0, 32}, 0, 0},
        {"shl $32,%rax", {0x48, 0xc1, 0xe0, 32}, 0, ALL},
        {"shl $64,%rax: by nothing", {0x48, 0xc1, 0xe0, 64}, 0, 0},
        {"shl %cl,%eax: perhaps by nothing", {0xd3, 0xe0}, 0, 0},
        {"rol $3,%eax", {0xc1, 0xc0, 3}, 0, CODE_CF | CODE_OF},
        {"rcl $9,%al: all the way round", {0xc0, 0xd0, 9}, CODE_CF, 0},
        {"shld $3,%eax,%ebx", {0x0f, 0xa4, 0xc3, 3}, 0, ALL},
        {"shld $0,%eax,%ebx", {0x0f, 0xa4, 0xc3, 0}, 0, 0},
        {"shrd %cl,%eax,%ebx", {0x0f, 0xad, 0xc3}, 0, 0},
        {"shlx %eax,%ebx,%ecx", {0xc4, 0xe2, 0x79, 0xf7, 0xcb}, 0, 0},
        {"cmpsb", {0xa6}, 0, ALL},
        {"repz cmpsb: perhaps never; ends by ZF", {0xf3, 0xa6}, CODE_ZF, 0},
        {"repnz scasb: perhaps never; ends by ZF", {0xf2, 0xae}, CODE_ZF, 0},
        {"rep movsb", {0xf3, 0xa4}, 0, 0},
        {"mul %rbx", {0x48, 0xf7, 0xe3}, 0, ALL},
        {"div %rbx", {0x48, 0xf7, 0xf3}, 0, ALL},
        {"not %eax", {0xf7, 0xd0}, 0, 0},
        {"bt $1,%eax: keeps ZF", {0x0f, 0xba, 0xe0, 1}, 0, ALL & ~CODE_ZF},
        {"lock xadd %eax,(%rbx)", {0xf0, 0x0f, 0xc1, 0x03}, 0, ALL},
        {"comisd %xmm1,%xmm0", {0x66, 0x0f, 0x2f, 0xc1}, 0, ALL},
        {"vucomiss %xmm1,%xmm0", {0xc5, 0xf8, 0x2e, 0xc1}, 0, ALL},
        {"pushf", {0x9c}, ALL, 0},
        {"lahf", {0x9f}, ALL & ~CODE_OF, 0},
        {"popf", {0x9d}, 0, ALL},
        {"call", {0xe8, 0, 0, 0, 0}, 0, 0},
        {"syscall: shows them, keeps them", {0x0f, 0x05}, ALL, 0},
        {"int $0x80", {0xcd, 0x80}, ALL, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct code_flags flags = {0xff, 0xff};
        print_message("# %s\n", cases[i].text);
        assert_true(code_flags_of(cases[i].bytes, sizeof cases[i].bytes, &flags));
        assert_int_equal(flags.read, cases[i].read);
        assert_int_equal(flags.written, cases[i].written);
    }
    struct code_flags flags;
    assert_false(code_flags_of((const uint8_t[]){0x06}, 1, &flags));
    assert_false(code_flags_of((const uint8_t[]){0xe8, 0}, 2, &flags));
}

struct path {
    const char *text;
    uint8_t bytes[32];
    uint8_t size, flags;
    bool dead;
};

static const struct path paths[] = {
    {"push; mov; test", {0x55, 0x48, 0x89, 0xe5, 0x85, 0xc0}, 6, ALL, true},
    {"je", {0x74, 0x00}, 2, ALL, false},
    {"je, but only CF was changed", {0x74, 0x00, 0x85, 0xc0}, 4, CODE_CF, true},
    {"inc; jb: CF lives", {0xff, 0xc0, 0x72, 0x00}, 4, ALL, false},
    {"inc; jb after an inc", {0xff, 0xc0, 0x72, 0x00}, 4, CODE_FLAGS_INC, true},
    {"nothing to lose", {0x74, 0x00}, 2, 0, true},
    {"ret", {0xc3}, 1, ALL, true},
    {"iretq: loads them", {0x48, 0xcf}, 2, ALL, true},
    {"far ret", {0xcb}, 1, ALL, false},
    {"call", {0xe8, 0, 0, 0, 0}, 5, ALL, true},
    {"call *%rax", {0xff, 0xd0}, 2, ALL, true},
    {"lcall *(%rax)", {0xff, 0x18}, 2, ALL, false},
    {"jmp *%rax: who knows", {0xff, 0xe0}, 2, ALL, false},
    {"syscall: the kernel may look", {0x0f, 0x05, 0x85, 0xc0}, 4, ALL, false},
    {"ud2", {0x0f, 0x0b}, 2, ALL, true},
    {"int3", {0xcc, 0x85, 0xc0}, 3, ALL, false},
    {"jmp over sete to test", {0xeb, 0x03, 0x0f, 0x94, 0xc0, 0x85, 0xc0}, 7, ALL, true},
    {"jmp to sete", {0xeb, 0x00, 0x0f, 0x94, 0xc0, 0x85, 0xc0}, 7, ALL, false},
    {"jrcxz to sete, else test", {0xe3, 0x03, 0x85, 0xc0, 0xc3, 0x0f, 0x94, 0xc0, 0xc3}, 9, ALL, false},
    {"jrcxz to xor, else test", {0xe3, 0x03, 0x85, 0xc0, 0xc3, 0x31, 0xc0, 0xc3}, 8, ALL, true},
    {"jmp to itself", {0xeb, 0xfe}, 2, ALL, true},
    {"nop; jmp back, never overwritten nor read", {0x90, 0xeb, 0xfd}, 3, ALL, true},
    {"the bytes end", {0x90}, 1, ALL, false},
    {"jmp out of the bytes", {0xeb, 0x70}, 2, ALL, false},
    {"(bad)", {0x06}, 1, ALL, false},
    {"shl %cl; sete: may have kept them", {0xd3, 0xe0, 0x0f, 0x94, 0xc0, 0xc3}, 6, ALL, false},
    {"shl $1; sete", {0xd1, 0xe0, 0x0f, 0x94, 0xc0, 0xc3}, 6, ALL, true},
    {"repz cmpsb; sete", {0xf3, 0xa6, 0x0f, 0x94, 0xc0, 0xc3}, 6, ALL, false},
    {"stc; jb: CF was overwritten", {0xf9, 0x72, 0x00, 0x85, 0xc0}, 5, ALL, true},
    {"bt; je: ZF lives", {0x0f, 0xba, 0xe0, 1, 0x74, 0, 0x85, 0xc0}, 8, ALL, false},
    {"pushf", {0x9c, 0x85, 0xc0}, 3, ALL, false},
};

static void flags_are_dead_where_no_path_reads_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct code_piece piece = {AT, paths[i].bytes, paths[i].size};
        struct code_text text = {&piece, 1};
        print_message("# %s\n", paths[i].text);
        assert_int_equal(code_flags_dead(&text, AT, paths[i].flags), paths[i].dead);
    }
}

static void long_paths_are_not_followed_for_ever(void **state)
{
    uint8_t bytes[512];
    struct code_piece piece = {AT, bytes, sizeof bytes};
    struct code_text text = {&piece, 1};
    (void)state;
    memset(bytes, 0x90, sizeof bytes);
    memcpy(bytes + 62, (const uint8_t[]){0x85, 0xc0}, 2); /* 62 nops; test %eax,%eax */
    assert_true(code_flags_dead(&text, AT, ALL));
    memset(bytes, 0x90, sizeof bytes);
    memcpy(bytes + 200, (const uint8_t[]){0x85, 0xc0}, 2);
    assert_false(code_flags_dead(&text, AT, ALL));
    for (size_t i = 0; i + 2 <= sizeof bytes; i += 2) /* jrcxz .+4 everywhere: paths fork and meet */
        memcpy(bytes + i, (const uint8_t[]){0xe3, 0x02}, 2);
    assert_false(code_flags_dead(&text, AT, ALL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_read_and_write),
        cmocka_unit_test(flags_are_dead_where_no_path_reads_them),
        cmocka_unit_test(long_paths_are_not_followed_for_ever),
    };
    return cmocka_run_group_tests_name("code_flags", tests, NULL, NULL);
}
