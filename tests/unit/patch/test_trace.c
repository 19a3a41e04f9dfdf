/* Processes followed from birth to end. The targets check themselves: a thread's first act is to ask the kernel for its gs
 * base, which must be one that no other living thread has (`truth`, in memory that all share). The test plays tally. */
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "patch_child.h"
#include "patch_target.h"
#include "patch_trace.h"

enum { PAGE = 4096, BASES = 60000 };

#define FIRST_GS 0x100000000ull

extern char **environ;

/* --- what targets report --- */

struct truth {
    atomic_int owner[BASES]; /* the living thread that has the gs base */
    atomic_uint births, wrong, forks, done, signals;
    atomic_bool go;
    atomic_ullong beats;
    atomic_int pids[8];
    atomic_ullong value;
};
static struct truth *truth;

static void nap_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

static uint64_t own_gs(void)
{
    uint64_t gs = 0;
    syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
    return gs;
}

static void wrong(const char *what, uint64_t value)
{
    atomic_fetch_add(&truth->wrong, 1);
    printf("# in a target: %s: 0x%llx\n", what, (unsigned long long)value);
    fflush(stdout);
}

/* 0: not one of ours. */
static unsigned number_of(uint64_t gs)
{
    return gs > FIRST_GS && gs < FIRST_GS + (uint64_t)BASES * PAGE ? (unsigned)((gs - FIRST_GS) / PAGE) : 0;
}

static unsigned take_own(void)
{
    uint64_t gs = own_gs();
    unsigned number = number_of(gs);
    if (!number)
        wrong("no gs base", gs);
    else if (atomic_exchange(&truth->owner[number], 1))
        wrong("another thread's gs base", gs);
    atomic_fetch_add(&truth->births, 1);
    return number;
}

static void *live(void *argument)
{
    unsigned number = take_own();
    if (argument)
        nap_us((long)(intptr_t)argument);
    atomic_store(&truth->owner[number], 0);
    return NULL;
}

/* --- tally --- */

struct tally {
    struct patch_helper helper;
    unsigned next; /* gs base */
    unsigned kinds[8];
    unsigned signals_ended, batch;
    int status;     /* of the last END */
    pid_t ended;    /* and whose */
    uint64_t flags; /* of the last EXEC */
    bool keep_held; /* EXEC and FORK are not answered */
    bool starve;    /* NEED is not answered */
    struct patch_trace_event last[8];
};

static void must(int result, const struct base_error *error)
{
    if (result < 0)
        print_message("# %s\n", error->text);
    assert_int_equal(result, BASE_OK);
}

static struct tally begin(void)
{
    struct tally tally = {.batch = 16};
    struct base_error error = {0};
    memset(truth, 0, sizeof *truth);
    must(patch_helper_begin(&tally.helper, &error), &error);
    return tally;
}

static uint64_t new_gs(struct tally *tally)
{
    tally->next = tally->next + 1 < BASES ? tally->next + 1 : 1;
    return FIRST_GS + (uint64_t)tally->next * PAGE;
}

static void give(struct tally *tally, pid_t pid, unsigned count)
{
    uint64_t gs[BASES];
    for (unsigned i = 0; i < count; i++)
        gs[i] = new_gs(tally);
    patch_trace_give(&tally->helper, pid, gs, count, NULL); /* it may have been killed */
}

static void answer(struct tally *tally, const struct patch_trace_event *event)
{
    struct patch_helper *helper = &tally->helper;
    if (event->kind == PATCH_TRACE_NEED && !tally->starve)
        give(tally, event->pid, tally->batch);
    if ((event->kind == PATCH_TRACE_EXEC || event->kind == PATCH_TRACE_FORK) && !tally->keep_held) {
        patch_trace_set_gs(helper, event->tid, new_gs(tally), NULL);
        patch_trace_release(helper, event->pid, NULL, NULL);
    }
    if (event->kind == PATCH_TRACE_END) {
        tally->status = event->status;
        tally->ended = event->pid;
    }
    if (event->kind == PATCH_TRACE_EXEC)
        tally->flags = event->flags;
}

/* Answers what comes within `ms`; returns how many events there were. */
static unsigned work(struct tally *tally, int ms)
{
    struct patch_trace_event event;
    struct base_error error = {0};
    struct pollfd socket = {tally->helper.socket, POLLIN, 0};
    unsigned count = 0;
    int result;
    if (!patch_trace_pending(&tally->helper))
        poll(&socket, 1, ms);
    while ((result = patch_trace_next(&tally->helper, &event, &error)) > 0) {
        assert_true(event.kind < 8);
        tally->kinds[event.kind]++;
        tally->last[event.kind] = event;
        answer(tally, &event);
        count++;
    }
    must(result, &error);
    return count;
}

static void work_until(struct tally *tally, enum patch_trace_kind kind, unsigned count)
{
    for (int i = 0; i < 3000 && tally->kinds[kind] < count; i++)
        work(tally, 10);
    if (tally->kinds[kind] < count)
        print_message("# %u of %u events of kind %d came\n", tally->kinds[kind], count, kind);
    assert_true(tally->kinds[kind] >= count);
}

