#include "report_flow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base_utf8.h"

enum { HANGING = 2 };

void report_flow_end_line(struct report_flow *flow)
{
    if (flow->column)
        base_text_add(flow->context->out, "\n");
    flow->column = 0;
}

/* One word, on the next line when it does not fit. */
static void flow_add_word(struct report_flow *flow, const char *word, size_t length, bool first)
{
    char *copy = strndup(word, length);
    struct base_text *out = flow->context->out;
    if (!copy) {
        out->failed = true;
        return;
    }
    unsigned width = base_utf8_width(copy), limit = flow->context->width;
    if (!first && limit && flow->column + 1 + width > limit) {
        base_text_add(out, "\n");
        base_text_add_repeated(out, ' ', HANGING);
        flow->column = HANGING;
    } else if (!first) {
        base_text_add(out, " ");
        flow->column++;
    }
    base_text_add(out, copy);
    flow->column += width;
    free(copy);
}

bool report_flow_has_room(const struct report_flow *flow, unsigned columns)
{
    unsigned limit = flow->context->width, before = flow->column ? flow->column + REPORT_FLOW_BETWEEN : 0;
    return !limit || before + columns <= limit;
}

void report_flow_add_words(struct report_flow *flow, const char *text, enum view_style style)
{
    struct base_text *out = flow->context->out;
    if (!report_flow_has_room(flow, base_utf8_width(text)))
        report_flow_end_line(flow);
    if (flow->column) {
        base_text_add_repeated(out, ' ', REPORT_FLOW_BETWEEN);
        flow->column += REPORT_FLOW_BETWEEN;
    }
    view_style_begin(out, style, flow->context->options->color);
    for (bool first = true; *text; first = false) {
        size_t length = strcspn(text, " ");
        flow_add_word(flow, text, length, first);
        text += length + strspn(text + length, " ");
    }
    view_style_end(out, style, flow->context->options->color);
}

void report_flow_add(struct report_flow *flow, struct base_text *part, enum view_style style)
{
    struct base_text clean = {0};
    base_utf8_clean(&clean, base_text_string(part), flow->context->options->ascii);
    if (clean.length)
        report_flow_add_words(flow, base_text_string(&clean), style);
    flow->context->out->failed |= part->failed | clean.failed;
    base_text_free(&clean);
    base_text_clear(part);
}

/* --- numbers of the recording --- */

bool report_meta_number(const struct view_context *context, const char *key, double *number)
{
    const char *text = profile_meta(context->profile, key);
    char *end = NULL;
    *number = text ? strtod(text, &end) : 0;
    return text && end != text && isfinite(*number);
}

bool report_meta_count(const struct view_context *context, const char *key, uint64_t *count)
{
    double number;
    if (!report_meta_number(context, key, &number) || number < 1 || number > 9e18)
        return false;
    *count = (uint64_t)number;
    return true;
}
