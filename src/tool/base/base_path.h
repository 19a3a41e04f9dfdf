/* base_path.h - what a path that is written to really names.
 *
 * Who replaces a file (a new one beside it, then rename) would replace a link instead of what it leads to:
 * somebody's link to another disk, or /dev/stdout. Context: tool. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>

#include "base_error.h"

/* The path that links at the end of `path` lead to, whether there is a file already or not; malloc'ed into
 * *real, the caller frees it. BASE_EUSAGE: they lead in a cycle, or to a file that has no name any more (a
 * deleted one, a pipe behind /proc/self/fd). */
int base_path_resolve(const char *path, char **real, struct base_error *error);

#endif
