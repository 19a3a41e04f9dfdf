/* What happens between birth and end, and ends, many processes, and what is refused. */
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

#include "patch_child.h"
#include "patch_session.h"
#include "patch_target.h"

/* --- signals --- */

static void count_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    if (info->si_code != SI_QUEUE ||
        info->si_value.sival_int != (int)atomic_load(&patch_session_truth->signals))
        patch_session_wrong("siginfo", (uint64_t)info->si_value.sival_int);
    atomic_fetch_add(&patch_session_truth->signals, 1);
}

static int receive_signals(void)
{
    struct sigaction action = {.sa_sigaction = count_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN, &action, NULL);
    atomic_store(&patch_session_truth->beats, 1);
    while (!atomic_load(&patch_session_truth->done))
        ;
    return 11;
}

static void signals_pass(void **state)
{
    (void)state;
    enum { SIGNALS = 10000 };
    struct patch_session tally = patch_session_begin();
    struct base_error error = {0};
    struct patch_trace_cost cost;
    pid_t pid = patch_session_start(&tally, receive_signals, 0);
    while (!atomic_load(&patch_session_truth->beats))
        patch_session_work(&tally, 1);
    uint64_t began = patch_target_now();
    for (int i = 0; i < SIGNALS;) {
        if (sigqueue(pid, SIGRTMIN, (union sigval){.sival_int = i}))
            patch_session_nap_us(1000);
        else
            i++;
        if (i % 500 == 0) {
            patch_session_hold(&tally, pid);
            patch_session_release(&tally, pid);
        }
        while (patch_target_now() < began + (uint64_t)i * 100000)
            ;
    }
    for (int i = 0; i < 5000 && atomic_load(&patch_session_truth->signals) < SIGNALS; i++)
        patch_session_nap_us(1000);
    assert_int_equal(atomic_load(&patch_session_truth->signals), SIGNALS);
    patch_session_must(patch_trace_cost(&tally.helper, pid, &cost, &error), &error);
    assert_int_equal(cost.signals, SIGNALS);
    atomic_store(&patch_session_truth->done, 1);
    patch_session_work_until_ended(&tally, pid);
    assert_int_equal(patch_session_wait_for(pid), 11 << 8);
    patch_session_finish(&tally);
}

static int wait_for_nothing(void)
{
    struct epoll_event event;
    int file = epoll_create1(0);
    signal(SIGWINCH, SIG_IGN);
    atomic_store(&patch_session_truth->beats, 1);
    int got = epoll_wait(file, &event, 1, 700); /* SIGCHLD is ignored by default */
    return got == 0 ? 12 : errno == EINTR ? 1 : 2;
}

static void ignored_signals_do_not_interrupt(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    pid_t pid = patch_session_start(&tally, wait_for_nothing, 0);
    while (!atomic_load(&patch_session_truth->beats))
        patch_session_work(&tally, 1);
    for (int i = 0; i < 20; i++) {
        patch_session_nap_us(5000);
        kill(pid, i % 2 ? SIGCHLD : SIGWINCH);
    }
    patch_session_work_until_ended(&tally, pid);
    assert_int_equal(patch_session_wait_for(pid), 12 << 8);
    patch_session_finish(&tally);
}

static void job_control_works(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    int status;
    pid_t pid = patch_session_start(&tally, patch_session_beat, 0);
    for (int i = 0; i < 5; i++) {
        assert_true(patch_session_beats());
        assert_int_equal(waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED), 0);
        kill(pid, SIGSTOP);
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        patch_session_nap_us(2000);
        unsigned long long before = atomic_load(&patch_session_truth->beats);
        patch_session_hold(&tally, pid); /* held and let go, it stays stopped */
        patch_session_release(&tally, pid);
        patch_session_nap_us(20000);
        patch_session_work(&tally, 0);
        assert_int_equal(atomic_load(&patch_session_truth->beats), before);
        kill(pid, SIGCONT);
        assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
        assert_true(WIFCONTINUED(status));
    }
    for (int i = 0; i < 5; i++) { /* while it is held */
        assert_true(patch_session_beats());
        patch_session_hold(&tally, pid);
        kill(pid, SIGSTOP);
        patch_session_release(&tally, pid);
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        patch_session_hold(&tally, pid);
        kill(pid, SIGCONT);
        patch_session_release(&tally, pid);
        assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
        assert_true(WIFCONTINUED(status));
    }
    assert_true(patch_session_beats());
    atomic_store(&patch_session_truth->done, 1);
    patch_session_work_until_ended(&tally, pid);
    assert_int_equal(patch_session_wait_for(pid), 13 << 8);
    patch_session_finish(&tally);
}

