/* Texts of unknown origin, as they may reach a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base_utf8.h"

static void expect(struct base_text *text, const char *expected)
{
    assert_string_equal(base_text_string(text), expected);
    base_text_clear(text);
}

static void test_hostile_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *clean, *ascii;
    } cases[] = {{"plain", "plain", "plain"},
                 {"\033[31mred\033[0m", "\\x1b[31mred\\x1b[0m", "\\x1b[31mred\\x1b[0m"},
                 {"a\nb\tc\r\x7f", "a\\x0ab\\x09c\\x0d\\x7f", "a\\x0ab\\x09c\\x0d\\x7f"},
                 {"größe", "größe", "gr??e"},
                 {"\xff\xfe x\xc3", "?? x?", "?? x?"},
                 {"\xc0\xaf\xed\xa0\x80", "?????", "?????"},
                 {"a\u202ecba", "a\\u202ecba", "a?cba"},
                 {"\xc2\x85", "\\x85", "?"}};
    struct base_text text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_utf8_clean(&text, cases[i].name, false);
        expect(&text, cases[i].clean);
        base_utf8_clean(&text, cases[i].name, true);
        expect(&text, cases[i].ascii);
    }
    base_text_free(&text);
}

static void test_escapes(void **state)
{
    (void)state;
    struct base_text text = {0};
    base_utf8_escape(&text, 0x1b);
    expect(&text, "\\x1b");
    base_utf8_escape(&text, 0xff);
    expect(&text, "\\xff");
    base_utf8_escape(&text, 0x100);
    expect(&text, "\\u0100");
    base_utf8_escape(&text, 0xe0001);
    expect(&text, "\\ue0001");
    base_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_escapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
