/* collect_calls_bell.h - hearing that processes load objects, at once and for any number of processes.
 *
 * The bell in a process (patch_bell.h) rings and waits. It is heard by a thread (collect_listen.h);
 * everything else is done by the session's. Context: tool; the thread that made the listener. */
#ifndef COLLECT_CALLS_BELL_H
#define COLLECT_CALLS_BELL_H

#include "collect_calls_space.h"
#include "collect_listen.h"

/* Installs a bell in the space's ld.so and listens to it. The space is held and looked at. With `code_ahead`
 * bytes of an arena beside it, for what the loader will load; 0: none. 1: installed; 0: the program has no
 * ld.so, or one where no bell fits. */
int collect_calls_bell_install(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct collect_listen *listen, uint64_t code_ahead, struct base_error *error);
/* The same, but that the loader does not ring yet: space->bell_change is made together with the next changes
 * of the text. */
int collect_calls_bell_prepare(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct collect_listen *listen, uint64_t code_ahead, struct base_error *error);
/* The loader rings from now on. The space is held, and its bell prepared. On failure it is as before. */
int collect_calls_bell_ring(struct collect_calls_space *space, struct collect_calls_rig *rig,
                            struct base_error *error);
/* Somebody else has changed the place where the loader rings: what is still ours there is undone, and the loader rings no more. The space
 * is held. False: it is as we left it. */
bool collect_calls_bell_lift(struct collect_calls_space *space, struct collect_calls_rig *rig);
/* Listens to the bell that a fork child has from its parent. */
int collect_calls_bell_listen(struct collect_calls_space *space, struct collect_listen *listen,
                              struct base_error *error);
/* After this the listener does not look at the space's bell any more. */
void collect_calls_bell_forget(const struct collect_calls_space *space, struct collect_listen *listen);

/* Has it rung since it was last answered? *rung is what to answer. */
bool collect_calls_bell_rings(const struct collect_calls_space *space, uint32_t *rung);
void collect_calls_bell_answer(struct collect_calls_space *space, uint32_t rung);
/* Who waited for an answer too long has closed the bell (patch_bell.h): opens it again, before the objects are looked at. True: it was
 * closed, and calls of objects that were loaded meanwhile went uncounted. */
bool collect_calls_bell_reopen(struct collect_calls_space *space);
/* Is the list of objects complete, rather than about to change? */
bool collect_calls_bell_settled(const struct collect_calls_space *space);
/* Nobody waits any more, now or later. */
void collect_calls_bell_silence(struct collect_calls_space *space);

#endif
