/* annotate_head.c - what stands above the lines of a function. */
#include <stdio.h>
#include <string.h>

#include "annotate_columns.h"
#include "annotate_parts.h"
#include "annotate_span.h"
#include "base_utf8.h"
#include "base_wrap.h"
#include "view_style.h"
#include "view_text.h"

enum { LOOP_INDENT = 2 };

/* --- what it is --- */

static void head_print_words(const struct annotate *annotate, const char *words, enum view_style style)
{
    struct view_context *context = annotate->context;
    struct base_text clean = {0};
    base_utf8_clean(&clean, words, context->options->ascii);
    view_style_begin(context->out, style, context->options->color);
    base_wrap(context->out, base_text_string(&clean), 0, 2, context->width);
    view_style_end(context->out, style, context->options->color);
    base_text_add(context->out, "\n");
    context->out->failed |= clean.failed;
    base_text_free(&clean);
}

/* In one line, if the name can be shortened to it. */
static void print_name(const struct annotate *annotate)
{
    enum { LEAST = 24 };
    const struct profile *profile = annotate->context->profile;
    const struct annotate_subject *subject = &annotate->subject;
    struct base_text text = {0}, place = {0};
    base_text_addf(&place, " in %s", profile_text(profile, profile->images[subject->image].name));
    if (annotate->file && annotate->first)
        base_text_addf(&place, ", %s:%u", annotate->file, annotate->first);
    if (annotate->file && annotate->last > annotate->first)
        base_text_addf(&place, "-%u", annotate->last);
    unsigned width = annotate->context->width, used = base_utf8_width(base_text_string(&place));
    annotate_name(annotate, profile_text(profile, profile->functions[subject->function].name),
                  width > used + LEAST ? width - used : LEAST, &text);
    base_text_add(&text, base_text_string(&place));
    head_print_words(annotate, base_text_string(&text), VIEW_BOLD);
    annotate->context->out->failed |= text.failed | place.failed;
    base_text_free(&text);
    base_text_free(&place);
}

static void head_add_figures(const struct annotate *annotate, struct base_text *text)
{
    const struct view_context *context = annotate->context;
    const struct annotate_subject *subject = &annotate->subject;
    bool ascii = context->options->ascii;
    base_text_add(text, "self ");
    view_text_share(text, &context->selection, &subject->self, ascii);
    if (!annotate_has_value(annotate)) {
        base_text_add(text, " (");
        view_text_value(text, context->selection.unit, subject->self.value, ascii);
        base_text_add(text, ")");
    }
    base_text_add(text, ", total ");
    view_text_share(text, &context->selection, &subject->total, ascii);
    base_text_add(text, ", ");
    view_text_count(text, subject->self.samples);
    base_text_add(text, subject->self.samples == 1 ? " sample" : " samples");
}

static void print_figures(const struct annotate *annotate)
{
    struct base_text text = {0};
    bool sampled = annotate->context->selection.taken.samples;
    if (sampled)
        head_add_figures(annotate, &text);
    if (annotate->has_calls) {
        base_text_add(&text, sampled ? ", " : "");
        view_text_exact(&text, annotate->called);
        base_text_add(&text, annotate->called == 1 ? " call" : " calls");
    }
    head_print_words(annotate, base_text_string(&text), VIEW_PLAIN);
    annotate->context->out->failed |= text.failed;
    base_text_free(&text);
}

static void print_notes(const struct annotate *annotate)
{
    const char *at = base_text_string(&annotate->notes);
    while (*at) {
        size_t length = strcspn(at, "\n");
        struct base_text line = {0};
        base_text_add(&line, "note: ");
        base_text_add_bytes(&line, at, length);
        head_print_words(annotate, base_text_string(&line), VIEW_PLAIN);
        annotate->context->out->failed |= line.failed;
        base_text_free(&line);
        at += length + (at[length] != '\0');
    }
}

/* --- loops --- */

static void add_where(struct annotate *annotate, uint32_t loop, struct base_text *out)
{
    struct annotate_span span = annotate_span_of(&annotate->binary, &annotate->code, loop);
    annotate_span_text(&span, out);
    if (span.function)
        base_text_addf(out, " in %s", span.function);
    if (annotate->code.loops.items[loop].irreducible)
        base_text_add(out, " (several ways in)");
}

/* Calls may have been recorded without time. */
static void add_loop_share(const struct view_context *context, struct view_table *table,
                           const struct view_figure *figure)
{
    if (context->selection.taken.samples)
        view_share_cell(context, table, figure);
    else
        view_table_cell(table, NULL, false);
}

static void add_loop(struct annotate *annotate, uint32_t loop, struct view_table *table)
{
    const struct view_context *context = annotate->context;
    uint32_t place = annotate_loop_place(annotate, loop);
    struct view_figure self = annotate_self(annotate, place), total = annotate_total(annotate, place);
    struct base_text text = {0};
    base_text_add_repeated(&text, ' ', LOOP_INDENT * (annotate->code.loops.items[loop].depth - 1));
    base_text_addf(&text, "%u", loop + 1);
    view_table_cell(table, base_text_string(&text), false);
    add_loop_share(context, table, &total);
    add_loop_share(context, table, &self);
    if (annotate->has_calls)
        view_count_cell(context, table, annotate_calls(annotate, place));
    base_text_clear(&text);
    add_where(annotate, loop, &text);
    view_table_cell(table, base_text_string(&text), context->options->ascii);
    view_table_row(table, VIEW_PLAIN);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void print_loops(struct annotate *annotate)
{
    struct view_table table = {0};
    struct view_table_form form = view_form(annotate->context);
    view_table_add_column(&table, "loop", VIEW_LEFT, VIEW_FIXED);
    view_table_add_column(&table, "total", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    view_table_add_column(&table, "self", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    if (annotate->has_calls)
        view_table_add_column(&table, "calls", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "where", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    for (uint32_t i = 0; i < annotate->code.loops.count; i++)
        if (annotate_counts(annotate, annotate_loop_place(annotate, i)))
            add_loop(annotate, i, &table);
    if (table.row_count) {
        base_text_add(annotate->context->out, "\n");
        view_table_print(&table, &form, annotate->context->out);
    }
    annotate->context->out->failed |= table.failed;
    view_table_free(&table);
}

void annotate_head(struct annotate *annotate)
{
    print_name(annotate);
    print_figures(annotate);
    print_notes(annotate);
    print_loops(annotate);
    base_text_add(annotate->context->out, "\n");
}
