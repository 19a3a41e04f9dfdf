/* space_place.h - memory for the code and counters of objects, and room in it for their next patches.
 * Context: tool, one thread. */
#ifndef SPACE_PLACE_H
#define SPACE_PLACE_H

#include "space.h"

#define SPACE_CODE_AHEAD (64ull << 20) /* of addresses, not of memory: room for many libraries */

/* Memory for objects that have none. The space is held. An object for which there is no room is left
 * uncounted, and counted as a loss. */
int space_place(struct space *space, struct space_session *session, struct base_error *error);

/* The same for objects to come, near what is mapped now; so much less is to be done when they are there. The
 * space is held. What cannot be had is not needed yet. */
void space_place_ahead(struct space *space, struct space_session *session);

/* Does space_place have to map anything? If not, it needs no hold: objects have taken their room. */
bool space_place_is_needed(struct space *space);

/* Room for the next patch of every object that needs one, or (`all`) of all. The space is held, unless all
 * have it. */
int space_place_rooms(struct space *space, struct space_session *session, bool all, struct base_error *error);
/* Takes room for one in what is mapped. False: all that is mapped is full. */
bool space_place_take_room(struct space *space, struct space_object *object);

bool space_place_needs_patch(const struct space_object *object, bool all);
/* Is the process still there? What cannot be mapped in it is then for want of room. */
bool space_place_is_there(const struct space *space);

#endif
