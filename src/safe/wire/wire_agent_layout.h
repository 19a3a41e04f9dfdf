/* wire_agent_layout.h - the parts of a region, where they are in the file, and where in a process.
 *
 * What a process maps of the file: control, rows, its region, its records, its own memory, in this order, at
 * the distances that they have in a file of one region (enum wire_agent_part, wire_agent_place). Whatever its
 * number, a process has its region at the same address, as a fork's child is to have. Only the beginning of
 * each part is mapped (wire_agent_first) and grows in place by need (agent_memory.c): what is mapped counts
 * against RLIMIT_AS, is locked by mlockall, and is walked by leak checkers. A part that cannot grow is full.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_LAYOUT_H
#define WIRE_AGENT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "wire_agent_block.h"
#include "wire_agent_control.h"
#include "wire_agent_descriptor.h"
#include "wire_agent_latency.h"
#include "wire_agent_module.h"
#include "wire_agent_node.h"
#include "wire_agent_pending.h"
#include "wire_agent_range.h"
#include "wire_agent_return.h"
#include "wire_agent_thread.h"
#include "wire_agent_timer.h"

#define WIRE_AGENT_SAMPLED_AT                                                                                \
    (4096 + 2 * WIRE_AGENT_MODULES * sizeof(struct wire_agent_module) + WIRE_AGENT_RETURNS * sizeof(uint64_t))
#define WIRE_AGENT_PLACES_AT (WIRE_AGENT_SAMPLED_AT + WIRE_AGENT_SAMPLED)

/* --- the parts of a process region, as offsets from its start, and how many fit --- */
struct wire_agent_layout {
    uint64_t modules[2], returns; /* the head, with what is at the constants above */
    uint64_t latency_slots, changes;
    uint64_t timers, starts, nodes, index, cells, blocks, ranges, latencies;
    uint64_t forked, descriptors; /* forked: a bit for each number, open when a fork began */
    uint64_t size;                /* bytes; of the region */
    uint64_t node_count, index_bytes, cell_count, block_bytes, range_bytes;
};

/* `memory`: --agent-memory, a multiple of 1 MiB from 1 MiB to 16 GiB. */
static inline struct wire_agent_layout wire_agent_layout(uint64_t memory)
{
    struct wire_agent_layout layout;
    uint64_t table = WIRE_AGENT_MODULES * sizeof(struct wire_agent_module);
    layout.modules[0] = 4096;
    layout.modules[1] = layout.modules[0] + table;
    layout.returns =
        layout.modules[1] + table; /* it stays when its process has ended: children have what it stands for */
    layout.latency_slots = WIRE_AGENT_PLACES_AT + WIRE_AGENT_PLACES * sizeof(uint64_t);
    layout.changes = layout.latency_slots + WIRE_AGENT_LATENCY_SLOTS * sizeof(uint32_t);
    layout.timers = layout.changes + WIRE_AGENT_CHANGES * sizeof(struct wire_agent_change);
    layout.starts = layout.timers + WIRE_AGENT_TIMERS * sizeof(struct wire_agent_timer);
    layout.nodes = layout.starts + WIRE_AGENT_STARTS * sizeof(struct wire_agent_start);
    layout.node_count = memory / 4 / sizeof(struct wire_agent_node);
    layout.index = layout.nodes + memory / 4;
    layout.index_bytes = memory / 8;
    layout.cells = layout.index + layout.index_bytes;
    layout.cell_count = memory / 4 / sizeof(struct wire_agent_cell);
    layout.blocks = layout.cells + memory / 4;
    layout.range_bytes = memory / 32;
    layout.block_bytes = memory / 8 * 3 - layout.range_bytes;
    layout.ranges = layout.blocks + layout.block_bytes;
    layout.latencies = layout.ranges + layout.range_bytes;
    layout.forked =
        (layout.latencies + WIRE_AGENT_LATENCIES * sizeof(struct wire_agent_latency) + 4095) / 4096 * 4096;
    layout.descriptors = layout.forked + WIRE_AGENT_DESCRIPTORS / 8;
    layout.size =
        (layout.descriptors + WIRE_AGENT_DESCRIPTORS * sizeof(struct wire_agent_descriptor) + 4095) / 4096 *
        4096;
    return layout;
}

/* --- what a process maps --- */

