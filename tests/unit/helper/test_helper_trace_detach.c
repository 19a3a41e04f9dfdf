/* Processes that are detached for a while: what is known of them is kept, what happens meanwhile is reported
 * later. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_session.h"
#include "trace_child.h"

static int detach(struct helper_session *tally, pid_t pid)
{
    struct base_error error = {0};
    int result = BASE_EBUSY;
    for (int i = 0; i < 50 && result == BASE_EBUSY;
         i++) { /* threads asleep in the kernel do not stop at once */
        base_error_clear(&error);
        result = helper_trace_detach(&tally->helper, pid, NULL, 0, &error);
    }
    helper_session_must(result, &error);
    return result;
}

static struct trace_cost cost_of(struct helper_session *tally, pid_t pid)
{
    struct trace_cost cost;
    struct base_error error = {0};
    helper_session_must(helper_trace_cost(&tally->helper, pid, &cost, &error), &error);
    return cost;
}

/* --- threads keep what they have --- */

enum { STEADY = 4 };

static pthread_t steady[STEADY];

/* Its gs base is the same whenever it looks. */
static void *keep_looking(void *argument)
{
    uint64_t own = helper_session_own_gs();
    helper_session_take_own();
    while (!atomic_load(&helper_session_truth->done)) {
        if (helper_session_own_gs() != own)
            helper_session_wrong("another gs base", helper_session_own_gs());
        atomic_fetch_add(&helper_session_truth->beats, 1);
        helper_session_nap_us(300);
    }
    return argument;
}

static int steady_threads(void)
{
    for (int i = 0; i < STEADY; i++)
        if (pthread_create(&steady[i], NULL, keep_looking, NULL))
            return 3;
    for (int i = 0; i < STEADY; i++)
        pthread_join(steady[i], NULL);
    return helper_session_churn();
}

static void threads_keep_their_gs(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, steady_threads, 16);
    helper_session_work_until(&tally, TRACE_CREATED, STEADY);
    assert_true(trace_child_tracers(pid) > 0);
    for (int i = 0; i < 20; i++) {
        detach(&tally, pid);
        assert_int_equal(trace_child_tracers(pid), 0);
        assert_true(helper_session_beats());
        helper_session_must(helper_trace_reattach(&tally.helper, pid, &error), &error);
        assert_true(trace_child_tracers(pid) > 0);
    }
    detach(&tally, pid);
    helper_session_must(helper_trace_detach(&tally.helper, pid, NULL, 0, &error),
                        &error); /* it is detached already */
    assert_true(helper_session_beats());
    helper_session_hold(&tally, pid); /* reattaches it as well */
    assert_true(trace_child_tracers(pid) > 0);
    helper_session_release(&tally, pid);
    struct trace_cost cost = cost_of(&tally, pid), all = cost_of(&tally, 0);
    assert_int_equal(cost.detachments, 21);
    assert_true(cost.detached_ns > 0 && cost.detached_ns < cost.followed_ns);
    assert_true(all.detached_ns == cost.detached_ns && all.followed_ns >= cost.followed_ns);
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 17 << 8);
    assert_int_equal(tally.kinds[TRACE_CREATED], STEADY + 1000);
    assert_int_equal(tally.kinds[TRACE_FOUND], 0);
    helper_session_finish(&tally);
}

/* --- signals are free --- */

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&helper_session_truth->signals, 1);
}

static int ticking(void)
{
    struct itimerval tick = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, count_signal);
    setitimer(ITIMER_REAL, &tick, NULL);
    return helper_session_beat();
}

