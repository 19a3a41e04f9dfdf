/* agent_thread.h - a thread's record, and who is inside.
 *
 * A record has everything that the agent remembers of a thread, whichever collector it is for: what belongs
 * to one of them is a structure of its own here, named after the file that uses it. */
#ifndef AGENT_THREAD_H
#define AGENT_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "agent.h"
#include "agent_process.h"
#include "unwind.h"
#include "unwind_known.h"
#include "unwind_trail.h"
#include "wire_agent_layout.h"
#include "wire_agent_node.h"
#include "wire_agent_pending.h"
#include "wire_agent_thread.h"

#define AGENT_LINKS     8192
#define AGENT_FUNCTIONS 256

/* One step of the tree that this thread took: (parent, pc) -> node. `links` is of sets of two. */
struct agent_link {
    uint64_t pc;
    uint32_t parent, node;
};

/* --- agent_call_instrumented.c --- */

/* An instrumented function that is open: between its enter and its exit. */
struct agent_path_call {
    uint64_t sp;                  /* where it called the hook, behind the call */
    uint64_t function;            /* as it says itself */
    uint64_t caller;              /* where it returns to */
    uint64_t site;                /* where the hook returns to */
    struct wire_agent_cell *cell; /* NULL: none was left */
    uint32_t node;                /* calls from it are below this one */
    uint32_t depth;               /* in the path */
};

/* One step of a path: (parent, site) -> node and cell. */
struct agent_path_step {
    uint64_t site, function;
    struct wire_agent_cell *cell;
    uint32_t parent, node, generation;
    uint32_t frame; /* bytes from sp to the end of the function's frame; 0: not known, 1: not to be had */
};

#define AGENT_PATH_CALLS 1024
#define AGENT_PATH_INNER 64
#define AGENT_PATH_STEPS 1024

/* The open calls of a thread, innermost last. */
struct agent_path_calls {
    uint32_t count, limit;
    uint32_t over; /* calls inside the last one that found no place */
    uint32_t zero;
    struct agent_path_call *items;
};

struct agent_path {
    uint64_t busy;                /* sp of the event that is being worked on; 0: none */
    uint64_t last;                /* ticks, of the last event */
    uint64_t low, high;           /* pages of its stack that were found readable */
    uint64_t unmapped;            /* process.unmapped, as it was then */
    uint64_t passed, passed_site; /* sp and site of the last event that came by a linkage stub */
    struct agent_path_calls calls;
    struct agent_path_calls inner; /* of signal handlers that interrupted an event */
    struct agent_path_step steps[AGENT_PATH_STEPS];
    struct agent_path_call items[AGENT_PATH_CALLS], inner_items[AGENT_PATH_INNER];
};

/* --- agent_pending.c: of a stack that was put back while its thread was inside --- */

struct agent_put_back {
    uint64_t low, high; /* high 0: none was */
    uint64_t ticks;     /* when, less agent_thread.spent */
};

/* --- agent_call_rest.c: is the thread making progress? --- */

struct agent_rest {
    uint64_t pc, sp; /* what a handler had interrupted at the last look; 0: the call was no handler's */
    uint32_t calls;  /* since then */
    uint32_t looks;  /* in a row that found the same */
    uint32_t left;   /* calls that pass */
    uint32_t zero;
};

/* --- agent_cell.c and agent_heap_sample.c --- */

/* What blocks come to. */
struct agent_amount {
    uint64_t bytes, count, largest, variance;
};

/* What a sample of that size stands for. */
#define AGENT_WEIGHED 64
struct agent_weighed {
    uint64_t size, mean; /* mean 0: free */
    struct agent_amount amount;
};

/* --- agent_stack.c: for stacks that were met before --- */

struct agent_searches {
    uint32_t count, found;
    uint32_t rest; /* stacks that are not searched for */
};

struct agent_thread {
    struct wire_agent_thread shared;
    uint64_t readable_start, readable_end; /* the pages of its stack that were found readable */
    uint64_t known_start, known_end;       /* ... when it was last to be found out (agent_thread_survey) */
    int64_t batch;                         /* of live bytes, not yet in process.live */
    uint64_t last_block;                   /* the last allocation, if nothing was allocated since */
    uint64_t random;
    int64_t until_sample;           /* bytes */
    uint64_t sample_mean;           /* of the distance that until_sample was drawn from */
    uint64_t spent, working;        /* agent_pending_pause: ticks of work, and since when */
    struct wire_agent_calls *calls; /* pending; NULL: no return address is replaced, as yet */
    struct agent_put_back put_back; /* of which the list does not know yet */
    struct agent_rest rest;
    uint32_t generation; /* of the modules that frames, nodes and links are of */
    uint32_t group;
    uint32_t tid_offset; /* agent_record_tid_offset; 0: not known */
    uint32_t roots[WIRE_AGENT_COLLECTORS];
    uint32_t nodes_root;                                /* of which nodes below are */
    struct unwind_frame interrupted[WIRE_AGENT_FRAMES]; /* the last stack that was sampled, innermost first */
    struct unwind_rows rows;                            /* what agent_module_place points to */
    struct unwind_known known;                          /* stacks that were met before */
    struct agent_searches searches;
    uint32_t unmapped;                     /* process.unmapped, as it was when they were found */
    bool is_known;                         /* the last one was; else it is the trail's */
    bool is_linked;                        /* there may be nodes in links */
    struct unwind_trail trail;             /* the last stack that was walked */
    uint32_t nodes[WIRE_AGENT_FRAMES + 1]; /* its nodes, outermost first; nodes[0] is the root */
    uint64_t paths[WIRE_AGENT_FRAMES + 1]; /* a hash of all the addresses up to each */
    struct agent_link links[AGENT_LINKS];
    struct agent_weighed weighed[AGENT_WEIGHED];
    struct agent_link functions[AGENT_FUNCTIONS]; /* of functions that are timed, below their callers */
    _Alignas(64) uint8_t cache[131072];           /* struct unwind_cache */
    struct agent_path path;
};
_Static_assert(WIRE_AGENT_FRAMES == UNWIND_TRAIL_FRAMES, "the deepest stack");
_Static_assert(sizeof(struct agent_thread) <= WIRE_AGENT_THREAD_BYTES, "a record's place");

