/* agent.h - what runs inside a target (inside this room only; tally sees wire_agent.h and the image).
 *
 * The agent is one position-independent image without undefined symbols, put into a process from outside. It
 * has no thread-local storage, takes no memory from the target, holds no lock that blocks, prints nothing and
 * ends nothing. It runs on the threads of a stranger, in the middle of their allocators and in their signal
 * handlers, and keeps these rules:
 *
 *   1. Hooks are wrappers. A hooked function's first bytes lead to an entry (agent_x86_64_entry.S), which
 *      saves what its caller would see, and calls the wrapper in C with the same arguments and a struct
 *      agent_frame. The wrapper calls the `body`, which is what the function was; result and errno are its
 *      own. Stacks are walked from the caller on, never through the agent.
 *   2. One thread is inside once. agent_thread_enter is the only way in, and what it returns is the proof
 *      that its caller may use the thread's record; a second entry (an allocator that calls its own
 *      functions, a signal handler that allocates) gets NULL and passes through. An entry that was left by
 *      longjmp is known by its stack pointer (agent_thread.c).
 *   3. Everything that is counted lies in the shared region (wire_agent.h), reached by indices that are
 *      checked against constants; when a part is full, that is a counted loss.
 *   4. No C++ exception may meet a frame of the agent: functions that throw are hooked so that the body that
 *      throws is jumped to.
 *
 * What changes outside the region is private to the process: agent_parameters, while it forks, when its child
 * takes a region of its own, and as parts grow; agent_returns, each of which is written once; and struct
 * wire_agent_own. Context of every function: signal, any thread of the target. */
#ifndef AGENT_H
#define AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind.h"
#include "unwind_known.h"
#include "unwind_trail.h"
#include "wire_agent.h"
#include "wire_hook.h"

/* Looked for by its name from outside: it stays in the image, as it is declared, whoever calls it. */
#define AGENT_BY_NAME __attribute__((used))

/* What the entry pushed, and above it the caller's return address. */
struct agent_frame {
    const struct wire_hook *hook;
    uint64_t thread; /* the thread pointer: fs base */
    uint64_t rbx, rbp, r12, r13, r14, r15;
    uint64_t sixth; /* argument */
    uint64_t return_address;
};

/* --- agent_process.c: the region, forks, losses --- */

extern struct wire_agent_parameters agent_parameters;

static inline struct wire_agent_process *agent_process(void)
{
    return (struct wire_agent_process *)agent_parameters.process;
}
static inline struct wire_agent_control *agent_control(void)
{
    return (struct wire_agent_control *)agent_parameters.control;
}
/* A part of the region, by its offset (wire_agent_layout). */
static inline void *agent_part(uint64_t offset)
{
    return (void *)(agent_parameters.process + offset);
}
static inline struct wire_agent_own *agent_own(void)
{
    return (struct wire_agent_own *)agent_parameters.own;
}
static inline void agent_lose(enum wire_agent_loss loss)
{
    __atomic_fetch_add(&agent_process()->losses[loss], 1, __ATOMIC_RELAXED);
}

/* --- agent_room.c: how much of each part is mapped --- */

/* Grows a part until `bytes` of it can be used. False: the kernel refuses, so the part is full for now. Waits
 * two milliseconds at most. */
bool agent_room_grow(enum wire_agent_part part, uint64_t bytes);
/* Can so many bytes of the part be used? Whoever makes an index asks; who finds one need not. */
static inline bool agent_room(enum wire_agent_part part, uint64_t bytes)
{
    return __builtin_expect(__atomic_load_n(&agent_parameters.rooms[part], __ATOMIC_ACQUIRE) >= bytes, 1) ||
           agent_room_grow(part, bytes);
}
/* Lets other threads run that make room: a tenth of a millisecond, or not at all where the program may not make
 * the call. */
void agent_room_wait(void);
/* In a fork's child, before anything is counted: shows region `number` in the place of the parent's, as
 * little of it as there is at first. False: that may not be, and the parent's head is still there. */
bool agent_room_show(uint32_t number);
/* A second view of the first `bytes` of a shared part, which stays when another region is shown; NULL:
 * none. */
const void *agent_room_view(enum wire_agent_part part, uint64_t bytes);
void agent_room_end_view(const void *view, uint64_t bytes);

