/* The file of --alloc-functions: what is in it, and every way it can be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe_named.h"

static char path[] = "/tmp/named-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static int read_text(struct probe_named *named, const char *text, size_t size, struct base_error *error)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return probe_named_read(named, path, error);
}

static void test_lines(void **state)
{
    (void)state;
    static const struct {
        const char *name, *image;
        enum wire_agent_entry entry;
        unsigned line;
    } expected[] = {
        {"get", NULL, WIRE_AGENT_ENTRY_MALLOC, 3},
        {"give", "libshop.so*", WIRE_AGENT_ENTRY_FREE, 4},
        {"Pool<a==b>::get(unsigned long)", "/opt/x", WIRE_AGENT_ENTRY_ALIGNED, 5},
        {"zeros", NULL, WIRE_AGENT_ENTRY_POOL_CALLOC, 7},
        {"more", NULL, WIRE_AGENT_ENTRY_POOL_REALLOC, 8},
        {"put", NULL, WIRE_AGENT_ENTRY_POOL_FREE, 9},
        {"last", NULL, WIRE_AGENT_ENTRY_POSIX_MEMALIGN, 10},
    };
    static const char text[] =
        "# a comment = malloc\n\nget=malloc\n\t give @ libshop.so* =  free \r\n"
        "Pool<a==b>::get(unsigned long)@/opt/x = pool-malloc\n  # another\nzeros = pool-calloc\n"
        "more = pool-realloc\nput = pool-free\nlast = posix_memalign";
    struct probe_named named = {0};
    assert_int_equal(read_text(&named, text, sizeof text - 1, NULL), BASE_OK);
    assert_int_equal(named.count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < named.count; i++) {
        const struct probe_named_function *item = &named.items[i];
        assert_string_equal(item->request.name, expected[i].name);
        assert_int_equal(item->request.image == NULL, expected[i].image == NULL);
        if (item->request.image != NULL)
            assert_string_equal(item->request.image, expected[i].image);
        assert_int_equal(item->entry, expected[i].entry);
        assert_int_equal(item->line, expected[i].line);
        assert_ptr_equal(item->file, path);
    }
    probe_named_free(&named);
    assert_int_equal(named.count, 0);
}

static void fails(const char *text, size_t size, const char *what)
{
    struct probe_named named = {0};
    struct base_error error = {0};
    char wanted[256];
    assert_int_equal(read_text(&named, "a = free\n", 9, NULL), BASE_OK);
    assert_true(read_text(&named, text, size, &error) < 0);
    snprintf(wanted, sizeof wanted, "%s%s", path, what);
    if (strncmp(error.text, wanted, strlen(wanted)) != 0)
        fail_msg("%s, wanted %s", error.text, wanted);
    assert_int_equal(named.count, 1); /* as it was */
    probe_named_free(&named);
}

static void test_mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what;
    } wrong[] = {
        {"get\n", ":1: no '='"},
        {"b = free\n\nget malloc\n", ":3: no '='"},
        {" = malloc\n", ":1: no name"},
        {"@x = malloc\n", ":1: no name"},
        {"get@ = malloc\n", ":1: no image"},
        {"get = \n", ":1: '' is no role: malloc,"},
        {"get = Malloc\n", ":1: 'Malloc' is no role: malloc,"},
        {"get = malloc free\n", ":1: 'malloc free' is no role"},
        {"", " names no function"},
        {"# nothing\n\n", " names no function"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        fails(wrong[i].text, strlen(wrong[i].text), wrong[i].what);
}

/* Whatever is in it, it ends, and nothing is read beyond. */
static void test_hostile(void **state)
{
    (void)state;
    static char text[20000];
    memset(text, 'x', sizeof text);
    fails(text, sizeof text, ":1: a line of more");
    memset(text, 0, sizeof text);
    fails(text, sizeof text, "");
    memset(text, '=', sizeof text);
    text[4000] = '\n';
    fails(text, 4001, ":1: '' is no role");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "a=free\n"[i % 7];
    fails(text, 7 * 1500, ":1000: more than 1000 functions");
    struct probe_named named = {0};
    struct base_error error = {0};
    assert_true(probe_named_read(&named, "/nonexistent/x", &error) < 0);
    assert_non_null(strstr(error.text, "/nonexistent/x"));
    error.text[0] = '\0';
    assert_true(probe_named_read(&named, "/", &error) < 0);
    assert_string_equal(error.text, "/ is a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_mistakes),
                                       cmocka_unit_test(test_hostile)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