static void work_until_ended(struct tally *tally, pid_t pid)
{
    for (int i = 0; i < 6000 && tally->ended != pid; i++)
        work(tally, 10);
    assert_int_equal(tally->ended, pid);
}

static void hold(struct tally *tally, pid_t pid)
{
    struct base_error error = {0};
    int result = BASE_EBUSY;
    for (int i = 0; i < 50 && result == BASE_EBUSY; i++) {
        base_error_clear(&error);
        result = patch_trace_hold(&tally->helper, pid, NULL, &error);
    }
    must(result, &error);
}

static void release(struct tally *tally, pid_t pid)
{
    struct base_error error = {0};
    must(patch_trace_release(&tally->helper, pid, NULL, &error), &error);
}

static void follow(struct tally *tally, pid_t pid)
{
    struct base_error error = {0};
    must(patch_trace_follow(&tally->helper, pid, &error), &error);
}

/* As a session does: every thread gets a gs base. */
static void prepare(struct tally *tally, pid_t pid, unsigned pool)
{
    struct base_error error = {0};
    struct patch_stop_thread *threads = NULL;
    size_t count = 0;
    hold(tally, pid);
    must(patch_trace_threads(&tally->helper, pid, &threads, &count, &error), &error);
    for (size_t i = 0; i < count; i++)
        if (!threads[i].gs && threads[i].state != PATCH_STOP_GONE)
            must(patch_trace_set_gs(&tally->helper, threads[i].tid, new_gs(tally), &error), &error);
    free(threads);
    give(tally, pid, pool);
    release(tally, pid);
}

/* A target of the test: follows `function` from before its first action. */
static pid_t start(struct tally *tally, int (*function)(void), unsigned pool)
{
    atomic_store(&truth->go, false);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (!atomic_load(&truth->go))
            nap_us(500);
        _exit(function());
    }
    follow(tally, pid);
    prepare(tally, pid, pool);
    atomic_store(&truth->go, true);
    return pid;
}

static int wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static void finish(struct tally *tally)
{
    patch_helper_end(&tally->helper);
    assert_int_equal(atomic_load(&truth->wrong), 0);
}

/* --- one process, its threads --- */

static void a_process_is_followed_and_left(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    struct patch_child child = patch_child_start(patch_child_busy, 4);
    struct patch_stop_thread *threads = NULL;
    struct user_regs_struct registers;
    size_t count = 0;
    follow(&tally, child.pid);
    assert_true(patch_child_tracers(child.pid) > 0);
    assert_int_equal(patch_trace_threads(&tally.helper, child.pid, &threads, &count, NULL), BASE_EUSAGE);
    hold(&tally, child.pid);
    must(patch_trace_threads(&tally.helper, child.pid, &threads, &count, &error), &error);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        must(patch_trace_read_registers(&tally.helper, child.pid, threads[i].tid, &registers, &error),
             &error);
        assert_true(threads[i].pc == registers.rip && threads[i].sp == registers.rsp);
        must(patch_trace_set_gs(&tally.helper, threads[i].tid, new_gs(&tally), &error), &error);
        must(patch_trace_read_registers(&tally.helper, child.pid, threads[i].tid, &registers, &error),
             &error);
        assert_true(number_of(registers.gs_base));
    }
    free(threads);
    release(&tally, child.pid);
    assert_int_equal(patch_trace_set_gs(&tally.helper, child.pid, 0, NULL), BASE_EUSAGE);
    must(patch_trace_leave(&tally.helper, child.pid, &error), &error);
    assert_true(patch_child_is_free(child.pid));
    assert_int_equal(patch_trace_hold(&tally.helper, child.pid, NULL, NULL), BASE_ENOTFOUND);
    assert_int_equal(work(&tally, 20), 0);
    assert_int_equal(patch_child_finish(&child), 0);
    finish(&tally);
}

static int churn(void)
{
    for (int round = 0; round < 250; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&threads[i], NULL, live, NULL))
                return 3;
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    return 17;
}

static void every_thread_has_a_gs_base_of_its_own(void **state)
{
    (void)state;
    struct tally tally = begin();
    uint64_t began = patch_target_now();
    pid_t pid = start(&tally, churn, 64);
    work_until_ended(&tally, pid);
    printf("# 1000 threads born one after the other in %llu us\n",
           (unsigned long long)(patch_target_now() - began) / 1000);
    assert_int_equal(tally.status, 17 << 8);
    assert_int_equal(wait_for(pid), 17 << 8);
    assert_int_equal(atomic_load(&truth->births), 1000);
    assert_int_equal(tally.kinds[PATCH_TRACE_BIRTH], 1000);
    assert_int_equal(tally.kinds[PATCH_TRACE_DEATH], 1001);
    assert_true(tally.kinds[PATCH_TRACE_NEED] > 0);
    finish(&tally);
}

