/* Threads and forked processes, from their first instruction on: each has a gs base and memory of its own. */
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
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_clock.h"
#include "helper_session.h"
#include "trace_child.h"
#include "trace_inject.h"

extern char **environ;

/* --- one process, its threads --- */

static void a_process_is_followed_and_left(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_child child = trace_child_start(trace_child_busy, 4);
    struct trace_stop_thread *threads = NULL;
    struct user_regs_struct registers;
    size_t count = 0;
    helper_session_follow(&tally, child.pid);
    assert_true(trace_child_tracers(child.pid) > 0);
    assert_int_equal(helper_trace_threads(&tally.helper, child.pid, &threads, &count, NULL), BASE_EUSAGE);
    helper_session_hold(&tally, child.pid);
    helper_session_must(helper_trace_threads(&tally.helper, child.pid, &threads, &count, &error), &error);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        helper_session_must(
            helper_trace_read_registers(&tally.helper, child.pid, threads[i].tid, &registers, &error),
            &error);
        assert_true(threads[i].pc == registers.rip && threads[i].sp == registers.rsp);
        helper_session_must(
            helper_trace_set_gs(&tally.helper, threads[i].tid, helper_session_new_gs(&tally), &error),
            &error);
        helper_session_must(
            helper_trace_read_registers(&tally.helper, child.pid, threads[i].tid, &registers, &error),
            &error);
        assert_true(helper_session_number_of(registers.gs_base));
    }
    free(threads);
    helper_session_release(&tally, child.pid);
    assert_int_equal(helper_trace_set_gs(&tally.helper, child.pid, 0, NULL), BASE_EUSAGE);
    helper_session_must(helper_trace_leave(&tally.helper, child.pid, &error), &error);
    assert_true(trace_child_is_free(child.pid));
    assert_int_equal(helper_trace_hold(&tally.helper, child.pid, NULL, NULL), BASE_ENOTFOUND);
    assert_int_equal(helper_session_work(&tally, 20), 0);
    assert_int_equal(trace_child_finish(&child), 0);
    helper_session_finish(&tally);
}

/* The answer is what the kernel says, refusals too; the process notices nothing. */
static void calls_are_made_in_its_name(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_child child = trace_child_start(trace_child_busy, 4);
    struct helper_trace_call calls[] = {
        {SYS_getpid, {0}, 0, "getpid"},
        {SYS_tgkill, {(uint64_t)child.pid, (uint64_t)child.pid, 0}, 7, "tgkill"},
        {SYS_timer_delete, {0x7fffffff}, 0, "timer_delete"},
        {SYS_rt_sigaction, {SIGKILL, 8, 0, 8}, 0, "rt_sigaction"}};
    enum { CALLS = sizeof calls / sizeof *calls };
    helper_session_follow(&tally, child.pid);
    assert_int_equal(helper_trace_call(&tally.helper, child.pid, child.pid, calls, CALLS, NULL), BASE_EUSAGE);
    helper_session_hold(&tally, child.pid);
    helper_session_must(helper_trace_call(&tally.helper, child.pid, child.pid, calls, CALLS, &error), &error);
    assert_int_equal(calls[0].answer, child.pid);
    assert_int_equal(calls[1].answer, 0);
    assert_int_equal(calls[2].answer, -EINVAL);
    assert_int_equal(calls[3].answer, -EFAULT);
    helper_session_must(helper_trace_call(&tally.helper, child.pid, child.pid, calls, 0, &error), &error);
    assert_int_equal(helper_trace_call(&tally.helper, child.pid, getpid(), calls, CALLS, NULL), BASE_EBUSY);
    helper_session_release(&tally, child.pid);
    helper_session_must(helper_trace_leave(&tally.helper, child.pid, &error), &error);
    assert_int_equal(trace_child_finish(&child), 0);
    helper_session_finish(&tally);
}

static void every_thread_has_a_gs_base_of_its_own(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    uint64_t began = base_clock_now();
    pid_t pid = helper_session_start(&tally, helper_session_churn, 64);
    helper_session_work_until_ended(&tally, pid);
    printf("# 1000 threads created one after the other in %llu us\n",
           (unsigned long long)(base_clock_now() - began) / 1000);
    assert_int_equal(tally.status, 17 << 8);
    assert_int_equal(helper_session_wait_for(pid), 17 << 8);
    assert_int_equal(atomic_load(&helper_session_truth->creations), 1000);
    assert_int_equal(tally.kinds[TRACE_CREATED], 1000);
    assert_int_equal(tally.kinds[TRACE_EXITED], 1001);
    assert_true(tally.kinds[TRACE_NEED] > 0);
    helper_session_finish(&tally);
}

