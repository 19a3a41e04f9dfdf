#include "patch_session.h"

#include <asm/prctl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define FIRST_GS 0x100000000ull

struct patch_session_truth *patch_session_truth;

bool patch_session_main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--image"))
        _exit(42);
    if (argc == 3 && !strcmp(argv[1], "--chain")) {
        char number[16];
        snprintf(number, sizeof number, "%d", atoi(argv[2]) - 1);
        if (atoi(argv[2]) > 0)
            execv("/proc/self/exe", (char *[]){argv[0], argv[1], number, NULL});
        _exit(42);
    }
    patch_session_truth =
        mmap(NULL, sizeof *patch_session_truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return patch_session_truth != MAP_FAILED;
}

/* --- what targets report --- */

void patch_session_nap_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

uint64_t patch_session_own_gs(void)
{
    uint64_t gs = 0;
    syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
    return gs;
}

void patch_session_wrong(const char *what, uint64_t value)
{
    atomic_fetch_add(&patch_session_truth->wrong, 1);
    printf("# in a target: %s: 0x%llx\n", what, (unsigned long long)value);
    fflush(stdout);
}

/* 0: not one of ours. */
unsigned patch_session_number_of(uint64_t gs)
{
    return gs > FIRST_GS && gs < FIRST_GS + (uint64_t)PATCH_SESSION_BASES * PATCH_SESSION_PAGE
               ? (unsigned)((gs - FIRST_GS) / PATCH_SESSION_PAGE)
               : 0;
}

unsigned patch_session_take_own(void)
{
    uint64_t gs = patch_session_own_gs();
    unsigned number = patch_session_number_of(gs);
    if (!number)
        patch_session_wrong("no gs base", gs);
    else if (atomic_exchange(&patch_session_truth->owner[number], 1))
        patch_session_wrong("another thread's gs base", gs);
    atomic_fetch_add(&patch_session_truth->births, 1);
    return number;
}

void *patch_session_live(void *argument)
{
    unsigned number = patch_session_take_own();
    if (argument)
        patch_session_nap_us((long)(intptr_t)argument);
    atomic_store(&patch_session_truth->owner[number], 0);
    return NULL;
}

/* --- tally --- */

void patch_session_must(int result, const struct base_error *error)
{
    if (result < 0)
        print_message("# %s\n", error->text);
    assert_int_equal(result, BASE_OK);
}

struct patch_session patch_session_begin(void)
{
    struct patch_session tally = {.batch = 16};
    struct base_error error = {0};
    memset(patch_session_truth, 0, sizeof *patch_session_truth);
    patch_session_must(patch_helper_begin(&tally.helper, &error), &error);
    return tally;
}

uint64_t patch_session_new_gs(struct patch_session *tally)
{
    tally->next = tally->next + 1 < PATCH_SESSION_BASES ? tally->next + 1 : 1;
    return FIRST_GS + (uint64_t)tally->next * PATCH_SESSION_PAGE;
}

void patch_session_give(struct patch_session *tally, pid_t pid, unsigned count)
{
    uint64_t gs[PATCH_SESSION_BASES];
    for (unsigned i = 0; i < count; i++)
        gs[i] = patch_session_new_gs(tally);
    patch_trace_give(&tally->helper, pid, gs, count, NULL); /* it may have been killed */
}