/* A shell with pipelines, substitutions, background jobs and stops of its own. */
static int run_shell(void)
{
    execl("/bin/sh", "sh", "-c",
          "s=0; for i in 1 2 3 4 5; do echo $i | cat | (read x; exit $x); s=$((s+$?)); "
          "y=$(echo 7 | (sleep 0.01 & cat; wait)); s=$((s+y)); "
          "sh -c 'kill -STOP $$; exit 2' & p=$!; sleep 0.03; kill -CONT $p; wait $p; s=$((s+$?)); done; exit "
          "$s",
          (char *)NULL);
    return 1;
}

static void a_shell_works_as_ever(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    pid_t pid = patch_session_start(&tally, run_shell, 0);
    patch_session_work_until_ended(&tally, pid);
    assert_int_equal(patch_session_wait_for(pid), (15 + 35 + 10) << 8);
    assert_true(tally.kinds[PATCH_TRACE_EXEC] > 20);
    assert_int_equal(tally.kinds[PATCH_TRACE_END],
                     tally.kinds[PATCH_TRACE_FORK] + tally.kinds[PATCH_TRACE_VFORK] + 1);
    patch_session_finish(&tally);
}

static void a_stopped_process_is_followed_and_left_stopped(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    struct base_error error = {0};
    struct patch_child child = patch_child_start(patch_child_busy, 3);
    int status;
    kill(child.pid, SIGSTOP);
    assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
    patch_session_follow(&tally, child.pid);
    patch_session_nap_us(20000);
    unsigned long long rounds = atomic_load(&child.shared->rounds[0]);
    patch_session_hold(&tally, child.pid);
    patch_session_release(&tally, child.pid);
    patch_session_nap_us(20000);
    patch_session_must(patch_trace_leave(&tally.helper, child.pid, &error), &error);
    assert_true(patch_child_is_free(child.pid));
    patch_session_nap_us(20000);
    assert_int_equal(atomic_load(&child.shared->rounds[0]), rounds);
    assert_int_equal(patch_child_state(child.pid), 'T');
    kill(child.pid, SIGCONT);
    patch_session_nap_us(100000);
    assert_true(atomic_load(&child.shared->rounds[0]) > rounds);
    assert_int_equal(patch_child_finish(&child), 0);
    patch_session_finish(&tally);
}

static void count_trap(int number)
{
    (void)number;
    atomic_fetch_add(&patch_session_truth->signals, 1);
}

static int traps_itself(void)
{
    signal(SIGTRAP, count_trap);
    for (int i = 0; i < 100; i++) {
        __asm__ volatile("int3");
        raise(SIGTRAP);
    }
    return atomic_load(&patch_session_truth->signals) == 200 ? 15 : 1;
}

static void its_own_traps_are_its_own(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    pid_t pid = patch_session_start(&tally, traps_itself, 0);
    patch_session_work_until_ended(&tally, pid);
    assert_int_equal(patch_session_wait_for(pid), 15 << 8);
    patch_session_finish(&tally);
}

/* --- ends --- */

static int killed_by_itself(void)
{
    raise(SIGUSR1);
    return 1;
}