/* The next of the numbers 1 .. limit - 1, of items of `size` bytes in a part; 0: none is left. */
static inline uint32_t agent_take_number(uint32_t *count, uint64_t limit, enum wire_agent_part part,
                                         uint64_t size)
{
    uint64_t next = __atomic_load_n(count, __ATOMIC_RELAXED) + UINT64_C(1);
    if (next >= limit || !agent_room(part, (next + 1) * size))
        return 0;
    uint32_t number = __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    if (number < limit)
        return agent_room(part, (number + UINT64_C(1)) * size) ? number : 0; /* then it is nobody's */
    __atomic_fetch_sub(count, 1, __ATOMIC_RELAXED);
    return 0;
}
/* Is this process one with a region of its own? A fork's child finds out here, once. */
enum agent_alive { AGENT_FORKED = 0, AGENT_ALIVE = 1, AGENT_SETTING_UP = 2 }; /* the alive page's word */
extern const uint64_t agent_process_inert[8];
bool agent_process_set_up_child(uint32_t *alive);
static inline bool agent_process_is_counted(void)
{
    uint32_t *alive = (uint32_t *)agent_parameters.alive;
    if (__builtin_expect(__atomic_load_n(alive, __ATOMIC_ACQUIRE) == AGENT_ALIVE, 1))
        return __builtin_expect(agent_parameters.process != (uint64_t)agent_process_inert, 1);
    return agent_process_set_up_child(alive);
}

/* --- agent_filter.c: what the program forbids itself --- */

#define AGENT_FUTEX_WAIT     0
#define AGENT_FUTEX_WAKE     1
#define AGENT_FUTEX_WAIT_OWN 128 /* of memory that no other process has */
#define AGENT_FUTEX_COMPARE  132 /* FUTEX_CMP_REQUEUE_PRIVATE of nobody: is the word what is said? */
#define AGENT_NO_SIGNAL      65
#define AGENT_MAKE_PAGES     23 /* MADV_POPULATE_WRITE, which old headers lack */

/* Is none of these (enum wire_agent_call) forbidden? Asked before each. */
static inline bool agent_may(uint32_t calls)
{
    return __builtin_expect((__atomic_load_n(&agent_parameters.forbidden, __ATOMIC_RELAXED) & calls) == 0, 1);
}
/* The processor's clock; 0: it may not be read. */
static inline uint64_t agent_ticks(void)
{
    return agent_may(WIRE_AGENT_CALL_TICKS) ? arch_host_ticks() : 0;
}
/* The program is about to make a system call by its number. */
void agent_filter_call(uint64_t number, uint64_t first, uint64_t second, uint64_t third);
/* May this thread read the clock? */
void agent_filter_look(void);

/* --- agent_thread.c: who is inside --- */

#define AGENT_LINKS     8192
#define AGENT_FUNCTIONS 256

/* One step of the tree that this thread took: (parent, pc) -> node. `links` is of sets of two. */
struct agent_link {
    uint64_t pc;
    uint32_t parent, node;
};

/* An instrumented function that is open: between its enter and its exit. */
struct agent_call {
    uint64_t sp;                  /* where it called the hook, behind the call */
    uint64_t function;            /* as it says itself */
    uint64_t caller;              /* where it returns to */
    uint64_t site;                /* where the hook returns to */
    struct wire_agent_cell *cell; /* NULL: there was no room for one */
    uint32_t node;                /* calls from it are below this one */
    uint32_t depth;               /* in the path */
};

/* One step of a path: (parent, site) -> node and cell. */
struct agent_step {
    uint64_t site, function;
    struct wire_agent_cell *cell;
    uint32_t parent, node, generation;
    uint32_t frame; /* bytes from sp to the end of the function's frame; 0: not known, 1: not to be had */
};

#define AGENT_CALLS 1024
#define AGENT_INNER 64
#define AGENT_STEPS 1024

/* The open calls of a thread, innermost last. */
struct agent_calls {
    uint32_t count, limit;
    uint32_t over; /* calls inside the last one that found no room */
    uint32_t zero;
    struct agent_call *items;
};

struct agent_path {
    uint64_t busy;                /* sp of the event that is being worked on; 0: none */
    uint64_t last;                /* ticks, of the last event */
    uint64_t low, high;           /* pages of its stack that were found readable */
    uint64_t unmapped;            /* process.unmapped, as it was then */
    uint64_t passed, passed_site; /* sp and site of the last event that came by a linkage stub */
    struct agent_calls calls;
    struct agent_calls inner; /* of signal handlers that interrupted an event */
    struct agent_step steps[AGENT_STEPS];
    struct agent_call items[AGENT_CALLS], inner_items[AGENT_INNER];
};

