/* What may be written for a symbol, and what may not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbol.h"
#include "symbol_name.h"

static bool means_text(const char *pattern, const char *text, bool shown)
{
    struct symbol_name name;
    symbol_name_begin(&name, text, shown);
    bool result = symbol_name_means(&name, pattern);
    symbol_name_end(&name);
    return result;
}

/* What a name means it means where only the demangled one is known; globs of the symbol itself aside. */
static bool means(const char *pattern, const char *raw)
{
    char *shown = symbol_demangle(raw);
    bool result = means_text(pattern, raw, false);
    if (shown && (pattern[0] != '_' || !strpbrk(pattern, "*?[")) &&
        means_text(pattern, shown, true) != result)
        fail_msg("%s is understood otherwise where %s is known", pattern, shown);
    free(shown);
    return result;
}

struct meaning {
    const char *raw;
    const char *yes[12], *no[8];
};

static void check(const struct meaning *meanings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; meanings[i].yes[j]; j++)
            if (!means(meanings[i].yes[j], meanings[i].raw))
                fail_msg("%s does not mean %s", meanings[i].yes[j], meanings[i].raw);
        for (size_t j = 0; meanings[i].no[j]; j++)
            if (means(meanings[i].no[j], meanings[i].raw))
                fail_msg("%s means %s", meanings[i].no[j], meanings[i].raw);
    }
}

#define CHECK(meanings) check(meanings, sizeof(meanings) / sizeof *(meanings))

static void names_of_cpp(void **state)
{
    static const struct meaning meanings[] = {
        {"_ZN2ns1fEi",
         {"ns::f", "ns::f(int)", "ns::f( int )", "_ZN2ns1fEi", "ns::*", "ns::f*", "*f(int)", "n?::f"},
         {"f", "ns", "ns::f(", "ns::f()", "ns::f(char)", "s::f", "ns::g"}},
        {"_Z5parsePKcj",
         {"parse", "parse(char const*, unsigned int)", "parse(char const*,unsigned int)", "pars*"},
         {"arse", "parse(unsignedint)", "pars"}},
        {"_ZNK2ns1C6methodEv",
         {"ns::C::method", "ns::C::method()", "ns::C::method() const"},
         {"C::method", "method"}},
        {"_ZN2ns1CC1ERKS0_", {"ns::C::C", "ns::C::C(ns::C const&)"}, {"ns::C"}},
        {"_ZN2ns1CD2Ev", {"ns::C::~C", "ns::C::~C()"}, {"ns::C::C"}},
        {"_ZN12_GLOBAL__N_15localEi",
         {"local", "local(int)", "(anonymous namespace)::local", "(anonymous namespace)::local(int)"},
         {"loca"}},
        {"_ZN2ns12_GLOBAL__N_15localEi", {"ns::local", "ns::(anonymous namespace)::local(int)"}, {"local"}},
        {"_ZN2ns3maxIiEET_S1_S1_",
         {"ns::max", "ns::max<int>", "ns::max(int, int)", "ns::max<int>(int, int)",
          "int ns::max<int>(int, int)"},
         {"ns::max<char>", "int", "ns::max<>"}},
        {"_ZN3BoxIiE3getEv",
         {"Box::get", "Box<int>::get", "Box<int>::get()", "Box::get()"},
         {"Box<char>::get"}},
        {"_ZNK2ns1AixEi", {"ns::A::operator[]", "ns::A::operator[](int) const"}, {"ns::A::operator"}},
        {"_ZNK2ns1AltERKS0_", {"ns::A::operator<", "ns::A::operator<(ns::A const&)"}, {"ns::A::operator"}},
        {"_ZlsIiERSoS0_T_", {"operator<<", "operator<< <int>"}, {"operator<"}},
        {"_ZN2ns1AptEv", {"ns::A::operator->", "ns::A::operator->()"}, {"ns::A::operator-"}},
        {"_ZNSs6appendEPKc", {"std::string::append"}, {"append"}},
        {"_ZN2ns1gB5cxx11Ev", {"ns::g", "ns::g()", "ns::g[abi:cxx11]()"}, {"g"}},
        {"_ZN2ns1fEi.constprop.0", {"ns::f", "ns::f(int)", "ns::f(int) [clone .constprop.0]"}, {"f"}},
        {"_ZN2ns3BoxcvNS_5OtherIiEEEv",
         {"ns::Box::operator ns::Other<int>", "ns::Box::operator ns::Other<int>()"},
         {"ns::Other"}},
        {"_ZThn8_N2ns1C6methodEv",
         {"non-virtual thunk to ns::C::method", "non-virtual thunk to ns::C::method()"},
         {"ns::C::method", "ns::C::method()"}},
        {"_ZZNK2ns1C6methodEvENKUliE_clEi",
         {"ns::C::method() const::{lambda(int)#1}::operator()"},
         {"ns::C::method", "operator()"}},
        {"_ZN2ns4callIPFviEEEPFvT_ES3_", {"*call*"}, {"ns::cal", "void"}},
        {"_ZN2ns1fEi@plt", {"_ZN2ns1fEi@plt", "ns::f(int)@plt"}, {"ns::f", "ns::f(int)"}},
        {"_Znwm", {"operator new", "operator new(unsigned long)"}, {"operatornew", "new"}},
    };
    (void)state;
    CHECK(meanings);
}