static int many_at_once(void)
{
    static pthread_t threads[1000];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < 1000; i++)
        if (pthread_create(&threads[i], &small, helper_session_live, (void *)(intptr_t)300000))
            return 3;
    for (int i = 0; i < 1000; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

static void a_thousand_live_at_once(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    tally.batch = 100;
    pid_t pid = helper_session_start(&tally, many_at_once, 1);
    helper_session_work_until(&tally, TRACE_CREATED, 900);
    helper_session_hold(&tally, pid);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 0);
    assert_int_equal(atomic_load(&helper_session_truth->creations), 1000);
    assert_int_equal(tally.kinds[TRACE_CREATED], 1000);
    helper_session_finish(&tally);
}

static int one_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, helper_session_live, NULL))
        return 3;
    atomic_fetch_add(&helper_session_truth->beats, 1); /* the creator waits too */
    pthread_join(thread, NULL);
    return 5;
}

static void a_thread_in_need_of_a_gs_base_waits_for_it(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    tally.starve = true;
    pid_t pid = helper_session_start(&tally, one_thread, 0);
    helper_session_work_until(&tally, TRACE_NEED, 1);
    helper_session_nap_us(100000);
    assert_int_equal(atomic_load(&helper_session_truth->creations), 0);
    assert_int_equal(tally.last[TRACE_NEED].pid, pid);
    assert_int_not_equal(tally.last[TRACE_NEED].tid, pid);
    assert_int_equal(tally.kinds[TRACE_CREATED], 0);
    helper_session_give(&tally, pid, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 5 << 8);
    assert_int_equal(tally.last[TRACE_CREATED].tid, tally.last[TRACE_NEED].tid);
    assert_int_equal(atomic_load(&helper_session_truth->creations), 1);
    helper_session_finish(&tally);
}

static void need_is_seen_while_held(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_stop_thread *threads = NULL;
    size_t count = 0, given = 0;
    tally.starve = true;
    pid_t pid = helper_session_start(&tally, one_thread, 0);
    helper_session_work_until(&tally, TRACE_NEED, 1);
    helper_session_hold(&tally, pid);
    helper_session_give(&tally, pid, 3);
    helper_session_must(helper_trace_threads(&tally.helper, pid, &threads, &count, &error), &error);
    for (size_t i = 0; i < count;
         i++) { /* the thread in need has the first of the three, no thread another */
        unsigned number = helper_session_number_of(threads[i].gs);
        given += number + 2 >= tally.next;
        assert_int_equal(threads[i].tid == tally.last[TRACE_NEED].tid, number + 2 == tally.next);
    }
    assert_int_equal(given, 1);
    free(threads);
    helper_session_nap_us(20000);
    assert_int_equal(atomic_load(&helper_session_truth->creations), 0); /* given, but held */
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 5 << 8);
    helper_session_finish(&tally);
}

static void *find_own_gs(void *argument)
{
    (void)argument;
    return (void *)(uintptr_t)helper_session_own_gs();
}

static int starved_thread(void)
{
    pthread_t thread;
    void *gs = NULL;
    if (pthread_create(&thread, NULL, find_own_gs, NULL) || pthread_join(thread, &gs))
        return 3;
    return gs ? 4 : 6;
}

static void a_silent_tally_holds_no_thread(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    tally.starve = true;
    pid_t pid = helper_session_start(&tally, starved_thread, 0);
    assert_int_equal(helper_session_wait_for(pid), 6 << 8);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(tally.last[TRACE_CREATED].gs, 0);
    helper_session_finish(&tally);
}

/* --- new processes --- */