/* Of a stack that was put back while its thread was inside. */
struct agent_put_back {
    uint64_t low, high; /* high 0: none was */
    uint64_t ticks;     /* when, less agent_thread.spent */
};

/* Is the thread getting on? (agent_rest.c) */
struct agent_rest {
    uint64_t pc, sp; /* what a handler had interrupted at the last look; 0: the call was no handler's */
    uint32_t calls;  /* since then */
    uint32_t looks;  /* in a row that found the same */
    uint32_t left;   /* calls that pass */
    uint32_t zero;
};

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

/* For stacks that were met before. */
struct agent_searches {
    uint32_t count, found;
    uint32_t rest; /* stacks that are not searched for */
};

struct agent_thread {
    struct wire_agent_thread shared;
    uint64_t readable_start, readable_end; /* the pages of its stack that were found readable */
    uint64_t known_start, known_end;       /* ... when it was last to be found out (agent_stack_survey) */
    int64_t batch;                         /* of live bytes, not yet in process.live */
    uint64_t last_block;                   /* the last allocation, if nothing was allocated since */
    uint64_t random;
    int64_t until_sample;           /* bytes */
    uint64_t sample_mean;           /* of the distance that until_sample was drawn from */
    uint64_t spent, working;        /* agent_function_work: ticks of work, and since when */
    struct wire_agent_calls *calls; /* pending; NULL: no return address is replaced, as yet */
    struct agent_put_back put_back; /* of which the list does not know yet */
    struct agent_rest rest;
    uint32_t generation; /* of the modules that frames, nodes and links are of */
    uint32_t group;
    uint32_t tid_offset; /* agent_record_tid_offset; 0: not known */
    uint32_t roots[WIRE_AGENT_COLLECTORS];
    uint32_t nodes_root;                                /* of which nodes below are */
    struct unwind_frame interrupted[WIRE_AGENT_FRAMES]; /* the last stack that was sampled, innermost first */
    struct unwind_rows rows;                            /* what agent_stack.c's find tells of */
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
    struct agent_path path;                       /* agent_instrumented.c */
};
_Static_assert(WIRE_AGENT_FRAMES == UNWIND_TRAIL_FRAMES, "the deepest stack");
_Static_assert(sizeof(struct agent_thread) <= WIRE_AGENT_THREAD_BYTES, "a record's place");

/* --- agent_record.c: records --- */

#define AGENT_MAKING UINT64_C(1) /* in a record's key, until it is complete: thread pointers are even */

/* The record of that thread pointer, complete or not. `claimed` not NULL: takes one if there is none, and
 * says so; it is this thread's pointer then. NULL: there is none. */
struct agent_thread *agent_record_find(uint64_t key, bool *claimed);
/* Bytes from this thread's pointer to where the C library keeps its number; 0: nowhere that is found. */
uint32_t agent_record_tid_offset(uint64_t key, uint32_t tid);

/* The thread's record when this is its outermost entry; NULL: the event is not counted, no leave is due. */
struct agent_thread *agent_thread_enter(const struct agent_frame *frame);
/* For a wrapper that calls the function without a record, in a process that is counted: true where it has
 * said so, since no record does, and is due to say when it has come back. */
bool agent_thread_begin_unrecorded(const struct agent_frame *frame);
void agent_thread_end_unrecorded(void);
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
    if (__builtin_expect(word >> 16 != thread_pointer, 0))
        return NULL;
    struct agent_thread *thread = agent_thread_at(word & UINT16_MAX);
    return __builtin_expect(thread->shared.key == thread_pointer, 1) ? thread : NULL;
}

/* The thread's record, claimed if need be, whoever is inside; NULL: there is no room. */
struct agent_thread *agent_thread_of(uint64_t thread_pointer);
/* An entry at sp is inside from now on. A handler that comes before both are written may enter itself, and
 * leaves its own behind; one that comes later does not. */
void agent_thread_go_inside(struct agent_thread *thread, uint64_t sp, enum wire_agent_inside how);
/* At a return to `sp`: the thread's record if it has one and is not inside. */
struct agent_thread *agent_thread_come_back(uint64_t thread_pointer, uint64_t sp);
static inline void agent_thread_leave(struct agent_thread *thread)
{
    __atomic_store_n(&thread->shared.inside, WIRE_AGENT_OUTSIDE, __ATOMIC_RELEASE);
}

