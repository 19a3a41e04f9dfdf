/* code_jump_facts on pieces of functions that end with an indirect jump, with their disassembly in the
 * margin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "code_scan.h"

struct piece {
    const char *text;
    uint8_t bytes[32];
    uint8_t size;
    unsigned facts;
};

static const struct piece pieces[] = {
    {"a switch: movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax",
     {0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0},
     9,
     CODE_SITE_TABLE},
    {"a switch in r8: add %r9,%r8; jmp *%r8", {0x4d, 0x01, 0xc8, 0x41, 0xff, 0xe0}, 6, CODE_SITE_TABLE},
    {"a switch, the other form of add: add %rdx,%rax; jmp *%rax",
     {0x48, 0x03, 0xc2, 0xff, 0xe0},
     5,
     CODE_SITE_TABLE},
    {"a sum in another register: add %rdx,%rcx; jmp *%rax",
     {0x48, 0x01, 0xd1, 0xff, 0xe0},
     5,
     CODE_SITE_UNKNOWN},
    {"a method: mov 0x18(%rdi),%rax; jmp *%rax", {0x48, 0x8b, 0x47, 0x18, 0xff, 0xe0}, 6, 0},
    {"a method loaded behind a sum: add %rdx,%rax; mov (%rax),%rax; pop %rbx; jmp *%rax",
     {0x48, 0x01, 0xd0, 0x48, 0x8b, 0x00, 0x5b, 0xff, 0xe0},
     9,
     0},
    {"a method: jmp *0x18(%rax)", {0xff, 0x60, 0x18}, 3, 0},
    {"labels: mov (%rdx,%rax,8),%rax; inc %rbx; jmp *%rax",
     {0x48, 0x8b, 0x04, 0xc2, 0x48, 0xff, 0xc3, 0xff, 0xe0},
     9,
     CODE_SITE_INDEXED},
    {"labels: jmp *(%rdx,%rax,8)", {0xff, 0x24, 0xc2}, 3, CODE_SITE_INDEXED},
    {"labels: jmp *0x402000(,%rax,8)", {0xff, 0x24, 0xc5, 0, 0x20, 0x40, 0}, 7, CODE_SITE_INDEXED},
    {"on the stack: jmp *8(%rsp)", {0xff, 0x64, 0x24, 8}, 4, 0},
    {"copied: mov (%rdx,%rax,8),%rcx; mov %rcx,%rax; jmp *%rax",
     {0x48, 0x8b, 0x0c, 0xc2, 0x48, 0x89, 0xc8, 0xff, 0xe0},
     9,
     CODE_SITE_INDEXED},
    {"copied, the other form: mov (%rdx,%rax,8),%rcx; mov %rcx,%rax; jmp *%rax",
     {0x48, 0x8b, 0x0c, 0xc2, 0x48, 0x8b, 0xc1, 0xff, 0xe0},
     9,
     CODE_SITE_INDEXED},
    {"notrack jmp *%rax", {0x3e, 0xff, 0xe0}, 3, CODE_SITE_TABLE},
    {"through a slot: jmp *0x10(%rip)", {0xff, 0x25, 0x10, 0, 0, 0}, 6, 0},
    {"what a call returned: add %rdx,%rax; call *%rcx; jmp *%rax",
     {0x48, 0x01, 0xd0, 0xff, 0xd1, 0xff, 0xe0},
     7,
     0},
    {"nothing before it", {0xff, 0xe2}, 2, CODE_SITE_UNKNOWN},
    {"behind a ret: add %rdx,%rax; ret; jmp *%rax",
     {0x48, 0x01, 0xd0, 0xc3, 0xff, 0xe0},
     6,
     CODE_SITE_UNKNOWN},
};

static void origins_are_known_by_form(void **state)
{
    struct code_instructions all = {NULL, 0, 0};
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct code_piece piece = {0x401000, pieces[i].bytes, pieces[i].size};
        struct code_text text = {&piece, 1};
        uint64_t where;
        print_message("# %s\n", pieces[i].text);
        assert_int_equal(
            code_instructions_decode(&text, piece.address, piece.address + piece.size, &all, &where),
            CODE_VERDICT_FINE);
        assert_int_equal(code_jump_facts(&all, all.count - 1, pieces[i].bytes), pieces[i].facts);
    }
    code_instructions_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(origins_are_known_by_form)};
    return cmocka_run_group_tests_name("code_jump", tests, NULL, NULL);
}
