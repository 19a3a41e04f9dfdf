/* patch_slab_inside.h - the parts of making a slab, for patch_prepared.c, which has the code already.
 * Context: tool, any thread on its own data. */
#ifndef PATCH_SLAB_INSIDE_H
#define PATCH_SLAB_INSIDE_H

#include "patch_slab.h"

/* The outputs, empty; false: no memory (patch_slab_free takes what there is). */
bool patch_slab_begin(struct patch_slab *slab);
/* Adds what leads to hook `hook`, whose code lies at slab->entries[hook]; in the order of hooks. False: it is
 * out of reach, or no memory. */
bool patch_slab_lead(struct patch_slab *slab, uint32_t hook);
/* Lists writes and pieces, now that stubs and hooks have their places. False: no memory. */
bool patch_slab_finish(struct patch_slab *slab);

/* The wanted hook over the function of this image that is at a run-time address; PATCH_NONE: there is
 * none. */
uint32_t patch_slab_hook_at(const struct patch_slab *slab, uint64_t end);

/* Aims the stub of a site through a slot, which went straight to somewhere when it was made, at `end`, which
 * it reaches. */
void patch_slab_aim(struct patch_slab *slab, uint32_t site, uint64_t end);

/* Is the code what would be made now? Of a site that has a stub, of a hook that has an entry. */
bool patch_slab_stub_holds(const struct patch_slab *slab, uint32_t site);
bool patch_slab_hook_holds(const struct patch_slab *slab, uint32_t hook);

#endif
