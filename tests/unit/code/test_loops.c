/* code_loops_find on graphs drawn by hand, on random ones against an oracle that follows the definitions word
 * by word, and with each of its allocations failing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_text.h"
#include "code_loops.h"
#include "failing.h"

enum { BLOCKS = 24, EDGES = 96 };

struct drawing {
    struct code_block blocks[BLOCKS];
    uint32_t next[EDGES];
    struct code_graph graph;
};

/* "1 2;0;": block 0 goes to 1 and 2, block 1 to 0, block 2 nowhere. */
static void draw(struct drawing *drawing, const char *text)
{
    *drawing = (struct drawing){0};
    drawing->graph = (struct code_graph){.blocks = drawing->blocks, .next = drawing->next};
    struct code_block *block = &drawing->blocks[drawing->graph.block_count++];
    for (; *text; text++) {
        if (*text == ';') {
            block = &drawing->blocks[drawing->graph.block_count++];
            block->first_next = (uint32_t)drawing->graph.next_count;
        } else if (*text != ' ') {
            drawing->next[drawing->graph.next_count++] = (uint32_t)strtoul(text, NULL, 10);
            block->next_count++;
            text += text[1] >= '0' && text[1] <= '9';
        }
    }
}

/* "1(2 3) 4!": the loop headed by 1 holds one headed by 2, which holds 3 ...: each as HEADER{blocks}[backs],
 * in order. */
static void write_loops(const struct code_graph *graph, const struct code_loops *loops, struct base_text *out)
{
    for (uint32_t i = 0; i < loops->count; i++) {
        const struct code_loop *loop = &loops->items[i];
        base_text_addf(out, "%s%u%s@%u{", i ? " " : "", loop->header, loop->irreducible ? "!" : "",
                       loop->depth);
        uint32_t members = 0;
        for (uint32_t block = 0; block < graph->block_count; block++)
            if (code_loops_within(loops, loops->of[block], i))
                base_text_addf(out, "%s%u", members++ ? "," : "", block);
        assert_int_equal(members, loop->block_count);
        base_text_add(out, "}<");
        for (uint32_t back = 0; back < loop->back_count; back++)
            base_text_addf(out, "%s%u", back ? "," : "", loops->backs[loop->first_back + back]);
    }
}

struct known {
    const char *what, *graph, *loops;
};

static const struct known known[] = {
    {"no loop", "1 2;3;3;", ""},
    {"a block that goes back to itself", "1;1 2;", "1@1{1}<1"},
    {"while", "1;2 3;1;", "1@1{1,2}<2"},
    {"the function's beginning is a header", "1;0 2;", "0@1{0,1}<1"},
    {"two nested", "1;2;3;2 4;1 5;", "1@1{1,2,3,4}<4 2@2{2,3}<3"},
    {"three nested that share their end", "1;2;3;3 2 1 4;", "1@1{1,2,3}<3 2@2{2,3}<3 3@3{3}<3"},
    {"two side by side in one", "1;2;2 3;4;4 5;1 6;", "1@1{1,2,3,4,5}<5 2@2{2}<2 4@2{4}<4"},
    {"one header, two ways back: continue", "1;2 3 4;1;1;", "1@1{1,2,3}<2,3"},
    {"break out of two", "1;2;3 5;2 4;1 5;", "1@1{1,2,3,4}<4 2@2{2,3}<3"},
    {"rotated: the header lies behind the body", "2;2;1 3;", "2@1{1,2}<1"},
    {"an inner loop at a lower address than the outer header", "3;1 2;3;1 4;", "3@1{1,2,3}<2 1@2{1}<1"},
    {"two ways in", "1 2;2;1 3;", "1!@1{1,2}<2"},
    {"two ways in, one of them a loop", "1 2;1 2;1 3;", "1!@1{1,2}<1,2 1@2{1}<1"},
    {"two ways in, inside a loop", "1;2 3;3;2 4;1 5;", "1@1{1,2,3,4}<4 2!@2{2,3}<3"},
    {"two ways in, a loop inside", "1 2;2;3;3 4;1 5;", "1!@1{1,2,3,4}<4 3@2{3}<3"},
    {"a region of three with three ways in", "1 2 3;2;3;1;", "1!@1{1,2,3}<3"},
    {"what is not reached has loops of its own", "1;;3;3 4;1;", "3@1{3}<3"},
    {"nothing reached gives a loop a second way in", "1;2;1 3;;5;2;", "1@1{1,2}<2"},
    {"a cycle that nothing leads to", "1;;3;2;", "2@1{2,3}<3"},
};

static void hand_drawn(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct drawing drawing;
        struct code_loops loops;
        struct base_text text = {0};
        draw(&drawing, known[i].graph);
        assert_int_equal(code_loops_find(&drawing.graph, &loops, NULL), BASE_OK);
        write_loops(&drawing.graph, &loops, &text);
        if (strcmp(base_text_string(&text), known[i].loops))
            fail_msg("%s: %s gives %s, not %s", known[i].what, known[i].graph, base_text_string(&text),
                     known[i].loops);
        base_text_free(&text);
        code_loops_free(&loops);
    }
}

