/* Demangling against nm -C, for every name of real libraries; clone suffixes; names made to do harm. argv[1]:
 * the directory of fixtures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle.h"

/* Both lists are in the order of the file. "ADDRESS TYPE NAME", the address missing where there is none. */
static const char *name_of(const char *line)
{
    return strlen(line) > 19 ? line + 19 : "";
}

static void compare_all(const char *flags, const char *path)
{
    char *raw = oracle_output("nm -p %s '%s' 2>/dev/null", flags, path), *raw_at = raw, *line;
    char *readable = oracle_output("nm -p -C %s '%s' 2>/dev/null", flags, path), *readable_at = readable;
    unsigned different = 0, compared = 0;
    while ((line = oracle_line(&raw_at))) {
        const char *mangled = name_of(line), *expected = name_of(oracle_line(&readable_at));
        char *at = strchr(line, '@'); /* versions are not for us */
        if (at || strncmp(mangled, "_", 1))
            continue;
        char *name = symbol_demangle(mangled);
        compared += name != NULL;
        if (name && !strstr(expected, " [clone ")) /* nm leaves them out of Rust's names */
            name[strstr(name, " [clone ") ? (size_t)(strstr(name, " [clone ") - name) : strlen(name)] = '\0';
        if (strcmp(name ? name : mangled, expected) && different++ < 5)
            fprintf(stderr, "%s: %s, not %s\n", mangled, name ? name : "nothing", expected);
        free(name);
    }
    free(raw);
    free(readable);
    assert_int_equal(different, 0);
    assert_true(compared >= 10);
}

static void cpp_agrees(void **state)
{
    (void)state;
    if (!oracle_fixture("cpp"))
        skip();
    compare_all("", oracle_path("cpp"));
}

static void cpp_library_agrees(void **state)
{
    (void)state;
    char *found = oracle_output(
        "ls /usr/lib/*-linux-gnu*/libLLVM-14.so.1 /usr/lib/llvm-14/lib/libLLVM-14.so 2>/dev/null | head -1");
    found[strcspn(found, "\n")] = '\0';
    if (!*found) {
        free(found);
        skip();
    }
    compare_all("-D --without-symbol-versions", found);
    free(found);
}

static void rust_agrees(void **state)
{
    (void)state;
    if (!oracle_fixture("rust"))
        skip();
    compare_all("", oracle_path("rust"));
    compare_all("", oracle_path("rust_v0"));
}

static void forms_are_these(void **state)
{
    (void)state;
    static const struct {
        const char *mangled, *readable; /* NULL: it is not for us */
    } cases[] = {
        {"_ZN3fooEi", "foo(int)"},
        {"_ZN3fooEi.cold", "foo(int) [clone .cold]"},
        {"_ZN3fooEi.part.0", "foo(int) [clone .part.0]"},
        {"_ZN3fooEi.constprop.0.isra.0", "foo(int) [clone .constprop.0] [clone .isra.0]"},
        {"_ZN3fooEi.lto_priv.12", "foo(int) [clone .lto_priv.12]"},
        {"_ZN3fooEi.llvm.1234567", "foo(int) [clone .llvm.1234567]"},
        {"_ZN3fooEi@plt", "foo(int)@plt"},
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"},
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE.llvm.123",
         "core::fmt::Write::write_fmt [clone .llvm.123]"},
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE.cold",
         "core::fmt::Write::write_fmt [clone .cold]"},
        {"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
         "3bar17h930b740aa94f1d3aE",
         "<Test + 'static as foo::Bar<Test>>::bar"},
        {"_RNvC6_123foo3bar", "123foo::bar"},
        {"_RNvC6_123foo3bar.llvm.9D1C9369", "123foo::bar [clone .llvm.9D1C9369]"},
        {"_RNvC6_123foo3bar.cold.1", "123foo::bar [clone .cold.1]"},
        {"main", NULL},
        {"main.cold", NULL},
        {"memcpy@plt", NULL},
        {"_start", NULL},
        {"_Z", NULL},
        {"_ZN3fooEi@@VERSION_1", NULL},
        {"_ZN3fo", NULL},
        {"_R", NULL},
        {"_RNv", NULL},
        {"_", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *readable = symbol_demangle(cases[i].mangled);
        if (!cases[i].readable != !readable || (readable && strcmp(readable, cases[i].readable)))
            fail_msg("%s: %s", cases[i].mangled, readable ? readable : "nothing");
        free(readable);
    }
}

/* --- names made to do harm --- */

/* `start`, then `unit` again and again until the name has `length` bytes. */
static char *repeated(const char *start, const char *unit, size_t length)
{
    size_t first = strlen(start), each = strlen(unit), at = first;
    char *name = malloc(length + first + each + 1);
    assert_non_null(name);
    memcpy(name, start, first);
    for (; at + each <= length; at += each)
        memcpy(name + at, unit, each);
    name[at] = '\0';
    return name;
}

static void deep_names_are_survived(void **state)
{
    (void)state;
    static const char *const units[] = {
        "P", "F",   "1AI", "N1AI",  "Dp", "DT", "Li", "KDTcl", "L_Z1f", "Z1fE", "M",  "A_", "Xnw", "UlE",
        "T", "Xcv", "sr",  "XtlDp", "DO", "B_", "IC", "INv",   "RS",    "FK",   "TT", "DG", "YN",  "XadL"};
    static const char *const starts[] = {"_Z1f", "_ZN", "_R", "_RNvC", "_RI", "_RX"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        for (size_t j = 0; j < sizeof starts / sizeof *starts; j++) {
            for (size_t length = 1000; length <= 100000; length *= 10) {
                char *name = repeated(starts[j], units[i], length);
                free(symbol_demangle(name));
                free(name);
            }
        }
    }
}

/* Each parameter is twice as long as the one before: the last would take gigabytes. */
static void explosive_names_are_left_mangled(void **state)
{
    (void)state;
    char name[512] = "_Z1f1AIiiE";
    size_t length = strlen(name);
    for (int i = 0; i < 30; i++) {
        char twice = (char)(i < 10 ? '0' + i : 'A' + i - 10);
        int wrote = snprintf(name + length, sizeof name - length, "S_IS%c_S%c_E", twice, twice);
        length += (size_t)wrote;
        char *readable = symbol_demangle(name);
        assert_true(!readable || strlen(readable) <= 65536 + 16);
        assert_true(i < 12 || !readable);
        free(readable);
    }
}

static void random_names_are_survived(void **state)
{
    (void)state;
    static const char letters[] = "NKPRFTSIEZDLXYMACBivclnwst0123459_.$@abde";
    uint64_t random = 1;
    for (int round = 0; round < 100000; round++) {
        char name[80] = {'_', round & 1 ? 'Z' : 'R'};
        size_t length = 3 + (size_t)(round % 70);
        for (size_t i = 2; i < length; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            name[i] = letters[(random >> 33) % (sizeof letters - 1)];
        }
        free(symbol_demangle(name));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_these),           cmocka_unit_test(cpp_agrees),
        cmocka_unit_test(cpp_library_agrees),        cmocka_unit_test(rust_agrees),
        cmocka_unit_test(deep_names_are_survived),   cmocka_unit_test(explosive_names_are_left_mangled),
        cmocka_unit_test(random_names_are_survived),
    };
    if (argc < 2)
        return 2;
    oracle_use(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
