/* What happens between creation and end, and ends, many processes, and what is refused. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_clock.h"
#include "helper_session.h"
#include "proc_target.h"
#include "trace_child.h"

/* --- signals --- */

static void count_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    if (info->si_code != SI_QUEUE ||
        info->si_value.sival_int != (int)atomic_load(&helper_session_truth->signals))
        helper_session_wrong("siginfo", (uint64_t)info->si_value.sival_int);
    atomic_fetch_add(&helper_session_truth->signals, 1);
}

static int receive_signals(void)
{
    struct sigaction action = {.sa_sigaction = count_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN, &action, NULL);
    atomic_store(&helper_session_truth->beats, 1);
    while (!atomic_load(&helper_session_truth->done))
        ;
    return 11;
}

static void signals_pass(void **state)
{
    (void)state;
    enum { SIGNALS = 10000 };
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_cost cost;
    pid_t pid = helper_session_start(&tally, receive_signals, 0);
    while (!atomic_load(&helper_session_truth->beats))
        helper_session_work(&tally, 1);
    uint64_t began = base_clock_now();
    for (int i = 0; i < SIGNALS;) {
        if (sigqueue(pid, SIGRTMIN, (union sigval){.sival_int = i}))
            helper_session_nap_us(1000);
        else
            i++;
        if (i % 500 == 0) {
            helper_session_hold(&tally, pid);
            helper_session_release(&tally, pid);
        }
        while (base_clock_now() < began + (uint64_t)i * 100000)
            ;
    }
    for (int i = 0; i < 5000 && atomic_load(&helper_session_truth->signals) < SIGNALS; i++)
        helper_session_nap_us(1000);
    assert_int_equal(atomic_load(&helper_session_truth->signals), SIGNALS);
    helper_session_must(helper_trace_cost(&tally.helper, pid, &cost, &error), &error);
    assert_int_equal(cost.signals, SIGNALS);
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 11 << 8);
    helper_session_finish(&tally);
}

static int wait_for_nothing(void)
{
    struct epoll_event event;
    int file = epoll_create1(0);
    signal(SIGWINCH, SIG_IGN);
    atomic_store(&helper_session_truth->beats, 1);
    int got = epoll_wait(file, &event, 1, 700); /* SIGCHLD is ignored by default */
    return got == 0 ? 12 : errno == EINTR ? 1 : 2;
}

static void ignored_signals_do_not_interrupt(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, wait_for_nothing, 0);
    while (!atomic_load(&helper_session_truth->beats))
        helper_session_work(&tally, 1);
    for (int i = 0; i < 20; i++) {
        helper_session_nap_us(5000);
        kill(pid, i % 2 ? SIGCHLD : SIGWINCH);
    }
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 12 << 8);
    helper_session_finish(&tally);
}

static void job_control_works(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    int status;
    pid_t pid = helper_session_start(&tally, helper_session_beat, 0);
    for (int i = 0; i < 5; i++) {
        assert_true(helper_session_beats());
        assert_int_equal(waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED), 0);
        kill(pid, SIGSTOP);
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        helper_session_nap_us(2000);
        unsigned long long before = atomic_load(&helper_session_truth->beats);
        helper_session_hold(&tally, pid); /* held and released, it stays stopped */
        helper_session_release(&tally, pid);
        helper_session_nap_us(20000);
        helper_session_work(&tally, 0);
        assert_int_equal(atomic_load(&helper_session_truth->beats), before);
        kill(pid, SIGCONT);
        assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
        assert_true(WIFCONTINUED(status));
    }
    for (int i = 0; i < 5; i++) { /* while it is held */
        assert_true(helper_session_beats());
        helper_session_hold(&tally, pid);
        kill(pid, SIGSTOP);
        helper_session_release(&tally, pid);
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        helper_session_hold(&tally, pid);
        kill(pid, SIGCONT);
        helper_session_release(&tally, pid);
        assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
        assert_true(WIFCONTINUED(status));
    }
    assert_true(helper_session_beats());
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 13 << 8);
    helper_session_finish(&tally);
}

/* A shell with pipelines, substitutions, background jobs and stops of its own. A job is continued until it has
 * ended: it may stop itself late. */
