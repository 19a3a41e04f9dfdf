/* report_style.h - the little colour there is: bold for what to look at first, dim for what to look at last.
 * Context: tool. */
#ifndef REPORT_STYLE_H
#define REPORT_STYLE_H

#include "base_text.h"
#include "report_table.h"

/* ECMA-48 SGR sequences; nothing without colour. */
static inline void report_style_begin(struct base_text *out, enum report_style style, bool color)
{
    if (color && style != REPORT_PLAIN)
        base_text_add(out, style == REPORT_BOLD ? "\033[1m" : "\033[2m");
}

static inline void report_style_end(struct base_text *out, enum report_style style, bool color)
{
    if (color && style != REPORT_PLAIN)
        base_text_add(out, "\033[0m");
}

#endif
