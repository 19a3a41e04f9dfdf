/* patch_trace.h - processes followed for as long as a recording lasts: births, forks, execs and ends, as they
 * happen.
 *
 * The helper (patch_helper.h) stays the tracer of every followed process. Nearly everything is answered on
 * the spot, without asking tally: signals are passed on, a stop by job control stays one, a new thread gets a
 * gs base of its own from a pool that was filled before (patch_trace_give) and goes on. Tally is told by
 * *events*, in the order in which they happened, and few of them wait for it: a new image (EXEC), a new
 * process (FORK), an empty pool (NEED), an end (ENDING). Births and deaths are told some milliseconds late,
 * many at once.
 *
 *   patch_trace_follow   from now on    patch_trace_next     what happened; poll helper->socket before
 *   patch_trace_leave    no more        patch_trace_hold .. patch_trace_release   around the calls that need
 *                        a standing process
 *
 * Processes that share their memory (vfork, CLONE_VM) are one thing here: a hold stops all of them, and pool,
 * staged changes and farewell belong to the memory; each of their numbers names it.
 *
 * Patience: while tally is silent (patch_silence.h: at once when it is stopped, else after half a second
 * or some), whatever is held or waits goes on, still followed; steps that need it held are refused with BASE_EBUSY from then on (who needs longer asks for
 * something now and then: patch_trace_left). When tally ends, all processes are let go.
 *
 * Cost: nothing while nothing happens; a signal is a stop of some 45 us for its receiver; figures in
 * patch_trace_cost. Where the caller hears of births in another way (patch_births.h) it can have a process
 * let go until then: patch_trace_loosen. What a traced program can notice: TracerPid; a set-uid program loses
 * its privileges under a tracer without CAP_SYS_PTRACE.
 *
 * Every function but next and pending returns BASE_OK or what the helper reported; BASE_EIO: it has ended.
 * BASE_ENOTFOUND: `pid` is not followed (any more: its END or EXEC may be in the queue). Context: tool, the
 * thread that began the helper. Source: ptrace(2); kernel/ptrace.c, kernel/fork.c, fs/exec.c (de_thread). */
#ifndef PATCH_TRACE_H
#define PATCH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base_error.h"
#include "patch_helper.h"
#include "patch_memory.h"
#include "patch_stage.h"
#include "patch_step.h"
#include "patch_stop.h"

enum patch_trace_kind {
    PATCH_TRACE_EXEC, /* `pid` runs a new image, and is held before its first instruction. Its old memory, threads (a DEATH
                             each came before) and pool are gone; tid = pid, whoever called execve */
    PATCH_TRACE_FORK, /* `pid` is new and has memory of its own, a copy of `parent`'s; it is held before its first instruction,
                             with its creator's gs. The parent goes on. parent 0: it died in that moment */
    PATCH_TRACE_VFORK, /* `pid` is new and runs in the memory of `parent`, one thread of which sleeps until an exec or
                             end: not held, it has that thread's gs */
    PATCH_TRACE_BIRTH, /* thread `tid` of `pid` is new, was given `gs` from the pool and runs. pid != parent: a process that
                             shares the memory of `parent` but is no vfork. gs 0: there was none and tally was silent */
    PATCH_TRACE_NEED, /* the same, but the pool is empty: it and its creator stand until patch_trace_give; BIRTH then
                             follows */
    PATCH_TRACE_DEATH, /* thread `tid` of `pid` has ended; `gs` is what it had been given last (0: nothing). It can count no more */
    PATCH_TRACE_END,    /* process `pid` is gone, `status` as of wait. Its threads' DEATHs came before */
    PATCH_TRACE_ENDING, /* where it was asked for: the first thread of `pid` stands in its exit; what the process's memory holds can be
                             read until patch_trace_let_end, or for 200 ms. Not told of one that is loose or being left */
    PATCH_TRACE_STRANGER, /* thread `tid` of `pid` was born unseen (CLONE_UNTRACED) and found by a hold, which holds it. Its gs may be
                             another thread's until patch_trace_set_gs */
};

