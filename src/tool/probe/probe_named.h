/* probe_named.h - a file of functions that allocate or release under other names (--alloc-functions).
 *
 *   # a comment; a line is NAME[@IMAGE] = ROLE
 *   shop_alloc         = malloc             (size)
 *   arena_get@shop*    = pool-malloc        (anything, size)
 *
 * NAME is as in symbol_name.h, IMAGE as in plan_function.h: globs are allowed. ROLE says what the arguments
 * are: malloc, calloc, realloc, reallocarray, free, aligned_alloc, memalign, posix_memalign, valloc as those
 * of the C library; pool-malloc, pool-calloc, pool-realloc, pool-free with one argument more before theirs,
 * which is not looked at. Of two lines that name one function, the first has it. Context: tool. */
#ifndef PROBE_NAMED_H
#define PROBE_NAMED_H

#include <stddef.h>

#include "base_error.h"
#include "plan_function.h"
#include "wire_agent_entry.h"

struct probe_named_function {
    struct plan_function_request request; /* strings are the list's */
    enum wire_agent_entry entry;
    unsigned line;
    const char *file; /* whose line it is: the caller's, as it was given */
};

struct probe_named { /* zero it first */
    struct probe_named_function *items;
    size_t count, capacity;
};

/* Adds the functions of a file to the list. Errors name the file and the line; the list then is as it was. */
int probe_named_read(struct probe_named *named, const char *path, struct base_error *error);
void probe_named_free(struct probe_named *named);

#endif
