/* profile_own.h - the part of a profile's samples that is Tally itself: what measuring costs inside the target.
 *
 * A sample is Tally's own when its innermost frame lies in the agent or in a stub that counts calls; frames of
 * the kernel and of the vDSO above that one are what they asked for. What the agent calls in the program's
 * name (the allocator behind a hook), and a signal handler of the program that interrupts it, have an
 * innermost frame of the program's, and are the program's. Exact counters have nothing of Tally's.
 *
 * Views show the program alone: whoever loads a profile to show it leaves these samples out, so that no share,
 * total or time per call has them in it or in what it is of; and Tally's frames between two of the program's
 * (a hook that the allocator is called through), as if it had called them itself. Context: tool. */
#ifndef PROFILE_OWN_H
#define PROFILE_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "profile.h"

/* PROFILE_AGENT_IMAGE or PROFILE_STUBS_IMAGE. */
bool profile_own_image(const struct profile *profile, uint32_t image);
/* Are samples in stubs told apart? Profiles of earlier versions have them among the program's. */
bool profile_own_has_stubs(const struct profile *profile);
/* Is what is counted at this node Tally's own? */
bool profile_own_node(const struct profile *profile, uint32_t node);

struct profile_own {
    uint64_t samples, stub_samples; /* of the former, in stubs */
};

/* Takes Tally's own samples out of the cells, and its frames out of the stacks of the others. What is no longer
 * there is known by profile_own_left_out. The profile must have been loaded and cannot be stored afterwards;
 * when memory ran out it is good only to be freed. */
int profile_own_leave_out(struct profile *profile, struct base_error *error);
/* For whoever reads samples from the file's timeline: turns a node of the file into that of the same stack
 * without Tally's frames. False: the sample was left out. As it was if nothing was left out. */
bool profile_own_program_node(const struct profile *profile, uint32_t *node, uint16_t counter);
/* What was taken out of a counter; nothing if nothing was. */
struct profile_own profile_own_left_out(const struct profile *profile, uint32_t counter);
/* What of a counter is Tally's own, left out or not. */
struct profile_own profile_own_sum(const struct profile *profile, uint32_t counter);
/* All samples of a counter, with Tally's own, left out or not. */
uint64_t profile_own_all_samples(const struct profile *profile, uint32_t counter);

#endif
