/* trace_follow_inside.h - the tables of following, for trace_follow*.c alone. Context: helper, one thread. */
#ifndef TRACE_FOLLOW_INSIDE_H
#define TRACE_FOLLOW_INSIDE_H

#include "trace_follow.h"

/* --- trace_follow_tables.c --- */

/* Empty; NULL: out of memory. The processes' records move when one is added or dropped. */
struct trace_follow_space *trace_follow_add_space(struct trace_follow *follow, pid_t pid);
struct trace_follow_process *trace_follow_add_process(struct trace_follow *follow, pid_t pid,
                                                      struct trace_follow_space *space);
void trace_follow_drop_process(struct trace_follow *follow, struct trace_follow_process *process);

/* Spaces are freed only here, between commands: whoever works on one may go on. */
void trace_follow_drop_empty_spaces(struct trace_follow *follow);

/* Where a living thread is; NULL: nobody here knows it. */
struct trace_follow_space *trace_follow_find_space(const struct trace_follow *follow, pid_t tid);
/* Does a thread of the process live there? */
bool trace_follow_has_thread(const struct trace_follow_space *space, pid_t process);

/* Nothing is told of a process that is being left. */
void trace_follow_emit(struct trace_follow *follow, const struct trace_event *event);
void trace_follow_emit_thread(struct trace_follow *follow, enum trace_event_kind kind,
                              const struct trace_stop_thread *thread, pid_t parent);
/* The thread is GONE; its DEATH is told if its BIRTH was. */
void trace_follow_thread_ended(struct trace_follow *follow, struct trace_stop_thread *thread);

/* `member` of the cost of a process, and of all. */
#define TRACE_FOLLOW_COUNT(follow, pid, member, amount)                                                      \
    do {                                                                                                     \
        struct trace_follow_process *counted_ = trace_follow_process(follow, pid);                           \
        if (counted_)                                                                                        \
            counted_->cost.member += (amount);                                                               \
        (follow)->total.member += (amount);                                                                  \
    } while (0)

/* --- trace_follow_detach.c --- */

/* The space is traced again, or gone: the time that it was loose is noted. */
void trace_follow_end_detached(struct trace_follow *follow, struct trace_follow_space *space);

#endif
