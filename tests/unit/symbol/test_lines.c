/* Lines and inlined frames at the addresses of programs compiled in several ways, against addr2line; against
 * LLVM's where that of binutils 2.40 is known to be wrong: for clang's address ranges, and for the file of
 * constprop clones. argv[1]: the directory of fixtures. */
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
        char *function = oracle_line(at), *place = oracle_line(at),
             *colon = place ? strrchr(place, ':') : NULL;
        assert_non_null(colon);
        assert_true(truth->count < LEVELS);
        truth->levels[truth->count].function = function;
        truth->levels[truth->count].line = (uint32_t)strtoul(colon + 1, NULL, 10);
        *colon = '\0';
        truth->levels[truth->count++].file = strcmp(place, "??") ? last_part(place) : NULL;
    }
}

static bool same_function(const char *name, const char *raw)
{
    char *readable = symbol_demangle(raw);
    bool same = !strcmp(name, readable ? readable : raw);
    free(readable);
    return same;
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
        if (i + 1 < count && !same_function(lines[i].function, truth->levels[i].function))
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

struct program {
    const char *name;
    const char *oracle; /* the file with its debug information; NULL: itself */
    const char *command;
    uint64_t step; /* between addresses; 0: 1 */
};

static char *ask(const struct program *program, const struct opened *opened)
{
    char list[] = "/tmp/tally-lines-XXXXXX";
    int fd = mkstemp(list);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    for (uint64_t address = opened->start; address < opened->end; address += program->step)
        fprintf(file, "0x%lx\n", address);
    fclose(file);
    char *said = oracle_output("%s -a -f -i -e '%s' < %s", program->command,
                               oracle_path(program->oracle ? program->oracle : program->name), list);
    unlink(list);
    return said;
}

static void compare(struct program program, const struct symbol_options *options)
{
    if (!oracle_fixture(program.name))
        skip();
    program.step = program.step ? program.step : 1;
    struct opened opened = oracle_open(oracle_path(program.name), options);
    char *said = ask(&program, &opened), *at = said;
    unsigned different = 0, deep = 0;
    assert_true(symbol_file_has_lines(opened.file));
    for (uint64_t address = opened.start; address < opened.end; address += program.step) {
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

static const char *llvm(void)
{
    static char path[256];
    char *found = oracle_output("ls /usr/bin/llvm-addr2line /usr/bin/llvm-addr2line-* 2>/dev/null | head -1");
    snprintf(path, sizeof path, "%.*s", (int)strcspn(found, "\n"), found);
    free(found);
    if (!*path)
        skip();
    return path;
}

static void dwarf5_agrees(void **state)
{
    (void)state;
    compare((struct program){"dwarf5", NULL, "addr2line", 1}, NULL);
}

static void dwarf4_agrees(void **state)
{
    (void)state;
    compare((struct program){"dwarf4", NULL, "addr2line", 1}, NULL);
}

static void compressed_agrees(void **state)
{
    (void)state;
    compare((struct program){"compressed", NULL, "addr2line", 1}, NULL);
}

/* addr2line finds no inlined frames in it; the code is the same. */
static void split_dwarf_agrees(void **state)
{
    (void)state;
    compare((struct program){"dwo", "dwarf5", "addr2line", 1}, NULL);
}

static void separate_file_agrees(void **state)
{
    (void)state;
    char directory[4096];
    snprintf(directory, sizeof directory, "%s", oracle_path("debug"));
    compare((struct program){"by_id/program", "dwarf5", "addr2line", 1},
            &(struct symbol_options){.debug_directory = directory});
    compare((struct program){"beside/program", "no_id", "addr2line", 1}, NULL);
}

/* What several files have in common is in one of its own, found by .gnu_debugaltlink. */
static void shared_file_agrees(void **state)
{
    (void)state;
    compare((struct program){"shared/first", "dwarf5", "addr2line", 1}, NULL);
    compare((struct program){"shared/second", "no_id", "addr2line", 1}, NULL);
}

static void aarch64_agrees(void **state)
{
    (void)state;
    compare((struct program){"aarch64", NULL, "addr2line", 1}, NULL);
}

static void clang_agrees(void **state)
{
    (void)state;
    compare((struct program){"clang", NULL, llvm(), 1}, NULL);
}

static void cpp_agrees(void **state)
{
    (void)state;
    compare((struct program){"cpp", NULL, llvm(), 1}, NULL);
}

static void rust_agrees(void **state)
{
    (void)state;
    compare((struct program){"rust", NULL, llvm(), 97}, NULL);
    compare((struct program){"rust_v0", NULL, llvm(), 101}, NULL);
}

/* Where there is room for fewer, the innermost are given, and the outermost. */
static void levels_are_limited(void **state)
{
    (void)state;
    struct opened opened = oracle_open(oracle_path("dwarf5"), NULL);
    unsigned cut = 0;
    for (uint64_t address = opened.start; address < opened.end; address++) {
        struct symbol_line all[LEVELS], some[2];
        size_t count = symbol_file_lines(opened.file, address, all, LEVELS);
        size_t limited = symbol_file_lines(opened.file, address, some, 2);
        assert_int_equal(limited, count < 2 ? count : 2);
        assert_int_equal(symbol_file_lines(opened.file, address, NULL, 0), 0);
        if (count < 2)
            continue;
        assert_ptr_equal(some[0].function, all[0].function);
        assert_int_equal(some[0].line, all[0].line);
        assert_null(some[1].function);
        assert_int_equal(some[1].line, all[count - 1].line);
        cut += count > 2;
    }
    assert_true(cut > 20);
    oracle_close(&opened);
}

static void no_lines_are_no_failure(void **state)
{
    (void)state;
    struct symbol_line line;
    struct opened opened = oracle_open(oracle_path("stripped"), NULL);
    assert_false(symbol_file_has_lines(opened.file));
    assert_int_equal(symbol_file_lines(opened.file, opened.start, &line, 1), 0);
    oracle_close(&opened);
    opened = oracle_open(oracle_path("dwarf5"), NULL);
    assert_int_equal(symbol_file_lines(opened.file, 0, &line, 1), 0);
    assert_int_equal(symbol_file_lines(opened.file, UINT64_MAX, &line, 1), 0);
    oracle_close(&opened);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dwarf5_agrees),        cmocka_unit_test(dwarf4_agrees),
        cmocka_unit_test(compressed_agrees),    cmocka_unit_test(split_dwarf_agrees),
        cmocka_unit_test(separate_file_agrees), cmocka_unit_test(shared_file_agrees),
        cmocka_unit_test(aarch64_agrees),       cmocka_unit_test(clang_agrees),
        cmocka_unit_test(cpp_agrees),           cmocka_unit_test(rust_agrees),
        cmocka_unit_test(levels_are_limited),   cmocka_unit_test(no_lines_are_no_failure),
    };
    if (argc < 2)
        return 2;
    oracle_use(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
