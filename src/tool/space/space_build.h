/* space_build.h - from planned objects of a space to counted ones: place, make, apply
 * (space.h). Context: tool, one thread. */
#ifndef SPACE_BUILD_H
#define SPACE_BUILD_H

#include "space.h"

#define SPACE_CODE_AHEAD (64ull << 20) /* of addresses, not of memory: room for many libraries */

/* Memory for objects that have none. The space is held. An object for which there is no room is left
 * uncounted, and said. */
int space_build_place(struct space *space, struct space_rig *rig, struct base_error *error);

/* The same for objects to come, near what is mapped now; so much less is to be done when they are there. The
 * space is held. What cannot be had is not needed yet. */
void space_build_ahead(struct space *space, struct space_rig *rig);

/* object->next for every live object that has no patch or a stale one, or (`all`) for every one, in the
 * space's form. */
int space_build_make(struct space *space, bool all, struct base_error *error);

/* Puts every object->next in force, which the helper was told of, wholly or not at all. The space is held.
 * BASE_EBUSY: text in memory was not as expected; object->wanted leaves those places out now, and `next` is
 * gone: make and apply again. */
int space_build_apply(struct space *space, struct space_rig *rig, struct base_error *error);

/* All three; holds the space unless it is `held` by an event. */
int space_build_all(struct space *space, struct space_rig *rig, bool held, struct base_error *error);

/* Somebody else has changed the place of a write of object->patch: what is still ours there, around a breakpoint, is undone, and the place
 * is left out from now on; where nothing is, space->taken counts it. The space is held. False: it is as we left it, or was lifted before. */
bool space_build_lift(struct space *space, struct space_rig *rig, struct space_object *object,
                      const struct slab_write *write);
/* Was it? */
bool space_build_is_lifted(const struct space_object *object, const struct slab_write *write);

/* Leads all sites to stubs of another form. The space is held. On failure they stay as they are. */
int space_build_change_form(struct space *space, struct space_rig *rig, enum stub_form form,
                            struct base_error *error);

/* Marks objects some of whose calls go through slots that were bound since their stubs were made, to
 * functions with hooks: the next make is for them too. Slots were read just now. False: there are none. */
bool space_build_mark_bound(struct space *space);

/* Reads the words that ld.so fills, of all live objects; what cannot be read keeps its value. */
void space_build_read_slots(struct space *space);

/* A write as the helper takes it: from what is in the file to what is wanted. */
struct trace_memory_change space_build_change(const struct slab_write *write);

/* Forgets what was made and is not in force. */
void space_patch_release(struct space_patch *patch);

#endif
