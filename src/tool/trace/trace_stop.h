/* trace_stop.h - all threads of a process are stopped, and resumed without a trace in the process.
 *
 * How. PTRACE_SEIZE takes a thread without stopping it or sending it a signal; PTRACE_INTERRUPT makes it trap
 * on its way back to user mode. New threads can only be created by threads that still run, so /proc/PID/task
 * is read again until a reading shows no new thread while all known threads are stopped. A thread asleep in
 * the kernel that does not even wake (a vfork parent, an unreachable network disk) need not: the trap is
 * pending, so that it cannot return to user mode without us. It counts as stopped (state KERNEL) after 20 ms;
 * its registers cannot be read. When any other thread is missing after 50 ms, all are resumed and the stop is
 * tried again, thirty times in all.
 *
 * What the target notices: nothing.
 *   Signals   A thread that was about to receive one receives it, with its siginfo, and stops before the
 *             handler's first instruction. Others stay in the kernel's queue.
 *   Calls     The kernel restarts what an interruption can restart, with the remaining time. The few calls
 *             that answer EINTR to any stop are restarted here (trace_x86_64_call.h).
 *   SIGSTOP   A process stopped by job control stays stopped when it is detached.
 *   vfork     A child that still runs in its parent's memory is stopped too: it runs the same text.
 *
 * Ends. trace_stop_end detaches. A KERNEL thread cannot be detached before it stops: it is *lingering*,
 * asleep as it would be anyway, until trace_stop_poll finds it stopped. When the tracing thread ends, the
 * kernel detaches all.
 *
 * Followers. With a follower (trace_follow.h) threads stay seized between stops, new ones are seized at
 * creation, and the follower is notified of every event; it also resumes the threads. Its threads may belong
 * to several processes that share their memory.
 *
 * All functions are for one and the same thread, because the kernel knows a tracer by its thread; it must not
 * be the target's parent, or the target's exit status may be taken from whoever waits for it. Context: helper
 * (helper.h). Source: ptrace(2); kernel/signal.c (ptrace_stop, get_signal). */
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
    TRACE_STOP_STOPPED, /* stopped in the trap */
    TRACE_STOP_KERNEL,  /* asleep in the kernel with the trap pending */
    TRACE_STOP_GONE,    /* ended; forgotten at the next reading of the threads */
    TRACE_STOP_DETACHED /* the follower's: detached for a while, not traced and not waited for */
};

struct trace_stop_thread {
    pid_t process, tid; /* process: trace_stop.pid, or a vfork child's */
    uint8_t state;      /* enum trace_stop_state */
    bool interrupted;   /* the trap was requested, or has been reached */
    bool was_stopped;   /* by job control (SIGSTOP), before us */
    bool in_call;       /* stopped inside a system call */
    uint32_t life;      /* the follower's marks: enum trace_follow_life; new threads found by a stop have 0 */
    pid_t creator;      /* the follower's too: the thread that created it; 0: not known */
    pid_t detached_child; /* the follower's too: its last vfork child that was detached; 0: none */
    uint64_t gs;          /* what the follower gave it; 0: nothing */
    uint64_t pc, sp;      /* of a stopped thread; 0: not known */
};

struct trace_stop;

/* The owner of the threads of a stop, that is notified of what happens to them. */
struct trace_stop_follower {
    void *context;
    int first_options; /* ptrace options of the first thread of a process, besides */
    /* `status` as waitpid gave it, after the thread's state was set, before it goes on. In a
     * PTRACE_EVENT_EXEC the thread may be moved to another stop: the result is the one that has it now. It
     * may add threads, and removes none. In a PTRACE_EVENT_EXIT it continues the thread itself. */
    struct trace_stop *(*on_status)(void *context, struct trace_stop *stop, pid_t tid, int status);
    /* A thread that is traced by us, and not in the table: 1 when it was added, 0 when it belongs elsewhere,
     * or an error. */
    int (*on_found)(void *context, struct trace_stop *stop, pid_t process, pid_t tid);
    /* Resumes all stopped threads: a stop failed. */
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
    uint64_t delivered; /* signals that stopped a thread before it got them */
};

