/* Creation: threads, processes, images, from their first instruction on. */
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
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_clock.h"
#include "helper_session.h"
#include "proc_target.h"
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

static char self[] = "/proc/self/exe", image_option[] = "--image", chain_option[] = "--chain",
            chain_length[] = "60";
static char *const image[] = {self, image_option, NULL};

static int vforks(void)
{
    int sum = 0;
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t pid = vfork();
        if (pid == 0) {
            execv(image[0], image);
            _exit(1);
        }
        if (waitpid(pid, &status, 0) != pid || status != 42 << 8)
            return 1;
        sum++;
    }
    return sum;
}

static int spawns(void)
{
    int sum = 0;
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t pid;
        if (posix_spawn(&pid, image[0], NULL, NULL, image, environ) || waitpid(pid, &status, 0) != pid ||
            status != 42 << 8)
            return 1;
        sum++;
    }
    return sum;
}

static void follow_images(int (*function)(void))
{
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, function, 0);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 20 << 8);
    assert_int_equal(tally.kinds[TRACE_VFORK], 20);
    assert_int_equal(tally.kinds[TRACE_EXEC], 20);
    assert_int_equal(tally.kinds[TRACE_FORK], 0);
    assert_int_equal(tally.kinds[TRACE_END], 21);
    assert_int_equal(tally.last[TRACE_VFORK].parent, pid);
    helper_session_finish(&tally);
}

static void vfork_and_exec(void **state)
{
    (void)state;
    follow_images(vforks);
}

static void posix_spawns(void **state)
{
    (void)state;
    follow_images(spawns);
}

static int vfork_child_naps(void)
{
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        for (int i = 0; i < 200; i++) {
            atomic_fetch_add(&helper_session_truth->beats, 1);
            helper_session_nap_us(2000);
        }
        _exit(helper_session_own_gs() != 0);
    }
    if (!helper_session_number_of(helper_session_own_gs()) ||
        helper_session_own_gs() != atomic_load(&helper_session_truth->value))
        helper_session_wrong("gs base set in the kernel", helper_session_own_gs());
    return waitpid(pid, &status, 0) == pid ? 10 + WEXITSTATUS(status) : 1;
}

static void a_vfork_child_is_held_with_its_parent(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_stop_thread *threads = NULL;
    size_t count = 0;
    pid_t pid = helper_session_start(&tally, vfork_child_naps, 0);
    helper_session_work_until(&tally, TRACE_VFORK, 1);
    while (atomic_load(&helper_session_truth->beats) < 5)
        helper_session_work(&tally, 1);
    helper_session_hold(&tally, pid);
    unsigned long long beats = atomic_load(&helper_session_truth->beats);
    helper_session_must(helper_trace_threads(&tally.helper, pid, &threads, &count, &error), &error);
    assert_int_equal(count, 2);
    unsigned asleep = 0;
    uint64_t gs = helper_session_new_gs(&tally);
    atomic_store(&helper_session_truth->value, gs);
    for (size_t i = 0; i < count; i++)
        if (threads[i].state == TRACE_STOP_KERNEL) {
            asleep++;
            assert_int_equal(threads[i].tid, pid);
            assert_true(threads[i].pc && threads[i].sp);
            helper_session_must(helper_trace_set_gs(&tally.helper, pid, gs, &error), &error);
        }
    assert_int_equal(asleep, 1);
    free(threads);
    helper_session_nap_us(30000);
    assert_int_equal(atomic_load(&helper_session_truth->beats), beats);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 11 << 8);
    helper_session_finish(&tally);
}

/* The child until it is woken, the parent until it is woken again. */
static int vfork_child_waits(void)
{
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        while (!atomic_load(&helper_session_truth->beats))
            helper_session_nap_us(1000);
        _exit(1);
    }
    if (waitpid(pid, &status, 0) != pid)
        return 1;
    while (!atomic_load(&helper_session_truth->value))
        helper_session_nap_us(1000);
    return 10 + WEXITSTATUS(status);
}

static void wake_in_a_moment(void)
{
    if (fork())
        return;
    helper_session_nap_us(100000);
    atomic_store(&helper_session_truth->beats, 1);
    _exit(0);
}

/* A thread that is being left, but still sleeps in the kernel, is traced until it wakes: another stop by the
 * same helper waits for that. */
