/* code_loops.c - finding the loops, in four steps:
 *
 *   1. Depth first from the function's beginning, then from blocks not reached so far: those that nothing
 *      leads to first. That gives an order (reverse postorder) and for each block the root it was reached
 *      from; an edge to a block of an earlier root is dropped.
 *   2. Immediate dominators.
 *   3. An edge to a dominator of its source leads back: its target heads a loop. Headers are taken last
 *      first, so that inner loops are known when an outer one is walked backwards from the ends of its edges;
 *      a block that is in a loop already stands for the outermost loop around it.
 *   4. Each edge that does not lead back joins, within the innermost loop around both ends, two vertices:
 *      blocks, or loops that lie directly in it. Vertices that form a cycle there are an irreducible region:
 *      a natural loop inside is one vertex, and the edges that close a natural loop are left out, so nothing
 *      else is left that could. */
#include "code_loops.h"

#include <stdlib.h>
#include <string.h>

struct edge_lists { /* neighbours of v: items[first[v]] .. items[first[v + 1] - 1] */
    uint32_t *first, *items;
};

struct draft { /* a loop before its final number */
    uint32_t header, parent, depth, block_count;
    uint32_t number; /* in the end */
    bool irreducible;
};

struct finder {
    const struct code_graph *graph;
    size_t blocks;
    uint32_t *order;    /* blocks in reverse postorder */
    uint32_t *position; /* by block, in `order` */
    uint32_t *root;     /* by block: the number of its root */
    uint32_t *dominator;
    struct edge_lists before; /* predecessors, without dropped edges */
    struct draft *loops;      /* at most one a block and one more for each of those */
    size_t loop_count;
    uint32_t *of;      /* by block: innermost draft */
    uint32_t *pending; /* a stack of blocks */
};

/* --- 1. the order --- */

struct visit {
    uint32_t block, next;
};

static const uint32_t *next_of(const struct finder *finder, uint32_t block, uint32_t *count)
{
    const struct code_block *item = &finder->graph->blocks[block];
    *count = item->next_count;
    return finder->graph->next + item->first_next;
}

/* Numbers blocks as they are left; `left` counts down from the number of blocks. */
static void go_deep(struct finder *finder, uint32_t start, uint32_t root, struct visit *stack, size_t *left)
{
    size_t depth = 0;
    finder->root[start] = root;
    stack[depth++] = (struct visit){start, 0};
    while (depth) {
        struct visit *top = &stack[depth - 1];
        uint32_t count;
        const uint32_t *next = next_of(finder, top->block, &count);
        if (top->next == count) {
            finder->order[--*left] = top->block;
            depth--;
            continue;
        }
        uint32_t to = next[top->next++];
        if (finder->root[to] != CODE_NONE)
            continue;
        finder->root[to] = root;
        stack[depth++] = (struct visit){to, 0};
    }
}

/* Later roots' blocks come out before those of earlier ones in `order`: no matter, no edge joins them. */
static bool put_in_order(struct finder *finder)
{
    struct visit *stack = calloc(finder->blocks, sizeof *stack);
    bool *led_to = calloc(finder->blocks, sizeof *led_to);
    bool done = stack && led_to;
    size_t left = finder->blocks;
    uint32_t root = 0;
    for (size_t i = 0; done && i < finder->blocks; i++) {
        uint32_t count;
        const uint32_t *next = next_of(finder, (uint32_t)i, &count);
        finder->root[i] = CODE_NONE;
        for (uint32_t n = 0; n < count; n++)
            led_to[next[n]] |= next[n] != i;
    }
    if (done)
        go_deep(finder, 0, root++, stack, &left);
    for (unsigned pass = 0; done && pass < 2; pass++)
        for (uint32_t i = 1; i < finder->blocks; i++)
            if (finder->root[i] == CODE_NONE && (pass == 1 || !led_to[i]))
                go_deep(finder, i, root++, stack, &left);
    for (uint32_t i = 0; done && i < finder->blocks; i++)
        finder->position[finder->order[i]] = i;
    free(stack);
    free(led_to);
    return done;
}

