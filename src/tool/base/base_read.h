/* base_read.h - files read whole: those of /proc, which have no size, pipes, and what somebody names.
 * Context: tool. */
#ifndef BASE_READ_H
#define BASE_READ_H

#include <stddef.h>

#include "base_text.h"

/* Append what a file holds, at most `most` bytes of it; the rest is not read. 0, or a negative errno, -ENOMEM
 * among them; what was read before stays appended. */
int base_read(int descriptor, size_t most, struct base_text *out);
int base_read_file(const char *path, size_t most, struct base_text *out);

#endif
