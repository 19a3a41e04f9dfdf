/* trace_event.h - what has become of the processes that are followed (helper_trace.h), in the order in which it
 * happened. Context: tool. Source: ptrace(2). */
#ifndef TRACE_EVENT_H
#define TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum trace_event_kind {
    TRACE_EXEC, /* `pid` runs a new image, and is held before its first instruction. Its old memory, threads (a DEATH
                             each came before) and pool are gone; tid = pid, whoever called execve */
    TRACE_FORK, /* `pid` is new and has memory of its own, a copy of `parent`'s; it is held before its first instruction,
                             with its creator's gs. The parent goes on. parent 0: it died in that moment */
    TRACE_VFORK, /* `pid` is new and runs in the memory of `parent`, one thread of which sleeps until an exec or
                             end: not held, it has that thread's gs */
    TRACE_CREATED, /* thread `tid` of `pid` is new, was given `gs` from the pool and runs. pid != parent: a process that
                             shares the memory of `parent` but is no vfork. gs 0: there was none and tally was silent */
    TRACE_NEED, /* the same, but the pool is empty: it and its creator stand until helper_trace_give; BIRTH then
                             follows */
    TRACE_EXITED, /* thread `tid` of `pid` has ended; `gs` is what it had been given last (0: nothing). It can count no more */
    TRACE_END,    /* process `pid` is gone, `status` as of wait. Its threads' DEATHs came before */
    TRACE_ENDING, /* where it was asked for: the first thread of `pid` stands in its exit; what the process's memory holds can be
                             read until helper_trace_let_end, or for 200 ms. Not told of one that is loose or being left */
    TRACE_FOUND, /* thread `tid` of `pid` was born unseen (CLONE_UNTRACED) and found by a hold, which holds it. Its gs may be
                             another thread's until helper_trace_set_gs */
};

#define TRACE_FLAG_PRIVILEGES_LOST    1u /* EXEC: proc_privileges_of */
#define TRACE_FLAG_PRIVILEGES_UNKNOWN 4u /* likewise */
/* helper_trace_detach_children. FORK: it is to be left, and its creator stands until it is. VFORK: it has been
 * let go, and no event tells of it any more. */
#define TRACE_FLAG_DETACHED 2u

struct trace_event {
    uint32_t kind; /* enum trace_event_kind */
    pid_t pid, tid;
    pid_t parent; /* FORK, VFORK, BIRTH, NEED: the process whose thread made it */
    uint64_t gs;
    uint64_t flags;
    int32_t status;
    uint32_t zero;
};

/* In a pool of gs bases: from now on a new thread keeps the one that it was created with. */
#define TRACE_GS_KEEP UINT64_MAX

/* What following has cost. */
struct trace_cost {
    uint64_t signals;                 /* that stopped a thread on their way */
    uint64_t creations, forks, execs; /* forks: vforks too */
    uint64_t stopped_ns;              /* held as a whole; waiting for tally included */
    uint64_t followed_ns;             /* of each process, from its follow or birth on */
    uint64_t detached_ns;             /* of these, not traced */
    uint64_t detachments;             /* how often */
};

/* After an exec: has the program lost its privileges because it is traced, or may it have? */
static inline bool trace_event_lost_privileges(const struct trace_event *event)
{
    return event->kind == TRACE_EXEC &&
           event->flags & (TRACE_FLAG_PRIVILEGES_LOST | TRACE_FLAG_PRIVILEGES_UNKNOWN);
}

#endif
