/* annotate_text.c - the lines of a function, with what was inlined under the line it was inlined at.
 *
 * Of a long function only lines near those that count are shown; a line of dots says how many are left out,
 * and what they cost together. */
#include <stdlib.h>
#include <string.h>

#include "annotate_columns.h"
#include "annotate_parts.h"
#include "view_style.h"
#include "view_text.h"

enum { WHOLE_MOST = 80, LINE = 7, INLINE_INDENT = 2 };

struct printer {
    struct annotate *annotate;
    uint32_t *children; /* lines by parent, the hottest first */
    uint32_t *first;    /* children of line l: children[first[l]] .. children[first[l + 1] - 1] */
};

/* --- the tree --- */

static int compare_line_heat(const void *left, const void *right, void *context)
{
    const struct annotate *annotate = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const struct annotate_line *x = &annotate->lines[a], *y = &annotate->lines[b];
    int64_t p = annotate_total(annotate, a).value, q = annotate_total(annotate, b).value;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (p != q)
        return p > q ? -1 : 1;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return (a > b) - (a < b);
}

static bool sort_lines(struct printer *printer)
{
    const struct annotate *annotate = printer->annotate;
    size_t count = annotate->line_count;
    printer->children = calloc(count + 1, sizeof *printer->children);
    printer->first = calloc(count + 2, sizeof *printer->first);
    if (!printer->children || !printer->first)
        return false;
    for (uint32_t i = 1; i < count; i++) {
        printer->children[i - 1] = i;
        printer->first[annotate->lines[i].parent + 1]++;
    }
    for (size_t i = 1; i < count + 2; i++)
        printer->first[i] += printer->first[i - 1];
    if (count > 1)
        qsort_r(printer->children, count - 1, sizeof *printer->children, compare_line_heat,
                printer->annotate);
    return true;
}

/* --- rows --- */

/* `text` NULL: not known. */
static void print_row(const struct printer *printer, uint32_t place, uint32_t line, unsigned indent,
                      const char *text, size_t length)
{
    const struct annotate *annotate = printer->annotate;
    struct view_context *context = annotate->context;
    enum view_style style = place && annotate_hot(annotate, place) ? VIEW_BOLD : VIEW_PLAIN;
    view_style_begin(context->out, style, context->options->color);
    annotate_columns(annotate, place, context->out);
    if (line)
        base_text_addf(context->out, "%*u", LINE, line);
    else
        base_text_addf(context->out, "%*s", LINE, "");
    if (length) {
        base_text_add_repeated(context->out, ' ', indent + 2);
        annotate_cut(annotate, text, length, annotate_width(annotate) + LINE + 2 + indent, context->out);
    }
    view_style_end(context->out, style, context->options->color);
    base_text_add(context->out, "\n");
}

static const char *source_of(const struct printer *printer, const char *path, uint32_t line, size_t *length)
{
    *length = 0;
    return path && *path ? annotate_source_line(&printer->annotate->source, path, line, length) : NULL;
}

/* "push (stack.h:33)  text" */
static void print_inlined(const struct printer *printer, uint32_t place)
{
    enum { NAME = 28 };
    const struct annotate *annotate = printer->annotate;
    const struct profile *profile = annotate->context->profile;
    const struct annotate_line *line = &annotate->lines[place];
    const char *path = profile_text(profile, line->file);
    struct base_text text = {0};
    size_t length;
    const char *source = source_of(printer, path, line->line, &length);
    annotate_name(annotate, profile_text(profile, line->function), NAME, &text);
    base_text_addf(&text, " (%s:%u)%s", *path ? annotate_base(path) : "?", line->line, length ? "  " : "");
    while (length && (*source == ' ' || *source == '\t')) {
        source++;
        length--;
    }
    base_text_add_bytes(&text, source ? source : "", length);
    print_row(printer, place, 0, INLINE_INDENT * line->depth, base_text_string(&text), text.length);
    annotate->context->out->failed |= text.failed;
    base_text_free(&text);
}

/* What was inlined at a line, as far as it counts. Its depth is that of inlining: bounded. */
static void print_inside(const struct printer *printer, uint32_t place)
{
    for (uint32_t i = printer->first[place]; place && i < printer->first[place + 1]; i++) {
        if (!annotate_counts(printer->annotate, printer->children[i]))
            continue;
        print_inlined(printer, printer->children[i]);
        print_inside(printer, printer->children[i]);
    }
}

/* --- the function's own file --- */

static bool is_own_line(const struct annotate *annotate, const struct annotate_line *line)
{
    return line->line && line->line >= annotate->first && line->line <= annotate->last &&
           !strcmp(profile_text(annotate->context->profile, line->file), annotate->file);
}

/* The function's own line `line` of its own file; 0: no address of the profile has it. */
static uint32_t *own_lines(const struct printer *printer)
{
    const struct annotate *annotate = printer->annotate;
    uint32_t *own = calloc((size_t)(annotate->last - annotate->first) + 1, sizeof *own);
    for (uint32_t i = 1; own && i < annotate->line_count; i++) {
        const struct annotate_line *line = &annotate->lines[i];
        if (!line->depth && is_own_line(annotate, line))
            own[line->line - annotate->first] = i;
    }
    return own;
}

