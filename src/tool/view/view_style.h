/* view_style.h - the little colour there is: bold for what to look at first, dim for what to look at last.
 * Context: tool. */
#ifndef VIEW_STYLE_H
#define VIEW_STYLE_H

#include "base_text.h"
#include "view_table.h"

/* ECMA-48 SGR sequences; nothing without colour. */
static inline void view_style_begin(struct base_text *out, enum view_style style, bool color)
{
    if (color && style != VIEW_PLAIN)
        base_text_add(out, style == VIEW_BOLD ? "\033[1m" : "\033[2m");
}

static inline void view_style_end(struct base_text *out, enum view_style style, bool color)
{
    if (color && style != VIEW_PLAIN)
        base_text_add(out, "\033[0m");
}

#endif
