/* kallsyms: files made by hand; and the kernel's own, where it may be read, line by line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol.h"

static int open_text(const char *text, struct symbol_kernel **kernel, struct base_error *error)
{
    char path[] = "/tmp/tally-kallsyms-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    int result = symbol_kernel_open(path, kernel, error);
    unlink(path);
    return result;
}

static void assert_found(const struct symbol_kernel *kernel, uint64_t address, const char *name,
                         const char *module, uint64_t start)
{
    const char *found, *inside;
    uint64_t from;
    assert_true(symbol_kernel_find(kernel, address, &found, &inside, &from));
    assert_string_equal(found, name);
    assert_string_equal(inside, module);
    assert_true(from == start);
}

static void lines_are_read(void **state)
{
    (void)state;
    struct symbol_kernel *kernel;
    const char *name, *module;
    uint64_t start;
    static const char text[] = "0000000000000000 A fixed_percpu_data\n"
                               "ffffffff81000000 T _stext\n"
                               "ffffffff81000000 T _text\n"
                               "ffffffff81000400 t do_one_thing\n"
                               "ffffffff81000400 T __x64_do_one_thing\n"
                               "ffffffff81000400 W do_thing\n"
                               "nonsense\n"
                               "ffffffff81002000 T _etext\n"
                               "ffffffff82000000 D some_data\n"
                               "ffffffffa0002000 t second\t[module_b]\n"
                               "ffffffffa0001000 t first\t[module_a]\n"
                               "ffffffffa0001100 r constant\t[module_a]\n"
                               "ffffffffa0003000 t bpf_prog_1\t[bpf]";
    assert_int_equal(open_text(text, &kernel, NULL), BASE_OK);
    assert_found(kernel, 0xffffffff81000000, "_text", "[kernel]", 0xffffffff81000000);
    assert_found(kernel, 0xffffffff81000401, "do_thing", "[kernel]", 0xffffffff81000400);
    assert_found(kernel, 0xffffffff81001fff, "do_thing", "[kernel]", 0xffffffff81000400);
    assert_false(
        symbol_kernel_find(kernel, 0xffffffff81002000, &name, &module, &start)); /* behind the text */
    assert_false(symbol_kernel_find(kernel, 0xffffffff82000001, &name, &module, &start)); /* data */
    assert_found(kernel, 0xffffffffa00010ff, "first", "[module_a]", 0xffffffffa0001000);
    assert_false(symbol_kernel_find(kernel, 0xffffffffa0001100, &name, &module, &start));
    assert_found(kernel, 0xffffffffa0002fff, "second", "[module_b]", 0xffffffffa0002000);
    assert_found(kernel, 0xffffffffa0003010, "bpf_prog_1", "[bpf]", 0xffffffffa0003000);
    assert_false(symbol_kernel_find(kernel, 0x1000, &name, &module, &start));
    symbol_kernel_close(kernel);
}

static void hidden_addresses_are_an_error(void **state)
{
    (void)state;
    struct symbol_kernel *kernel = NULL;
    struct base_error error = {""};
    assert_int_equal(
        open_text("0000000000000000 T _text\n0000000000000000 t do_thing\t[module]\n", &kernel, &error),
        BASE_EPERMISSION);
    assert_null(kernel);
    assert_non_null(strstr(error.text, "kernel.kptr_restrict=0"));
    assert_int_equal(open_text("", &kernel, NULL), BASE_EPERMISSION);
    error.text[0] = '\0';
    assert_int_equal(symbol_kernel_open("/nonexistent", &kernel, &error), BASE_ENOTFOUND);
    assert_string_equal(error.text, "/nonexistent: No such file or directory");
    symbol_kernel_close(NULL);
}

/* Code that the kernel makes while it runs ("[bpf]", "[__builtin__ftrace]"), and that other programs may load
 * and unload while this one looks. */
static bool is_made_by_kernel(const char *module)
{
    return !strcmp(module, "[bpf]") || !strncmp(module, "[__builtin", 10);
}

/* Every function of the running kernel is found at its own address, under one of the names it has there. */
static void own_kernel_agrees(void **state)
{
    (void)state;
    struct symbol_kernel *kernel;
    char line[1024];
    int result = symbol_kernel_open(NULL, &kernel, NULL);
    if (result == BASE_EPERMISSION || result == BASE_ENOTFOUND)
        skip();
    assert_int_equal(result, BASE_OK);
    FILE *file = fopen("/proc/kallsyms", "re");
    unsigned named = 0, functions = 0;
    while (fgets(line, sizeof line, file)) {
        unsigned long address;
        char type, own[512], of[128] = "";
        const char *name, *module;
        uint64_t start;
        if (sscanf(line, "%lx %c %511s %127s", &address, &type, own, of) < 3 || !strchr("tT", type) ||
            !strncmp(own, "_e", 2) || is_made_by_kernel(of))
            continue;
        functions++;
        assert_true(symbol_kernel_find(kernel, address, &name, &module, &start));
        assert_true(start == address);
        named += !strcmp(name, own);
    }
    fclose(file);
    symbol_kernel_close(kernel);
    assert_true(named > functions / 2); /* the others are aliases */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_read),
        cmocka_unit_test(hidden_addresses_are_an_error),
        cmocka_unit_test(own_kernel_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