static int many_at_once(void)
{
    static pthread_t threads[1000];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < 1000; i++)
        if (pthread_create(&threads[i], &small, live, (void *)(intptr_t)300000))
            return 3;
    for (int i = 0; i < 1000; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

static void a_thousand_live_at_once(void **state)
{
    (void)state;
    struct tally tally = begin();
    tally.batch = 100;
    pid_t pid = start(&tally, many_at_once, 1);
    work_until(&tally, PATCH_TRACE_BIRTH, 900);
    hold(&tally, pid);
    release(&tally, pid);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 0);
    assert_int_equal(atomic_load(&truth->births), 1000);
    assert_int_equal(tally.kinds[PATCH_TRACE_BIRTH], 1000);
    finish(&tally);
}

static int one_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, live, NULL))
        return 3;
    atomic_fetch_add(&truth->beats, 1); /* the creator waits too */
    pthread_join(thread, NULL);
    return 5;
}

static void who_needs_a_gs_base_waits_for_it(void **state)
{
    (void)state;
    struct tally tally = begin();
    tally.starve = true;
    pid_t pid = start(&tally, one_thread, 0);
    work_until(&tally, PATCH_TRACE_NEED, 1);
    nap_us(100000);
    assert_int_equal(atomic_load(&truth->births), 0);
    assert_int_equal(tally.last[PATCH_TRACE_NEED].pid, pid);
    assert_int_not_equal(tally.last[PATCH_TRACE_NEED].tid, pid);
    assert_int_equal(tally.kinds[PATCH_TRACE_BIRTH], 0);
    give(&tally, pid, 1);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 5 << 8);
    assert_int_equal(tally.last[PATCH_TRACE_BIRTH].tid, tally.last[PATCH_TRACE_NEED].tid);
    assert_int_equal(atomic_load(&truth->births), 1);
    finish(&tally);
}

static void need_is_seen_while_held(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    uint64_t left = 7;
    tally.starve = true;
    pid_t pid = start(&tally, one_thread, 0);
    work_until(&tally, PATCH_TRACE_NEED, 1);
    hold(&tally, pid);
    give(&tally, pid, 3);
    must(patch_trace_left(&tally.helper, pid, &left, &error), &error);
    assert_int_equal(left, 2);
    nap_us(20000);
    assert_int_equal(atomic_load(&truth->births), 0); /* given, but held */
    release(&tally, pid);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 5 << 8);
    finish(&tally);
}

static void *find_own_gs(void *argument)
{
    (void)argument;
    return (void *)(uintptr_t)own_gs();
}

static int starved_thread(void)
{
    pthread_t thread;
    void *gs = NULL;
    if (pthread_create(&thread, NULL, find_own_gs, NULL) || pthread_join(thread, &gs))
        return 3;
    return gs ? 4 : 6;
}

static void a_silent_tally_holds_nobody(void **state)
{
    (void)state;
    struct tally tally = begin();
    tally.starve = true;
    pid_t pid = start(&tally, starved_thread, 0);
    assert_int_equal(wait_for(pid), 6 << 8);
    work_until_ended(&tally, pid);
    assert_int_equal(tally.last[PATCH_TRACE_BIRTH].gs, 0);
    finish(&tally);
}

/* --- new processes --- */

static int fork_tree(int depth)
{
    int sum = 1;
    if (depth == 0) {
        live(NULL);
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            if (!number_of(own_gs()))
                wrong("no gs base after fork", own_gs());
            atomic_fetch_add(&truth->forks, 1);
            _exit(fork_tree(depth - 1));
        }
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
            return 100;
        sum += WEXITSTATUS(status);
    }
    return sum;
}

static int deep_tree(void)
{
    return fork_tree(4);
}

static void fork_children_are_held(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    struct patch_trace_cost cost;
    pid_t pid = start(&tally, deep_tree, 0);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 31 << 8);
    assert_int_equal(atomic_load(&truth->forks), 30);
    assert_int_equal(tally.kinds[PATCH_TRACE_FORK], 30);
    assert_int_equal(tally.kinds[PATCH_TRACE_END], 31);
    assert_int_equal(tally.kinds[PATCH_TRACE_DEATH], 31);
    must(patch_trace_cost(&tally.helper, 0, &cost, &error), &error);
    assert_int_equal(cost.forks, 30);
    assert_int_equal(cost.births, 0);
    assert_true(cost.stopped_ns > 0);
    finish(&tally);
}

static int forks_once(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        atomic_store(&truth->beats, 1);
        *(volatile uint64_t *)(uintptr_t)atomic_load(&truth->value) += 1;
        _exit(8);
    }
    while (!atomic_load(&truth->pids[0]))
        nap_us(500);
    return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 1;
}

