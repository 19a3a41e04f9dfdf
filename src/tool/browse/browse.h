/* browse.h - looking through a profile on a terminal: reads keys, draws what the model says (browse_model.h),
 * until the reader leaves.
 *
 * The terminal is as it was on every return, also after SIGINT, SIGTERM and SIGHUP, which are looked for
 * between keys; it is released while another command shows something, and while the process is stopped. Draws
 * with the terminal's own bold and reverse, and two colours where they are wanted. Context: tool, one thread;
 * changes the process's LC_CTYPE, as ncurses needs it. Source: ncurses(3X). */
#ifndef BROWSE_H
#define BROWSE_H

#include <stdbool.h>
#include <stdio.h>

#include "base_error.h"
#include "profile.h"

struct browse_options {
    FILE *in, *out;      /* of the terminal */
    const char *file;    /* of the profile, for the title */
    const char *counter; /* NULL: the default one */
    bool color;
    bool ascii; /* the terminal shows no UTF-8 */
    /* Shows a function of an image ("": none) line by line; the terminal is an ordinary one meanwhile. */
    void (*annotate)(void *context, const char *function, const char *image, const char *counter);
    void *context;
};

/* Returns 0 when the reader left, the number of the signal that ended it, or a negative code. */
int browse_run(const struct profile *profile, const struct browse_options *options, struct base_error *error);

#endif
