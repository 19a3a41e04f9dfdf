/* report_annotate_head.c - what stands above the lines of a function, and the columns before each. */
#include <stdio.h>
#include <string.h>

#include "base_utf8.h"
#include "base_wrap.h"
#include "report_annotate.h"
#include "report_span.h"
#include "report_style.h"
#include "report_text.h"

enum {
    MARK = 2,
    SELF = 12,
    SELF_EXACT = 17, /* the value, and its share */
    TIME = 10,
    TOTAL = 7,
    SAMPLES = 8,
    CALLS = 11,
    TAB = 8,
    LOOP_INDENT = 2,
    ROOMY = 100
};

/* --- columns --- */

static bool is_roomy(const struct report_annotate *annotate)
{
    return !annotate->context->width || annotate->context->width >= ROOMY;
}

/* What report_text_share says has the value in it. */
static bool has_value(const struct report_annotate *annotate)
{
    return annotate->context->selection.exact || annotate->context->selection.peak;
}

static unsigned self_width(const struct report_annotate *annotate)
{
    return has_value(annotate) ? SELF_EXACT : SELF;
}

/* Narrow terminals need their columns for the text. */
static bool has_time(const struct report_annotate *annotate)
{
    return is_roomy(annotate) && !has_value(annotate);
}

/* 0: none. Where it is narrow and calls stand there too, intervals say enough; those of memory are blocks,
 * and many. */
static unsigned samples_width(const struct report_annotate *annotate)
{
    if (!is_roomy(annotate) && annotate->has_calls)
        return 0;
    return has_value(annotate) ? CALLS : SAMPLES;
}

static void to_the_right(struct base_text *out, const char *text, unsigned columns)
{
    unsigned width = base_utf8_width(text);
    base_text_add_repeated(out, ' ', columns > width ? columns - width : 0);
    base_text_add(out, text);
}

static void add_self(const struct report_annotate *annotate, const struct report_figure *self,
                     struct base_text *out)
{
    struct base_text text = {0};
    if (self->samples || self->value)
        report_text_share(&text, &annotate->context->selection, self, annotate->context->options->ascii);
    to_the_right(out, base_text_string(&text), self_width(annotate));
    out->failed |= text.failed;
    base_text_free(&text);
}

static void add_time(const struct report_annotate *annotate, const struct report_figure *self,
                     struct base_text *out)
{
    struct base_text text = {0};
    if (self->samples || self->value)
        report_text_value(&text, annotate->context->selection.unit, self->value,
                          annotate->context->options->ascii);
    to_the_right(out, base_text_string(&text), TIME);
    out->failed |= text.failed;
    base_text_free(&text);
}

/* Where it is no more than self it says nothing new. */
static void add_total(const struct report_annotate *annotate, const struct report_figure *total,
                      const struct report_figure *self, struct base_text *out)
{
    char text[32] = "";
    if ((total->value != self->value || total->samples != self->samples) &&
        !annotate->context->selection.peak)
        snprintf(text, sizeof text, "%.1f %%",
                 100 * report_select_share(&annotate->context->selection, total).share);
    to_the_right(out, text, TOTAL + 1);
}

static void add_count(uint64_t count, unsigned columns, struct base_text *out)
{
    struct base_text text = {0};
    if (count)
        report_text_count(&text, count);
    to_the_right(out, base_text_string(&text), columns);
    out->failed |= text.failed;
    base_text_free(&text);
}

void report_annotate_columns(const struct report_annotate *annotate, uint32_t place, struct base_text *out)
{
    struct report_figure self = {0, 0}, total = {0, 0};
    if (place) {
        self = report_annotate_self(annotate, place);
        total = report_annotate_total(annotate, place);
    }
    base_text_add(out, place && report_annotate_hot(annotate, place) ? "> " : "  ");
    add_self(annotate, &self, out);
    if (has_time(annotate))
        add_time(annotate, &self, out);
    add_total(annotate, &total, &self, out);
    if (samples_width(annotate))
        add_count(self.samples, samples_width(annotate), out);
    if (annotate->has_calls)
        add_count(place ? report_annotate_calls(annotate, place) : 0, CALLS, out);
}

unsigned report_annotate_width(const struct report_annotate *annotate)
{
    return MARK + self_width(annotate) + (has_time(annotate) ? TIME : 0) + TOTAL + 1 +
           samples_width(annotate) + (annotate->has_calls ? CALLS : 0);
}