static void a_fork_child_stands_until_released_and_gets_memory(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    struct patch_helper_room room = {(uint64_t)(uintptr_t)&churn, (uint64_t)(uintptr_t)&churn + 1, 2 * PAGE,
                                     PROT_READ | PROT_WRITE};
    uint64_t address = 0;
    int file = -1, childs = -1;
    pid_t pid = start(&tally, forks_once, 0);
    hold(&tally, pid);
    must(patch_trace_share(&tally.helper, pid, &room, &address, &file, &error), &error);
    atomic_store(&truth->value, address);
    tally.keep_held = true;
    release(&tally, pid);
    work_until(&tally, PATCH_TRACE_FORK, 1);
    pid_t child = tally.last[PATCH_TRACE_FORK].pid;
    assert_int_equal(tally.last[PATCH_TRACE_FORK].parent, pid);
    assert_int_not_equal(child, pid);
    assert_int_equal(
        patch_trace_remap(&tally.helper, child, (uint64_t)(uintptr_t)truth, PAGE, PROT_READ, &childs, &error),
        BASE_EUSAGE);
    assert_int_equal(patch_trace_remap(&tally.helper, child, address, 4 * PAGE, PROT_READ, &childs, NULL),
                     BASE_EUSAGE);
    base_error_clear(&error);
    must(patch_trace_remap(&tally.helper, child, address, 2 * PAGE, PROT_READ | PROT_WRITE, &childs, &error),
         &error);
    nap_us(50000);
    assert_int_equal(atomic_load(&truth->beats), 0); /* it stands */
    release(&tally, child);
    work_until_ended(&tally, child);
    uint64_t *ours = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    uint64_t *theirs = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, childs, 0);
    assert_int_equal(*ours, 0);
    assert_int_equal(*theirs, 1);
    munmap(ours, PAGE);
    munmap(theirs, PAGE);
    close(file);
    close(childs);
    atomic_store(&truth->pids[0], 1);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 8 << 8);
    finish(&tally);
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
    struct tally tally = begin();
    pid_t pid = start(&tally, function, 0);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 20 << 8);
    assert_int_equal(tally.kinds[PATCH_TRACE_VFORK], 20);
    assert_int_equal(tally.kinds[PATCH_TRACE_EXEC], 20);
    assert_int_equal(tally.kinds[PATCH_TRACE_FORK], 0);
    assert_int_equal(tally.kinds[PATCH_TRACE_END], 21);
    assert_int_equal(tally.last[PATCH_TRACE_VFORK].parent, pid);
    finish(&tally);
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
            atomic_fetch_add(&truth->beats, 1);
            nap_us(2000);
        }
        _exit(own_gs() != 0);
    }
    if (!number_of(own_gs()) || own_gs() != atomic_load(&truth->value))
        wrong("gs base set in the kernel", own_gs());
    return waitpid(pid, &status, 0) == pid ? 10 + WEXITSTATUS(status) : 1;
}

static void a_vfork_child_is_held_with_its_parent(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    struct patch_stop_thread *threads = NULL;
    size_t count = 0;
    pid_t pid = start(&tally, vfork_child_naps, 0);
    work_until(&tally, PATCH_TRACE_VFORK, 1);
    while (atomic_load(&truth->beats) < 5)
        work(&tally, 1);
    hold(&tally, pid);
    unsigned long long beats = atomic_load(&truth->beats);
    must(patch_trace_threads(&tally.helper, pid, &threads, &count, &error), &error);
    assert_int_equal(count, 2);
    unsigned asleep = 0;
    uint64_t gs = new_gs(&tally);
    atomic_store(&truth->value, gs);
    for (size_t i = 0; i < count; i++)
        if (threads[i].state == PATCH_STOP_KERNEL) {
            asleep++;
            assert_int_equal(threads[i].tid, pid);
            assert_true(threads[i].pc && threads[i].sp);
            must(patch_trace_set_gs(&tally.helper, pid, gs, &error), &error);
        }
    assert_int_equal(asleep, 1);
    free(threads);
    nap_us(30000);
    assert_int_equal(atomic_load(&truth->beats), beats);
    release(&tally, pid);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 11 << 8);
    finish(&tally);
}

static int relative(void *argument)
{
    (void)argument;
    live(NULL);
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
    struct tally tally = begin();
    pid_t pid = start(&tally, clones_memory, 0);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 20 << 8);
    assert_int_equal(tally.kinds[PATCH_TRACE_BIRTH], 2);
    assert_int_equal(tally.kinds[PATCH_TRACE_FORK], 0);
    assert_int_equal(tally.kinds[PATCH_TRACE_VFORK], 0);
    assert_int_equal(tally.kinds[PATCH_TRACE_END], 3);
    assert_int_equal(tally.last[PATCH_TRACE_BIRTH].parent, pid);
    assert_int_not_equal(tally.last[PATCH_TRACE_BIRTH].pid, pid);
    finish(&tally);
}

static int unseen(void *argument)
{
    (void)argument;
    while (!atomic_load(&truth->pids[0]))
        nap_us(1000);
    if (own_gs() != atomic_load(&truth->value))
        wrong("a stranger's gs base", own_gs());
    atomic_store(&truth->done, 1);
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
    atomic_store(&truth->beats, 1);
    while (!atomic_load(&truth->done))
        nap_us(1000);
    nap_us(10000);
    return 14;
}

