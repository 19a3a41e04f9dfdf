/* report_graph.c - one entry for each function: who called it above, what it called below.
 *
 * Every figure is of whole stacks: the share beside a caller is that of the samples whose stack holds the
 * call from it, counted once however often it recurs. So nothing is guessed from averages as call-graph
 * profilers without stacks must, and cycles need no special arithmetic; they are only named, so that a reader
 * knows why the callers of a member may add up to more than its total. Without recursion, callers add up to
 * the total, and self and callees as well.
 *
 * Where calls were counted they stand beside the time as gprof has them: the entry's "entering+recursive";
 * "from this caller/all that enter" above and below it; recursive calls alone. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "report_views.h"
#include "view_calls.h"
#include "view_cycle.h"
#include "view_json.h"
#include "view_text.h"

enum { NARROW = 100 };

struct sum {
    struct view_figure self, total;
    uint32_t active;
    uint32_t rank;  /* from 1, by total */
    uint32_t cycle; /* 0: none */
    bool seen, printed;
};

struct edge {
    uint32_t caller, callee;
    uint32_t active;
    struct view_figure total;
};

struct graph {
    struct view_context *context;
    struct view_entities entities;
    struct view_calls calls;
    struct sum *sums; /* by entity */
    size_t sum_count, sum_capacity;
    struct edge *edges; /* index 0 is none */
    size_t edge_count, edge_capacity;
    struct base_map map; /* (caller, callee) -> edge */
    uint32_t *ranking;   /* entities by rank, from 0; the first `shown` have entries */
    size_t ranked, shown;
    bool past;
    uint32_t *callees, *first_callee; /* edges by caller, hottest first */
    uint32_t *callers, *first_caller; /* edges by callee, hottest last */
};

/* --- sums over the walk --- */

static bool grow_sums(struct graph *graph, uint32_t entity)
{
    while (graph->sum_count <= entity) {
        if (!base_array_room(graph->sums, graph->sum_count, graph->sum_capacity))
            return false;
        graph->sums[graph->sum_count++] = (struct sum){0};
    }
    return true;
}

static uint32_t edge_between(struct graph *graph, uint32_t caller, uint32_t callee)
{
    uint64_t key = (uint64_t)caller << 32 | callee;
    uint32_t known = base_map_find(&graph->map, key), fresh = (uint32_t)graph->edge_count;
    if (known != BASE_MAP_NONE)
        return known;
    if (!base_array_room(graph->edges, graph->edge_count, graph->edge_capacity) ||
        !base_map_set(&graph->map, key, fresh))
        return 0;
    graph->edges[graph->edge_count++] = (struct edge){.caller = caller, .callee = callee};
    return fresh;
}

static bool graph_enter(void *context, struct view_frame *frames, size_t depth,
                        const struct view_figure *total)
{
    struct graph *graph = context;
    struct view_frame *frame = &frames[depth - 1];
    if (!grow_sums(graph, frame->entity))
        return false;
    struct sum *sum = &graph->sums[frame->entity];
    sum->seen = true;
    if (!sum->active++)
        view_select_add(&graph->context->selection, &sum->total, total);
    if (depth == 1)
        return true;
    frame->slot = edge_between(graph, frames[depth - 2].entity, frame->entity);
    if (!frame->slot)
        return false;
    struct edge *edge = &graph->edges[frame->slot];
    if (!edge->active++)
        view_select_add(&graph->context->selection, &edge->total, total);
    return true;
}

static void graph_leave(void *context, struct view_frame *frames, size_t depth)
{
    struct graph *graph = context;
    graph->sums[frames[depth - 1].entity].active--;
    graph->edges[frames[depth - 1].slot].active--; /* of index 0: nobody looks */
}

static bool graph_leaf(void *context, struct view_frame *frames, size_t depth, const struct view_figure *self)
{
    struct graph *graph = context;
    view_select_add(&graph->context->selection, &graph->sums[frames[depth - 1].entity].self, self);
    return true;
}

