/* trace_inject.h - system calls made in the name of a stopped process.
 *
 * One stopped thread's registers are pointed at a `syscall` instruction that the process has anyway (in its
 * vDSO or any text), it makes that one call, and its registers are restored before it runs an instruction of
 * the program:
 *
 *   trap             The registers are saved, and set to the call, with orig_rax -1 so that no interrupted
 *                    call is restarted.
 *   PTRACE_SYSCALL   Stop at the entry.
 *   PTRACE_SYSCALL   Stop at the exit: the answer is read, and the registers are restored.
 *   INTERRUPT, CONT  Trap again: the thread is where it was, inside the kernel's signal code, which restarts
 *                    the interrupted system call when the thread is resumed (-ERESTART* in rax, the number in
 *                    orig_rax). Of chained calls only after the last one: trace_inject_chain.
 *
 * A signal that comes before the entry is delivered at the old place, and the call is made anew; where they
 * come too fast for that, they are blocked until the entry (PTRACE_SETSIGMASK). Calls do not touch vector
 * registers. A restartable sequence that the thread was in (rseq) is restored too, so that it is aborted as
 * it should be. From the first line to the last, some 50 us, *this* process must not end: therefore the
 * helper (helper.h) does it.
 *
 * Context: helper, between trace_stop_begin and _end. Source: ptrace(2), arch/x86/kernel/signal.c,
 * rseq(2). */
#ifndef TRACE_INJECT_H
#define TRACE_INJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base_error.h"
#include "proc_gap.h"
#include "trace_memory.h"
#include "trace_seccomp.h"
#include "trace_stop.h"

/* All that a call changes in the thread and that the program would see. */
struct trace_inject_place {
    struct user_regs_struct registers;
    uint64_t rseq_cs_at, rseq_cs; /* 0: the thread has no rseq, or the kernel does not say */
};

struct trace_inject {
    struct trace_stop *stop;
    struct trace_memory *memory;
    pid_t process, tid;    /* the thread that makes the calls */
    uint64_t syscall_at;   /* of the instruction, in the target */
    struct proc_maps maps; /* as they were when it was opened */
    struct trace_seccomp seccomp;
    bool chained; /* calls follow one another: the thread stays at the exit of the last one */
    bool inside;  /* it is stopped there, and was at `place` */
    struct trace_inject_place place;
};

/* Chooses the thread (one inside a system call if there is one) and the instruction. BASE_EBUSY: all threads
 * sleep in the kernel (vfork): try again later. BASE_EPERMISSION: seccomp. */
int trace_inject_open(struct trace_inject *inject, struct trace_stop *stop, struct trace_memory *memory,
                      struct base_error *error);
/* The same, with a thread of `process` only: for calls that concern more than memory. BASE_EBUSY too when
 * none of its threads is stopped. */
int trace_inject_open_in(struct trace_inject *inject, struct trace_stop *stop, struct trace_memory *memory,
                         pid_t process, struct base_error *error);
void trace_inject_close(struct trace_inject *inject);

/* From here on, and until trace_inject_settle, a call begins where the last one ended, and the thread returns
 * to its trap only at the end: for four calls that saves a third of the stops. Between them only memory may
 * be read and written. After a failure the thread is restored as always. */
void trace_inject_chain(struct trace_inject *inject);
/* The thread is in its trap again, as it was, or it is gone. To be called before trace_inject_close, whatever
 * has failed. */
int trace_inject_settle(struct trace_inject *inject, struct base_error *error);

/* Makes one call; `name` is for messages. BASE_OK: it was made, *answer is what it answered (-errno on
 * failure). On any other result it was not made, or the thread is gone. */
int trace_inject_call(struct trace_inject *inject, const char *name, long number, const uint64_t arguments[6],
                      int64_t *answer, struct base_error *error);

/* --- calls that must succeed; failures of the call itself are errors with the reason --- */

/* Exactly at `address`, or it fails: nothing that is mapped is replaced. `file` is a descriptor of the target
 * for a shared mapping, or -1 for private memory. */
int trace_inject_map(struct trace_inject *inject, uint64_t address, uint64_t size, int protection, int file,
                     struct base_error *error);
int trace_inject_unmap(struct trace_inject *inject, uint64_t address, uint64_t size,
                       struct base_error *error);
/* Drops the process's own copies of pages of a private mapping (MADV_DONTNEED): it has the file's again. */
int trace_inject_give_back(struct trace_inject *inject, uint64_t address, uint64_t size,
                           struct base_error *error);
/* Private pages that are zeros in a child of fork (MADV_WIPEONFORK, Linux 4.14). */
int trace_inject_wipe(struct trace_inject *inject, uint64_t address, uint64_t size, struct base_error *error);

/* --- memory that the target shares with us (trace_inject_share.c) --- */

/* Further bytes of the same file, that can be read and written: behind the others, or right before them. In
 * the file they come last. */
struct trace_inject_data {
    uint64_t size; /* whole pages; 0: none */
    bool first;
};

/* A piece of the file that is mapped; whole pages. */
struct trace_inject_piece {
    uint64_t at, offset, size; /* at: bytes behind `address`; offset: in the file */
    uint64_t is_own; /* 1: a private mapping, of which the process, and each child, has its own copy */
};

/* A word that new memory holds from the first moment at which the target can reach it. */
struct trace_inject_word {
    uint64_t offset, value; /* offset: bytes, from the start of the memory */
};

struct trace_inject_shared {
    const char *name;       /* of the memfd: /proc/PID/maps shows by it whose the memory is */
    uint64_t address, size; /* size: of the file, without `data` */
    int protection;
    struct trace_inject_data data;
    const struct trace_inject_piece
        *pieces; /* only these are mapped, and nothing between them; NULL: all is */
    size_t piece_count;
    const struct trace_inject_word *words; /* written before anything is mapped */
    size_t word_count;
};

/* Zeros, but for `words`, shared with us: made in the target with memfd_create, opened from outside through
 * /proc/PID/fd - which needs no common mount or PID namespace, where a path to our own /proc would - mapped
 * at `address`, and closed in the target: no descriptor stays. *file is ours; the caller closes it. On
 * failure nothing stays in the target. */
int trace_inject_share(struct trace_inject *inject, const struct trace_inject_shared *shared, int *file,
                       struct base_error *error);

/* The same in place of what trace_inject_share mapped there under the same name, without data and pieces;
 * BASE_EUSAGE if anything else is mapped there, or nothing. On failure what was there stays. Code of the
 * target may follow pointers in that memory at once, and we may be killed at any instant: therefore the words
 * are written before it is mapped. */
int trace_inject_reshare(struct trace_inject *inject, const struct trace_inject_shared *shared, int *file,
                         struct base_error *error);

/* The target's mappings, read through a living thread. */
int trace_inject_maps(const struct trace_inject *inject, struct proc_maps *maps, struct base_error *error);

#endif