#define PATCH_TRACE_FLAG_PRIVILEGES_LOST    1u /* EXEC: patch_privileges_of */
#define PATCH_TRACE_FLAG_PRIVILEGES_UNKNOWN 4u /* likewise */
/* patch_trace_free_children. FORK: it is to be left, and its creator stands until it is. VFORK: it has been
 * let go, and no event tells of it any more. */
#define PATCH_TRACE_FLAG_FREED 2u

struct patch_trace_event {
    uint32_t kind; /* enum patch_trace_kind */
    pid_t pid, tid;
    pid_t parent; /* FORK, VFORK, BIRTH, NEED: the process whose thread made it */
    uint64_t gs;
    uint64_t flags;
    int32_t status;
    uint32_t zero;
};

/* --- following --- */

/* Takes a process with all its threads, without stopping any; its children and execs are followed too, and so
 * is a vfork child that runs in its memory already (VFORK). Takes one that is followed already (or is still
 * being left) as well. Errors as of patch_stop_begin. */
int patch_trace_follow(struct patch_helper *helper, pid_t pid, struct base_error *error);

/* Lets the process go, held or not; a thread asleep in the kernel is let go when it wakes. Children stay
 * followed, and no event tells of `pid` any more. */
int patch_trace_leave(struct patch_helper *helper, pid_t pid, struct base_error *error);

/* From now on, and until it runs another image: children of `pid` are let go before their first instruction,
 * and can be traced by it. VFORK and FORK tell of them (PATCH_TRACE_FLAG_FREED). Processes that share its
 * memory without being vfork's stay followed. While a vfork child that was let go still runs in its memory, a
 * hold waits for 50 ms and is refused then: BASE_EBUSY. */
int patch_trace_free_children(struct patch_helper *helper, pid_t pid, struct base_error *error);

/* 1: the next event; 0: none now; BASE_EIO: the helper has ended; BASE_ENOMEM. */
int patch_trace_next(struct patch_helper *helper, struct patch_trace_event *event, struct base_error *error);

/* Do events wait that poll would not tell of, since they came with a command's answer? */
bool patch_trace_pending(const struct patch_helper *helper);

/* The caller is about to stop: whatever is held or waits goes on at once, and nothing waits for it until its next request. */
int patch_trace_suspend(struct patch_helper *helper, struct base_error *error);

/* --- endings --- */

/* ENDINGs are told of processes that are followed or born from now on. */
int patch_trace_tell_endings(struct patch_helper *helper, struct base_error *error);
/* After an ENDING. */
int patch_trace_let_end(struct patch_helper *helper, pid_t pid, struct base_error *error);

/* --- loose --- */

/* Detaches all threads of a process that has its memory for itself, and goes on following it: its threads
 * keep their gs, its end is told (status 0: not known). It is held for it, and let go only if no thread is in
 * one of the ranges, nor has a word on its stack that leads there. BASE_EBUSY: one has, or sleeps in the
 * kernel, or something is being born; BASE_EPERMISSION: it could not be traced again. The ranges are all code
 * from which a birth may come without the caller's knowing it before. One that is loose already: at once.
 * Every hold takes the process again, and it stays so until it is loosened anew. */
int patch_trace_loosen(struct patch_helper *helper, pid_t pid, const struct patch_step_range *ranges,
                       size_t count, struct base_error *error);

/* Of a process that is held: no thread is in one of the ranges, nor has a word on its stack that leads there.
 * BASE_EBUSY: one has, or may have. */
int patch_trace_clear(struct patch_helper *helper, pid_t pid, const struct patch_step_range *ranges,
                      size_t count, struct base_error *error);

/* Takes it again without stopping it; threads that ended meanwhile are DEATHs. BASE_ENOTFOUND: it has ended,
 * or runs an image that nobody told of (DEATHs and END). Other errors, as of patch_stop_begin: it stays
 * loose. */