/* Stops process `pid`. *stop is {0}, or of an ended stop of the same process. On failure all threads run
 * again and the message says why: BASE_EPERMISSION, BASE_ENOTFOUND (gone), BASE_EBUSY (a tracer; a thread
 * that does not stop), BASE_EUNSUPPORTED. */
int trace_stop_begin(struct trace_stop *stop, pid_t pid, struct base_error *error);

/* With a follower: seizes all threads of process `pid` that are not known, until there are none, and stops
 * nothing. Returns how many, or an error as above; what was seized stays so. */
int trace_stop_follow(struct trace_stop *stop, pid_t pid, struct base_error *error);

/* With a follower: sets the ptrace options of a stopped thread, which may have inherited others. */
void trace_stop_set_options(const struct trace_stop *stop, const struct trace_stop_thread *thread);

/* With a follower: seizes a DETACHED thread again; it runs. 1: seized; 0: it is ending, and is GONE; or an
 * error as above. */
int trace_stop_reseize(struct trace_stop *stop, struct trace_stop_thread *thread, struct base_error *error);

/* Detaches every thread. Returns how many linger. */
size_t trace_stop_end(struct trace_stop *stop);

/* Detaches lingering threads that have stopped since; returns how many are left. May be called at any
 * time. */
size_t trace_stop_poll(struct trace_stop *stop);

/* Is a thread on its way into the trap? If the tracer ended now, which detaches it, a call that the trap has
 * interrupted would not be restarted. Threads that do not wake (state D) are ignored. */
bool trace_stop_awaits(const struct trace_stop *stop);

/* Frees memory. Lingering threads are detached when the calling thread ends. */
void trace_stop_free(struct trace_stop *stop);

/* --- one thread, at any time --- */

/* Handles what waitpid reported of a thread, when the caller waits for all threads at once. Without a
 * follower, a lingering thread is detached. BASE_ENOTFOUND: it is not in the table. After other errors it
 * will be reported again. */
int trace_stop_handle_status(struct trace_stop *stop, pid_t tid, int status);

/* Adds a thread that is traced already, and is about to trap. BASE_ENOMEM, or BASE_OK. Pointers to threads
 * become invalid. */
int trace_stop_add(struct trace_stop *stop, pid_t process, pid_t tid, uint32_t life);

/* Forgets one that is detached or has ended. Pointers to threads become invalid. */
void trace_stop_forget(struct trace_stop *stop, pid_t tid);

/* Requests the trap. */
void trace_stop_interrupt(struct trace_stop_thread *thread);

/* Resumes a thread from the trap, still traced: one that was stopped by job control stays so. */
void trace_stop_resume(struct trace_stop_thread *thread);

/* Resumes a thread from the trap, and detaches it: the state becomes GONE, or KERNEL when it was killed and
 * its end has not been reported yet. */
void trace_stop_detach(struct trace_stop_thread *thread);

/* The thread is stopped before a signal's delivery, and will continue with `registers`: is the signal of an
 * agent's timer, and would it end with EINTR a call that only our stop has interrupted? Then it must not be
 * delivered. */
bool trace_stop_drops_signal(pid_t tid, const struct user_regs_struct *registers);

/* Sets pc and sp of a KERNEL thread, which may be a copy, if it sleeps inside a system call: /proc has them.
 * For any process. */
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
 * program runs. TRACE_STOP_NO_SIGNAL: a status with no signal that the program should get. */
#define TRACE_STOP_NO_SIGNAL ((SIGTRAP | 0x80) << 8 | 0x7f)
int trace_stop_settle(struct trace_stop *stop, struct trace_stop_thread *thread, int status,
                      struct base_error *error);

#endif