static void strangers_are_found(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    pid_t pid = start(&tally, clones_untraced, 0);
    while (!atomic_load(&truth->beats))
        work(&tally, 1);
    assert_int_equal(tally.kinds[PATCH_TRACE_STRANGER], 0);
    hold(&tally, pid);
    work(&tally, 20);
    assert_int_equal(tally.kinds[PATCH_TRACE_STRANGER], 1);
    uint64_t gs = new_gs(&tally);
    atomic_store(&truth->value, gs);
    must(patch_trace_set_gs(&tally.helper, tally.last[PATCH_TRACE_STRANGER].tid, gs, &error), &error);
    release(&tally, pid);
    hold(&tally, pid);
    release(&tally, pid);
    atomic_store(&truth->pids[0], 1);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 14 << 8);
    assert_int_equal(tally.kinds[PATCH_TRACE_STRANGER], 1);
    finish(&tally);
}

/* --- execs --- */

static void *exec_it(void *argument)
{
    (void)argument;
    take_own();
    nap_us(5000);
    execv(image[0], image);
    return NULL;
}

static int exec_by_another(void)
{
    pthread_t threads[6];
    for (int i = 0; i < 5; i++)
        pthread_create(&threads[i], NULL, live, (void *)(intptr_t)10000000);
    pthread_create(&threads[5], NULL, exec_it, NULL);
    pthread_join(threads[5], NULL);
    return 1;
}

static void another_thread_may_exec(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct tally tally = begin();
        pid_t pid = start(&tally, exec_by_another, 10);
        work_until_ended(&tally, pid);
        assert_int_equal(wait_for(pid), 42 << 8);
        assert_int_equal(tally.kinds[PATCH_TRACE_EXEC], 1);
        assert_int_equal(tally.last[PATCH_TRACE_EXEC].pid, pid);
        assert_int_equal(tally.last[PATCH_TRACE_EXEC].tid, pid);
        assert_int_equal(tally.kinds[PATCH_TRACE_BIRTH], 6);
        assert_int_equal(tally.kinds[PATCH_TRACE_DEATH], 8); /* seven before the exec, and the last */
        finish(&tally);
    }
}

static char *const chain[] = {self, chain_option, chain_length, NULL};

static int begin_chain(void)
{
    execv(chain[0], chain);
    return 1;
}

/* Held and let go while it becomes one image after the other. */
static void holds_meet_execs(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    unsigned seed = 7, held = 0, refused = 0;
    pid_t pid = start(&tally, begin_chain, 4);
    for (int i = 0; i < 20000 && tally.ended != pid; i++) {
        base_error_clear(&error);
        int result = patch_trace_hold(&tally.helper, pid, NULL, &error);
        held += result == BASE_OK;
        refused += result == BASE_ENOTFOUND;
        if (result == BASE_OK && patch_trace_release(&tally.helper, pid, NULL, &error) < 0 &&
            tally.ended != pid)
            refused++;
        work(&tally, 0);
        nap_us(rand_r(&seed) % 300);
    }
    work_until_ended(&tally, pid);
    printf("# %u holds, %u refused\n", held, refused);
    assert_int_equal(wait_for(pid), 42 << 8);
    assert_int_equal(tally.kinds[PATCH_TRACE_EXEC], 61);
    assert_true(held > 0);
    finish(&tally);
}

static int exec_at_once(void)
{
    execv(image[0], image);
    return 1;
}

static void a_new_image_stands_and_takes_calls(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    struct user_regs_struct registers;
    uint64_t address = 0;
    int file = -1;
    tally.keep_held = true;
    pid_t pid = start(&tally, exec_at_once, 0);
    work_until(&tally, PATCH_TRACE_EXEC, 1);
    must(patch_trace_read_registers(&tally.helper, pid, pid, &registers, &error), &error);
    assert_int_equal(tally.last[PATCH_TRACE_EXEC].flags, 0);
    struct patch_helper_room room = {registers.rip & ~(uint64_t)(PAGE - 1), (registers.rip | (PAGE - 1)) + 1,
                                     PAGE, PROT_READ | PROT_WRITE};
    must(patch_trace_map(&tally.helper, pid, &room, &address, &error), &error);
    must(patch_trace_write(&tally.helper, pid, address, "abc", 4, &error), &error);
    must(patch_trace_share(&tally.helper, pid, &room, &address, &file, &error), &error);
    must(patch_trace_protect(&tally.helper, pid, address, PAGE, PROT_READ, &error), &error);
    must(patch_trace_unmap(&tally.helper, pid, address, PAGE, &error), &error);
    close(file);
    hold(&tally, pid);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    release(&tally, pid);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 42 << 8);
    finish(&tally);
}

/* --- signals --- */

static void count_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    if (info->si_code != SI_QUEUE || info->si_value.sival_int != (int)atomic_load(&truth->signals))
        wrong("siginfo", (uint64_t)info->si_value.sival_int);
    atomic_fetch_add(&truth->signals, 1);
}

static int receive_signals(void)
{
    struct sigaction action = {.sa_sigaction = count_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN, &action, NULL);
    atomic_store(&truth->beats, 1);
    while (!atomic_load(&truth->done))
        ;
    return 11;
}

