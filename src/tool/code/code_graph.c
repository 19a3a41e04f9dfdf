/* code_graph.c - three passes: which instructions lead a block, which blocks follow on which, and last the
 * indirect jumps without a table, which need to know what nothing else leads to. */
#include "code_graph.h"

#include <stdlib.h>

#include "base_array.h"
#include "base_search.h"
#include "code_switch.h"

enum {
    LEADS = 1,
    NO_RETURN = 2,
    GUESSED = 4
}; /* of an instruction: leads a block; a call that stays away; a guess */

struct maker {
    const struct code_instructions *all;
    const struct code_text *memory;
    const struct code_graph_options *options;
    struct code_graph *graph;
    uint8_t *facts;             /* by instruction */
    uint32_t *block_of;         /* by instruction */
    struct code_switch *tables; /* by indirect jump that has one, in their order */
    uint32_t *jumps;            /* their instructions */
    size_t table_count, table_capacity, jump_capacity;
    bool failed;
};

/* --- what an instruction does --- */

static bool is_direct(const struct code_instruction *at)
{
    return at->flow == CODE_JUMP || at->flow == CODE_BRANCH || at->flow == CODE_LOOP ||
           at->flow == CODE_XBEGIN;
}

static bool is_noreturn_call(const struct maker *maker, const struct code_instruction *at)
{
    return at->flow == CODE_CALL && maker->options && maker->options->returns &&
           !maker->options->returns(maker->options->context, at->target);
}

/* An AArch64 switch adds its entry to a base right before it branches; a tail call loads. */
static bool adds_before(const struct maker *maker, size_t number)
{
    enum { NEAR = 4 };
    size_t available;
    for (size_t back = 1; back <= NEAR && back <= number; back++) {
        const struct code_instruction *at = &maker->all->items[number - back];
        const uint8_t *bytes = code_text_at(maker->memory, at->address, &available);
        if (code_instruction_ends(at))
            return false;
        if (bytes && available >= 4 && bytes[3] == 0x8b) /* add Xd, Xn, Xm: shifted or extended */
            return true;
    }
    return false;
}

/* --- leaders --- */

static void mark_leader(struct maker *maker, size_t instruction)
{
    maker->facts[instruction] |= LEADS;
}

/* What follows the end of a block leads one, padding aside. */
static void lead_after(struct maker *maker, size_t number)
{
    const struct code_instructions *all = maker->all;
    for (number++; number < all->count && (all->items[number].marks & CODE_PADDING);)
        number++;
    if (number < all->count)
        mark_leader(maker, number);
}

static void keep_table(struct maker *maker, size_t number, struct code_switch *table)
{
    if (!base_array_room(maker->tables, maker->table_count, maker->table_capacity) ||
        !base_array_room(maker->jumps, maker->table_count, maker->jump_capacity)) {
        code_switch_free(table);
        maker->failed = true;
        return;
    }
    for (size_t i = 0; i < table->count; i++)
        mark_leader(maker, table->targets[i]);
    maker->jumps[maker->table_count] = (uint32_t)number;
    maker->tables[maker->table_count++] = *table;
}

static void look_at_indirect(struct maker *maker, size_t number)
{
    struct code_switch table = {0};
    bool aarch64 = maker->options && maker->options->aarch64;
    enum code_switch_kind kind = aarch64
                                     ? adds_before(maker, number) ? CODE_SWITCH_UNKNOWN : CODE_SWITCH_LEAVES
                                     : code_switch_read(maker->all, number, maker->memory, &table);
    maker->failed |= table.failed;
    if (kind == CODE_SWITCH_TABLE) {
        keep_table(maker, number, &table);
        return;
    }
    code_switch_free(&table);
    if (kind == CODE_SWITCH_UNKNOWN)
        maker->facts[number] |= GUESSED;
}

static void find_leaders(struct maker *maker)
{
    const struct code_instructions *all = maker->all;
    mark_leader(maker, 0);
    for (size_t i = 0; i < all->count; i++) {
        const struct code_instruction *at = &all->items[i];
        if (is_noreturn_call(maker, at))
            maker->facts[i] |= NO_RETURN;
        if (at->flow == CODE_JUMP_INDIRECT)
            look_at_indirect(maker, i);
        size_t target = is_direct(at) ? code_instructions_find(all, at->target) : SIZE_MAX;
        if (target != SIZE_MAX)
            mark_leader(maker, target);
        if (is_direct(at) || code_instruction_ends(at) || (maker->facts[i] & NO_RETURN))
            lead_after(maker, i);
    }
}

/* --- blocks --- */

static bool make_blocks(struct maker *maker)
{
    struct code_graph *graph = maker->graph;
    const struct code_instructions *all = maker->all;
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        count += maker->facts[i] & LEADS;
    graph->blocks = calloc(count + 1, sizeof *graph->blocks);
    if (!graph->blocks)
        return false;
    for (size_t i = 0; i < all->count; i++) {
        if (maker->facts[i] & LEADS)
            graph->blocks[graph->block_count++] =
                (struct code_block){.start = all->items[i].address, .first = (uint32_t)i};
        struct code_block *block = &graph->blocks[graph->block_count - 1];
        block->end = all->items[i].address + all->items[i].length;
        block->count++;
        maker->block_of[i] = (uint32_t)graph->block_count - 1;
    }
    return true;
}

