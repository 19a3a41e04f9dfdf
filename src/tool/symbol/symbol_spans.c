#include "symbol_spans.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"

enum { BLOCK = 8 }; /* spans under a leaf */

bool symbol_spans_add(struct symbol_spans *spans, uint64_t start, uint64_t end, uint64_t time, uint32_t value)
{
    if (!base_array_room(spans->items, spans->count, spans->capacity))
        return false;
    spans->items[spans->count] =
        (struct symbol_span){start, end, time, .value = value, .order = (uint32_t)spans->count};
    spans->count++;
    return true;
}

void symbol_spans_free(struct symbol_spans *spans)
{
    for (size_t i = 0; i < spans->run_count; i++)
        free(spans->runs[i].nodes);
    free(spans->items);
    *spans = (struct symbol_spans){0};
}

/* --- runs --- */

static int by_start(const void *left, const void *right)
{
    const struct symbol_span *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static bool is_later(uint64_t time, uint32_t order, uint64_t than_time, uint32_t than_order)
{
    return time != than_time ? time > than_time : order > than_order;
}

static void widen_span(struct symbol_spans_node *node, uint64_t reach, uint64_t since, uint64_t time,
                       uint32_t order)
{
    node->reach = reach > node->reach ? reach : node->reach;
    node->since = since < node->since ? since : node->since;
    if (is_later(time, order, node->time, node->order)) {
        node->time = time;
        node->order = order;
    }
}

static void build_tree(const struct symbol_span *items, struct symbol_spans_run *run)
{
    for (run->leaves = 1; run->leaves * BLOCK < run->count;)
        run->leaves *= 2;
    run->nodes = malloc(2 * run->leaves * sizeof *run->nodes);
    if (!run->nodes)
        return;
    for (size_t i = 0; i < 2 * run->leaves; i++)
        run->nodes[i] = (struct symbol_spans_node){.since = UINT64_MAX};
    for (size_t i = 0; i < run->count; i++) {
        const struct symbol_span *span = &items[run->begin + i];
        widen_span(&run->nodes[run->leaves + i / BLOCK], span->end, span->time, span->time, span->order);
    }
    for (size_t i = 2 * run->leaves; i-- > 2;) {
        const struct symbol_spans_node *node = &run->nodes[i];
        widen_span(&run->nodes[i / 2], node->reach, node->since, node->time, node->order);
    }
}

/* Two neighbours become one, from the end, so that nothing is overwritten before it was read. */
static bool merge_spans(struct symbol_span *items, size_t left, size_t right)
{
    struct symbol_span *kept = malloc(right * sizeof *kept);
    size_t rest = right;
    if (!kept)
        return false;
    memcpy(kept, items + left, right * sizeof *kept);
    for (size_t to = left + right; rest; to--) {
        bool from_right = !left || by_start(&items[left - 1], &kept[rest - 1]) < 0;
        items[to - 1] = from_right ? kept[--rest] : items[--left];
    }
    free(kept);
    return true;
}

void symbol_spans_settle(struct symbol_spans *spans)
{
    struct symbol_spans_run *last = spans->run_count ? &spans->runs[spans->run_count - 1] : NULL;
    struct symbol_spans_run run = {.begin = last ? last->begin + last->count : 0};
    run.count = spans->count - run.begin;
    if (run.count <= SYMBOL_SPANS_TAIL)
        return;
    qsort(spans->items + run.begin, run.count, sizeof *spans->items, by_start);
    for (; spans->run_count; spans->run_count--) {
        last = &spans->runs[spans->run_count - 1];
        if (last->count > 2 * run.count || !merge_spans(spans->items + last->begin, last->count, run.count))
            break;
        free(last->nodes);
        run.begin = last->begin;
        run.count += last->count;
    }
    if (spans->run_count == SYMBOL_SPANS_RUNS)
        return; /* without memory for merging; it is searched one by one */
    build_tree(spans->items, &run);
    spans->runs[spans->run_count++] = run;
}

/* --- finding --- */

struct search {
    const struct symbol_span *items, *best;
    const struct symbol_spans_node *nodes;
    size_t leaves, limit; /* limit: spans of the run that do not begin behind the address */
    uint64_t address, time;
    size_t steps;
};

static void look_up_span(struct search *search, const struct symbol_span *span)
{
    const struct symbol_span *best = search->best;
    search->steps++;
    if (search->address < span->start || search->address >= span->end || span->time > search->time)
        return;
    if (!best || is_later(span->time, span->order, best->time, best->order))
        search->best = span;
}

static void look_at_all(struct search *search, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        look_up_span(search, &search->items[i]);
}

static bool may_hold(const struct search *search, const struct symbol_spans_node *node)
{
    const struct symbol_span *best = search->best;
    return node->reach > search->address && node->since <= search->time &&
           (!best || is_later(node->time, node->order, best->time, best->order));
}

/* The stretch of node `at`, which begins with leaf `first` and has `width` of them. */
static void visit_span(struct search *search, size_t at, size_t first, size_t width)
{
    const struct symbol_spans_node *nodes = search->nodes;
    size_t half = width / 2, end = first * BLOCK + BLOCK;
    if (first * BLOCK >= search->limit || !may_hold(search, &nodes[at]))
        return;
    search->steps++;
    if (at >= search->leaves) {
        look_at_all(search, first * BLOCK, end < search->limit ? end : search->limit);
        return;
    }
    const struct symbol_spans_node *left = &nodes[2 * at], *right = left + 1;
    bool right_first = is_later(right->time, right->order, left->time, left->order);
    visit_span(search, 2 * at + right_first, first + (right_first ? half : 0), half);
    visit_span(search, 2 * at + !right_first, first + (right_first ? 0 : half), half);
}

static void search_run(struct search *search, const struct symbol_spans *spans,
                       const struct symbol_spans_run *run)
{
    search->items = spans->items + run->begin;
    search->limit = base_search_up_to(search->items, run->count, start, search->address);
    search->nodes = run->nodes;
    search->leaves = run->leaves;
    if (run->nodes)
        visit_span(search, 1, 0, run->leaves);
    else
        look_at_all(search, 0, search->limit);
}

const struct symbol_span *symbol_spans_find(const struct symbol_spans *spans, uint64_t address, uint64_t time,
                                            size_t *steps)
{
    struct search search = {.items = spans->items, .address = address, .time = time};
    const struct symbol_spans_run *last = spans->run_count ? &spans->runs[spans->run_count - 1] : NULL;
    look_at_all(&search, last ? last->begin + last->count : 0, spans->count);
    for (size_t i = spans->run_count; i-- > 0;)
        search_run(&search, spans, &spans->runs[i]);
    if (steps)
        *steps += search.steps;
    return search.best;
}
