#include "trace_detach.h"

#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "proc_target.h"
#include "trace_frames.h"

/* A return address lies behind a call, never at a range's first byte: a word with that value is a pointer to
 * the function, such as the program's entry leaves on the stack. */
static bool returns_to(const struct trace_step_range *ranges, size_t count, uint64_t word)
{
    return trace_step_is_within(ranges, count, word) && trace_step_is_within(ranges, count, word - 1);
}

static int check_thread(const struct trace_stop_thread *thread, const struct trace_step_range *ranges,
                        size_t count, uint64_t *words, size_t size, struct base_error *error)
{
    const uint32_t finished = TRACE_FOLLOW_KNOWN | TRACE_FOLLOW_FORKED;
    if (thread->state != TRACE_STOP_STOPPED)
        return base_fail(error, BASE_EBUSY, "thread %d sleeps inside the kernel", thread->tid);
    if (thread->life & ~finished)
        return base_fail(error, BASE_EBUSY, "thread %d is not ready", thread->tid);
    if (trace_step_is_within(ranges, count, thread->pc))
        return base_fail(error, BASE_EBUSY, "thread %d is about to create a thread or a process",
                         thread->tid);
    size_t held = proc_target_stack(thread->process, thread->sp, words, size);
    for (size_t i = 0; i < held; i++)
        if (returns_to(ranges, count, words[i]))
            return base_fail(error, BASE_EBUSY,
                             "thread %d returns into code that creates threads or processes", thread->tid);
    if (held == 0)
        return base_fail(error, BASE_EBUSY, "the stack of thread %d cannot be read", thread->tid);
    return BASE_OK;
}

int trace_detach_check(const struct trace_follow_space *space, const struct trace_step_range *ranges,
                       size_t count, struct base_error *error)
{
    size_t size = trace_frames_size(space->stop.count);
    uint64_t *words = malloc(size);
    int result = words ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < space->stop.count && result == BASE_OK; i++)
        if (space->stop.threads[i].state != TRACE_STOP_GONE)
            result = check_thread(&space->stop.threads[i], ranges, count, words, size, error);
    free(words);
    return result;
}

static bool has_capability(void)
{
    struct proc_target_credentials own = {0};
    proc_target_credentials(getpid(), &own);
    return (own.effective >> CAP_SYS_PTRACE & 1) != 0;
}

static bool yama_forbids(void)
{
    int scope = 0;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    bool known = file && fscanf(file, "%d", &scope) == 1;
    if (file)
        fclose(file);
    return known && scope > 0;
}

bool trace_detach_may_reattach(pid_t pid)
{
    char path[64];
    struct stat status;
    if (has_capability())
        return true;
    snprintf(path, sizeof path, "/proc/%d", pid);
    return !yama_forbids() && !stat(path, &status) &&
           status.st_uid == geteuid(); /* owned by root: the process is not dumpable */
}