static void ends_are_told_as_they_are(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    pid_t pid = patch_session_start(&tally, killed_by_itself, 0);
    patch_session_work_until_ended(&tally, pid);
    assert_true(WIFSIGNALED(tally.status) && WTERMSIG(tally.status) == SIGUSR1);
    int status = patch_session_wait_for(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    patch_session_finish(&tally);
}

static void a_target_is_killed_while_held(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    struct base_error error = {0};
    char byte;
    for (int i = 0; i < 20; i++) {
        struct patch_child child = patch_child_start(patch_child_busy, 1 + (unsigned)i % 4);
        patch_session_follow(&tally, child.pid);
        patch_session_hold(&tally, child.pid);
        kill(child.pid, SIGKILL);
        if (i % 2)
            patch_session_nap_us(5000);
        int result = patch_trace_read(&tally.helper, child.pid, (uint64_t)(uintptr_t)patch_session_truth,
                                      &byte, 1, &error);
        assert_true(result == BASE_OK || result < 0);
        patch_trace_release(&tally.helper, child.pid, NULL, NULL);
        patch_session_work_until_ended(&tally, child.pid);
        assert_int_equal(tally.status, SIGKILL);
        assert_int_equal(patch_trace_hold(&tally.helper, child.pid, NULL, NULL), BASE_ENOTFOUND);
        assert_int_equal(patch_child_finish(&child), -1);
    }
    patch_session_finish(&tally);
}

static void *leave_first(void *argument)
{
    (void)argument;
    patch_session_nap_us(20000);
    pthread_t thread;
    if (pthread_create(&thread, NULL, patch_session_live, NULL) == 0)
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
    struct patch_session tally = patch_session_begin();
    pid_t pid = patch_session_start(&tally, first_thread_ends, 4);
    patch_session_work(&tally, 5);
    patch_session_hold(&tally, pid);
    patch_session_release(&tally, pid);
    patch_session_work_until_ended(&tally, pid);
    assert_int_equal(tally.status, 16 << 8);
    assert_int_equal(patch_session_wait_for(pid), 16 << 8);
    assert_int_equal(tally.kinds[PATCH_TRACE_END], 1);
    patch_session_finish(&tally);
}

/* --- many --- */

static int mixed(void)
{
    int sum = 0;
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        int status;
        if (pthread_create(&thread, NULL, patch_session_live, (void *)(intptr_t)300))
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
    struct patch_session tally = patch_session_begin();
    pid_t pids[20];
    for (int i = 0; i < 20; i++)
        pids[i] = patch_session_start(&tally, mixed, 2);
    patch_session_work_until(&tally, PATCH_TRACE_END, 20 + 20 * 10);
    for (int i = 0; i < 20; i++)
        assert_int_equal(patch_session_wait_for(pids[i]), 10 << 8);
    assert_int_equal(tally.kinds[PATCH_TRACE_BIRTH], 200);
    assert_int_equal(tally.kinds[PATCH_TRACE_FORK], 200);
    assert_int_equal(tally.kinds[PATCH_TRACE_DEATH], 420);
    patch_session_finish(&tally);
}

static uint8_t data[2][64] __attribute__((aligned(4096))) = {{1}, {2}};

static void several_are_held_at_once(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    struct base_error error = {0};
    struct patch_child children[2];
    struct patch_memory_change change = {.address = (uint64_t)(uintptr_t)data, .length = 4, .before = {1}};
    uint8_t bytes[4];
    for (uint8_t i = 0; i < 2; i++) {
        children[i] = patch_child_start(patch_child_busy, 2);
        patch_session_follow(&tally, children[i].pid);
        change.after[0] = (uint8_t)(10 + i);
        patch_session_must(patch_trace_stage(&tally.helper, children[i].pid, &change, 1, &error), &error);
        assert_int_equal(patch_trace_apply(&tally.helper, children[i].pid, NULL), BASE_EUSAGE);
        patch_session_hold(&tally, children[i].pid);
    }
    for (int i = 0; i < 2; i++)
        patch_session_must(patch_trace_apply(&tally.helper, children[i].pid, &error), &error);
    for (int i = 0; i < 2; i++) {
        patch_session_must(patch_trace_read(&tally.helper, children[i].pid, change.address, bytes, 4, &error),
                           &error);
        assert_int_equal(bytes[0], 10 + i);
        patch_session_must(patch_trace_undo(&tally.helper, children[i].pid, &error), &error);
        patch_session_release(&tally, children[i].pid);
        patch_session_must(patch_trace_leave(&tally.helper, children[i].pid, &error), &error);
        assert_int_equal(patch_child_finish(&children[i]), 0);
    }
    patch_session_finish(&tally);
}

static void left_and_followed_again_under_load(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    struct base_error error = {0};
    struct patch_child child = patch_child_start(patch_child_births, 0);
    for (int i = 0; i < 200; i++) {
        patch_session_follow(&tally, child.pid);
        if (i % 3 == 0)
            patch_session_prepare(&tally, child.pid, 20);
        patch_session_work(&tally, i % 7 == 0 ? 2 : 0);
        if (i % 5 == 0)
            patch_session_hold(&tally, child.pid);
        patch_session_must(patch_trace_leave(&tally.helper, child.pid, &error), &error);
        if (i % 10 == 0)
            assert_true(patch_child_is_free(child.pid));
    }
    assert_true(patch_child_is_free(child.pid));
    patch_session_work(&tally, 10);
    patch_helper_end(&tally.helper);
    assert_int_equal(patch_child_finish(&child), 0);
}

static void events_wait_for_a_slow_tally(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    pid_t pid = patch_session_start(&tally, patch_session_churn, 1500);
    assert_int_equal(patch_session_wait_for(pid), 17 << 8); /* nobody reads, nobody waits */
    patch_session_work_until_ended(&tally, pid);
    assert_int_equal(tally.kinds[PATCH_TRACE_BIRTH], 1000);
    assert_int_equal(tally.kinds[PATCH_TRACE_DEATH], 1001);
    assert_int_equal(tally.kinds[PATCH_TRACE_NEED], 0);
    patch_session_finish(&tally);
}

/* --- refusals --- */

static void a_tracer_is_named(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin(), other = patch_session_begin();
    struct base_error error = {0};
    struct patch_child child = patch_child_start(patch_child_busy, 2);
    patch_session_follow(&other, child.pid);
    assert_int_equal(patch_trace_follow(&tally.helper, child.pid, &error), BASE_EBUSY);
    assert_non_null(strstr(error.text, "traced by tally-helper"));
    base_error_clear(&error);
    assert_int_equal(patch_helper_stop(&other.helper, child.pid, NULL, &error), BASE_EBUSY);
    base_error_clear(&error);
    patch_session_must(patch_trace_leave(&other.helper, child.pid, &error), &error);
    assert_true(patch_child_is_free(child.pid));
    patch_session_follow(&tally, child.pid);
    patch_session_finish(&other);
    assert_int_equal(patch_trace_follow(&tally.helper, getpid(), &error), BASE_OK); /* even the test itself */
    patch_session_must(patch_trace_leave(&tally.helper, getpid(), &error), &error);
    assert_int_equal(patch_trace_follow(&tally.helper, tally.helper.pid, NULL), BASE_EUSAGE);
    assert_int_equal(patch_trace_follow(&tally.helper, 0, NULL), BASE_ENOTFOUND);
    assert_int_equal(patch_trace_leave(&tally.helper, 1, NULL), BASE_ENOTFOUND);
    assert_int_equal(patch_trace_cost(&tally.helper, 1, NULL, NULL), BASE_ENOTFOUND);
    assert_int_equal(patch_trace_set_gs(&tally.helper, 1, 0, NULL), BASE_ENOTFOUND);
    patch_session_finish(&tally);
    assert_int_equal(patch_child_finish(&child), 0);
}

static void a_silent_tally_loses_its_holds(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    struct base_error error = {0};
    char byte;
    tally.keep_held = true;
    pid_t pid = patch_session_start(&tally, patch_session_deep_tree, 0);
    patch_session_work_until(&tally, PATCH_TRACE_FORK, 1);
    pid_t child = tally.last[PATCH_TRACE_FORK].pid;
    for (int i = 0; i < 400 && atomic_load(&patch_session_truth->forks) == 0; i++)
        patch_session_nap_us(10000);
    assert_true(atomic_load(&patch_session_truth->forks) > 0 || atomic_load(&patch_session_truth->wrong) > 0);
    int result =
        patch_trace_read(&tally.helper, child, (uint64_t)(uintptr_t)patch_session_truth, &byte, 1, &error);
    assert_true(result == BASE_EBUSY || result == BASE_ENOTFOUND);
    kill(pid, SIGKILL);
    patch_session_wait_for(pid);
    atomic_store(&patch_session_truth->wrong, 0); /* its child had no gs base */
    patch_session_finish(&tally);
}

static void the_helper_may_be_killed(void **state)
{
    (void)state;
    struct patch_session tally = patch_session_begin();
    struct base_error error = {0};
    struct patch_trace_event event;
    pid_t pid = patch_session_start(&tally, patch_session_beat, 0);
    kill(tally.helper.pid, SIGKILL);
    int result = 0;
    for (int i = 0; i < 500 && result == 0; i++, patch_session_nap_us(1000))
        result = patch_trace_next(&tally.helper, &event, &error);
    assert_int_equal(result, BASE_EIO);
    assert_true(patch_session_beats());
    assert_true(patch_child_is_free(pid));
    atomic_store(&patch_session_truth->done, 1);
    assert_int_equal(patch_session_wait_for(pid), 13 << 8);
    patch_session_finish(&tally);
}

int main(int argc, char **argv)
{
    if (!patch_session_main(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_pass),
        cmocka_unit_test(ignored_signals_do_not_interrupt),
        cmocka_unit_test(job_control_works),
        cmocka_unit_test(a_shell_works_as_ever),
        cmocka_unit_test(a_stopped_process_is_followed_and_left_stopped),
        cmocka_unit_test(its_own_traps_are_its_own),
        cmocka_unit_test(ends_are_told_as_they_are),
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
