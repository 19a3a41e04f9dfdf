#include "trace_seccomp.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_clock.h"
#include "base_wait.h"
#include "filter.h"
#include "proc_target.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#define MOST_FILTERS   1024u
#define MOST_ANCESTORS 64
#define PROBE_REST_NS  100000
#define PROBE_NS       500000000u   /* a call that sleeps for longer is left to another process */
#define PROBE_MOST_NS  10000000000u /* of a child that gets no processor */

void trace_seccomp_free(struct trace_seccomp *seccomp)
{
    for (size_t i = 0; i < seccomp->count; i++)
        free(seccomp->filters[i].items);
    free(seccomp->filters);
    *seccomp = (struct trace_seccomp){0};
}

/* --- the filters --- */

static long get_filter(pid_t tid, size_t index, struct sock_filter *items)
{
    return ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, tid, (void *)(uintptr_t)index, items);
}

/* 1: one was read; 0: there is no more. */
static int load_one(struct trace_seccomp *seccomp, pid_t tid, struct base_error *error)
{
    long count = get_filter(tid, seccomp->count, NULL);
    if (count < 0 && errno == ENOENT)
        return 0;
    if (count <= 0)
        return base_fail(
            error, BASE_EPERMISSION,
            "the process has a seccomp filter that tally is not allowed to read (%s), so that it cannot know "
            "whether the filter kills a process that maps memory; run tally as root outside of any container",
            strerror(errno));
    struct sock_filter *items = calloc((size_t)count, sizeof *items);
    if (!items)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (get_filter(tid, seccomp->count, items) != count) {
        free(items);
        return base_fail(error, BASE_EPERMISSION, "the process's seccomp filter cannot be read");
    }
    seccomp->filters[seccomp->count++] = (struct trace_seccomp_filter){items, (size_t)count};
    return 1;
}

static int filters_of(pid_t pid, pid_t tid)
{
    struct proc_target_facts facts;
    return proc_target_facts(pid, tid, &facts) == BASE_OK ? facts.filters : -1;
}

/* Was the process started by us, or by tally, whose helper we are? */
static bool descends_from_us(pid_t pid)
{
    struct proc_target_facts facts;
    const pid_t tally = proc_target_own_parent();
    for (int i = 0; i < MOST_ANCESTORS && pid > 1; i++, pid = facts.parent) {
        if (pid == getpid() || pid == tally)
            return true;
        if (proc_target_facts(pid, pid, &facts) < 0)
            return false;
    }
    return false;
}

static bool has_our_filters(pid_t process, pid_t tid)
{
    int ours = filters_of(getpid(), getpid());
    return ours > 0 && filters_of(process, tid) == ours &&
           (descends_from_us(process) || filters_of(1, 1) == ours);
}

int trace_seccomp_load(struct trace_seccomp *seccomp, pid_t process, pid_t tid, int mode,
                       struct base_error *error)
{
    *seccomp = (struct trace_seccomp){0};
    if (mode == PROC_TARGET_NO_SECCOMP)
        return BASE_OK;
    if (mode != PROC_TARGET_FILTERED)
        return base_fail(error, BASE_EPERMISSION,
                         "the process is in strict seccomp mode, in which any mapping of memory kills it");
    seccomp->same_as_ours = has_our_filters(process, tid);
    if (seccomp->same_as_ours)
        return BASE_OK;
    seccomp->filters = calloc(MOST_FILTERS, sizeof *seccomp->filters);
    if (!seccomp->filters)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = 1;
    while (result > 0 && seccomp->count < MOST_FILTERS)
        result = load_one(seccomp, tid, error);
    return result;
}

/* --- checking a call --- */

static const char *action_text(uint32_t action)
{
    switch (action) {
    case SECCOMP_RET_ERRNO:
        return "answers it with an error";
    case SECCOMP_RET_TRAP:
        return "answers it with SIGSYS";
    case SECCOMP_RET_TRACE:
    case SECCOMP_RET_USER_NOTIF:
        return "leaves it to another process";
    default:
        return "kills the process for it";
    }
}

static bool is_asleep(pid_t child)
{
    struct proc_target_facts facts;
    return proc_target_facts(child, child, &facts) == BASE_OK && (facts.state == 'S' || facts.state == 'D');
}

/* A child makes the call, in memory of its own that it may damage. Only its end by SIGSYS says that the
 * filter kills. */
static bool call_is_killed(const struct seccomp_data *data)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        syscall(data->nr, data->args[0], data->args[1], data->args[2], data->args[3], data->args[4],
                data->args[5]);
        _exit(0);
    }
    if (child < 0)
        return true;
    const uint64_t began = base_clock_now();
    for (uint64_t passed = 0; passed < PROBE_MOST_NS; passed = base_clock_now() - began) {
        if (base_wait(child, &status, WNOHANG) == child)
            return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
        if (passed > PROBE_NS && is_asleep(child))
            break;
        base_clock_sleep(PROBE_REST_NS);
    }
    kill(child, SIGKILL); /* the filter leaves the call to another process, which does not answer */
    base_wait(child, NULL, 0);
    return true;
}

int trace_seccomp_check(const struct trace_seccomp *seccomp, const struct seccomp_data *data,
                        const char *name, struct base_error *error)
{
    if (seccomp->same_as_ours && call_is_killed(data))
        return base_fail(
            error, BASE_EPERMISSION,
            "the seccomp filter of tally and of the process forbids %s, which counting calls needs; nothing "
            "was changed; let the filter of the container allow it",
            name);
    for (size_t i = 0; i < seccomp->count; i++) {
        uint32_t answer = filter_run(seccomp->filters[i].items, seccomp->filters[i].count, data);
        if (!filter_allows(answer))
            return base_fail(
                error, BASE_EPERMISSION,
                "the process's seccomp filter forbids %s (it %s), which counting calls needs; nothing was "
                "changed; run the program without the filter, or let the filter allow it",
                name, action_text(answer & SECCOMP_RET_ACTION_FULL));
    }
    return BASE_OK;
}
