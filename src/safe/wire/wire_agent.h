/* wire_agent.h - what the agent, inside a target, and tally, outside, have in common: one memfd, plain
 * structures.
 *
 *   file = control page | rows blobs (tally writes, for all processes) | region 0 | region 1 | ... |
 *          thread records of region 0 | of region 1 | ... | own memory (only mapped privately, never written)
 *
 * One file for one load of the agent. A process writes its own region and records only; a child of a fork
 * takes the next free ones (control.next_region) or stays inert. The file is sparse: pages that nobody wrote
 * cost nothing. All references are offsets or indices, so that tally may read a region while it is being
 * written and after its process's death. Tally treats every word as hostile: wire_agent_layout gives the
 * bounds, never the region itself.
 *
 * What a process maps of it: control, rows, its region, its records, its own memory, in this order, at the
 * distances that they have in a file of one region (enum wire_agent_part, wire_agent_place). Whatever its
 * number, a process has its region at the same address, as a fork's child is to have. Only the beginning of
 * each part is mapped (wire_agent_first) and grows in place by need (agent_room.c): what is mapped counts
 * against RLIMIT_AS, is locked by mlockall, and is walked by leak checkers. A part that cannot grow is full.
 *
 * Words are written by plain or atomic stores of their own size; a reader sees each word whole, and related
 * words possibly some nanoseconds apart. After the process has ended, all of it is exact.
 *
 * Entries of the agent (symbols of its image): agent_entry_* below, called by stubs with r11 = struct
 * wire_hook (wire_hook.h); agent_parameters is the struct wire_agent_parameters that the loader fills in
 * (loader_write).
 *
 * --- reading cells --- The tree: node 0 is nothing. A node with parent 0 is a root: pc = enum
 * wire_agent_collector, cookie = a number of threads' group; several roots with one collector are one tree,
 * their figures add up (nodes of equal path too: there may be two). Below, a node's pc is a run-time address
 * (a return address: look up pc - 1, except where flags say otherwise), and cookie names the module, as tally
 * gave it. Nodes are complete once node.ready is 1. A node's cell (0: none) holds its figures:
 *   live bytes   = total - freed_own - freed_other           live blocks = count - freed_own_count -
 *                freed_other_count
 *   peak bytes   = cell.peak_epoch == process.peak_epoch ? cell.peak : live bytes
 * All figures of counts are multiplied by process.scale (1, exact; WIRE_AGENT_SCALE when sampled).
 *
 * Why the peak is read like this. The process's live bytes are kept as one sum. While it stands at its
 * maximum and rises, a cell's value at the peak is its value now. The first release after a rise leaves the
 * peak: from then on, whoever changes a cell saves its live bytes first, once in each epoch (peak_epoch).
 * When the sum passes the old maximum again, a new epoch begins and all saved values are old. So the peak
 * costs one comparison an event. With several threads each one adds to the sum in steps of less than
 * WIRE_AGENT_BATCH, or of a 64th of all live bytes if that is less, but not of WIRE_AGENT_BATCH_LEAST, and
 * the maximum is known to that many bytes a thread. When the tables of blocks are full, `level` rises from 0:
 * from then on only samples of blocks find a place, by Poisson sampling of bytes at the mean distance of
 * wire_agent_level_bytes, and stand for others: 1/p blocks and S/p bytes of their size S. total and count
 * stay exact, live and peak figures become unbiased estimates. A block's level is in its slot. A cell's max
 * is the maximum of its own live bytes (of its threads' group: with several threads the sum over roots is an
 * upper bound).
 *
 * Context: anywhere. Source of nothing but this file's needs; sharded open addressing as in techniques.md
 * B.4. */
#ifndef WIRE_AGENT_H
#define WIRE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire_latency.h"

#define WIRE_AGENT_MAGIC   UINT64_C(0x544e4741594c4c54) /* "TLLYAGNT" */
#define WIRE_AGENT_VERSION 14

#define WIRE_AGENT_REGIONS 1024  /* processes of a family of forks, at most */
#define WIRE_AGENT_MODULES 4096  /* in one table */
#define WIRE_AGENT_THREADS 16384 /* thread records of a process */
#define WIRE_AGENT_PLACES  32768 /* where thread pointers are looked for */
#define WIRE_AGENT_LAYERS  32    /* allocators in a process, ever */
#define WIRE_AGENT_FRAMES                                                                                    \
    128 /* deepest stack kept; outer frames beyond it are cut: WIRE_AGENT_LOSS_TOO_DEEP */
#define WIRE_AGENT_RETURNS 8192 /* return addresses that can be replaced: places that call functions */
#define WIRE_AGENT_PENDING 1023 /* calls of hooked functions that a thread can be in at once */
#define WIRE_AGENT_PATH    512 /* instrumented functions in a path; those further in are counted at its end */
#define WIRE_AGENT_STRAYS  2048 /* pages of stacks with strays (agent_function.c) */
#define WIRE_AGENT_LATENCIES                                                                                 \
    1024 /* histograms of a process, and the places (numbers, 0: free) where the agent looks for them */
