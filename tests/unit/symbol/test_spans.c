/* Spans beside a list that is searched whole, and what a look-up costs: steps are counted, so that no clock is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "symbol_spans.h"

enum { MANY = 1000000, FEW_STEPS = 2000 };

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

/* By arrival, which the caller counts on. */
static const struct symbol_span *find_in_list(const struct symbol_span *list, size_t count, uint64_t address,
                                              uint64_t time)
{
    const struct symbol_span *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (list[i].start <= address && address < list[i].end && list[i].time <= time &&
            (!best || list[i].time >= best->time))
            best = &list[i];
    return best;
}

static void all_agree_with_a_list(void **state)
{
    enum { SPANS = 4000, LOOKS = 40 };
    static struct symbol_span list[SPANS];
    (void)state;
    random_state = 7;
    for (int round = 0; round < 6; round++) {
        struct symbol_spans spans = {0};
        for (size_t i = 0; i < SPANS;) {
            for (size_t end = i + draw(700) + 1; i < end && i < SPANS; i++) {
                uint64_t start = draw(1 << 14), size = draw(round % 2 ? 40 : 1 << 13) + 1,
                         time = draw(round < 3 ? 1 : 50);
                list[i] = (struct symbol_span){start, start + size, time, .value = (uint32_t)i};
                assert_true(symbol_spans_add(&spans, start, start + size, time, (uint32_t)i));
            }
            symbol_spans_settle(&spans);
            for (int look = 0; look < LOOKS; look++) {
                uint64_t address = draw(1 << 14), time = draw(60);
                const struct symbol_span *wanted = find_in_list(list, i, address, time);
                const struct symbol_span *found = symbol_spans_find(&spans, address, time, NULL);
                assert_true((wanted == NULL) == (found == NULL));
                if (wanted)
                    assert_int_equal(found->value, wanted->value);
            }
        }
        symbol_spans_free(&spans);
    }
}

/* The most steps that one of many look-ups takes. */
static size_t most_steps(const struct symbol_spans *spans, uint64_t below, uint64_t latest)
{
    size_t most = 0;
    for (int i = 0; i < 1000; i++) {
        size_t steps = 0;
        symbol_spans_find(spans, draw(below), draw(latest + 1), &steps);
        most = steps > most ? steps : most;
    }
    return most;
}

static void one_that_covers_all_costs_little(void **state)
{
    struct symbol_spans spans = {0};
    (void)state;
    symbol_spans_add(&spans, 0, UINT64_C(100) * MANY, 0, 0);
    for (uint32_t i = 1; i < MANY; i++) {
        symbol_spans_add(&spans, UINT64_C(100) * i, UINT64_C(100) * i + 30, i, i);
        symbol_spans_settle(&spans);
    }
    assert_int_equal(symbol_spans_find(&spans, 5000050, MANY, NULL)->value, 0);
    assert_int_equal(symbol_spans_find(&spans, 5000010, MANY, NULL)->value, 50000);
    assert_true(most_steps(&spans, UINT64_C(100) * MANY, MANY) < FEW_STEPS);
    assert_true(spans.run_count <= 20);
    symbol_spans_free(&spans);
}

static void many_at_one_address_cost_little(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) { /* with times that grow, that fall, and without any */
        struct symbol_spans spans = {0};
        for (uint32_t i = 0; i < MANY; i++)
            symbol_spans_add(&spans, 1000 - i % 7, 2000, how == 0 ? i : how == 1 ? MANY - i : 0, i);
        symbol_spans_settle(&spans);
        assert_true(most_steps(&spans, 2100, MANY) < FEW_STEPS);
        symbol_spans_free(&spans);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_agree_with_a_list),
        cmocka_unit_test(one_that_covers_all_costs_little),
        cmocka_unit_test(many_at_one_address_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
