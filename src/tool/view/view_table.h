/* view_table.h - rows and columns that align, in the width of a terminal. Cells are text; the columns that
 * were declared flexible (names) give way, shortened in the middle, when a row is wider than the terminal.
 *
 * Life cycle: zero it, declare the columns, then for each row as many view_table_cell as columns and a
 * view_table_row; print once; free.
 * Context: tool. */
#ifndef VIEW_TABLE_H
#define VIEW_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_text.h"

enum { VIEW_TABLE_COLUMNS = 10 };

/* Claims on the room. Names of functions matter more than where they lie; but a range of lines is of no use
 * without its end. */
enum view_flexible { VIEW_FIXED, VIEW_FLEXIBLE = 2, VIEW_FLEXIBLE_NAME = 3, VIEW_FLEXIBLE_LINES = 4 };

enum view_align {
    VIEW_LEFT,
    VIEW_RIGHT,            /* title to the right too */
    VIEW_RIGHT_TITLE_LEFT, /* figures with a tail of their own: "31.2 ±1.9 %" */
};

enum view_style { VIEW_PLAIN, VIEW_DIM, VIEW_BOLD };

struct view_table_column {
    const char *title;
    enum view_align align;
    unsigned flexible; /* 0: never shortened; else what it may claim of the room, against the others' */
    unsigned width;    /* private: natural, then final */
};

struct view_table_row {
    enum view_style style;
    bool spans; /* words: one cell, that heeds no column */
    unsigned indent;
};

struct view_table {
    struct view_table_column columns[VIEW_TABLE_COLUMNS];
    size_t column_count;
    struct base_text text; /* cells, each terminated, row after row */
    struct view_table_row *rows;
    size_t row_count, row_capacity;
    bool failed; /* memory ran out */
};

struct view_table_form {
    unsigned width;  /* 0: unlimited */
    unsigned indent; /* blanks before each line */
    bool ascii, color, titles;
};

void view_table_add_column(struct view_table *table, const char *title, enum view_align align,
                           unsigned flexible);
/* The text is cleaned (base_utf8_clean) as it goes in. NULL is an empty cell. */
void view_table_cell(struct view_table *table, const char *text, bool ascii);
/* The same with a tail that is never shortened: what stands behind a name. */
void view_table_cell_tail(struct view_table *table, const char *text, const char *tail, bool ascii);
void view_table_row(struct view_table *table, enum view_style style);
/* A row of words, `indent` blanks from where `column` begins to the edge of the terminal and wrapped there;
 * no column is made wider by them. */
void view_table_words(struct view_table *table, size_t column, unsigned indent, const char *words,
                      enum view_style style, bool ascii);
void view_table_print(struct view_table *table, const struct view_table_form *form, struct base_text *out);
void view_table_free(struct view_table *table);

#endif
