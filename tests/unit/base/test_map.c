/* base_map against an array that always tells the truth; base_text against snprintf; base_error's first
 * word. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_error.h"
#include "base_map.h"
#include "base_text.h"

static void map_agrees_with_an_array(void **state)
{
    (void)state;
    enum { KEYS = 4096 };
    static uint32_t truth[KEYS];
    memset(truth, 0xff, sizeof truth);
    struct base_map map = {0};
    uint64_t random = 42;
    for (int i = 0; i < 20000; i++) {
        random = base_hash(random + 1);
        uint32_t key = (uint32_t)(random % KEYS);
        truth[key] = (uint32_t)i;
        assert_true(base_map_set(&map, (uint64_t)key << 40, (uint32_t)i));
    }
    for (uint32_t key = 0; key < KEYS; key++)
        assert_int_equal(base_map_find(&map, (uint64_t)key << 40), truth[key]);
    assert_int_equal(base_map_find(&map, 1), BASE_MAP_NONE);
    base_map_clear(&map);
    assert_int_equal(base_map_find(&map, 0), BASE_MAP_NONE);
    base_map_free(&map);
}

static void text_grows_and_detaches(void **state)
{
    (void)state;
    struct base_text text = {0};
    assert_string_equal(base_text_string(&text), "");
    for (int i = 0; i < 100; i++)
        base_text_addf(&text, "%d,", i);
    base_text_add_repeated(&text, '=', 3);
    assert_int_equal(text.length, 290 + 3);
    char *data = base_text_detach(&text);
    assert_memory_equal(data, "0,1,2,3,", 8);
    assert_string_equal(data + 290, "===");
    free(data);
    assert_null(text.data);
}

static void first_reason_stays(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(base_fail_errno(&error, EACCES, "open %s", "x"), BASE_EPERMISSION);
    assert_int_equal(base_fail(&error, BASE_EUSAGE, "later"), BASE_EUSAGE);
    assert_string_equal(error.text, "open x: Permission denied");
    base_fail_context(&error, BASE_EIO, "profile %s", "y");
    assert_string_equal(error.text, "profile y: open x: Permission denied");
    assert_int_equal(base_fail(NULL, BASE_EIO, "nobody listens"), BASE_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_agrees_with_an_array),
        cmocka_unit_test(text_grows_and_detaches),
        cmocka_unit_test(first_reason_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
