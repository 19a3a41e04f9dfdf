/* collect_calls_build.h - from planned objects of a space to counted ones: place, make, apply
 * (collect_calls_space.h). Context: tool, one thread. */
#ifndef COLLECT_CALLS_BUILD_H
#define COLLECT_CALLS_BUILD_H

#include "collect_calls_space.h"

#define COLLECT_CALLS_CODE_AHEAD (64ull << 20) /* of addresses, not of memory: room for many libraries */

/* Memory for objects that have none. The space is held. An object for which there is no room is left
 * uncounted, and said. */
int collect_calls_build_place(struct collect_calls_space *space, struct collect_calls_rig *rig,
                              struct base_error *error);

/* The same for objects to come, near what is mapped now; so much less is to be done when they are there. The
 * space is held. What cannot be had is not needed yet. */
void collect_calls_build_ahead(struct collect_calls_space *space, struct collect_calls_rig *rig);

/* object->next for every live object that has no patch or a stale one, or (`all`) for every one, in the
 * space's form. */
int collect_calls_build_make(struct collect_calls_space *space, bool all, struct base_error *error);

/* Puts every object->next in force, which the helper was told of, wholly or not at all. The space is held.
 * BASE_EBUSY: text in memory was not as expected; object->wanted leaves those places out now, and `next` is
 * gone: make and apply again. */
int collect_calls_build_apply(struct collect_calls_space *space, struct collect_calls_rig *rig,
                              struct base_error *error);

/* All three; holds the space unless it is `held` by an event. */
int collect_calls_build_all(struct collect_calls_space *space, struct collect_calls_rig *rig, bool held,
                            struct base_error *error);

/* Somebody else has changed the place of a write of object->patch: what is still ours there, around a breakpoint, is undone, and the place
 * is left out from now on; where nothing is, space->taken counts it. The space is held. False: it is as we left it, or was lifted before. */
bool collect_calls_build_lift(struct collect_calls_space *space, struct collect_calls_rig *rig,
                              struct collect_calls_object *object, const struct patch_write *write);
/* Was it? */
bool collect_calls_build_is_lifted(const struct collect_calls_object *object,
                                   const struct patch_write *write);

/* Leads all sites to stubs of another form. The space is held. On failure they stay as they are. */
int collect_calls_build_change_form(struct collect_calls_space *space, struct collect_calls_rig *rig,
                                    enum patch_form form, struct base_error *error);

/* Marks objects some of whose calls go through slots that were bound since their stubs were made, to
 * functions with hooks: the next make is for them too. Slots were read just now. False: there are none. */
bool collect_calls_build_mark_bound(struct collect_calls_space *space);

/* Reads the words that ld.so fills, of all live objects; what cannot be read keeps its value. */
void collect_calls_build_read_slots(struct collect_calls_space *space);

/* A write as the helper takes it: from what is in the file to what is wanted. */
struct patch_memory_change collect_calls_build_change(const struct patch_write *write);

/* Forgets what was made and is not in force. */
void collect_calls_patch_release(struct collect_calls_patch *patch);

#endif
