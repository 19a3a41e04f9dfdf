/* agent_cell.h - the figures of a node. */
#ifndef AGENT_CELL_H
#define AGENT_CELL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_node.h"
#include "agent_process.h"
#include "agent_thread.h"
#include "wire_agent_layout.h"
#include "wire_agent_node.h"

/* The node's cell, made if need be; 0: none is left. */
uint32_t agent_cell_make(uint32_t node, uint32_t group);
static inline uint32_t agent_cell_of(uint32_t node, uint32_t group)
{
    uint32_t there = __atomic_load_n(&agent_node_at(node)->cell, __ATOMIC_ACQUIRE);
    return __builtin_expect(there != 0, 1) ? there : agent_cell_make(node, group);
}
static inline struct wire_agent_cell *agent_cell_at(uint32_t cell)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    return (struct wire_agent_cell *)agent_part(layout.cells) + cell;
}

/* --- blocks --- */

/* One more allocation of `size`, standing for `count` of them with `bytes` in all. */
void agent_cell_add(struct agent_thread *thread, uint32_t cell, struct agent_amount amount);
void agent_cell_release(struct agent_thread *thread, uint32_t cell, struct agent_amount amount,
                        bool temporary);
/* A release that did not happen after all (realloc failed). */
void agent_cell_restore(struct agent_thread *thread, uint32_t cell, struct agent_amount amount,
                        bool temporary);
/* One more that will not be known when it is released: as if it were at once. */
void agent_cell_pass(const struct agent_thread *thread, uint32_t cell, uint64_t size);
/* So many bytes of pages were found empty; taken back by their negative. */
void agent_cell_empty(uint32_t cell, uint64_t bytes);

/* --- what is only counted, or timed --- */

/* To a figure of a cell that others may write too, unless it is the thread's own. */
static inline void agent_cell_raise(const struct agent_thread *thread, const struct wire_agent_cell *cell,
                                    uint64_t *figure, uint64_t more)
{
    if (__builtin_expect(cell->group == thread->group && cell->group != 0, 1))
        *figure += more;
    else
        __atomic_fetch_add(figure, more, __ATOMIC_RELAXED);
}
/* One more of something that is only counted. */
static inline void agent_cell_count(const struct agent_thread *thread, uint32_t number)
{
    struct wire_agent_cell *cell = agent_cell_at(number);
    agent_cell_raise(thread, cell, &cell->count, 1);
}
/* The time in a call. */
static inline void agent_cell_time(const struct agent_thread *thread, uint32_t number, uint64_t ticks)
{
    struct wire_agent_cell *cell = agent_cell_at(number);
    agent_cell_raise(thread, cell, &cell->total, ticks);
}
/* One more sample, which stands for so much. */
void agent_cell_sample(uint32_t cell, uint64_t amount);

#endif