#define WIRE_AGENT_LATENCY_SLOTS 4096
#define WIRE_AGENT_BATCH         65536
#define WIRE_AGENT_BATCH_PART    64
#define WIRE_AGENT_BATCH_LEAST   256
#define WIRE_AGENT_SCALE         65536
#define WIRE_AGENT_DESCRIPTORS                                                                               \
    (1u << 20) /* numbers of descriptors that are followed: the kernel's usual limit */
#define WIRE_AGENT_PATIENCE_MOST                                                                             \
    50 /* times patience_ms that a request waits in all: as long as the bells of exact calls */

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

/* The kernel's struct sigaction. */
struct wire_agent_action {
    uint64_t handler, flags, restorer, mask;
};

/* --- control page: tally writes, but for next_region and bell --- */

enum wire_agent_control_flag {
    WIRE_AGENT_FOLLOW = 1, /* children of a fork take a region of their own */
    WIRE_AGENT_INCLUDE =
        2, /* sizes are what blocks really take: usable size and header (--heap-overhead=include) */
    WIRE_AGENT_DELTA = 4, /* only what they take beyond what was asked for (delta) */
    WIRE_AGENT_EMPTY =
        8, /* pages of blocks are looked at before their release: those of zeros count (--empty) */
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
    uint32_t bell;        /* futex (shared): +1 and woken with every request of any process */
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

/* What fills a fresh block: no address, no small number, no text; every byte of it is another one, and none
 * is 0. */
#define WIRE_AGENT_PATTERN UINT64_C(0xd36b9ec578f1a42d)
/* What an empty page holds, and nothing else. */
static inline uint64_t wire_agent_empty_word(uint32_t flags)
{
    return flags & WIRE_AGENT_UNUSED ? WIRE_AGENT_PATTERN : 0;
}
/* Of a thread's two CPU clocks, as their numbers have it (include/linux/posix-timers.h). */
enum wire_agent_clock { WIRE_AGENT_CLOCK_USER = 1, WIRE_AGENT_CLOCK_CPU = 2 };

/* --- process region --- */

enum wire_agent_state {
    WIRE_AGENT_FREE = 0,
    WIRE_AGENT_RUNNING, /* set by tally (the loaded process) or by the forked child itself */
    WIRE_AGENT_LEFT, /* set by tally: hooks are to go straight to the body, because the agent is being taken out */
};

/* process.timing */
enum wire_agent_timing {
    WIRE_AGENT_UNTIMED = 0,
    WIRE_AGENT_TIMED,  /* the handler is set; threads have timers, and new ones make theirs */
    WIRE_AGENT_ENDING, /* the timers are being taken away */
    WIRE_AGENT_CLAIMED, /* the program took the signal: no timers, unless tally makes new ones with the other one */
    WIRE_AGENT_OVER, /* no timers any more: a filter of system calls, io_uring, or the signal was taken unseen */
};

/* Bits of process.request. */
enum wire_agent_request {
    WIRE_AGENT_OBJECTS = 1, /* new objects were mapped, or old ones unmapped; nobody runs the new ones yet */
    WIRE_AGENT_EXEC = 2,    /* the thread is about to execve */
    WIRE_AGENT_EXEC_FAILED =
        4, /* it did not happen; nobody waits. Beside EXEC it is the older one: to be seen to first */
    WIRE_AGENT_FORKED = 8, /* this region was taken by a child just now; nobody waits */
    WIRE_AGENT_END = 16, /* the thread ends the process now: what it has can be looked at until the answer */
};

enum wire_agent_loss {
    WIRE_AGENT_LOSS_INTERRUPTED = 0, /* events in signal handlers that interrupted a hook: not counted */
    WIRE_AGENT_LOSS_NO_RECORD,       /* events of threads that got no record */
    WIRE_AGENT_LOSS_NO_NODE,         /* events whose stack found no room: counted at the deepest known node */
    WIRE_AGENT_LOSS_NO_CELL,         /* events not counted: no cell was left */
    WIRE_AGENT_LOSS_NO_BLOCK,        /* blocks whose release cannot be seen: counted in total only */
    WIRE_AGENT_LOSS_TOO_DEEP,        /* stacks with more than WIRE_AGENT_FRAMES frames */
    WIRE_AGENT_LOSS_CUT,         /* stacks ended early, by enum unwind_end: memory that could not be read */
    WIRE_AGENT_LOSS_NO_ROWS,     /* ... no call-frame information */
    WIRE_AGENT_LOSS_ODD_RULE,    /* ... unsupported call-frame information */
    WIRE_AGENT_LOSS_NO_MAPPING,  /* ... an address in no module */
    WIRE_AGENT_LOSS_NO_PROGRESS, /* ... the next frame was not above the last */
    WIRE_AGENT_LOSS_NO_ANSWER,   /* requests that tally did not answer in time */
    WIRE_AGENT_LOSS_INERT,       /* processes forked without a region: nothing of them is counted */
    WIRE_AGENT_LOSS_UNKNOWN_FREE, /* releases of blocks that were not seen when allocated (no loss by itself) */
    WIRE_AGENT_LOSS_FRAME_POINTER, /* frames found by frame pointer */
    WIRE_AGENT_LOSS_SAMPLED, /* blocks that found no place, for which others stand: live figures are estimates */
    WIRE_AGENT_LOSS_NO_RANGE, /* mappings that are not counted, or as if they had been unmapped, or had not */
    WIRE_AGENT_LOSS_UNTIMED,  /* calls of functions counted, not timed: nowhere to keep the return address */
    WIRE_AGENT_LOSS_PUT_BACK, /* calls whose return will not be seen: an exception or a backtrace came by */
    WIRE_AGENT_LOSS_FORGOTTEN, /* returns of calls whose beginning was forgotten, or made by another thread */
    WIRE_AGENT_LOSS_NO_HISTOGRAM, /* calls that are timed and in no histogram */
    WIRE_AGENT_LOSS_NO_RESULT,    /* calls that may have opened descriptors, whose outcome is not seen */
    WIRE_AGENT_LOSS_INNER,        /* calls of functions from inside one that is hooked for something else */
    WIRE_AGENT_LOSS_FORBIDDEN, /* calls of the agent's that the program forbids itself: kinds, by process */
    WIRE_AGENT_LOSS_PATH_DEEP, /* calls of instrumented functions that are counted at an outer part of their path */
    WIRE_AGENT_LOSS_RESTED, /* calls of functions in threads that signals kept from getting on: not counted */
    WIRE_AGENT_LOSS_NO_ROOM, /* parts of the memory that could not grow: what found no place is another loss */
    WIRE_AGENT_LOSSES
};

/* What the agent does without when the program, or who began it, forbids it (agent_filter.c): system calls,
 * and the processor's clock. */
#define WIRE_AGENT_CALLS(X)                                                                                  \
    X(GETTID, "gettid")                                                                                      \
    X(GETPID, "getpid")                                                                                      \
    X(FUTEX, "futex")                                                                                        \
    X(CLOCK, "clock_gettime")                                                                                \
    X(MASK, "rt_sigprocmask")                                                                                \
    X(ACTION, "rt_sigaction")                                                                                \
    X(ARCH_PRCTL, "arch_prctl")                                                                              \
    X(PRCTL, "prctl")                                                                                        \
    X(TIMERS, "the calls of timers")                                                                         \
    X(TICKS, "rdtsc") /* no system call */                                                                   \
    X(PENDING, "rt_sigpending")                                                                              \
    X(GROW, "mremap")                                                                                        \
    X(SHOW, "remap_file_pages")                                                                              \
    X(COMMIT, "madvise")

enum wire_agent_call_number {
#define X(name, text) WIRE_AGENT_CALL_NUMBER_##name,
    WIRE_AGENT_CALLS(X)
#undef X
        WIRE_AGENT_CALL_COUNT
};
enum wire_agent_call {
#define X(name, text) WIRE_AGENT_CALL_##name = 1 << WIRE_AGENT_CALL_NUMBER_##name,
    WIRE_AGENT_CALLS(X)
#undef X
        WIRE_AGENT_CALLS_ALL = (1 << WIRE_AGENT_CALL_COUNT) - 1
};

/* A module: executable addresses start..end (run-time) belong to rows at rows_offset from control.rows_offset
 * on. rows_size 0: none. */
struct wire_agent_module {
    uint64_t start, end, bias;
    uint64_t rows_offset, rows_size;
    uint32_t cookie; /* tally's name of the mapping; never used again for another one */
    uint32_t flags;  /* enum wire_agent_module_flag */
};
enum wire_agent_module_flag {
    WIRE_AGENT_MODULE_READS = 1,  /* it reads its own return addresses: they are not replaced */
    WIRE_AGENT_MODULE_UNWINDS = 2 /* it has an unwinder that is known only by whom it asks */
};

/* An allocator: the module and family that it is in, and what of it the agent needs beside the hooked
 * functions. Filled in this order, and never used for another one; when its module is gone, start becomes
 * end. */
struct wire_agent_layer {
    uint64_t start, end;  /* hooked functions of its family in here belong to it */
    uint64_t usable_size; /* run-time address of its malloc_usable_size, 0: none, or not wanted */
    uint64_t
        plain_new; /* run-time address of a body that allocates like operator new but returns NULL, 0: none */
    uint16_t header_bytes; /* a block's own administration beside the usable size */
    uint16_t
        mapped_bytes; /* as much more where bit 1 of the word before a block is set (glibc: it was mapped alone) */
    uint16_t family; /* enum wire_agent_family */
    uint16_t alone;  /* no other object has a realloc: blocks that its reallocarray gives are its own */
};

/* Functions that are of one allocator are of one family: a module may have several, by prefixes of their
 * names. */
enum wire_agent_family {
    WIRE_AGENT_PLAIN = 0, /* malloc, operator new */
    WIRE_AGENT_JE,        /* je_malloc */
    WIRE_AGENT_MI,        /* mi_malloc */
    WIRE_AGENT_TC,        /* tc_malloc, tc_new */
    WIRE_AGENT_ARRAYS,    /* operator new[] of an allocator that is WIRE_AGENT_PLAIN else */
    WIRE_AGENT_TC_ARRAYS, /* tc_newarray */
    WIRE_AGENT_NAMED,     /* of --alloc-functions: it is no layer */
    WIRE_AGENT_FAMILIES
};

/* wire_hook.cookie: what was hooked. */
#define WIRE_AGENT_COOKIE(entry, family) ((uint64_t)(family) << 8 | (uint64_t)(entry))
static inline uint32_t wire_agent_cookie_family(uint64_t cookie)
{
    return (uint32_t)(cookie >> 8 & 255);
}

/* The family of WIRE_AGENT_ENTRY_UNWIND: what is hooked. */
enum wire_agent_unwinder {
    WIRE_AGENT_UNWINDER,   /* it reads the stack */
    WIRE_AGENT_BY_HEADERS, /* it is asked for program headers, by unwinders and others */
    WIRE_AGENT_BY_OBJECT   /* it is asked for the object of an address */
};

/* A word of `asks`: thread << 32 | enum wire_agent_request; 0: free. The agent takes one that is free, tally takes
 * all words. */
#define WIRE_AGENT_ASKS       64
#define WIRE_AGENT_OF_THREADS (WIRE_AGENT_EXEC | WIRE_AGENT_EXEC_FAILED | WIRE_AGENT_END)

struct wire_agent_process {
    uint64_t magic;
    uint32_t version;
    uint32_t state; /* enum wire_agent_state */
    uint32_t pid;
    uint32_t parent; /* region index of the forking process + 1; 0: none */
    uint64_t
        start_time; /* field 22 of /proc/PID/stat when tally filled it in; 0: a forked child's, not known yet */
    uint64_t scale; /* of counts: 1 or WIRE_AGENT_SCALE */

