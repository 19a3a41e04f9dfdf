/* heap_rig.h - the agent's heap wrappers, hooked over allocators of this process, for the tests of them. */
#ifndef HEAP_RIG_H
#define HEAP_RIG_H

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <ucontext.h>

#include <cmocka.h>

#include "agent_rig.h"

#define SITES 3
#define AWAY  __attribute__((noinline, noclone))

typedef void *malloc_function(size_t size);
typedef void *calloc_function(size_t count, size_t size);
typedef void *realloc_function(void *block, size_t size);
typedef void *reallocarray_function(void *block, size_t count, size_t size);
typedef void free_function(void *block);
typedef void *aligned_function(size_t alignment, size_t size);
typedef int posix_function(void **result, size_t alignment, size_t size);
extern struct agent_rig heap_rig;
extern malloc_function *heap_hooked_malloc;
extern calloc_function *heap_hooked_calloc;
extern realloc_function *heap_hooked_realloc;
extern reallocarray_function *heap_hooked_reallocarray;
extern free_function *heap_hooked_free;
extern aligned_function *heap_hooked_aligned;
extern posix_function *heap_hooked_posix;

void heap_begin(const struct agent_rig_options *options);

int heap_set_up(void **state);

int heap_tear_down(void **state);

struct agent_rig_figures heap_all(void);

uint64_t heap_loss(enum wire_agent_loss number);

/* Three places that allocate. */
AWAY void *heap_site_0(size_t size);

AWAY void *heap_site_1(size_t size);

AWAY void *heap_site_2(size_t size);

extern malloc_function *const heap_sites[SITES];

#endif
