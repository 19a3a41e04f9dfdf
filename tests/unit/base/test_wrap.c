/* Lines broken between words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base_wrap.h"

static void expect(const char *words, unsigned column, unsigned indent, unsigned width, const char *wanted)
{
    struct base_text out = {0};
    base_wrap(&out, words, column, indent, width);
    assert_false(out.failed);
    assert_string_equal(base_text_string(&out), wanted);
    base_text_free(&out);
}

static void words_stay_whole(void **state)
{
    (void)state;
    expect("one two three", 0, 0, 7, "one two\nthree");
    expect("one two three", 0, 2, 8, "one two\n  three");
    expect("one two three", 4, 0, 8, "one\ntwo\nthree");
    expect("incomprehensible words", 0, 1, 5, "incomprehensible\n words");
    expect("", 3, 3, 9, "");
}

static void a_width_of_nothing_breaks_nothing(void **state)
{
    (void)state;
    expect("one two three", 70, 0, 0, "one two three");
}

static void columns_are_counted_not_bytes(void **state)
{
    (void)state;
    expect("\xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\xc3\xa9 x", 0, 0, 7,
           "\xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\xc3\xa9\nx");
}

static void units_stay_with_their_numbers(void **state)
{
    (void)state;
    expect("takes 12 ms here", 0, 0, 8, "takes\n12 ms\nhere");
    expect("takes 12 months", 0, 0, 8, "takes 12\nmonths");
    expect("the s is none", 0, 0, 4, "the\ns is\nnone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_stay_whole),
        cmocka_unit_test(a_width_of_nothing_breaks_nothing),
        cmocka_unit_test(columns_are_counted_not_bytes),
        cmocka_unit_test(units_stay_with_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