void report_annotate_titles(const struct report_annotate *annotate, struct base_text *out)
{
    base_text_addf(out, "%*s%-*s", MARK, "", (int)self_width(annotate), "  self");
    if (has_time(annotate))
        base_text_addf(out, "%*s", TIME, strcmp(annotate->context->selection.unit, "ns") ? "value" : "time");
    base_text_addf(out, "%*s", TOTAL + 1, "total");
    if (samples_width(annotate))
        base_text_addf(out, "%*s", (int)samples_width(annotate), "samples");
    if (annotate->has_calls)
        base_text_addf(out, "%*s", CALLS, "calls");
}

/* --- text of strangers --- */

/* Tabs reach to the next multiple of eight. */
static void add_expanded(const char *text, size_t length, struct base_text *out)
{
    size_t column = 0;
    for (size_t i = 0; i < length; i++) {
        size_t blanks = text[i] == '\t' ? TAB - column % TAB : 0;
        if (blanks)
            base_text_add_repeated(out, ' ', blanks);
        else
            base_text_add_bytes(out, text[i] ? text + i : "?", 1);
        column += blanks ? blanks : ((unsigned char)text[i] & 0xc0) != 0x80;
    }
}

void report_annotate_cut(const struct report_annotate *annotate, const char *text, size_t length,
                         unsigned used, struct base_text *out)
{
    bool ascii = annotate->context->options->ascii;
    unsigned width = annotate->context->width, room = width > used ? width - used : 1, column = 0;
    struct base_text wide = {0}, clean = {0};
    add_expanded(text, length, &wide);
    report_text_clean(&clean, base_text_string(&wide), ascii);
    const char *at = base_text_string(&clean);
    bool fits = !width || base_utf8_width(at) <= room;
    for (size_t bytes; *at && !fits; at += bytes) {
        unsigned columns = base_utf8_columns(base_utf8_next(at, &bytes));
        if (column + columns >= room)
            break;
        column += columns;
        base_text_add_bytes(out, at, bytes);
    }
    base_text_add(out, fits ? at : ascii ? ">" : "…");
    out->failed |= wide.failed | clean.failed;
    base_text_free(&wide);
    base_text_free(&clean);
}

void report_annotate_name(const struct report_annotate *annotate, const char *name, unsigned columns,
                          struct base_text *out)
{
    bool ascii = annotate->context->options->ascii;
    struct base_text clean = {0};
    report_text_clean(&clean, name, ascii);
    report_text_fit_name(out, base_text_string(&clean), annotate->context->width ? columns : 0, ascii);
    out->failed |= clean.failed;
    base_text_free(&clean);
}

const char *report_annotate_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- what it is --- */

static void print_words(const struct report_annotate *annotate, const char *words, enum report_style style)
{
    struct report_context *context = annotate->context;
    struct base_text clean = {0};
    report_text_clean(&clean, words, context->options->ascii);
    report_style_begin(context->out, style, context->options->color);
    base_wrap(context->out, base_text_string(&clean), 0, 2, context->width);
    report_style_end(context->out, style, context->options->color);
    base_text_add(context->out, "\n");
    context->out->failed |= clean.failed;
    base_text_free(&clean);
}

/* In one line, if the name can be shortened to it. */
static void print_name(const struct report_annotate *annotate)
{
    enum { LEAST = 24 };
    const struct profile *profile = annotate->context->profile;
    const struct report_subject *subject = &annotate->subject;
    struct base_text text = {0}, place = {0};
    base_text_addf(&place, " in %s", profile_text(profile, profile->images[subject->image].name));
    if (annotate->file && annotate->first)
        base_text_addf(&place, ", %s:%u", annotate->file, annotate->first);
    if (annotate->file && annotate->last > annotate->first)
        base_text_addf(&place, "-%u", annotate->last);
    unsigned width = annotate->context->width, used = base_utf8_width(base_text_string(&place));
    report_annotate_name(annotate, profile_text(profile, profile->functions[subject->function].name),
                         width > used + LEAST ? width - used : LEAST, &text);
    base_text_add(&text, base_text_string(&place));
    print_words(annotate, base_text_string(&text), REPORT_BOLD);
    annotate->context->out->failed |= text.failed | place.failed;
    base_text_free(&text);
    base_text_free(&place);
}

