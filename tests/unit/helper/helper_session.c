#include "helper_session.h"

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

struct helper_session_truth *helper_session_truth;

bool helper_session_main(int argc, char **argv)
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
    helper_session_truth =
        mmap(NULL, sizeof *helper_session_truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return helper_session_truth != MAP_FAILED;
}

/* --- what targets report --- */

void helper_session_nap_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

uint64_t helper_session_own_gs(void)
{
    uint64_t gs = 0;
    syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
    return gs;
}

void helper_session_wrong(const char *what, uint64_t value)
{
    atomic_fetch_add(&helper_session_truth->wrong, 1);
    printf("# in a target: %s: 0x%llx\n", what, (unsigned long long)value);
    fflush(stdout);
}

/* 0: not one of ours. */
unsigned helper_session_number_of(uint64_t gs)
{
    return gs > FIRST_GS && gs < FIRST_GS + (uint64_t)HELPER_SESSION_BASES * HELPER_SESSION_PAGE
               ? (unsigned)((gs - FIRST_GS) / HELPER_SESSION_PAGE)
               : 0;
}

unsigned helper_session_take_own(void)
{
    uint64_t gs = helper_session_own_gs();
    unsigned number = helper_session_number_of(gs);
    if (!number)
        helper_session_wrong("no gs base", gs);
    else if (atomic_exchange(&helper_session_truth->owner[number], 1))
        helper_session_wrong("another thread's gs base", gs);
    atomic_fetch_add(&helper_session_truth->creations, 1);
    return number;
}

void *helper_session_live(void *argument)
{
    unsigned number = helper_session_take_own();
    if (argument)
        helper_session_nap_us((long)(intptr_t)argument);
    atomic_store(&helper_session_truth->owner[number], 0);
    return NULL;
}

/* --- tally --- */

void helper_session_must(int result, const struct base_error *error)
{
    if (result < 0)
        print_message("# %s\n", error->text);
    assert_int_equal(result, BASE_OK);
}

struct helper_session helper_session_begin(void)
{
    struct helper_session tally = {.batch = 16};
    struct base_error error = {0};
    memset(helper_session_truth, 0, sizeof *helper_session_truth);
    helper_session_must(helper_begin(&tally.helper, &error), &error);
    return tally;
}

uint64_t helper_session_new_gs(struct helper_session *tally)
{
    tally->next = tally->next + 1 < HELPER_SESSION_BASES ? tally->next + 1 : 1;
    return FIRST_GS + (uint64_t)tally->next * HELPER_SESSION_PAGE;
}

void helper_session_give(struct helper_session *tally, pid_t pid, unsigned count)
{
    uint64_t gs[HELPER_SESSION_BASES];
    for (unsigned i = 0; i < count; i++)
        gs[i] = helper_session_new_gs(tally);
    helper_trace_give(&tally->helper, pid, gs, count, NULL); /* it may have been killed */
}

static void answer(struct helper_session *tally, const struct trace_event *event)
{
    struct helper *helper = &tally->helper;
    if (event->kind == TRACE_NEED && !tally->starve)
        helper_session_give(tally, event->pid, tally->batch);
    if (event->kind == TRACE_FORK && (event->flags & TRACE_FLAG_DETACHED)) {
        if (!tally->keep_held)
            helper_trace_leave(helper, event->pid, NULL);
    } else if ((event->kind == TRACE_EXEC || event->kind == TRACE_FORK) && !tally->keep_held) {
        helper_trace_set_gs(helper, event->tid, helper_session_new_gs(tally), NULL);
        helper_trace_release(helper, event->pid, NULL, NULL);
    }
    if (event->kind == TRACE_END) {
        tally->status = event->status;
        tally->ended = event->pid;
    }
    if (event->kind == TRACE_EXEC)
        tally->flags = event->flags;
}

/* Answers what comes within `ms`; returns how many events there were. */
unsigned helper_session_work(struct helper_session *tally, int ms)
{
    struct trace_event event;
    struct base_error error = {0};
    struct pollfd socket = {tally->helper.socket, POLLIN, 0};
    unsigned count = 0;
    int result;
    if (!helper_trace_pending(&tally->helper))
        poll(&socket, 1, ms);
    while ((result = helper_trace_next(&tally->helper, &event, &error)) > 0) {
        assert_true(event.kind < HELPER_SESSION_KINDS);
        tally->kinds[event.kind]++;
        tally->last[event.kind] = event;
        answer(tally, &event);
        count++;
    }
    helper_session_must(result, &error);
    return count;
}

