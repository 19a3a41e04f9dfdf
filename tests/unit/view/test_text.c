/* Figures and names as they are printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_utf8.h"
#include "view_table.h"
#include "view_text.h"

static void expect(struct base_text *text, const char *expected)
{
    assert_string_equal(base_text_string(text), expected);
    base_text_clear(text);
}

static void counts(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        const char *text;
    } cases[] = {{0, "0"},
                 {999, "999"},
                 {1000, "1,000"},
                 {21158, "21,158"},
                 {9999999, "9,999,999"},
                 {10000000, "10.0 M"},
                 {18400000, "18.4 M"},
                 {97671433, "97.7 M"},
                 {99960000, "100 M"},
                 {999400000, "999 M"},
                 {999600000, "1.0 G"},
                 {UINT64_MAX, "18.4 E"}};
    struct base_text text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        view_text_count(&text, cases[i].count);
        expect(&text, cases[i].text);
    }
    base_text_free(&text);
}

static void own_samples(void **state)
{
    (void)state;
    struct base_text text = {0};
    view_text_own(&text, 0, 0, false);
    expect(&text, "");
    view_text_own(&text, 281, 1000, true);
    expect(&text, "Tally itself: 28.1 % of all samples, left out");
    view_text_own(&text, 281, 1000, false);
    expect(&text, "Tally itself: 28.1 % of all samples");
    base_text_free(&text);
}

static void times(void **state)
{
    (void)state;
    static const struct {
        int64_t time;
        const char *text;
    } cases[] = {{0, "0 ns"},
                 {999, "999 ns"},
                 {1000, "1.00 µs"},
                 {844000, "844 µs"},
                 {999600, "1.00 ms"},
                 {9996000, "10.0 ms"},
                 {2310000000, "2.31 s"},
                 {99960000000, "100 s"},
                 {1000000000000, "16 min 40 s"},
                 {3599600000000, "1 h 00 min"},
                 {7980000000000, "2 h 13 min"},
                 {-1500, "-1.50 µs"}};
    struct base_text text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        view_text_time(&text, cases[i].time, false);
        expect(&text, cases[i].text);
    }
    view_text_time(&text, 1000, true);
    expect(&text, "1.00 us");
    base_text_free(&text);
}

static void values(void **state)
{
    (void)state;
    struct base_text text = {0};
    view_text_value(&text, "bytes", 212000, false);
    expect(&text, "207 KiB");
    view_text_value(&text, "bytes", 1000, false);
    expect(&text, "1000 B");
    view_text_value(&text, "bytes", 1024, false);
    expect(&text, "1.00 KiB");
    view_text_value(&text, "bytes", INT64_MAX, false);
    expect(&text, "8.00 EiB");
    view_text_value(&text, "bytes", -5, false);
    expect(&text, "-5 B");
    view_text_value(&text, "calls", 1204, false);
    expect(&text, "1,204");
    view_text_value(&text, "ns", INT64_MIN, false);
    assert_true(text.length > 0);
    base_text_clear(&text);
    view_text_value(&text, "calls", INT64_MIN, false);
    expect(&text, "-9.2 E");
    base_text_free(&text);
}

static void shares(void **state)
{
    (void)state;
    struct base_text text = {0};
    struct view_selection selection = {.unit = "ns", .taken = {1000, 1000}, .effective = 1000};
    struct view_figure figure = {312, 312};
    view_text_share(&text, &selection, &figure, false);
    expect(&text, "31.2 ±2.9 %");
    view_text_share(&text, &selection, &figure, true);
    expect(&text, "31.2 +-2.9 %");
    selection.taken = (struct view_figure){10, 10};
    selection.effective = 10;
    view_text_share(&text, &selection, &(struct view_figure){5, 5}, false);
    expect(&text, "50.0 ±26.3 %");
    view_text_share(&text, &selection, &(struct view_figure){0, 0}, false);
    expect(&text, "0.0 ±13.9 %");
    selection.exact = true;
    view_text_share(&text, &selection, &(struct view_figure){5, 5}, false);
    expect(&text, "5 ns  50.0 %");
    selection.peak = true;
    view_text_share(&text, &selection, &(struct view_figure){5, 5}, false);
    expect(&text, "5 ns");
    base_text_free(&text);
}

static void shortened(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned columns;
        const char *text;
    } cases[] = {
        {"abcdefghij", 0, "abcdefghij"}, {"abcdefghij", 10, "abcdefghij"},
        {"abcdefghij", 9, "abcd…ghij"},  {"abcdefghij", 8, "abcd…hij"},
        {"abcdefghij", 3, "a…j"},        {"abcdefghij", 2, "ab"},
        {"äöüßäöüßäöüß", 7, "äöü…öüß"},  {"日本語日本語", 12, "日本語日本語"},
        {"日本語日本語", 8, "日本…語"},  {"ae\u0301ae\u0301ae\u0301ae\u0301", 5, "ae\u0301…ae\u0301"},
    };
    struct base_text text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        view_text_fit(&text, cases[i].name, cases[i].columns, false);
        if (cases[i].columns)
            assert_true(base_utf8_width(base_text_string(&text)) <= cases[i].columns);
        expect(&text, cases[i].text);
    }
    view_text_fit(&text, "abcdefghij", 9, true);
    expect(&text, "abc...hij");
    base_text_free(&text);
}

static void shortened_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned columns;
        const char *text;
    } cases[] = {
        {"f(int, char const*)", 30, "f(int, char const*)"},
        {"f(int, char const*)", 12, "f(…)"},
        {"f(int, char const*) const", 12, "f(…) const"},
        {"std::map<int, std::string>::operator[](int const&)", 41,
         "std::map<int, std::string>::operator[](…)"},
        {"std::map<int, std::string>::operator[](int const&)", 30, "std::map<…>::operator[](…)"},
        {"(anonymous namespace)::Reader::next", 24, "(anonymous n…eader::next"},
        {"operator<<(std::ostream&, int)", 15, "operator<<(…)"},
        {"bool operator< <int>(Pair<int>)", 24, "bool operator< <int>(…)"},
        {"run<Some::Type>::operator->", 20, "run<…>::operator->"},
        {"odd>>((<name", 8, "odd>…ame"},
        {"<alloc::Vec<T> as Drop>::drop", 20, "<…>::drop"},
        {")))((<<<>>>", 6, ")))……>"},
    };
    struct base_text text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        view_text_fit_name(&text, cases[i].name, cases[i].columns, false);
        expect(&text, cases[i].text);
    }
    base_text_free(&text);
}

/* Any bytes at any width: never wider, never broken UTF-8. */
static void any_name_fits(void **state)
{
    (void)state;
    static const char *const pieces[] = {"a",        "(", ")",  "<",      ">",  "-",
                                         "operator", "é", "日", "\u0301", "::", " "};
    struct base_text name = {0}, text = {0};
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        base_text_clear(&name);
        base_text_clear(&text);
        for (unsigned n = 0; n < 24; n++) {
            seed = base_hash(seed + n + 1);
            base_text_add(&name, pieces[seed % (sizeof pieces / sizeof *pieces)]);
        }
        unsigned columns = 1 + (unsigned)(seed >> 32) % 30;
        view_text_fit_name(&text, base_text_string(&name), columns, seed & 1);
        assert_true(base_utf8_width(base_text_string(&text)) <= columns);
        size_t length;
        for (const char *at = base_text_string(&text); *at; at += length)
            assert_int_not_equal(base_utf8_next(at, &length), BASE_UTF8_INVALID);
    }
    base_text_free(&name);
    base_text_free(&text);
}

