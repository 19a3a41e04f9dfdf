/* calls_detach.h - detaching from a process while it creates no threads and no processes, so that its signals
 * cost nothing.
 *
 * A process that was quiet for a second - no thread or process created, no exec, no notification - gets
 * doorbells on the functions that create (plan_creation.h), the first time, and is detached
 * (helper_trace_detach). A notification has it reattached, and is answered only then: what is created is
 * created under ptrace, as before. When that has happened often, the quiet must last longer: 2, 4, 8 ... 60
 * seconds.
 *
 * A process stays attached
 *   when one of its images makes such calls and can have no doorbell there,
 *   when that image is one whose calls are counted (its functions' entries are hooked themselves),
 *   when somebody else changed such a function,
 *   when it has no loader that could notify of further images, or whose doorbell had to be removed
 *     (calls_doorbell_lift).
 * A doorbell goes over an agent's hook, and is removed before it. The profile's calls_held says why. Context:
 * tool, one thread. */
#ifndef CALLS_DETACH_H
#define CALLS_DETACH_H

#include "space.h"

/* It creates or created a thread or process, or notified. */
void calls_detach_note_activity(struct space *space);

/* To be called now and then: detaches from the process if it is time. What fails is tried again later. */
void calls_detach_tend(struct space *space, struct space_session *session);

/* Removes the doorbells, and the process stays traced. An agent that leaves before the counters finds its
 * hooks as it set them. What somebody else has changed stays known, to be reported when the process is left;
 * on failure all of them do. */
int calls_detach_end(struct space *space, struct space_session *session, struct base_error *error);

/* Somebody else has changed the place of the doorbell at `address`: what is still ours there is undone, and
 * the doorbell forgotten, so that the process stays traced until the place is as in its file again. The space
 * is held. False: none is there, or it is as we left it. */
bool calls_detach_lift(struct space *space, struct space_session *session, uint64_t address);
/* The process is held, and traced from now on until it was quiet again. */
void calls_detach_close(struct space *space, struct space_session *session);

/* A doorbell has notified, and is to be answered after this. BASE_OK: the process is traced; BASE_ENOTFOUND:
 * it has ended. */
int calls_detach_reattach(struct space *space, struct space_session *session, struct base_error *error);

#endif
