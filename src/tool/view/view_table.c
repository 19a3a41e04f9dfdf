#include "view_table.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_utf8.h"
#include "base_wrap.h"
#include "view_style.h"
#include "view_text.h"

enum { GAP = 2, NARROWEST = 6 };

/* Between a cell's text and its tail; a control character, which no cleaned text holds. */
#define TAIL "\x1f"

void view_table_add_column(struct view_table *table, const char *title, enum view_align align,
                           unsigned flexible)
{
    table->columns[table->column_count++] =
        (struct view_table_column){.title = title, .align = align, .flexible = flexible};
}

void view_table_cell(struct view_table *table, const char *text, bool ascii)
{
    if (text)
        base_utf8_clean(&table->text, text, ascii);
    base_text_add_bytes(&table->text, "", 1);
}

void view_table_cell_tail(struct view_table *table, const char *text, const char *tail, bool ascii)
{
    base_utf8_clean(&table->text, text, ascii);
    if (*tail)
        base_text_add(&table->text, TAIL);
    view_table_cell(table, tail, ascii);
}

void view_table_row(struct view_table *table, enum view_style style)
{
    if (!base_array_room(table->rows, table->row_count, table->row_capacity)) {
        table->failed = true;
        return;
    }
    table->rows[table->row_count++] = (struct view_table_row){.style = style};
}

void view_table_words(struct view_table *table, size_t column, unsigned indent, const char *words,
                      enum view_style style, bool ascii)
{
    for (size_t c = 0; c < table->column_count; c++)
        view_table_cell(table, c == column ? words : NULL, ascii);
    view_table_row(table, style);
    if (!table->failed)
        table->rows[table->row_count - 1] = (struct view_table_row){style, true, indent};
}

void view_table_free(struct view_table *table)
{
    base_text_free(&table->text);
    free(table->rows);
    *table = (struct view_table){0};
}

/* The bytes of a cell before its tail; *tail is "" when there is none. */
static size_t table_split(const char *cell, const char **tail)
{
    size_t length = strcspn(cell, TAIL);
    *tail = cell + length + (cell[length] != '\0');
    return length;
}

/* The mark before a tail takes no column. */
static unsigned cell_width(const char *cell)
{
    const char *tail;
    size_t length = table_split(cell, &tail);
    return base_utf8_width(cell) - (cell[length] != '\0');
}

static void table_measure(struct view_table *table, bool titles)
{
    const char *cell = base_text_string(&table->text);
    for (size_t c = 0; c < table->column_count; c++)
        table->columns[c].width = titles ? base_utf8_width(table->columns[c].title) : 0;
    for (size_t r = 0; r < table->row_count; r++)
        for (size_t c = 0; c < table->column_count; c++, cell += strlen(cell) + 1) {
            unsigned width = cell_width(cell);
            if (width > table->columns[c].width && !table->rows[r].spans)
                table->columns[c].width = width;
        }
}

/* The flexible column that is not settled yet and needs least of what it may claim. */
static size_t next_column(const struct view_table *table, const bool *settled)
{
    size_t next = table->column_count;
    for (size_t c = 0; c < table->column_count; c++) {
        const struct view_table_column *column = &table->columns[c];
        if (!column->flexible || settled[c])
            continue;
        if (next == table->column_count ||
            column->width * table->columns[next].flexible < table->columns[next].width * column->flexible)
            next = c;
    }
    return next;
}

/* What the flexible columns may take together: each what it needs while that is less than its share of what
 * is left, the least demanding first. */
static void squeeze_columns(struct view_table *table, unsigned room)
{
    bool settled[VIEW_TABLE_COLUMNS] = {false};
    size_t next;
    while ((next = next_column(table, settled)) < table->column_count) {
        unsigned claims = 0;
        for (size_t c = 0; c < table->column_count; c++)
            claims += settled[c] ? 0 : table->columns[c].flexible;
        struct view_table_column *column = &table->columns[next];
        unsigned share = room * column->flexible / claims;
        if (share < NARROWEST)
            share = NARROWEST;
        if (column->width > share)
            column->width = share;
        room -= column->width < room ? column->width : room;
        settled[next] = true;
    }
}

static void settle_widths(struct view_table *table, const struct view_table_form *form)
{
    unsigned fixed = form->indent, flexible = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        fixed += c ? GAP : 0;
        *(table->columns[c].flexible ? &flexible : &fixed) += table->columns[c].width;
    }
    if (form->width && fixed + flexible > form->width)
        squeeze_columns(table, form->width > fixed ? form->width - fixed : 0);
}