/* Where the number of the record is looked for first. */
static inline uint32_t agent_thread_home(uint64_t key)
{
    return (uint32_t)((key >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 49) % WIRE_AGENT_PLACES;
}
static inline struct agent_thread *agent_thread_at(uint64_t number)
{
    return (struct agent_thread *)(agent_parameters.threads +
                                   number % WIRE_AGENT_THREADS * WIRE_AGENT_THREAD_BYTES);
}
/* How many records may be looked at. A word of the places may be of a region with more of them than this
 * process has mapped. */
static inline uint64_t agent_thread_mapped(void)
{
    return __atomic_load_n(&agent_parameters.mapped[WIRE_AGENT_PART_THREADS], __ATOMIC_ACQUIRE) /
           WIRE_AGENT_THREAD_BYTES;
}
static inline uint32_t agent_thread_number(const struct agent_thread *thread)
{
    return (uint32_t)(((uint64_t)thread - agent_parameters.threads) / WIRE_AGENT_THREAD_BYTES);
}

/* At a return to `sp`: the thread's record if it has one and is not inside. */
struct agent_thread *agent_thread_come_back(uint64_t thread_pointer, uint64_t sp);
/* For a handler that interrupted the thread where its stack pointer was `sp`: the same, made if need be,
 * unless a hook is inside there. */
struct agent_thread *agent_thread_interrupt(uint64_t thread_pointer, uint64_t sp);
/* An entry at sp is inside from now on. A handler that comes before both are written may enter, leave, and so
 * leave its own words behind: both are written until both stand. One that comes later does not enter. */
static inline void agent_thread_go_inside(struct agent_thread *thread, uint64_t sp,
                                          enum wire_agent_inside how)
{
    do {
        __atomic_store_n(&thread->shared.entered_sp, sp, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        __atomic_store_n(&thread->shared.inside, how, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } while (__builtin_expect(__atomic_load_n(&thread->shared.entered_sp, __ATOMIC_RELAXED) != sp ||
                                  __atomic_load_n(&thread->shared.inside, __ATOMIC_RELAXED) != how,
                              0));
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
static inline void agent_thread_leave(struct agent_thread *thread)
{
    __atomic_store_n(&thread->shared.inside, WIRE_AGENT_OUTSIDE, __ATOMIC_RELEASE);
}

/* For a wrapper that calls the function without a record, in a process that is counted: true where it has
 * said so, since no record does, and is due to say when it has come back. */
bool agent_thread_begin_unrecorded(const struct agent_frame *frame);
void agent_thread_end_unrecorded(void);

/* The record when it is there, in a process that is counted; NULL: ask agent_thread_of. */
static inline struct agent_thread *agent_thread_quick(uint64_t thread_pointer)
{
    const uint32_t *alive = (const uint32_t *)agent_parameters.alive;
    if (__builtin_expect(__atomic_load_n(alive, __ATOMIC_ACQUIRE) != AGENT_ALIVE, 0))
        return NULL;
    uint64_t process = agent_parameters.process;
    if (__builtin_expect(process == (uint64_t)agent_process_inert, 0))
        return NULL; /* since a moment ago, perhaps: a child that its first hook found to have no region */
    const uint64_t *places = (const uint64_t *)(process + WIRE_AGENT_PLACES_AT);
    uint64_t word = __atomic_load_n(&places[agent_thread_home(thread_pointer)], __ATOMIC_RELAXED);
    if (__builtin_expect(word >> 16 != thread_pointer || (word & UINT16_MAX) >= agent_thread_mapped(), 0))
        return NULL;
    struct agent_thread *thread = agent_thread_at(word & UINT16_MAX);
    return __builtin_expect(thread->shared.key == thread_pointer, 1) ? thread : NULL;
}
/* The thread's record when this is its outermost entry; NULL: the event is not counted, no leave is due. */
struct agent_thread *agent_thread_enter_any(const struct agent_frame *frame);
/* The same for a wrapper that is inside in the usual way: quick where nothing is unusual. */
static inline struct agent_thread *agent_thread_enter(const struct agent_frame *frame)
{
    struct agent_thread *thread = frame->thread != 0 ? agent_thread_quick(frame->thread) : NULL;
    if (__builtin_expect(thread == NULL || thread->shared.inside != WIRE_AGENT_OUTSIDE, 0))
        return agent_thread_enter_any(frame);
    agent_thread_go_inside(thread, (uint64_t)(&frame->return_address + 1), WIRE_AGENT_INSIDE);
    return thread;
}
/* The thread's record, claimed if need be, whoever is inside; NULL: there is none left. */
struct agent_thread *agent_thread_of(uint64_t thread_pointer);

/* Before system calls are forbidden: records how far this stack is readable in both directions, which cannot
 * be found out later. */
void agent_thread_survey(void);
/* In a fork's child, while it has its parent's records: what is known of its stack, where nothing can be
 * found out of it any more. */
void agent_thread_inherit(void);

/* The thread pointer; 0: there is none yet. For entries that may come that early. */
uint64_t agent_thread_pointer(void);

#endif
