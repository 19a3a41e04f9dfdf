/* trace_stop.h - every thread of a process stopped, looked at, and let go as if nothing had been.
 *
 * How. PTRACE_SEIZE takes a thread without stopping it or sending it a signal; PTRACE_INTERRUPT makes it trap
 * on its way back to user mode. New threads can only come from threads that still run, so /proc/PID/task is
 * read again until a reading shows no stranger while all known threads stand. A thread asleep in the kernel
 * that does not even wake (a vfork parent, a dead network disk) need not: the trap is pending, so that it
 * cannot reach user mode without us. It counts as stopped (state KERNEL) after 20 ms; its registers cannot be
 * had. When any other thread is missing after 50 ms, all are let go and it is tried again, thirty times in
 * all.
 *
 * What the target notices: nothing.
 *   Signals   A thread that was about to receive one receives it, with its siginfo, and stops before the
 *             handler's first instruction. Others wait in the kernel's queue.
 *   Calls     The kernel restarts what an interruption can restart, with the remaining time. The few calls
 *             that answer EINTR to any stop are restarted here (trace_x86_64_call.h).
 *   SIGSTOP   A stopped process stays stopped: letting go puts it back.
 *   vfork     A child that still runs in its parent's memory is stopped too: it runs the same text.
 *
 * Ends. trace_stop_end detaches. A KERNEL thread cannot be detached before it stops: it is *lingering*,
 * asleep as it would be anyway, until trace_stop_poll sees it stop. When the tracing thread ends, the kernel
 * detaches all.
 *
 * Followers. With a follower (trace_follow.h) threads stay seized between stops, new ones come by themselves,
 * and the follower is told of all that happens; it also lets them run again. Its threads may belong to
 * several processes that share their memory.
 *
 * All functions are for one and the same thread, because the kernel knows a tracer by its thread; it must not
 * be the target's parent, or the target's exit status may be taken from whoever waits for it. Context: helper
 * (helper.h). Source: ptrace(2); kernel/signal.c (ptrace_stop, get_signal); techniques C.3. */
#ifndef TRACE_STOP_H
#define TRACE_STOP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base_error.h"

enum trace_stop_state {
    TRACE_STOP_RUNNING, /* interrupted, has not stopped yet */
    TRACE_STOP_STOPPED, /* stands in the trap */
    TRACE_STOP_KERNEL,  /* asleep in the kernel with the trap pending */
    TRACE_STOP_GONE,    /* ended; forgotten at the next reading of the threads */
    TRACE_STOP_DETACHED /* the follower's: let go for a while, not traced and not looked at */
};

struct trace_stop_thread {
    pid_t process, tid; /* process: trace_stop.pid, or a vfork child's */
    uint8_t state;      /* enum trace_stop_state */
    bool interrupted;   /* the trap is wanted, or was taken */
    bool was_stopped;   /* by job control (SIGSTOP), before us */
    bool in_call;       /* stopped inside a system call */
    uint32_t life;      /* the follower's notes: enum trace_follow_life; new threads found by a stop have 0 */
    pid_t creator;      /* the follower's too: whose thread made it; 0: not known */
    pid_t detached_child; /* and its last vfork child that was let go; 0: none */
    uint64_t gs;          /* what the follower gave it; 0: nothing */
    uint64_t pc, sp;      /* of one that stands; 0: not known */
};

struct trace_stop;

/* Who keeps the threads of a stop, and is told of what happens to them. */
struct trace_stop_follower {
    void *context;
    int first_options; /* ptrace options of the first thread of a process, besides */
    /* `status` as waitpid gave it, after the thread's state was set, before it goes on. In a
     * PTRACE_EVENT_EXEC the thread may be moved to another stop: the answer is the one that has it now. It
     * may add threads, and removes none. In a PTRACE_EVENT_EXIT it lets the thread go on itself. */
    struct trace_stop *(*on_status)(void *context, struct trace_stop *stop, pid_t tid, int status);
    /* A thread that is traced by us, and not in the table: 1 when it was added, 0 when it belongs elsewhere,
     * or an error. */
    int (*on_found)(void *context, struct trace_stop *stop, pid_t process, pid_t tid);
    /* Lets all that stand run again: a stop failed. */
    void (*resume)(void *context, struct trace_stop *stop);
};

struct trace_stop {
    pid_t pid;
    const struct trace_stop_follower *follower; /* NULL: none */
    bool holding;                               /* between begin and end */
    struct trace_stop_thread *threads;          /* by tid */
    size_t count, capacity;
    uint64_t began;     /* monotonic ns of the first interruption */
    uint32_t attempts;  /* of the last begin, 1: the first succeeded */
    uint64_t delivered; /* signals that threads were stopped for and got */
};

