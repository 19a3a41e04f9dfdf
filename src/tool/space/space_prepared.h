/* space_prepared.h - stubs that an earlier recording made: moved to where they are wanted now
 * (slab_prepared.h).
 *
 * What a launched program's first patches were made of is noted while it waits, and prepared and kept beside
 * everything else afterwards. Patches of programs that run already are not: what ld.so has bound until then
 * is seldom the same again. Context: tool. */
#ifndef SPACE_PREPARED_H
#define SPACE_PREPARED_H

#include "space.h"

/* Fills object->next's slab, whose `resolve` says what slots lead to now, in place of slab_make. False:
 * nothing that fits is kept; if `requested`, what is needed to prepare it is noted in object->next. Any thread,
 * objects side by side. */
bool space_prepared_place(const struct space_object *object, bool requested);

/* Begins to prepare all that was noted of the space's objects. For the collector's thread. */
void space_prepared_begin(struct space *space, struct space_rig *rig);
/* Waits until all is kept. */
void space_prepared_end(struct space_preparations *preparations);

#endif