int patch_trace_tighten(struct patch_helper *helper, pid_t pid, struct base_error *error);

/* --- gs bases --- */

#define PATCH_TRACE_KEEP                                                                                     \
    UINT64_MAX /* given: what is left in the pool is dropped, and from now on every thread keeps the gs base it was born with */

/* Adds to the pool of the process's memory, first in, first out; threads that NEED one get theirs. */
int patch_trace_give(struct patch_helper *helper, pid_t pid, const uint64_t *gs, size_t count,
                     struct base_error *error);

/* What is left in the pool: given, and not yet a thread's. */
int patch_trace_left(struct patch_helper *helper, pid_t pid, uint64_t *count, struct base_error *error);

/* Sets it for a thread that stands. For one asleep in the kernel (PATCH_STOP_KERNEL) it is set when it wakes,
 * before it runs an instruction of the program. */
int patch_trace_set_gs(struct patch_helper *helper, pid_t tid, uint64_t gs, struct base_error *error);

/* Of a process that is held: gs becomes 0 in every thread whose gs base plus `offset` lies in one of the ranges, and in no other: a base
 * that the program has set stays. A thread asleep in the kernel is judged by what it was given last. */
int patch_trace_clear_gs(struct patch_helper *helper, pid_t pid, uint64_t offset,
                         const struct patch_step_range *ranges, size_t count, struct base_error *error);

/* --- a standing process --- */

/* Stops every thread in the process's memory (patch_stop.h). One that is held already: at once. `result` may
 * be NULL. BASE_ENOTFOUND too when it ran another image or ended in the meantime: the event is in the queue.
 * A thread that was found only now is told of as STRANGER. */
int patch_trace_hold(struct patch_helper *helper, pid_t pid, struct patch_helper_stopped *result,
                     struct base_error *error);
int patch_trace_release(struct patch_helper *helper, pid_t pid, struct patch_helper_stopped *result,
                        struct base_error *error);

/* As their namesakes in patch_helper.h, for a process that is held; several may be at once. Staging needs no
 * hold. Threads come with gs (0: nothing given), pc and sp (0: not known). */
int patch_trace_threads(struct patch_helper *helper, pid_t pid, struct patch_stop_thread **threads,
                        size_t *count, struct base_error *error);
int patch_trace_read_registers(struct patch_helper *helper, pid_t pid, pid_t tid,
                               struct user_regs_struct *registers, struct base_error *error);
int patch_trace_write_registers(struct patch_helper *helper, pid_t pid, pid_t tid,
                                const struct user_regs_struct *registers, struct base_error *error);
int patch_trace_read(struct patch_helper *helper, pid_t pid, uint64_t address, void *bytes, size_t size,
                     struct base_error *error);
int patch_trace_write(struct patch_helper *helper, pid_t pid, uint64_t address, const void *bytes,
                      size_t size, struct base_error *error);
int patch_trace_map(struct patch_helper *helper, pid_t pid, const struct patch_helper_room *room,
                    uint64_t *address, struct base_error *error);
int patch_trace_share(struct patch_helper *helper, pid_t pid, const struct patch_helper_room *room,
                      uint64_t *address, int *file, struct base_error *error);
/* The same, but it shows as /memfd:NAME: another owner than the counters of calls (NULL: these). */
int patch_trace_share_as(struct patch_helper *helper, pid_t pid, const char *name,
                         const struct patch_helper_room *room, uint64_t *address, int *file,
                         struct base_error *error);
/* A file of `size` bytes of which pieces are mapped, from `address` on (patch_inject_share_pieces). */
struct patch_inject_piece;
int patch_trace_share_pieces(struct patch_helper *helper, pid_t pid, const char *name, uint64_t address,
                             uint64_t size, const struct patch_inject_piece *pieces, size_t count, int *file,
                             struct base_error *error);
