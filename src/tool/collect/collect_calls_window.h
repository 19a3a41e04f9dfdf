/* collect_calls_window.h - memory for hooks over endbr64.
 *
 * Such a hook replaces four bytes only: the fifth, which stays, is the highest byte of the jump's
 * displacement. So its code must lie in a window of 16 MiB at a distance that the program's bytes dictate
 * (patch_slab_window). Hooks with the same byte share a mapping; compilers begin functions in few ways, so an
 * object needs a dozen or two. Where a window is taken by the program, its hooks are left out: a counted
 * reason. Context: tool, one thread. */
#ifndef COLLECT_CALLS_WINDOW_H
#define COLLECT_CALLS_WINDOW_H

#include "collect_calls_space.h"

/* Maps what the object's hooks need: object->first_window, window_count. The space is held. */
/* Has the object hooks that may not lie anywhere? */
bool collect_calls_window_needed(const struct collect_calls_object *object);
int collect_calls_window_place(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct collect_calls_object *object, struct base_error *error);

/* The free rest of each of the object's windows; regions has room for window_count. */
void collect_calls_window_regions(const struct collect_calls_space *space,
                                  const struct collect_calls_object *object,
                                  struct patch_slab_region *regions);
/* What a slab has used of them. */
void collect_calls_window_use(struct collect_calls_space *space, const struct collect_calls_object *object,
                              const struct patch_slab_region *regions);

#endif
