/* cli_output.h - standard output, with nothing lost in silence.
 *
 * A full disk, or a descriptor that was closed, is reported and fails the command; a reader that went away
 * (`| head`) ends it quietly: by SIGPIPE, or with the same status where that signal is ignored. Context:
 * tool. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base_text.h"

enum { CLI_PIPE_CLOSED = 128 + 13 }; /* what a shell says of a program that SIGPIPE ended */

/* First thing in main: descriptors 0 to 2 that are closed are taken by /dev/null (opened the wrong way round,
 * so that using them fails as it would, and closed again in programs that are run), or the profile could
 * become one of them. Source: the module stdopen of gnulib. */
void cli_output_secure(void);

/* Writes the text to standard output. Returns the exit status: 0, CLI_FAILED (and says why), CLI_PIPE_CLOSED.
 */
int cli_output_text(const struct base_text *text);

/* Last thing in a command that used stdio for it: flushes, and returns `status` or that of a failure to
 * write. */
int cli_output_close(int status);

#endif