/* Stops process `pid`. *stop is {0}, or of an ended stop of the same process. On failure all threads run
 * again and the message says why: BASE_EPERMISSION, BASE_ENOTFOUND (gone), BASE_EBUSY (a tracer; a thread
 * that does not stop), BASE_EUNSUPPORTED. */
int trace_stop_begin(struct trace_stop *stop, pid_t pid, struct base_error *error);

/* With a follower: seizes all threads of process `pid` that are not known, until there are none, and stops
 * nothing. Returns how many, or an error as above; what was seized stays so. */
int trace_stop_follow(struct trace_stop *stop, pid_t pid, struct base_error *error);

/* With a follower: gives a thread the options that it should have, whoever it inherited others from. It
 * stands. */
void trace_stop_set_options(const struct trace_stop *stop, const struct trace_stop_thread *thread);

/* With a follower: takes a LOOSE thread again; it runs. 1: taken; 0: it is ending, and is GONE; or an error
 * as above. */
int trace_stop_reseize(struct trace_stop *stop, struct trace_stop_thread *thread, struct base_error *error);

/* Lets every thread go. Returns how many linger. */
size_t trace_stop_end(struct trace_stop *stop);

/* Detaches lingering threads that have stopped since; returns how many are left. May be called at any
 * time. */
size_t trace_stop_poll(struct trace_stop *stop);

/* Is a thread on its way into the trap? Were it let go now, by the end of the tracer, a call that the trap
 * has cut short would not be repaired. Those that do not wake (state D) are not meant. */
bool trace_stop_awaits(const struct trace_stop *stop);

/* Frees memory. Lingering threads are detached when the calling thread ends. */
void trace_stop_free(struct trace_stop *stop);

/* --- one thread, at any time --- */

/* What waitpid said of a thread, when the caller has asked for all threads at once. A thread of no follower
 * that lingers is detached. BASE_ENOTFOUND: it is not in the table. Other errors leave it to be told of
 * again. */
int trace_stop_take(struct trace_stop *stop, pid_t tid, int status);

/* Adds a thread that is traced already, and is about to trap. BASE_ENOMEM, or BASE_OK. Pointers to threads
 * are void. */
int trace_stop_add(struct trace_stop *stop, pid_t process, pid_t tid, uint32_t life);

/* Forgets one that is detached or has ended. Pointers to threads are void. */
void trace_stop_forget(struct trace_stop *stop, pid_t tid);

/* Asks for the trap. */
void trace_stop_interrupt(struct trace_stop_thread *thread);

/* From the trap back to what it did, still traced: a thread that was stopped by job control stays so. */
void trace_stop_go(struct trace_stop_thread *thread);

/* From the trap back to what it did; the state is then TRACE_STOP_GONE, or KERNEL when it was killed and its
 * end is to come. */
void trace_stop_detach(struct trace_stop_thread *thread);

/* The thread stands before a signal's delivery, and will be as in `registers` when it goes on: is it one of an agent's timer that would
 * end a call with EINTR which nobody but us has cut? Then it goes on without it. */
bool trace_stop_drops_signal(pid_t tid, const struct user_regs_struct *registers);

/* Of a KERNEL thread, which may be a copy, pc and sp become known if it sleeps inside a system call: /proc tells them. For any process. */
void trace_stop_locate(struct trace_stop_thread *thread);

/* --- one thread, while all are stopped --- */

struct trace_stop_thread *trace_stop_find(const struct trace_stop *stop, pid_t tid);

/* Registers of a stopped thread. BASE_EBUSY: it is asleep in the kernel; BASE_ENOTFOUND: it has ended. */
int trace_stop_read(const struct trace_stop *stop, pid_t tid, struct user_regs_struct *registers,
                    struct base_error *error);
int trace_stop_write(struct trace_stop *stop, pid_t tid, const struct user_regs_struct *registers,
                     struct base_error *error);

/* Continues a stopped thread with `request` (PTRACE_CONT, PTRACE_SYSCALL) and `signal`, and waits until it
 * stops or ends. *status as waitpid gives it. For trace_inject.c. */
int trace_stop_step(struct trace_stop_thread *thread, int request, int signal, int *status,
                    struct base_error *error);

/* From whatever stop of `status` back into the trap, signals delivered on the way; no instruction of the
 * program runs. TRACE_STOP_NO_SIGNAL: the stop is nothing that the program should know of. */
#define TRACE_STOP_NO_SIGNAL ((SIGTRAP | 0x80) << 8 | 0x7f)
int trace_stop_settle(struct trace_stop *stop, struct trace_stop_thread *thread, int status,
                      struct base_error *error);

#endif
