/* base_json byte by byte; base_utf8 against an encoder and the tables of RFC 3629. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_json.h"
#include "base_utf8.h"

static void documents(void **state)
{
    (void)state;
    struct base_text out = {0};
    struct base_json json = {.out = &out, .lines = 1};
    base_json_begin(&json, NULL, '{');
    base_json_string(&json, "text", "a \"b\" \\ \n\x7f\xff\u202e é");
    base_json_string(&json, "none", NULL);
    base_json_integer(&json, "least", INT64_MIN);
    base_json_unsigned(&json, "most", UINT64_MAX);
    base_json_number(&json, "number", 0.1);
    base_json_number(&json, "odd", NAN);
    base_json_number(&json, "odd", INFINITY);
    base_json_bool(&json, "yes", true);
    base_json_begin(&json, "list", '[');
    base_json_integer(&json, NULL, 1);
    base_json_begin(&json, NULL, '{');
    base_json_end(&json, '}');
    base_json_begin(&json, NULL, '[');
    base_json_bool(&json, NULL, false);
    base_json_end(&json, ']');
    base_json_end(&json, ']');
    base_json_end(&json, '}');
    assert_string_equal(base_text_string(&out),
                        "{\n"
                        "  \"text\": \"a \\\"b\\\" \\\\ \\u000a\\u007f\xef\xbf\xbd\\u202e é\",\n"
                        "  \"none\": null,\n"
                        "  \"least\": -9223372036854775808,\n"
                        "  \"most\": 18446744073709551615,\n"
                        "  \"number\": 0.1,\n"
                        "  \"odd\": null,\n"
                        "  \"odd\": null,\n"
                        "  \"yes\": true,\n"
                        "  \"list\": [1, {}, [false]]\n"
                        "}\n");
    base_text_free(&out);
}

static size_t encode(uint32_t character, char bytes[5])
{
    size_t length = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 0; character >>= 6)
        bytes[i] = (char)(i ? 0x80 | (character & 0x3f) : marks[length] | character);
    bytes[length] = '\0';
    return length;
}

static void every_character(void **state)
{
    (void)state;
    for (uint32_t character = 1; character < 0x120000; character++) {
        char bytes[5];
        size_t expected = encode(character, bytes), length;
        bool valid = character < 0x110000 && (character < 0xd800 || character > 0xdfff);
        assert_int_equal(base_utf8_next(bytes, &length), valid ? character : BASE_UTF8_INVALID);
        assert_int_equal(length, valid ? expected : 1);
        bytes[expected - 1] = '\0'; /* cut short */
        if (expected > 1)
            assert_int_equal(base_utf8_next(bytes, &length), BASE_UTF8_INVALID);
    }
}

static void bad_bytes(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xc3x",
                                      "\xe2\x82x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t length;
        assert_int_equal(base_utf8_next(bad[i], &length), BASE_UTF8_INVALID);
        assert_int_equal(length, 1);
    }
}

static void widths(void **state)
{
    (void)state;
    assert_int_equal(base_utf8_width(""), 0);
    assert_int_equal(base_utf8_width("±1.9 µs …"), 9);
    assert_int_equal(base_utf8_width("├ │ └"), 5);
    assert_int_equal(base_utf8_width("日本語"), 6);
    assert_int_equal(base_utf8_width("e\u0301"), 1);
    assert_int_equal(base_utf8_width("\xff\xfe"), 2);
    assert_false(base_utf8_printable('\033'));
    assert_false(base_utf8_printable(0x202e));
    assert_true(base_utf8_printable(0xe9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(documents), cmocka_unit_test(every_character),
                                       cmocka_unit_test(bad_bytes), cmocka_unit_test(widths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
