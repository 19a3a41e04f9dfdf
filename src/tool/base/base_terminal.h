/* base_terminal.h - what is at the other end of a descriptor, and what it can show. Nothing is written.
 * Context: tool. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>

enum base_terminal_color {
    BASE_COLOR_AUTO,
    BASE_COLOR_ALWAYS,
    BASE_COLOR_NEVER
}; /* as in "auto|always|never" */

/* Is it a terminal? */
bool base_terminal_is(int descriptor);

/* Columns: $COLUMNS where it is a sensible number, else what the terminal says, 80 when it does not say. 0
 * for what is no terminal: whatever reads a pipe or a file wants whole names. */
unsigned base_terminal_width(int descriptor);

/* Should there be colour? AUTO: on a terminal that is not TERM=dumb, unless NO_COLOR is set and not empty
 * (https://no-color.org). */
bool base_terminal_color(int descriptor, enum base_terminal_color choice);

/* Can the cursor be sent back to the line's beginning (a status line)? A terminal other than TERM=dumb. */
bool base_terminal_redraws(int descriptor);

/* Does the user's locale ($LC_ALL, $LC_CTYPE, $LANG: the first that is set) speak UTF-8? Where none is set,
 * as in most containers, terminals do. */
bool base_terminal_utf8(void);

/* An open file of our own for what is at the other end, a terminal: a write to it never waits (EAGAIN),
 * not for a terminal that is stopped (Ctrl-S) and not for others who write there, whose own open files
 * stay as they are. The caller's; -1: there is none. */
int base_terminal_open(int descriptor);

/* Does it take input line by line? Else a program has the screen to itself (an editor), and draws it. True for
 * what is no terminal. */
bool base_terminal_line_mode(int descriptor);

/* Are we in its foreground? A background job must not draw. True for what is no terminal. */
bool base_terminal_foreground(int descriptor);

#endif