static void signals_pass(void **state)
{
    (void)state;
    enum { SIGNALS = 10000 };
    struct tally tally = begin();
    struct base_error error = {0};
    struct patch_trace_cost cost;
    pid_t pid = start(&tally, receive_signals, 0);
    while (!atomic_load(&truth->beats))
        work(&tally, 1);
    uint64_t began = patch_target_now();
    for (int i = 0; i < SIGNALS;) {
        if (sigqueue(pid, SIGRTMIN, (union sigval){.sival_int = i}))
            nap_us(1000);
        else
            i++;
        if (i % 500 == 0) {
            hold(&tally, pid);
            release(&tally, pid);
        }
        while (patch_target_now() < began + (uint64_t)i * 100000)
            ;
    }
    for (int i = 0; i < 5000 && atomic_load(&truth->signals) < SIGNALS; i++)
        nap_us(1000);
    assert_int_equal(atomic_load(&truth->signals), SIGNALS);
    must(patch_trace_cost(&tally.helper, pid, &cost, &error), &error);
    assert_int_equal(cost.signals, SIGNALS);
    atomic_store(&truth->done, 1);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 11 << 8);
    finish(&tally);
}

static int wait_for_nothing(void)
{
    struct epoll_event event;
    int file = epoll_create1(0);
    signal(SIGWINCH, SIG_IGN);
    atomic_store(&truth->beats, 1);
    int got = epoll_wait(file, &event, 1, 700); /* SIGCHLD is ignored by default */
    return got == 0 ? 12 : errno == EINTR ? 1 : 2;
}

static void ignored_signals_do_not_interrupt(void **state)
{
    (void)state;
    struct tally tally = begin();
    pid_t pid = start(&tally, wait_for_nothing, 0);
    while (!atomic_load(&truth->beats))
        work(&tally, 1);
    for (int i = 0; i < 20; i++) {
        nap_us(5000);
        kill(pid, i % 2 ? SIGCHLD : SIGWINCH);
    }
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 12 << 8);
    finish(&tally);
}

static int beat(void)
{
    while (!atomic_load(&truth->done)) {
        atomic_fetch_add(&truth->beats, 1);
        nap_us(500);
    }
    return 13;
}

static bool beats(void)
{
    unsigned long long before = atomic_load(&truth->beats);
    for (int i = 0; i < 100 && atomic_load(&truth->beats) < before + 3; i++)
        nap_us(2000);
    return atomic_load(&truth->beats) >= before + 3;
}

static void job_control_works(void **state)
{
    (void)state;
    struct tally tally = begin();
    int status;
    pid_t pid = start(&tally, beat, 0);
    for (int i = 0; i < 5; i++) {
        assert_true(beats());
        assert_int_equal(waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED), 0);
        kill(pid, SIGSTOP);
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        nap_us(2000);
        unsigned long long before = atomic_load(&truth->beats);
        hold(&tally, pid); /* held and let go, it stays stopped */
        release(&tally, pid);
        nap_us(20000);
        work(&tally, 0);
        assert_int_equal(atomic_load(&truth->beats), before);
        kill(pid, SIGCONT);
        assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
        assert_true(WIFCONTINUED(status));
    }
    assert_true(beats());
    atomic_store(&truth->done, 1);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 13 << 8);
    finish(&tally);
}

static void a_stopped_process_is_followed_and_left_stopped(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    struct patch_child child = patch_child_start(patch_child_busy, 3);
    int status;
    kill(child.pid, SIGSTOP);
    assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
    follow(&tally, child.pid);
    nap_us(20000);
    unsigned long long rounds = atomic_load(&child.shared->rounds[0]);
    hold(&tally, child.pid);
    release(&tally, child.pid);
    nap_us(20000);
    must(patch_trace_leave(&tally.helper, child.pid, &error), &error);
    assert_true(patch_child_is_free(child.pid));
    nap_us(20000);
    assert_int_equal(atomic_load(&child.shared->rounds[0]), rounds);
    assert_int_equal(patch_child_state(child.pid), 'T');
    kill(child.pid, SIGCONT);
    nap_us(100000);
    assert_true(atomic_load(&child.shared->rounds[0]) > rounds);
    assert_int_equal(patch_child_finish(&child), 0);
    finish(&tally);
}

static void count_trap(int number)
{
    (void)number;
    atomic_fetch_add(&truth->signals, 1);
}

static int traps_itself(void)
{
    signal(SIGTRAP, count_trap);
    for (int i = 0; i < 100; i++) {
        __asm__ volatile("int3");
        raise(SIGTRAP);
    }
    return atomic_load(&truth->signals) == 200 ? 15 : 1;
}

