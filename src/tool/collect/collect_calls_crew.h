/* collect_calls_crew.h - work that a target waits for, done on all processors.
 *
 * Context: tool; the work runs on several threads at once, each job on one. */
#ifndef COLLECT_CALLS_CREW_H
#define COLLECT_CALLS_CREW_H

#include <stddef.h>

typedef void collect_calls_job(void *context, size_t number);

/* Does jobs 0 to count - 1, begun in this order, and returns when all are done. Where no further thread can be had, or none gets a
 * processor, the caller's does them all. */
void collect_calls_crew(size_t count, collect_calls_job *job, void *context);

#endif
