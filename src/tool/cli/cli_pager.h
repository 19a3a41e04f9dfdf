/* cli_pager.h - long texts on a terminal go through a pager, as git's do: only when standard output is a
 * terminal, $TALLY_PAGER before $PAGER before less, none when that is empty or "cat"; LESS=FRX (short texts
 * are simply printed, colours pass, the text stays on the screen) and LV=-c unless they are set. Context:
 * tool. */
#ifndef CLI_PAGER_H
#define CLI_PAGER_H

#include <stdbool.h>

#include "base_text.h"

/* Shows the text and waits until the reader has seen it; with `wanted` false, or where no pager is to be had,
 * prints it. Returns the exit status, as cli_output_text does; leaving the pager early is no failure. */
int cli_pager_show(const struct base_text *text, bool wanted);

#endif
