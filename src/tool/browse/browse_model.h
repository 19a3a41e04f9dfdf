/* browse_model.h - what a reader of a profile looks at and does, without a terminal: views, rows, where the
 * cursor is, what a key changes. browse_screen.h turns it into lines of text, browse.h puts those on a
 * terminal.
 *
 * A view is a list of rows made anew whenever it changes: the functions by self or total; the branches of the
 * tree that are not folded away; a function with its callers above and what it calls below; the help. Going
 * into a function is remembered, going back leads to the same row. Context: tool, one thread. */
#ifndef BROWSE_MODEL_H
#define BROWSE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "base_text.h"
#include "browse_data.h"
#include "profile.h"

enum { BROWSE_NARROWEST = 40, BROWSE_LOWEST = 8 }; /* below: too small */

enum browse_view { BROWSE_FLAT, BROWSE_TREE, BROWSE_FUNCTION, BROWSE_HELP, BROWSE_VIEWS };

enum browse_row_kind {
    BROWSE_ROW_WORDS, /* a heading: the cursor passes it by */
    BROWSE_ROW_FUNCTION,
    BROWSE_ROW_BRANCH,
    BROWSE_ROW_CALLER,
    BROWSE_ROW_ITSELF,
    BROWSE_ROW_CALLEE,
};

struct browse_row {
    enum browse_row_kind kind;
    uint32_t entity, branch;
    uint32_t edge;     /* of callers and callees */
    const char *words; /* of BROWSE_ROW_WORDS */
};

/* A place to come back to. */
struct browse_place {
    enum browse_view view;
    uint32_t entity;
    size_t cursor, top;
};

struct browse_model {
    const struct profile *profile;
    const char *file; /* of the profile, for the title */
    bool ascii, inlines, by_total;
    struct browse_data data;
    unsigned columns, lines;
    enum browse_view view;
    uint32_t entity; /* of BROWSE_FUNCTION */
    struct browse_row *rows;
    size_t row_count, row_capacity, cursor, top;
    bool *expanded; /* by branch */
    struct browse_place *history;
    size_t history_count, history_capacity;
    struct browse_place left[BROWSE_VIEWS]; /* where each view was left */
    bool typing;
    struct base_text typed, wanted; /* the search: being typed, and last one */
    char message[200];              /* until the next key */
};

/* Keys are Unicode characters, and these. */
enum browse_key {
    BROWSE_KEY_UP = 0x110000,
    BROWSE_KEY_DOWN,
    BROWSE_KEY_LEFT,
    BROWSE_KEY_RIGHT,
    BROWSE_KEY_PAGE_UP,
    BROWSE_KEY_PAGE_DOWN,
    BROWSE_KEY_HOME,
    BROWSE_KEY_END,
    BROWSE_KEY_ENTER,
    BROWSE_KEY_BACKSPACE,
    BROWSE_KEY_ESCAPE,
};

enum browse_answer {
    BROWSE_STAYS,
    BROWSE_QUITS,
    BROWSE_ANNOTATES, /* the function at the cursor is to be shown line by line */
};

/* `counter` NULL: the default one. Nothing to close on failure. The model may not be moved. */
int browse_model_open(struct browse_model *model, const struct profile *profile, const char *file,
                      const char *counter, bool ascii, struct base_error *error);
void browse_model_close(struct browse_model *model);

void browse_model_resize(struct browse_model *model, unsigned columns, unsigned lines);
bool browse_model_too_small(const struct browse_model *model);

/* What a key does. A negative code: memory ran out, the model is still what it was. */
int browse_model_key(struct browse_model *model, uint32_t key, struct base_error *error);

/* Lines that rows have. */
size_t browse_model_page(const struct browse_model *model);
/* The name of the function at the cursor, appended; false when there is none. */
bool browse_model_function(const struct browse_model *model, struct base_text *name);
/* Of the row at the cursor; "" when it has none. */
const char *browse_model_image(const struct browse_model *model);
/* Has a branch others below it? */
bool browse_model_expandable(const struct browse_model *model, uint32_t branch);
void browse_model_say(struct browse_model *model, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
