/* space_totals.h - whose counts are whose: the counters of one space, added up by thread and published to the
 * profile.
 *
 * The final counts of a thread that has ended are published some time after its end, and its counters are
 * used again. Of one that lives running totals are published, which take the place of earlier ones. The first
 * thread's calls are those of its own counters and of all that are shared: they were made while it was alone,
 * or by threads that have none. In the form LOCK all calls are shared, and are no thread's. Of a process that
 * has had many threads the later ones are not kept apart, except those whose running totals were.
 *
 * What cannot be published for lack of memory is counted as a loss. Context: tool, one thread. */
#ifndef SPACE_TOTALS_H
#define SPACE_TOTALS_H

#include "sample_process.h"
#include "space.h"

/* Everything; `final`: nothing counts there any more. */
void space_totals_publish(struct space *space, struct space_session *session,
                          struct sample_processes *processes, bool final);
/* The threads that had ended at that time (CLOCK_MONOTONIC), but not the first one. */
void space_totals_publish_ended(struct space *space, struct space_session *session,
                                struct sample_processes *processes, uint64_t until);

/* Adds up what all threads that live have counted so far. What cannot be read is left out. */
void space_totals_read(const struct space *space, struct slab_counts *counts);

#endif
