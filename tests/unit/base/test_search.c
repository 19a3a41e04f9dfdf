#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base_search.h"

struct item {
    uint32_t other;
    uint64_t key;
    uint8_t last;
};

static size_t count_below(const struct item *items, size_t count, uint64_t key, bool with_equal)
{
    size_t below = 0;
    for (size_t i = 0; i < count; i++)
        below += items[i].key < key || (with_equal && items[i].key == key);
    return below;
}

static void nothing_is_below_in_nothing(void **state)
{
    (void)state;
    const struct item *none = NULL;
    assert_int_equal(base_search_below(none, 0, key, 5), 0);
    assert_int_equal(base_search_up_to(none, 0, key, UINT64_MAX), 0);
}

/* Of every size, with keys that stand there several times and both ends of the numbers. */
static void it_agrees_with_counting(void **state)
{
    (void)state;
    struct item items[40];
    unsigned seed = 7;
    for (size_t count = 1; count <= 40; count++) {
        uint64_t key = seed % 3 ? 0 : 1;
        for (size_t i = 0; i < count; i++) {
            seed = seed * 1103515245u + 12345u;
            items[i] = (struct item){.key = key, .other = seed, .last = 0xff};
            key = i + 2 < count ? key + (seed >> 16) % 3 : UINT64_MAX;
        }
        for (uint64_t wanted = 0; wanted < 100; wanted++) {
            assert_int_equal(base_search_below(items, count, key, wanted),
                             count_below(items, count, wanted, false));
            assert_int_equal(base_search_up_to(items, count, key, wanted),
                             count_below(items, count, wanted, true));
        }
        assert_int_equal(base_search_below(items, count, key, UINT64_MAX),
                         count_below(items, count, UINT64_MAX, false));
        assert_int_equal(base_search_up_to(items, count, key, UINT64_MAX), count);
    }
}

/* Neighbours are not read as the upper half of a number. */
static void narrow_numbers_are_numbers(void **state)
{
    (void)state;
    struct {
        char first;
        uint32_t key;
        int32_t tid;
    } items[] = {{1, 3, 0}, {1, 3, 5}, {1, UINT32_MAX - 1, 6}, {1, UINT32_MAX, INT32_MAX}};
    const uint32_t narrow[] = {2, 4, 4, UINT32_MAX};
    const uint64_t wide[] = {2, 1ull << 32, UINT64_MAX};
    assert_int_equal(base_search_below(items, 4, key, 3), 0);
    assert_int_equal(base_search_up_to(items, 4, key, 3), 2);
    assert_int_equal(base_search_below(items, 4, key, UINT32_MAX), 3);
    assert_int_equal(base_search_up_to(items, 4, key, 1ull << 32), 4);
    assert_int_equal(base_search_below(items, 4, tid, 6), 2);
    assert_int_equal(base_search_up_to(items, 4, tid, INT32_MAX), 4);
    assert_int_equal(base_search_number(narrow, 4, 2), 0);
    assert_int_equal(base_search_number(narrow, 4, 4), 1);
    assert_int_equal(base_search_number(narrow, 4, 5), 3);
    assert_int_equal(base_search_number(narrow, 4, UINT32_MAX), 3);
    assert_int_equal(base_search_number(wide, 3, 1ull << 32), 1);
    assert_int_equal(base_search_number(wide, 3, UINT64_MAX), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_below_in_nothing),
        cmocka_unit_test(it_agrees_with_counting),
        cmocka_unit_test(narrow_numbers_are_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
