/* space_prepared.h - stubs that an earlier recording made: moved to where they are needed now
 * (slab_prepared.h).
 *
 * The inputs of a launched program's first patches are recorded while it waits; their slabs are prepared and
 * cached beside everything else afterwards. Patches of programs that run already are not: what ld.so has
 * bound until then is seldom the same again. Context: tool. */
#ifndef SPACE_PREPARED_H
#define SPACE_PREPARED_H

#include "space.h"

/* Fills object->next's slab, whose `resolve` returns what slots lead to now, in place of slab_make. False:
 * the cache has none that fits; if `requested`, what is needed to prepare one is recorded in object->next.
 * Any thread, objects side by side. */
bool space_prepared_place(const struct space_object *object, bool requested);

/* Begins to prepare all that was recorded of the space's objects. For the collector's thread. */
void space_prepared_begin(struct space *space, struct space_session *session);
/* Waits until all is in the cache. */
void space_prepared_end(struct space_preparations *preparations);

#endif
