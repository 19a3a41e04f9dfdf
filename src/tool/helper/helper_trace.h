/* helper_trace.h - processes followed for as long as a recording lasts: creations of threads and processes,
 * execs and ends, as they happen.
 *
 * The helper (helper.h) stays the tracer of every followed process. Nearly everything is handled at once,
 * without tally: signals are passed on, a stop by job control stays one, a new thread gets a gs base of its
 * own from a pool that was filled before (helper_trace_give) and goes on. What happened is reported to tally
 * by *events*, in order, and few of them wait for it: a new image (EXEC), a new process (FORK), an empty pool
 * (NEED), an end (ENDING). Creations and ends of threads are reported some milliseconds late, many at once.
 *
 *   helper_trace_follow                         from now on
 *   helper_trace_leave                          no longer
 *   helper_trace_next                           the next event; poll helper->socket before
 *   helper_trace_hold .. helper_trace_release   around the requests that need a stopped process
 *
 * Processes that share their memory (vfork, CLONE_VM) are handled as one: a hold stops all of them, and pool,
 * staged changes and the value of helper_trace_write_at_exit belong to the memory; each of their numbers
 * names it.
 *
 * Timeouts: while tally is silent (helper_silence.h: at once when it is stopped, else after half a second or
 * some), whatever is held or waits goes on, still followed; requests that need it held are refused with
 * BASE_EBUSY from then on (a caller that needs longer sends some request now and then, such as
 * helper_trace_cost). When tally ends, all processes are detached.
 *
 * Cost: nothing while nothing happens; a signal is a stop of some 45 us for its receiver; figures in
 * helper_trace_cost. Where the caller is notified of creations in another way (plan_creation.h) it can have a
 * process detached until then: helper_trace_detach. What a traced program can notice: TracerPid; a set-uid
 * program loses its privileges under a tracer without CAP_SYS_PTRACE.
 *
 * Every function but next and pending returns BASE_OK or what the helper reported; BASE_EIO: it has ended.
 * BASE_ENOTFOUND: `pid` is not followed (any more: its END or EXEC may be in the queue). Where a request
 * needs a stopped process, `pid` 0 is the one of helper_stop. Context: tool, the thread that began the
 * helper. Source: ptrace(2); kernel/ptrace.c, kernel/fork.c, fs/exec.c (de_thread). */
#ifndef HELPER_TRACE_H
#define HELPER_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base_error.h"
#include "helper.h"
#include "trace_event.h"
#include "trace_inject.h"
#include "trace_memory.h"
#include "trace_stage.h"
#include "trace_step.h"
#include "trace_stop.h"

/* --- following --- */

/* Seizes a process with all its threads, without stopping any; its children and execs are followed too, and
 * so is a vfork child that runs in its memory already (VFORK). A process that is followed already (or is
 * still being left) is accepted. Errors as of trace_stop_begin. */
int helper_trace_follow(struct helper *helper, pid_t pid, struct base_error *error);

/* For a process whose image was not found any more: does it run another one (and did not end)? Waits for the
 * event that says so, a second at most; helper_trace_next returns it then. */
bool helper_trace_runs_another(struct helper *helper, pid_t pid);

/* Detaches the process, held or not; a thread asleep in the kernel is detached when it wakes. Children stay
 * followed, and no further event reports `pid`. */
int helper_trace_leave(struct helper *helper, pid_t pid, struct base_error *error);

/* From now on, and until it runs another image: children of `pid` are detached before their first
 * instruction, and can be traced by it. VFORK and FORK report them (TRACE_FLAG_DETACHED). Processes that
 * share its memory without being vfork's stay followed. While a detached vfork child still runs in its
 * memory, a hold waits for 50 ms and is refused then: BASE_EBUSY. */
int helper_trace_detach_children(struct helper *helper, pid_t pid, struct base_error *error);

/* 1: the next event; 0: none now; BASE_EIO: the helper has ended; BASE_ENOMEM. */
int helper_trace_next(struct helper *helper, struct trace_event *event, struct base_error *error);

/* Are there events that poll does not see, since they came with an answer? */
bool helper_trace_pending(const struct helper *helper);

/* The caller is about to stop: whatever is held or waits goes on at once, and nothing waits for it until its
 * next request. */