static void signals_do_not_stop_it(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, ticking, 4);
    while (atomic_load(&helper_session_truth->signals) < 5)
        helper_session_nap_us(1000);
    assert_true(cost_of(&tally, pid).signals > 0);
    detach(&tally, pid);
    uint64_t before = cost_of(&tally, pid).signals;
    unsigned received = atomic_load(&helper_session_truth->signals);
    while (atomic_load(&helper_session_truth->signals) < received + 20)
        helper_session_nap_us(1000);
    assert_int_equal(cost_of(&tally, pid).signals, before);
    helper_session_must(helper_trace_reattach(&tally.helper, pid, &error), &error);
    received = atomic_load(&helper_session_truth->signals);
    while (atomic_load(&helper_session_truth->signals) < received + 5)
        helper_session_nap_us(1000);
    assert_true(cost_of(&tally, pid).signals > before);
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 13 << 8);
    helper_session_finish(&tally);
}

/* --- ends --- */

static void *end_when_woken(void *argument)
{
    helper_session_take_own();
    while (!atomic_load(&helper_session_truth->value))
        helper_session_nap_us(300);
    return argument;
}

static int one_that_ends(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, end_when_woken, NULL);
    pthread_create(&threads[1], NULL, keep_looking, NULL);
    pthread_join(threads[0], NULL);
    atomic_store(&helper_session_truth->value, 2);
    pthread_join(threads[1], NULL);
    return 5;
}

static void a_thread_that_ended_is_reported_later(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, one_that_ends, 8);
    helper_session_work_until(&tally, TRACE_CREATED, 2);
    detach(&tally, pid);
    atomic_store(&helper_session_truth->value, 1);
    while (atomic_load(&helper_session_truth->value) != 2)
        helper_session_work(&tally, 1);
    assert_int_equal(tally.kinds[TRACE_EXITED], 0);
    helper_session_must(helper_trace_reattach(&tally.helper, pid, &error), &error);
    helper_session_work_until(&tally, TRACE_EXITED, 1);
    assert_int_equal(tally.kinds[TRACE_EXITED], 1);
    assert_true(helper_session_number_of(tally.last[TRACE_EXITED].gs));
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(tally.kinds[TRACE_EXITED], 3);
    assert_int_equal(helper_session_wait_for(pid), 5 << 8);
    helper_session_finish(&tally);
}

static void an_end_is_reported_at_once(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, one_that_ends, 8);
    helper_session_work_until(&tally, TRACE_CREATED, 2);
    detach(&tally, pid);
    kill(pid, SIGKILL);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(tally.kinds[TRACE_EXITED], 3);
    assert_int_equal(helper_session_wait_for(pid), SIGKILL);
    assert_int_equal(helper_trace_reattach(&tally.helper, pid, &error), BASE_ENOTFOUND);
    assert_true(cost_of(&tally, 0).detached_ns > 0);
    helper_session_finish(&tally);
}

/* --- what the caller should prevent --- */

static int created_unseen(void)
{
    pthread_t thread;
    while (!atomic_load(&helper_session_truth->value))
        helper_session_nap_us(300);
    pthread_create(&thread, NULL, keep_looking, NULL);
    pthread_join(thread, NULL);
    return 6;
}

static void a_thread_created_meanwhile_is_found(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, created_unseen, 8);
    detach(&tally, pid);
    atomic_store(&helper_session_truth->value, 1);
    assert_true(helper_session_beats());
    helper_session_hold(&tally, pid);
    helper_session_release(&tally, pid);
    helper_session_work_until(&tally, TRACE_FOUND, 1);
    assert_int_equal(tally.kinds[TRACE_FOUND], 1);
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 6 << 8);
    helper_session_finish(&tally);
}

static int becomes_another(void)
{
    while (!atomic_load(&helper_session_truth->value))
        helper_session_nap_us(300);
    execl("/bin/sleep", "sleep", "100", (char *)NULL);
    return 1;
}

static bool runs_sleep(pid_t pid)
{
    char path[64], target[256] = "";
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    return readlink(path, target, sizeof target - 1) > 0 && !strstr(target, "test_helper");
}

