/* base_stack.h - stacks that are large enough under any limit (ulimit -s).
 *
 * Tally keeps tables on its stack, some hundred kB deep in all. A limit that is smaller than that is the
 * launched program's to bear: it is left as it is, and tally works on memory of its own. The size of a
 * thread's stack comes from the same limit. Context: tool. Source: getrlimit(2), makecontext(3),
 * pthread_attr_setstacksize(3). */
#ifndef BASE_STACK_H
#define BASE_STACK_H

#include <pthread.h>

#define BASE_STACK_SIZE (8ul << 20)

typedef int base_stack_work(void *context);

/* Calls work(context) and returns what it does; on a stack of BASE_STACK_SIZE where the limit is lower and
 * there is memory for one. */
int base_stack_run(base_stack_work *work, void *context);

/* pthread_create of a thread whose stack has at least BASE_STACK_SIZE; 0 or its error. */
int base_stack_thread(pthread_t *thread, void *(*work)(void *), void *context);

#endif
