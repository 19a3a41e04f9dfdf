/* code_loops.h - the natural loops of a function, and how they nest.
 *
 * A natural loop has one way in, its header, which dominates every block of it; the edges that lead back to
 * the header from blocks it dominates make it. Loops with one header are one loop. Two loops are apart or one
 * lies in the other.
 *
 * Blocks that form a cycle with several ways in are no natural loop (goto into a loop, or a compiler that
 * merged code): such a region is reported as a loop of its own kind, `irreducible`, between the natural loop
 * around it and those inside it. Its header is the way in with the lowest address.
 *
 * Blocks that nothing reaches from the function's beginning (landing pads, code behind an indirect jump that
 * was not understood) are looked at by themselves, as if their edges into the rest did not exist: no loop
 * gets a second way in by them.
 *
 * Context: tool, any thread on its own data; a pure function of the graph. Sources: dominators by K. Cooper,
 * T. Harvey and K. Kennedy, A simple, fast dominance algorithm (2001); natural loops by A. Aho, R. Sethi and
 * J. Ullman, Compilers (1986), 10.4; regions by R. Tarjan, Depth-first search and linear graph algorithms
 * (1972). */
#ifndef CODE_LOOPS_H
#define CODE_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "code_graph.h"

struct code_loop {
    uint32_t header;                 /* block */
    uint32_t parent;                 /* the loop around it, CODE_NONE: none */
    uint32_t depth;                  /* of an outermost one 1 */
    uint32_t block_count;            /* with those of the loops inside */
    uint32_t first_back, back_count; /* backs[first_back ...]: the blocks that lead back to the header */
    bool irreducible;
};

struct code_loops {
    struct code_loop *items; /* each before those inside it; else by the header's address */
    size_t count;
    uint32_t *of;        /* by block: the innermost loop that holds it, or CODE_NONE */
    uint32_t *dominator; /* by block: its immediate one; CODE_NONE where nothing dominates it */
    uint32_t *backs;     /* blocks, ascending for each loop */
    size_t back_count;
};

/* On failure (out of memory) *loops is empty. Of the graph only the successors are looked at, and addresses
 * not at all: "by address" means in the order of blocks. */
int code_loops_find(const struct code_graph *graph, struct code_loops *loops, struct base_error *error);
void code_loops_free(struct code_loops *loops);

/* Is `inner` the loop `outer` or one inside it? Either may be CODE_NONE, which is outside of all. */
bool code_loops_within(const struct code_loops *loops, uint32_t inner, uint32_t outer);

#endif
