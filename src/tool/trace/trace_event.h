/* trace_event.h - what has become of the processes that are followed (helper_trace.h), in the order in which
 * it happened. Context: tool. Source: ptrace(2). */
#ifndef TRACE_EVENT_H
#define TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum trace_event_kind {
    /* `pid` runs a new image, and is held before its first instruction. Its old memory, threads (an EXITED
     * for each came before) and pool are gone; tid = pid, whichever thread called execve. */
    TRACE_EXEC,
    /* `pid` is new and has memory of its own, a copy of `parent`'s; it is held before its first instruction,
     * with its creator's gs. The parent goes on. parent 0: it ended at that moment. */
    TRACE_FORK,
    /* `pid` is new and runs in the memory of `parent`, one thread of which sleeps until an exec or end: it is
     * not held, and has that thread's gs. */
    TRACE_VFORK,
    /* Thread `tid` of `pid` is new, was given `gs` from the pool and runs. pid != parent: a process that
     * shares the memory of `parent` but is no vfork child. gs 0: there was none and tally was silent. */
    TRACE_CREATED,
    /* The same, but the pool is empty: it and its creator stay stopped until helper_trace_give; CREATED
     * follows then. */
    TRACE_NEED,
    /* Thread `tid` of `pid` has ended; `gs` is what it had been given last (0: nothing). It can count no
     * more. */
    TRACE_EXITED,
    /* Process `pid` has ended, `status` as of wait. An EXITED for each thread came before. */
    TRACE_END,
    /* After helper_trace_report_endings: the first thread of `pid` is stopped in its exit; the process's
     * memory can be read until helper_trace_let_end, or for 200 ms. Not reported of a process that is
     * detached or being left. */
    TRACE_ENDING,
    /* Thread `tid` of `pid` was created unseen (CLONE_UNTRACED) and found by a hold, which holds it. Its gs
     * may be another thread's until helper_trace_set_gs. */
    TRACE_FOUND,
};

#define TRACE_FLAG_PRIVILEGES_LOST    1u /* EXEC: proc_privileges_of */
#define TRACE_FLAG_PRIVILEGES_UNKNOWN 4u /* likewise */
/* helper_trace_detach_children. FORK: the child is to be left, and its creator stays stopped until it is.
 * VFORK: the child is detached, and no further event reports it. */
#define TRACE_FLAG_DETACHED 2u

struct trace_event {
    uint32_t kind; /* enum trace_event_kind */
    pid_t pid, tid;
    pid_t parent; /* FORK, VFORK, CREATED, NEED: the process whose thread created it */
    uint64_t gs;
    uint64_t flags;
    int32_t status;
    uint32_t zero;
};

/* In a pool of gs bases: from now on a new thread keeps the gs base that it was created with. */
#define TRACE_GS_KEEP UINT64_MAX

/* What following has cost. */
struct trace_cost {
    uint64_t signals;                 /* that stopped a thread before their delivery */
    uint64_t creations, forks, execs; /* forks: vforks too */
    uint64_t stopped_ns;              /* held as a whole; waiting for tally included */
    uint64_t followed_ns;             /* of each process, since it was followed or created */
    uint64_t detached_ns;             /* of these, while detached */
    uint64_t detachments;             /* how often a process was detached */
};

/* After an exec: has the program lost its privileges because it is traced, or may it have? */
static inline bool trace_event_lost_privileges(const struct trace_event *event)
{
    return event->kind == TRACE_EXEC &&
           event->flags & (TRACE_FLAG_PRIVILEGES_LOST | TRACE_FLAG_PRIVILEGES_UNKNOWN);
}

#endif
