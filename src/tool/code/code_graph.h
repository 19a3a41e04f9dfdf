/* code_graph.h - the control flow of one function: basic blocks and where each may go on.
 *
 * A block ends at a jump, at the target of one, and at a call that does not return. Calls are no edges;
 * neither are jumps that leave the function. Landing pads of exceptions are entered from nowhere here.
 *
 * An indirect jump goes where its table says (code_switch.h). Where no table is found, it is taken to go to
 * every block that nothing else leads to: the cases of a switch and the labels of a computed goto are such
 * blocks. Such jumps are counted in `guessed`. Context: tool, any thread on its own data. Source: F. E.
 * Allen, Control flow analysis, SIGPLAN Notices 5 (1970). */
#ifndef CODE_GRAPH_H
#define CODE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "code_instruction.h"
#include "code_text.h"

struct code_block {
    uint64_t start, end;             /* addresses; padding behind the last instruction belongs to it */
    uint32_t first, count;           /* instructions */
    uint32_t first_next, next_count; /* next[first_next ...]: the blocks it may go on with, each once */
};

struct code_graph {
    struct code_block *blocks; /* by address; the first is where the function begins */
    uint32_t *next;            /* indices of blocks */
    size_t block_count, next_count, next_capacity;
    uint32_t guessed; /* indirect jumps without a table */
};

struct code_graph_options {
    /* Does a call to `target` come back? NULL: all do. */
    bool (*returns)(void *context, uint64_t target);
    void *context;
    bool aarch64; /* whose instructions they are; else x86-64's */
};

/* `memory` holds the function's own bytes and those of its tables (code_text_of_loads). `options` may be
 * NULL. On failure (out of memory) *graph is empty. */
int code_graph_make(const struct code_instructions *instructions, const struct code_text *memory,
                    const struct code_graph_options *options, struct code_graph *graph,
                    struct base_error *error);
void code_graph_free(struct code_graph *graph);

/* The block that holds `address`, or CODE_NONE. */
uint32_t code_graph_find(const struct code_graph *graph, uint64_t address);

#endif