static void another_image_is_an_end(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, becomes_another, 8);
    detach(&tally, pid);
    atomic_store(&helper_session_truth->value, 1);
    while (!runs_sleep(pid))
        helper_session_nap_us(1000);
    assert_int_equal(helper_trace_hold(&tally.helper, pid, NULL, &error), BASE_ENOTFOUND);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(trace_child_tracers(pid), 0);
    kill(pid, SIGKILL);
    assert_int_equal(helper_session_wait_for(pid), SIGKILL);
    helper_session_finish(&tally);
}

/* --- refusals --- */

static volatile uint64_t turns;

/* Runs in its own code, or in a callee's with a return address to it. */
__attribute__((noinline, noclone)) static int stay_here(void)
{
    while (!atomic_load(&helper_session_truth->done))
        helper_session_nap_us(200 + (long)(turns++ % 2));
    return 13;
}

static void no_thread_in_a_range_is_detached(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    /* Static, and past the start: the child's stack is a copy of this one. */
    static struct trace_step_range ranges[2] = {{UINT64_C(0x123456789abc0000), UINT64_C(0x123456789abd0000)}};
    ranges[1].start = (uint64_t)(uintptr_t)stay_here + 1;
    ranges[1].end = ranges[1].start + 512; /* sanitised functions are long */
    pid_t pid = helper_session_start(&tally, stay_here, 8);
    helper_session_nap_us(20000);
    for (int i = 0; i < 10; i++)
        assert_int_equal(helper_trace_detach(&tally.helper, pid, ranges, 2, &error), BASE_EBUSY);
    assert_true(trace_child_tracers(pid) > 0);
    base_error_clear(&error);
    helper_session_must(helper_trace_detach(&tally.helper, pid, ranges, 1, &error), &error);
    assert_int_equal(trace_child_tracers(pid), 0);
    helper_session_must(helper_trace_reattach(&tally.helper, pid, &error), &error);
    helper_session_hold(&tally, pid);
    assert_int_equal(helper_trace_detach(&tally.helper, pid, ranges, 1, &error), BASE_EBUSY);
    helper_session_release(&tally, pid);
    assert_int_equal(helper_trace_detach(&tally.helper, 1, ranges, 1, &error), BASE_ENOTFOUND);
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 13 << 8);
    helper_session_finish(&tally);
}

/* --- leaving, and the helper's end --- */

static void a_detached_process_can_be_left(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, helper_session_beat, 8);
    detach(&tally, pid);
    helper_session_must(helper_trace_leave(&tally.helper, pid, &error), &error);
    assert_int_equal(trace_child_tracers(pid), 0);
    helper_session_follow(&tally, pid); /* and again */
    assert_true(trace_child_tracers(pid) > 0);
    detach(&tally, pid);
    helper_session_follow(&tally, pid); /* a detached process is reattached */
    assert_true(trace_child_tracers(pid) > 0);
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 13 << 8);
    helper_session_finish(&tally);
}

static volatile uint64_t exit_word; /* every target has its own */

static int wait_for_exit_write(void)
{
    while (!exit_word)
        helper_session_nap_us(1000);
    return exit_word == 77 ? 3 : 1;
}

static void a_write_at_exit_reaches_detached_processes(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, wait_for_exit_write, 8);
    helper_session_must(
        helper_trace_write_at_exit(&tally.helper, pid, (uint64_t)(uintptr_t)&exit_word, 77, &error), &error);
    detach(&tally, pid);
    helper_session_nap_us(5000);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    helper_session_finish(&tally);
    assert_int_equal(helper_session_wait_for(pid), 3 << 8);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_keep_their_gs),
        cmocka_unit_test(signals_do_not_stop_it),
        cmocka_unit_test(a_thread_that_ended_is_reported_later),
        cmocka_unit_test(an_end_is_reported_at_once),
        cmocka_unit_test(a_thread_created_meanwhile_is_found),
        cmocka_unit_test(another_image_is_an_end),
        cmocka_unit_test(no_thread_in_a_range_is_detached),
        cmocka_unit_test(a_detached_process_can_be_left),
        cmocka_unit_test(a_write_at_exit_reaches_detached_processes),
    };
    if (!helper_session_main(argc, argv))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
