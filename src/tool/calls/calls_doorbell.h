/* calls_doorbell.h - learning that processes load objects, at once and for any number of processes.
 *
 * The doorbell in a process (stub_doorbell.h) notifies and waits. A thread listens (loader_listen.h);
 * everything else is done by the session's. Context: tool; the thread that made the listener. */
#ifndef CALLS_DOORBELL_H
#define CALLS_DOORBELL_H

#include "loader_listen.h"
#include "space.h"

/* Installs a doorbell in the space's ld.so and listens to it. The space is held, and its mappings are read.
 * With `code_ahead` bytes of an arena beside it, for what the loader will load; 0: none. 1: installed; 0: the
 * program has no ld.so, or one where no doorbell fits. */
int calls_doorbell_install(struct space *space, struct space_session *session, struct loader_listen *listen,
                           uint64_t code_ahead, struct base_error *error);
/* The same, but the loader does not notify yet: space->doorbell_change is made together with the next changes
 * of the text. */
int calls_doorbell_prepare(struct space *space, struct space_session *session, struct loader_listen *listen,
                           uint64_t code_ahead, struct base_error *error);
/* The loader notifies from now on. The space is held, and its doorbell prepared. On failure it is as
 * before. */
int calls_doorbell_notification(struct space *space, struct space_session *session, struct base_error *error);
/* Somebody else has changed the place where the loader notifies: what is still ours there is undone, and the
 * loader notifies no more. The space is held. False: it is as we left it. */
bool calls_doorbell_lift(struct space *space, struct space_session *session);
/* Listens to the doorbell that a fork child has from its parent. */
int calls_doorbell_listen(struct space *space, struct loader_listen *listen, struct base_error *error);
/* After this the listener does not read the space's doorbell any more. */
void calls_doorbell_forget(const struct space *space, struct loader_listen *listen);

/* Has it notified since it was last answered? *notified is what to answer. */
bool calls_doorbell_notifications(const struct space *space, uint32_t *notified);
void calls_doorbell_answer(struct space *space, uint32_t notified);
/* A thread that waited too long for an answer has disabled the doorbell (stub_doorbell.h): enables it again,
 * before the objects are surveyed. True: it was disabled, and calls of objects that were loaded meanwhile
 * went uncounted. */
bool calls_doorbell_reopen(struct space *space);
/* Is the list of objects complete, rather than about to change? */
bool calls_doorbell_settled(const struct space *space);
/* No thread waits there any more, now or later. */
void calls_doorbell_silence(struct space *space);

#endif