/* For a handler that interrupted the thread where its stack pointer was `sp`: the same, unless a hook is
 * inside there. */
struct agent_thread *agent_thread_interrupt(uint64_t thread_pointer, uint64_t sp);

/* The record's list of pending calls, where there was no room for it: if there is now, it has one. */
void agent_thread_find_calls(struct agent_thread *thread);

/* In a fork's child, while it has its parent's records: what is known of its stack, where nothing can be
 * found out of it any more. */
void agent_thread_inherit(void);

/* The thread pointer; 0: there is none yet. For entries that may come that early. */
uint64_t agent_thread_pointer(void);

/* --- agent_stack.c: walking, agent_node.c: interning --- */

struct agent_window { /* the part of the live stack that can be read: from sp up */
    uint64_t low, high;
};

/* The node of the caller's stack under the collector's root; 0: no room for any. */
uint32_t agent_stack_node(struct agent_thread *thread, const struct agent_frame *frame,
                          enum wire_agent_collector collector);
/* The node of what a signal interrupted; `context` is the handler's third argument. */
uint32_t agent_stack_interrupted(struct agent_thread *thread, const void *context,
                                 enum wire_agent_collector collector);
/* The stack pointer there. */
uint64_t agent_stack_pointer(const void *context);
/* What called the present entry, an older one being inside. Uses no record. */
enum agent_beneath {
    AGENT_BENEATH_NOTHING, /* of ours, on the whole stack: the older one was left by a jump */
    AGENT_BENEATH_HANDLER, /* a signal's handler, which interrupted it */
    AGENT_BENEATH_HOOK,    /* a function that it called; or the stack's end is not seen */
};
enum agent_beneath agent_stack_beneath(const struct agent_frame *frame);
/* The module of an address: false when there is none, or nothing describes the code there. */
bool agent_stack_module(uint64_t address, struct wire_agent_module *module);
/* From the caller's sp outwards, as far as a walk gets. True: it got to the end. Of the record only the cache
 * is used; `thread` NULL: nobody entered it, nor is that. */
bool agent_stack_window(struct agent_thread *thread, const struct agent_frame *frame,
                        struct agent_window *window);
/* Can the page that the address is in be read? False, too, where it may not be found out. */
bool agent_stack_is_readable(uint64_t address);
/* How far the stack goes in both directions is about to be the last thing that can be found out of it. */
void agent_stack_survey(void);
/* Can be said how far the stack goes on which `sp` is? */
bool agent_stack_is_known(const struct agent_thread *thread, uint64_t sp);

/* The child of `parent` for this frame, made if need be; 0: no room. */
uint32_t agent_node_child(uint32_t parent, uint64_t pc, uint32_t cookie, uint32_t flags);
static inline struct wire_agent_node *agent_node_at(uint32_t node)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    return (struct wire_agent_node *)agent_part(layout.nodes) + node;
}

/* --- agent_return.c: return addresses that are replaced --- */

extern const uint8_t agent_return_blocks[];        /* code: agent_x86_64_return.S */
extern uint64_t agent_returns[WIRE_AGENT_RETURNS]; /* the real ones, by block; 0: free */

/* The real return address, when the word is one of ours; else the word. */
static inline uint64_t agent_return_real(uint64_t word)
{
    return wire_agent_return((uint64_t)agent_return_blocks, agent_returns, word);
}
/* The block that leads back to a return address; 0: there is none left, or the address is none that may be
 * replaced. */
uint64_t agent_return_block(uint64_t address);
/* In a fork's child: its region has what its parent's had. */
void agent_return_tell(void);
#define AGENT_STACK_MOST (UINT64_C(64) << 20) /* the largest stack that is looked through for them */
/* Puts the real ones back, the frame's own and those in the stack of its caller; to what address it was done.
 * `most`: the highest slot that is known of on this stack, 0: none. `thread`: as above. */
uint64_t agent_return_put_back(struct agent_thread *thread, const struct agent_frame *frame, uint64_t most);

/* --- agent_function.c: calls whose return is to be seen --- */

/* A call that the frame begins is pending. What to put in the place of its return address; 0: nothing, and
 * *seen false: its return will not be seen. */
uint64_t agent_function_await(struct agent_thread *thread, const struct agent_frame *frame,
                              const struct wire_agent_pending *call, bool *seen);