static bool is_edge(const struct finder *finder, uint32_t from, uint32_t to)
{
    return finder->root[from] == finder->root[to];
}

static bool find_predecessors(struct finder *finder)
{
    struct edge_lists *before = &finder->before;
    before->first = calloc(finder->blocks + 2, sizeof *before->first);
    before->items = calloc(finder->graph->next_count + 1, sizeof *before->items);
    if (!before->first || !before->items)
        return false;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint32_t from = 0; from < finder->blocks; from++) {
            uint32_t count;
            const uint32_t *next = next_of(finder, from, &count);
            for (uint32_t n = 0; n < count; n++) {
                if (!is_edge(finder, from, next[n]))
                    continue;
                if (pass == 0)
                    before->first[next[n] + 2]++;
                else
                    before->items[before->first[next[n] + 1]++] = from;
            }
        }
        for (size_t i = 2; pass == 0 && i < finder->blocks + 2; i++)
            before->first[i] += before->first[i - 1];
    }
    return true;
}

/* --- 2. dominators --- */

static uint32_t common_dominator(const struct finder *finder, uint32_t a, uint32_t b)
{
    while (a != b) {
        while (finder->position[a] > finder->position[b])
            a = finder->dominator[a];
        while (finder->position[b] > finder->position[a])
            b = finder->dominator[b];
    }
    return a;
}

/* Until nothing changes, a root being its own dominator meanwhile. */
static void find_dominators(struct finder *finder)
{
    for (size_t i = 0; i < finder->blocks; i++)
        finder->dominator[i] = CODE_NONE;
    for (size_t i = 0; i < finder->blocks; i++) /* the first of each root in the order is the root */
        if (i == 0 || finder->root[finder->order[i]] != finder->root[finder->order[i - 1]])
            finder->dominator[finder->order[i]] = finder->order[i];
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < finder->blocks; i++) {
            uint32_t block = finder->order[i], found = CODE_NONE;
            if (finder->dominator[block] == block)
                continue;
            for (uint32_t p = finder->before.first[block]; p < finder->before.first[block + 1]; p++) {
                uint32_t from = finder->before.items[p];
                if (finder->dominator[from] != CODE_NONE)
                    found = found == CODE_NONE ? from : common_dominator(finder, found, from);
            }
            changed |= found != finder->dominator[block];
            finder->dominator[block] = found;
        }
    }
}

static bool is_dominator(const struct finder *finder, uint32_t above, uint32_t block)
{
    while (finder->position[block] > finder->position[above] && finder->dominator[block] != block)
        block = finder->dominator[block];
    return block == above;
}

/* --- 3. natural loops --- */

static uint32_t outermost_loop(const struct finder *finder, uint32_t loop)
{
    while (finder->loops[loop].parent != CODE_NONE)
        loop = finder->loops[loop].parent;
    return loop;
}

/* What `block` stands for joins the loop, unless it did: then what leads there waits to be looked at. */
static void add_to_loop(struct finder *finder, uint32_t loop, uint32_t block, size_t *waiting)
{
    if (finder->of[block] == CODE_NONE) {
        finder->of[block] = loop;
        if (block != finder->loops[loop].header)
            finder->pending[(*waiting)++] = block;
        return;
    }
    uint32_t outer = outermost_loop(finder, finder->of[block]);
    if (outer == loop)
        return;
    finder->loops[outer].parent = loop;
    finder->pending[(*waiting)++] = finder->loops[outer].header;
}

