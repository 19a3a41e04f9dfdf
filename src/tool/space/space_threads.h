/* space_threads.h - a block of counters for each thread of a space (form THREAD).
 *
 * Blocks lie in chunks of shared memory, anywhere in the space; a thread's gs base plus the space's gs_offset
 * is the address of its block. Free blocks are given to the helper in advance, so that a new thread has one
 * before it runs. The block of a thread that has ended is read, emptied and used again: memory is bounded by
 * the threads that live at one time. Context: tool, one thread. */
#ifndef SPACE_THREADS_H
#define SPACE_THREADS_H

#include "space.h"

/* Gives a running, held thread a block. */
int space_threads_assign(struct space *space, struct space_session *session, pid_t process, pid_t tid,
                         struct base_error *error);

/* Begins, and gives all threads of a held process one, but for `created` (0: none), which is only being
 * created. */
int space_threads_assign_all(struct space *space, struct space_session *session, pid_t created,
                             struct base_error *error);

/* The only thread of a fork child goes on in its creator's block, which begins anew, whatever became of the
 * creator meanwhile (it may have ended, and another thread may have its block). The child is held. */
int space_threads_inherit(struct space *child, struct space_session *session, struct base_error *error);

/* Fills the helper's pool when half of it is used; maps more when too little is free, and holds the space for
 * that unless it is `held`. What a thread's creation costs does not depend on how many threads there are:
 * pool and mappings grow with them. */
int space_threads_refill(struct space *space, struct space_session *session, bool held,
                         struct base_error *error);

/* The thread of a gs base; NULL: it is not one of ours. */
struct space_thread *space_threads_find(struct space *space, uint64_t gs);

/* Thread `tid` was given another block before it ran: the one that it was assigned is free again. */
void space_threads_withdraw(struct space *space, pid_t tid);

/* Changes the state of one of the space's threads. */
void space_threads_set(struct space *space, struct space_thread *thread, enum space_thread_state state);
/* The block of an ended thread is to be used again; its counts are forgotten. */
void space_threads_recycle(struct space *space, struct space_thread *thread);

/* Makes the index of space->threads anew, all of whose threads are free. BASE_ENOMEM. */
int space_threads_index(struct space *space, struct base_error *error);

#endif