void helper_session_work_until(struct helper_session *tally, enum trace_event_kind kind, unsigned count)
{
    for (int i = 0; i < 3000 && tally->kinds[kind] < count; i++)
        helper_session_work(tally, 10);
    if (tally->kinds[kind] < count)
        print_message("# %u of %u events of kind %d came\n", tally->kinds[kind], count, kind);
    assert_true(tally->kinds[kind] >= count);
}

void helper_session_work_until_ended(struct helper_session *tally, pid_t pid)
{
    for (int i = 0; i < 6000 && tally->ended != pid; i++)
        helper_session_work(tally, 10);
    assert_int_equal(tally->ended, pid);
}

void helper_session_hold(struct helper_session *tally, pid_t pid)
{
    struct base_error error = {0};
    int result = BASE_EBUSY;
    for (int i = 0; i < 50 && result == BASE_EBUSY; i++) {
        base_error_clear(&error);
        result = helper_trace_hold(&tally->helper, pid, NULL, &error);
    }
    helper_session_must(result, &error);
}

void helper_session_release(struct helper_session *tally, pid_t pid)
{
    struct base_error error = {0};
    helper_session_must(helper_trace_release(&tally->helper, pid, NULL, &error), &error);
}

void helper_session_follow(struct helper_session *tally, pid_t pid)
{
    struct base_error error = {0};
    helper_session_must(helper_trace_follow(&tally->helper, pid, &error), &error);
}

/* As a session does: every thread gets a gs base. */
void helper_session_prepare(struct helper_session *tally, pid_t pid, unsigned pool)
{
    struct base_error error = {0};
    struct trace_stop_thread *threads = NULL;
    size_t count = 0;
    helper_session_hold(tally, pid);
    helper_session_must(helper_trace_threads(&tally->helper, pid, &threads, &count, &error), &error);
    for (size_t i = 0; i < count; i++)
        if (!threads[i].gs && threads[i].state != TRACE_STOP_GONE)
            helper_session_must(
                helper_trace_set_gs(&tally->helper, threads[i].tid, helper_session_new_gs(tally), &error),
                &error);
    free(threads);
    helper_session_give(tally, pid, pool);
    helper_session_release(tally, pid);
}

pid_t helper_session_fork(int (*function)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (!atomic_load(&helper_session_truth->go))
            helper_session_nap_us(200);
        _exit(function());
    }
    return pid;
}

/* A target of the test: follows `function` from before its first action. */
pid_t helper_session_start(struct helper_session *tally, int (*function)(void), unsigned pool)
{
    atomic_store(&helper_session_truth->go, false);
    pid_t pid = helper_session_fork(function);
    helper_session_follow(tally, pid);
    helper_session_prepare(tally, pid, pool);
    atomic_store(&helper_session_truth->go, true);
    return pid;
}

int helper_session_wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

void helper_session_finish(struct helper_session *tally)
{
    helper_end(&tally->helper);
    assert_int_equal(atomic_load(&helper_session_truth->wrong), 0);
}

/* --- targets --- */

int helper_session_churn(void)
{
    for (int round = 0; round < 250; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&threads[i], NULL, helper_session_live, NULL))
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
        helper_session_live(NULL);
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            if (!helper_session_number_of(helper_session_own_gs()))
                helper_session_wrong("no gs base after fork", helper_session_own_gs());
            atomic_fetch_add(&helper_session_truth->forks, 1);
            _exit(fork_tree(depth - 1));
        }
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
            return 100;
        sum += WEXITSTATUS(status);
    }
    return sum;
}

int helper_session_deep_tree(void)
{
    return fork_tree(4);
}

int helper_session_beat(void)
{
    while (!atomic_load(&helper_session_truth->done)) {
        atomic_fetch_add(&helper_session_truth->beats, 1);
        helper_session_nap_us(500);
    }
    return 13;
}

bool helper_session_beats(void)
{
    unsigned long long before = atomic_load(&helper_session_truth->beats);
    for (int i = 0; i < 100 && atomic_load(&helper_session_truth->beats) < before + 3; i++)
        helper_session_nap_us(2000);
    return atomic_load(&helper_session_truth->beats) >= before + 3;
}