static void find_loop(struct finder *finder, uint32_t header)
{
    uint32_t loop = (uint32_t)finder->loop_count;
    size_t waiting = 0;
    for (uint32_t p = finder->before.first[header]; p < finder->before.first[header + 1]; p++) {
        uint32_t from = finder->before.items[p];
        if (!is_dominator(finder, header, from))
            continue;
        if (finder->loop_count == loop) {
            finder->loops[finder->loop_count++] = (struct draft){.header = header, .parent = CODE_NONE};
            finder->of[header] = loop;
        }
        add_to_loop(finder, loop, from, &waiting);
    }
    while (waiting) {
        uint32_t block = finder->pending[--waiting];
        for (uint32_t p = finder->before.first[block]; p < finder->before.first[block + 1]; p++)
            add_to_loop(finder, loop, finder->before.items[p], &waiting);
    }
}

static void find_natural(struct finder *finder)
{
    for (size_t i = 0; i < finder->blocks; i++)
        finder->of[i] = CODE_NONE;
    for (size_t i = finder->blocks; i-- > 0;)
        find_loop(finder, finder->order[i]);
}

static void number_depths(struct finder *finder)
{
    for (size_t i = 0; i < finder->loop_count; i++) {
        struct draft *loop = &finder->loops[i];
        loop->depth = 1;
        for (uint32_t around = loop->parent; around != CODE_NONE; around = finder->loops[around].parent)
            loop->depth++;
    }
}

/* --- 4. irreducible regions --- */

/* Vertices: blocks as they are, the natural loop i as blocks + i. */
struct vertices {
    struct finder *finder;
    size_t count;
    struct edge_lists next;
    uint32_t *pairs; /* edges, two a piece */
    size_t pair_count;
    uint32_t *index, *low, *region; /* Tarjan's; region: 0 none, else 1 and up */
    uint32_t *stack;
    struct visit *path;
    uint32_t regions;
};

static uint32_t depth_of(const struct finder *finder, uint32_t loop)
{
    return loop == CODE_NONE ? 0 : finder->loops[loop].depth;
}

static uint32_t parent_of(const struct finder *finder, uint32_t loop)
{
    return finder->loops[loop].parent;
}

/* The innermost loop around both. */
static uint32_t meet_dominators(const struct finder *finder, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (depth_of(finder, a) >= depth_of(finder, b))
            a = parent_of(finder, a);
        else
            b = parent_of(finder, b);
    }
    return a;
}

/* The vertex within `container` that `block` lies in: itself, or a loop directly inside. */
static uint32_t vertex_in(const struct finder *finder, uint32_t block, uint32_t container)
{
    uint32_t loop = finder->of[block], inside = CODE_NONE;
    for (; loop != container; loop = parent_of(finder, loop))
        inside = loop;
    return inside == CODE_NONE ? block : (uint32_t)(finder->blocks + inside);
}

static void join_vertices(struct vertices *vertices, uint32_t from, uint32_t to)
{
    const struct finder *finder = vertices->finder;
    uint32_t container = meet_dominators(finder, finder->of[from], finder->of[to]);
    if (container != CODE_NONE && finder->loops[container].header == to)
        return; /* leads back */
    vertices->pairs[2 * vertices->pair_count] = vertex_in(finder, from, container);
    vertices->pairs[2 * vertices->pair_count++ + 1] = vertex_in(finder, to, container);
}

