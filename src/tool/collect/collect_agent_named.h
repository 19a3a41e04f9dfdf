/* collect_agent_named.h - a file of functions that allocate or release under other names (--alloc-functions).
 *
 *   # a comment; a line is NAME[@IMAGE] = ROLE
 *   shop_alloc         = malloc             (size)
 *   arena_get@shop*    = pool-malloc        (anything, size)
 *
 * NAME is as in symbol_name.h, IMAGE as in patch_function.h: globs are allowed. ROLE says what the arguments
 * are: malloc, calloc, realloc, reallocarray, free, aligned_alloc, memalign, posix_memalign, valloc as those
 * of the C library; pool-malloc, pool-calloc, pool-realloc, pool-free with one argument more before theirs,
 * which is not looked at. Of two lines that name one function, the first has it. Context: tool. */
#ifndef COLLECT_AGENT_NAMED_H
#define COLLECT_AGENT_NAMED_H

#include <stddef.h>

#include "base_error.h"
#include "patch_function.h"
#include "wire_agent_entry.h"

struct collect_agent_named_function {
    struct patch_function_wish wish; /* strings are the list's */
    enum wire_agent_entry entry;
    unsigned line;
    const char *file; /* whose line it is: the caller's, as it was given */
};

struct collect_agent_named { /* zero it first */
    struct collect_agent_named_function *items;
    size_t count, capacity;
};

/* Adds the functions of a file to the list. Errors name the file and the line; the list then is as it was. */
int collect_agent_named_read(struct collect_agent_named *named, const char *path, struct base_error *error);
void collect_agent_named_free(struct collect_agent_named *named);

#endif
