/* report_table.h - rows and columns that align, in the width of a terminal. Cells are text; the columns that
 * were declared flexible (names) give way, shortened in the middle, when a row is wider than the terminal.
 *
 * Life cycle: zero it, declare the columns, then for each row as many report_table_cell as columns and a
 * report_table_row; print once; free.
 * Context: tool. */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_text.h"

enum { REPORT_TABLE_COLUMNS = 10 };

/* Claims on the room. Names of functions matter more than where they lie; but a range of lines is of no use
 * without its end. */
enum report_flexible {
    REPORT_FIXED,
    REPORT_FLEXIBLE = 2,
    REPORT_FLEXIBLE_NAME = 3,
    REPORT_FLEXIBLE_LINES = 4
};

enum report_align {
    REPORT_LEFT,
    REPORT_RIGHT,            /* title to the right too */
    REPORT_RIGHT_TITLE_LEFT, /* figures with a tail of their own: "31.2 ±1.9 %" */
};

enum report_style { REPORT_PLAIN, REPORT_DIM, REPORT_BOLD };

struct report_table_column {
    const char *title;
    enum report_align align;
    unsigned flexible; /* 0: never shortened; else what it may claim of the room, against the others' */
    unsigned width;    /* private: natural, then final */
};

struct report_table_row {
    enum report_style style;
    bool spans; /* words: one cell, that heeds no column */
    unsigned indent;
};

struct report_table {
    struct report_table_column columns[REPORT_TABLE_COLUMNS];
    size_t column_count;
    struct base_text text; /* cells, each terminated, row after row */
    struct report_table_row *rows;
    size_t row_count, row_capacity;
    bool failed; /* memory ran out */
};

struct report_table_form {
    unsigned width;  /* 0: unlimited */
    unsigned indent; /* blanks before each line */
    bool ascii, color, titles;
};

void report_table_add_column(struct report_table *table, const char *title, enum report_align align,
                             unsigned flexible);
/* The text is cleaned (report_text_clean) as it goes in. NULL is an empty cell. */
void report_table_cell(struct report_table *table, const char *text, bool ascii);
/* The same with a tail that is never shortened: what stands behind a name. */
void report_table_cell_tail(struct report_table *table, const char *text, const char *tail, bool ascii);
void report_table_row(struct report_table *table, enum report_style style);
/* A row of words, `indent` blanks from where `column` begins to the edge of the terminal and wrapped there;
 * no column is made wider by them. */
void report_table_words(struct report_table *table, size_t column, unsigned indent, const char *words,
                        enum report_style style, bool ascii);
void report_table_print(struct report_table *table, const struct report_table_form *form,
                        struct base_text *out);
void report_table_free(struct report_table *table);

#endif