/* Calls without a sample are edges too, and who was called a function. */
static bool add_counted(struct graph *graph)
{
    for (size_t i = 0; i < graph->calls.pair_count; i++) {
        const struct view_pair *pair = &graph->calls.pairs[i];
        uint32_t further = pair->caller > pair->callee ? pair->caller : pair->callee;
        if (!grow_sums(graph, further) || !edge_between(graph, pair->caller, pair->callee))
            return false;
        graph->sums[pair->caller].seen = graph->sums[pair->callee].seen = true;
    }
    return true;
}

/* --- ranks --- */

static int graph_by_total(const void *a, const void *b, void *context)
{
    const struct graph *graph = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct sum *x = &graph->sums[i], *y = &graph->sums[j];
    if (x->total.value != y->total.value)
        return x->total.value > y->total.value ? -1 : 1;
    if (x->self.value != y->self.value)
        return x->self.value > y->self.value ? -1 : 1;
    return view_compare_names(&graph->entities, i, j);
}

static bool graph_rank(struct graph *graph)
{
    size_t limit = graph->context->options->limit_rows;
    graph->ranking = calloc(graph->sum_count + 1, sizeof *graph->ranking);
    if (!graph->ranking)
        return false;
    for (size_t i = 0; i < graph->sum_count; i++)
        if (graph->sums[i].seen)
            graph->ranking[graph->ranked++] = (uint32_t)i;
    qsort_r(graph->ranking, graph->ranked, sizeof *graph->ranking, graph_by_total, graph);
    for (size_t i = 0; i < graph->ranked; i++) {
        struct sum *sum = &graph->sums[graph->ranking[i]];
        bool below = view_below(graph->context, &sum->total);
        sum->rank = (uint32_t)i + 1;
        sum->printed = !below && (!limit || i < limit);
        graph->shown += sum->printed;
        graph->past |= !below && !sum->printed;
    }
    return true;
}

/* --- edges by function --- */

static int order_edges(const struct graph *graph, uint32_t i, uint32_t j, bool by_caller)
{
    const struct edge *x = &graph->edges[i], *y = &graph->edges[j];
    uint32_t a = by_caller ? x->caller : x->callee, b = by_caller ? y->caller : y->callee;
    if (a != b)
        return a < b ? -1 : 1;
    if (x->total.value != y->total.value)
        return (x->total.value > y->total.value) == by_caller ? -1 : 1;
    a = graph->sums[by_caller ? x->callee : x->caller].rank;
    b = graph->sums[by_caller ? y->callee : y->caller].rank;
    return (a < b) == by_caller ? -1 : 1;
}

static int callee_order(const void *a, const void *b, void *graph)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return i == j ? 0 : order_edges(graph, i, j, true);
}

static int caller_order(const void *a, const void *b, void *graph)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return i == j ? 0 : order_edges(graph, i, j, false);
}

static bool index_edges(struct graph *graph, uint32_t **edges, uint32_t **first, bool by_caller)
{
    *edges = calloc(graph->edge_count + 1, sizeof **edges);
    *first = calloc(graph->sum_count + 2, sizeof **first);
    if (!*edges || !*first)
        return false;
    for (size_t i = 1; i < graph->edge_count; i++) {
        (*edges)[i - 1] = (uint32_t)i;
        (*first)[(by_caller ? graph->edges[i].caller : graph->edges[i].callee) + 1]++;
    }
    for (size_t i = 1; i < graph->sum_count + 2; i++)
        (*first)[i] += (*first)[i - 1];
    qsort_r(*edges, graph->edge_count - 1, sizeof **edges, by_caller ? callee_order : caller_order, graph);
    return true;
}