enum wire_agent_part {
    WIRE_AGENT_PART_CONTROL,
    WIRE_AGENT_PART_ROWS,
    WIRE_AGENT_PART_HEAD,   /* from here to THREADS: of its region, another one in a fork's child */
    WIRE_AGENT_PART_TIMERS, /* with starts */
    WIRE_AGENT_PART_NODES,
    WIRE_AGENT_PART_INDEX,
    WIRE_AGENT_PART_CELLS,
    WIRE_AGENT_PART_BLOCKS,
    WIRE_AGENT_PART_RANGES,
    WIRE_AGENT_PART_LATENCIES,
    WIRE_AGENT_PART_DESCRIPTORS, /* from `forked` on */
    WIRE_AGENT_PART_THREADS,
    WIRE_AGENT_PART_OWN, /* struct wire_agent_own: private */
    WIRE_AGENT_PARTS
};

#define WIRE_AGENT_RECORDS_BYTES ((uint64_t)WIRE_AGENT_THREADS * WIRE_AGENT_THREAD_BYTES)
#define WIRE_AGENT_OWN_BYTES     ((sizeof(struct wire_agent_own) + 4095) / 4096 * 4096)

/* Bytes of a region from its start to the part (HEAD .. THREADS), or to its own memory. */
static inline uint64_t wire_agent_part_offset(const struct wire_agent_layout *layout,
                                              enum wire_agent_part part)
{
    switch (part) {
    case WIRE_AGENT_PART_TIMERS:
        return layout->timers;
    case WIRE_AGENT_PART_NODES:
        return layout->nodes;
    case WIRE_AGENT_PART_INDEX:
        return layout->index;
    case WIRE_AGENT_PART_CELLS:
        return layout->cells;
    case WIRE_AGENT_PART_BLOCKS:
        return layout->blocks;
    case WIRE_AGENT_PART_RANGES:
        return layout->ranges;
    case WIRE_AGENT_PART_LATENCIES:
        return layout->latencies;
    case WIRE_AGENT_PART_DESCRIPTORS:
        return layout->forked;
    case WIRE_AGENT_PART_THREADS:
        return layout->size;
    case WIRE_AGENT_PART_OWN:
        return layout->size + WIRE_AGENT_RECORDS_BYTES;
    default:
        return 0;
    }
}

/* Where a part is, as bytes from the control page: in a process's addresses, and in the file for a region. */
struct wire_agent_place {
    uint64_t address, file;
    uint64_t most; /* bytes that it can have; for parts of whole pages */
};
static inline struct wire_agent_place wire_agent_place(const struct wire_agent_control *control,
                                                       const struct wire_agent_layout *layout,
                                                       enum wire_agent_part part, uint32_t region)
{
    uint64_t offset = wire_agent_part_offset(layout, part), start = control->regions_offset + offset;
    if (part == WIRE_AGENT_PART_CONTROL)
        return (struct wire_agent_place){0, 0, control->rows_offset};
    if (part == WIRE_AGENT_PART_ROWS)
        return (struct wire_agent_place){control->rows_offset, control->rows_offset, control->rows_size};
    if (part == WIRE_AGENT_PART_OWN)
        return (struct wire_agent_place){start, control->own_offset, WIRE_AGENT_OWN_BYTES};
    if (part == WIRE_AGENT_PART_THREADS)
        return (struct wire_agent_place){start, control->threads_offset + region * WIRE_AGENT_RECORDS_BYTES,
                                         WIRE_AGENT_RECORDS_BYTES};
    uint64_t end = wire_agent_part_offset(layout, (enum wire_agent_part)(part + 1));
    return (struct wire_agent_place){start, control->regions_offset + region * control->region_size + offset,
                                     end - offset};
}

/* Bytes of addresses from the control page to the end of the last part. */
static inline uint64_t wire_agent_span(const struct wire_agent_control *control,
                                       const struct wire_agent_layout *layout)
{
    struct wire_agent_place own = wire_agent_place(control, layout, WIRE_AGENT_PART_OWN, 0);
    return own.address + own.most;
}

/* Bytes of a part that are mapped at first, in a process where it is used. */
static inline uint64_t wire_agent_first(const struct wire_agent_layout *layout, enum wire_agent_part part)
{
    switch (part) {
    case WIRE_AGENT_PART_HEAD:
        return layout->timers;
    case WIRE_AGENT_PART_TIMERS:
        return layout->nodes - layout->timers;
    case WIRE_AGENT_PART_ROWS:
    case WIRE_AGENT_PART_NODES:
    case WIRE_AGENT_PART_CELLS:
        return 65536;
    case WIRE_AGENT_PART_DESCRIPTORS:
        return layout->descriptors - layout->forked + 16384;
    case WIRE_AGENT_PART_THREADS:
        return WIRE_AGENT_THREAD_BYTES;
    case WIRE_AGENT_PART_OWN:
        return (offsetof(struct wire_agent_own, calls) + sizeof(struct wire_agent_calls) + 4095) / 4096 *
               4096;
    default:
        return 4096;
    }
}

#endif
