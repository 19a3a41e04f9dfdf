/* trace_follow_inside.h - what the files trace_follow*.c share. Each calls only those below it here.
 * Context: helper, one thread. */
#ifndef TRACE_FOLLOW_INSIDE_H
#define TRACE_FOLLOW_INSIDE_H

#include "trace_follow.h"

/* --- trace_follow_create.c --- */

/* The space is held: its only thread is stopped. */
void trace_follow_hold_new(struct trace_follow_space *space);
/* The thread is stopped in its first trap, and its creator is known as far as it can be. */
void trace_follow_thread_created(struct trace_follow *follow, struct trace_follow_space *space,
                                 struct trace_stop_thread *thread);
/* `event`: of ptrace, that announced `right`; 0: none. Where the kernel cannot say (no CONFIG_KCMP), a vfork
 * child shares memory and any other process does not. */
bool trace_follow_shares_memory(pid_t left, pid_t right, int event);
/* `creator` has stopped with `event`: the thread or process that it announces. */
void trace_follow_announce(struct trace_follow *follow, struct trace_follow_space *space, pid_t creator,
                           int event);
/* A stop found the thread before its creator announced it: trace_stop_follower.found. */
int trace_follow_found(void *context, struct trace_stop *stop, pid_t process, pid_t tid);
/* A thread that nobody has announced has stopped, or ended. */
void trace_follow_keep_orphan(struct trace_follow *follow, pid_t tid, int status);
void trace_follow_adopt_orphans(struct trace_follow *follow);

/* --- trace_follow_gs.c --- */

/* Writes thread->gs to the stopped thread. */
int trace_follow_write_gs(const struct trace_stop_thread *thread);
/* The next gs base of the pool; false: it is empty. */
bool trace_follow_take_gs(struct trace_follow_space *space, uint64_t *gs);
/* The thread is stopped in its first trap, or NEEDS a gs base: it gets this one, and is reported. */
void trace_follow_start_thread(struct trace_follow *follow, struct trace_stop_thread *thread, uint64_t gs);
/* The pool is empty: the thread stays stopped, and so does its creator. */
void trace_follow_need_gs(struct trace_follow *follow, struct trace_follow_space *space,
                          struct trace_stop_thread *thread);
/* Threads that NEED a gs base get one, in order, and go on. `with_nothing`: those that the pool has none for
 * get 0. */
void trace_follow_serve_needs(struct trace_follow *follow, struct trace_follow_space *space,
                              bool with_nothing);

/* --- trace_follow_settle.c --- */

/* Who stays stopped until this thread has been detached: from now on it no longer does. 0: nobody. */
pid_t trace_follow_take_forker(struct trace_stop_thread *thread);
/* A thread in the trap that no mark keeps stopped goes on, or is detached. */
void trace_follow_settle(struct trace_follow *follow, struct trace_follow_space *space, pid_t tid);
void trace_follow_settle_all(struct trace_follow *follow, struct trace_follow_space *space);
/* The hold of the space ends. */
void trace_follow_resume(struct trace_follow *follow, struct trace_follow_space *space);
/* The thread that forked goes on. 0: there is none. */
void trace_follow_resume_forker(struct trace_follow *follow, pid_t tid);
/* Creators whose new threads all have their gs base go on. */
void trace_follow_resume_creators(struct trace_follow *follow, struct trace_follow_space *space);
/* The thread gets the mark `why`, and runs no further instruction of the program before its next stop. */
void trace_follow_keep_stopped(struct trace_stop_thread *thread, enum trace_follow_life why);

/* --- trace_follow_tables.c --- */

/* Empty; NULL: out of memory. The processes' records move when one is added or dropped. */
struct trace_follow_space *trace_follow_add_space(struct trace_follow *follow, pid_t pid);
struct trace_follow_process *trace_follow_add_process(struct trace_follow *follow, pid_t pid,
                                                      struct trace_follow_space *space);
void trace_follow_drop_process(struct trace_follow *follow, struct trace_follow_process *process);
/* The space is traced again, or gone: the time that it was detached is counted. */
void trace_follow_end_detached(struct trace_follow *follow, struct trace_follow_space *space);

/* Spaces are freed only here, between commands: whoever works on one may go on. */
void trace_follow_drop_empty_spaces(struct trace_follow *follow);

/* Where a living thread is; NULL: no space here has it. */
struct trace_follow_space *trace_follow_find_space(const struct trace_follow *follow, pid_t tid);
/* Has the space a living thread of the process? */
bool trace_follow_has_thread(const struct trace_follow_space *space, pid_t process);
/* The process that has the space for itself; NULL: there are several. */
struct trace_follow_process *trace_follow_owner(struct trace_follow *follow,
                                                const struct trace_follow_space *space);
/* Of which process the thread's creator is. */
pid_t trace_follow_parent_of(const struct trace_follow *follow, const struct trace_stop_thread *thread);

/* Queues an event, unless its process is being left. */
void trace_follow_emit(struct trace_follow *follow, const struct trace_event *event);
void trace_follow_emit_thread(struct trace_follow *follow, enum trace_event_kind kind,
                              const struct trace_stop_thread *thread, pid_t parent);
/* The thread becomes GONE; EXITED is reported if CREATED was. */
void trace_follow_thread_ended(struct trace_follow *follow, struct trace_stop_thread *thread);

/* `member` of the cost of a process, and of all. */
#define TRACE_FOLLOW_COUNT(follow, pid, member, amount)                                                      \
    do {                                                                                                     \
        struct trace_follow_process *counted_ = trace_follow_process(follow, pid);                           \
        if (counted_)                                                                                        \
            counted_->cost.member += (amount);                                                               \
        (follow)->total.member += (amount);                                                                  \
    } while (0)

#endif
