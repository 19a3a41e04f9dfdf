/* calls_detach.h - letting a process go while nothing is born in it, so that its signals cost nothing.
 *
 * A process that was quiet for a second - no birth, fork, exec, no bell - gets bells on the functions that
 * births come from (plan_creation.h), the first time, and is let go (helper_trace_detach). A bell that rings
 * has it taken again, and is answered only then: the birth happens under ptrace, as it did before. When that
 * has happened often, the quiet must last longer: 2, 4, 8 ... 60 seconds. A process stays held when one of
 * its images makes such calls and can have no bell there, when that image is one whose calls are counted (its
 * functions' entries are hooked themselves), when somebody else changed such a function, or when it has no
 * loader that could tell of further images, or whose bell had to make way (calls_doorbell_lift). A bell
 * goes over an agent's hook, and goes before it. The profile's calls_held says why. Context: tool, one thread. */
#ifndef CALLS_DETACH_H
#define CALLS_DETACH_H

#include "space.h"

/* Something is or was born in it. */
void calls_detach_stir(struct space *space);

/* To be called now and then: lets the process go if it is time. What goes wrong is tried again later. */
void calls_detach_tend(struct space *space, struct space_session *session);

/* Takes the bells away, and the process stays traced. An agent that leaves before the counters finds its hooks as it set them. What
 * somebody else has changed stays known, to be told when the process is left; on failure all of them do. */
int calls_detach_end(struct space *space, struct space_session *session, struct base_error *error);

/* Somebody else has changed the place of the bell at `address`: what is still ours there is undone, and the bell forgotten, so that the
 * process stays traced until the place is as in its file again. The space is held. False: none is there, or it is as we left it. */
bool calls_detach_lift(struct space *space, struct space_session *session, uint64_t address);
/* The process is held, and traced from now on until it was quiet again. */
void calls_detach_close(struct space *space, struct space_session *session);

/* A bell has rung, and is to be answered after this. BASE_OK: the process is traced; BASE_ENOTFOUND: it has
 * ended. */
int calls_detach_take(struct space *space, struct space_session *session, struct base_error *error);

#endif
