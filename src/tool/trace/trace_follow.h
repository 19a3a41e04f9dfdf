/* trace_follow.h - the helper's side of following (helper_trace.h): which threads live, in which address
 * space, with which gs base.
 *
 * A *space* is an address space and all threads in it, of one process or of several (vfork, CLONE_VM): it is
 * what is held, written and given gs bases to. It is built around a trace_stop, the engine that stops
 * threads; this is its follower. *Held*: all its threads are stopped for tally.
 *
 * Creation. The kernel reports a new task twice, in either order: its creator stops (PTRACE_EVENT_CLONE ...:
 * *announced*) and goes on at once, and the task itself traps before its first instruction. A task that traps
 * unannounced waits as an *orphan*. Only when both have come it counts as *created*: it is given its gs base,
 * or held. A creator that is killed announces nothing: after ORPHAN_NS /proc says whose child the orphan is.
 * A child that is killed may have ended before it is announced. The thread that forked stays stopped until
 * the child has trapped: what it does next is reported after the child, which is a copy of the memory as it
 * was.
 *
 * Execs. All other threads have ended and were waited for before the kernel reports an exec, under the number
 * of the process; the calling thread has lost its own. The process moves to a new space, is continued into
 * the trap, and is stopped there with nothing of execve left to finish, so that calls can be injected.
 *
 * Leaving. Only a thread in the trap can be detached: the threads of a process that is left are interrupted
 * and marked, and each is detached at its next trap.
 *
 * Detached children. Each process can have one tracer, so the children of a tracer are detached from ours. A
 * vfork child that is detached runs in a followed space for a short time: it is waited for before that space
 * is held.
 *
 * Detached spaces. A space with one process can be detached for a while: its threads are detached, and kept
 * in the tables with their gs. A pidfd reports the process's end. Any hold reattaches the threads first. The
 * caller ensures that no thread or process is created meanwhile (plan_creation.h); a thread that was is
 * reported by the next hold as TRACE_FOUND.
 *
 * Context: helper, one thread. Events gather in `events`; the owner takes them. `broken`: memory ran out, the
 * owner must end. */
#ifndef TRACE_FOLLOW_H
#define TRACE_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "trace_event.h"
#include "trace_memory.h"
#include "trace_stage.h"
#include "trace_step.h"
#include "trace_stop.h"

/* Marks of a thread, trace_stop_thread.life. Those that keep it stopped: NEW, NEEDS, WAITS, FORKS. */
enum trace_follow_life {
    TRACE_FOLLOW_KNOWN = 1,           /* seized on purpose, or created; without it: found by a stop */
    TRACE_FOLLOW_NEW = 2,             /* its first trap has not been answered */
    TRACE_FOLLOW_UNANNOUNCED = 4,     /* its creator has not announced it */
    TRACE_FOLLOW_VFORKED = 8,         /* uses its sleeping creator's gs */
    TRACE_FOLLOW_NEEDS = 16,          /* stopped: the pool was empty */
    TRACE_FOLLOW_WAITS = 32,          /* stopped, or about to: it created one that NEEDS */
    TRACE_FOLLOW_EXECED = 64,         /* on its way from PTRACE_EVENT_EXEC to the trap */
    TRACE_FOLLOW_SET_GS = 128,        /* its gs is written at the next trap */
    TRACE_FOLLOW_LEAVING = 256,       /* is detached at the next trap */
    TRACE_FOLLOW_FORKED = 512,        /* first of a new process with memory of its own */
    TRACE_FOLLOW_FORKS = 1024,        /* stopped, or about to, until its fork child has trapped */
    TRACE_FOLLOW_KEEPS_FORKER = 2048, /* of that child: its creator FORKS until the child is detached */
};

struct trace_follow_space {
    struct trace_stop stop;     /* first: the follower gets it */
    struct trace_memory memory; /* open while held */
    struct trace_staged staged;
    uint64_t *pool; /* gs bases, the next one at `pool_first` */
    size_t pool_first, pool_count, pool_capacity;
    uint64_t exit_write, exit_value; /* address 0: none */
    uint64_t held_since, need_since; /* monotonic ns; need_since 0: none needs */
    bool timed_out;                  /* resumed because no request came */
    bool detached;
    int detached_file;       /* a pidfd while detached */
    uint64_t detached_image; /* distinguishes one image of the process from another; 0: not known */
    uint64_t detached_since; /* monotonic ns */
};

