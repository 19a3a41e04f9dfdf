/* wire_agent_process.h - the first page of a process's region: what it is, what it asks, its sums.
 *
 * Context: anywhere. wire_agent_control.h has the rules of reading. */
#ifndef WIRE_AGENT_PROCESS_H
#define WIRE_AGENT_PROCESS_H

#include <stdint.h>

#include "wire_agent_layer.h"
#include "wire_agent_loss.h"
#include "wire_agent_request.h"
#include "wire_agent_timer.h"

enum wire_agent_state {
    WIRE_AGENT_FREE = 0,
    WIRE_AGENT_RUNNING, /* set by tally (the loaded process) or by the forked child itself */
    /* set by tally: hooks are to go straight to the body, because the agent is being taken out */
    WIRE_AGENT_LEFT,
};

struct wire_agent_process {
    uint64_t magic;
    uint32_t version;
    uint32_t state; /* enum wire_agent_state */
    uint32_t pid;
    uint32_t parent; /* region index of the forking process + 1; 0: none */
    /* field 22 of /proc/PID/stat when tally filled it in; 0: a forked child's, not known yet */
    uint64_t start_time;
    uint64_t scale; /* of counts: 1 or WIRE_AGENT_SCALE */

    /* Modules. Table (generation & 1) is valid; tally writes the other one and then adds one to generation.
     * 0: none yet. */
    uint32_t generation;
    uint32_t module_count[2];
    uint32_t layer_count;
    /* 1: all that were hooked are there. Where blocks' sizes are asked of them, none counts before */
    uint32_t layers_known;
    uint32_t unmapped; /* the agent's: how often memory was about to be readable no more */
    struct wire_agent_layer layers[WIRE_AGENT_LAYERS];

    /* Requests (wire_agent_request.h). */
    uint32_t request, request_sequence, answer_sequence;
    uint32_t silent; /* the agent's: tally did not answer once, or was stopped; never ask again */
    /* threads with agent frames on their stacks that threads[].inside does not show */
    uint32_t unrecorded;

    /* Figures of the process. */
    int64_t live;       /* bytes, but for those of first_live and of threads' unfinished batches */
    int64_t first_live; /* by the first thread while it was alone: the process has live + first_live */
    int64_t peak;       /* its maximum */
    /* control.now_ns when the peak was last left (0: it stands at the peak, or there was none) */
    uint64_t peak_ns;
    uint32_t peak_epoch;
    uint32_t at_peak;
    uint32_t level; /* at most WIRE_AGENT_LEVELS; 0: every block has a place */
    uint32_t level_failures;

    /* How much of each part is used: tally adds these up for the memory shown. */
    uint32_t thread_count; /* records, ever made: numbers 0 .. thread_count - 1 */
    uint32_t node_count, cell_count, block_tables;
    uint64_t index_used;  /* bytes of the index of nodes */
    uint64_t block_used;  /* bytes of the tables of blocks */
    uint64_t index_place; /* the present index: offset in its part << 8 | log2 of its slots; 0: the first */
    uint32_t index_lock, group_count; /* the agent's */

    /* Mapped memory (agent_heap_range.c), the agent's: how many ranges were ever made, the first free one,
     * the lock, how many changes wait. */
    uint32_t range_count, range_free, range_lock, range_waiting;
    uint64_t range_number, range_seed;
    uint64_t returns_start; /* run-time address of the first of WIRE_AGENT_RETURNS blocks; 0: none */
    uint32_t timed;         /* tally's. 0: functions are only counted, since not all that unwinds is hooked */
    uint32_t latency_count;
    uint64_t own_start; /* run-time address of struct wire_agent_own; 0: none */

    /* Descriptors (agent_call_descriptor.c): the process's number as it knows it itself (0: not known); one
     * more than the highest number ever seen; how often one was opened; one more than the highest in the part
     * `forked`. */
    uint32_t pid_inside, descriptor_end, descriptor_events, forked_end;
    uint32_t timing;       /* enum wire_agent_timing */
    uint32_t own_pid;      /* the process's number as it knows it; set with timing */
    uint32_t idle;         /* timers that are not armed, because their thread blocks the signal */
    uint32_t untimed;      /* threads that could get no timer */
    uint32_t forbidden;    /* enum wire_agent_call, as agent_parameters has it */
    uint32_t timer_signal; /* of its timers now; set before timing */
    uint32_t unmovable;    /* 1: they cannot use the other signal (agent_timer.c) */
    uint32_t zero;
    struct wire_agent_action before; /* what the program has for the timers' signal: SIG_DFL in some form */

    uint64_t asks[WIRE_AGENT_ASKS];

    uint64_t losses[WIRE_AGENT_LOSSES];
};
_Static_assert(sizeof(struct wire_agent_process) <= 4096, "the first page of a region");

#endif
