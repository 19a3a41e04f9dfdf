/* Every allocation of every format fails once: the profile comes whole, or the error does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_text.h"
#include "export.h"
#include "failing.h"
#include "import.h"
#include "import_file.h"
#include "sample_profile.h"

static bool keep(void *context, const void *bytes, size_t length)
{
    base_text_add_bytes(context, bytes, length);
    return true;
}

static struct base_text exported(const struct profile *profile, enum export_format format)
{
    struct export_options options = {.format = format, .counter = format == EXPORT_FOLDED, .marks = true};
    struct base_text text = {0};
    options.creator = "tally 0";
    options.file = "some.out";
    assert_int_equal(export_profile(profile, &options, keep, &text, NULL), BASE_OK);
    return text;
}

static void fail_each(const uint8_t *bytes, size_t size)
{
    struct import_options options = {.file = "some", .processes = true};
    struct profile *whole = NULL, *some;
    uint64_t failing = 0;
    options.format = import_recognise(bytes, size);
    options.processes = options.format == IMPORT_FOLDED;
    assert_int_equal(import_profile(bytes, size, &options, &whole, NULL), BASE_OK);
    for (bool reached = true; reached; failing++) {
        struct base_error error = {0};
        some = NULL;
        failing_begin(failing + 1);
        int code = import_profile(bytes, size, &options, &some, &error);
        reached = failing_end() > failing;
        if (code < 0) {
            assert_int_equal(code, BASE_ENOMEM);
            assert_true(reached && error.text[0] && !some);
            continue;
        }
        assert_int_equal(some->node_count, whole->node_count);
        assert_int_equal(some->cell_count, whole->cell_count);
        assert_int_equal(some->function_count, whole->function_count);
        assert_int_equal(some->meta_count, whole->meta_count);
        profile_free(some);
    }
    assert_true(failing > 20);
    profile_free(whole);
}

static void folded(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    struct base_text text = exported(sample.profile, EXPORT_FOLDED);
    fail_each((const uint8_t *)text.data, text.length);
    base_text_free(&text);
    profile_free(sample.profile);
}

static void pprof(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    struct base_text text = exported(sample.profile, EXPORT_PPROF);
    uint8_t *bytes = NULL;
    size_t length;
    assert_int_equal(import_file_unpack((const uint8_t *)text.data, text.length, &bytes, &length, NULL),
                     BASE_OK);
    fail_each(bytes, length);
    free(bytes);
    base_text_free(&text);
    profile_free(sample.profile);
}

static void gperftools(void **state)
{
    (void)state;
    static const uint64_t words[] = {0, 3, 0, 10000, 0, 7, 2, 0x401010, 0x402020, 9, 1, 0x403030, 0, 1, 0};
    static const char maps[] = "00400000-00500000 r-xp 00000000 08:01 5 /nowhere/program\n"
                               "7ff000000000-7ff000002000 r-xp 00000000 00:00 0 [vdso]\n";
    uint8_t bytes[sizeof words + sizeof maps];
    memcpy(bytes, words, sizeof words);
    memcpy(bytes + sizeof words, maps, sizeof maps);
    fail_each(bytes, sizeof bytes - 1);
}

static void unpacking(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    struct base_text text = exported(sample.profile, EXPORT_PPROF);
    uint8_t *bytes;
    size_t length;
    uint64_t failing = 0;
    for (bool reached = true; reached; failing++) {
        struct base_error error = {0};
        failing_begin(failing + 1);
        int code = import_file_unpack((const uint8_t *)text.data, text.length, &bytes, &length, &error);
        reached = failing_end() > failing;
        assert_int_equal(code, reached ? BASE_ENOMEM : BASE_OK);
        if (code == BASE_OK)
            free(bytes);
    }
    for (size_t cut = 2; cut < text.length; cut += 37) {
        struct base_error error = {0};
        assert_int_equal(import_file_unpack((const uint8_t *)text.data, cut, &bytes, &length, &error),
                         BASE_EFORMAT);
        assert_true(error.text[0]);
    }
    base_text_free(&text);
    profile_free(sample.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folded), cmocka_unit_test(pprof),
                                       cmocka_unit_test(gperftools), cmocka_unit_test(unpacking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
