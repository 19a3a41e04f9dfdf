/* Names of functions against nm, objdump and each other, at every address of programs whose symbols are in
 * every place they can be. argv[1]: the directory of fixtures. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_text.h"
#include "oracle.h"

static bool same_name(const char *name, const char *raw)
{
    char *readable = symbol_demangle(raw);
    bool same = !strcmp(name, readable ? readable : raw);
    free(readable);
    return same;
}

/* --- against nm --- */

/* nm does not tell the binding of a function chosen at run time (i): any of its names will do. */
static bool agrees(const struct oracle_symbols *symbols, const struct symbol_function *found,
                   const struct oracle_symbol *expected)
{
    bool same = same_name(found->name, expected->name);
    for (size_t i = 0; i < symbols->count && expected->type == 'i'; i++)
        same = same ||
               (symbols->items[i].start == expected->start && same_name(found->name, symbols->items[i].name));
    return same && found->start == expected->start && !found->from_fde;
}

/* At every address of .text; what no symbol covers may be in an FDE. */
static void compare_with_nm(const char *name, const char *oracle, const struct symbol_options *options)
{
    if (!oracle_fixture(name))
        skip();
    struct opened opened = oracle_open(oracle_path(name), options);
    struct oracle_symbols symbols;
    oracle_symbols_read(&symbols, "", oracle_path(oracle));
    unsigned different = 0, named = 0;
    for (uint64_t address = opened.start; address < opened.end; address++) {
        struct symbol_function function = {0};
        const struct oracle_symbol *expected = oracle_symbol_at(&symbols, address, opened.start);
        bool found = symbol_file_function(opened.file, address, &function);
        named += expected != NULL;
        if (expected ? !found || !agrees(&symbols, &function, expected) : found && !function.from_fde) {
            if (different++ < 5)
                fprintf(stderr, "%s 0x%lx: %s, not %s\n", name, address, found ? function.name : "nothing",
                        expected ? expected->name : "nothing");
        }
    }
    oracle_symbols_free(&symbols);
    oracle_close(&opened);
    assert_int_equal(different, 0);
    assert_true(named > 200);
}

static void symtab_agrees(void **state)
{
    (void)state;
    compare_with_nm("dwarf5", "dwarf5", NULL);
    compare_with_nm("dwarf4", "dwarf4", NULL);
}

static void clang_agrees(void **state)
{
    (void)state;
    compare_with_nm("clang", "clang", NULL);
}

static void cpp_agrees(void **state)
{
    (void)state;
    compare_with_nm("cpp", "cpp", NULL);
}

static void aarch64_agrees(void **state)
{
    (void)state;
    compare_with_nm("aarch64", "aarch64", NULL);
}

static void debug_file_agrees(void **state)
{
    (void)state;
    char debug[4096], root[4096];
    snprintf(debug, sizeof debug, "%s", oracle_path("debug"));
    snprintf(root, sizeof root, "%s", oracle_path("root"));
    const struct symbol_options by_directory = {.debug_directory = debug}, by_root = {.root = root};
    compare_with_nm("by_id/program", "dwarf5", &by_directory);
    compare_with_nm("by_id/program", "dwarf5", &by_root);
    compare_with_nm("beside/program", "no_id", NULL);
    compare_with_nm("hidden/program", "no_id", NULL);
    compare_with_nm("far/program", "no_id", &by_directory);
    compare_with_nm("rooted/program", "no_id", &by_root);
}

static void mini_debug_information_agrees(void **state)
{
    (void)state;
    compare_with_nm("mini", "dwarf5", NULL);
}

static bool has_symbol(const char *name, const struct symbol_options *options, const char *wanted)
{
    struct opened opened = oracle_open(oracle_path(name), options);
    struct symbol_function function;
    bool found = false;
    for (uint64_t address = opened.start; address < opened.end && !found; address++)
        found = symbol_file_function(opened.file, address, &function) && !strcmp(function.name, wanted);
    oracle_close(&opened);
    return found;
}

/* Only when asked for; the server here is a directory. */
static void debuginfod_agrees(void **state)
{
    (void)state;
    char cache[] = "/tmp/tally-debuginfod-XXXXXX", url[4200];
    void *library = dlopen("libdebuginfod.so.1", RTLD_NOW);
    if (!library)
        skip();
    assert_non_null(mkdtemp(cache));
    snprintf(url, sizeof url, "file://%s", oracle_path("served"));
    setenv("DEBUGINFOD_URLS", url, 1);
    setenv("DEBUGINFOD_CACHE_PATH", cache, 1);
    assert_false(has_symbol("stripped", NULL, "local_function"));
    compare_with_nm("stripped", "dwarf5",
                    &(struct symbol_options){.debuginfod = true, .debug_directory = "/nonexistent"});
    unsetenv("DEBUGINFOD_URLS");
    free(oracle_output("rm -r %s", cache));
    dlclose(library);
}

