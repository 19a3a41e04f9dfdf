/* report_edges.c - one row for each pair of functions and kind of call: how often, exactly. */
#include <stdlib.h>

#include "base_array.h"
#include "report_calls.h"
#include "report_text.h"

enum { NARROW = 100 };

struct row {
    const struct report_pair *pair;
    uint32_t kind;
    uint64_t calls;
};

struct edges {
    struct report_context *context;
    struct report_entities entities;
    struct report_calls calls;
    struct row *rows; /* in order; the first `shown` are printed */
    size_t row_count, row_capacity, shown;
    bool past;       /* --limit N cut some off */
    uint64_t hidden; /* calls of the others */
};

static const char *const kinds[PROFILE_CALL_KINDS] = {NULL, "direct", "indirect", "tail", "entry"};

/* --- rows --- */

static int by_calls(const void *a, const void *b, void *context)
{
    const struct row *x = a, *y = b;
    if (x->calls != y->calls)
        return x->calls > y->calls ? -1 : 1;
    int order = report_view_compare_names(context, x->pair->caller, y->pair->caller);
    if (!order)
        order = report_view_compare_names(context, x->pair->callee, y->pair->callee);
    return order ? order : (x->kind > y->kind) - (x->kind < y->kind);
}

static bool fill_rows(struct edges *edges)
{
    for (size_t i = 0; i < edges->calls.pair_count; i++) {
        const struct report_pair *pair = &edges->calls.pairs[i];
        for (uint32_t kind = 1; kind < PROFILE_CALL_KINDS; kind++) {
            if (!pair->kinds[kind])
                continue;
            if (!base_array_room(edges->rows, edges->row_count, edges->row_capacity))
                return false;
            edges->rows[edges->row_count++] = (struct row){pair, kind, pair->kinds[kind]};
        }
    }
    if (edges->row_count)
        qsort_r(edges->rows, edges->row_count, sizeof *edges->rows, by_calls, &edges->entities);
    return true;
}

static double share_of(const struct edges *edges, uint64_t calls)
{
    return edges->calls.taken ? (double)calls / (double)edges->calls.taken : 0;
}

/* Rows are in order of their calls: what is too small lies at the end. */
static void apply_limits(struct edges *edges)
{
    const struct report_options *options = edges->context->options;
    size_t most = options->limit_rows ? options->limit_rows : edges->row_count;
    for (size_t i = 0; i < edges->row_count; i++) {
        bool below = options->limit_percent > 0 &&
                     100 * share_of(edges, edges->rows[i].calls) < options->limit_percent;
        if (!below && edges->shown < most) {
            edges->shown++;
            continue;
        }
        edges->past |= !below;
        edges->hidden += edges->rows[i].calls;
    }
}

/* --- text --- */

static bool is_wide(const struct edges *edges)
{
    return !edges->context->width || edges->context->width >= NARROW;
}