static bool make_vertices(struct vertices *vertices)
{
    struct finder *finder = vertices->finder;
    size_t edges = finder->before.first[finder->blocks];
    struct edge_lists *next = &vertices->next;
    vertices->count = finder->blocks + finder->loop_count;
    vertices->pairs = calloc(2 * edges + 2, sizeof *vertices->pairs);
    next->first = calloc(vertices->count + 2, sizeof *next->first);
    next->items = calloc(edges + 1, sizeof *next->items);
    vertices->index = calloc(vertices->count, sizeof *vertices->index);
    vertices->low = calloc(vertices->count, sizeof *vertices->low);
    vertices->region = calloc(vertices->count, sizeof *vertices->region);
    vertices->stack = calloc(vertices->count, sizeof *vertices->stack);
    vertices->path = calloc(vertices->count, sizeof *vertices->path);
    if (!vertices->pairs || !next->first || !next->items || !vertices->index || !vertices->low ||
        !vertices->region || !vertices->stack || !vertices->path)
        return false;
    for (uint32_t to = 0; to < finder->blocks; to++)
        for (uint32_t p = finder->before.first[to]; p < finder->before.first[to + 1]; p++)
            join_vertices(vertices, finder->before.items[p], to);
    for (size_t i = 0; i < vertices->pair_count; i++)
        next->first[vertices->pairs[2 * i] + 2]++;
    for (size_t i = 2; i < vertices->count + 2; i++)
        next->first[i] += next->first[i - 1];
    for (size_t i = 0; i < vertices->pair_count; i++)
        next->items[next->first[vertices->pairs[2 * i] + 1]++] = vertices->pairs[2 * i + 1];
    return true;
}

static void free_vertices(struct vertices *vertices)
{
    free(vertices->pairs);
    free(vertices->next.first);
    free(vertices->next.items);
    free(vertices->index);
    free(vertices->low);
    free(vertices->region);
    free(vertices->stack);
    free(vertices->path);
}

/* Takes the component of `vertex` off the stack; two or more are a region. */
static void close_component(struct vertices *vertices, uint32_t vertex, size_t *height)
{
    bool several = vertices->stack[*height - 1] != vertex;
    uint32_t number = several ? ++vertices->regions : 0, taken;
    do {
        taken = vertices->stack[--*height];
        vertices->region[taken] = number;
        vertices->index[taken] = UINT32_MAX; /* on no stack any more */
    } while (taken != vertex);
}

static void lower_header(struct vertices *vertices, uint32_t vertex, uint32_t to)
{
    if (vertices->low[vertex] > to)
        vertices->low[vertex] = to;
}

static void find_components(struct vertices *vertices, uint32_t start, uint32_t *counter)
{
    size_t height = 0, depth = 0;
    for (uint32_t enter = start; enter != CODE_NONE || depth;) {
        if (enter != CODE_NONE) {
            vertices->index[enter] = vertices->low[enter] = ++*counter;
            vertices->stack[height++] = enter;
            vertices->path[depth++] = (struct visit){enter, vertices->next.first[enter]};
            enter = CODE_NONE;
        }
        struct visit *top = &vertices->path[depth - 1];
        if (top->next < vertices->next.first[top->block + 1]) {
            uint32_t to = vertices->next.items[top->next++];
            if (!vertices->index[to])
                enter = to;
            else if (vertices->index[to] != UINT32_MAX)
                lower_header(vertices, top->block, vertices->index[to]);
            continue;
        }
        uint32_t done = top->block;
        if (vertices->low[done] == vertices->index[done])
            close_component(vertices, done, &height);
        if (--depth)
            lower_header(vertices, vertices->path[depth - 1].block, vertices->low[done]);
    }
}

/* Is the edge's target a way into the region of vertices? Asked of blocks: an edge from elsewhere, or the
 * function's beginning. */
static bool is_region_entry(const struct vertices *vertices, uint32_t block, uint32_t region,
                            uint32_t container)
{
    const struct finder *finder = vertices->finder;
    if (finder->dominator[block] == block)
        return true;
    for (uint32_t p = finder->before.first[block]; p < finder->before.first[block + 1]; p++) {
        uint32_t from = finder->before.items[p];
        if (!(meet_dominators(finder, finder->of[from], container) == container) ||
            vertices->region[vertex_in(finder, from, container)] != region)
            return true;
    }
    return false;
}

