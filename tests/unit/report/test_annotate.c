/* The parts of the views of one function: arrows, sources, and which function somebody means. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "report_arrows.h"
#include "report_source.h"
#include "sample_profile.h"

/* --- arrows --- */

static char *draw(struct report_arrow *arrows, size_t count, unsigned most, uint32_t rows, bool ascii)
{
    struct base_text out = {0};
    bool ok;
    unsigned lanes = report_arrows_place(arrows, count, most, &ok);
    assert_true(ok);
    for (uint32_t row = 0; row < rows; row++) {
        report_arrows_row(arrows, count, lanes, row, ascii, &out);
        base_text_add(&out, "\n");
    }
    assert_false(out.failed);
    return base_text_detach(&out);
}

static void expect(char *drawn, const char *wanted)
{
    assert_string_equal(drawn, wanted);
    free(drawn);
}

static void arrows(void **state)
{
    (void)state;
    struct report_arrow loop[] = {{3, 1, 0}};
    expect(draw(loop, 1, 6, 5, false), "   \n"
                                       "╭▶ \n"
                                       "│  \n"
                                       "╰─ \n"
                                       "   \n");
    struct report_arrow nest[] = {{5, 0, 0}, {3, 1, 0}, {1, 4, 0}};
    expect(draw(nest, 3, 6, 6, false), "╭──▶ \n"
                                       "│╭╭▶ \n"
                                       "│││  \n"
                                       "││╰─ \n"
                                       "│╰─▶ \n"
                                       "╰─── \n");
    struct report_arrow crossing[] = {{0, 3, 0}, {1, 2, 0}, {4, 2, 0}};
    expect(draw(crossing, 3, 6, 5, true), ",--- \n"
                                          "| ,- \n"
                                          "|,`> \n"
                                          "`+-> \n"
                                          " `-- \n");
}

static void too_many_arrows(void **state)
{
    (void)state;
    struct report_arrow all[] = {{0, 9, 0}, {1, 8, 0}, {2, 7, 0}, {3, 6, 0}};
    expect(draw(all, 4, 2, 10, true), "    \n    \n,-- \n|,- \n||  \n||  \n|`> \n`-> \n    \n    \n");
    assert_int_equal(all[0].lane, REPORT_ARROWS_NONE);
    expect(draw(NULL, 0, 6, 2, true), "  \n  \n");
}

/* --- sources --- */

static char folder[] = "/tmp/tally-test-XXXXXX";

