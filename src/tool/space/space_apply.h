/* space_apply.h - putting patches of a space in force. Context: tool, one thread. */
#ifndef SPACE_APPLY_H
#define SPACE_APPLY_H

#include "space.h"

/* Gives the helper the list of changes. Needs no hold, and makes it short. */
int space_apply_stage(const struct space *space, struct space_session *session, struct base_error *error);

/* Puts every object->next in force, which the helper was given, wholly or not at all. The space is held.
 * BASE_EBUSY: text in memory was not as expected; object->wanted leaves those places out now, and `next` is
 * gone: make, stage and apply again. */
int space_apply(struct space *space, struct space_session *session, struct base_error *error);

/* Somebody else has changed the place of a write of object->patch: what is still ours there, around a
 * breakpoint, is undone, and the place is left out from now on; where nothing is, space->overwritten counts
 * it. The space is held. False: it is as we left it, or was lifted before. */
bool space_apply_lift(struct space *space, struct space_session *session, struct space_object *object,
                      const struct slab_write *write);
/* Was it? */
bool space_apply_is_lifted(const struct space_object *object, const struct slab_write *write);

/* A write as the helper takes it: from what is in the file to what is wanted. */
struct trace_memory_change space_apply_change(const struct slab_write *write);

#endif