/* A signal is no call: it closes no cycle. */
static bool find_cycles(struct graph *graph)
{
    uint32_t *targets = calloc(graph->edge_count + 1, sizeof *targets);
    uint32_t *component = calloc(graph->sum_count + 1, sizeof *component);
    bool done = targets && component;
    for (size_t i = 0; done && i + 1 < graph->edge_count; i++) {
        const struct edge *edge = &graph->edges[graph->callees[i]];
        bool by_signal = graph->entities.items[edge->callee].kind == VIEW_SIGNAL;
        targets[i] = by_signal ? edge->caller : edge->callee;
    }
    done = done && view_cycle_find(graph->sum_count, graph->first_callee, targets, component);
    for (size_t i = 0; done && i < graph->sum_count; i++)
        graph->sums[i].cycle = component[i];
    free(targets);
    free(component);
    return done;
}

/* Cycles are numbered in the order in which their first members are printed. */
static bool number_cycles(struct graph *graph)
{
    uint32_t *numbers = calloc(graph->sum_count + 1, sizeof *numbers), used = 0;
    if (!numbers)
        return false;
    for (size_t i = 0; i < graph->ranked; i++) {
        struct sum *sum = &graph->sums[graph->ranking[i]];
        if (!sum->cycle)
            continue;
        if (!numbers[sum->cycle])
            numbers[sum->cycle] = ++used;
        sum->cycle = numbers[sum->cycle];
    }
    free(numbers);
    return true;
}

static int graph_gather(struct graph *graph)
{
    struct view_context *context = graph->context;
    enum view_detail detail = context->options->inlines ? VIEW_DETAIL_INLINED : VIEW_DETAIL_FUNCTION;
    struct view_visitor visitor = {
        .enter = graph_enter, .leave = graph_leave, .leaf = graph_leaf, .context = graph, .marks = true};
    if (!view_entity_init(&graph->entities, context->profile, detail) ||
        !base_array_room(graph->edges, 0, graph->edge_capacity))
        return view_memory(context);
    graph->edges[graph->edge_count++] = (struct edge){0};
    int code = view_walk(context->profile, &context->nodes, &graph->entities, &visitor, context->error);
    if (code)
        return code;
    code = view_calls_gather(context, &graph->entities, false, &graph->calls);
    if (code)
        return code;
    bool done = add_counted(graph) && graph_rank(graph) &&
                index_edges(graph, &graph->callees, &graph->first_callee, true) &&
                index_edges(graph, &graph->callers, &graph->first_caller, false) && find_cycles(graph) &&
                number_cycles(graph);
    return done ? 0 : view_memory(context);
}

/* --- text --- */

/* A narrow terminal has no columns for samples and images beside the names. */
static bool graph_is_wide(const struct graph *graph)
{
    return !graph->context->width || graph->context->width >= NARROW;
}

/* ... and with calls none for self on every line either: --flat has it. */
static bool shows_self(const struct graph *graph)
{
    return graph_is_wide(graph) || !graph->calls.counted;
}

static bool shows_samples(const struct graph *graph)
{
    return graph_is_wide(graph) && view_samples(graph->context);
}

/* A row that only says something; under a narrow terminal's calls, where names have little room. */
static void add_remark(const struct graph *graph, struct view_table *table, const char *remark)
{
    int before = 2 + shows_self(graph) + shows_samples(graph) + 2 * graph->calls.counted;
    if (!shows_self(graph)) {
        view_table_words(table, 2, 0, remark + strspn(remark, " "), VIEW_DIM, false);
        return;
    }
    for (int i = before; i > 0; i--)
        view_table_cell(table, NULL, false);
    view_table_cell(table, remark, false);
    if (graph_is_wide(graph))
        view_table_cell(table, NULL, false);
    view_table_row(table, VIEW_DIM);
}

