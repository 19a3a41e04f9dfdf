#include "report_table.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_utf8.h"
#include "report_style.h"
#include "report_text.h"

enum { GAP = 2, NARROWEST = 6 };

void report_table_add_column(struct report_table *table, const char *title, enum report_align align,
                             bool flexible)
{
    table->columns[table->column_count++] =
        (struct report_table_column){.title = title, .align = align, .flexible = flexible};
}

void report_table_cell(struct report_table *table, const char *text, bool ascii)
{
    if (text)
        report_text_clean(&table->text, text, ascii);
    base_text_add_bytes(&table->text, "", 1);
}

void report_table_row(struct report_table *table, enum report_style style)
{
    if (!base_array_room(table->rows, table->row_count, table->row_capacity)) {
        table->failed = true;
        return;
    }
    table->rows[table->row_count++] = (struct report_table_row){style};
}

void report_table_free(struct report_table *table)
{
    base_text_free(&table->text);
    free(table->rows);
    *table = (struct report_table){0};
}

static void measure(struct report_table *table, bool titles)
{
    const char *cell = base_text_string(&table->text);
    for (size_t c = 0; c < table->column_count; c++)
        table->columns[c].width = titles ? base_utf8_width(table->columns[c].title) : 0;
    for (size_t r = 0; r < table->row_count; r++)
        for (size_t c = 0; c < table->column_count; c++, cell += strlen(cell) + 1) {
            unsigned width = base_utf8_width(cell);
            if (width > table->columns[c].width)
                table->columns[c].width = width;
        }
}

/* What the flexible columns may take together: each what it needs while it needs less than an equal share of
 * what is left, narrow ones first. */
static void squeeze(struct report_table *table, unsigned room)
{
    bool settled[REPORT_TABLE_COLUMNS] = {false};
    for (;;) {
        unsigned open = 0;
        size_t next = table->column_count;
        for (size_t c = 0; c < table->column_count; c++)
            if (table->columns[c].flexible && !settled[c]) {
                open++;
                if (next == table->column_count || table->columns[c].width < table->columns[next].width)
                    next = c;
            }
        if (!open)
            return;
        unsigned share = room / open > NARROWEST ? room / open : NARROWEST;
        if (table->columns[next].width > share)
            table->columns[next].width = share;
        room -= table->columns[next].width < room ? table->columns[next].width : room;
        settled[next] = true;
    }
}

static void settle_widths(struct report_table *table, const struct report_table_form *form)
{
    unsigned fixed = form->indent, flexible = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        fixed += c ? GAP : 0;
        *(table->columns[c].flexible ? &flexible : &fixed) += table->columns[c].width;
    }
    if (form->width && fixed + flexible > form->width)
        squeeze(table, form->width > fixed ? form->width - fixed : 0);
}

/* Blanks owed are only paid before something else on the line, so no line ends in blanks. */
static void print_cell(const struct report_table_column *column, const char *cell, bool title, bool ascii,
                       unsigned *owed, struct base_text *out)
{
    unsigned width = base_utf8_width(cell), limit = column->flexible ? column->width : 0;
    if (limit && width > limit)
        width = limit;
    unsigned padding = column->width > width ? column->width - width : 0;
    bool right = column->align == REPORT_RIGHT || (column->align == REPORT_RIGHT_TITLE_LEFT && !title);
    if (!*cell) {
        *owed += column->width + GAP;
        return;
    }
    base_text_add_repeated(out, ' ', *owed + (right ? padding : 0));
    size_t before = out->length;
    report_text_fit(out, cell, limit, ascii);
    unsigned taken = out->failed ? width : base_utf8_width(out->data + before);
    unsigned short_of = width > taken ? width - taken : 0; /* a wide character did not fit */
    *owed = GAP + short_of + (right ? 0 : padding);
}

static const char *print_line(const struct report_table *table, const struct report_table_form *form,
                              const char *cells, enum report_style style, struct base_text *out)
{
    unsigned owed = form->indent;
    report_style_begin(out, style, form->color);
    for (size_t c = 0; c < table->column_count; c++) {
        const char *cell = cells ? cells : table->columns[c].title;
        print_cell(&table->columns[c], cell, !cells, form->ascii, &owed, out);
        if (cells)
            cells += strlen(cells) + 1;
    }
    report_style_end(out, style, form->color);
    base_text_add(out, "\n");
    return cells;
}

void report_table_print(struct report_table *table, const struct report_table_form *form,
                        struct base_text *out)
{
    const char *cells = base_text_string(&table->text);
    if (table->text.failed || table->failed) {
        out->failed = true;
        return;
    }
    measure(table, form->titles);
    settle_widths(table, form);
    if (form->titles)
        print_line(table, form, NULL, REPORT_BOLD, out);
    for (size_t r = 0; r < table->row_count; r++)
        cells = print_line(table, form, cells, table->rows[r].style, out);
}
