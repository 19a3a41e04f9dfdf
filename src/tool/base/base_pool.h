/* base_pool.h - work that a target waits for, done on all processors.
 *
 * Context: tool, the helper too; the work runs on several threads at once, each job on one. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stddef.h>

typedef void base_pool_job(void *context, size_t number);

/* Does jobs 0 to count - 1, begun in this order, and returns when all are done. Where no further thread can
 * be had, or none gets a processor, the caller's does them all. */
void base_pool(size_t count, base_pool_job *job, void *context);

#endif