/* --- nothing to name them by --- */

static void wrong_debug_files_are_refused(void **state)
{
    (void)state;
    char debug[4096];
    snprintf(debug, sizeof debug, "%s", oracle_path("debug"));
    const struct symbol_options options = {.debug_directory = debug};
    assert_true(has_symbol("beside/program", NULL, "local_function"));
    assert_false(has_symbol("wrong/program", NULL, "local_function")); /* another checksum */
    assert_true(has_symbol("by_id/program", &options, "local_function"));
    assert_false(has_symbol("other_id/program", &options, "local_function")); /* another build-id inside */
}

/* Functions that have an FDE are distinguished, and bear the file's name and where they start. */
static void stripped_functions_are_bounded(void **state)
{
    (void)state;
    struct opened opened = oracle_open(oracle_path("stripped"), NULL);
    struct oracle_symbols symbols;
    oracle_symbols_read(&symbols, "", oracle_path("dwarf5"));
    static const char *const names[] = {"local_function", "fixture_loop", "fixture_twice", "aliased", "main"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct oracle_symbol *symbol = NULL;
        for (size_t j = 0; j < symbols.count; j++)
            symbol = strcmp(symbols.items[j].name, names[i]) ? symbol : &symbols.items[j];
        assert_non_null(symbol);
        for (uint64_t address = symbol->start; address < symbol->start + symbol->size; address++) {
            struct symbol_function function;
            char expected[64];
            snprintf(expected, sizeof expected, "stripped+0x%lx", symbol->start);
            assert_true(symbol_file_function(opened.file, address, &function));
            assert_true(function.from_fde);
            assert_int_equal(function.start, symbol->start);
            assert_int_equal(function.end, symbol->start + symbol->size);
            assert_string_equal(function.name, expected);
        }
    }
    oracle_symbols_free(&symbols);
    oracle_close(&opened);
}

static void addresses_without_code_have_no_function(void **state)
{
    (void)state;
    struct opened opened = oracle_open(oracle_path("dwarf5"), NULL);
    struct symbol_function function;
    assert_false(symbol_file_function(opened.file, 0, &function));
    assert_false(symbol_file_function(opened.file, 1, &function));
    assert_false(symbol_file_function(opened.file, UINT64_MAX, &function));
    oracle_close(&opened);
}

/* --- linkage tables --- */

/* "0000000000001030 <puts@plt>:" of the disassembly; there is no other tool that names them. */
static void compare_with_objdump(const char *name, const char *objdump, unsigned least)
{
    if (!oracle_fixture(name))
        skip();
    struct opened opened = oracle_open(oracle_path(name), NULL);
    char *said = oracle_output("%s -d '%s' | grep '@plt>:$'", objdump, oracle_path(name)), *at = said, *line;
    unsigned count = 0;
    while ((line = oracle_line(&at))) {
        struct symbol_function function;
        char *label = strchr(line, '<'), *end;
        uint64_t address = strtoull(line, &end, 16);
        if (strstr(label, "*ABS*"))
            continue;
        *strchr(label, '>') = '\0';
        for (unsigned byte = 0; byte < 8; byte++) {
            assert_true(symbol_file_function(opened.file, address + byte, &function));
            assert_string_equal(function.name, label + 1);
            assert_int_equal(function.start, address);
        }
        count++;
    }
    free(said);
    oracle_close(&opened);
    assert_true(count >= least);
}

static void linkage_tables_are_named(void **state)
{
    (void)state;
    compare_with_objdump("lazy", "objdump", 5);
    compare_with_objdump("now", "objdump", 5);
    compare_with_objdump("stripped", "objdump", 5);
    compare_with_objdump("clang", "objdump", 4);
}

static void tracked_linkage_tables_are_named(void **state)
{
    (void)state;
    compare_with_objdump("tracked", "objdump", 5);
    assert_true(has_symbol("tracked", NULL, "main"));
}

