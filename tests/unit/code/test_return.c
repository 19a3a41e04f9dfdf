/* code_return: whether functions, given as bytes, load their own return address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "code_by_hand.h"
#include "code_scan.h"

enum { MOST = 48 };

struct sample {
    const char *name;
    uint8_t bytes[MOST];
    size_t size;
};
#define SAMPLE(name, ...)                                                                                    \
    {                                                                                                        \
        name, {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})                                                \
    }

static bool reads(const struct sample *sample)
{
    struct elf_image *image = code_by_hand(ET_DYN, sample->bytes, sample->size);
    struct code_text text;
    struct code_instructions instructions = {0};
    uint64_t where;
    assert_non_null(image);
    assert_int_equal(code_text_of_image(image, &text, NULL), BASE_OK);
    assert_int_equal(
        code_instructions_decode(&text, BY_HAND_TEXT, BY_HAND_TEXT + sample->size, &instructions, &where),
        CODE_VERDICT_FINE);
    bool found = code_return_is_read(&instructions, sample->bytes);
    code_instructions_free(&instructions);
    code_text_free(&text);
    elf_image_close(image);
    return found;
}

static void loads_are_found(void **state)
{
    static const struct sample samples[] = {
        SAMPLE("a leaf", 0x48, 0x8b, 0x04, 0x24, /* mov (%rsp), %rax */
               0xc3),
        SAMPLE("a frame", 0x48, 0x83, 0xec, 0x48, /* sub $0x48, %rsp */
               0x48, 0x8b, 0x4c, 0x24, 0x48,      /* mov 0x48(%rsp), %rcx */
               0xc3),
        SAMPLE("pushes", 0x53,               /* push %rbx */
               0x6a, 0x01,                   /* push $1 */
               0x4c, 0x8b, 0x4c, 0x24, 0x10, /* mov 0x10(%rsp), %r9 */
               0xc3),
        SAMPLE("a frame pointer", 0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp, %rbp */
               0x48, 0x83, 0xec, 0x80,                    /* sub $-128, %rsp */
               0x48, 0x8b, 0x45, 0x08,                    /* mov 8(%rbp), %rax */
               0xc9, 0xc3),
        SAMPLE("an aligned stack", 0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp, %rbp */
               0x48, 0x83, 0xe4, 0xc0,                     /* and $-64, %rsp */
               0x48, 0x8b, 0x45, 0x08,                     /* mov 8(%rbp), %rax */
               0xc9, 0xc3),
        SAMPLE("behind a return", 0x53, 0x85, 0xff, /* push %rbx; test %edi, %edi */
               0x78, 0x02,                          /* js 1f */
               0x5b, 0xc3,                          /* pop %rbx; ret */
               0x48, 0x8b, 0x7c, 0x24, 0x08,        /* 1: mov 8(%rsp), %rdi */
               0x5b, 0xc3),
        SAMPLE("behind leave", 0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp, %rbp */
               0x48, 0x29, 0xc4,                       /* sub %rax, %rsp */
               0xc9,                                   /* leave */
               0x48, 0x8b, 0x04, 0x24,                 /* mov (%rsp), %rax */
               0xc3),
        SAMPLE("pushed once more", 0x48, 0x8d, 0x64, 0x24, 0xe0, /* lea -0x20(%rsp), %rsp */
               0xff, 0x74, 0x24, 0x20,                           /* push 0x20(%rsp) */
               0xc3),
        SAMPLE("popped", 0x5f, 0x57, 0xc3), /* pop %rdi; push %rdi */
    };
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (!reads(&samples[i]))
            fail_msg("%s is not found", samples[i].name);
}

static void others_are_not(void **state)
{
    static const struct sample samples[] = {
        SAMPLE("arguments on the stack", 0x53, 0x85, 0xff,      /* push %rbx; test %edi, %edi */
               0x74, 0x0a,                                      /* je 1f */
               0x6a, 1, 0x58,                                   /* push $1; pop %rax */
               0x48, 0x8b, 0x44, 0x24, 0x10,                    /* mov 0x10(%rsp), %rax */
               0x5b, 0xc3,                                      /* pop %rbx; ret */
               0x48, 0x8b, 0x44, 0x24, 0x10,                    /* 1: mov 0x10(%rsp), %rax */
               0x5b, 0xc3),                                     /* pop %rbx; ret */
        SAMPLE("its own words", 0x48, 0x83, 0xec, 0x48,         /* sub $0x48, %rsp */
               0x48, 0x8b, 0x4c, 0x24, 0x40,                    /* mov 0x40(%rsp), %rcx */
               0x48, 0x8b, 0x4c, 0x24, 0x50,                    /* mov 0x50(%rsp), %rcx: an argument */
               0x48, 0x83, 0xc4, 0x48, 0xc3),                   /* add $0x48, %rsp */
        SAMPLE("half of it", 0x8b, 0x04, 0x24, 0xc3),           /* mov (%rsp), %eax */
        SAMPLE("a store and its place", 0x48, 0x89, 0x04, 0x24, /* mov %rax, (%rsp) */
               0x48, 0x8d, 0x04, 0x24, 0xc3),                   /* lea (%rsp), %rax */
        SAMPLE("an index", 0x48, 0x8b, 0x04, 0x04, 0xc3),       /* mov (%rsp,%rax), %rax */
        SAMPLE("an object", 0x55, 0x48, 0x89, 0xfd,             /* push %rbp; mov %rdi, %rbp */
               0x48, 0x8b, 0x45, 0x08,                          /* mov 8(%rbp), %rax */
               0x5d, 0xc3),
        SAMPLE("saved registers", 0x53, 0x5b, 0xc3),          /* push %rbx; pop %rbx */
        SAMPLE("behind alloca", 0x55,                         /* push %rbp */
               0x48, 0x29, 0xc4,                              /* sub %rax, %rsp */
               0x48, 0x8b, 0x44, 0x24, 0x08, 0xc3),           /* mov 8(%rsp), %rax */
        SAMPLE("r13", 0x49, 0x8b, 0x45, 0x08, 0xc3),          /* mov 8(%r13), %rax */
        SAMPLE("r12", 0x49, 0x8b, 0x04, 0x24, 0xc3),          /* mov (%r12), %rax */
        SAMPLE("rip", 0x48, 0x8b, 0x05, 0, 0x10, 0, 0, 0xc3), /* mov 0x1000(%rip), %rax */
    };
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (reads(&samples[i]))
            fail_msg("%s is taken for it", samples[i].name);
}

static void what_only_notes_callers_is_known(void **state)
{
    (void)state;
    assert_true(code_return_is_passed("__cyg_profile_func_enter"));
    assert_true(code_return_is_passed("__tsan_func_entry@V"));
    assert_false(code_return_is_passed("__tsan_func_entry_"));
    assert_false(code_return_is_passed(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_are_found),
        cmocka_unit_test(others_are_not),
        cmocka_unit_test(what_only_notes_callers_is_known),
    };
    return cmocka_run_group_tests_name("code_return", tests, NULL, NULL);
}
