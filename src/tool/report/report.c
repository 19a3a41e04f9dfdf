#include "report.h"

#include <string.h>

#include "base_wrap.h"
#include "profile_extent.h"
#include "report_descriptors.h"
#include "report_text.h"
#include "report_view.h"

enum { NARROWEST_TERMINAL = 40 };

int report_view_memory(struct report_context *context)
{
    return base_fail(context->error, BASE_ENOMEM, "out of memory for the report");
}

bool report_view_below(const struct report_context *context, const struct report_figure *figure)
{
    double limit = context->options->limit_percent;
    return limit > 0 && 100 * report_select_share(&context->selection, figure).share < limit;
}

void report_view_below_text(const struct report_context *context, size_t count, const char *noun,
                            const char *plural, bool past, struct base_text *out)
{
    report_text_count(out, count);
    base_text_addf(out, " %s%s", past ? "more " : "", count == 1 ? noun : plural);
    if (past || context->options->limit_percent <= 0)
        return;
    base_text_add(out, " below ");
    report_text_percent(out, context->options->limit_percent);
    base_text_add(out, " %");
}

bool report_view_samples(const struct report_context *context)
{
    return !context->selection.exact;
}

void report_view_words(struct report_context *context, const struct base_text *words)
{
    struct base_text clean = {0};
    report_text_clean(&clean, base_text_string(words), context->options->ascii);
    base_wrap(context->out, base_text_string(&clean), 0, 0, context->width);
    base_text_add(context->out, "\n");
    context->out->failed |= words->failed | clean.failed;
    base_text_free(&clean);
}

struct report_table_form report_view_form(const struct report_context *context)
{
    return (struct report_table_form){.width = context->width,
                                      .indent = 2,
                                      .ascii = context->options->ascii,
                                      .color = context->options->color,
                                      .titles = true};
}

void report_view_share_cell(const struct report_context *context, struct report_table *table,
                            const struct report_figure *figure)
{
    struct base_text text = {0};
    report_text_share(&text, &context->selection, figure, context->options->ascii);
    table->failed |= text.failed;
    report_table_cell(table, base_text_string(&text), context->options->ascii);
    base_text_free(&text);
}

void report_view_count_cell(const struct report_context *context, struct report_table *table, uint64_t count)
{
    struct base_text text = {0};
    report_text_count(&text, count);
    table->failed |= text.failed;
    report_table_cell(table, base_text_string(&text), context->options->ascii);
    base_text_free(&text);
}

/* Bytes of a sentence that fit in `room` columns, up to a blank where there is one. Sentences here are
 * ASCII. */
static size_t line_of(const char *sentence, size_t room)
{
    size_t length = strlen(sentence);
    if (length <= room)
        return length;
    for (length = room; length > 0; length--)
        if (sentence[length] == ' ')
            return length;
    return room;
}

void report_view_sentence_rows(const struct report_context *context, struct report_table *table,
                               unsigned before, const char *first, const char *second, const char *sentence)
{
    size_t room = context->width ? context->width - before : SIZE_MAX;
    struct base_text clean = {0}, text = {0};
    report_text_clean(&clean, sentence, context->options->ascii);
    sentence = base_text_string(&clean);
    for (bool begun = false; !begun || *sentence; begun = true) {
        size_t length = line_of(sentence, room);
        base_text_clear(&text);
        base_text_add_bytes(&text, sentence, length);
        sentence += length;
        sentence += strspn(sentence, " ");
        report_table_cell(table, begun ? NULL : first, context->options->ascii);
        report_table_cell(table, begun ? NULL : second, context->options->ascii);
        report_table_cell(table, base_text_string(&text), context->options->ascii);
        report_table_row(table, REPORT_PLAIN);
    }
    table->failed |= text.failed | clean.failed;
    base_text_free(&clean);
    base_text_free(&text);
}