static void add_figures(const struct report_annotate *annotate, struct base_text *text)
{
    const struct report_context *context = annotate->context;
    const struct report_subject *subject = &annotate->subject;
    bool ascii = context->options->ascii;
    base_text_add(text, "self ");
    report_text_share(text, &context->selection, &subject->self, ascii);
    if (!has_value(annotate)) {
        base_text_add(text, " (");
        report_text_value(text, context->selection.unit, subject->self.value, ascii);
        base_text_add(text, ")");
    }
    base_text_add(text, ", total ");
    report_text_share(text, &context->selection, &subject->total, ascii);
    base_text_add(text, ", ");
    report_text_count(text, subject->self.samples);
    base_text_add(text, subject->self.samples == 1 ? " sample" : " samples");
}

static void print_figures(const struct report_annotate *annotate)
{
    struct base_text text = {0};
    bool sampled = annotate->context->selection.taken.samples;
    if (sampled)
        add_figures(annotate, &text);
    if (annotate->has_calls) {
        base_text_add(&text, sampled ? ", " : "");
        report_text_exact(&text, annotate->called);
        base_text_add(&text, annotate->called == 1 ? " call" : " calls");
    }
    print_words(annotate, base_text_string(&text), REPORT_PLAIN);
    annotate->context->out->failed |= text.failed;
    base_text_free(&text);
}

static void print_notes(const struct report_annotate *annotate)
{
    const char *at = base_text_string(&annotate->notes);
    while (*at) {
        size_t length = strcspn(at, "\n");
        struct base_text line = {0};
        base_text_add(&line, "note: ");
        base_text_add_bytes(&line, at, length);
        print_words(annotate, base_text_string(&line), REPORT_PLAIN);
        annotate->context->out->failed |= line.failed;
        base_text_free(&line);
        at += length + (at[length] != '\0');
    }
}

/* --- loops --- */

static void add_where(struct report_annotate *annotate, uint32_t loop, struct base_text *out)
{
    struct report_span span = report_span_of(&annotate->binary, &annotate->code, loop);
    report_span_text(&span, out);
    if (span.function)
        base_text_addf(out, " in %s", span.function);
    if (annotate->code.loops.items[loop].irreducible)
        base_text_add(out, " (several ways in)");
}

/* Calls may have been recorded without time. */
static void add_loop_share(const struct report_context *context, struct report_table *table,
                           const struct report_figure *figure)
{
    if (context->selection.taken.samples)
        report_view_share_cell(context, table, figure);
    else
        report_table_cell(table, NULL, false);
}

static void add_loop(struct report_annotate *annotate, uint32_t loop, struct report_table *table)
{
    const struct report_context *context = annotate->context;
    uint32_t place = report_annotate_loop_place(annotate, loop);
    struct report_figure self = report_annotate_self(annotate, place),
                         total = report_annotate_total(annotate, place);
    struct base_text text = {0};
    base_text_add_repeated(&text, ' ', LOOP_INDENT * (annotate->code.loops.items[loop].depth - 1));
    base_text_addf(&text, "%u", loop + 1);
    report_table_cell(table, base_text_string(&text), false);
    add_loop_share(context, table, &total);
    add_loop_share(context, table, &self);
    if (annotate->has_calls)
        report_view_count_cell(context, table, report_annotate_calls(annotate, place));
    base_text_clear(&text);
    add_where(annotate, loop, &text);
    report_table_cell(table, base_text_string(&text), context->options->ascii);
    report_table_row(table, REPORT_PLAIN);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void print_loops(struct report_annotate *annotate)
{
    struct report_table table = {0};
    struct report_table_form form = report_view_form(annotate->context);
    report_table_add_column(&table, "loop", REPORT_LEFT, REPORT_FIXED);
    report_table_add_column(&table, "total", REPORT_RIGHT_TITLE_LEFT, REPORT_FIXED);
    report_table_add_column(&table, "self", REPORT_RIGHT_TITLE_LEFT, REPORT_FIXED);
    if (annotate->has_calls)
        report_table_add_column(&table, "calls", REPORT_RIGHT, REPORT_FIXED);
    report_table_add_column(&table, "where", REPORT_LEFT, REPORT_FLEXIBLE_NAME);
    for (uint32_t i = 0; i < annotate->code.loops.count; i++)
        if (report_annotate_counts(annotate, report_annotate_loop_place(annotate, i)))
            add_loop(annotate, i, &table);
    if (table.row_count) {
        base_text_add(annotate->context->out, "\n");
        report_table_print(&table, &form, annotate->context->out);
    }
    annotate->context->out->failed |= table.failed;
    report_table_free(&table);
}

void report_annotate_head(struct report_annotate *annotate)
{
    print_name(annotate);
    print_figures(annotate);
    print_notes(annotate);
    print_loops(annotate);
    base_text_add(annotate->context->out, "\n");
}