/* Nobody hooks what unwinds any more: no word of ours stays on the stack of the frame's caller, no call of
 * its thread is pending. */
void agent_function_abandon(const struct agent_frame *frame);

/* The record's thread has ended: what was pending is forgotten, and counted. */
void agent_function_forget(struct agent_thread *thread);

/* The wrapper's own work begins, or ends, in a thread that is inside: the time of calls that are pending
 * stands still between the two. */
static inline void agent_function_work(struct agent_thread *thread)
{
    if (__builtin_expect(thread->calls != NULL, 0))
        thread->working = thread->calls->count != 0 ? agent_ticks() : 0;
}
static inline void agent_function_rest(struct agent_thread *thread)
{
    if (__builtin_expect(thread->working != 0, 0)) {
        thread->spent += agent_ticks() - thread->working;
        thread->working = 0;
    }
}

/* In a fork's child: what is pending are its parent's calls, whose returns are nobody's; where they stand is
 * remembered. */
void agent_function_inherit(void);

/* --- agent_descriptor.c: what is open --- */

/* A pending call that may open descriptors has returned. */
void agent_descriptor_returned(struct agent_thread *thread, const struct wire_agent_pending *call,
                               uint64_t result);
/* Bytes of the part of descriptors, all that are known among them. 0: it is not used. */
uint64_t agent_descriptor_room(void);
/* In a fork's child, whose region is new: what its parent had; `descriptors`: the parent's part, NULL:
 * none. */
void agent_descriptor_inherit(struct wire_agent_process *child, const struct wire_agent_process *parent,
                              const void *descriptors);

/* --- agent_cell.c: figures --- */

/* The node's cell, made if need be; 0: no room. */
uint32_t agent_cell_make(uint32_t node, uint32_t group);
static inline uint32_t agent_cell_of(uint32_t node, uint32_t group)
{
    uint32_t there = __atomic_load_n(&agent_node_at(node)->cell, __ATOMIC_ACQUIRE);
    return __builtin_expect(there != 0, 1) ? there : agent_cell_make(node, group);
}
/* One more allocation of `size`, standing for `count` of them with `bytes` in all. */
void agent_cell_add(struct agent_thread *thread, uint32_t cell, struct agent_amount amount);
void agent_cell_release(struct agent_thread *thread, uint32_t cell, struct agent_amount amount,
                        bool temporary);
/* So many bytes of pages were found empty; taken back by their negative. */
void agent_cell_empty(uint32_t cell, uint64_t bytes);
/* One more that will not be known when it is released: as if it were at once. */
void agent_cell_pass(const struct agent_thread *thread, uint32_t cell, uint64_t size);
static inline struct wire_agent_cell *agent_cell_at(uint32_t cell)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    return (struct wire_agent_cell *)agent_part(layout.cells) + cell;
}
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
/* A release that did not happen after all (realloc failed). */
void agent_cell_restore(struct agent_thread *thread, uint32_t cell, struct agent_amount amount,
                        bool temporary);

/* --- agent_latency.c: histograms --- */

/* A call of the cell's function took so long, with all that it called. */
void agent_latency_add(const struct agent_thread *thread, uint32_t cell, uint64_t ticks);

/* --- agent_block.c: live blocks --- */

struct agent_block {
    uint64_t size;
    uint32_t cell;
    uint32_t level; /* that it was sampled at (wire_agent.h) */
};
/* Fetches what one of the following will need: the tables are far larger than caches, and work can be done
 * meanwhile. */
void agent_block_expect(uint64_t address);
/* False: no room. The process's level rises before there is none. */
bool agent_block_insert(uint64_t address, struct agent_block block);
/* False: not known. */
bool agent_block_remove(uint64_t address, struct agent_block *block);

/* --- agent_range.c: mapped memory --- */

/* Numbers order what happens. Those that are drawn later are larger. */
uint64_t agent_range_number(void);
/* [start, end) was mapped, and is counted in the cell. */
void agent_range_add(uint64_t start, uint64_t end, uint32_t cell);
/* It was unmapped, by a call before which `number` was drawn. */
void agent_range_remove(uint64_t start, uint64_t end, uint64_t number);

/* --- agent_heap.c --- */

/* Is the address within an allocator that is hooked: a call from there is its own affair. */
bool agent_heap_is_inner(uint64_t address);

/* --- agent_empty.c: pages of blocks that nobody made use of --- */