static void names_of_rust(void **state)
{
    static const struct meaning meanings[] = {
        {"_ZN5crate4work17h0123456789abcdefE",
         {"crate::work", "crate::*"},
         {"work", "crate::work::h0123456789abcdef"}},
        {"_RNvC5crate4work", {"crate::work"}, {"crate"}},
        {"_RINvC5crate4workmE", {"crate::work", "crate::work::<u32>"}, {"crate::work::<u8>"}},
        {"_ZN42_$LT$crate..Thing$u20$as$u20$crate..Do$GT$4work17h0123456789abcdefE",
         {"<crate::Thing as crate::Do>::work"},
         {"crate::Thing::work"}},
    };
    (void)state;
    CHECK(meanings);
}

static void names_of_c(void **state)
{
    static const struct meaning meanings[] = {
        {"parse", {"parse", "pa*", "p[a-b]rse"}, {"parse()", "pars", "ns::parse", ""}},
        {"parse.constprop.0", {"parse", "parse.constprop.0"}, {"parse.constprop"}},
        {"parse.isra.0.constprop.1", {"parse"}, {"parse.isra"}},
        {"main.work", {"main.work", "main.*"}, {"main"}}, /* of Go */
        {"", {"", "*"}, {"a"}},
        {"_Z", {"_Z"}, {"a"}},
    };
    (void)state;
    CHECK(meanings);
}

static void expect_list(const char *list, const char *first, const char *rest)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", list);
    char *found = symbol_name_cut(copy);
    assert_string_equal(copy, first);
    if (rest)
        assert_string_equal(found, rest);
    else
        assert_null(found);
}

static void lists_end_at_commas_outside_of_brackets(void **state)
{
    (void)state;
    expect_list("f", "f", NULL);
    expect_list("f,g,h", "f", "g,h");
    expect_list("f(int, char),g", "f(int, char)", "g");
    expect_list("ns::max<int, std::pair<a, b>>::f,g", "ns::max<int, std::pair<a, b>>::f", "g");
    expect_list("f(*,g(a, b)", "f(*", "g(a, b)");
    expect_list("operator<,g", "operator<", "g");
    expect_list("operator<<,g", "operator<<", "g");
    expect_list("operator->,g", "operator->", "g");
    expect_list("operator(),g", "operator()", "g");
    expect_list("operator,,g", "operator,", "g");
    expect_list("my_operator<a,b>,g", "my_operator<a,b>", "g");
    expect_list("f)>,g", "f)>", "g");
    expect_list("", "", NULL);
    expect_list(",", "", "");
}

/* Brackets that nothing closes, and names without end. */
static void odd_patterns_do_no_harm(void **state)
{
    static char endless[10000];
    static const char *const odd[] = {"(",  "<", "f<", "f(", "[abi:", "[", "operator",
                                      "->", ">", ":",  "::", " ",     "~", "{anonymous}::"};
    (void)state;
    for (size_t i = 0; i + 1 < sizeof endless; i++)
        endless[i] = '(';
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_false(means(odd[i], "_ZN2ns3maxIiEET_S1_S1_"));
    assert_false(means(endless, "_ZN2ns1fEi"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_cpp),
        cmocka_unit_test(names_of_rust),
        cmocka_unit_test(names_of_c),
        cmocka_unit_test(lists_end_at_commas_outside_of_brackets),
        cmocka_unit_test(odd_patterns_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
