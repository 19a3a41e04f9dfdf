#include "probe_filter.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "proc_target.h"
#include "wire_agent_call.h"

enum {
    GET_TSC = 25, /* PR_GET_TSC, and what it returns */
    TSC_FORBIDDEN = 2,
    GET_FS = 0x1003,
    FUTEX_WAIT = 0,
    FUTEX_WAKE = 1,
    FUTEX_WAIT_OWN = 128,
    NO_SIGNAL = 65,
    ADD_MASK = 0,
    SET_MASK = 2,
    SET_SIZE = 8,
    PAGE = 4096,
    MONOTONIC = 1,
};

/* By number of the call. */
static const char *const call_names[] = {
#define X(name, text) text,
    WIRE_AGENT_CALLS(X)
#undef X
};

/* --- what there is --- */

enum filters { NO_FILTER, ONE_SET, SEVERAL_SETS };

static enum filters filters_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *all = opendir(path);
    const struct dirent *entry;
    struct proc_target_facts first = {.seccomp = -1}, facts;
    bool same = true;
    while (all && (entry = readdir(all))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || proc_target_facts(pid, tid, &facts) < 0)
            continue;
        if (first.seccomp < 0)
            first = facts;
        same = same && facts.seccomp == first.seccomp && facts.filters == first.filters;
    }
    if (all)
        closedir(all);
    return !same ? SEVERAL_SETS : first.seccomp == PROC_TARGET_NO_SECCOMP ? NO_FILTER : ONE_SET;
}

/* --- trying --- */

/* Refused before it was made, or answered as a filter does. */
static bool is_forbidden(struct loader_agent *agent, struct helper_trace_call call)
{
    return loader_call(agent, &call, 1, NULL) < 0 || helper_trace_is_refused(&call);
}

static uint32_t forbidden_calls(struct loader_agent *agent)
{
    const uint64_t control = loader_region(agent);
    const uint64_t scratch = control + offsetof(struct wire_agent_control, found);
    const struct {
        uint64_t call, number, arguments[4];
    } calls[] = {
        {WIRE_AGENT_CALL_GETTID, SYS_gettid, {0}},
        {WIRE_AGENT_CALL_GETPID, SYS_getpid, {0}},
        {WIRE_AGENT_CALL_FUTEX, SYS_futex, {control, FUTEX_WAIT, 1}}, /* its magic is not 1 */
        {WIRE_AGENT_CALL_FUTEX, SYS_futex, {control, FUTEX_WAIT_OWN, 1}},
        {WIRE_AGENT_CALL_FUTEX, SYS_futex, {control, FUTEX_WAKE, INT32_MAX}},
        {WIRE_AGENT_CALL_CLOCK, SYS_clock_gettime, {MONOTONIC, scratch}},
        {WIRE_AGENT_CALL_MASK, SYS_rt_sigprocmask, {UINT32_MAX, control, 0, SET_SIZE}},
        {WIRE_AGENT_CALL_MASK, SYS_rt_sigprocmask, {ADD_MASK, 0, scratch, SET_SIZE}},
        {WIRE_AGENT_CALL_MASK, SYS_rt_sigprocmask, {SET_MASK, 0, scratch, SET_SIZE}},
        {WIRE_AGENT_CALL_ACTION, SYS_rt_sigaction, {NO_SIGNAL, control, 0, SET_SIZE}},
        {WIRE_AGENT_CALL_ARCH_PRCTL, SYS_arch_prctl, {GET_FS, scratch}},
        {WIRE_AGENT_CALL_PRCTL, SYS_prctl, {GET_TSC, scratch}},
        {WIRE_AGENT_CALL_PENDING, SYS_rt_sigpending, {scratch, SET_SIZE}},
        {WIRE_AGENT_CALL_GROW, SYS_mremap, {control, PAGE, PAGE}}, /* as it is */
        {WIRE_AGENT_CALL_SHOW, SYS_munmap, {0, PAGE}},             /* nothing is there */
        {WIRE_AGENT_CALL_SHOW, SYS_remap_file_pages, {0, PAGE}},
        {WIRE_AGENT_CALL_SHOW, SYS_madvise, {control, PAGE, MADV_DONTDUMP}},         /* as it is */
        {WIRE_AGENT_CALL_COMMIT, SYS_madvise, {control, PAGE, MADV_POPULATE_WRITE}}, /* is made */
    };
    uint32_t forbidden = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct helper_trace_call call = {.number = calls[i].number};
        memcpy(call.arguments, calls[i].arguments, sizeof calls[i].arguments);
        snprintf(call.name, sizeof call.name, "%s", call_names[__builtin_ctzll(calls[i].call)]);
        if (is_forbidden(agent, call))
            forbidden |= (uint32_t)calls[i].call;
    }
    return forbidden;
}

/* Of the thread that makes the calls; the others are asked by the agent. */
static bool is_clock_forbidden(const struct shared_file *file, struct loader_agent *agent)
{
    struct wire_agent_control *control = shared_file_control(file);
    control->found.handler = 0;
    const uint64_t found = loader_region(agent) + offsetof(struct wire_agent_control, found);
    bool failed = is_forbidden(
        agent,
        (struct helper_trace_call){.name = "prctl", .number = SYS_prctl, .arguments = {GET_TSC, found}});
    return !failed && (uint32_t)control->found.handler == TSC_FORBIDDEN;
}

uint32_t probe_filter_try(struct shared_file *file, struct loader_agent *agent, bool ticks)
{
    struct wire_agent_process *process = shared_file_process(file, 0);
    enum filters filters = filters_of(loader_pid(agent));
    uint32_t calls = filters == NO_FILTER ? 0
                     : filters == ONE_SET ? forbidden_calls(agent)
                                          : WIRE_AGENT_CALLS_ALL & ~(uint32_t)WIRE_AGENT_CALL_TICKS;
    if (!file->committed)
        calls &= ~(uint32_t)WIRE_AGENT_CALL_COMMIT;
    process->losses[WIRE_AGENT_LOSS_FORBIDDEN] += (uint64_t)__builtin_popcount(calls);
    if (ticks && !(calls & WIRE_AGENT_CALL_PRCTL) && is_clock_forbidden(file, agent))
        calls |= WIRE_AGENT_CALL_TICKS;
    process->forbidden = calls;
    return calls;
}

/* --- publication --- */

bool probe_filter_publish(const struct wire_agent_process *process, pid_t pid, struct base_error *why)
{
    uint32_t forbidden = __atomic_load_n(&process->forbidden, __ATOMIC_RELAXED);
    char names[160] = "";
    for (size_t i = 0, used = 0; i < WIRE_AGENT_CALL_COUNT && used < sizeof names; i++)
        if (forbidden >> i & 1)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", call_names[i]);
    if (forbidden)
        base_fail(why, BASE_EPERMISSION, "process %d forbids itself %s", (int)pid, names);
    return forbidden != 0;
}
