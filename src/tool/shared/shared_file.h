/* shared_file.h - tally's side of the memory that it shares with the agent in a target
 * (wire_agent_control.h).
 *
 *   shared_file_begin     lays a new file out: control page, space for rows, regions; it is not read yet
 *   shared_file_rows      an image's rows, once; then ..._module puts it into a table that ..._publish makes
 *                         valid
 *   shared_file_request   what a process asks; it waits, and goes on with ..._answer
 *   shared_file_read      the tree of one region, copied and checked
 *   shared_file_outlives  when all discovered processes have ended: is another one left?
 *
 * The target may write whatever it likes to the file. So tally keeps its own copy of everything it decides
 * by, asks the layout where things are and never the file, copies before it checks, and gives the file a
 * seal against being made shorter. Context: tool, one thread. */
#ifndef SHARED_FILE_H
#define SHARED_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "trace_inject.h"
#include "wire_agent_control.h"
#include "wire_agent_latency.h"
#include "wire_agent_layout.h"
#include "wire_agent_module.h"
#include "wire_agent_node.h"
#include "wire_agent_parameters.h"
#include "wire_agent_process.h"
#include "wire_agent_request.h"

struct shared_request {
    uint64_t memory;       /* of a process, bytes: a multiple of 1 MiB */
    uint32_t flags;        /* enum wire_agent_control_flag */
    uint64_t sample_bytes; /* 0: every block */
    uint64_t seed;
    uint32_t patience_ms;
    uint64_t ns_of_ticks; /* wire_agent_control */
    uint32_t parts;       /* that are used: a bit for each enum wire_agent_part */
    struct shared_timers {
        uint64_t least_ns, spread_ns, mean_ns, tick_ns; /* as in struct wire_agent_control */
        uint32_t signal;                                /* 0: no timers */
        uint32_t other; /* what they move to when the program takes that one */
        uint32_t clock; /* enum wire_agent_clock */
    } timers;
};

struct shared_file {
    int file; /* the caller's */
    uint8_t *bytes;
    uint64_t size; /* of our mapping: all but thread records and processes' own memory */
    uint64_t rows_offset, rows_size, rows_used, regions_offset;
    struct wire_agent_layout layout;
    uint32_t region_count;
    bool committed;                    /* pages are made before they are touched */
    bool nested;                       /* the processes report numbers of another PID namespace than ours */
    struct wire_agent_module *modules; /* the table that is being made: WIRE_AGENT_MODULES */
    uint32_t module_count;
};

/* How many bytes such a file has; most of them are never written and cost nothing. */
uint64_t shared_file_size(const struct shared_request *request);

/* What a process maps of it at first (wire_agent_layout.h): pieces, and how many bytes of addresses from the
 * first one to the end of all that they may become. */
struct shared_file_pieces {
    struct trace_inject_piece items[WIRE_AGENT_PARTS];
    size_t count;
    uint64_t span;
};
void shared_file_pieces(const struct shared_request *request, struct shared_file_pieces *pieces);
/* Fills in what the agent must know of the pieces; `control`: run-time address of the first one. */
void shared_file_parameters(const struct shared_file *file, const struct shared_request *request,
                            uint64_t control, struct wire_agent_parameters *parameters);

/* `file` has that size and stays open until ..._end. */
int shared_file_begin(struct shared_file *file, int descriptor, const struct shared_request *request,
                      struct base_error *error);
void shared_file_end(struct shared_file *file);

/* Is there a process that has the file mapped? Ours lies elsewhere afterwards. 1: there is, or the kernel
 * could not say for the moment. 0: none, and none can come: what is there may be read. On failure it is
 * mapped no more, and is to be ended. */
int shared_file_outlives(struct shared_file *file, struct base_error *error);

/* The processes, but for this one, that have the file mapped, as /proc says: some 50 us a process of the
 * machine. malloc'ed. */
bool shared_file_is_users(const struct shared_file *file, pid_t pid);
size_t shared_file_users(const struct shared_file *file, pid_t **pids);

struct wire_agent_control *shared_file_control(const struct shared_file *file);
/* Of region `index` < region_count: what it says of itself, not to be believed. */
struct wire_agent_process *shared_file_process(const struct shared_file *file, uint32_t index);
/* How many regions were taken. */
uint32_t shared_file_regions(const struct shared_file *file);
/* Offset of a region in the file. */
uint64_t shared_file_region(const struct shared_file *file, uint32_t index);

#define SHARED_ROWS_UNIT 64
/* Copies a blob of rows into the file; *offset is where, from the rows' beginning: a multiple of the unit,
 * never 0. BASE_ENOMEM: no space is left. */
int shared_file_rows(struct shared_file *file, const void *blob, uint64_t size, uint64_t *offset,
                     struct base_error *error);

/* A table of modules: begin, add in any order (false: it is full), publish to the region. */
void shared_file_modules(struct shared_file *file);
bool shared_file_module(struct shared_file *file, const struct wire_agent_module *module);
void shared_file_publish(struct shared_file *file, uint32_t region);

/* Region 0 is `pid`'s from now on; before the first hook. */
void shared_file_claim_region(struct shared_file *file, pid_t pid, uint64_t start_time);

/* What single threads ask: enum wire_agent_request, those first that report what failed. */
struct shared_asks {
    struct shared_ask {
        uint32_t tid, what;
    } items[WIRE_AGENT_ASKS];
    uint32_t count;
};
/* Takes what is asked: *asked bits of enum wire_agent_request, *asks the threads that ask. False: nothing
 * has been since the last answer. True: an answer is due, with *sequence, also where nothing is left to
 * do: a thread that asks writes what before it counts itself, so it may have been done with the one
 * before. */
bool shared_file_request(const struct shared_file *file, uint32_t region, uint32_t *asked, uint32_t *sequence,
                         struct shared_asks *asks);
void shared_file_answer(struct shared_file *file, uint32_t region, uint32_t sequence);

/* The region's process has ended, and everything is published: its tables give their memory back. It is
 * not taken again. */
void shared_file_forget(struct shared_file *file, uint32_t region);

/* All that the region's process asks, and will ask, is answered: no thread waits in it, and it can be
 * left. */
void shared_file_release(struct shared_file *file, uint32_t region);
/* No thread waits for us while we are stopped. */
void shared_file_suspend(struct shared_file *file, bool suspended);
/* No thread waits for us any more. */
void shared_file_leave(struct shared_file *file);

/* Bytes that the file takes of the machine's memory. */
uint64_t shared_file_used(const struct shared_file *file);

/* A region's tree as it was at one time, more or less: counts are within what may be asked, nothing else is
 * checked. */
struct shared_tree {
    struct wire_agent_process process;
    struct wire_agent_node *nodes;        /* [0] is none, [node_count] the last */
    struct wire_agent_cell *cells;        /* likewise */
    struct wire_agent_latency *latencies; /* likewise */
    uint32_t node_count, cell_count, latency_count;
};
int shared_file_read(const struct shared_file *file, uint32_t region, struct shared_tree *tree,
                     struct base_error *error);
void shared_tree_free(struct shared_tree *tree);

/* A figure of the tree as the profile can have it: the target may have written more. */
static inline int64_t shared_tree_figure(uint64_t value)
{
    return value < INT64_MAX ? (int64_t)value : INT64_MAX;
}

#endif