/* A cell in at most `limit` columns (0: as it is), its tail whole. Returns the columns taken. */
static unsigned add_fitted(const char *cell, unsigned limit, bool ascii, struct base_text *out)
{
    const char *tail;
    size_t length = table_split(cell, &tail), before = out->length;
    struct base_text name = {0};
    unsigned behind = base_utf8_width(tail);
    base_text_add_bytes(&name, cell, length);
    if (limit && limit < behind + NARROWEST) { /* no room to be choosy in */
        base_text_add(&name, tail);
        tail = "";
    } else if (limit) {
        limit -= behind;
    }
    view_text_fit_name(out, base_text_string(&name), limit, ascii);
    base_text_add(out, tail);
    out->failed |= name.failed;
    base_text_free(&name);
    return out->failed ? 0 : base_utf8_width(out->data + before);
}

/* A line that is being printed. Blanks owed are only paid before something else on the line, so no line
 * ends in blanks. */
struct table_line {
    struct base_text *out;
    bool title, ascii;
    unsigned owed;
};

static void print_cell(struct table_line *line, const struct view_table_column *column, unsigned room,
                       const char *cell)
{
    unsigned width = cell_width(cell), limit = column->flexible ? room : 0;
    if (limit && width > limit)
        width = limit;
    unsigned padding = column->width > width ? column->width - width : 0;
    bool right = column->align == VIEW_RIGHT || (column->align == VIEW_RIGHT_TITLE_LEFT && !line->title);
    if (!*cell) {
        line->owed += column->width + GAP;
        return;
    }
    base_text_add_repeated(line->out, ' ', line->owed + (right ? padding : 0));
    unsigned taken = add_fitted(cell, limit, line->ascii, line->out);
    unsigned missing = width > taken ? width - taken : 0; /* a wide character did not fit */
    line->owed = GAP + missing + (right ? 0 : padding);
}

/* Columns for cell `c`: its own, and those of the empty cells that end the row behind it. */
static unsigned room_for(const struct view_table *table, size_t c, const char *cell)
{
    unsigned room = table->columns[c].width;
    for (size_t next = c + 1; next < table->column_count; next++) {
        cell += strlen(cell) + 1;
        if (*cell)
            return table->columns[c].width;
        room += GAP + table->columns[next].width;
    }
    return room;
}

static const char *print_line(const struct view_table *table, const struct view_table_form *form,
                              const char *cells, enum view_style style, struct base_text *out)
{
    struct table_line line = {.out = out, .title = !cells, .ascii = form->ascii, .owed = form->indent};
    view_style_begin(out, style, form->color);
    for (size_t c = 0; c < table->column_count; c++) {
        const char *cell = cells ? cells : table->columns[c].title;
        unsigned room = cells ? room_for(table, c, cells) : table->columns[c].width;
        print_cell(&line, &table->columns[c], room, cell);
        if (cells)
            cells += strlen(cells) + 1;
    }
    view_style_end(out, style, form->color);
    base_text_add(out, "\n");
    return cells;
}

static const char *table_print_words(const struct view_table *table, const struct view_table_form *form,
                                     const char *cells, const struct view_table_row *row,
                                     struct base_text *out)
{
    unsigned at = form->indent + row->indent;
    for (size_t c = 0; c < table->column_count; c++, cells += strlen(cells) + 1) {
        if (*cells) {
            base_text_add_repeated(out, ' ', at);
            view_style_begin(out, row->style, form->color);
            base_wrap(out, cells, at, at, form->width);
            view_style_end(out, row->style, form->color);
            base_text_add(out, "\n");
        }
        at += table->columns[c].width + GAP;
    }
    return cells;
}

void view_table_print(struct view_table *table, const struct view_table_form *form, struct base_text *out)
{
    const char *cells = base_text_string(&table->text);
    if (table->text.failed || table->failed) {
        out->failed = true;
        return;
    }
    table_measure(table, form->titles);
    settle_widths(table, form);
    if (form->titles)
        print_line(table, form, NULL, VIEW_BOLD, out);
    for (size_t r = 0; r < table->row_count; r++) {
        const struct view_table_row *row = &table->rows[r];
        cells = row->spans ? table_print_words(table, form, cells, row, out)
                           : print_line(table, form, cells, row->style, out);
    }
}
