/* report_edges.c - one row for each pair of functions and kind of call: how often, exactly. Callers may be
 * lines, sites or images instead, and threads shown apart. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "profile_extent.h"
#include "report_views.h"
#include "view_calls.h"
#include "view_json.h"
#include "view_text.h"

enum { NARROW = 100, NARROW_WITH_ONE_MORE = 120 };

struct row {
    const struct view_pair *pair;
    uint32_t kind, thread; /* thread: only by thread; else 0 */
    uint64_t calls;
};

struct edges {
    struct view_context *context;
    struct view_entities entities;
    struct view_calls calls;
    struct row *rows; /* in order; the first `shown` are printed */
    size_t row_count, row_capacity, shown;
    bool past;       /* --limit N cut some off */
    uint64_t hidden; /* calls of the others */
};

static const char *const kinds[PROFILE_CALL_KINDS] = {NULL, "direct", "indirect", "tail", "entry"};

static enum view_by edge_grouping(const struct edges *edges)
{
    return edges->context->options->by;
}

static const char *const nouns[] = {"function", "line", "address", "image", "thread", "cpu"};

/* --- rows --- */

static int by_calls(const void *a, const void *b, void *context)
{
    const struct row *x = a, *y = b;
    if (x->calls != y->calls)
        return x->calls > y->calls ? -1 : 1;
    int order = view_compare_names(context, x->pair->caller, y->pair->caller);
    if (!order)
        order = view_compare_names(context, x->pair->callee, y->pair->callee);
    if (!order)
        order = (x->kind > y->kind) - (x->kind < y->kind);
    return order ? order : (x->thread > y->thread) - (x->thread < y->thread);
}

static bool edges_add_row(struct edges *edges, const struct row *row)
{
    if (!base_array_room(edges->rows, edges->row_count, edges->row_capacity))
        return false;
    edges->rows[edges->row_count++] = *row;
    return true;
}

/* Pairs have no threads: the edges of the profile do. */
static bool fill_by_thread(struct edges *edges)
{
    const struct profile *profile = edges->context->profile;
    struct base_map known = {0};
    bool done = true;
    for (size_t i = 1; done && i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        const struct view_pair *pair =
            view_calls_pair_of(edges->context, &edges->entities, true, &edges->calls, edge);
        if (!pair)
            continue;
        /* Indices have 31 bits, kinds two. */
        uint64_t key =
            (uint64_t)(pair - edges->calls.pairs) << 33 | (uint64_t)edge->thread << 2 | (edge->kind - 1);
        uint32_t row = base_map_find(&known, key);
        if (row == BASE_MAP_NONE) {
            row = (uint32_t)edges->row_count;
            done =
                base_map_set(&known, key, row) &&
                edges_add_row(edges, &(struct row){.pair = pair, .kind = edge->kind, .thread = edge->thread});
        }
        if (done && __builtin_add_overflow(edges->rows[row].calls, edge->calls, &edges->rows[row].calls))
            edges->rows[row].calls = UINT64_MAX;
    }
    base_map_free(&known);
    return done;
}

static bool fill_by_kind(struct edges *edges)
{
    for (size_t i = 0; i < edges->calls.pair_count; i++) {
        const struct view_pair *pair = &edges->calls.pairs[i];
        for (uint32_t kind = 1; kind < PROFILE_CALL_KINDS; kind++) {
            struct row row = {.pair = pair, .kind = kind, .calls = pair->kinds[kind]};
            if (row.calls && !edges_add_row(edges, &row))
                return false;
        }
    }
    return true;
}

static bool fill_rows(struct edges *edges)
{
    if (!(edge_grouping(edges) == VIEW_BY_THREAD ? fill_by_thread(edges) : fill_by_kind(edges)))
        return false;
    if (edges->row_count)
        qsort_r(edges->rows, edges->row_count, sizeof *edges->rows, by_calls, &edges->entities);
    return true;
}

static double share_of(const struct edges *edges, uint64_t calls)
{
    return edges->calls.taken ? (double)calls / (double)edges->calls.taken : 0;
}