static void a_process_that_is_being_left_can_be_stopped(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct helper_stopped stopped;
    pid_t pid = helper_session_start(&tally, vfork_child_waits, 0);
    helper_session_work_until(&tally, TRACE_VFORK, 1);
    helper_session_must(helper_trace_leave(&tally.helper, tally.last[TRACE_VFORK].pid, &error), &error);
    helper_session_must(helper_trace_leave(&tally.helper, pid, &error), &error);
    assert_true(trace_child_tracers(pid) > 0);
    wake_in_a_moment();
    helper_session_must(helper_stop(&tally.helper, pid, &stopped, &error), &error);
    assert_int_equal(stopped.threads, 1);
    helper_session_must(helper_resume(&tally.helper, &stopped, &error), &error);
    assert_int_equal(stopped.lingering, 0);
    atomic_store(&helper_session_truth->value, 1);
    assert_int_equal(helper_session_wait_for(pid), 11 << 8);
    wait(NULL);
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

/* --- execs --- */

static void *exec_it(void *argument)
{
    (void)argument;
    helper_session_take_own();
    helper_session_nap_us(5000);
    execv(image[0], image);
    return NULL;
}

static int exec_by_another(void)
{
    pthread_t threads[6];
    for (int i = 0; i < 5; i++)
        pthread_create(&threads[i], NULL, helper_session_live, (void *)(intptr_t)10000000);
    pthread_create(&threads[5], NULL, exec_it, NULL);
    pthread_join(threads[5], NULL);
    return 1;
}

static void another_thread_may_exec(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct helper_session tally = helper_session_begin();
        pid_t pid = helper_session_start(&tally, exec_by_another, 10);
        helper_session_work_until_ended(&tally, pid);
        assert_int_equal(helper_session_wait_for(pid), 42 << 8);
        assert_int_equal(tally.kinds[TRACE_EXEC], 1);
        assert_int_equal(tally.last[TRACE_EXEC].pid, pid);
        assert_int_equal(tally.last[TRACE_EXEC].tid, pid);
        assert_int_equal(tally.kinds[TRACE_CREATED], 6);
        assert_int_equal(tally.kinds[TRACE_EXITED], 8); /* seven before the exec, and the last */
        helper_session_finish(&tally);
    }
}

static char *const chain[] = {self, chain_option, chain_length, NULL};

static int begin_chain(void)
{
    execv(chain[0], chain);
    return 1;
}

/* Held and released while it becomes one image after the other. */
static void holds_meet_execs(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    unsigned seed = 7, held = 0, refused = 0;
    pid_t pid = helper_session_start(&tally, begin_chain, 4);
    for (int i = 0; i < 20000 && tally.ended != pid; i++) {
        base_error_clear(&error);
        int result = helper_trace_hold(&tally.helper, pid, NULL, &error);
        held += result == BASE_OK;
        refused += result == BASE_ENOTFOUND;
        if (result == BASE_OK && helper_trace_release(&tally.helper, pid, NULL, &error) < 0 &&
            tally.ended != pid)
            refused++;
        helper_session_work(&tally, 0);
        helper_session_nap_us(rand_r(&seed) % 300);
    }
    helper_session_work_until_ended(&tally, pid);
    printf("# %u holds, %u refused\n", held, refused);
    assert_int_equal(helper_session_wait_for(pid), 42 << 8);
    assert_int_equal(tally.kinds[TRACE_EXEC], 61);
    assert_true(held > 0);
    helper_session_finish(&tally);
}

static int exec_at_once(void)
{
    execv(image[0], image);
    return 1;
}

/* Code is mapped next to what it is for, on whichever side; the data lies beyond it, and last in the
 * file. */
static void data_lies_beyond_code(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct user_regs_struct registers;
    uint64_t address = 0, size = HELPER_SESSION_PAGE, word = 0;
    int file = -1;
    tally.keep_held = true;
    pid_t pid = helper_session_start(&tally, exec_at_once, 0);
    helper_session_work_until(&tally, TRACE_EXEC, 1);
    helper_session_must(helper_trace_read_registers(&tally.helper, pid, pid, &registers, &error), &error);
    uint64_t near = registers.rip & ~(size - 1);
    struct helper_room room = {.low = near,
                               .high = near + size,
                               .size = size,
                               .protection = PROT_READ | PROT_EXEC,
                               .data = 2 * size,
                               .data_first = true};
    helper_session_must(helper_trace_share(&tally.helper, pid, &room, &address, &file, &error), &error);
    uint64_t data = address < near ? address - 2 * size : address + size;
    assert_int_equal(pwrite(file, "code", 4, 0), 4);
    helper_session_must(helper_trace_read(&tally.helper, pid, address, &word, 4, &error), &error);
    assert_memory_equal(&word, "code", 4);
    helper_session_must(helper_trace_write(&tally.helper, pid, data, "data", 5, &error), &error);
    helper_session_must(helper_trace_write(&tally.helper, pid, data + 2 * size - 5, "last", 5, &error),
                        &error);
    assert_int_equal(pread(file, &word, 4, (off_t)size), 4);
    assert_memory_equal(&word, "data", 4);
    assert_int_equal(pread(file, &word, 4, (off_t)(3 * size - 5)), 4);
    assert_memory_equal(&word, "last", 4);
    helper_session_must(helper_trace_unmap(&tally.helper, pid, address, size, &error), &error);
    helper_session_must(helper_trace_unmap(&tally.helper, pid, data, 2 * size, &error), &error);
    close(file);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 42 << 8);
    helper_session_finish(&tally);
}

static bool is_there(struct helper_session *tally, pid_t pid, uint64_t address, const char *text)
{
    char read[16] = "";
    return helper_trace_read(&tally->helper, pid, address, read, strlen(text) + 1, NULL) == BASE_OK &&
           strcmp(read, text) == 0;
}

