/* collect_calls_prepared.h - stubs that an earlier recording made: moved to where they are wanted now
 * (patch_prepared.h).
 *
 * What a launched program's first patches were made of is noted while it waits, and prepared and kept beside
 * everything else afterwards. Patches of programs that run already are not: what ld.so has bound until then
 * is seldom the same again. Context: tool. */
#ifndef COLLECT_CALLS_PREPARED_H
#define COLLECT_CALLS_PREPARED_H

#include "collect_calls_space.h"

/* Fills object->next's slab, whose `resolve` says what slots lead to now, in place of patch_slab_make. False:
 * nothing that fits is kept; if `wished`, what is needed to prepare it is noted in object->next. Any thread,
 * objects side by side. */
bool collect_calls_prepared_place(const struct collect_calls_object *object, bool wished);

/* Begins to prepare all that was noted of the space's objects. For the collector's thread. */
void collect_calls_prepared_begin(struct collect_calls_space *space, struct collect_calls_rig *rig);
/* Waits until all is kept. */
void collect_calls_prepared_end(struct collect_calls_preparations *preparations);

#endif
