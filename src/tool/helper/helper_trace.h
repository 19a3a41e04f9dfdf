/* helper_trace.h - processes followed for as long as a recording lasts: births, forks, execs and ends, as they
 * happen.
 *
 * The helper (helper.h) stays the tracer of every followed process. Nearly everything is answered on
 * the spot, without asking tally: signals are passed on, a stop by job control stays one, a new thread gets a
 * gs base of its own from a pool that was filled before (helper_trace_give) and goes on. Tally is told by
 * *events*, in the order in which they happened, and few of them wait for it: a new image (EXEC), a new
 * process (FORK), an empty pool (NEED), an end (ENDING). Births and deaths are told some milliseconds late,
 * many at once.
 *
 *   helper_trace_follow   from now on    helper_trace_next     what happened; poll helper->socket before
 *   helper_trace_leave    no more        helper_trace_hold .. helper_trace_release   around the calls that need
 *                        a standing process
 *
 * Processes that share their memory (vfork, CLONE_VM) are one thing here: a hold stops all of them, and pool,
 * staged changes and farewell belong to the memory; each of their numbers names it.
 *
 * Patience: while tally is silent (helper_silence.h: at once when it is stopped, else after half a second
 * or some), whatever is held or waits goes on, still followed; steps that need it held are refused with BASE_EBUSY from then on (who needs longer asks for
 * something now and then: helper_trace_left). When tally ends, all processes are let go.
 *
 * Cost: nothing while nothing happens; a signal is a stop of some 45 us for its receiver; figures in
 * helper_trace_cost. Where the caller hears of births in another way (plan_creation.h) it can have a process
 * let go until then: helper_trace_detach. What a traced program can notice: TracerPid; a set-uid program loses
 * its privileges under a tracer without CAP_SYS_PTRACE.
 *
 * Every function but next and pending returns BASE_OK or what the helper reported; BASE_EIO: it has ended.
 * BASE_ENOTFOUND: `pid` is not followed (any more: its END or EXEC may be in the queue). Context: tool, the
 * thread that began the helper. Source: ptrace(2); kernel/ptrace.c, kernel/fork.c, fs/exec.c (de_thread). */
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
#include "trace_memory.h"
#include "trace_stage.h"
#include "trace_step.h"
#include "trace_stop.h"

/* --- following --- */

/* Takes a process with all its threads, without stopping any; its children and execs are followed too, and so
 * is a vfork child that runs in its memory already (VFORK). Takes one that is followed already (or is still
 * being left) as well. Errors as of trace_stop_begin. */
int helper_trace_follow(struct helper *helper, pid_t pid, struct base_error *error);

/* Lets the process go, held or not; a thread asleep in the kernel is let go when it wakes. Children stay
 * followed, and no event tells of `pid` any more. */
int helper_trace_leave(struct helper *helper, pid_t pid, struct base_error *error);

/* From now on, and until it runs another image: children of `pid` are let go before their first instruction,
 * and can be traced by it. VFORK and FORK tell of them (TRACE_FLAG_DETACHED). Processes that share its
 * memory without being vfork's stay followed. While a vfork child that was let go still runs in its memory, a
 * hold waits for 50 ms and is refused then: BASE_EBUSY. */
int helper_trace_detach_children(struct helper *helper, pid_t pid, struct base_error *error);

/* 1: the next event; 0: none now; BASE_EIO: the helper has ended; BASE_ENOMEM. */
int helper_trace_next(struct helper *helper, struct trace_event *event, struct base_error *error);

/* Do events wait that poll would not tell of, since they came with a command's answer? */
bool helper_trace_pending(const struct helper *helper);

/* The caller is about to stop: whatever is held or waits goes on at once, and nothing waits for it until its next request. */
int helper_trace_suspend(struct helper *helper, struct base_error *error);

/* --- endings --- */

