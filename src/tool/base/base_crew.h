/* base_crew.h - work that a target waits for, done on all processors.
 *
 * Context: tool, the helper too; the work runs on several threads at once, each job on one. */
#ifndef BASE_CREW_H
#define BASE_CREW_H

#include <stddef.h>

typedef void base_crew_job(void *context, size_t number);

/* Does jobs 0 to count - 1, begun in this order, and returns when all are done. Where no further thread can
 * be had, or none gets a processor, the caller's does them all. */
void base_crew(size_t count, base_crew_job *job, void *context);

#endif
