#include "annotate_columns.h"

#include <stdio.h>
#include <string.h>

#include "base_utf8.h"
#include "view_text.h"

enum {
    MARK = 2,
    SELF = 12,
    SELF_EXACT = 17, /* the value, and its share */
    TIME = 10,
    TOTAL = 7,
    SAMPLES = 8,
    CALLS = 11,
    TAB = 8,
    ROOMY = 100
};

static bool is_roomy(const struct annotate *annotate)
{
    return !annotate->context->width || annotate->context->width >= ROOMY;
}

bool annotate_has_value(const struct annotate *annotate)
{
    return annotate->context->selection.exact || annotate->context->selection.peak;
}

static unsigned self_width(const struct annotate *annotate)
{
    return annotate_has_value(annotate) ? SELF_EXACT : SELF;
}

/* Narrow terminals need their columns for the text. */
static bool has_time(const struct annotate *annotate)
{
    return is_roomy(annotate) && !annotate_has_value(annotate);
}

/* 0: none. Where it is narrow and calls stand there too, intervals say enough; those of memory are blocks,
 * and many. */
static unsigned samples_width(const struct annotate *annotate)
{
    if (!is_roomy(annotate) && annotate->has_calls)
        return 0;
    return annotate_has_value(annotate) ? CALLS : SAMPLES;
}

static void to_the_right(struct base_text *out, const char *text, unsigned columns)
{
    unsigned width = base_utf8_width(text);
    base_text_add_repeated(out, ' ', columns > width ? columns - width : 0);
    base_text_add(out, text);
}

static void add_self(const struct annotate *annotate, const struct view_figure *self, struct base_text *out)
{
    struct base_text text = {0};
    if (self->samples || self->value)
        view_text_share(&text, &annotate->context->selection, self, annotate->context->options->ascii);
    to_the_right(out, base_text_string(&text), self_width(annotate));
    out->failed |= text.failed;
    base_text_free(&text);
}

static void columns_add_time(const struct annotate *annotate, const struct view_figure *self,
                             struct base_text *out)
{
    struct base_text text = {0};
    if (self->samples || self->value)
        view_text_value(&text, annotate->context->selection.unit, self->value,
                        annotate->context->options->ascii);
    to_the_right(out, base_text_string(&text), TIME);
    out->failed |= text.failed;
    base_text_free(&text);
}

/* Where it is no more than self it says nothing new. */
static void add_total(const struct annotate *annotate, const struct view_figure *total,
                      const struct view_figure *self, struct base_text *out)
{
    char text[32] = "";
    if ((total->value != self->value || total->samples != self->samples) &&
        !annotate->context->selection.peak)
        snprintf(text, sizeof text, "%.1f %%",
                 100 * view_select_share(&annotate->context->selection, total).share);
    to_the_right(out, text, TOTAL + 1);
}

static void add_count(uint64_t count, unsigned columns, struct base_text *out)
{
    struct base_text text = {0};
    if (count)
        view_text_count(&text, count);
    to_the_right(out, base_text_string(&text), columns);
    out->failed |= text.failed;
    base_text_free(&text);
}

void annotate_columns(const struct annotate *annotate, uint32_t place, struct base_text *out)
{
    struct view_figure self = {0, 0}, total = {0, 0};
    if (place) {
        self = annotate_self(annotate, place);
        total = annotate_total(annotate, place);
    }
    base_text_add(out, place && annotate_hot(annotate, place) ? "> " : "  ");
    add_self(annotate, &self, out);
    if (has_time(annotate))
        columns_add_time(annotate, &self, out);
    add_total(annotate, &total, &self, out);
    if (samples_width(annotate))
        add_count(self.samples, samples_width(annotate), out);
    if (annotate->has_calls)
        add_count(place ? annotate_calls(annotate, place) : 0, CALLS, out);
}

unsigned annotate_width(const struct annotate *annotate)
{
    return MARK + self_width(annotate) + (has_time(annotate) ? TIME : 0) + TOTAL + 1 +
           samples_width(annotate) + (annotate->has_calls ? CALLS : 0);
}

void annotate_titles(const struct annotate *annotate, struct base_text *out)
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

/* --- text of other programs --- */

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

void annotate_cut(const struct annotate *annotate, const char *text, size_t length, unsigned used,
                  struct base_text *out)
{
    bool ascii = annotate->context->options->ascii;
    unsigned width = annotate->context->width, room = width > used ? width - used : 1, column = 0;
    struct base_text wide = {0}, clean = {0};
    add_expanded(text, length, &wide);
    base_utf8_clean(&clean, base_text_string(&wide), ascii);
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

void annotate_name(const struct annotate *annotate, const char *name, unsigned columns, struct base_text *out)
{
    bool ascii = annotate->context->options->ascii;
    struct base_text clean = {0};
    base_utf8_clean(&clean, name, ascii);
    view_text_fit_name(out, base_text_string(&clean), annotate->context->width ? columns : 0, ascii);
    out->failed |= clean.failed;
    base_text_free(&clean);
}

const char *annotate_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