/* Without a source only the lines that have samples, or calls, are worth showing. */
static bool is_shown(const struct printer *printer, const uint32_t *own, uint32_t count, uint32_t position)
{
    struct annotate *annotate = printer->annotate;
    uint64_t around = annotate->request->around;
    uint32_t from = position > around ? (uint32_t)(position - around) : 0;
    if (annotate_source_error(&annotate->source, annotate->file))
        return own[position] &&
               (annotate_total(annotate, own[position]).samples || annotate_calls(annotate, own[position]));
    if (annotate->request->whole || count <= WHOLE_MOST)
        return true;
    for (uint64_t i = from; i <= position + around && i < count; i++)
        if (own[i] && annotate_counts(annotate, own[i]))
            return true;
    return false;
}

/* "⋮ 12 lines with 0.8 ±0.8 %" */
static void print_left_out(const struct printer *printer, uint32_t count, const char *where,
                           const struct view_figure *sum)
{
    const struct annotate *annotate = printer->annotate;
    struct view_context *context = annotate->context;
    struct base_text text = {0};
    base_text_addf(&text, "%s%u line%s%s", context->options->ascii ? "... " : "⋮ ", count,
                   count == 1 ? "" : "s", where);
    if (sum->samples || sum->value) {
        base_text_add(&text, " with ");
        view_text_share(&text, &context->selection, sum, context->options->ascii);
    }
    view_style_begin(context->out, VIEW_DIM, context->options->color);
    base_text_add_repeated(context->out, ' ', annotate_width(annotate) + LINE + 2);
    base_text_add(context->out, base_text_string(&text));
    view_style_end(context->out, VIEW_DIM, context->options->color);
    base_text_add(context->out, "\n");
    context->out->failed |= text.failed;
    base_text_free(&text);
}

static void print_gap(const struct printer *printer, const uint32_t *own, uint32_t from, uint32_t to)
{
    const struct annotate *annotate = printer->annotate;
    struct view_figure sum = {0, 0};
    for (uint32_t i = from; i < to; i++) {
        struct view_figure self = annotate_self(annotate, own[i]);
        if (own[i])
            view_select_add(&annotate->context->selection, &sum, &self);
    }
    print_left_out(printer, to - from, "", &sum);
}

static void print_own(const struct printer *printer, const uint32_t *own)
{
    const struct annotate *annotate = printer->annotate;
    uint32_t count = annotate->last - annotate->first + 1, gap = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool shown = is_shown(printer, own, count, i);
        if (!shown && i + 1 < count)
            continue;
        if (i + !shown > gap && !annotate_source_error(&printer->annotate->source, annotate->file))
            print_gap(printer, own, gap, i + !shown);
        gap = i + 1;
        if (!shown)
            continue;
        size_t length;
        const char *text = source_of(printer, annotate->file, annotate->first + i, &length);
        print_row(printer, own[i], annotate->first + i, 0, text, length);
        print_inside(printer, own[i]);
    }
}

/* --- lines from elsewhere: macros in other files, generated code, lines not known, lines far from the
 * function's own --- */

static void print_foreign(const struct printer *printer)
{
    const struct annotate *annotate = printer->annotate;
    const struct profile *profile = annotate->context->profile;
    struct view_figure hidden = {0, 0};
    uint32_t file = 0, hidden_count = 0;
    for (uint32_t i = 0; i < printer->first[1]; i++) {
        uint32_t place = printer->children[i];
        const struct annotate_line *line = &annotate->lines[place];
        const char *path = profile_text(profile, line->file);
        size_t length;
        if (is_own_line(annotate, line))
            continue;
        if (!annotate_counts(annotate, place)) {
            struct view_figure self = annotate_self(annotate, place);
            view_select_add(&annotate->context->selection, &hidden, &self);
            hidden_count++;
            continue;
        }
        if (line->file != file || !file) {
            base_text_add(annotate->context->out, "\n");
            print_row(printer, 0, 0, 0, *path ? path : "no line is known",
                      strlen(*path ? path : "no line is known"));
        }
        file = line->file;
        const char *text = source_of(printer, path, line->line, &length);
        print_row(printer, place, line->line, 0, text, length);
        print_inside(printer, place);
    }
    if (hidden.samples)
        print_left_out(printer, hidden_count, " elsewhere", &hidden);
}

void annotate_text(struct annotate *annotate)
{
    struct printer printer = {.annotate = annotate};
    struct view_context *context = annotate->context;
    uint32_t *own = own_lines(&printer);
    if (!own || !sort_lines(&printer)) {
        context->out->failed = true;
    } else {
        annotate_titles(annotate, context->out);
        base_text_addf(context->out, "%*s  %s\n", LINE, "line", annotate_base(annotate->file));
        print_own(&printer, own);
        print_foreign(&printer);
    }
    free(own);
    free(printer.children);
    free(printer.first);
}