/* ENDINGs are told of processes that are followed or born from now on. */
int helper_trace_report_endings(struct helper *helper, struct base_error *error);
/* After an ENDING. */
int helper_trace_let_end(struct helper *helper, pid_t pid, struct base_error *error);

/* --- loose --- */

/* Detaches all threads of a process that has its memory for itself, and goes on following it: its threads
 * keep their gs, its end is told (status 0: not known). It is held for it, and let go only if no thread is in
 * one of the ranges, nor has a word on its stack that leads there. BASE_EBUSY: one has, or sleeps in the
 * kernel, or something is being born; BASE_EPERMISSION: it could not be traced again. The ranges are all code
 * from which a birth may come without the caller's knowing it before. One that is loose already: at once.
 * Every hold takes the process again, and it stays so until it is loosened anew. */
int helper_trace_detach(struct helper *helper, pid_t pid, const struct trace_step_range *ranges, size_t count,
                        struct base_error *error);

/* Of a process that is held: no thread is in one of the ranges, nor has a word on its stack that leads there.
 * BASE_EBUSY: one has, or may have. */
int helper_trace_clear(struct helper *helper, pid_t pid, const struct trace_step_range *ranges, size_t count,
                       struct base_error *error);

/* Takes it again without stopping it; threads that ended meanwhile are DEATHs. BASE_ENOTFOUND: it has ended,
 * or runs an image that nobody told of (DEATHs and END). Other errors, as of trace_stop_begin: it stays
 * loose. */
int helper_trace_reattach(struct helper *helper, pid_t pid, struct base_error *error);

/* --- gs bases --- */

/* `gs` TRACE_GS_KEEP: what is left in the pool is dropped, and from now on every thread keeps the gs base that it
 * was created with. */
/* Adds to the pool of the process's memory, first in, first out; threads that NEED one get theirs. */
int helper_trace_give(struct helper *helper, pid_t pid, const uint64_t *gs, size_t count,
                      struct base_error *error);

/* What is left in the pool: given, and not yet a thread's. */
int helper_trace_left(struct helper *helper, pid_t pid, uint64_t *count, struct base_error *error);

/* Sets it for a thread that stands. For one asleep in the kernel (TRACE_STOP_KERNEL) it is set when it wakes,
 * before it runs an instruction of the program. */
int helper_trace_set_gs(struct helper *helper, pid_t tid, uint64_t gs, struct base_error *error);

/* Of a process that is held: gs becomes 0 in every thread whose gs base plus `offset` lies in one of the ranges, and in no other: a base
 * that the program has set stays. A thread asleep in the kernel is judged by what it was given last. */
int helper_trace_clear_gs(struct helper *helper, pid_t pid, uint64_t offset,
                          const struct trace_step_range *ranges, size_t count, struct base_error *error);

/* --- a standing process --- */

/* Stops every thread in the process's memory (trace_stop.h). One that is held already: at once. `result` may
 * be NULL. BASE_ENOTFOUND too when it ran another image or ended in the meantime: the event is in the queue.
 * A thread that was found only now is told of as STRANGER. */
int helper_trace_hold(struct helper *helper, pid_t pid, struct helper_stopped *result,
                      struct base_error *error);
int helper_trace_release(struct helper *helper, pid_t pid, struct helper_stopped *result,
                         struct base_error *error);

/* As their namesakes in helper.h, for a process that is held; several may be at once. Staging needs no
 * hold. Threads come with gs (0: nothing given), pc and sp (0: not known). */
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
int helper_trace_map(struct helper *helper, pid_t pid, const struct helper_room *room, uint64_t *address,
                     struct base_error *error);
int helper_trace_share(struct helper *helper, pid_t pid, const struct helper_room *room, uint64_t *address,
                       int *file, struct base_error *error);
/* The same, but it shows as /memfd:NAME: another owner than the counters of calls (NULL: these). */
int helper_trace_share_as(struct helper *helper, pid_t pid, const char *name, const struct helper_room *room,
                          uint64_t *address, int *file, struct base_error *error);
