/* wire_agent_control.h - the file that the agent, inside a target, and tally, outside, share: its layout and
 * its first page.
 *
 *   file = control page | rows blobs (tally writes, for all processes) | region 0 | region 1 | ... |
 *          thread records of region 0 | of region 1 | ... | own memory (only mapped privately, never written)
 *
 * The file is one memfd, for one load of the agent. A process writes its own region and records only; a child
 * of a fork takes the next free ones (control.next_region) or stays inert. The file is sparse: pages that
 * nobody wrote cost nothing. All references are offsets or indices, so that tally may read a region while it
 * is being written and after its process's death. Tally treats every word as hostile: wire_agent_layout gives
 * the bounds, never the region itself.
 *
 * Words are written by plain or atomic stores of their own size; a reader sees each word whole, and related
 * words possibly some nanoseconds apart. After the process has ended, all of it is exact.
 *
 * One header a subject: what a process maps of the file is wire_agent_layout.h, the first page of its region
 * wire_agent_process.h, figures wire_agent_node.h, what the loader fills in wire_agent_parameters.h, the
 * image's entries wire_agent_entry.h.
 *
 * Context: anywhere; plain structures. */
#ifndef WIRE_AGENT_CONTROL_H
#define WIRE_AGENT_CONTROL_H

#include <stdint.h>

#include "wire_agent_timer.h"

#define WIRE_AGENT_MAGIC   UINT64_C(0x544e4741594c4c54) /* "TLLYAGNT" */
#define WIRE_AGENT_VERSION 14

#define WIRE_AGENT_REGIONS 1024 /* processes of a family of forks, at most */

/* --- control page: tally writes, but for next_region and doorbell --- */

enum wire_agent_control_flag {
    WIRE_AGENT_FOLLOW = 1, /* children of a fork take a region of their own */
    /* sizes are what blocks really take: usable size and header (--heap-overhead=include) */
    WIRE_AGENT_INCLUDE = 2,
    WIRE_AGENT_DELTA = 4, /* only what they take beyond what was asked for (delta) */
    /* pages of blocks are looked at before their release: those of zeros count (--empty) */
    WIRE_AGENT_EMPTY = 8,
    WIRE_AGENT_FILL = 16,   /* blocks are filled with the pattern first (--empty=init) */
    WIRE_AGENT_UNUSED = 32, /* ... and pages count that still hold it (--empty=unused) */
    WIRE_AGENT_COMMIT = 64, /* pages are made before they are touched (proc_commit.h) */
};

struct wire_agent_control {
    uint64_t magic;
    uint32_t version, flags; /* enum wire_agent_control_flag */
    uint64_t file_size, rows_offset, rows_size, regions_offset, region_size, threads_offset, own_offset,
        memory; /* bytes; memory: --agent-memory */
    uint32_t region_count;
    uint32_t next_region;  /* the next free one: fetch-and-add by forked children; may pass region_count */
    uint64_t sample_bytes; /* 0: every block; else the mean distance of Poisson samples */
    uint64_t sample_seed;
    uint64_t now_ns; /* since the recording's start, written about every 10 ms: the agent reads no clock */
    uint32_t tally_pid;
    uint32_t patience_ms; /* how long a request waits for its answer while now_ns stands still */
    uint32_t doorbell;    /* futex (shared): +1 and woken with every request of any process */
    uint32_t gone;        /* tally stores 1 when it leaves: nobody waits any more */
    uint64_t ns_of_ticks; /* ns that 2^32 ticks of the processor's clock take */

    /* Samples of time (agent_timer.c). Intervals are drawn between least and least + spread; mean: of what
     * then passes until a tick. */
    uint64_t timer_least_ns, timer_spread_ns, timer_mean_ns, timer_tick_ns;
    uint32_t timer_signal; /* 0: no time is sampled */
    uint32_t timer_other;  /* what the timers may move to when the program takes that one; 0: nothing */
    uint32_t timer_clock;  /* enum wire_agent_clock */
    uint32_t suspended; /* tally stores 1 before it stops (^Z) and 0 as it goes on: nobody waits meanwhile */
    struct wire_agent_action action; /* the timers' handler */
    struct wire_agent_action found;  /* for tally's calls in the target's name */
    struct wire_agent_action none;   /* zeros: SIG_DFL */
};

#endif
