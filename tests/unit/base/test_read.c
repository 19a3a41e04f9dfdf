/* Files with and without a size, pipes, limits, and what cannot be read. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_read.h"

enum { SIZE = 100000 };

static void whole_and_limited(void **state)
{
    (void)state;
    char path[] = "/tmp/tally-read-XXXXXX", *bytes = malloc(SIZE);
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 31 >> 3); /* zero bytes among them */
    assert_int_equal(write(file, bytes, SIZE), SIZE);
    static const size_t limits[] = {0, 1, 16383, 16384, 16385, SIZE - 1, SIZE, SIZE + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct base_text text = {0};
        base_text_add(&text, "before");
        assert_int_equal(base_read_file(path, limits[i], &text), 0);
        size_t expected = limits[i] < SIZE ? limits[i] : SIZE;
        assert_int_equal(text.length, 6 + expected);
        assert_memory_equal(text.data, "before", 6);
        assert_memory_equal(text.data + 6, bytes, expected);
        base_text_free(&text);
    }
    close(file);
    unlink(path);
    free(bytes);
}

static void files_without_a_size(void **state)
{
    (void)state;
    struct base_text text = {0};
    int ends[2];
    assert_int_equal(base_read_file("/proc/self/maps", SIZE_MAX, &text), 0);
    assert_non_null(strstr(base_text_string(&text), "[stack]"));
    base_text_free(&text);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "piped", 5), 5);
    close(ends[1]);
    assert_int_equal(base_read(ends[0], SIZE_MAX, &text), 0);
    assert_string_equal(base_text_string(&text), "piped");
    close(ends[0]);
    base_text_free(&text);
}

static void failures(void **state)
{
    (void)state;
    struct base_text text = {0};
    assert_int_equal(base_read_file("/nowhere/at/all", SIZE_MAX, &text), -ENOENT);
    assert_int_equal(base_read_file("/tmp", SIZE_MAX, &text), -EISDIR);
    assert_int_equal(base_read(-1, SIZE_MAX, &text), -EBADF);
    assert_int_equal(text.length, 0);
    text.failed = true;
    assert_int_equal(base_read_file("/proc/self/maps", SIZE_MAX, &text), -ENOMEM);
    base_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_and_limited),
                                       cmocka_unit_test(files_without_a_size), cmocka_unit_test(failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