/* The regions become loops: what lies directly in one gets it as its parent. */
static void add_regions(struct vertices *vertices)
{
    struct finder *finder = vertices->finder;
    size_t natural = finder->loop_count;
    for (uint32_t i = 0; i < vertices->regions; i++)
        finder->loops[finder->loop_count++] =
            (struct draft){.header = CODE_NONE, .parent = CODE_NONE, .irreducible = true};
    for (uint32_t vertex = 0; vertex < vertices->count; vertex++) {
        uint32_t region = vertices->region[vertex];
        if (!region)
            continue;
        struct draft *loop = &finder->loops[natural + region - 1];
        bool block = vertex < finder->blocks;
        uint32_t container = block ? finder->of[vertex] : finder->loops[vertex - finder->blocks].parent;
        uint32_t way_in = block ? vertex : finder->loops[vertex - finder->blocks].header;
        loop->parent = container;
        if (is_region_entry(vertices, way_in, region, container) &&
            (loop->header == CODE_NONE || way_in < loop->header))
            loop->header = way_in;
    }
    for (uint32_t vertex = 0; vertex < vertices->count; vertex++) {
        uint32_t region = vertices->region[vertex];
        if (region && vertex < finder->blocks)
            finder->of[vertex] = (uint32_t)(natural + region - 1);
        else if (region)
            finder->loops[vertex - finder->blocks].parent = (uint32_t)(natural + region - 1);
    }
}

static bool find_irreducible(struct finder *finder)
{
    struct vertices vertices = {.finder = finder};
    uint32_t counter = 0;
    bool done = make_vertices(&vertices);
    for (uint32_t i = 0; done && i < vertices.count; i++)
        if (!vertices.index[i])
            find_components(&vertices, i, &counter);
    if (done)
        add_regions(&vertices);
    free_vertices(&vertices);
    return done;
}

/* --- the result --- */

static int draft_order(const void *left, const void *right, void *context)
{
    const struct draft *loops = context, *a = &loops[*(const uint32_t *)left],
                       *b = &loops[*(const uint32_t *)right];
    while (a->depth > b->depth && a->parent != (uint32_t)(b - loops))
        a = &loops[a->parent];
    while (b->depth > a->depth && b->parent != (uint32_t)(a - loops))
        b = &loops[b->parent];
    if (a->depth != b->depth) /* one lies in the other: the outer one first */
        return a->depth < b->depth ? -1 : 1;
    while (a->parent != b->parent) {
        a = &loops[a->parent];
        b = &loops[b->parent];
    }
    if (a->header != b->header)
        return a->header < b->header ? -1 : 1;
    return (a > b) - (a < b);
}

static void count_blocks(const struct finder *finder)
{
    for (size_t i = 0; i < finder->blocks; i++)
        for (uint32_t loop = finder->of[i]; loop != CODE_NONE; loop = finder->loops[loop].parent)
            finder->loops[loop].block_count++;
}

static bool is_in_loop(const struct finder *finder, uint32_t block, uint32_t loop)
{
    uint32_t at = finder->of[block];
    while (at != CODE_NONE && at != loop)
        at = finder->loops[at].parent;
    return at == loop;
}