static void fork_children_are_held(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_cost cost;
    pid_t pid = helper_session_start(&tally, helper_session_deep_tree, 0);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 31 << 8);
    assert_int_equal(atomic_load(&helper_session_truth->forks), 30);
    assert_int_equal(tally.kinds[TRACE_FORK], 30);
    assert_int_equal(tally.kinds[TRACE_END], 31);
    assert_int_equal(tally.kinds[TRACE_EXITED], 31);
    helper_session_must(helper_trace_cost(&tally.helper, 0, &cost, &error), &error);
    assert_int_equal(cost.forks, 30);
    assert_int_equal(cost.creations, 0);
    assert_true(cost.stopped_ns > 0);
    helper_session_finish(&tally);
}

static int remap(struct helper_session *tally, pid_t pid, const struct trace_inject_shared *shared, int *file)
{
    return helper_trace_remap(&tally->helper, pid, shared, file, NULL);
}

static int forks_once(void)
{
    int status;
    while (!atomic_load(&helper_session_truth->value))
        helper_session_nap_us(500);
    pid_t pid = fork();
    if (pid == 0) {
        atomic_store(&helper_session_truth->beats, 1);
        *(volatile uint64_t *)(uintptr_t)atomic_load(&helper_session_truth->value) += 1;
        _exit(8);
    }
    while (!atomic_load(&helper_session_truth->pids[0]))
        helper_session_nap_us(500);
    return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 1;
}

static void a_fork_child_is_stopped_until_released_and_gets_memory(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct helper_room room = {.low = (uint64_t)(uintptr_t)&helper_session_churn,
                               .high = (uint64_t)(uintptr_t)&helper_session_churn + 1,
                               .size = 2 * HELPER_SESSION_PAGE,
                               .protection = PROT_READ | PROT_WRITE};
    uint64_t address = 0;
    int file = -1, childs = -1;
    pid_t pid = helper_session_start(&tally, forks_once, 0);
    helper_session_hold(&tally, pid);
    helper_session_must(helper_trace_share(&tally.helper, pid, &room, &address, &file, &error), &error);
    atomic_store(&helper_session_truth->value, address);
    tally.keep_held = true;
    helper_session_release(&tally, pid);
    helper_session_work_until(&tally, TRACE_FORK, 1);
    pid_t child = tally.last[TRACE_FORK].pid;
    assert_int_equal(tally.last[TRACE_FORK].parent, pid);
    assert_int_not_equal(child, pid);
    struct trace_inject_shared shared = {.address = (uint64_t)(uintptr_t)helper_session_truth,
                                         .size = HELPER_SESSION_PAGE,
                                         .protection = PROT_READ};
    assert_int_equal(remap(&tally, child, &shared, &childs), BASE_EUSAGE);
    shared.address = address;
    shared.size = 4 * HELPER_SESSION_PAGE;
    assert_int_equal(remap(&tally, child, &shared, &childs), BASE_EUSAGE);
    const struct trace_inject_word beyond = {2 * HELPER_SESSION_PAGE - 4, 1};
    shared.size = 2 * HELPER_SESSION_PAGE;
    shared.protection = PROT_READ | PROT_WRITE;
    shared.words = &beyond;
    shared.word_count = 1;
    assert_int_equal(remap(&tally, child, &shared, &childs), BASE_EUSAGE);
    const struct trace_inject_word words[] = {{HELPER_SESSION_PAGE, 77}, {2 * HELPER_SESSION_PAGE - 8, 78}};
    shared.words = words;
    shared.word_count = 2;
    assert_int_equal(remap(&tally, child, &shared, &childs), BASE_OK);
    uint64_t first, last, end;
    helper_session_must(
        helper_trace_read(&tally.helper, child, address + HELPER_SESSION_PAGE, &first, sizeof first, &error),
        &error);
    helper_session_must(helper_trace_read(&tally.helper, child, address + 2 * HELPER_SESSION_PAGE - 8, &last,
                                          sizeof last, &error),
                        &error);
    assert_int_equal(pread(childs, &end, sizeof end, 8), sizeof end);
    assert_int_equal(first, 77);
    assert_int_equal(last, 78);
    assert_int_equal(end, 0);
    helper_session_nap_us(50000);
    assert_int_equal(atomic_load(&helper_session_truth->beats), 0); /* it is stopped */
    helper_session_release(&tally, child);
    helper_session_work_until_ended(&tally, child);
    uint64_t *ours = mmap(NULL, HELPER_SESSION_PAGE, PROT_READ, MAP_SHARED, file, 0);
    uint64_t *theirs = mmap(NULL, HELPER_SESSION_PAGE, PROT_READ, MAP_SHARED, childs, 0);
    assert_int_equal(*ours, 0);
    assert_int_equal(*theirs, 1);
    munmap(ours, HELPER_SESSION_PAGE);
    munmap(theirs, HELPER_SESSION_PAGE);
    close(file);
    close(childs);
    atomic_store(&helper_session_truth->pids[0], 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 8 << 8);
    helper_session_finish(&tally);
}

