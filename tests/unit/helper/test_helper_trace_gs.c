/* Gs bases that tally gave are cleared, those of the program itself are not. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_session.h"
#include "trace_child.h"

enum { OFFSET = 0x7000000, THREADS = 4 };

static uint64_t gs_of(struct helper_session *tally, pid_t pid, pid_t tid)
{
    struct user_regs_struct registers;
    struct base_error error = {0};
    helper_session_must(helper_trace_read_registers(&tally->helper, pid, tid, &registers, &error), &error);
    return registers.gs_base;
}

/* The first and last address of the ranges are ours, those around them are not, nor is 0, whatever the ranges
 * hold. */
static void only_ours_become_0(void **state)
{
    (void)state;
    static const struct trace_step_range ranges[] = {{OFFSET, OFFSET + 1}, {0x20000000, 0x20001000}};
    static const uint64_t given[] = {0x20000000 - OFFSET, 0x20001000 - OFFSET, 0x20000fff - OFFSET, 0},
                          kept[] = {0, 0x20001000 - OFFSET, 0, 0};
    struct helper_session tally = helper_session_begin();
    struct helper *helper = &tally.helper;
    struct base_error error = {0};
    struct trace_child child = trace_child_start(trace_child_busy, THREADS);
    struct trace_stop_thread *threads = NULL;
    size_t count = 0;
    helper_session_follow(&tally, child.pid);
    assert_int_equal(helper_trace_clear_gs(helper, child.pid, OFFSET, ranges, 2, NULL), BASE_EUSAGE);
    helper_session_hold(&tally, child.pid);
    helper_session_must(helper_trace_threads(helper, child.pid, &threads, &count, &error), &error);
    assert_int_equal(count, THREADS);
    for (size_t i = 0; i < count; i++)
        helper_session_must(helper_trace_set_gs(helper, threads[i].tid, given[i], &error), &error);
    helper_session_must(helper_trace_clear_gs(helper, child.pid, OFFSET, NULL, 0, &error), &error);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(gs_of(&tally, child.pid, threads[i].tid), given[i]);
    helper_session_must(helper_trace_clear_gs(helper, child.pid, OFFSET, ranges, 2, &error), &error);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(gs_of(&tally, child.pid, threads[i].tid), kept[i]);
    free(threads);
    helper_session_release(&tally, child.pid);
    helper_session_must(helper_trace_leave(helper, child.pid, &error), &error);
    assert_int_equal(helper_trace_clear_gs(helper, child.pid, OFFSET, ranges, 2, NULL), BASE_ENOTFOUND);
    assert_int_equal(trace_child_finish(&child), 0);
    helper_session_finish(&tally);
}

static bool has_expected_gs(void)
{
    return helper_session_own_gs() == atomic_load(&helper_session_truth->value);
}

/* Parent and child have the same base, and report whether it is what is expected in the end. */
static int vfork_child_waits(void)
{
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        while (!atomic_load(&helper_session_truth->beats))
            helper_session_nap_us(1000);
        _exit(has_expected_gs());
    }
    return waitpid(pid, &status, 0) == pid ? 10 * has_expected_gs() + WEXITSTATUS(status) : 0;
}

/* The parent sleeps in the kernel, the child has the parent's. */
static void take_back(bool ours)
{
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, vfork_child_waits, 0);
    helper_session_work_until(&tally, TRACE_VFORK, 1);
    helper_session_hold(&tally, pid);
    uint64_t gs = gs_of(&tally, pid, tally.last[TRACE_VFORK].pid);
    assert_true(helper_session_number_of(gs));
    struct trace_step_range range = {gs + OFFSET + !ours, gs + OFFSET + 4096};
    atomic_store(&helper_session_truth->value, ours ? 0 : gs);
    helper_session_must(helper_trace_clear_gs(&tally.helper, pid, OFFSET, &range, 1, &error), &error);
    helper_session_release(&tally, pid);
    atomic_store(&helper_session_truth->beats, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 11 << 8);
    helper_session_finish(&tally);
}

static void a_thread_asleep_in_the_kernel_wakes_without_it(void **state)
{
    (void)state;
    take_back(true);
    take_back(false);
}

static void *find_own_gs(void *argument)
{
    (void)argument;
    return (void *)(uintptr_t)has_expected_gs();
}

static int creates_a_thread(void)
{
    pthread_t thread;
    void *as_expected = NULL;
    while (!atomic_load(&helper_session_truth->beats))
        helper_session_nap_us(1000);
    if (pthread_create(&thread, NULL, find_own_gs, NULL) || pthread_join(thread, &as_expected))
        return 3;
    return as_expected ? 4 : 5;
}

/* Given while the pool has bases, and followed by more of them: a thread has its creator's all the same. */
static void none_is_given_after_keep(void **state)
{
    (void)state;
    const uint64_t keep = TRACE_GS_KEEP;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, creates_a_thread, 8);
    helper_session_hold(&tally, pid);
    atomic_store(&helper_session_truth->value, gs_of(&tally, pid, pid));
    helper_session_must(helper_trace_give(&tally.helper, pid, &keep, 1, &error), &error);
    helper_session_release(&tally, pid);
    helper_session_give(&tally, pid, 8);
    atomic_store(&helper_session_truth->beats, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 4 << 8);
    assert_int_equal(tally.kinds[TRACE_CREATED], 1);
    assert_int_equal(tally.last[TRACE_CREATED].gs, 0);
    helper_session_finish(&tally);
}

int main(int argc, char **argv)
{
    if (!helper_session_main(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_ours_become_0),
        cmocka_unit_test(a_thread_asleep_in_the_kernel_wakes_without_it),
        cmocka_unit_test(none_is_given_after_keep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