/* Rows are in order of their calls: what is too small lies at the end. */
static void edges_apply_limits(struct edges *edges)
{
    const struct view_options *options = edges->context->options;
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

static bool shows_images(const struct edges *edges)
{
    unsigned needed = edge_grouping(edges) == VIEW_BY_FUNCTION ? NARROW : NARROW_WITH_ONE_MORE;
    bool wide = !edges->context->width || edges->context->width >= needed;
    return wide && edge_grouping(edges) != VIEW_BY_IMAGE;
}

static void edges_add_figures(const struct edges *edges, struct view_table *table, uint64_t calls)
{
    struct base_text text = {0};
    view_text_exact(&text, calls);
    view_table_cell(table, base_text_string(&text), false);
    base_text_clear(&text);
    base_text_addf(&text, "%.1f %%", 100 * share_of(edges, calls));
    view_table_cell(table, base_text_string(&text), false);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void edges_add_thread(const struct edges *edges, struct view_table *table, uint32_t thread)
{
    const struct profile *profile = edges->context->profile;
    struct base_text tail = {0};
    if (thread)
        base_text_addf(&tail, " %d", profile->threads[thread].tid);
    view_table_cell_tail(table,
                         thread ? profile_text(profile, profile->threads[thread].name) : "(other threads)",
                         base_text_string(&tail), edges->context->options->ascii);
    table->failed |= tail.failed;
    base_text_free(&tail);
}

/* Where the call stands, in a cell of its own; nothing where the caller is not known. */
static void edges_add_place(const struct edges *edges, struct view_table *table, uint32_t entity)
{
    const struct view_entity *item = &edges->entities.items[entity];
    struct base_text text = {0};
    if (edge_grouping(edges) == VIEW_BY_LINE)
        view_entity_line(&edges->entities, entity, &text);
    else if (item->kind == VIEW_ADDRESS)
        base_text_addf(&text, "0x%llx",
                       (unsigned long long)edges->context->profile->addresses[item->address].address);
    if (edge_grouping(edges) == VIEW_BY_LINE && !text.length && item->kind != VIEW_UNKNOWN)
        base_text_add(&text, "(no line)");
    view_table_cell(table, base_text_string(&text), edges->context->options->ascii);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void add_caller(const struct edges *edges, struct view_table *table, uint32_t entity)
{
    const char *unknown = view_unknown_caller(&edges->entities, entity);
    if (edge_grouping(edges) == VIEW_BY_LINE || edge_grouping(edges) == VIEW_BY_ADDRESS)
        edges_add_place(edges, table, entity);
    if (unknown)
        view_table_cell(table, unknown, false);
    else
        view_name_cell(edges->context, table, &edges->entities, entity, true);
    if (shows_images(edges))
        view_image_cell(edges->context, table, &edges->entities, entity);
}

static void add_callee(const struct edges *edges, struct view_table *table, uint32_t entity)
{
    view_name_cell(edges->context, table, &edges->entities, entity, true);
    if (shows_images(edges))
        view_image_cell(edges->context, table, &edges->entities, entity);
}

static void edges_add_columns(const struct edges *edges, struct view_table *table)
{
    view_table_add_column(table, "calls", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(table, "share", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(table, "kind", VIEW_LEFT, VIEW_FIXED);
    if (edge_grouping(edges) == VIEW_BY_THREAD)
        view_table_add_column(table, "thread", VIEW_LEFT, VIEW_FLEXIBLE);
    if (edge_grouping(edges) == VIEW_BY_LINE)
        view_table_add_column(table, "line", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    if (edge_grouping(edges) == VIEW_BY_ADDRESS)
        view_table_add_column(table, "site", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(table, "caller", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    if (shows_images(edges))
        view_table_add_column(table, "its image", VIEW_LEFT, VIEW_FLEXIBLE);
    view_table_add_column(table, "callee", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    if (shows_images(edges))
        view_table_add_column(table, "its image", VIEW_LEFT, VIEW_FLEXIBLE);
}

static void edges_add_hidden(const struct edges *edges, struct view_table *table)
{
    struct base_text text = {0};
    size_t count = edges->row_count - edges->shown;
    if (!count)
        return;
    base_text_add(&text, "(");
    view_below_text(edges->context, count, "edge", "edges", edges->past, &text);
    base_text_add(&text, ")");
    edges_add_figures(edges, table, edges->hidden);
    bool said = false;
    for (size_t c = 2; c < table->column_count; c++) {
        bool here = table->columns[c].flexible && !said;
        view_table_cell(table, here ? base_text_string(&text) : NULL, false);
        said |= here;
    }
    view_table_row(table, VIEW_DIM);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void print_table(struct edges *edges)
{
    struct view_table table = {0};
    struct view_table_form form = view_form(edges->context);
    edges_add_columns(edges, &table);
    for (size_t i = 0; i < edges->shown; i++) {
        const struct row *row = &edges->rows[i];
        edges_add_figures(edges, &table, row->calls);
        view_table_cell(&table, kinds[row->kind], false);
        if (edge_grouping(edges) == VIEW_BY_THREAD)
            edges_add_thread(edges, &table, row->thread);
        add_caller(edges, &table, row->pair->caller);
        add_callee(edges, &table, row->pair->callee);
        view_table_row(&table, VIEW_PLAIN);
    }
    edges_add_hidden(edges, &table);
    view_table_print(&table, &form, edges->context->out);
    view_table_free(&table);
}

/* Why there is no row. */
static void add_nothing(const struct edges *edges, struct base_text *words)
{
    struct profile_extent extent = profile_extent_named(edges->context->profile, PROFILE_CALLS);
    if (!profile_counts_calls(edges->context->profile)) {
        base_text_add(words, "No calls were counted in this recording: tally record --calls does.");
    } else if (extent.degree == PROFILE_EXTENT_NONE) {
        base_text_add(words, "No calls: ");
        profile_extent_not_counted(&extent, words);
    } else if (edges->calls.all) {
        base_text_add(words, "No calls: the filters leave none.");
    } else {
        base_text_add(words, "No calls: none was made while they were counted");
        profile_extent_caveat(&extent, words);
        base_text_add(words, ".");
    }
}

static void edges_print_text(struct edges *edges)
{
    struct base_text words = {0};
    if (edges->calls.counted && edges->calls.taken) {
        print_table(edges);
        return;
    }
    add_nothing(edges, &words);
    view_words(edges->context, &words);
    base_text_free(&words);
}

/* --- JSON --- */

static void json_end(struct edges *edges, const char *key, uint32_t entity)
{
    struct base_json *json = edges->context->json;
    if (edges->entities.items[entity].kind == VIEW_UNKNOWN) {
        base_json_string(json, key, NULL);
        return;
    }
    base_json_begin(json, key, '{');
    view_json_entity(edges->context, &edges->entities, entity);
    base_json_end(json, '}');
}

static void edges_print_json(struct edges *edges)
{
    struct base_json *json = edges->context->json;
    base_json_bool(json, "calls_counted", edges->calls.counted);
    base_json_unsigned(json, "calls", edges->calls.taken);
    base_json_unsigned(json, "recorded_calls", edges->calls.all);
    base_json_string(json, "by", nouns[edge_grouping(edges)]);
    base_json_begin(json, "rows", '[');
    for (size_t i = 0; i < edges->shown; i++) {
        const struct row *row = &edges->rows[i];
        base_json_begin(json, NULL, '{');
        if (edge_grouping(edges) == VIEW_BY_THREAD && row->thread)
            view_json_thread(edges->context, row->thread);
        else if (edge_grouping(edges) == VIEW_BY_THREAD)
            base_json_string(json, "thread", NULL);
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

static enum view_detail detail_of(const struct view_options *options)
{
    switch (options->by) {
    case VIEW_BY_LINE:
        return VIEW_DETAIL_LINE;
    case VIEW_BY_ADDRESS:
        return VIEW_DETAIL_ADDRESS;
    case VIEW_BY_IMAGE:
        return VIEW_DETAIL_IMAGE;
    default:
        break;
    }
    return options->inlines ? VIEW_DETAIL_INLINED : VIEW_DETAIL_FUNCTION;
}

int report_edges(struct view_context *context)
{
    struct edges edges = {.context = context};
    enum view_detail detail = detail_of(context->options);
    int code = view_entity_init(&edges.entities, context->profile, detail) ? 0 : view_memory(context);
    if (!code)
        code = view_calls_gather(context, &edges.entities, true, &edges.calls);
    if (!code && !fill_rows(&edges))
        code = view_memory(context);
    if (!code) {
        edges_apply_limits(&edges);
        if (context->json)
            edges_print_json(&edges);
        else
            edges_print_text(&edges);
    }
    view_calls_free(&edges.calls);
    view_entity_free(&edges.entities);
    free(edges.rows);
    return code;
}