    /* Modules. Table (generation & 1) is valid; tally writes the other one and then adds one to generation.
     * 0: none yet. */
    uint32_t generation;
    uint32_t module_count[2];
    uint32_t layer_count;
    uint32_t
        layers_known; /* 1: all that were hooked are there. Where blocks' sizes are asked of them, none counts before */
    uint32_t unmapped; /* the agent's: how often memory was about to be readable no more */
    struct wire_agent_layer layers[WIRE_AGENT_LAYERS];

    /* Requests: the agent sets bits in `request`, of a thread's own (WIRE_AGENT_OF_THREADS) a word of `asks`, then adds one to request_sequence and rings control.bell.
     * Tally reads request_sequence, takes all bits (exchange with 0), does what they ask, stores the sequence
     * it read into answer_sequence and wakes that futex (shared). Who waits waits for his sequence; others
     * may come meanwhile. */
    uint32_t request, request_sequence, answer_sequence;
    uint32_t silent; /* the agent's: tally did not answer once, or was stopped; never ask again */
    uint32_t
        unrecorded; /* threads with agent frames on their stacks that threads[].inside does not tell of */

    /* Figures of the process. */
    int64_t live;       /* bytes, but for those of first_live and of threads' unfinished batches */
    int64_t first_live; /* by the first thread while it was alone: the process has live + first_live */
    int64_t peak;       /* its maximum */
    uint64_t
        peak_ns; /* control.now_ns when the peak was last left (0: it stands at the peak, or there was none) */
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