void report_view_name_cell(const struct report_context *context, struct report_table *table,
                           const struct report_entities *entities, uint32_t entity, bool mark_inlined)
{
    struct base_text text = {0};
    bool inlined = mark_inlined && report_entity_inlined(entities, entity);
    report_entity_name(entities, entity, &text);
    table->failed |= text.failed;
    report_table_cell_tail(table, base_text_string(&text), inlined ? " (inlined)" : "",
                           context->options->ascii);
    base_text_free(&text);
}

void report_view_image_cell(const struct report_context *context, struct report_table *table,
                            const struct report_entities *entities, uint32_t entity)
{
    report_table_cell(table, report_entity_image(entities, entity), context->options->ascii);
}

const char *report_view_unknown_caller(const struct report_entities *entities, uint32_t caller)
{
    return entities->items[caller].kind == REPORT_UNKNOWN ? "(unknown caller)" : NULL;
}

int report_view_compare_names(const struct report_entities *entities, uint32_t a, uint32_t b)
{
    const struct profile *profile = entities->profile;
    const struct report_entity *x = &entities->items[a], *y = &entities->items[b];
    int order = strcmp(profile_text(profile, x->name), profile_text(profile, y->name));
    if (!order)
        order = strcmp(report_entity_image(entities, a), report_entity_image(entities, b));
    if (!order)
        order = strcmp(profile_text(profile, x->file), profile_text(profile, y->file));
    if (!order)
        order = (x->line > y->line) - (x->line < y->line);
    if (!order) {
        uint64_t p = profile->addresses[x->address].address, q = profile->addresses[y->address].address;
        order = (p > q) - (p < q);
    }
    return order ? order : (a > b) - (a < b);
}

static int print_view(struct report_context *context)
{
    switch (context->options->view) {
    case REPORT_GRAPH:
        return report_graph(context);
    case REPORT_TREE:
        return report_tree(context);
    case REPORT_PATHS:
        return report_paths(context);
    case REPORT_LOSSES:
        return report_losses(context);
    case REPORT_EDGES:
        return report_edges(context);
    case REPORT_CANDIDATES:
        return report_candidates(context);
    case REPORT_LOOPS:
        return report_loops(context);
    case REPORT_ANNOTATE:
        return report_annotate(context);
    case REPORT_LEAKS:
    case REPORT_PEAK:
        return report_held(context);
    case REPORT_LATENCY:
        return report_latency(context);
    case REPORT_FDS:
        return report_descriptors(context);
    case REPORT_FLAT:
        break;
    }
    return report_flat(context);
}

static int print_text(struct report_context *context)
{
    report_header(context);
    base_text_add(context->out, "\n");
    enum report_view view = context->options->view;
    bool of_samples = view != REPORT_LOSSES && view != REPORT_EDGES && view != REPORT_LATENCY &&
                      !(view == REPORT_ANNOTATE && profile_extent_has_calls(context->profile));
    if (of_samples && report_header_nothing(context))
        return view == REPORT_FDS ? report_descriptors_list(context) : 0;
    return print_view(context);
}

static int print_json(struct report_context *context)
{
    struct base_json json = {.out = context->out, .lines = 2};
    context->json = &json;
    base_json_begin(&json, NULL, '{');
    report_json_recording(context);
    int code = print_view(context);
    base_json_end(&json, '}');
    return code;
}

int report_print(const struct profile *profile, const struct report_options *options, struct base_text *out,
                 struct base_error *error)
{
    struct report_context context = {.profile = profile, .options = options, .out = out, .error = error};
    size_t before = out->length;
    context.width =
        options->width && options->width < NARROWEST_TERMINAL ? NARROWEST_TERMINAL : options->width;
    int code = report_select(profile, options, &context.selection, error);
    if (code)
        return code;
    code = report_walk_prepare(profile, &context.selection, &context.nodes, error);
    if (!code)
        code = options->json ? print_json(&context) : print_text(&context);
    if (!code && out->failed)
        code = report_view_memory(&context);
    report_walk_free(&context.nodes);
    report_select_free(&context.selection);
    if (code && out->length > before) {
        out->length = before;
        out->data[before] = '\0';
    }
    return code;
}