/* A file of `size` bytes of which pieces are mapped, from `address` on (trace_inject_share_pieces). */
struct trace_inject_piece;
int helper_trace_share_pieces(struct helper *helper, pid_t pid, const char *name, uint64_t address,
                              uint64_t size, const struct trace_inject_piece *pieces, size_t count, int *file,
                              struct base_error *error);
int helper_trace_unmap(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                       struct base_error *error);
int helper_trace_protect(struct helper *helper, pid_t pid, uint64_t address, uint64_t size, int protection,
                         struct base_error *error);
/* Private copies of the pages of a mapped file are dropped, so that the file's pages are shared again. The
 * caller has compared them: what differs is lost. */
int helper_trace_give_back(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                           struct base_error *error);
/* Private memory becomes zeros in children of fork. */
int helper_trace_wipe(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                      struct base_error *error);
int helper_trace_stage(struct helper *helper, pid_t pid, const struct trace_memory_change *changes,
                       size_t count, struct base_error *error);
/* The same for a list that was written for this (trace_stage.h): it is sealed, and stays the caller's. */
int helper_trace_stage_list(struct helper *helper, pid_t pid, struct trace_stage *list,
                            struct base_error *error);
int helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error);
int helper_trace_undo(struct helper *helper, pid_t pid, struct base_error *error);

/* New shared memory exactly at `address`, in place of what helper_trace_share or _remap mapped there: all of it
 * must show as /memfd:tally in the maps, or BASE_EUSAGE. For a fork child, that shares its parent's until
 * then. It is zeros but for `words`, which stand there from the first moment: where tally is killed next, the
 * child goes on with the memory as it is then, and stubs follow the pointers in it. */
struct trace_inject_word;
int helper_trace_remap(struct helper *helper, pid_t pid, uint64_t address, uint64_t size, int protection,
                       const struct trace_inject_word *words, size_t count, int *file,
                       struct base_error *error);

/* Executes single instructions of a held thread until its pc is in none of the ranges. Signals wait
 * meanwhile; one that the instruction raises itself is delivered. BASE_EBUSY: it sleeps in the kernel, would
 * sleep again (a restarted call), or stands in the ranges still after TRACE_STEP_MOST. */
int helper_trace_step_out(struct helper *helper, pid_t pid, pid_t tid, const struct trace_step_range *ranges,
                          size_t count, struct base_error *error);

/* System calls of its own choice, made by a thread of `process` one after the other: trace_inject.h. `pid` as
 * above; a vfork's child has the memory of its parent, but its own signals and timers. On failure, those from
 * some call on were not made; that one is refused by the kernel is its answer (-errno), and no failure. A
 * seccomp filter that forbids one: BASE_EPERMISSION. */
struct helper_trace_call {
    uint64_t number, arguments[6];
    int64_t answer;
    char name[16]; /* for messages */
};
int helper_trace_call(struct helper *helper, pid_t pid, pid_t process, struct helper_trace_call *calls,
                      size_t count, struct base_error *error);
/* Is its answer a filter's, of a call that does not answer so by itself? */
static inline bool helper_trace_is_refused(const struct helper_trace_call *call)
{
    return call->answer == -EACCES || call->answer == -EPERM || call->answer == -ENOSYS;
}

/* --- ends and costs --- */

/* When the helper ends, for whatever reason but a SIGKILL of its own, it writes the eight bytes of `value` to
 * `address` of the process before it lets it go. One for each memory: the last call counts; address 0: none.
 * A fork child inherits it, an exec ends it, and so does helper_trace_leave. */
int helper_trace_write_at_exit(struct helper *helper, pid_t pid, uint64_t address, uint64_t value,
                               struct base_error *error);

/* Since it was first followed; pid 0: the sum of all processes, of those that ended too. */
int helper_trace_cost(struct helper *helper, pid_t pid, struct trace_cost *cost, struct base_error *error);

#endif
