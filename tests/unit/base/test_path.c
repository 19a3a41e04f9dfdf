/* Links that lead somewhere, nowhere yet, in a cycle, and to what has no name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_path.h"

static void must_be(const char *path, const char *expected)
{
    char *real = NULL;
    struct base_error error = {0};
    assert_int_equal(base_path_resolve(path, &real, &error), BASE_OK);
    assert_string_equal(real, expected);
    free(real);
}

static void test_links(void **state)
{
    (void)state;
    char directory[] = "/tmp/tally-path-XXXXXX", *real = NULL;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(symlink("file", "link") | symlink("../nowhere/file", "away") |
                         symlink("link", "second") | symlink("right", "left") | symlink("left", "right"),
                     0);
    must_be("plain", "plain");
    must_be("link", "file");
    must_be("second", "file");
    must_be("./second", "./file");
    must_be("away", "../nowhere/file");
    FILE *file = fopen("file", "w");
    assert_non_null(file);
    must_be("second", "file");
    assert_int_equal(base_path_resolve("left", &real, NULL), BASE_EUSAGE);
    char through[64];
    snprintf(through, sizeof through, "/proc/self/fd/%d", fileno(file));
    assert_int_equal(unlink("file"), 0);
    assert_int_equal(base_path_resolve(through, &real, NULL), BASE_EUSAGE); /* deleted */
    fclose(file);
    assert_int_equal(unlink("link") | unlink("away") | unlink("second") | unlink("left") | unlink("right"),
                     0);
    assert_int_equal(chdir("/") | rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_links)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