static void add_figures(const struct edges *edges, struct report_table *table, uint64_t calls)
{
    struct base_text text = {0};
    report_text_exact(&text, calls);
    report_table_cell(table, base_text_string(&text), false);
    base_text_clear(&text);
    base_text_addf(&text, "%.1f %%", 100 * share_of(edges, calls));
    report_table_cell(table, base_text_string(&text), false);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void add_end(const struct edges *edges, struct report_table *table, uint32_t entity)
{
    report_view_name_cell(edges->context, table, &edges->entities, entity, true);
    if (is_wide(edges))
        report_view_image_cell(edges->context, table, &edges->entities, entity);
}

static void add_hidden(const struct edges *edges, struct report_table *table)
{
    struct base_text text = {0};
    size_t count = edges->row_count - edges->shown;
    if (!count)
        return;
    base_text_add(&text, "(");
    report_view_below_text(edges->context, count, "edge", "edges", edges->past, &text);
    base_text_add(&text, ")");
    add_figures(edges, table, edges->hidden);
    report_table_cell(table, NULL, false);
    report_table_cell(table, base_text_string(&text), false);
    for (size_t c = 4; c < table->column_count; c++)
        report_table_cell(table, NULL, false);
    report_table_row(table, REPORT_DIM);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void print_table(struct edges *edges)
{
    struct report_table table = {0};
    struct report_table_form form = report_view_form(edges->context);
    report_table_add_column(&table, "calls", REPORT_RIGHT, REPORT_FIXED);
    report_table_add_column(&table, "share", REPORT_RIGHT, REPORT_FIXED);
    report_table_add_column(&table, "kind", REPORT_LEFT, REPORT_FIXED);
    report_table_add_column(&table, "caller", REPORT_LEFT, REPORT_FLEXIBLE_NAME);
    if (is_wide(edges))
        report_table_add_column(&table, "its image", REPORT_LEFT, REPORT_FLEXIBLE);
    report_table_add_column(&table, "callee", REPORT_LEFT, REPORT_FLEXIBLE_NAME);
    if (is_wide(edges))
        report_table_add_column(&table, "its image", REPORT_LEFT, REPORT_FLEXIBLE);
    for (size_t i = 0; i < edges->shown; i++) {
        const struct row *row = &edges->rows[i];
        add_figures(edges, &table, row->calls);
        report_table_cell(&table, kinds[row->kind], false);
        add_end(edges, &table, row->pair->caller);
        add_end(edges, &table, row->pair->callee);
        report_table_row(&table, REPORT_PLAIN);
    }
    add_hidden(edges, &table);
    report_table_print(&table, &form, edges->context->out);
    report_table_free(&table);
}

static void print_text(struct edges *edges)
{
    const char *words = NULL;
    if (!edges->calls.counted)
        words = "No calls were counted in this recording.";
    else if (!edges->calls.all)
        words = "No calls: none was made while they were counted.";
    else if (!edges->calls.taken)
        words = "No calls: the filters leave none.";
    if (!words) {
        print_table(edges);
        return;
    }
    report_text_wrap(edges->context->out, words, 0, 0, edges->context->width);
    base_text_add(edges->context->out, "\n");
}

/* --- JSON --- */

static void json_end(struct edges *edges, const char *key, uint32_t entity)
{
    struct base_json *json = edges->context->json;
    if (edges->entities.items[entity].kind == REPORT_UNKNOWN) {
        base_json_string(json, key, NULL);
        return;
    }
    base_json_begin(json, key, '{');
    report_json_entity(edges->context, &edges->entities, entity);
    base_json_end(json, '}');
}

static void print_json(struct edges *edges)
{
    struct base_json *json = edges->context->json;
    base_json_bool(json, "calls_counted", edges->calls.counted);
    base_json_unsigned(json, "calls", edges->calls.taken);
    base_json_unsigned(json, "recorded_calls", edges->calls.all);
    base_json_begin(json, "rows", '[');
    for (size_t i = 0; i < edges->shown; i++) {
        const struct row *row = &edges->rows[i];
        base_json_begin(json, NULL, '{');
        json_end(edges, "caller", row->pair->caller);
        json_end(edges, "callee", row->pair->callee);
        base_json_string(json, "kind", kinds[row->kind]);
        base_json_unsigned(json, "calls", row->calls);
        base_json_number(json, "share", share_of(edges, row->calls));
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
    base_json_begin(json, "below_limit", '{');
    base_json_unsigned(json, "rows", edges->row_count - edges->shown);
    base_json_unsigned(json, "calls", edges->hidden);
    base_json_end(json, '}');
}

int report_edges(struct report_context *context)
{
    struct edges edges = {.context = context};
    enum report_detail detail = context->options->inlines ? REPORT_DETAIL_INLINED : REPORT_DETAIL_FUNCTION;
    int code =
        report_entity_init(&edges.entities, context->profile, detail) ? 0 : report_view_memory(context);
    if (!code)
        code = report_calls_gather(context, &edges.entities, true, &edges.calls);
    if (!code && !fill_rows(&edges))
        code = report_view_memory(context);
    if (!code) {
        apply_limits(&edges);
        if (context->json)
            print_json(&edges);
        else
            print_text(&edges);
    }
    report_calls_free(&edges.calls);
    report_entity_free(&edges.entities);
    free(edges.rows);
    return code;
}
