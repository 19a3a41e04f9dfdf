/* agent_rig.h - the agent in the test's own process: its image mapped and relocated, a region, hooks to call
 * through.
 *
 * What the loader and tally do from outside is done here from inside, so that wrappers can be called with
 * bodies of the test's own. One rig at a time. */
#ifndef AGENT_RIG_H
#define AGENT_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire_agent_control.h"
#include "wire_agent_layout.h"
#include "wire_agent_node.h"
#include "wire_agent_parameters.h"
#include "wire_agent_pending.h"
#include "wire_agent_process.h"
#include "wire_agent_thread.h"
#include "wire_hook.h"

struct agent_rig {
    uint8_t *image, *file; /* the image's base; the test's own view of the file */
    uint8_t *shown;        /* where the agent has its parts */
    struct wire_agent_parameters *parameters;
    struct wire_agent_control *control;
    struct wire_agent_process *process; /* region 0 */
    uint8_t *code;
    size_t code_used;
    uint32_t *alive;
    struct wire_agent_own *own;
    struct wire_agent_layout layout;
};

struct agent_rig_options {
    uint64_t memory; /* 0: 64 MiB */
    uint64_t sample_bytes;
    uint32_t flags; /* enum wire_agent_control_flag */
    bool no_rows;
    bool small; /* parts have the sizes that they have at first, and room to grow */
};

void agent_rig_begin(struct agent_rig *rig, const struct agent_rig_options *options);
void agent_rig_end(struct agent_rig *rig);

/* The run-time address of one of the agent's functions. */
void *agent_rig_symbol(const struct agent_rig *rig, const char *name);

/* A function to call in the place of `body`: it leads to the entry `symbol`. */
void *agent_rig_hook(struct agent_rig *rig, const char *symbol, void *body);
/* The same by a whole hook (wire_hook.h). */
void *agent_rig_hook_whole(struct agent_rig *rig, const char *symbol, void *body);
/* ... of which the agent is given `cookie`. */
void *agent_rig_hook_published(struct agent_rig *rig, const char *symbol, void *body, uint64_t cookie);

/* Publishes the process's present mappings, with rows; cookies begin at `cookie`. */
void agent_rig_modules(struct agent_rig *rig, uint32_t cookie);

/* A thread record of region 0. */
struct wire_agent_thread *agent_rig_thread(const struct agent_rig *rig, unsigned number);
/* Region `number` and its parts. */
struct wire_agent_process *agent_rig_process(const struct agent_rig *rig, unsigned number);
struct wire_agent_node *agent_rig_nodes(const struct agent_rig *rig,
                                        const struct wire_agent_process *process);
struct wire_agent_cell *agent_rig_cells(const struct agent_rig *rig,
                                        const struct wire_agent_process *process);

/* By the rules of wire_agent_node.h. */
struct agent_rig_figures {
    uint64_t total, count, live, live_count, max, peak, largest, temporary;
    double variance; /* in bytes^2 */
};
/* The sum over all cells below which (or at which) a node has pc in [low, high); high 0: over all. */
struct agent_rig_figures agent_rig_read(const struct agent_rig *rig, const struct wire_agent_process *process,
                                        uint64_t low, uint64_t high);
/* Blocks in the tables. */
uint64_t agent_rig_blocks(const struct agent_rig *rig, const struct wire_agent_process *process,
                          uint64_t *bytes);

#endif