static void graph_add_name(const struct graph *graph, struct view_table *table, uint32_t entity, bool indent,
                           bool itself)
{
    const struct sum *sum = &graph->sums[entity];
    struct base_text text = {0}, tail = {0};
    base_text_add(&text, indent ? "    " : "");
    view_entity_name(&graph->entities, entity, &text);
    if (view_entity_inlined(&graph->entities, entity))
        base_text_add(&tail, " (inlined)");
    if (sum->cycle)
        base_text_addf(&tail, " <cycle %u>", sum->cycle);
    if (itself)
        base_text_add(&tail, " (itself)");
    else if (indent && sum->printed)
        base_text_addf(&tail, " [%u]", sum->rank);
    table->failed |= text.failed | tail.failed;
    view_table_cell_tail(table, base_text_string(&text), base_text_string(&tail),
                         graph->context->options->ascii);
    base_text_free(&text);
    base_text_free(&tail);
}

/* The cells of calls and of the time of one. */
static void graph_add_calls(const struct graph *graph, struct view_table *table, const char *calls,
                            const struct view_figure *time, uint64_t divisor)
{
    const struct view_context *context = graph->context;
    struct base_text text = {0};
    view_table_cell(table, calls, false);
    if (divisor && view_calls_timed(context, &graph->calls)) {
        struct view_mean mean = view_calls_mean(&context->selection, time, divisor);
        view_calls_mean_text(&text, &mean, context->options->ascii);
    }
    view_table_cell(table, base_text_string(&text), context->options->ascii);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void add_edge_calls(const struct graph *graph, struct view_table *table, const struct edge *edge)
{
    const struct view_pair *pair = view_calls_between(&graph->calls, edge->caller, edge->callee);
    struct view_called called = view_calls_of(&graph->calls, edge->callee);
    struct base_text text = {0};
    if (!graph->calls.counted)
        return;
    if (pair)
        view_text_count(&text, pair->calls);
    if (pair && !pair->recursive) {
        base_text_add(&text, "/");
        view_calls_at_least(&text, &called, graph->context->options->ascii);
        view_text_count(&text, view_calls_entering(&called));
    }
    graph_add_calls(graph, table, base_text_string(&text), &edge->total,
                    pair && !pair->recursive && !pair->partial ? pair->calls : 0);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void add_entry_calls(const struct graph *graph, struct view_table *table, uint32_t entity)
{
    struct view_called called = view_calls_of(&graph->calls, entity);
    struct base_text text = {0};
    if (!graph->calls.counted)
        return;
    view_calls_text(&text, &called, graph->context->options->ascii);
    graph_add_calls(graph, table, base_text_string(&text), &graph->sums[entity].total,
                    view_calls_divisor(&called));
    table->failed |= text.failed;
    base_text_free(&text);
}

static void add_edge(const struct graph *graph, struct view_table *table, const struct edge *edge,
                     bool caller)
{
    uint32_t other = caller ? edge->caller : edge->callee;
    view_table_cell(table, NULL, false);
    view_share_cell(graph->context, table, &edge->total);
    if (shows_self(graph))
        view_table_cell(table, NULL, false);
    if (shows_samples(graph))
        view_count_cell(graph->context, table, edge->total.samples);
    add_edge_calls(graph, table, edge);
    graph_add_name(graph, table, other, true, edge->caller == edge->callee);
    if (graph_is_wide(graph))
        view_image_cell(graph->context, table, &graph->entities, other);
    view_table_row(table, VIEW_PLAIN);
}

static void add_hidden_edges(const struct graph *graph, struct view_table *table, size_t count,
                             uint64_t calls, bool callers)
{
    struct base_text text = {0};
    if (!count)
        return;
    base_text_add(&text, "    (");
    view_below_text(graph->context, count, callers ? "caller" : "callee", callers ? "callers" : "callees",
                    false, &text);
    if (calls) {
        base_text_add(&text, ", ");
        view_text_exact(&text, calls);
        base_text_add(&text, calls == 1 ? " call" : " calls");
    }
    base_text_add(&text, ")");
    add_remark(graph, table, base_text_string(&text));
    table->failed |= text.failed;
    base_text_free(&text);
}

/* How many the limit hides, and their calls. */
static size_t hidden_edges(const struct graph *graph, uint32_t entity, bool callers, uint64_t *calls)
{
    const uint32_t *first = callers ? graph->first_caller : graph->first_callee;
    const uint32_t *edges = callers ? graph->callers : graph->callees;
    size_t hidden = 0;
    *calls = 0;
    for (uint32_t i = first[entity]; i < first[entity + 1]; i++) {
        const struct edge *edge = &graph->edges[edges[i]];
        if (!view_below(graph->context, &edge->total))
            continue;
        const struct view_pair *pair = view_calls_between(&graph->calls, edge->caller, edge->callee);
        hidden++;
        *calls += pair ? pair->calls : 0;
    }
    return hidden;
}

static void graph_add_edges(const struct graph *graph, struct view_table *table, uint32_t entity,
                            bool callers)
{
    const uint32_t *first = callers ? graph->first_caller : graph->first_callee;
    const uint32_t *edges = callers ? graph->callers : graph->callees;
    uint64_t calls;
    size_t hidden = hidden_edges(graph, entity, callers, &calls);
    if (callers)
        add_hidden_edges(graph, table, hidden, calls, true);
    for (uint32_t i = first[entity]; i < first[entity + 1]; i++)
        if (!view_below(graph->context, &graph->edges[edges[i]].total))
            add_edge(graph, table, &graph->edges[edges[i]], callers);
    if (!callers)
        add_hidden_edges(graph, table, hidden, calls, false);
}

static void add_entry(const struct graph *graph, struct view_table *table, uint32_t entity)
{
    const struct sum *sum = &graph->sums[entity];
    struct base_text index = {0};
    graph_add_edges(graph, table, entity, true);
    base_text_addf(&index, "[%u]", sum->rank);
    view_table_cell(table, base_text_string(&index), false);
    view_share_cell(graph->context, table, &sum->total);
    if (shows_self(graph))
        view_share_cell(graph->context, table, &sum->self);
    if (shows_samples(graph))
        view_count_cell(graph->context, table, sum->total.samples);
    add_entry_calls(graph, table, entity);
    graph_add_name(graph, table, entity, false, false);
    if (graph_is_wide(graph))
        view_image_cell(graph->context, table, &graph->entities, entity);
    view_table_row(table, VIEW_BOLD);
    table->failed |= index.failed;
    base_text_free(&index);
    graph_add_edges(graph, table, entity, false);
}

static void graph_add_hidden(const struct graph *graph, struct view_table *table)
{
    struct base_text text = {0};
    if (graph->shown == graph->ranked)
        return;
    base_text_add(&text, "(");
    view_below_text(graph->context, graph->ranked - graph->shown, "function", "functions", graph->past,
                    &text);
    base_text_add(&text, ")");
    add_remark(graph, table, base_text_string(&text));
    table->failed |= text.failed;
    base_text_free(&text);
}

static void graph_print_text(struct graph *graph)
{
    struct view_context *context = graph->context;
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    view_table_add_column(&table, "index", VIEW_LEFT, VIEW_FIXED);
    view_table_add_column(&table, "total", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    if (shows_self(graph))
        view_table_add_column(&table, "self", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    if (shows_samples(graph))
        view_table_add_column(&table, "samples", VIEW_RIGHT, VIEW_FIXED);
    if (graph->calls.counted) {
        view_table_add_column(&table, "calls", VIEW_RIGHT, VIEW_FIXED);
        view_table_add_column(&table, "time/call", VIEW_RIGHT, VIEW_FIXED);
    }
    view_table_add_column(&table, "function", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    if (graph_is_wide(graph))
        view_table_add_column(&table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
    for (size_t i = 0; i < graph->shown; i++) {
        add_entry(graph, &table, graph->ranking[i]);
        if (i + 1 == graph->ranked)
            break;
        for (size_t c = 0; c < table.column_count; c++)
            view_table_cell(&table, NULL, false);
        view_table_row(&table, VIEW_PLAIN);
    }
    graph_add_hidden(graph, &table);
    view_table_print(&table, &form, context->out);
    view_table_free(&table);
}

/* --- JSON --- */

static void json_mean(struct graph *graph, const struct view_figure *time, uint64_t divisor)
{
    if (!divisor || !view_calls_timed(graph->context, &graph->calls))
        return;
    struct view_mean mean = view_calls_mean(&graph->context->selection, time, divisor);
    view_calls_mean_json(graph->context->json, "ns_per_call", &mean);
}

static void json_edge_calls(struct graph *graph, const struct edge *edge)
{
    const struct view_pair *pair = view_calls_between(&graph->calls, edge->caller, edge->callee);
    if (!pair)
        return;
    base_json_unsigned(graph->context->json, "calls", pair->calls);
    base_json_bool(graph->context->json, "recursive", pair->recursive);
    json_mean(graph, &edge->total, pair->recursive || pair->partial ? 0 : pair->calls);
}

static void json_entry_calls(struct graph *graph, uint32_t entity)
{
    struct view_called called = view_calls_of(&graph->calls, entity);
    if (!called.calls)
        return;
    view_calls_json(graph->context->json, &called);
    json_mean(graph, &graph->sums[entity].total, view_calls_divisor(&called));
}

static void json_edges(struct graph *graph, uint32_t entity, bool callers)
{
    const uint32_t *first = callers ? graph->first_caller : graph->first_callee;
    const uint32_t *edges = callers ? graph->callers : graph->callees;
    struct base_json *json = graph->context->json;
    uint64_t calls;
    base_json_begin(json, callers ? "callers" : "callees", '[');
    for (uint32_t i = first[entity]; i < first[entity + 1]; i++) {
        const struct edge *edge = &graph->edges[edges[i]];
        uint32_t other = callers ? edge->caller : edge->callee;
        if (view_below(graph->context, &edge->total))
            continue;
        base_json_begin(json, NULL, '{');
        base_json_unsigned(json, "rank", graph->sums[other].rank);
        view_json_entity(graph->context, &graph->entities, other);
        view_json_figure(graph->context, "total", &edge->total);
        json_edge_calls(graph, edge);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
    base_json_unsigned(json, callers ? "callers_below_limit" : "callees_below_limit",
                       hidden_edges(graph, entity, callers, &calls));
}

static void graph_print_json(struct graph *graph)
{
    struct base_json *json = graph->context->json;
    base_json_begin(json, "rows", '[');
    for (size_t i = 0; i < graph->shown; i++) {
        uint32_t entity = graph->ranking[i];
        const struct sum *sum = &graph->sums[entity];
        base_json_begin(json, NULL, '{');
        base_json_unsigned(json, "rank", sum->rank);
        view_json_entity(graph->context, &graph->entities, entity);
        if (sum->cycle)
            base_json_unsigned(json, "cycle", sum->cycle);
        view_json_figure(graph->context, "self", &sum->self);
        view_json_figure(graph->context, "total", &sum->total);
        json_entry_calls(graph, entity);
        json_edges(graph, entity, true);
        json_edges(graph, entity, false);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
    base_json_unsigned(json, "functions_below_limit", graph->ranked - graph->shown);
}

int report_graph(struct view_context *context)
{
    struct graph graph = {.context = context};
    int code = graph_gather(&graph);
    if (!code && context->json)
        graph_print_json(&graph);
    else if (!code)
        graph_print_text(&graph);
    view_calls_free(&graph.calls);
    view_entity_free(&graph.entities);
    base_map_free(&graph.map);
    free(graph.sums);
    free(graph.edges);
    free(graph.ranking);
    free(graph.callees);
    free(graph.first_callee);
    free(graph.callers);
    free(graph.first_caller);
    return code;
}
