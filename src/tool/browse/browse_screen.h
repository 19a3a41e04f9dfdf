/* browse_screen.h - a model as the lines of a screen, without a terminal: what tests compare and
 * browse.c prints. Context: tool. */
#ifndef BROWSE_SCREEN_H
#define BROWSE_SCREEN_H

#include <stddef.h>

#include "base_text.h"
#include "browse_model.h"

enum browse_style { BROWSE_PLAIN, BROWSE_TITLE, BROWSE_HEAD, BROWSE_DIM, BROWSE_STRONG, BROWSE_CURSOR };

struct browse_line {
    struct base_text text; /* no wider than the screen; clean */
    enum browse_style style;
};

struct browse_screen {
    struct browse_line *lines;
    size_t count, capacity;
    bool typing;
    unsigned caret; /* while typing: the column in the last line */
};

/* Zero it first; it may be used again and again. False when memory ran out. */
bool browse_screen_draw(struct browse_screen *screen, const struct browse_model *model);
void browse_screen_free(struct browse_screen *screen);

#endif