struct trace_follow_process {
    pid_t pid, parent;
    bool leaving;           /* no event reports it */
    bool detaches_children; /* its children are detached at creation */
    struct trace_follow_space *space;
    uint64_t since; /* monotonic ns */
    /* When its first thread was stopped in its exit, for tally to look at the memory; 0: it is not. Monotonic
     * ns. */
    uint64_t ending_since;
    struct trace_cost cost;
};

struct trace_follow_orphan {
    pid_t tid;
    int status;
    uint64_t since;
};

struct trace_follow {
    struct trace_stop_follower follower;
    struct trace_follow_space **spaces;
    size_t space_count, space_capacity;
    struct trace_follow_process *processes;
    size_t process_count, process_capacity;
    struct trace_follow_orphan *orphans;
    size_t orphan_count, orphan_capacity;
    struct trace_event *events;
    size_t event_count, event_capacity;
    pid_t expected; /* the last thread whose creation was announced; it may have trapped since, or ended */
    bool urgent;    /* there is an event that should not wait */
    struct trace_cost total;
    int ends; /* epoll: the pidfds of detached processes; -1: there is none */
    bool broken;
};

/* `follow` must not move afterwards. */
void trace_follow_begin(struct trace_follow *follow);

/* Writes the values of exit_write, detaches all stopped threads, and frees everything. Running threads are
 * detached by the kernel when the calling thread ends, which must be soon. */
void trace_follow_end(struct trace_follow *follow);

/* trace_stop_awaits, of all. */
bool trace_follow_awaits(const struct trace_follow *follow);

/* Handles what waitpid(-1) reported. BASE_ENOTFOUND: the thread is in no space; it is kept as an orphan if it
 * is stopped. */
int trace_follow_handle_status(struct trace_follow *follow, pid_t tid, int status);

/* Handles timeouts; to be called when waitpid had nothing more. `deadline`: what waits for tally since before
 * that time goes on; *ended becomes true when something did. Returns whether there is anything to wait for
 * but signals. */
bool trace_follow_poll(struct trace_follow *follow, uint64_t deadline, bool *ended);

int trace_follow_add(struct trace_follow *follow, pid_t pid, struct base_error *error);
/* Returns how many threads linger. */
size_t trace_follow_leave(struct trace_follow *follow, pid_t pid);

struct trace_follow_process *trace_follow_process(const struct trace_follow *follow, pid_t pid);

int trace_follow_hold(struct trace_follow *follow, struct trace_follow_space *space,
                      struct base_error *error);
void trace_follow_release(struct trace_follow *follow, struct trace_follow_space *space);

/* Holds the space and detaches it, unless a thread is in `ranges`, or returns there: BASE_EBUSY, and it runs
 * on, traced. */
int trace_follow_detach(struct trace_follow *follow, struct trace_follow_space *space,
                        const struct trace_step_range *ranges, size_t count, struct base_error *error);
/* Seizes its threads again, without stopping them. BASE_ENOTFOUND: it has ended, or runs another image; the
 * events say so. */
int trace_follow_reattach(struct trace_follow *follow, struct trace_follow_space *space,
                          struct base_error *error);
/* Reports detached processes that have ended. To be called when `ends` is readable. */
void trace_follow_poll_ends(struct trace_follow *follow);

/* From now on the ends of first threads are reported before they happen (TRACE_ENDING). */
void trace_follow_report_endings(struct trace_follow *follow);
void trace_follow_let_end(struct trace_follow_process *process);

/* Children of its present image are detached before their first instruction: those with memory of their own
 * by the owner, while their creator is stopped, and vfork's at once. */
void trace_follow_detach_children(struct trace_follow_process *process);

/* Of a process, or, with pid 0, of all that are and were followed. False: the process is not followed. */
bool trace_follow_cost(const struct trace_follow *follow, pid_t pid, struct trace_cost *cost);

int trace_follow_give(struct trace_follow *follow, struct trace_follow_space *space, const uint64_t *gs,
                      size_t count, struct base_error *error);
int trace_follow_set_gs(struct trace_follow *follow, pid_t tid, uint64_t gs, struct base_error *error);
/* The space is held. On failure some threads keep theirs. */
int trace_follow_clear_gs(struct trace_follow_space *space, uint64_t offset,
                          const struct trace_step_range *ranges, size_t count, struct base_error *error);

/* space->memory, if it is not open yet; it is closed when the space goes on. */
int trace_follow_open_memory(struct trace_follow_space *space, struct base_error *error);

/* Closes and frees what a space has, but not the space. */
void trace_follow_space_free(struct trace_follow_space *space);

/* A living thread of the process, or 0. */
pid_t trace_follow_living(const struct trace_follow_space *space);

#endif