static void print_table(struct view_table *table, unsigned width, const char *expected)
{
    struct base_text out = {0};
    struct view_table_form form = {.width = width, .indent = 1, .titles = true};
    view_table_print(table, &form, &out);
    assert_string_equal(base_text_string(&out), expected);
    base_text_free(&out);
}

static void tables(void **state)
{
    (void)state;
    struct view_table table = {0};
    view_table_add_column(&table, "n", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "name", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    view_table_add_column(&table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
    view_table_cell(&table, "1", false);
    view_table_cell_tail(&table, "a_function_with_a_name", " [12]", false);
    view_table_cell(&table, "libabcdefgh.so", false);
    view_table_row(&table, VIEW_PLAIN);
    view_table_cell(&table, "22", false);
    view_table_cell(&table, "(what does not fit in the column of its own)", false);
    view_table_cell(&table, NULL, false);
    view_table_row(&table, VIEW_DIM);
    view_table_cell(&table, NULL, false);
    view_table_cell(&table, NULL, false);
    view_table_cell(&table, NULL, false);
    view_table_row(&table, VIEW_PLAIN);
    print_table(&table, 42,
                "  n  name                   image\n"
                "  1  a_functi…_a_name [12]  libabcdefgh.so\n"
                " 22  (what does not fit…column of its own)\n"
                "\n");
    print_table(&table, 0,
                "  n  name                                          image\n"
                "  1  a_function_with_a_name [12]                   libabcdefgh.so\n"
                " 22  (what does not fit in the column of its own)\n"
                "\n");
    view_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts), cmocka_unit_test(times),         cmocka_unit_test(values),
        cmocka_unit_test(shares), cmocka_unit_test(shortened),     cmocka_unit_test(shortened_names),
        cmocka_unit_test(tables), cmocka_unit_test(any_name_fits), cmocka_unit_test(own_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