/* Where slots point before they are bound: entries of .plt, which objdump leaves without names. */
static void unbound_entries_are_named(void **state)
{
    (void)state;
    if (!oracle_fixture("tracked"))
        skip();
    struct opened opened = oracle_open(oracle_path("tracked"), NULL);
    char *said =
        oracle_output("readelf -rW '%s' | sed '1,/rela.plt/d' | grep R_X86_64", oracle_path("tracked"));
    char *at = said, *line;
    uint64_t count = 0;
    while ((line = oracle_line(&at))) {
        struct symbol_function function;
        uint64_t slot, entry;
        size_t available;
        char name[64];
        if (sscanf(line, "%lx %*x R_X86_64_JUMP_SLO%*s %*x %63[^@ ]", &slot, name) != 2)
            continue; /* chosen at run time: without a name */
        memcpy(&entry, elf_image_at(opened.image, slot, &available), sizeof entry);
        assert_true(symbol_file_function(opened.file, entry + 4, &function));
        assert_int_equal(function.start, entry);
        assert_int_equal(strncmp(function.name, name, strlen(name)), 0);
        assert_string_equal(function.name + strlen(name), "@plt");
        count++;
    }
    assert_true(count >= 5);
    free(said);
    oracle_close(&opened);
}

static void aarch64_linkage_tables_are_named(void **state)
{
    (void)state;
    compare_with_objdump("aarch64", "aarch64-linux-gnu-objdump", 5);
    compare_with_objdump("aarch64_guarded", "aarch64-linux-gnu-objdump", 5);
}

/* --- libraries --- */

/* First and last byte of every function, and the one behind it. */
static void compare_library(const char *pattern)
{
    char *found = oracle_output("ls %s 2>/dev/null | head -1", pattern);
    found[strcspn(found, "\n")] = '\0';
    if (!*found) {
        free(found);
        skip();
    }
    struct opened opened = oracle_open(found, NULL);
    struct oracle_symbols symbols;
    oracle_symbols_read(&symbols, "-D", found);
    unsigned different = 0, compared = 0;
    for (size_t i = 0; i < symbols.count; i++) {
        const struct oracle_symbol *symbol = &symbols.items[i];
        for (uint64_t address = symbol->start; symbol->size && address <= symbol->start + symbol->size;
             address += symbol->size > 1 ? symbol->size - 1 : 1) {
            struct symbol_function function = {0};
            const struct oracle_symbol *expected = oracle_symbol_at(&symbols, address, 0);
            bool got = symbol_file_function(opened.file, address, &function);
            compared++;
            if (expected ? !got || !agrees(&symbols, &function, expected)
                         : got && !function.from_fde && !strstr(function.name, "@plt")) {
                if (different++ < 5)
                    fprintf(stderr, "%s 0x%lx: %s, not %s\n", found, address, got ? function.name : "nothing",
                            expected ? expected->name : "nothing");
            }
        }
    }
    free(found);
    oracle_symbols_free(&symbols);
    oracle_close(&opened);
    assert_int_equal(different, 0);
    assert_true(compared > 500);
}

static void libc_agrees(void **state)
{
    (void)state;
    compare_library("/lib/*-linux-gnu*/libc.so.6 /lib64/libc.so.6");
}

static void sqlite_agrees(void **state)
{
    (void)state;
    compare_library("/usr/lib/*-linux-gnu*/libsqlite3.so.0 /usr/lib64/libsqlite3.so.0");
}

static void cpp_library_agrees(void **state)
{
    (void)state;
    compare_library("/usr/lib/*-linux-gnu*/libstdc++.so.6 /usr/lib64/libstdc++.so.6");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symtab_agrees),
        cmocka_unit_test(clang_agrees),
        cmocka_unit_test(cpp_agrees),
        cmocka_unit_test(aarch64_agrees),
        cmocka_unit_test(debug_file_agrees),
        cmocka_unit_test(mini_debug_information_agrees),
        cmocka_unit_test(debuginfod_agrees),
        cmocka_unit_test(wrong_debug_files_are_refused),
        cmocka_unit_test(stripped_functions_are_bounded),
        cmocka_unit_test(addresses_without_code_have_no_function),
        cmocka_unit_test(linkage_tables_are_named),
        cmocka_unit_test(tracked_linkage_tables_are_named),
        cmocka_unit_test(unbound_entries_are_named),
        cmocka_unit_test(aarch64_linkage_tables_are_named),
        cmocka_unit_test(libc_agrees),
        cmocka_unit_test(sqlite_agrees),
        cmocka_unit_test(cpp_library_agrees),
    };
    if (argc < 2)
        return 2;
    oracle_use(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
