/* The forms that bytes, numbers and names take on their way out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "export_gzip.h"
#include "export_output.h"

struct kept {
    struct base_text text;
    size_t pieces;
};

static bool keep(void *context, const void *bytes, size_t length)
{
    struct kept *kept = context;
    base_text_add_bytes(&kept->text, bytes, length);
    kept->pieces++;
    return true;
}

static const struct {
    const char *name, *line, *folded, *csv, *json;
} names[] = {
    {"main", "main", "main", "main", "\"main\""},
    {"", "", "", "", "\"\""},
    {"a;b", "a;b", "a:b", "a;b", "\"a;b\""},
    {"a\nb", "a\\x0ab", "a\\x0ab", "\"a\nb\"", "\"a\\u000ab\""},
    {"a\tb\r", "a\\x09b\\x0d", "a\\x09b\\x0d", "\"a\tb\r\"", "\"a\\u0009b\\u000d\""},
    {"say \"x\"", "say \"x\"", "say \"x\"", "\"say \"\"x\"\"\"", "\"say \\\"x\\\"\""},
    {"a,b", "a,b", "a,b", "\"a,b\"", "\"a,b\""},
    {" a", " a", " a", "\" a\"", "\" a\""},
    {"a ", "a ", "a ", "\"a \"", "\"a \""},
    {"a\\b", "a\\b", "a\\b", "a\\b", "\"a\\\\b\""},
    {"\xff", "\xef\xbf\xbd", "\xef\xbf\xbd", "\xef\xbf\xbd", "\"\xef\xbf\xbd\""},
    {"\xc3", "\xef\xbf\xbd", "\xef\xbf\xbd", "\xef\xbf\xbd", "\"\xef\xbf\xbd\""},
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xc3\xbc\xf0\x9f\x94\xa5", "\xc3\xbc\xf0\x9f\x94\xa5", "\xc3\xbc\xf0\x9f\x94\xa5",
     "\xc3\xbc\xf0\x9f\x94\xa5", "\"\xc3\xbc\xf0\x9f\x94\xa5\""},
    {"\xe2\x80\xae", "\\u202e", "\\u202e", "\xe2\x80\xae", "\"\\u202e\""},
};

static void check_name(const char *name, enum export_escape escape, const char *wanted)
{
    struct base_text text = {0};
    export_output_escape(&text, name, escape);
    assert_string_equal(base_text_string(&text), wanted);
    base_text_free(&text);
}

static void names_in_every_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_name(names[i].name, EXPORT_ESCAPE_LINE, names[i].line);
        check_name(names[i].name, EXPORT_ESCAPE_FOLDED, names[i].folded);
        check_name(names[i].name, EXPORT_ESCAPE_CSV, names[i].csv);
        check_name(names[i].name, EXPORT_ESCAPE_JSON, names[i].json);
    }
}

static void numbers(void **state)
{
    (void)state;
    struct kept kept = {0};
    struct export_output *output = calloc(1, sizeof *output);
    output->sink = keep;
    output->context = &kept;
    export_output_unsigned(output, 0);
    export_output_text(output, " ");
    export_output_unsigned(output, UINT64_MAX);
    export_output_text(output, " ");
    export_output_integer(output, INT64_MIN);
    export_output_text(output, " ");
    export_output_integer(output, INT64_MAX);
    assert_int_equal(kept.pieces, 0);
    export_output_flush(output);
    assert_string_equal(base_text_string(&kept.text),
                        "0 18446744073709551615 -9223372036854775808 9223372036854775807");
    base_text_free(&kept.text);
    free(output);
}

/* Pieces of every size around that of the buffer arrive in order and whole. */
static void pieces(void **state)
{
    (void)state;
    struct kept kept = {0};
    struct export_output *output = calloc(1, sizeof *output);
    struct base_text all = {0};
    char *piece = malloc(3 * EXPORT_OUTPUT_BYTES);
    output->sink = keep;
    output->context = &kept;
    for (size_t i = 0; i < 40; i++) {
        size_t length = i % 4 == 3 ? (size_t)EXPORT_OUTPUT_BYTES + i - 20 : i * 2000;
        memset(piece, 'a' + (int)i % 26, length);
        export_output_bytes(output, piece, length);
        base_text_add_bytes(&all, piece, length);
    }
    export_output_flush(output);
    assert_int_equal(kept.text.length, all.length);
    assert_memory_equal(kept.text.data, all.data, all.length);
    free(piece);
    base_text_free(&all);
    base_text_free(&kept.text);
    free(output);
}

/* Against the examples of the protocol buffers documentation: 150 in field 1 is 08 96 01, "testing" in field
 * 2 is 12 07 ... */
static void fields(void **state)
{
    (void)state;
    struct base_text message = {0}, bytes = {0};
    export_gzip_number(&message, 1, 150);
    export_gzip_number(&message, 5, 0);
    base_text_add(&bytes, "testing");
    export_gzip_nested(&message, 2, &bytes);
    export_gzip_number(&message, 16, UINT64_MAX);
    const unsigned char wanted[] = {0x08, 0x96, 0x01, 0x12, 0x07, 't',  'e',  's',  't',  'i',  'n',  'g',
                                    0x80, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    assert_int_equal(message.length, sizeof wanted);
    assert_memory_equal(message.data, wanted, sizeof wanted);
    base_text_free(&message);
    base_text_free(&bytes);
}

/* What goes into the stream comes out of zlib's other half, whatever its length. */
static void compressed(void **state)
{
    (void)state;
    for (size_t length = 0; length < 400000; length = length * 3 + 1) {
        struct kept kept = {0};
        struct export_output *output = calloc(1, sizeof *output);
        struct export_gzip *gzip = calloc(1, sizeof *gzip);
        unsigned char *bytes = malloc(length + 1), *back = malloc(length + 2);
        uint32_t random = 1;
        for (size_t i = 0; i < length; i++)
            bytes[i] = (unsigned char)((random = random * 1664525 + 1013904223) >> 24);
        output->sink = keep;
        output->context = &kept;
        assert_true(export_gzip_begin(gzip, output));
        export_gzip_bytes(gzip, bytes, length);
        export_gzip_end(gzip);
        export_output_flush(output);
        z_stream stream = {.next_in = (unsigned char *)kept.text.data,
                           .avail_in = (unsigned)kept.text.length,
                           .next_out = back,
                           .avail_out = (unsigned)length + 1};
        assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
        assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
        assert_int_equal(stream.total_out, length);
        assert_int_equal(stream.avail_in, 0);
        assert_memory_equal(back, bytes, length);
        inflateEnd(&stream);
        free(bytes);
        free(back);
        base_text_free(&kept.text);
        free(gzip);
        free(output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_in_every_form), cmocka_unit_test(numbers),
                                       cmocka_unit_test(pieces), cmocka_unit_test(fields),
                                       cmocka_unit_test(compressed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