/* --- the oracle --- */

struct matrix {
    bool edge[BLOCKS][BLOCKS];
    size_t count;
};

/* What `from` reaches without entering `without`, `from` included unless it is that. */
static void reach(const struct matrix *matrix, uint32_t from, uint32_t without, bool *reached)
{
    memset(reached, 0, BLOCKS);
    if (from == without)
        return;
    reached[from] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t a = 0; a < matrix->count; a++)
            for (uint32_t b = 0; b < matrix->count; b++)
                if (reached[a] && matrix->edge[a][b] && b != without && !reached[b])
                    changed = reached[b] = true;
    }
}

struct oracle {
    struct matrix matrix;
    bool reachable[BLOCKS];
    bool dominates[BLOCKS][BLOCKS];
    bool body[BLOCKS][BLOCKS]; /* by header */
    bool heads[BLOCKS];
};

/* a dominates b: without a, b is not reached. A body: what reaches the end of an edge back without the
 * header. */
static void ask(struct oracle *oracle)
{
    const struct matrix *matrix = &oracle->matrix;
    reach(matrix, 0, UINT32_MAX, oracle->reachable);
    for (uint32_t a = 0; a < matrix->count; a++) {
        bool reached[BLOCKS];
        reach(matrix, 0, a, reached);
        for (uint32_t b = 0; b < matrix->count; b++)
            oracle->dominates[a][b] = oracle->reachable[a] && oracle->reachable[b] && !reached[b];
    }
    for (uint32_t header = 0; header < matrix->count; header++) {
        for (uint32_t from = 0; from < matrix->count; from++) {
            if (!matrix->edge[from][header] || !oracle->dominates[header][from])
                continue;
            oracle->heads[header] = oracle->body[header][header] = true;
            for (uint32_t block = 0; block < matrix->count; block++) {
                bool reached[BLOCKS];
                reach(matrix, block, header, reached);
                oracle->body[header][block] |= oracle->reachable[block] && reached[from];
            }
        }
    }
}

static void check_dominators(const struct oracle *oracle, const struct code_loops *loops)
{
    for (uint32_t b = 0; b < oracle->matrix.count; b++) {
        if (!oracle->reachable[b])
            continue;
        bool above[BLOCKS] = {0};
        for (uint32_t a = b; a != CODE_NONE; a = loops->dominator[a])
            above[a] = true;
        for (uint32_t a = 0; a < oracle->matrix.count; a++)
            assert_int_equal(above[a], oracle->dominates[a][b]);
    }
}

static void check_natural(const struct oracle *oracle, const struct code_loops *loops)
{
    size_t heads = 0, found = 0;
    for (uint32_t i = 0; i < loops->count; i++) {
        uint32_t header = loops->items[i].header;
        if (loops->items[i].irreducible || !oracle->reachable[header])
            continue;
        found++;
        assert_true(oracle->heads[header]);
        for (uint32_t block = 0; block < oracle->matrix.count; block++)
            assert_int_equal(code_loops_within(loops, loops->of[block], i), oracle->body[header][block]);
    }
    for (uint32_t i = 0; i < oracle->matrix.count; i++)
        heads += oracle->heads[i];
    assert_int_equal(found, heads);
}

/* Blocks of a region reach each other inside it, and it has several ways in. */
static void check_region(const struct oracle *oracle, const struct code_loops *loops, uint32_t region)
{
    struct matrix inside = oracle->matrix;
    unsigned entries = 0;
    uint32_t lowest = CODE_NONE;
    for (uint32_t to = 0; to < inside.count; to++) {
        bool member = code_loops_within(loops, loops->of[to], region), enters = member && to == 0;
        for (uint32_t from = 0; from < inside.count; from++) {
            bool both = member && code_loops_within(loops, loops->of[from], region);
            enters |= inside.edge[from][to] && member && !both && oracle->reachable[from];
            inside.edge[from][to] &= both;
        }
        entries += enters;
        if (enters && lowest == CODE_NONE)
            lowest = to;
    }
    assert_true(entries >= 2);
    assert_int_equal(loops->items[region].header, lowest);
    for (uint32_t a = 0; a < inside.count; a++) {
        bool reached[BLOCKS];
        reach(&inside, a, UINT32_MAX, reached);
        for (uint32_t b = 0; b < inside.count; b++)
            if (code_loops_within(loops, loops->of[a], region) &&
                code_loops_within(loops, loops->of[b], region))
                assert_true(reached[b]);
    }
}