/* Bytes of the whole pages in the block that are empty; 0 when nobody asked. The block is the caller's. */
uint64_t agent_empty_bytes(uint64_t block, uint64_t size);
/* Are fresh blocks to be filled? */
bool agent_empty_fills(void);
/* [from, to) with the pattern. */
void agent_empty_fill(uint64_t from, uint64_t to);

/* --- agent_sample.c: Poisson samples of bytes --- */

/* Is one of the next `size` bytes a sample? */
bool agent_sample_hits(struct agent_thread *thread, uint64_t size, uint64_t mean);
/* What a sampled block of this size stands for. */
struct agent_amount agent_sample_amount(struct agent_thread *thread, uint64_t size, uint64_t mean);
/* A block that is a sample has come, or goes: entries that let others pass (agent_x86_64_pass.S) know it. */
void agent_sample_mark(uint64_t address, bool lives);

/* What a wrapper behind enter_or_answer (agent_x86_64_entry.S) says, in rax and rdx: it was handled, and then
 * the answer; else the body is jumped to, and nothing of ours is on the stack. */
struct agent_answer {
    uint64_t handled, result;
};

/* --- agent_timer.c: samples of time --- */

/* Is time sampled in this process, and is this it, not a vfork's child in its memory? */
bool agent_timer_is_on(void);
/* This thread gets a timer, unless it has one. */
AGENT_BY_NAME void agent_timer_begin(void);
/* This thread blocks the signal from now on, or does no more. */
void agent_timer_rest(bool blocked);
/* This thread has no samples any more. */
void agent_timer_stop(void);
/* Where agent_timer_is_on: no timers any more, in no thread; the signal is as if there had been none.
 * CLAIMED: tally may make new ones with the other signal. OVER: it may not. `handled`: the caller sets a
 * handler of the program's next. True: a signal waits for that, so that ours is still there to be
 * replaced. */
bool agent_timer_end_all(enum wire_agent_timing end, bool handled);
/* OVER, whether there are timers now or not; may be called anywhere. */
void agent_timer_end_for_good(void);
/* A new child's region: whether it is timed, and by which signal, as it has been born with it. */
void agent_timer_inherit(struct wire_agent_process *child, const struct wire_agent_process *parent);
/* The program has a use for the other signal, or a thread that is to have no timer: they are not to move. */
void agent_timer_stay(void);

/* --- agent_watch.c --- */

struct agent_signal_stack { /* the kernel's stack_t */
    uint64_t start;
    uint32_t flags, zero;
    uint64_t size;
};
/* Is there a stack for signals, and no room on it for the timers' handler? */
bool agent_watch_is_small(const struct agent_signal_stack *stack);

/* --- agent_call.c: what becomes of a system call where a sample was taken; `context` is the handler's third
 * argument --- */

/* Has one just ended with EINTR there, and no other signal is to be seen that did it? */
AGENT_BY_NAME bool agent_call_was_ended(const void *context);
/* One that would begin anew ends, if the handler that runs next wants that. */
AGENT_BY_NAME void agent_call_settle(void *context);
/* Lets in whom one waited for by a signal mask of its own. Their handlers run in here, and may jump out. */
AGENT_BY_NAME void agent_call_let_in(const void *context);

/* The signals that wait, one bit each, since they are blocked. */
uint64_t agent_call_pending(void);

/* --- agent_rest.c: threads that signals keep from getting on --- */

#define AGENT_REST_LOOK 256 /* calls, from one look to the next */

/* One more call was counted, for which the stack was walked. */
void agent_rest_look(struct agent_thread *thread);
static inline void agent_rest_count(struct agent_thread *thread)
{
    if (__builtin_expect(++thread->rest.calls >= AGENT_REST_LOOK, 0))
        agent_rest_look(thread);
}
/* Does the thread rest? Then so does its call: a loss. */
static inline bool agent_rest_takes(struct agent_thread *thread)
{
    if (__builtin_expect(thread->rest.left == 0, 1))
        return false;
    thread->rest.left--;
    agent_lose(WIRE_AGENT_LOSS_RESTED);
    return true;
}

/* --- agent_bell.c: requests to tally --- */

/* Waits for the answer, if `wait`: control.patience_ms after the last sign of life of tally's,
 * WIRE_AGENT_PATIENCE_MOST times that in all. False: there was none, or nobody was asked. */
bool agent_bell_ring(enum wire_agent_request request, bool wait);

#endif