/* Two pieces in three pages; `second`: which page the second one is. */
static int share_two(struct helper_session *tally, pid_t pid, uint64_t address, uint64_t second, int *file)
{
    const uint64_t size = HELPER_SESSION_PAGE;
    const struct trace_inject_piece pieces[] = {{0, 0, size, 0}, {second * size, size, size, 0}};
    const struct trace_inject_shared shared = {
        .name = "tally", .address = address, .size = 2 * size, .pieces = pieces, .piece_count = 2};
    return helper_trace_share_pieces(&tally->helper, pid, &shared, file, NULL);
}

/* No descriptor can be had from here on; returns the limit as it was. */
static struct rlimit forbid_descriptors(void)
{
    struct rlimit limit;
    int least = dup(1);
    assert_true(least >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    close(least);
    struct rlimit none = {(rlim_t)least, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return limit;
}

/* Of pieces that cannot be mapped, or whose file cannot be opened, none stays; and other mappings in their
 * place stay. */
static void pieces_change_no_other_mapping(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct user_regs_struct registers;
    const uint64_t size = HELPER_SESSION_PAGE;
    uint64_t address = 0;
    char byte;
    int file = -1;
    tally.keep_held = true;
    pid_t pid = helper_session_start(&tally, exec_at_once, 0);
    helper_session_work_until(&tally, TRACE_EXEC, 1);
    helper_session_must(helper_trace_read_registers(&tally.helper, pid, pid, &registers, &error), &error);
    uint64_t near = registers.rip & ~(size - 1);
    struct helper_room room = {
        .low = near, .high = near + size, .size = 3 * size, .protection = PROT_READ | PROT_WRITE};
    helper_session_must(helper_trace_map(&tally.helper, pid, &room, &address, &error), &error);
    helper_session_must(helper_trace_write(&tally.helper, pid, address + 2 * size, "theirs", 7, &error),
                        &error);
    helper_session_must(helper_trace_unmap(&tally.helper, pid, address, 2 * size, &error), &error);
    assert_int_equal(share_two(&tally, pid, address, 2, &file), BASE_EIO);
    assert_true(is_there(&tally, pid, address + 2 * size, "theirs"));
    assert_true(helper_trace_read(&tally.helper, pid, address, &byte, 1, NULL) < 0);
    struct rlimit limit = forbid_descriptors();
    int result = share_two(&tally, pid, address, 1, &file);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(result, BASE_EIO);
    assert_int_equal(file, -1);
    for (uint64_t page = 0; page < 2; page++)
        assert_true(helper_trace_read(&tally.helper, pid, address + page * size, &byte, 1, NULL) < 0);
    assert_int_equal(share_two(&tally, pid, address, 1, &file), BASE_OK);
    assert_int_equal(pwrite(file, "ours", 5, (off_t)size), 5);
    assert_true(is_there(&tally, pid, address + size, "ours"));
    assert_true(is_there(&tally, pid, address + 2 * size, "theirs"));
    close(file);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 42 << 8);
    helper_session_finish(&tally);
}

static void calls_are_injected_into_a_new_image(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct user_regs_struct registers;
    uint64_t address = 0;
    int file = -1;
    tally.keep_held = true;
    pid_t pid = helper_session_start(&tally, exec_at_once, 0);
    helper_session_work_until(&tally, TRACE_EXEC, 1);
    helper_session_must(helper_trace_read_registers(&tally.helper, pid, pid, &registers, &error), &error);
    assert_int_equal(tally.last[TRACE_EXEC].flags, 0);
    struct helper_room room = {.low = registers.rip & ~(uint64_t)(HELPER_SESSION_PAGE - 1),
                               .high = (registers.rip | (HELPER_SESSION_PAGE - 1)) + 1,
                               .size = HELPER_SESSION_PAGE,
                               .protection = PROT_READ | PROT_WRITE};
    helper_session_must(helper_trace_map(&tally.helper, pid, &room, &address, &error), &error);
    helper_session_must(helper_trace_write(&tally.helper, pid, address, "abc", 4, &error), &error);
    helper_session_must(helper_trace_share(&tally.helper, pid, &room, &address, &file, &error), &error);
    helper_session_must(helper_trace_unmap(&tally.helper, pid, address, HELPER_SESSION_PAGE, &error), &error);
    close(file);
    helper_session_hold(&tally, pid);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 42 << 8);
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
        cmocka_unit_test(vfork_and_exec),
        cmocka_unit_test(posix_spawns),
        cmocka_unit_test(a_vfork_child_is_held_with_its_parent),
        cmocka_unit_test(a_process_that_is_being_left_can_be_stopped),
        cmocka_unit_test(processes_that_share_memory_share_the_pool),
        cmocka_unit_test(threads_created_unseen_are_found),
        cmocka_unit_test(another_thread_may_exec),
        cmocka_unit_test(holds_meet_execs),
        cmocka_unit_test(data_lies_beyond_code),
        cmocka_unit_test(pieces_change_no_other_mapping),
        cmocka_unit_test(calls_are_injected_into_a_new_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
