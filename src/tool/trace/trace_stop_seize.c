/* Seizing: which threads there are, by /proc/PID/task, until a reading shows no new one. Without a follower,
 * vfork children that run in the same memory are seized too. */
#include "trace_stop_inside.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "proc_target.h"
#include "trace_x86_64_call.h"

#define OPTIONS PTRACE_O_TRACESYSGOOD
#define FOLLOWING                                                                                            \
    (OPTIONS | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC)
#define LISTS 20 /* readings of one process's list, when they break off */

static int options_of(const struct trace_stop *stop, pid_t process, pid_t tid)
{
    if (!stop->follower)
        return OPTIONS;
    return FOLLOWING | (process == tid ? stop->follower->first_options : 0);
}

void trace_stop_set_options(const struct trace_stop *stop, const struct trace_stop_thread *thread)
{
    if (stop->follower && stop->follower->first_options)
        ptrace(PTRACE_SETOPTIONS, thread->tid, 0, options_of(stop, thread->process, thread->tid));
}

bool trace_stop_is_ending(pid_t process, pid_t tid, struct proc_target_facts *facts)
{
    return proc_target_facts(process, tid, facts) < 0 || facts->state == 'Z' || facts->state == 'X';
}

/* 1: seized, 0: it is ending. */
static int seize_thread(struct trace_stop *stop, pid_t process, pid_t tid, struct base_error *error)
{
    if (trace_stop_insert(stop, process, tid) < 0)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (!ptrace(PTRACE_SEIZE, tid, 0, options_of(stop, process, tid)))
        return 1;
    int number = errno;
    struct proc_target_facts facts;
    trace_stop_forget(stop, tid);
    if (trace_stop_is_ending(process, tid, &facts))
        return 0;
    if (!stop->follower || facts.tracer != getpid())
        return proc_target_explain(process, number, error);
    int result = stop->follower->on_found(stop->follower->context, stop, process, tid);
    return result < 0 ? base_fail(error, result, "out of memory") : result;
}

int trace_stop_reseize(struct trace_stop *stop, struct trace_stop_thread *thread, struct base_error *error)
{
    struct proc_target_facts facts;
    thread->state = TRACE_STOP_GONE;
    if (proc_target_facts(thread->process, thread->tid, &facts) < 0)
        return 0;
    int options = options_of(stop, thread->process, thread->tid);
    int result = ptrace(PTRACE_SEIZE, thread->tid, 0, options) ? errno : 0;
    if (result && trace_stop_is_ending(thread->process, thread->tid, &facts))
        return 0;
    thread->state = result ? TRACE_STOP_DETACHED : TRACE_STOP_RUNNING;
    thread->interrupted = false;
    return result ? proc_target_explain(stop->pid, result, error) : 1;
}

/* One reading of the threads of `process`; `listed`: how many there were. */
static int seize_listed(struct trace_stop *stop, pid_t process, long *listed, struct base_error *error)
{
    char path[64];
    int seized = 0;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *directory = opendir(path);
    *listed = 0;
    if (!directory)
        return process == stop->pid ? base_fail(error, BASE_ENOTFOUND, "process %d is gone", process) : 0;
    errno = 0;
    for (struct dirent *entry; (entry = readdir(directory)); errno = 0) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        *listed += tid > 0;
        if (tid <= 0 || trace_stop_find(stop, tid))
            continue;
        int result = seize_thread(stop, process, tid, error);
        if (result < 0) {
            closedir(directory);
            return result;
        }
        seized += result;
    }
    if (base_error_is_refusal(errno))
        seized = base_fail_errno(error, errno, "%s cannot be read", path);
    closedir(directory);
    return seized;
}

/* Seizes threads of `process` that are not known yet, until there are none. Returns how many, or an error.
 * The kernel breaks a list off (proc_task_readdir) where a thread ends that is just being listed: a list that
 * has no new thread and is shorter than the count of threads is read again. */
static int seize_found(struct trace_stop *stop, pid_t process, struct base_error *error)
{
    struct proc_target_facts facts;
    long listed;
    for (int i = 0; i < LISTS; i++) {
        int seized = seize_listed(stop, process, &listed, error);
        if (seized != 0 || proc_target_facts(process, process, &facts) < 0 || listed >= facts.threads)
            return seized;
    }
    return 0;
}

/* Children of one sleeping thread. Kernels without CONFIG_PROC_CHILDREN do not list them: then a vfork child
 * runs on. */
static int seize_children(struct trace_stop *stop, const struct trace_stop_thread *parent,
                          struct base_error *error)
{
    char path[96];
    int child, seized = 0;
    pid_t process = parent->process; /* the table may move, and the thread with it */
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", process, parent->tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (seized >= 0 && fscanf(file, "%d", &child) == 1) {
        if (!proc_target_shares_memory(process, child))
            continue;
        int result = seize_found(stop, child, error);
        seized = result < 0 ? result : seized + result;
    }
    fclose(file);
    return seized;
}

static bool waits_for_child(const struct trace_stop_thread *thread)
{
    struct proc_target_call call;
    return thread->state == TRACE_STOP_KERNEL && (proc_target_call(thread->process, thread->tid, &call) < 0 ||
                                                  trace_x86_64_call_is_vfork(call.number));
}

static int seize_vforked(struct trace_stop *stop, struct base_error *error)
{
    int seized = 0;
    for (size_t i = 0; i < stop->count && seized >= 0; i++) {
        struct trace_stop_thread parent = stop->threads[i];
        if (!waits_for_child(&parent))
            continue;
        int result = seize_children(stop, &parent, error);
        seized = result < 0 ? result : seized + result;
        i = trace_stop_index(stop, parent.tid); /* the table may have grown: its index now */
    }
    return seized;
}

static bool is_first_of_process(const struct trace_stop *stop, size_t at)
{
    for (size_t i = at; i-- > 0;)
        if (stop->threads[i].process == stop->threads[at].process)
            return false;
    return true;
}

/* With a follower the threads may be of several processes; their vfork children are known. */
static int seize_of_all_processes(struct trace_stop *stop, struct base_error *error)
{
    int seized = 0;
    for (size_t i = 0; i < stop->count; i++) {
        struct trace_stop_thread thread = stop->threads[i];
        if (!is_first_of_process(stop, i))
            continue;
        int result = seize_found(stop, thread.process, error);
        if (result < 0)
            return result;
        seized += result;
        i = trace_stop_index(stop, thread.tid);
    }
    return seized;
}

int trace_stop_seize_new(struct trace_stop *stop, struct base_error *error)
{
    if (stop->follower)
        return seize_of_all_processes(stop, error);
    int others = seize_found(stop, stop->pid, error);
    int children = others < 0 ? 0 : seize_vforked(stop, error);
    return others < 0 ? others : children < 0 ? children : others + children;
}

int trace_stop_follow(struct trace_stop *stop, pid_t pid, struct base_error *error)
{
    int seized, all = 0;
    while ((seized = seize_found(stop, pid, error)) > 0)
        all += seized;
    return seized < 0 ? seized : all;
}