static int run_shell(void)
{
    execl("/bin/sh", "sh", "-c",
          "s=0; for i in 1 2 3 4 5; do echo $i | cat | (read x; exit $x); s=$((s+$?)); "
          "y=$(echo 7 | (sleep 0.01 & cat; wait)); s=$((s+y)); "
          "sh -c 'kill -STOP $$; exit 2' & p=$!; while kill -CONT $p 2>/dev/null; do sleep 0.01; done; "
          "wait $p; s=$((s+$?)); done; exit $s",
          (char *)NULL);
    return 1;
}

static void a_shell_works_as_ever(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, run_shell, 0);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), (15 + 35 + 10) << 8);
    assert_true(tally.kinds[TRACE_EXEC] > 20);
    assert_int_equal(tally.kinds[TRACE_END], tally.kinds[TRACE_FORK] + tally.kinds[TRACE_VFORK] + 1);
    helper_session_finish(&tally);
}

static void a_stopped_process_is_followed_and_left_stopped(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_child child = trace_child_start(trace_child_busy, 3);
    int status;
    kill(child.pid, SIGSTOP);
    assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
    helper_session_follow(&tally, child.pid);
    helper_session_nap_us(20000);
    unsigned long long rounds = atomic_load(&child.shared->rounds[0]);
    helper_session_hold(&tally, child.pid);
    helper_session_release(&tally, child.pid);
    helper_session_nap_us(20000);
    helper_session_must(helper_trace_leave(&tally.helper, child.pid, &error), &error);
    assert_true(trace_child_is_free(child.pid));
    helper_session_nap_us(20000);
    assert_int_equal(atomic_load(&child.shared->rounds[0]), rounds);
    assert_int_equal(trace_child_state(child.pid), 'T');
    kill(child.pid, SIGCONT);
    helper_session_nap_us(100000);
    assert_true(atomic_load(&child.shared->rounds[0]) > rounds);
    assert_int_equal(trace_child_finish(&child), 0);
    helper_session_finish(&tally);
}

static void count_trap(int number)
{
    (void)number;
    atomic_fetch_add(&helper_session_truth->signals, 1);
}

static int traps_itself(void)
{
    signal(SIGTRAP, count_trap);
    for (int i = 0; i < 100; i++) {
        __asm__ volatile("int3");
        raise(SIGTRAP);
    }
    return atomic_load(&helper_session_truth->signals) == 200 ? 15 : 1;
}

static void its_own_traps_are_its_own(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, traps_itself, 0);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 15 << 8);
    helper_session_finish(&tally);
}

/* --- ends --- */

static int killed_by_itself(void)
{
    raise(SIGUSR1);
    return 1;
}

static void ends_are_reported_as_they_are(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, killed_by_itself, 0);
    helper_session_work_until_ended(&tally, pid);
    assert_true(WIFSIGNALED(tally.status) && WTERMSIG(tally.status) == SIGUSR1);
    int status = helper_session_wait_for(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    helper_session_finish(&tally);
}

static void a_target_is_killed_while_held(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    char byte;
    for (int i = 0; i < 20; i++) {
        struct trace_child child = trace_child_start(trace_child_busy, 1 + (unsigned)i % 4);
        helper_session_follow(&tally, child.pid);
        helper_session_hold(&tally, child.pid);
        kill(child.pid, SIGKILL);
        if (i % 2)
            helper_session_nap_us(5000);
        int result = helper_trace_read(&tally.helper, child.pid, (uint64_t)(uintptr_t)helper_session_truth,
                                       &byte, 1, &error);
        assert_true(result == BASE_OK || result < 0);
        helper_trace_release(&tally.helper, child.pid, NULL, NULL);
        helper_session_work_until_ended(&tally, child.pid);
        assert_int_equal(tally.status, SIGKILL);
        assert_int_equal(helper_trace_hold(&tally.helper, child.pid, NULL, NULL), BASE_ENOTFOUND);
        assert_int_equal(trace_child_finish(&child), -1);
    }
    helper_session_finish(&tally);
}

static void *leave_first(void *argument)
{
    (void)argument;
    helper_session_nap_us(20000);
    pthread_t thread;
    if (pthread_create(&thread, NULL, helper_session_live, NULL) == 0)
        pthread_join(thread, NULL);
    _exit(16);
}

static int first_thread_ends(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, leave_first, NULL);
    pthread_exit(NULL);
}

