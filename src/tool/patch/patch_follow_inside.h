/* patch_follow_inside.h - the tables of following, for patch_follow*.c alone. Context: helper, one thread. */
#ifndef PATCH_FOLLOW_INSIDE_H
#define PATCH_FOLLOW_INSIDE_H

#include "patch_follow.h"

/* --- patch_follow_tables.c --- */

/* Empty; NULL: out of memory. The processes' records move when one is added or dropped. */
struct patch_follow_space *patch_follow_add_space(struct patch_follow *follow, pid_t pid);
struct patch_follow_process *patch_follow_add_process(struct patch_follow *follow, pid_t pid,
                                                      struct patch_follow_space *space);
void patch_follow_drop_process(struct patch_follow *follow, struct patch_follow_process *process);

/* Spaces are freed only here, between commands: whoever works on one may go on. */
void patch_follow_drop_empty_spaces(struct patch_follow *follow);

/* Where a living thread is; NULL: nobody here knows it. */
struct patch_follow_space *patch_follow_find_space(const struct patch_follow *follow, pid_t tid);
/* Does a thread of the process live there? */
bool patch_follow_has_thread(const struct patch_follow_space *space, pid_t process);

/* Nothing is told of a process that is being left. */
void patch_follow_emit(struct patch_follow *follow, const struct patch_trace_event *event);
void patch_follow_emit_thread(struct patch_follow *follow, enum patch_trace_kind kind,
                              const struct patch_stop_thread *thread, pid_t parent);
/* The thread is GONE; its DEATH is told if its BIRTH was. */
void patch_follow_thread_ended(struct patch_follow *follow, struct patch_stop_thread *thread);

/* `member` of the cost of a process, and of all. */
#define PATCH_FOLLOW_COUNT(follow, pid, member, amount)                                                      \
    do {                                                                                                     \
        struct patch_follow_process *counted_ = patch_follow_process(follow, pid);                           \
        if (counted_)                                                                                        \
            counted_->cost.member += (amount);                                                               \
        (follow)->total.member += (amount);                                                                  \
    } while (0)

/* --- patch_follow_loose.c --- */

/* The space is traced again, or gone: the time that it was loose is noted. */
void patch_follow_end_looseness(struct patch_follow *follow, struct patch_follow_space *space);

#endif
