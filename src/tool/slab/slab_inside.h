/* slab_inside.h - the parts of making a slab, for slab_prepared.c, which has the code already.
 * Context: tool, any thread on its own data. */
#ifndef SLAB_INSIDE_H
#define SLAB_INSIDE_H

#include "slab.h"

/* The outputs, empty; false: no memory (slab_free takes what there is). */
bool slab_begin(struct slab *slab);
/* Adds what leads to hook `hook`, whose code lies at slab->entries[hook]; in the order of hooks. False: it is
 * out of reach, or no memory. */
bool slab_lead(struct slab *slab, uint32_t hook);
/* Lists writes and pieces, now that stubs and hooks have their places. False: no memory. */
bool slab_finish(struct slab *slab);

/* The wanted hook over the function of this image that is at a run-time address; PLAN_NONE: there is
 * none. */
uint32_t slab_hook_at(const struct slab *slab, uint64_t end);

/* Aims the stub of a site through a slot, which went straight to somewhere when it was made, at `end`, which
 * it reaches. */
void slab_aim(struct slab *slab, uint32_t site, uint64_t end);

/* Is the code what would be made now? Of a site that has a stub, of a hook that has an entry. */
bool slab_stub_holds(const struct slab *slab, uint32_t site);
bool slab_hook_holds(const struct slab *slab, uint32_t hook);

#endif
