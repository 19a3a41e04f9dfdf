/* calls_doorbell.h - hearing that processes load objects, at once and for any number of processes.
 *
 * The bell in a process (stub_doorbell.h) rings and waits. It is heard by a thread (loader_listen.h);
 * everything else is done by the session's. Context: tool; the thread that made the listener. */
#ifndef CALLS_DOORBELL_H
#define CALLS_DOORBELL_H

#include "loader_listen.h"
#include "space.h"

/* Installs a bell in the space's ld.so and listens to it. The space is held and looked at. With `code_ahead`
 * bytes of an arena beside it, for what the loader will load; 0: none. 1: installed; 0: the program has no
 * ld.so, or one where no bell fits. */
int calls_doorbell_install(struct space *space, struct space_session *session, struct loader_listen *listen,
                           uint64_t code_ahead, struct base_error *error);
/* The same, but that the loader does not ring yet: space->bell_change is made together with the next changes
 * of the text. */
int calls_doorbell_prepare(struct space *space, struct space_session *session, struct loader_listen *listen,
                           uint64_t code_ahead, struct base_error *error);
/* The loader rings from now on. The space is held, and its bell prepared. On failure it is as before. */
int calls_doorbell_notification(struct space *space, struct space_session *session, struct base_error *error);
/* Somebody else has changed the place where the loader rings: what is still ours there is undone, and the loader rings no more. The space
 * is held. False: it is as we left it. */
bool calls_doorbell_lift(struct space *space, struct space_session *session);
/* Listens to the bell that a fork child has from its parent. */
int calls_doorbell_listen(struct space *space, struct loader_listen *listen, struct base_error *error);
/* After this the listener does not look at the space's bell any more. */
void calls_doorbell_forget(const struct space *space, struct loader_listen *listen);

/* Has it rung since it was last answered? *rung is what to answer. */
bool calls_doorbell_notifications(const struct space *space, uint32_t *notified);
void calls_doorbell_answer(struct space *space, uint32_t notified);
/* Who waited for an answer too long has closed the bell (stub_doorbell.h): opens it again, before the objects are looked at. True: it was
 * closed, and calls of objects that were loaded meanwhile went uncounted. */
bool calls_doorbell_reopen(struct space *space);
/* Is the list of objects complete, rather than about to change? */
bool calls_doorbell_settled(const struct space *space);
/* Nobody waits any more, now or later. */
void calls_doorbell_silence(struct space *space);

#endif
