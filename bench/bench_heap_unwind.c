/* bench_heap_unwind.c - a library for LD_PRELOAD: every allocation walks its stack by libunwind's unw_step,
 * and does nothing else.
 *
 * What a profiler of memory pays for stacks alone where it unwinds that way: the agent's whole cost is
 * compared with it. */
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

static void *(*next_malloc)(size_t size), *(*next_calloc)(size_t count, size_t size),
    *(*next_realloc)(void *block, size_t size);

static __thread int inside __attribute__((tls_model("initial-exec")));
static __thread volatile uint64_t frames __attribute__((tls_model("initial-exec")));

/* The next allocator's, which releases the blocks. dlsym allocates nothing where it finds what it looks
 * for. */
static void find_next(void)
{
    *(void **)&next_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
}

static void walk(void)
{
    unw_context_t context;
    unw_cursor_t cursor;
    if (!next_malloc)
        find_next();
    if (inside++ == 0 && unw_getcontext(&context) == 0 && unw_init_local(&cursor, &context) == 0)
        while (unw_step(&cursor) > 0)
            frames++;
    inside--;
}

EXPORTED void *malloc(size_t size)
{
    walk();
    return next_malloc(size);
}

EXPORTED void *calloc(size_t count, size_t size)
{
    walk();
    return next_calloc(count, size);
}

EXPORTED void *realloc(void *block, size_t size)
{
    walk();
    return next_realloc(block, size);
}