/* Without the edges that close natural loops, every cycle lies in a region. */
static void check_circles(const struct oracle *oracle, const struct code_loops *loops)
{
    struct matrix rest = oracle->matrix;
    for (uint32_t from = 0; from < rest.count; from++)
        for (uint32_t to = 0; to < rest.count; to++)
            rest.edge[from][to] &= oracle->reachable[from] && !oracle->dominates[to][from];
    for (uint32_t a = 0; a < rest.count; a++) {
        bool reached[BLOCKS], back[BLOCKS], together = false;
        reach(&rest, a, UINT32_MAX, reached);
        for (uint32_t b = 0; b < rest.count; b++) {
            reach(&rest, b, UINT32_MAX, back);
            together |= b != a && reached[b] && back[a];
        }
        bool covered = false;
        for (uint32_t loop = loops->of[a]; loop != CODE_NONE; loop = loops->items[loop].parent)
            covered |= loops->items[loop].irreducible;
        if (together)
            assert_true(covered);
    }
}

static uint32_t random_below(uint64_t *state, uint32_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % limit);
}

static void random_graph(struct drawing *drawing, struct matrix *matrix, uint64_t *state)
{
    *drawing = (struct drawing){0};
    memset(matrix, 0, sizeof *matrix);
    matrix->count = drawing->graph.block_count = 1 + random_below(state, BLOCKS);
    drawing->graph.blocks = drawing->blocks;
    drawing->graph.next = drawing->next;
    for (uint32_t from = 0; from < matrix->count; from++) {
        struct code_block *block = &drawing->blocks[from];
        block->first_next = (uint32_t)drawing->graph.next_count;
        for (uint32_t edges = random_below(state, 4); edges; edges--) {
            uint32_t near = (from + random_below(state, 6)) % (uint32_t)matrix->count;
            uint32_t to = random_below(state, 3) ? near : random_below(state, (uint32_t)matrix->count);
            if (matrix->edge[from][to])
                continue;
            matrix->edge[from][to] = true;
            drawing->next[drawing->graph.next_count++] = to;
            block->next_count++;
        }
    }
}

static void random_graphs(void **state)
{
    uint64_t seed = 20261121;
    unsigned natural = 0, regions = 0;
    (void)state;
    for (unsigned round = 0; round < 4000; round++) {
        struct drawing drawing;
        struct oracle oracle = {0};
        struct code_loops loops;
        random_graph(&drawing, &oracle.matrix, &seed);
        ask(&oracle);
        assert_int_equal(code_loops_find(&drawing.graph, &loops, NULL), BASE_OK);
        check_dominators(&oracle, &loops);
        check_natural(&oracle, &loops);
        check_circles(&oracle, &loops);
        for (uint32_t i = 0; i < loops.count; i++) {
            assert_true(loops.items[i].parent == CODE_NONE || loops.items[i].parent < i);
            if (!oracle.reachable[loops.items[i].header])
                continue;
            regions += loops.items[i].irreducible;
            natural += !loops.items[i].irreducible;
            if (loops.items[i].irreducible)
                check_region(&oracle, &loops, i);
        }
        code_loops_free(&loops);
    }
    assert_true(natural > 4000 && regions > 400);
}

/* 2,000 loops, each inside the one before: nothing recurs, nothing overflows. */
static void deep_nest(void **state)
{
    enum { DEEP = 2000 };
    struct code_graph graph = {.blocks = calloc(2 * DEEP, sizeof *graph.blocks),
                               .next = calloc(4 * DEEP, sizeof *graph.next),
                               .block_count = 2 * DEEP};
    struct code_loops loops;
    (void)state;
    for (uint32_t i = 0; i < 2 * DEEP; i++) {
        graph.blocks[i].first_next = (uint32_t)graph.next_count;
        if (i + 1 < 2 * DEEP)
            graph.next[graph.next_count++] = i + 1;
        if (i >= DEEP)
            graph.next[graph.next_count++] = 2 * DEEP - 1 - i;
        graph.blocks[i].next_count = (uint32_t)graph.next_count - graph.blocks[i].first_next;
    }
    assert_int_equal(code_loops_find(&graph, &loops, NULL), BASE_OK);
    assert_int_equal(loops.count, DEEP);
    for (uint32_t i = 0; i < DEEP; i++) {
        assert_int_equal(loops.items[i].header, i);
        assert_int_equal(loops.items[i].depth, i + 1);
        assert_int_equal(loops.items[i].block_count, 2 * (DEEP - i));
    }
    code_loops_free(&loops);
    free(graph.blocks);
    free(graph.next);
}

static void every_allocation_may_fail(void **state)
{
    unsigned failures = 0;
    int code = BASE_ENOMEM;
    struct drawing drawing;
    draw(&drawing, "1 2;1 2;1 3;4;3 5;");
    (void)state;
    while (code != BASE_OK) {
        struct code_loops loops;
        struct base_error error = {{0}};
        failing_begin(failures + 1);
        code = code_loops_find(&drawing.graph, &loops, &error);
        failing_end();
        failures += code != BASE_OK;
        assert_true(code == BASE_OK || code == BASE_ENOMEM);
        assert_true(code == BASE_OK ? loops.count == 3 : loops.items == NULL && loops.of == NULL);
        assert_true(code == BASE_OK || error.text[0]);
        code_loops_free(&loops);
    }
    assert_true(failures >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_drawn),
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(deep_nest),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