static int block_order(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

static void add_backs(const struct finder *finder, uint32_t draft, struct code_loop *loop,
                      struct code_loops *loops)
{
    loop->first_back = (uint32_t)loops->back_count;
    for (uint32_t p = finder->before.first[loop->header]; p < finder->before.first[loop->header + 1]; p++)
        if (is_in_loop(finder, finder->before.items[p], draft))
            loops->backs[loops->back_count++] = finder->before.items[p];
    loop->back_count = (uint32_t)loops->back_count - loop->first_back;
    qsort(loops->backs + loop->first_back, loop->back_count, sizeof *loops->backs, block_order);
}

/* An edge to a header leads back in the loops that it heads: one natural, and the regions around that. */
static bool store_loops(struct finder *finder, struct code_loops *loops)
{
    uint32_t *order = calloc(finder->loop_count + 1, sizeof *order);
    size_t edges = finder->before.first[finder->blocks];
    loops->items = calloc(finder->loop_count + 1, sizeof *loops->items);
    loops->backs = calloc(2 * edges + 1, sizeof *loops->backs);
    if (!order || !loops->items || !loops->backs) {
        free(order);
        return false;
    }
    for (uint32_t i = 0; i < finder->loop_count; i++)
        order[i] = i;
    if (finder->loop_count)
        qsort_r(order, finder->loop_count, sizeof *order, draft_order, finder->loops);
    for (uint32_t i = 0; i < finder->loop_count; i++)
        finder->loops[order[i]].number = i;
    for (uint32_t i = 0; i < finder->loop_count; i++) {
        const struct draft *draft = &finder->loops[order[i]];
        struct code_loop *loop = &loops->items[loops->count++];
        *loop = (struct code_loop){.header = draft->header,
                                   .parent = CODE_NONE,
                                   .depth = draft->depth,
                                   .block_count = draft->block_count,
                                   .irreducible = draft->irreducible};
        if (draft->parent != CODE_NONE)
            loop->parent = finder->loops[draft->parent].number;
        add_backs(finder, order[i], loop, loops);
    }
    for (size_t i = 0; i < finder->blocks; i++)
        loops->of[i] = finder->of[i] == CODE_NONE ? CODE_NONE : finder->loops[finder->of[i]].number;
    for (size_t i = 0; i < finder->blocks; i++)
        loops->dominator[i] = finder->dominator[i] == i ? CODE_NONE : finder->dominator[i];
    free(order);
    return true;
}

static bool make_room(struct finder *finder, struct code_loops *loops)
{
    size_t blocks = finder->blocks;
    finder->order = calloc(blocks, sizeof *finder->order);
    finder->position = calloc(blocks, sizeof *finder->position);
    finder->root = calloc(blocks, sizeof *finder->root);
    finder->dominator = calloc(blocks, sizeof *finder->dominator);
    finder->of = calloc(blocks, sizeof *finder->of);
    finder->pending = calloc(2 * blocks, sizeof *finder->pending);
    finder->loops = calloc(2 * blocks, sizeof *finder->loops);
    loops->of = calloc(blocks, sizeof *loops->of);
    loops->dominator = calloc(blocks, sizeof *loops->dominator);
    return finder->order && finder->position && finder->root && finder->dominator && finder->of &&
           finder->pending && finder->loops && loops->of && loops->dominator;
}

static void free_finder(struct finder *finder)
{
    free(finder->order);
    free(finder->position);
    free(finder->root);
    free(finder->dominator);
    free(finder->of);
    free(finder->pending);
    free(finder->loops);
    free(finder->before.first);
    free(finder->before.items);
}

static bool find_loops(struct finder *finder, struct code_loops *loops)
{
    if (!make_room(finder, loops) || !put_in_order(finder) || !find_predecessors(finder))
        return false;
    find_dominators(finder);
    find_natural(finder);
    number_depths(finder);
    if (!find_irreducible(finder))
        return false;
    number_depths(finder);
    count_blocks(finder);
    return store_loops(finder, loops);
}

int code_loops_find(const struct code_graph *graph, struct code_loops *loops, struct base_error *error)
{
    struct finder finder = {.graph = graph, .blocks = graph->block_count};
    *loops = (struct code_loops){0};
    if (!finder.blocks)
        return BASE_OK;
    bool done = find_loops(&finder, loops);
    free_finder(&finder);
    if (done)
        return BASE_OK;
    code_loops_free(loops);
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

void code_loops_free(struct code_loops *loops)
{
    free(loops->items);
    free(loops->of);
    free(loops->dominator);
    free(loops->backs);
    *loops = (struct code_loops){0};
}

bool code_loops_within(const struct code_loops *loops, uint32_t inner, uint32_t outer)
{
    while (inner != CODE_NONE && inner != outer)
        inner = loops->items[inner].parent;
    return inner != CODE_NONE && inner == outer;
}
