/* cli_file.h - a file that appears whole or not at all: it is written under another name beside the one it is
 * to have, and renamed when all of it is there. What is no regular file (a pipe, /dev/null), and what
 * standard output is, is written to as it is. Context: tool. */
#ifndef CLI_FILE_H
#define CLI_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"

struct cli_file {
    int descriptor;
    char *path, *temporary; /* temporary: NULL when it is written to as it is */
    uint64_t length;        /* so far */
    int number;             /* errno of the write that failed, 0 */
};

/* Refuses directories, and Tally profiles: `profile` of these is named as the one that is being read.
 * Symbolic links are followed. On success cli_file_finish ends it. */
int cli_file_begin(struct cli_file *file, const char *path, const char *profile, struct base_error *error);

/* The form of a sink: `context` is the struct cli_file. */
bool cli_file_write(void *context, const void *bytes, size_t length);

/* With `keep` the file gets its name, if nothing went wrong; else it goes, and what was there before
 * stays. */
int cli_file_finish(struct cli_file *file, bool keep, struct base_error *error);

#endif
