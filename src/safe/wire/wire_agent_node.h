/* wire_agent_node.h - the tree of stacks and its figures, and how they are read.
 *
 * Node 0 is nothing. A node with parent 0 is a root: pc = enum wire_agent_collector, cookie = a number of
 * threads' group; several roots with one collector are one tree, their figures add up (nodes of equal path
 * too: there may be two). Below, a node's pc is a run-time address (a return address: look up pc - 1, except
 * where flags say otherwise), and cookie names the module, as tally gave it. Nodes are complete once
 * node.ready is 1. A node's cell (0: none) holds its figures:
 *
 *   live bytes  = total - freed_own - freed_other
 *   live blocks = count - freed_own_count - freed_other_count
 *   peak bytes  = cell.peak_epoch == process.peak_epoch ? cell.peak : live bytes
 *
 * All figures of counts are multiplied by process.scale (1, exact; WIRE_AGENT_SCALE when sampled).
 *
 * What total and count are, by collector:
 *
 *   HEAP, MAP     bytes and blocks, or ranges
 *   FDS           count: descriptors opened
 *   THROWS        count: exceptions
 *   FUNCTION      count: calls. total: ticks of the processor's clock from calls to their returns, without
 *                 calls of other such functions. largest: the number of their histogram, 0: none yet. Nodes
 *                 are of the function's own address (WIRE_AGENT_NODE_EXACT), below its caller
 *   INSTRUMENTED  count: calls. total: ticks in the function but not in those that it calls and that are
 *                 instrumented too. Nodes are of functions' own addresses (WIRE_AGENT_NODE_EXACT), below the
 *                 instrumented function that called them, directly or not; the first one of a path is below
 *                 the stack that it was called from
 *   TIME          count: samples. total: ns of CPU time that they stand for
 *
 * Why the peak is read like this. The process's live bytes are kept as one sum. While it stands at its
 * maximum and rises, a cell's value at the peak is its value now. The first release after a rise leaves the
 * peak: from then on, whoever changes a cell saves its live bytes first, once in each epoch (peak_epoch).
 * When the sum passes the old maximum again, a new epoch begins and all saved values are old. So the peak
 * costs one comparison an event. With several threads each one adds to the sum in steps of less than
 * WIRE_AGENT_BATCH, or of a 64th of all live bytes if that is less, but not of WIRE_AGENT_BATCH_LEAST, and
 * the maximum is known to that many bytes a thread. A cell's max is the maximum of its own live bytes (of its
 * threads' group: with several threads the sum over roots is an upper bound).
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_NODE_H
#define WIRE_AGENT_NODE_H

#include <stdint.h>

/* the deepest stack kept; outer frames are cut: WIRE_AGENT_LOSS_TOO_DEEP */
#define WIRE_AGENT_FRAMES 128
/* instrumented functions in a path; those further in are counted at its end */
#define WIRE_AGENT_PATH        512
#define WIRE_AGENT_BATCH       65536
#define WIRE_AGENT_BATCH_PART  64
#define WIRE_AGENT_BATCH_LEAST 256
#define WIRE_AGENT_SCALE       65536

/* One root per collector and group of threads. */
enum wire_agent_collector {
    WIRE_AGENT_HEAP = 1,
    WIRE_AGENT_MAP, /* mmap, brk: bytes */
    WIRE_AGENT_FDS, /* descriptors that were opened: only counted */
    WIRE_AGENT_THROWS,
    WIRE_AGENT_FUNCTION,
    WIRE_AGENT_INSTRUMENTED,
    WIRE_AGENT_TIME,
    WIRE_AGENT_COLLECTORS
};

/* A node of the tree. */
struct wire_agent_node {
    uint64_t pc;
    uint32_t parent, cookie;
    uint32_t cell;  /* 0: none */
    uint32_t flags; /* enum wire_agent_node_flag */
    uint32_t ready; /* 1: complete */
    uint32_t hash;  /* the agent's */
};
_Static_assert(sizeof(struct wire_agent_node) == 32, "shared layout");
enum wire_agent_node_flag {
    WIRE_AGENT_NODE_EXACT = 1, /* pc is an instruction that was interrupted, no return address */
    WIRE_AGENT_NODE_CUT = 2,   /* of a frame below a root: the stack goes on outwards, unseen */
};

/* The figures of a node. The first line is written by one thread only (unless the group has many), the second
 * by all. */
struct wire_agent_cell {
    uint64_t total, count;               /* bytes, blocks, ever */
    uint64_t freed_own, freed_own_count; /* released by the threads of the group */
    uint64_t max;                        /* maximum of live bytes */
    uint64_t peak;                       /* live bytes at the peak of epoch peak_epoch */
    uint64_t largest;                    /* single block, bytes */
    uint32_t peak_epoch;
    uint32_t group; /* of threads that allocate here: the root's cookie; 0: of many */

    uint64_t freed_other, freed_other_count; /* released by other threads */
    uint64_t temporary;                      /* blocks released before the next allocation of the thread */
    uint64_t live_since_ns;                  /* control.now_ns when live blocks last rose from 0 */
    /* sampled: sum of squares of unseen bytes, in units of sample_bytes^2 / 65536 (or those of level 1) */
    uint64_t variance;
    uint64_t freed_variance; /* of what was released */
    uint64_t node;
    uint64_t empty; /* bytes of whole pages that were empty when their block was released */
};
_Static_assert(sizeof(struct wire_agent_cell) == 128, "two cache lines");

#endif
