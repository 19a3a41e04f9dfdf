#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base_pool.h"

enum { JOBS = 500, ROUNDS = 200 };

struct tally {
    unsigned done[JOBS];
};

static void count(void *context, size_t number)
{
    struct tally *tally = context;
    tally->done[number]++; /* nobody else's */
}

static void every_job_is_done_once(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 7, JOBS};
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            struct tally tally = {0};
            base_pool(counts[i], count, &tally);
            for (size_t number = 0; number < JOBS; number++)
                assert_int_equal(tally.done[number], number < counts[i]);
        }
}

static void work_in_work(void *context, size_t number)
{
    (void)number;
    struct tally inner = {0};
    base_pool(3, count, &inner);
    __atomic_add_fetch((unsigned *)context, inner.done[0] + inner.done[1] + inner.done[2], __ATOMIC_RELAXED);
}

static void a_job_may_have_jobs(void **state)
{
    (void)state;
    unsigned all = 0;
    base_pool(10, work_in_work, &all);
    assert_int_equal(all, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_is_done_once),
        cmocka_unit_test(a_job_may_have_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