static void answer(struct patch_session *tally, const struct patch_trace_event *event)
{
    struct patch_helper *helper = &tally->helper;
    if (event->kind == PATCH_TRACE_NEED && !tally->starve)
        patch_session_give(tally, event->pid, tally->batch);
    if (event->kind == PATCH_TRACE_FORK && (event->flags & PATCH_TRACE_FLAG_FREED)) {
        if (!tally->keep_held)
            patch_trace_leave(helper, event->pid, NULL);
    } else if ((event->kind == PATCH_TRACE_EXEC || event->kind == PATCH_TRACE_FORK) && !tally->keep_held) {
        patch_trace_set_gs(helper, event->tid, patch_session_new_gs(tally), NULL);
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
unsigned patch_session_work(struct patch_session *tally, int ms)
{
    struct patch_trace_event event;
    struct base_error error = {0};
    struct pollfd socket = {tally->helper.socket, POLLIN, 0};
    unsigned count = 0;
    int result;
    if (!patch_trace_pending(&tally->helper))
        poll(&socket, 1, ms);
    while ((result = patch_trace_next(&tally->helper, &event, &error)) > 0) {
        assert_true(event.kind < PATCH_SESSION_KINDS);
        tally->kinds[event.kind]++;
        tally->last[event.kind] = event;
        answer(tally, &event);
        count++;
    }
    patch_session_must(result, &error);
    return count;
}

void patch_session_work_until(struct patch_session *tally, enum patch_trace_kind kind, unsigned count)
{
    for (int i = 0; i < 3000 && tally->kinds[kind] < count; i++)
        patch_session_work(tally, 10);
    if (tally->kinds[kind] < count)
        print_message("# %u of %u events of kind %d came\n", tally->kinds[kind], count, kind);
    assert_true(tally->kinds[kind] >= count);
}

void patch_session_work_until_ended(struct patch_session *tally, pid_t pid)
{
    for (int i = 0; i < 6000 && tally->ended != pid; i++)
        patch_session_work(tally, 10);
    assert_int_equal(tally->ended, pid);
}

void patch_session_hold(struct patch_session *tally, pid_t pid)
{
    struct base_error error = {0};
    int result = BASE_EBUSY;
    for (int i = 0; i < 50 && result == BASE_EBUSY; i++) {
        base_error_clear(&error);
        result = patch_trace_hold(&tally->helper, pid, NULL, &error);
    }
    patch_session_must(result, &error);
}

void patch_session_release(struct patch_session *tally, pid_t pid)
{
    struct base_error error = {0};
    patch_session_must(patch_trace_release(&tally->helper, pid, NULL, &error), &error);
}

void patch_session_follow(struct patch_session *tally, pid_t pid)
{
    struct base_error error = {0};
    patch_session_must(patch_trace_follow(&tally->helper, pid, &error), &error);
}

/* As a session does: every thread gets a gs base. */
void patch_session_prepare(struct patch_session *tally, pid_t pid, unsigned pool)
{
    struct base_error error = {0};
    struct patch_stop_thread *threads = NULL;
    size_t count = 0;
    patch_session_hold(tally, pid);
    patch_session_must(patch_trace_threads(&tally->helper, pid, &threads, &count, &error), &error);
    for (size_t i = 0; i < count; i++)
        if (!threads[i].gs && threads[i].state != PATCH_STOP_GONE)
            patch_session_must(
                patch_trace_set_gs(&tally->helper, threads[i].tid, patch_session_new_gs(tally), &error),
                &error);
    free(threads);
    patch_session_give(tally, pid, pool);
    patch_session_release(tally, pid);
}

pid_t patch_session_fork(int (*function)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (!atomic_load(&patch_session_truth->go))
            patch_session_nap_us(200);
        _exit(function());
    }
    return pid;
}

/* A target of the test: follows `function` from before its first action. */
pid_t patch_session_start(struct patch_session *tally, int (*function)(void), unsigned pool)
{
    atomic_store(&patch_session_truth->go, false);
    pid_t pid = patch_session_fork(function);
    patch_session_follow(tally, pid);
    patch_session_prepare(tally, pid, pool);
    atomic_store(&patch_session_truth->go, true);
    return pid;
}

int patch_session_wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

void patch_session_finish(struct patch_session *tally)
{
    patch_helper_end(&tally->helper);
    assert_int_equal(atomic_load(&patch_session_truth->wrong), 0);
}

/* --- targets --- */

int patch_session_churn(void)
{
    for (int round = 0; round < 250; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&threads[i], NULL, patch_session_live, NULL))
                return 3;
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    return 17;
}

static int fork_tree(int depth)
{
    int sum = 1;
    if (depth == 0) {
        patch_session_live(NULL);
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            if (!patch_session_number_of(patch_session_own_gs()))
                patch_session_wrong("no gs base after fork", patch_session_own_gs());
            atomic_fetch_add(&patch_session_truth->forks, 1);
            _exit(fork_tree(depth - 1));
        }
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
            return 100;
        sum += WEXITSTATUS(status);
    }
    return sum;
}

int patch_session_deep_tree(void)
{
    return fork_tree(4);
}

int patch_session_beat(void)
{
    while (!atomic_load(&patch_session_truth->done)) {
        atomic_fetch_add(&patch_session_truth->beats, 1);
        patch_session_nap_us(500);
    }
    return 13;
}

bool patch_session_beats(void)
{
    unsigned long long before = atomic_load(&patch_session_truth->beats);
    for (int i = 0; i < 100 && atomic_load(&patch_session_truth->beats) < before + 3; i++)
        patch_session_nap_us(2000);
    return atomic_load(&patch_session_truth->beats) >= before + 3;
}