static void its_own_traps_are_its_own(void **state)
{
    (void)state;
    struct tally tally = begin();
    pid_t pid = start(&tally, traps_itself, 0);
    work_until_ended(&tally, pid);
    assert_int_equal(wait_for(pid), 15 << 8);
    finish(&tally);
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
    struct tally tally = begin();
    pid_t pid = start(&tally, killed_by_itself, 0);
    work_until_ended(&tally, pid);
    assert_true(WIFSIGNALED(tally.status) && WTERMSIG(tally.status) == SIGUSR1);
    int status = wait_for(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    finish(&tally);
}

static void a_target_is_killed_while_held(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    char byte;
    for (int i = 0; i < 20; i++) {
        struct patch_child child = patch_child_start(patch_child_busy, 1 + (unsigned)i % 4);
        follow(&tally, child.pid);
        hold(&tally, child.pid);
        kill(child.pid, SIGKILL);
        if (i % 2)
            nap_us(5000);
        int result = patch_trace_read(&tally.helper, child.pid, (uint64_t)(uintptr_t)truth, &byte, 1, &error);
        assert_true(result == BASE_OK || result < 0);
        patch_trace_release(&tally.helper, child.pid, NULL, NULL);
        work_until_ended(&tally, child.pid);
        assert_int_equal(tally.status, SIGKILL);
        assert_int_equal(patch_trace_hold(&tally.helper, child.pid, NULL, NULL), BASE_ENOTFOUND);
        assert_int_equal(patch_child_finish(&child), -1);
    }
    finish(&tally);
}

static void *leave_first(void *argument)
{
    (void)argument;
    nap_us(20000);
    pthread_t thread;
    if (pthread_create(&thread, NULL, live, NULL) == 0)
        pthread_join(thread, NULL);
    exit(16);
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
    struct tally tally = begin();
    pid_t pid = start(&tally, first_thread_ends, 4);
    work(&tally, 5);
    hold(&tally, pid);
    release(&tally, pid);
    work_until_ended(&tally, pid);
    assert_int_equal(tally.status, 16 << 8);
    assert_int_equal(wait_for(pid), 16 << 8);
    assert_int_equal(tally.kinds[PATCH_TRACE_END], 1);
    finish(&tally);
}

/* --- many --- */

static int mixed(void)
{
    int sum = 0;
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        int status;
        if (pthread_create(&thread, NULL, live, (void *)(intptr_t)300))
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
    struct tally tally = begin();
    pid_t pids[20];
    for (int i = 0; i < 20; i++)
        pids[i] = start(&tally, mixed, 2);
    work_until(&tally, PATCH_TRACE_END, 20 + 20 * 10);
    for (int i = 0; i < 20; i++)
        assert_int_equal(wait_for(pids[i]), 10 << 8);
    assert_int_equal(tally.kinds[PATCH_TRACE_BIRTH], 200);
    assert_int_equal(tally.kinds[PATCH_TRACE_FORK], 200);
    assert_int_equal(tally.kinds[PATCH_TRACE_DEATH], 420);
    finish(&tally);
}

static uint8_t data[2][64] __attribute__((aligned(4096))) = {{1}, {2}};

static void several_are_held_at_once(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    struct patch_child children[2];
    struct patch_memory_change change = {.address = (uint64_t)(uintptr_t)data, .length = 4, .before = {1}};
    uint8_t bytes[4];
    for (uint8_t i = 0; i < 2; i++) {
        children[i] = patch_child_start(patch_child_busy, 2);
        follow(&tally, children[i].pid);
        change.after[0] = (uint8_t)(10 + i);
        must(patch_trace_stage(&tally.helper, children[i].pid, &change, 1, &error), &error);
        assert_int_equal(patch_trace_apply(&tally.helper, children[i].pid, NULL), BASE_EUSAGE);
        hold(&tally, children[i].pid);
    }
    for (int i = 0; i < 2; i++)
        must(patch_trace_apply(&tally.helper, children[i].pid, &error), &error);
    for (int i = 0; i < 2; i++) {
        must(patch_trace_read(&tally.helper, children[i].pid, change.address, bytes, 4, &error), &error);
        assert_int_equal(bytes[0], 10 + i);
        must(patch_trace_undo(&tally.helper, children[i].pid, &error), &error);
        release(&tally, children[i].pid);
        must(patch_trace_leave(&tally.helper, children[i].pid, &error), &error);
        assert_int_equal(patch_child_finish(&children[i]), 0);
    }
    finish(&tally);
}

static void left_and_followed_again_under_load(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    struct patch_child child = patch_child_start(patch_child_births, 0);
    for (int i = 0; i < 200; i++) {
        follow(&tally, child.pid);
        if (i % 3 == 0)
            prepare(&tally, child.pid, 20);
        work(&tally, i % 7 == 0 ? 2 : 0);
        if (i % 5 == 0)
            hold(&tally, child.pid);
        must(patch_trace_leave(&tally.helper, child.pid, &error), &error);
        if (i % 10 == 0)
            assert_true(patch_child_is_free(child.pid));
    }
    assert_true(patch_child_is_free(child.pid));
    work(&tally, 10);
    patch_helper_end(&tally.helper);
    assert_int_equal(patch_child_finish(&child), 0);
}

static void events_wait_for_a_slow_tally(void **state)
{
    (void)state;
    struct tally tally = begin();
    pid_t pid = start(&tally, churn, 1500);
    assert_int_equal(wait_for(pid), 17 << 8); /* nobody reads, nobody waits */
    work_until_ended(&tally, pid);
    assert_int_equal(tally.kinds[PATCH_TRACE_BIRTH], 1000);
    assert_int_equal(tally.kinds[PATCH_TRACE_DEATH], 1001);
    assert_int_equal(tally.kinds[PATCH_TRACE_NEED], 0);
    finish(&tally);
}

/* --- refusals --- */

static void a_tracer_is_named(void **state)
{
    (void)state;
    struct tally tally = begin(), other = begin();
    struct base_error error = {0};
    struct patch_child child = patch_child_start(patch_child_busy, 2);
    follow(&other, child.pid);
    assert_int_equal(patch_trace_follow(&tally.helper, child.pid, &error), BASE_EBUSY);
    assert_non_null(strstr(error.text, "traced by tally-helper"));
    base_error_clear(&error);
    assert_int_equal(patch_helper_stop(&other.helper, child.pid, NULL, &error), BASE_EBUSY);
    base_error_clear(&error);
    must(patch_trace_leave(&other.helper, child.pid, &error), &error);
    assert_true(patch_child_is_free(child.pid));
    follow(&tally, child.pid);
    finish(&other);
    assert_int_equal(patch_trace_follow(&tally.helper, getpid(), &error), BASE_OK); /* even the test itself */
    must(patch_trace_leave(&tally.helper, getpid(), &error), &error);
    assert_int_equal(patch_trace_follow(&tally.helper, tally.helper.pid, NULL), BASE_EUSAGE);
    assert_int_equal(patch_trace_follow(&tally.helper, 0, NULL), BASE_ENOTFOUND);
    assert_int_equal(patch_trace_leave(&tally.helper, 1, NULL), BASE_ENOTFOUND);
    assert_int_equal(patch_trace_cost(&tally.helper, 1, NULL, NULL), BASE_ENOTFOUND);
    assert_int_equal(patch_trace_set_gs(&tally.helper, 1, 0, NULL), BASE_ENOTFOUND);
    finish(&tally);
    assert_int_equal(patch_child_finish(&child), 0);
}

static void a_silent_tally_loses_its_holds(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    char byte;
    tally.keep_held = true;
    pid_t pid = start(&tally, deep_tree, 0);
    work_until(&tally, PATCH_TRACE_FORK, 1);
    pid_t child = tally.last[PATCH_TRACE_FORK].pid;
    for (int i = 0; i < 400 && atomic_load(&truth->forks) == 0; i++)
        nap_us(10000);
    assert_true(atomic_load(&truth->forks) > 0 || atomic_load(&truth->wrong) > 0);
    int result = patch_trace_read(&tally.helper, child, (uint64_t)(uintptr_t)truth, &byte, 1, &error);
    assert_true(result == BASE_EBUSY || result == BASE_ENOTFOUND);
    kill(pid, SIGKILL);
    wait_for(pid);
    atomic_store(&truth->wrong, 0); /* its child had no gs base */
    finish(&tally);
}

static void the_helper_may_be_killed(void **state)
{
    (void)state;
    struct tally tally = begin();
    struct base_error error = {0};
    struct patch_trace_event event;
    pid_t pid = start(&tally, beat, 0);
    kill(tally.helper.pid, SIGKILL);
    int result = 0;
    for (int i = 0; i < 500 && result == 0; i++, nap_us(1000))
        result = patch_trace_next(&tally.helper, &event, &error);
    assert_int_equal(result, BASE_EIO);
    assert_true(beats());
    assert_true(patch_child_is_free(pid));
    atomic_store(&truth->done, 1);
    assert_int_equal(wait_for(pid), 13 << 8);
    finish(&tally);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--image"))
        return 42;
    if (argc == 3 && !strcmp(argv[1], "--chain")) {
        char number[16];
        snprintf(number, sizeof number, "%d", atoi(argv[2]) - 1);
        if (atoi(argv[2]) > 0)
            execv("/proc/self/exe", (char *[]){argv[0], argv[1], number, NULL});
        return 42;
    }
    truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_followed_and_left),
        cmocka_unit_test(every_thread_has_a_gs_base_of_its_own),
        cmocka_unit_test(a_thousand_live_at_once),
        cmocka_unit_test(who_needs_a_gs_base_waits_for_it),
        cmocka_unit_test(need_is_seen_while_held),
        cmocka_unit_test(a_silent_tally_holds_nobody),
        cmocka_unit_test(fork_children_are_held),
        cmocka_unit_test(a_fork_child_stands_until_released_and_gets_memory),
        cmocka_unit_test(vfork_and_exec),
        cmocka_unit_test(posix_spawns),
        cmocka_unit_test(a_vfork_child_is_held_with_its_parent),
        cmocka_unit_test(processes_that_share_memory_share_the_pool),
        cmocka_unit_test(strangers_are_found),
        cmocka_unit_test(another_thread_may_exec),
        cmocka_unit_test(holds_meet_execs),
        cmocka_unit_test(a_new_image_stands_and_takes_calls),
        cmocka_unit_test(signals_pass),
        cmocka_unit_test(ignored_signals_do_not_interrupt),
        cmocka_unit_test(job_control_works),
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
    if (truth == MAP_FAILED)
        return 1;
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
