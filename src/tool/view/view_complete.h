/* view_complete.h - of which functions every call was counted, and of which only some.
 *
 * A count of calls is exact for the sites that were counted. It is the number of all calls of a function only
 * when nobody could call it unseen: its image is counted (a libc that is not calls its own functions), it is
 * covered (profile_set_uncovered tells which are not), and, where calls were chosen by names, its name is
 * among them. Only then is time divided by calls the time of a call. Profiles that do not say what was
 * counted (before version 3) are taken to have counted everything; of merged recordings of which only some
 * counted the same, and where a loss may concern any image (profile_extent.h), nothing is complete.
 * Context: tool. */
#ifndef VIEW_COMPLETE_H
#define VIEW_COMPLETE_H

#include <stdbool.h>
#include <stdint.h>

#include "profile.h"

struct view_complete {
    uint8_t *facts; /* by address of the profile */
};

/* False when memory ran out; view_complete_free is right in any case. */
bool view_complete_init(struct view_complete *complete, const struct profile *profile);
void view_complete_free(struct view_complete *complete);

/* Are all calls of the function that begins at this address counted? */
bool view_complete_callee(const struct view_complete *complete, uint32_t callee);
/* Are all calls from the function of this site (0: unknown) to that callee? */
bool view_complete_edge(const struct view_complete *complete, uint32_t site, uint32_t callee);

#endif