static int relative(void *argument)
{
    (void)argument;
    helper_session_live(NULL);
    return 9;
}

static int clone_with(unsigned long flags, int wanted)
{
    static char stack[65536] __attribute__((aligned(16)));
    int status = -1;
    pid_t pid = clone(relative, stack + sizeof stack, (int)flags, NULL);
    if (waitpid(pid, &status, __WALL) != pid)
        return 1;
    return WEXITSTATUS(status) + wanted;
}

static int clones_memory(void)
{
    return clone_with(CLONE_VM, 1) + clone_with(CLONE_VM | CLONE_FS | SIGCHLD, 1);
}

static void processes_that_share_memory_share_the_pool(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, clones_memory, 0);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 20 << 8);
    assert_int_equal(tally.kinds[TRACE_CREATED], 2);
    assert_int_equal(tally.kinds[TRACE_FORK], 0);
    assert_int_equal(tally.kinds[TRACE_VFORK], 0);
    assert_int_equal(tally.kinds[TRACE_END], 3);
    assert_int_equal(tally.last[TRACE_CREATED].parent, pid);
    assert_int_not_equal(tally.last[TRACE_CREATED].pid, pid);
    helper_session_finish(&tally);
}

static int unseen(void *argument)
{
    (void)argument;
    while (!atomic_load(&helper_session_truth->pids[0]))
        helper_session_nap_us(1000);
    if (helper_session_own_gs() != atomic_load(&helper_session_truth->value))
        helper_session_wrong("another thread's gs base", helper_session_own_gs());
    atomic_store(&helper_session_truth->done, 1);
    syscall(SYS_exit, 0);
    return 0;
}

static int clones_untraced(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    int flags =
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_UNTRACED;
    if (clone(unseen, stack + sizeof stack, flags, NULL) < 0)
        return 1;
    atomic_store(&helper_session_truth->beats, 1);
    while (!atomic_load(&helper_session_truth->done))
        helper_session_nap_us(1000);
    helper_session_nap_us(10000);
    return 14;
}

static void threads_created_unseen_are_found(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_start(&tally, clones_untraced, 0);
    while (!atomic_load(&helper_session_truth->beats))
        helper_session_work(&tally, 1);
    assert_int_equal(tally.kinds[TRACE_FOUND], 0);
    helper_session_hold(&tally, pid);
    helper_session_work(&tally, 20);
    assert_int_equal(tally.kinds[TRACE_FOUND], 1);
    uint64_t gs = helper_session_new_gs(&tally);
    atomic_store(&helper_session_truth->value, gs);
    helper_session_must(helper_trace_set_gs(&tally.helper, tally.last[TRACE_FOUND].tid, gs, &error), &error);
    helper_session_release(&tally, pid);
    helper_session_hold(&tally, pid);
    helper_session_release(&tally, pid);
    atomic_store(&helper_session_truth->pids[0], 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 14 << 8);
    assert_int_equal(tally.kinds[TRACE_FOUND], 1);
    helper_session_finish(&tally);
}

int main(int argc, char **argv)
{
    if (!helper_session_main(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_followed_and_left),
        cmocka_unit_test(calls_are_made_in_its_name),
        cmocka_unit_test(every_thread_has_a_gs_base_of_its_own),
        cmocka_unit_test(a_thousand_live_at_once),
        cmocka_unit_test(a_thread_in_need_of_a_gs_base_waits_for_it),
        cmocka_unit_test(need_is_seen_while_held),
        cmocka_unit_test(a_silent_tally_holds_no_thread),
        cmocka_unit_test(fork_children_are_held),
        cmocka_unit_test(a_fork_child_is_stopped_until_released_and_gets_memory),
        cmocka_unit_test(processes_that_share_memory_share_the_pool),
        cmocka_unit_test(threads_created_unseen_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