/* What a block ends with: the last instruction, but for padding behind a jump. */
static size_t last_of(const struct maker *maker, const struct code_block *block)
{
    for (size_t i = block->first; i < block->first + block->count; i++) {
        const struct code_instruction *at = &maker->all->items[i];
        if (is_direct(at) || code_instruction_ends(at) || (maker->facts[i] & NO_RETURN))
            return i;
    }
    return block->first + block->count - 1;
}

static void follow_new(struct maker *maker, struct code_block *block, uint32_t next)
{
    struct code_graph *graph = maker->graph;
    if (!base_array_room(graph->next, graph->next_count, graph->next_capacity)) {
        maker->failed = true;
        return;
    }
    graph->next[graph->next_count++] = next;
    block->next_count++;
}

static void follow_branch(struct maker *maker, struct code_block *block, uint32_t next)
{
    for (uint32_t i = 0; i < block->next_count; i++)
        if (maker->graph->next[block->first_next + i] == next)
            return;
    follow_new(maker, block, next);
}

static const struct code_switch *table_of(const struct maker *maker, size_t number)
{
    size_t at = base_search_number(maker->jumps, maker->table_count, number);
    return at < maker->table_count && maker->jumps[at] == number ? &maker->tables[at] : NULL;
}

static void follow_table(struct maker *maker, struct code_block *block, const struct code_switch *table)
{
    for (size_t i = 0; i < table->count; i++)
        follow_branch(maker, block, maker->block_of[table->targets[i]]);
}

/* Blocks that no other leads to, the first aside. (The jump has no other successors: none repeats.) */
static void follow_guess(struct maker *maker, struct code_block *block, const bool *reached)
{
    for (size_t i = 1; i < maker->graph->block_count; i++)
        if (!reached[i])
            follow_new(maker, block, (uint32_t)i);
}

/* `reached` is NULL in the first pass, which leaves out what needs it. */
static void connect_blocks(struct maker *maker, uint32_t number, const bool *reached)
{
    const struct code_instructions *all = maker->all;
    struct code_block *block = &maker->graph->blocks[number];
    size_t last = last_of(maker, block);
    const struct code_instruction *at = &all->items[last];
    size_t target = is_direct(at) ? code_instructions_find(all, at->target) : SIZE_MAX;
    const struct code_switch *table = at->flow == CODE_JUMP_INDIRECT ? table_of(maker, last) : NULL;
    bool guess = maker->facts[last] & GUESSED;
    block->first_next = (uint32_t)maker->graph->next_count;
    block->next_count = 0;
    if (!code_instruction_ends(at) && !(maker->facts[last] & NO_RETURN) &&
        number + 1 < maker->graph->block_count)
        follow_branch(maker, block, number + 1);
    if (target != SIZE_MAX)
        follow_branch(maker, block, maker->block_of[target]);
    if (table)
        follow_table(maker, block, table);
    if (guess && reached)
        follow_guess(maker, block, reached);
}

static void connect_graph(struct maker *maker, const bool *reached)
{
    maker->graph->next_count = 0;
    for (size_t i = 0; i < maker->graph->block_count; i++)
        connect_blocks(maker, (uint32_t)i, reached);
}

/* With guesses the edges are made twice: first those that are known, which decide what the others may be. */
static void make_edges(struct maker *maker)
{
    struct code_graph *graph = maker->graph;
    for (size_t i = 0; i < maker->all->count; i++)
        graph->guessed += (maker->facts[i] & GUESSED) != 0;
    connect_graph(maker, NULL);
    if (!graph->guessed || maker->failed)
        return;
    bool *reached = calloc(graph->block_count, sizeof *reached);
    if (!reached) {
        maker->failed = true;
        return;
    }
    for (size_t i = 0; i < graph->next_count; i++)
        reached[graph->next[i]] = true;
    connect_graph(maker, reached);
    free(reached);
}

int code_graph_make(const struct code_instructions *instructions, const struct code_text *memory,
                    const struct code_graph_options *options, struct code_graph *graph,
                    struct base_error *error)
{
    struct maker maker = {.all = instructions, .memory = memory, .options = options, .graph = graph};
    *graph = (struct code_graph){0};
    if (!instructions->count)
        return BASE_OK;
    maker.facts = calloc(instructions->count, sizeof *maker.facts);
    maker.block_of = calloc(instructions->count, sizeof *maker.block_of);
    maker.failed = !maker.facts || !maker.block_of;
    if (!maker.failed) {
        find_leaders(&maker);
        maker.failed |= !make_blocks(&maker);
    }
    if (!maker.failed)
        make_edges(&maker);
    for (size_t i = 0; i < maker.table_count; i++)
        code_switch_free(&maker.tables[i]);
    free(maker.tables);
    free(maker.jumps);
    free(maker.facts);
    free(maker.block_of);
    if (!maker.failed)
        return BASE_OK;
    code_graph_free(graph);
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

void code_graph_free(struct code_graph *graph)
{
    free(graph->blocks);
    free(graph->next);
    *graph = (struct code_graph){0};
}

uint32_t code_graph_find(const struct code_graph *graph, uint64_t address)
{
    size_t count = base_search_up_to(graph->blocks, graph->block_count, start, address);
    return count && address < graph->blocks[count - 1].end ? (uint32_t)(count - 1) : CODE_NONE;
}