static void the_first_thread_may_end_first(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, first_thread_ends, 4);
    helper_session_work(&tally, 5);
    helper_session_hold(&tally, pid);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(tally.status, 16 << 8);
    assert_int_equal(helper_session_wait_for(pid), 16 << 8);
    assert_int_equal(tally.kinds[TRACE_END], 1);
    helper_session_finish(&tally);
}

/* --- many --- */

static int mixed(void)
{
    int sum = 0;
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        int status;
        if (pthread_create(&thread, NULL, helper_session_live, (void *)(intptr_t)300))
            return 1;
        pid_t pid = fork();
        if (pid == 0)
            _exit(1);
        if (waitpid(pid, &status, 0) == pid)
            sum += WEXITSTATUS(status);
        pthread_join(thread, NULL);
    }
    return sum;
}

static void one_helper_follows_twenty(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pids[20];
    for (int i = 0; i < 20; i++)
        pids[i] = helper_session_start(&tally, mixed, 2);
    helper_session_work_until(&tally, TRACE_END, 20 + 20 * 10);
    for (int i = 0; i < 20; i++)
        assert_int_equal(helper_session_wait_for(pids[i]), 10 << 8);
    assert_int_equal(tally.kinds[TRACE_CREATED], 200);
    assert_int_equal(tally.kinds[TRACE_FORK], 200);
    assert_int_equal(tally.kinds[TRACE_EXITED], 420);
    helper_session_finish(&tally);
}

static uint8_t data[2][64] __attribute__((aligned(4096))) = {{1}, {2}};

static void several_are_held_at_once(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_child children[2];
    struct trace_memory_change change = {.address = (uint64_t)(uintptr_t)data, .length = 4, .before = {1}};
    uint8_t bytes[4];
    for (uint8_t i = 0; i < 2; i++) {
        children[i] = trace_child_start(trace_child_busy, 2);
        helper_session_follow(&tally, children[i].pid);
        change.after[0] = (uint8_t)(10 + i);
        helper_session_must(helper_trace_stage(&tally.helper, children[i].pid, &change, 1, &error), &error);
        assert_int_equal(helper_trace_apply(&tally.helper, children[i].pid, NULL), BASE_EUSAGE);
        helper_session_hold(&tally, children[i].pid);
    }
    for (int i = 0; i < 2; i++)
        helper_session_must(helper_trace_apply(&tally.helper, children[i].pid, &error), &error);
    for (int i = 0; i < 2; i++) {
        helper_session_must(
            helper_trace_read(&tally.helper, children[i].pid, change.address, bytes, 4, &error), &error);
        assert_int_equal(bytes[0], 10 + i);
        helper_session_must(helper_trace_undo(&tally.helper, children[i].pid, &error), &error);
        helper_session_release(&tally, children[i].pid);
        helper_session_must(helper_trace_leave(&tally.helper, children[i].pid, &error), &error);
        assert_int_equal(trace_child_finish(&children[i]), 0);
    }
    helper_session_finish(&tally);
}

static void left_and_followed_again_under_load(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_child child = trace_child_start(trace_child_creates_threads, 0);
    for (int i = 0; i < 200; i++) {
        helper_session_follow(&tally, child.pid);
        if (i % 3 == 0)
            helper_session_prepare(&tally, child.pid, 20);
        helper_session_work(&tally, i % 7 == 0 ? 2 : 0);
        if (i % 5 == 0)
            helper_session_hold(&tally, child.pid);
        helper_session_must(helper_trace_leave(&tally.helper, child.pid, &error), &error);
        if (i % 10 == 0)
            assert_true(trace_child_is_free(child.pid));
    }
    assert_true(trace_child_is_free(child.pid));
    helper_session_work(&tally, 10);
    helper_end(&tally.helper);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void events_wait_for_a_slow_tally(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, helper_session_churn, 1500);
    assert_int_equal(helper_session_wait_for(pid), 17 << 8); /* events are not read, and no thread waits */
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(tally.kinds[TRACE_CREATED], 1000);
    assert_int_equal(tally.kinds[TRACE_EXITED], 1001);
    assert_int_equal(tally.kinds[TRACE_NEED], 0);
    helper_session_finish(&tally);
}

/* --- refusals --- */