int helper_trace_suspend(struct helper *helper, struct base_error *error);

/* --- endings --- */

/* Reports ENDING of processes that are followed or created from now on. */
int helper_trace_report_endings(struct helper *helper, struct base_error *error);
/* After an ENDING: the process goes on to end. */
int helper_trace_let_end(struct helper *helper, pid_t pid, struct base_error *error);

/* --- detached processes --- */

/* Detaches all threads of a process that has its memory for itself, and goes on following it: its threads
 * keep their gs, its end is reported (status 0: not known). It is held for that, and detached only if no
 * thread is in one of the ranges, nor has a word on its stack that points there. BASE_EBUSY: one has, or
 * sleeps in the kernel, or a thread or process is being created; BASE_EPERMISSION: it could not be traced
 * again. The ranges are all code that may create a thread or process without the caller being notified
 * before. If the process is detached already, returns at once. Every hold reattaches the process, and it
 * stays attached until it is detached anew. */
int helper_trace_detach(struct helper *helper, pid_t pid, const struct trace_step_range *ranges, size_t count,
                        struct base_error *error);

/* Of a process that is held: no thread is in one of the ranges, nor has a word on its stack that points
 * there. BASE_EBUSY: one is or has, or may have. */
int helper_trace_clear(struct helper *helper, pid_t pid, const struct trace_step_range *ranges, size_t count,
                       struct base_error *error);

/* Seizes it again without stopping it; threads that ended meanwhile are reported as EXITED. BASE_ENOTFOUND:
 * it has ended, or runs another image, whose exec nobody reported (EXITED and END). Other errors, as of
 * trace_stop_begin: it stays detached. */
int helper_trace_reattach(struct helper *helper, pid_t pid, struct base_error *error);

/* --- gs bases --- */

/* Adds to the pool of the process's memory, first in, first out; threads that NEED a gs base get one. `gs`
 * TRACE_GS_KEEP: what is left in the pool is dropped, and from now on every thread keeps the gs base that it
 * was created with. */
int helper_trace_give(struct helper *helper, pid_t pid, const uint64_t *gs, size_t count,
                      struct base_error *error);

/* Sets it for a stopped thread. For one asleep in the kernel (TRACE_STOP_KERNEL) it is set when it wakes,
 * before it runs an instruction of the program. */
int helper_trace_set_gs(struct helper *helper, pid_t tid, uint64_t gs, struct base_error *error);

/* Of a process that is held: gs becomes 0 in every thread whose gs base plus `offset` lies in one of the
 * ranges, and in no other: a base that the program has set stays. For a thread asleep in the kernel, what it
 * was given last counts. */
int helper_trace_clear_gs(struct helper *helper, pid_t pid, uint64_t offset,
                          const struct trace_step_range *ranges, size_t count, struct base_error *error);

/* --- a stopped process --- */

/* Stops every thread in the process's memory (trace_stop.h). If it is held already, returns at once. `result`
 * may be NULL. BASE_ENOTFOUND too when it ran another image or ended in the meantime: the event is in the
 * queue. A thread that was found only now is reported as FOUND. */
int helper_trace_hold(struct helper *helper, pid_t pid, struct helper_stopped *result,
                      struct base_error *error);
/* Resumes it; but a new process or image whose event was not read yet stays held for who reads it. */
int helper_trace_release(struct helper *helper, pid_t pid, struct helper_stopped *result,
                         struct base_error *error);

/* For a process that is held; several may be at once. */

/* Its threads, with gs (0: nothing given), pc and sp (0: not known). *threads is malloc'ed, the caller frees
 * it. */
int helper_trace_threads(struct helper *helper, pid_t pid, struct trace_stop_thread **threads, size_t *count,
                         struct base_error *error);
int helper_trace_read_registers(struct helper *helper, pid_t pid, pid_t tid,
                                struct user_regs_struct *registers, struct base_error *error);
int helper_trace_write_registers(struct helper *helper, pid_t pid, pid_t tid,
                                 const struct user_regs_struct *registers, struct base_error *error);
int helper_trace_read(struct helper *helper, pid_t pid, uint64_t address, void *bytes, size_t size,
                      struct base_error *error);