    /* Mapped memory (agent_range.c), the agent's: how many ranges were ever made, the first free one, the
     * lock, how many changes wait. */
    uint32_t range_count, range_free, range_lock, range_waiting;
    uint64_t range_number, range_seed;
    uint64_t returns_start; /* run-time address of the first of WIRE_AGENT_RETURNS blocks; 0: none */
    uint32_t timed;         /* tally's. 0: functions are only counted, since not all that unwinds is hooked */
    uint32_t latency_count;
    uint64_t own_start; /* run-time address of struct wire_agent_own; 0: none */

    /* Descriptors (agent_descriptor.c): the process's number as it knows it itself (0: not known); one more
     * than the highest number ever seen; how often one was opened; one more than the highest in the part
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
    uint64_t
        variance; /* sampled: sum of squares of unseen bytes, in units of sample_bytes^2 / 65536 (or those of level 1) */
    uint64_t freed_variance; /* of what was released */
    uint64_t node;
    uint64_t empty; /* bytes of whole pages that were empty when their block was released */
};
_Static_assert(sizeof(struct wire_agent_cell) == 128, "two cache lines");

/* Live blocks: tables of buckets, table 0 of WIRE_AGENT_TABLE0 buckets, table 1 as large, each later one as
 * large as all before it. A slot is free when key is 0. key: address / 8 in the low 44 bits, size >> 28 in
 * the high 20; value: low 28 bits of the size in the high bits, then 4 of the level, cell in the low 32. A
 * value of 0 is not complete yet. */
struct wire_agent_slot {
    uint64_t key, value;
};
#define WIRE_AGENT_SLOTS 7
struct wire_agent_bucket {
    struct wire_agent_slot slots[WIRE_AGENT_SLOTS];
    uint32_t passed; /* blocks at home here that are in a later bucket */
    uint32_t zero[3];
};
_Static_assert(sizeof(struct wire_agent_bucket) == 128, "two cache lines");
#define WIRE_AGENT_TABLE0_BITS 6 /* 64 buckets, 8 KiB */
#define WIRE_AGENT_KEY_MASK    ((UINT64_C(1) << 44) - 1)

static inline uint64_t wire_agent_slot_address(const struct wire_agent_slot *slot)
{
    return (slot->key & WIRE_AGENT_KEY_MASK) << 3;
}
static inline uint64_t wire_agent_slot_size(const struct wire_agent_slot *slot)
{
    return slot->key >> 44 << 28 | slot->value >> 36;
}
static inline uint32_t wire_agent_slot_cell(const struct wire_agent_slot *slot)
{
    return (uint32_t)slot->value;
}
static inline uint32_t wire_agent_slot_level(const struct wire_agent_slot *slot)
{
    return (uint32_t)(slot->value >> 32) & 15;
}

#define WIRE_AGENT_LEVELS 8
/* The mean distance of samples, bytes; 0 at level 0. */
static inline uint64_t wire_agent_level_bytes(uint32_t level)
{
    return level == 0 ? 0 : UINT64_C(16384) << 2 * (level - 1);
}

/* Buckets of table `number`, and how many are in the tables before it. */
static inline uint64_t wire_agent_table_buckets(unsigned number)
{
    return UINT64_C(1) << (WIRE_AGENT_TABLE0_BITS + (number == 0 ? 0 : number - 1));
}
static inline uint64_t wire_agent_table_before(unsigned number)
{
    return number == 0 ? 0 : wire_agent_table_buckets(number);
}

/* --- descriptors (agent_descriptor.c): cells of WIRE_AGENT_FDS; count: descriptors opened --- The word of
 * number n in the part `descriptors`: 0, not open as far as is known; else how it came to be open, the cell
 * of who opened it, and which event that was, of which the lower bits are kept. It changes with each opening,
 * so who reads it twice and finds it the same knows that nothing happened in between. */
struct wire_agent_descriptor {
    uint64_t word;
    uint64_t since_ns; /* control.now_ns; of the opening that the word tells of, but for a moment */
};
enum wire_agent_how {
    WIRE_AGENT_BEFORE = 1,    /* it was open when the agent came */
    WIRE_AGENT_INHERITED,     /* it was open when the process was forked */
    WIRE_AGENT_OPENED,        /* open, creat and their kin */
    WIRE_AGENT_DUPLICATED,    /* dup, fcntl */
    WIRE_AGENT_DUPLICATED_TO, /* dup2, dup3 */
    WIRE_AGENT_FCNTL,         /* fcntl, before it is known that it duplicates */
    WIRE_AGENT_SOCKET,
    WIRE_AGENT_SOCKETPAIR,
    WIRE_AGENT_ACCEPTED,
    WIRE_AGENT_PIPE,
    WIRE_AGENT_EVENT,
    WIRE_AGENT_TIMER,
    WIRE_AGENT_EPOLL,
    WIRE_AGENT_SIGNAL,
    WIRE_AGENT_MEMORY,
    WIRE_AGENT_NOTIFY, /* inotify, fanotify */
    WIRE_AGENT_PIDFD,
    WIRE_AGENT_RECEIVED,      /* recvmsg: in a message */
    WIRE_AGENT_RECEIVED_MANY, /* recvmmsg: in several */
    WIRE_AGENT_HOWS
};
#define WIRE_AGENT_WORD(cell, how, event) ((uint64_t)(cell) | (uint64_t)(how) << 28 | (uint64_t)(event) << 34)
static inline uint32_t wire_agent_word_cell(uint64_t word)
{
    return (uint32_t)(word & 0xfffffff);
}
static inline uint32_t wire_agent_word_how(uint64_t word)
{
    return (uint32_t)(word >> 28 & 63);
}
/* Was it opened after that many events? */
static inline bool wire_agent_word_is_after(uint64_t word, uint32_t events)
{
    return (int32_t)(((uint32_t)(word >> 34) - events) << 2) > 0;
}

/* --- functions that are timed (agent_function.c): cells of WIRE_AGENT_FUNCTION --- total: ticks of the
 * processor's clock from calls to their returns, calls of other such functions not included; count: calls.
 * largest: the number of their histogram, 0: none yet. Their nodes are of the function's own address
 * (WIRE_AGENT_NODE_EXACT), below its caller. */

/* Block i is WIRE_AGENT_BLOCK bytes of code; what stands on a stack in the place of a return address is its
 * WIRE_AGENT_BLOCK_BACK, and the real one is word i of the part `returns`, once and for all. */
#define WIRE_AGENT_BLOCK      16
#define WIRE_AGENT_BLOCK_BACK 4

/* A call that has not returned yet. Of one that opens descriptors, start is process.descriptor_events when it
 * began, and inner the argument that says where they are told. */
struct wire_agent_pending {
    uint64_t slot;  /* where its return address stands */
    uint64_t start; /* ticks */
    uint64_t inner; /* ticks in calls from it that are timed themselves */
    uint32_t cell;
    uint32_t how; /* enum wire_agent_how: it may open descriptors; 0: it is timed */
};
_Static_assert(sizeof(struct wire_agent_pending) == 32, "shared layout");

/* Those of a thread's record, the latest last. */
struct wire_agent_calls {
    uint32_t count, zero[7];
    struct wire_agent_pending items[WIRE_AGENT_PENDING];
};

/* Slots of one page where words of ours may still stand, though no call is pending there. */
#define WIRE_AGENT_STRAY_PAGE UINT64_C(4096)
struct wire_agent_strays {
    uint64_t page;                                  /* its address; 0: free */
    uint64_t slots[WIRE_AGENT_STRAY_PAGE / 8 / 64]; /* a bit for each word */
};

struct wire_agent_known {
    uint64_t used[WIRE_AGENT_THREADS / 64]; /* a bit for each record: its calls were used */
    uint32_t strays_lost;                   /* not 0: there may be some where nothing tells of */
    uint32_t zero[15];
    struct wire_agent_strays strays[WIRE_AGENT_STRAYS];
};

/* Where replaced return addresses stand: in memory of the process's own, mapped privately, not in its region. So a
 * fork's child has at once, and exactly, what its parent's memory had when it was copied, and whoever takes the agent out
 * of it finds it there, counted or not. Hardly any of it is ever written. */
struct wire_agent_own {
    struct wire_agent_known known;
    struct wire_agent_calls calls[WIRE_AGENT_THREADS]; /* by number of the record */
};
_Static_assert(offsetof(struct wire_agent_own, calls) % 64 == 0, "whole cache lines");

/* How long calls took, of one function and group of threads: numbers 1 .. process.latency_count. Times are in
 * ns but for the sum. */
struct wire_agent_latency {
    uint64_t function; /* run-time address of its first instruction */
    uint32_t cookie;   /* of its module */
    uint32_t group;    /* 0: of many, as of cells */
    uint64_t sum;      /* ticks */
    uint64_t least;    /* ~ of the shortest: 0 before there is one */
    uint64_t most;
    uint64_t zero[3];
    uint64_t buckets[WIRE_LATENCY_BUCKETS]; /* calls */
};
_Static_assert(sizeof(struct wire_agent_latency) % 64 == 0, "whole cache lines");

/* The real return address behind what a program counter or a word on a stack says; `word` itself when it is
 * none of ours. `returns`: the part, or a copy. */
static inline uint64_t wire_agent_return(uint64_t start, const uint64_t *returns, uint64_t word)
{
    uint64_t offset = word - start;
    if (start == 0 || offset >= (uint64_t)WIRE_AGENT_RETURNS * WIRE_AGENT_BLOCK ||
        offset % WIRE_AGENT_BLOCK > WIRE_AGENT_BLOCK_BACK)
        return word;
    uint64_t real = returns[offset / WIRE_AGENT_BLOCK];
    return real != 0 ? real : word;
}

/* --- instrumented functions (agent_instrumented.c): cells of WIRE_AGENT_INSTRUMENTED --- total: ticks of the
 * processor's clock in the function but not in those that it calls and that are instrumented too; count:
 * calls. Nodes are of functions' own addresses (WIRE_AGENT_NODE_EXACT), below the instrumented function that
 * called them, directly or not; the first one of a path is below the stack that it was called from. */

/* A thread record; what follows the first line is the agent's own. */
struct wire_agent_thread {
    uint64_t key;    /* the thread pointer; 0: free; one more: being made */
    uint32_t tid;    /* of the thread that it was claimed by last */
    uint32_t inside; /* the agent's: enum wire_agent_inside */
    uint32_t zero[12];
    uint64_t entered_sp; /* the agent's: of the outermost entry that is inside */
};
/* While a thread may have agent frames on its stack. What an entry calls of the program's finds, not far below entered_sp, its return
 * address into the agent, and two words above that, in a frame of the usual form, the word that lies right below entered_sp: the caller's
 * return address. Without these, who was inside has left by a jump or an exception. */
enum wire_agent_inside {
    WIRE_AGENT_OUTSIDE = 0,
    WIRE_AGENT_INSIDE = 1,
    WIRE_AGENT_INSIDE_ALONE = 2,    /* the entry calls nothing of the program's */
    WIRE_AGENT_INSIDE_UNWINDING = 3 /* the same, and it replaces no return address: WIRE_AGENT_ENTRY_UNWIND */
};
#define WIRE_AGENT_ENTRY_WORDS  32
#define WIRE_AGENT_THREAD_BYTES (512 * 1024)
/* The part `places` finds a record by its thread pointer: a word is the pointer's 48 bits << 16 | the number
 * of the record; 0: none yet. The agent's own. */
static inline uint64_t wire_agent_place_word(uint64_t key, uint32_t number)
{
    return key << 16 | number;
}
#define WIRE_AGENT_RANGE_BYTES 64

/* A change of mapped memory that waits for whoever changes the ranges now (agent_range.c). The agent's own. */
struct wire_agent_change {
    uint64_t start, end, number;
    uint32_t cell;  /* 0: it was unmapped */
    uint32_t state; /* 0: free; 1: being written; 2: it waits */
};
#define WIRE_AGENT_CHANGES 512
_Static_assert(WIRE_AGENT_CHANGES * sizeof(struct wire_agent_change) % 4096 == 0, "pages");

/* A thread's timer. Tally makes those of threads that run already; `call` is what its system calls read. */
struct wire_agent_timer {
    uint32_t tid; /* 0: free. A thread that ended leaves it to be taken over */
    uint32_t zero;
    uint32_t id;      /* the kernel's number; in the states but NONE, together with which it is written */
    uint32_t state;   /* enum wire_agent_timer_state */
    uint64_t last_ns; /* of the thread's clock, when the last sample was taken; 0: not known */
    uint64_t random;  /* 0: not drawn yet */
    uint64_t seen_ns, alone_ns; /* control.now_ns as it was last seen, and how long it has not changed */
    uint64_t call[8];           /* struct sigevent, or struct itimerspec */
    uint64_t unused[2];
};
_Static_assert(sizeof(struct wire_agent_timer) == 128, "shared layout");
_Static_assert(offsetof(struct wire_agent_timer, id) % 8 == 0 &&
                   offsetof(struct wire_agent_timer, state) == offsetof(struct wire_agent_timer, id) + 4,
               "id and state are one word");
enum wire_agent_timer_state {
    WIRE_AGENT_TIMER_NONE = 0,
    WIRE_AGENT_TIMER_IDLE, /* its thread blocks the signal */
    WIRE_AGENT_TIMER_ARMED,
    WIRE_AGENT_TIMER_ENDED /* not armed any more */
};
#define WIRE_AGENT_TIMERS 1024
/* A thread's timer is at one of the PROBES places from its home on, and round. */
#define WIRE_AGENT_TIMER_PROBES 32
static inline uint32_t wire_agent_timer_home(uint32_t tid)
{
    return tid * UINT32_C(0x9e3779b1) >> 22; /* 10 bits */
}
#define WIRE_AGENT_TIMER_VALUE(index) (UINT64_C(0x59414c54) << 32 | (index)) /* sigev_value */

/* What a new thread is to run when it has its timer; the agent's own. */
struct wire_agent_start {
    uint64_t used, routine, argument, zero;
};
#define WIRE_AGENT_STARTS 1024

/* Of the hash of an address: how many live blocks are samples, 255 for good. The agent's own. */
#define WIRE_AGENT_SAMPLED 65536
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

#define WIRE_AGENT_MAKERS 32

/* --- what the loader writes at the symbol agent_parameters of the image, before the first hook --- */
struct wire_agent_parameters {
    uint64_t control; /* run-time address of the file's first page */
    uint64_t process; /* run-time address of the process's region */
    uint64_t alive;   /* run-time address of a private page with MADV_WIPEONFORK; its first word is 1 */
    uint32_t flags;   /* enum wire_agent_parameter_flag */
    uint32_t forking; /* the agent's: threads in a fork; a child finds those of its birth */
    uint64_t own;     /* run-time address of struct wire_agent_own; 0: no return address is replaced */
    uint64_t code, code_end;          /* run-time, of the agent's own code */
    uint32_t forbidden;               /* bits of enum wire_agent_call; the agent sets more */
    uint32_t region;                  /* its number; the agent's: a child takes another one */
    uint64_t threads;                 /* run-time address of the process's records */
    uint64_t rooms[WIRE_AGENT_PARTS]; /* bytes that are mapped of each part; the agent's, as it grows them */
    uint32_t looked;                  /* the agent's: records that were looked at (agent_record.c) */
    uint32_t rests[WIRE_AGENT_PARTS]; /* the agent's: 0, or 1 + events until a refused part is tried again */
    uint64_t known_key, known_start, known_end; /* the agent's: a fork child's stack (agent_thread.c) */
    uint64_t
        making[WIRE_AGENT_MAKERS]; /* the agent's: thread pointers of those that make their record; 0: free */
    uint32_t zero;
    uint32_t unclaimed; /* the agent's: events until a record is looked for again, where none was free */
};
enum wire_agent_parameter_flag {
    WIRE_AGENT_FSGSBASE = 1, /* AT_HWCAP2 bit 1: rdfsbase may be used */
    WIRE_AGENT_FS_SELF = 2,  /* the agent's: fs:0 holds the thread pointer in this process */
};

/* --- functions that can be hooked: enum and the image's symbol that is its handler ---
 * A name that is not in the image (loader_image_symbol false) is not built: leave the function alone. */
#define WIRE_AGENT_ENTRIES(X)                                                                                \
    X(MALLOC, "agent_entry_malloc")             /* (size, ...): malloc, new(nothrow) */                      \
    X(CALLOC, "agent_entry_calloc")             /* (count, size) */                                          \
    X(REALLOC, "agent_entry_realloc")           /* (block, size) */                                          \
    X(REALLOCARRAY, "agent_entry_reallocarray") /* (block, count, size) */                                   \
    X(FREE, "agent_entry_free") /* (block, ...): free cfree free_sized free_aligned_sized, every delete */   \
    X(ALIGNED, "agent_entry_aligned")               /* (alignment, size): aligned_alloc memalign */          \
    X(POSIX_MEMALIGN, "agent_entry_posix_memalign") /* (result, alignment, size) */                          \
    X(VALLOC, "agent_entry_malloc")                 /* (size): valloc pvalloc */                             \
    X(POOL_CALLOC, "agent_entry_pool_calloc")       /* (pool, count, size); ALIGNED is (pool, size) too */   \
    X(POOL_REALLOC, "agent_entry_pool_realloc")     /* (pool, block, size) */                                \
    X(POOL_FREE, "agent_entry_pool_free")           /* (pool, block, ...) */                                 \
    X(NEW, "agent_entry_new")                       /* (size, ...): may throw; needs layer.plain_new */      \
    X(MMAP, "agent_entry_mmap")                     /* (address, size, protection, flags, file, offset) */   \
    X(MUNMAP, "agent_entry_munmap")                 /* (address, size) */                                    \
    X(MREMAP, "agent_entry_mremap")                 /* (old, old size, size, flags, address) */              \
    X(UNMAP, "agent_entry_unmap")                   /* any: unmaps; told, then jumped to */                  \
    X(PROTECT, "agent_entry_protect")               /* (address, size, protection, ...): the same */         \
    X(BRK, "agent_entry_brk")                       /* (address) */                                          \
    X(SBRK, "agent_entry_sbrk")                     /* (increment) */                                        \
    X(THROW, "agent_entry_throw")                   /* any: counted, then jumped to */                       \
    X(OBJECTS, "agent_entry_objects")               /* _dl_debug_state of ld.so */                           \
    X(END, "agent_entry_end")                       /* (status): _exit */                                    \
    X(EXECVE, "agent_entry_execve")                 /* (path, argv, envp) */                                 \
    X(EXECVEAT, "agent_entry_execveat")     /* (fd, path, argv, envp, flags); fexecve does not need it */    \
    X(FUNCTION, "agent_entry_function")     /* any: timed. These two are `whole` hooks (wire_hook.h) */      \
    X(UNWIND, "agent_entry_unwind")         /* any: reads the stack of its caller */                         \
    X(DESCRIPTOR, "agent_entry_descriptor") /* `whole`; wire_hook.cookie: enum wire_agent_how */             \
    X(ENTER, "agent_entry_enter")           /* (function, call site): at a linkage stub */                   \
    X(EXIT, "agent_entry_exit")             /* the same */                                                   \
    X(ENTER_DEFINED, "agent_entry_enter_defined") /* the same, of the program's own; `whole`, too */         \
    X(EXIT_DEFINED, "agent_entry_exit_defined")   /* the same */                                             \
    X(CLOSE, "agent_entry_close")                 /* (descriptor) */                                         \
    X(CLOSE_RANGE, "agent_entry_close_range")     /* (first, last, flags) */                                 \
    X(FORK, "agent_entry_fork")                   /* () */                                                   \
    X(THREAD, "agent_entry_thread")   /* (result, attributes, routine, argument): pthread_create */          \
    X(BIRTH, "agent_entry_birth")     /* (): not vfork, which returns twice from one frame */                \
    X(MASK, "agent_entry_mask")       /* (how, set, old): pthread_sigmask sigprocmask */                     \
    X(ACTION, "agent_entry_action")   /* (signal, action, old): sigaction */                                 \
    X(PRCTL, "agent_entry_prctl")     /* (option, ...) */                                                    \
    X(STACK, "agent_entry_stack")     /* (stack, old): sigaltstack */                                        \
    X(RING, "agent_entry_ring")       /* any: makes an io_uring */                                           \
    X(SYSCALL, "agent_entry_syscall") /* (number, ...): of libc, for any system call */                      \
    X(OBJECT, "agent_entry_object")   /* (address, found): _dl_find_object */                                \
    X(HEADERS, "agent_entry_headers") /* (callback, data): dl_iterate_phdr */

enum wire_agent_entry {
#define X(name, symbol) WIRE_AGENT_ENTRY_##name,
    WIRE_AGENT_ENTRIES(X)
#undef X
        WIRE_AGENT_ENTRY_COUNT
};

#endif
