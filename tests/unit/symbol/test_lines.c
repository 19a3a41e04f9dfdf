/* Lines and inlined frames against addr2line, at every address of programs compiled in several ways. argv[1]: the folder of
 * fixtures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "oracle.h"

enum { LEVELS = 32 };

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "FUNCTION\nPATH:LINE (discriminator N)\n" for each level, until the next address. */
struct truth {
    size_t count;
    struct {
        const char *function, *file;
        uint32_t line;
    } levels[LEVELS];
};

static void read_truth(char **at, struct truth *truth)
{
    truth->count = 0;
    while (**at && strncmp(*at, "0x", 2)) {
        char *function = oracle_line(at), *place = oracle_line(at), *colon = place ? strrchr(place, ':') : NULL;
        assert_non_null(colon);
        assert_true(truth->count < LEVELS);
        truth->levels[truth->count].function = function;
        truth->levels[truth->count].line = (uint32_t)strtoul(colon + 1, NULL, 10);
        *colon = '\0';
        truth->levels[truth->count++].file = strcmp(place, "??") ? last_part(place) : NULL;
    }
}

/* Whether ours say the same; the outermost level has no function of its own. */
static bool agree(const struct truth *truth, const struct symbol_line *lines, size_t count)
{
    if (truth->count == 1 && !truth->levels[0].line) /* it may still know a file, from .symtab */
        return !count || (count == 1 && !lines[0].line);
    if (count != truth->count || lines[count - 1].function)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (lines[i].line != truth->levels[i].line || !lines[i].file ||
            strcmp(last_part(lines[i].file), truth->levels[i].file))
            return false;
        if (i + 1 < count && strcmp(lines[i].function, truth->levels[i].function))
            return false;
    }
    return true;
}

static void show(uint64_t address, const struct truth *truth, const struct symbol_line *lines, size_t count)
{
    fprintf(stderr, "0x%lx:", address);
    for (size_t i = 0; i < truth->count; i++)
        fprintf(stderr, " %s %s:%u", truth->levels[i].function, truth->levels[i].file, truth->levels[i].line);
    fprintf(stderr, "\n   ours:");
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, " %s %s:%u", lines[i].function, lines[i].file, lines[i].line);
    fprintf(stderr, "\n");
}

static char *ask_addr2line(const char *path, const struct opened *opened)
{
    char list[] = "/tmp/tally-lines-XXXXXX";
    int fd = mkstemp(list);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    for (uint64_t address = opened->start; address < opened->end; address++)
        fprintf(file, "0x%lx\n", address);
    fclose(file);
    char *said = oracle_output("addr2line -a -f -i -C -e '%s' < %s", path, list);
    unlink(list);
    return said;
}

/* At every address of .text. `oracle` is the file with the debug information. */
static void compare_all(const char *path, const char *oracle, const struct symbol_options *options)
{
    struct opened opened = oracle_open(path, options);
    char *said = ask_addr2line(oracle, &opened), *at = said;
    unsigned different = 0, deep = 0;
    assert_true(symbol_file_has_lines(opened.file));
    for (uint64_t address = opened.start; address < opened.end; address++) {
        struct symbol_line lines[LEVELS];
        struct truth truth;
        assert_int_equal(strtoull(oracle_line(&at), NULL, 16), address);
        read_truth(&at, &truth);
        size_t count = symbol_file_lines(opened.file, address, lines, LEVELS);
        deep += count > 2;
        if (!agree(&truth, lines, count) && different++ < 5)
            show(address, &truth, lines, count);
    }
    free(said);
    oracle_close(&opened);
    assert_int_equal(different, 0);
    assert_true(deep > 20); /* the fixture inlines */
}

static void compare_program(const char *name)
{
    const char *path = oracle_fixture(name);
    char kept[4096];
    if (!path)
        skip();
    snprintf(kept, sizeof kept, "%s", path);
    compare_all(kept, kept, NULL);
}

static void dwarf5_agrees(void **state)
{
    (void)state;
    compare_program("dwarf5");
}

static void dwarf4_agrees(void **state)
{
    (void)state;
    compare_program("dwarf4");
}

static void compressed_agrees(void **state)
{
    (void)state;
    compare_program("compressed");
}

static void split_dwarf_agrees(void **state)
{
    (void)state;
    compare_program("dwo");
}

static void clang_agrees(void **state)
{
    (void)state;
    compare_program("clang");
}

static void cpp_agrees(void **state)
{
    (void)state;
    compare_program("cpp");
}

static void aarch64_agrees(void **state)
{
    (void)state;
    compare_program("aarch64");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dwarf5_agrees),      cmocka_unit_test(dwarf4_agrees), cmocka_unit_test(compressed_agrees),
        cmocka_unit_test(split_dwarf_agrees), cmocka_unit_test(clang_agrees),  cmocka_unit_test(cpp_agrees),
        cmocka_unit_test(aarch64_agrees),
    };
    if (argc < 2)
        return 2;
    oracle_use(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
