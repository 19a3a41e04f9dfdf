/* Latencies of timed calls by many threads, and threads that signals keep from making progress. */
#include "function_rig.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>
#include <ucontext.h>

#include <cmocka.h>

#include "agent_rig.h"
#include "wire_agent_call.h"

/* Those that have calls: of two that are made at once, one stays empty. */
static uint32_t used_histograms(const struct wire_agent_process *process)
{
    uint32_t used = 0;
    for (uint32_t i = 1; i <= process->latency_count; i++)
        used += function_latencies(process)[i].least != 0;
    return used;
}

/* --- agent_latency.c --- */

static void test_histogram(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(i % 2 ? function_caller(0) + 1 : function_second_caller(0), 6);
    assert_int_equal(function_rig.process->latency_count, 1); /* of a function, whoever calls */
    const struct wire_agent_latency *latency = &function_latencies(function_rig.process)[1];
    assert_int_equal(latency->function, (uint64_t)function_timed);
    assert_int_equal(function_calls_in_histograms(function_rig.process), CALLS);
    uint64_t least = ~latency->least, low = 0, high = 0;
    assert_true(least > 0 && least <= latency->most);
    assert_int_not_equal(latency->buckets[wire_latency_bucket(least)], 0);
    assert_int_not_equal(latency->buckets[wire_latency_bucket(latency->most)], 0);
    for (uint32_t b = 0; b < WIRE_LATENCY_BUCKETS; b++) {
        low += latency->buckets[b] * wire_latency_low(b);
        high += latency->buckets[b] * wire_latency_low(b + 1);
    }
    assert_true(low <= latency->sum && latency->sum < high);
    assert_true(latency->sum >= agent_rig_read(&function_rig, function_rig.process, 0, 0).total);
    function_no_losses();
}

static void test_no_room(void **state)
{
    (void)state;
    function_rig.process->latency_count = WIRE_AGENT_LATENCIES - 1;
    assert_int_equal(function_caller(0), 5);
    assert_int_equal(function_caller(0), 5);
    assert_int_equal(function_calls_of(function_rig.process), 2);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_NO_HISTOGRAM], 2);
}

static void *call_often(void *unused)
{
    for (int i = 0; i < CALLS * 20; i++)
        function_caller(0);
    return unused;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(function_calls_of(function_rig.process), THREADS * CALLS * 20);
    assert_int_equal(function_calls_in_histograms(function_rig.process), THREADS * CALLS * 20);
    function_no_losses();
}

static void test_threads(void **state)
{
    (void)state;
    run_threads();
    assert_in_range(function_rig.process->latency_count, 1, THREADS);
}

/* Those that come late share one, and so do all when there is little room. */
static void test_threads_share(void **state)
{
    (void)state;
    function_rig.process->group_count = 1000;
    run_threads();
    assert_int_equal(used_histograms(function_rig.process), 1);
    assert_int_equal(function_latencies(function_rig.process)[1].group, 0);
}

static pthread_barrier_t all_there;

static void *call_together(void *unused)
{
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < CALLS; i++)
        function_caller(0);
    pthread_barrier_wait(&all_there);
    return unused;
}

/* More threads at once than have histograms of their own: these have, and the others share one. */
static void test_more_threads_than_groups(void **state)
{
    (void)state;
    pthread_t threads[MANY_THREADS];
    assert_int_equal(pthread_barrier_init(&all_there, NULL, MANY_THREADS), 0);
    for (int i = 0; i < MANY_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_together, NULL), 0);
    for (int i = 0; i < MANY_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&all_there);
    assert_int_equal(function_calls_of(function_rig.process), MANY_THREADS * CALLS);
    assert_int_equal(function_calls_in_histograms(function_rig.process), MANY_THREADS * CALLS);
    assert_int_equal(used_histograms(function_rig.process), GROUPS + 1);
    function_no_losses();
}

static void test_crowded(void **state)
{
    (void)state;
    function_rig.process->latency_count = WIRE_AGENT_LATENCIES / 2;
    run_threads();
    assert_int_equal(used_histograms(function_rig.process), 1);
}

/* --- agent_call_rest.c --- */

enum { HANDLERS = 400, CALLS_OF_HANDLER = 300 };

static int handlers_left;
static bool handlers_wait;

/* Some hundred calls; with `handlers_wait` the next signal is there when it ends. */
static void handle_one(int number)
{
    if (handlers_wait && handlers_left-- > 1)
        raise(number);
    for (int i = 0; i < CALLS_OF_HANDLER; i++)
        function_caller(0);
}

static void handle_many(bool wait)
{
    struct sigaction action = {.sa_handler = handle_one}, before;
    handlers_wait = wait;
    handlers_left = HANDLERS;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (int i = 0; i < (wait ? 1 : HANDLERS); i++)
        raise(SIGUSR1);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* Each handler ends where the next one begins: after so many calls the thread rests, and after a rest they
 * count again. */
static void test_a_thread_that_stands_still(void **state)
{
    (void)state;
    handle_many(true);
    uint64_t rested = function_rig.process->losses[WIRE_AGENT_LOSS_RESTED];
    assert_true(rested > HANDLERS * CALLS_OF_HANDLER / 2 && rested < HANDLERS * CALLS_OF_HANDLER);
    assert_true(function_calls_of(function_rig.process) > HANDLERS * CALLS_OF_HANDLER / 10);
    assert_int_equal(function_calls_of(function_rig.process) + rested, HANDLERS * CALLS_OF_HANDLER);
}

/* Nothing waits: what was interrupted gets on, though it is the same place each time. */
static void test_a_thread_that_gets_on(void **state)
{
    (void)state;
    handle_many(false);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_RESTED], 0);
    assert_int_equal(function_calls_of(function_rig.process), HANDLERS * CALLS_OF_HANDLER);
}

static void test_a_thread_that_may_not_ask(void **state)
{
    (void)state;
    function_rig.parameters->forbidden = WIRE_AGENT_CALL_PENDING;
    handle_many(true);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_RESTED], 0);
}

static void handle_shortly(int number)
{
    (void)number;
    function_caller(0);
}

/* A handler's stack was walked last; what the program calls behind it is known from before. */
static void test_a_thread_behind_its_handler(void **state)
{
    (void)state;
    enum { LATER_CALLS = 100000 };
    struct sigaction action = {.sa_handler = handle_shortly}, old;
    sigset_t waits, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    sigemptyset(&waits);
    sigaddset(&waits, SIGUSR2);
    assert_int_equal(sigprocmask(SIG_BLOCK, &waits, &before), 0);
    raise(SIGUSR2);
    for (volatile int i = 0; i < LATER_CALLS; i++) {
        function_caller(0);
        if (i == 10)
            raise(SIGUSR1);
    }
    const struct timespec at_once = {0, 0};
    assert_int_equal(sigtimedwait(&waits, NULL, &at_once), SIGUSR2);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_RESTED], 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, function_set_up, function_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_histogram),
        TEST(test_no_room),
        TEST(test_threads),
        TEST(test_threads_share),
        TEST(test_more_threads_than_groups),
        TEST(test_crowded),
        TEST(test_a_thread_that_stands_still),
        TEST(test_a_thread_that_gets_on),
        TEST(test_a_thread_that_may_not_ask),
        TEST(test_a_thread_behind_its_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