int helper_trace_write(struct helper *helper, pid_t pid, uint64_t address, const void *bytes, size_t size,
                       struct base_error *error);
/* Private zeroed memory; *address is where. */
int helper_trace_map(struct helper *helper, pid_t pid, const struct helper_room *room, uint64_t *address,
                     struct base_error *error);
/* Memory shared with tally (trace_inject_share). *file is the caller's. */
int helper_trace_share(struct helper *helper, pid_t pid, const struct helper_room *room, uint64_t *address,
                       int *file, struct base_error *error);
/* A file of which pieces are mapped, readable and writable (trace_inject.h): address, size, name and pieces
 * count. */
int helper_trace_share_pieces(struct helper *helper, pid_t pid, const struct trace_inject_shared *shared,
                              int *file, struct base_error *error);
int helper_trace_unmap(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                       struct base_error *error);
/* Private copies of the pages of a mapped file are dropped, so that the file's pages are shared again. The
 * caller has compared them: what differs is lost. */
int helper_trace_give_back(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                           struct base_error *error);
/* Private memory becomes zeros in children of fork. */
int helper_trace_wipe(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                      struct base_error *error);
/* Hands a list of changes over (trace_memory.h); it replaces the one before. Needs no hold, and makes holds
 * short. */
int helper_trace_stage(struct helper *helper, pid_t pid, const struct trace_memory_change *changes,
                       size_t count, struct base_error *error);
/* The same for a list that was written for this (trace_stage.h): it is sealed, and stays the caller's. */
int helper_trace_stage_list(struct helper *helper, pid_t pid, struct trace_stage *list,
                            struct base_error *error);
/* The staged list, completely or not at all. */
int helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error);
int helper_trace_undo(struct helper *helper, pid_t pid, struct base_error *error);

/* New shared memory exactly at shared->address, in place of what helper_trace_share or _remap mapped there:
 * all of it must show as /memfd:tally in the maps, or BASE_EUSAGE. For a fork child, that shares its parent's
 * until then. It is zeros but for the words, which are there from the first moment: if tally is killed next,
 * the child goes on with the memory as it is then, and stubs follow the pointers in it. address, size,
 * protection and words count. */
int helper_trace_remap(struct helper *helper, pid_t pid, const struct trace_inject_shared *shared, int *file,
                       struct base_error *error);

/* Executes single instructions of a held thread until its pc is in none of the ranges. Signals are blocked
 * meanwhile; one that the instruction raises itself is delivered. BASE_EBUSY: it sleeps in the kernel, would
 * sleep again (a restarted call), or is still in the ranges after TRACE_STEP_MOST. */
int helper_trace_step_out(struct helper *helper, pid_t pid, pid_t tid, const struct trace_step_range *ranges,
                          size_t count, struct base_error *error);

/* System calls made by a thread of `process` one after the other: trace_inject.h. `process` may differ from
 * `pid`: a vfork child has the memory of its parent, but its own signals and timers. On failure, those from
 * some call on were not made; a call that the kernel refuses is no failure, but has -errno as its answer. A
 * seccomp filter that forbids one: BASE_EPERMISSION. */
struct helper_trace_call {
    uint64_t number, arguments[6];
    int64_t answer;
    char name[16]; /* for messages */
};
int helper_trace_call(struct helper *helper, pid_t pid, pid_t process, struct helper_trace_call *calls,
                      size_t count, struct base_error *error);
/* Is its answer that of a filter? For calls that do not answer so themselves. */
static inline bool helper_trace_is_refused(const struct helper_trace_call *call)
{
    return call->answer == -EACCES || call->answer == -EPERM || call->answer == -ENOSYS;
}

/* --- ends and costs --- */

/* When the helper ends, for whatever reason but a SIGKILL of its own, it writes the eight bytes of `value` to
 * `address` of the process before it detaches it. One for each memory: the last call counts; address 0: none.
 * A fork child inherits it, an exec ends it, and so does helper_trace_leave. */
int helper_trace_write_at_exit(struct helper *helper, pid_t pid, uint64_t address, uint64_t value,
                               struct base_error *error);

/* Since it was first followed; pid 0: the sum of all processes, of those that ended too. */
int helper_trace_cost(struct helper *helper, pid_t pid, struct trace_cost *cost, struct base_error *error);

#endif
