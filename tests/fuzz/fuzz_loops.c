/* fuzz_loops.c - graphs, loops and text of hostile code: an ordinary program.
 *
 *     fuzz_loops N    N pieces of random code of either machine, half of them with their tables among them,
 *                     seeds 1 to N
 *
 * What comes back must make sense: blocks cover the instructions without a gap, edges lead to blocks, a loop
 * comes after the one around it, holds its header and is entered there only unless it is said to be
 * irreducible; an instruction's text is terminated and of the length that was decoded. A crash, a sanitizer's
 * report, a hang or an answer without sense is a failure. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code_aarch64.h"
#include "code_disassembly.h"
#include "code_loops.h"
#include "fuzz_file.h"

enum { CODE = 1024, TEXT = 40 };

static bool check_graph(const struct code_instructions *all, const struct code_graph *graph)
{
    uint32_t next = 0;
    for (size_t i = 0; i < graph->block_count; i++) {
        const struct code_block *block = &graph->blocks[i];
        if (block->first != next || !block->count || block->first + block->count > all->count ||
            block->start != all->items[block->first].address || block->end <= block->start ||
            code_graph_find(graph, block->start) != i || code_graph_find(graph, block->end - 1) != i)
            return false;
        next = block->first + block->count;
        for (uint32_t n = 0; n < block->next_count; n++)
            if (graph->next[block->first_next + n] >= graph->block_count)
                return false;
    }
    return next == all->count;
}

static bool check_loop(const struct code_graph *graph, const struct code_loops *loops, uint32_t number)
{
    const struct code_loop *loop = &loops->items[number];
    uint32_t members = 0;
    if (loop->header >= graph->block_count || !code_loops_within(loops, loops->of[loop->header], number) ||
        (loop->parent != CODE_NONE && loop->parent >= number) ||
        loop->depth != (loop->parent == CODE_NONE ? 1 : loops->items[loop->parent].depth + 1) ||
        !loop->back_count)
        return false;
    for (uint32_t i = 0; i < graph->block_count; i++)
        members += code_loops_within(loops, loops->of[i], number);
    return members == loop->block_count;
}

static bool check_text(struct code_disassembly *disassembly, const struct code_text *memory,
                       const struct code_instruction *at)
{
    char text[TEXT];
    size_t available;
    const uint8_t *bytes = code_text_at(memory, at->address, &available);
    memset(text, 'x', sizeof text);
    const struct code_disassembly_source source = {bytes, available, at->address, NULL, NULL};
    size_t length = code_disassembly_text(disassembly, &source, text, sizeof text);
    return memchr(text, '\0', sizeof text) && (length == at->length || length == 0);
}

static bool never_returns(void *context, uint64_t target)
{
    (void)context;
    return target % 5 != 0;
}

static bool try_code(uint64_t seed)
{
    static const uint8_t likely[] = {0xeb, 0x74, 0x75, 0x7f, 0xe8, 0xe9, 0xff, 0x24, 0xc5,
                                     0xe0, 0xe2, 0x48, 0x8d, 0x05, 0x15, 0x63, 0x04, 0x82,
                                     0x01, 0xd0, 0x77, 0x83, 0xf8, 0xc3, 0x90, 0x00};
    uint64_t random = seed, address = seed % 3 ? 0x1000 : UINT64_MAX - 4 * CODE;
    bool aarch64 = seed % 4 == 0, fine = true;
    uint8_t bytes[CODE];
    for (size_t i = 0; i < CODE; i++) {
        uint64_t value = fuzz_random(&random);
        bytes[i] = value % 4 ? likely[value / 4 % sizeof likely] : (uint8_t)(value / 4);
        if (aarch64 && i % 4 == 3 && value % 3)
            bytes[i] = (uint8_t)(value % 5 ? 0x54 : 0x14);
        if (aarch64 && i % 4 == 2)
            bytes[i] = (uint8_t)(value % 2 ? 0xff : 0);
    }
    struct code_piece piece = {address, bytes, CODE};
    struct code_text memory = {&piece, 1};
    struct code_instructions all = {0};
    struct code_graph_options options = {.returns = never_returns, .aarch64 = aarch64};
    struct code_graph graph;
    struct code_loops loops;
    struct code_disassembly *disassembly;
    uint64_t where, end = address + 64 + fuzz_random(&random) % (CODE - 64);
    if (aarch64)
        code_aarch64_decode_all(&memory, address, end, &all, &where);
    else
        code_instructions_decode(&memory, address, end, &all, &where);
    fine = code_graph_make(&all, &memory, &options, &graph, NULL) == BASE_OK && check_graph(&all, &graph) &&
           code_loops_find(&graph, &loops, NULL) == BASE_OK;
    for (uint32_t i = 0; fine && i < loops.count; i++)
        fine = check_loop(&graph, &loops, i);
    fine = fine && code_disassembly_new(aarch64 ? EM_AARCH64 : EM_X86_64, seed % 2 ? CODE_ATT : CODE_INTEL,
                                        &disassembly, NULL) == BASE_OK;
    for (size_t i = 0; fine && i < all.count; i++)
        fine = check_text(disassembly, &memory, &all.items[i]);
    if (!fine) {
        fprintf(stderr, "fuzz_loops: seed %lu\n", seed);
        return false;
    }
    code_disassembly_free(disassembly);
    code_loops_free(&loops);
    code_graph_free(&graph);
    code_instructions_free(&all);
    return true;
}

int main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    bool fine = seeds > 0;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        fine = try_code(seed) && fine;
    return fine ? 0 : 1;
}