static char *put_file(const char *name, const char *bytes, size_t size)
{
    char *path;
    assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void expect_line(struct report_source *source, const char *path, uint32_t line, const char *wanted)
{
    size_t length = 0;
    const char *text = report_source_line(source, path, line, &length);
    if (!wanted) {
        assert_null(text);
        return;
    }
    assert_non_null(text);
    assert_int_equal(length, strlen(wanted));
    assert_memory_equal(text, wanted, length);
}

static void lines_of_files(void **state)
{
    struct report_source source = {0};
    (void)state;
    char *plain = put_file("plain.c", "one\r\n\nthree", 11);
    expect_line(&source, plain, 0, NULL);
    expect_line(&source, plain, 1, "one");
    expect_line(&source, plain, 2, "");
    expect_line(&source, plain, 3, "three");
    expect_line(&source, plain, 4, NULL);
    expect_line(&source, plain, UINT32_MAX, NULL);
    assert_int_equal(report_source_count(&source, plain), 3);
    assert_int_equal(report_source_error(&source, plain), 0);
    assert_true(report_source_changed(&source, plain) > 0);
    char *empty = put_file("empty.c", "", 0), *end = put_file("end.c", "a\n", 2);
    expect_line(&source, empty, 1, NULL);
    assert_int_equal(report_source_count(&source, empty), 0);
    assert_int_equal(report_source_count(&source, end), 1);
    expect_line(&source, end, 1, "a");
    assert_int_equal(report_source_error(&source, "/dev/zero"), EINVAL);
    assert_int_equal(report_source_error(&source, folder), EINVAL);
    assert_int_equal(report_source_error(&source, "/nonexistent/a.c"), ENOENT);
    assert_int_equal(report_source_changed(&source, "/nonexistent/a.c"), 0);
    report_source_free(&source);
    unlink(plain);
    unlink(empty);
    unlink(end);
    free(plain);
    free(empty);
    free(end);
}

static void maps_of_paths(void **state)
{
    const char *const maps[] = {"/build/=/a/", "/src=/b", "rel=/c", "/src/deep=/never"};
    struct report_source source = {.maps = maps, .map_count = 4};
    (void)state;
    assert_string_equal(report_source_path(&source, "/build/x.c"), "/a/x.c");
    assert_string_equal(report_source_path(&source, "/src/deep/x.c"), "/b/deep/x.c"); /* the first counts */
    assert_string_equal(report_source_path(&source, "/src"), "/b");
    assert_string_equal(report_source_path(&source, "/srcs/x.c"), "/srcs/x.c");
    assert_string_equal(report_source_path(&source, "rel/x.c"), "/c/x.c");
    assert_string_equal(report_source_path(&source, "/other/x.c"), "/other/x.c");
    report_source_free(&source);
}

/* --- which function --- */

static void expect_answer(const struct sample_profile *sample, const char *function, const char *image,
                          const char *wanted)
{
    const struct report_annotation annotation = {.function = function, .image = image, .around = 4};
    struct report_options options = {.view = REPORT_ANNOTATE, .annotation = &annotation, .width = 0};
    struct base_text out = {0};
    struct base_error error = {0};
    int code = report_print(sample->profile, &options, &out, &error);
    const char *found = code ? error.text : strstr(base_text_string(&out), wanted);
    if (!found || strncmp(found, wanted, strlen(wanted)))
        fail_msg("%s gives %s", function, code ? error.text : base_text_string(&out));
    assert_true(code == BASE_OK || code == BASE_EUSAGE);
    base_text_free(&out);
}

static void functions_meant(void **state)
{
    struct sample_profile sample = sample_profile_full();
    (void)state;
    expect_answer(&sample, "fib", NULL, "fib in libsqlite3");
    expect_answer(&sample, "sqlite3V", NULL, "sqlite3VdbeExec in libsqlite3");
    expect_answer(&sample, "*Next", NULL, "sqlite3BtreeNext in libsqlite3");
    expect_answer(&sample, "libsqlite3.so.0+0x1008", NULL, "sqlite3VdbeExec in libsqlite3");
    expect_answer(&sample, "libsqlite3.so.0+0x9999999", NULL, "no function libsqlite3.so.0+0x9999999");
    expect_answer(&sample, "hash_bytes", NULL,
                  "hash_bytes has no code of its own: it was inlined into std::__detail");
    expect_answer(&sample, "sqlite3", NULL, "2 functions are meant by sqlite3: sqlite3VdbeExec (");
    expect_answer(&sample, "vdbeexec", NULL,
                  "no function vdbeexec in this profile; did you mean sqlite3VdbeExec?");
    expect_answer(&sample, "mian", NULL, "no function mian in this profile; did you mean main?");
    expect_answer(
        &sample, "zzzzzzzzzzzzzzzz", NULL,
        "no function zzzzzzzzzzzzzzzz in this profile (tally report shows those that have samples)");
    expect_answer(&sample, "main", "lib*", "no function main in an image lib*; there is one in ");
    profile_free(sample.profile);
}

static void functions_of_one_name(void **state)
{
    struct sample_profile sample = sample_profile_new();
    uint32_t first = sample_profile_function(&sample, sample.program, "init", 0x100, "/src/a.c", 3);
    uint32_t second = sample_profile_function(&sample, sample.library, "init", 0x900, "/src/b.c", 3);
    uint32_t cold = sample_profile_function(&sample, sample.library, "init.cold", 0x700, "/src/b.c", 9);
    uint32_t method = sample_profile_function(&sample, sample.library, "ns::stack<a::b>::push(int)", 0xa00,
                                              "/src/c.cpp", 3);
    (void)state;
    SAMPLE(&sample, 0, 30, first);
    expect_answer(&sample, "init", NULL, "init in "); /* the other has no sample */
    SAMPLE(&sample, 0, 10, second);
    SAMPLE(&sample, 0, 5, cold);
    SAMPLE(&sample, 0, 5, method);
    expect_answer(&sample, "init", NULL, "2 functions are called init: ");
    expect_answer(&sample, "init", "libsqlite3*", "init in libsqlite3");
    expect_answer(&sample, "init", "libsqlite3*", "note: a part of it lies apart: init.cold (10.0 %)");
    expect_answer(&sample, "push", NULL, "ns::stack<a::b>::push(int) in ");
    expect_answer(&sample, "stack<a::b>::push", NULL, "ns::stack<a::b>::push(int) in ");
    expect_answer(&sample, "ush", NULL, "no function ush");
    profile_free(sample.profile);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrows),          cmocka_unit_test(too_many_arrows),
        cmocka_unit_test(lines_of_files),  cmocka_unit_test(maps_of_paths),
        cmocka_unit_test(functions_meant), cmocka_unit_test(functions_of_one_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
