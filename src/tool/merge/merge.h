/* merge.h - several recordings in one profile, each distinguished by the origin of its processes.
 *
 * What is the same becomes one: counters by name (unit and kind must agree), images by build-id, functions,
 * addresses, nodes of the tree, edges. Figures are added cell by cell, and since no two recordings share a
 * thread, each cell is still of one of them; only what a recording itself ascribes to no thread is summed. So
 * are losses. Sums over the merged profile are those of its parts.
 *
 * An image without a build-id is taken for the same only if the functions that both recordings name in it say
 * so: at the same places, or, for the kernel and its modules, at places that all differ by one number, as
 * when it was loaded elsewhere. Addresses are then those of the first recording. Otherwise it stays an image
 * of its own.
 *
 * Of every recording all meta values are kept as "origin.N.KEY", N from 1, with "origin.N.file" and a short,
 * unique "origin.N.name". The profile's own values are: sums (durations, CPU time, overheads), the earliest
 * start, complete if all are, all notices, and whatever else all have alike. Context: tool, one thread. */
#ifndef MERGE_H
#define MERGE_H

#include "base_error.h"
#include "profile.h"

/* Adds the recording (or the merged recordings) that was loaded from `file`, with its timeline, to a profile
 * that holds nothing but what this function put there. BASE_EUSAGE: the two do not go together, and the
 * message says why. After any failure `into` is of no use. */
int merge_add(struct profile *into, const struct profile *from, const char *file, struct base_error *error);

/* Call once after the last: names the origins, and settles the profile's own meta values. */
int merge_finish(struct profile *into, struct base_error *error);

#endif
