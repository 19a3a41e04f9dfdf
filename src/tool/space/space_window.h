/* space_window.h - memory for hooks over endbr64.
 *
 * Such a hook replaces four bytes only: the fifth, which stays, is the highest byte of the jump's
 * displacement. So its code must lie in a window of 16 MiB at a distance that the program's bytes determine
 * (slab_hook_window). Hooks with the same byte share a mapping; compilers begin functions in few ways, so an
 * object needs a dozen or two. Where a window is taken by the program, its hooks are left out: a counted
 * reason. Context: tool, one thread. */
#ifndef SPACE_WINDOW_H
#define SPACE_WINDOW_H

#include "space.h"

/* Has the object hooks that may not lie anywhere in reach? */
bool space_window_needed(const struct space_object *object);
/* Maps what the object's hooks need: object->first_window, window_count. The space is held. */
int space_window_place(struct space *space, struct space_session *session, struct space_object *object,
                       struct base_error *error);

/* The free rest of each of the object's windows; regions has room for window_count. */
void space_window_regions(const struct space *space, const struct space_object *object,
                          struct slab_region *regions);
/* What a slab has used of them. */
void space_window_use(struct space *space, const struct space_object *object,
                      const struct slab_region *regions);

#endif