static void a_tracer_is_named(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin(), other = helper_session_begin();
    struct base_error error = {0};
    struct trace_child child = trace_child_start(trace_child_busy, 2);
    helper_session_follow(&other, child.pid);
    assert_int_equal(helper_trace_follow(&tally.helper, child.pid, &error), BASE_EBUSY);
    assert_non_null(strstr(error.text, "traced by tally-helper"));
    base_error_clear(&error);
    assert_int_equal(helper_stop(&other.helper, child.pid, NULL, &error), BASE_EBUSY);
    base_error_clear(&error);
    helper_session_must(helper_trace_leave(&other.helper, child.pid, &error), &error);
    assert_true(trace_child_is_free(child.pid));
    helper_session_follow(&tally, child.pid);
    helper_session_finish(&other);
    assert_int_equal(helper_trace_follow(&tally.helper, getpid(), &error),
                     BASE_OK); /* even the test itself */
    helper_session_must(helper_trace_leave(&tally.helper, getpid(), &error), &error);
    assert_int_equal(helper_trace_follow(&tally.helper, tally.helper.pid, NULL), BASE_EUSAGE);
    assert_int_equal(helper_trace_follow(&tally.helper, 0, NULL), BASE_ENOTFOUND);
    assert_int_equal(helper_trace_leave(&tally.helper, 1, NULL), BASE_ENOTFOUND);
    assert_int_equal(helper_trace_cost(&tally.helper, 1, NULL, NULL), BASE_ENOTFOUND);
    assert_int_equal(helper_trace_set_gs(&tally.helper, 1, 0, NULL), BASE_ENOTFOUND);
    helper_session_finish(&tally);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void a_silent_tally_loses_its_holds(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    char byte;
    tally.keep_held = true;
    pid_t pid = helper_session_start(&tally, helper_session_deep_tree, 0);
    helper_session_work_until(&tally, TRACE_FORK, 1);
    pid_t child = tally.last[TRACE_FORK].pid;
    for (int i = 0; i < 400 && atomic_load(&helper_session_truth->forks) == 0; i++)
        helper_session_nap_us(10000);
    assert_true(atomic_load(&helper_session_truth->forks) > 0 ||
                atomic_load(&helper_session_truth->wrong) > 0);
    int result =
        helper_trace_read(&tally.helper, child, (uint64_t)(uintptr_t)helper_session_truth, &byte, 1, &error);
    assert_true(result == BASE_EBUSY || result == BASE_ENOTFOUND);
    kill(pid, SIGKILL);
    helper_session_wait_for(pid);
    atomic_store(&helper_session_truth->wrong, 0); /* its child had no gs base */
    helper_session_finish(&tally);
}

static void the_helper_may_be_killed(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_event event;
    pid_t pid = helper_session_start(&tally, helper_session_beat, 0);
    kill(tally.helper.pid, SIGKILL);
    int result = 0;
    for (int i = 0; i < 500 && result == 0; i++, helper_session_nap_us(1000))
        result = helper_trace_next(&tally.helper, &event, &error);
    assert_int_equal(result, BASE_EIO);
    assert_true(helper_session_beats());
    assert_true(trace_child_is_free(pid));
    atomic_store(&helper_session_truth->done, 1);
    assert_int_equal(helper_session_wait_for(pid), 13 << 8);
    helper_session_finish(&tally);
}

int main(int argc, char **argv)
{
    if (!helper_session_main(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_pass),
        cmocka_unit_test(ignored_signals_do_not_interrupt),
        cmocka_unit_test(job_control_works),
        cmocka_unit_test(a_shell_works_as_ever),
        cmocka_unit_test(a_stopped_process_is_followed_and_left_stopped),
        cmocka_unit_test(its_own_traps_are_its_own),
        cmocka_unit_test(ends_are_reported_as_they_are),
        cmocka_unit_test(a_target_is_killed_while_held),
        cmocka_unit_test(the_first_thread_may_end_first),
        cmocka_unit_test(one_helper_follows_twenty),
        cmocka_unit_test(several_are_held_at_once),
        cmocka_unit_test(left_and_followed_again_under_load),
        cmocka_unit_test(events_wait_for_a_slow_tally),
        cmocka_unit_test(a_tracer_is_named),
        cmocka_unit_test(a_silent_tally_loses_its_holds),
        cmocka_unit_test(the_helper_may_be_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