int patch_trace_unmap(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size,
                      struct base_error *error);
int patch_trace_protect(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size,
                        int protection, struct base_error *error);
/* Private copies of the pages of a mapped file are dropped, so that the file's pages are shared again. The
 * caller has compared them: what differs is lost. */
int patch_trace_give_back(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size,
                          struct base_error *error);
/* Private memory becomes zeros in children of fork. */
int patch_trace_wipe(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size,
                     struct base_error *error);
int patch_trace_stage(struct patch_helper *helper, pid_t pid, const struct patch_memory_change *changes,
                      size_t count, struct base_error *error);
/* The same for a list that was written for this (patch_stage.h): it is sealed, and stays the caller's. */
int patch_trace_stage_list(struct patch_helper *helper, pid_t pid, struct patch_stage *list,
                           struct base_error *error);
int patch_trace_apply(struct patch_helper *helper, pid_t pid, struct base_error *error);
int patch_trace_undo(struct patch_helper *helper, pid_t pid, struct base_error *error);

/* New shared memory exactly at `address`, in place of what patch_trace_share or _remap mapped there: all of it
 * must show as /memfd:tally in the maps, or BASE_EUSAGE. For a fork child, that shares its parent's until
 * then. It is zeros but for `words`, which stand there from the first moment: where tally is killed next, the
 * child goes on with the memory as it is then, and stubs follow the pointers in it. */
struct patch_inject_word;
int patch_trace_remap(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size, int protection,
                      const struct patch_inject_word *words, size_t count, int *file,
                      struct base_error *error);

/* Executes single instructions of a held thread until its pc is in none of the ranges. Signals wait
 * meanwhile; one that the instruction raises itself is delivered. BASE_EBUSY: it sleeps in the kernel, would
 * sleep again (a restarted call), or stands in the ranges still after PATCH_STEP_MOST. */
int patch_trace_step_out(struct patch_helper *helper, pid_t pid, pid_t tid,
                         const struct patch_step_range *ranges, size_t count, struct base_error *error);

/* System calls of its own choice, made by a thread of `process` one after the other: patch_inject.h. `pid` as
 * above; a vfork's child has the memory of its parent, but its own signals and timers. On failure, those from
 * some call on were not made; that one is refused by the kernel is its answer (-errno), and no failure. A
 * seccomp filter that forbids one: BASE_EPERMISSION. */
struct patch_trace_call {
    uint64_t number, arguments[6];
    int64_t answer;
    char name[16]; /* for messages */
};
int patch_trace_call(struct patch_helper *helper, pid_t pid, pid_t process, struct patch_trace_call *calls,
                     size_t count, struct base_error *error);
/* Is its answer a filter's, of a call that does not answer so by itself? */
static inline bool patch_trace_is_refused(const struct patch_trace_call *call)
{
    return call->answer == -EACCES || call->answer == -EPERM || call->answer == -ENOSYS;
}

/* --- ends and costs --- */

/* When the helper ends, for whatever reason but a SIGKILL of its own, it writes the eight bytes of `value` to
 * `address` of the process before it lets it go. One for each memory: the last call counts; address 0: none.
 * A fork child inherits it, an exec ends it, and so does patch_trace_leave. */
int patch_trace_farewell(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t value,
                         struct base_error *error);

struct patch_trace_cost {
    uint64_t signals;              /* that stopped a thread on their way */
    uint64_t births, forks, execs; /* forks: vforks too */
    uint64_t stopped_ns;           /* held as a whole; waiting for tally included */
    uint64_t followed_ns;          /* of each process, from its follow or birth on */
    uint64_t loose_ns;             /* of these, not traced */
    uint64_t loosened;             /* how often */
};

/* Since it was first followed; pid 0: the sum of all processes, of those that ended too. */
int patch_trace_cost(struct patch_helper *helper, pid_t pid, struct patch_trace_cost *cost,
                     struct base_error *error);

#endif
