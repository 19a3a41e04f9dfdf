/* The heap: one wrapper per shape of function. Names that share a shape share a wrapper; wire_agent_entry.h
 * has the list.
 *
 * Order matters. A release is recorded before the body runs, an allocation after it: between the two the
 * address is nobody's, so another thread that is given it at once finds no old record. realloc is both, and
 * when it fails the release is taken back. A wrapper passes on more arguments than its function has; that
 * harms nobody.
 *
 * An operator new that may throw is not called: its allocator's way of allocating without throwing is
 * (layer.plain_new), and when that returns NULL the entry jumps to the body, which throws from where the
 * program called it. */
#include "agent_cell.h"
#include "agent_heap_block.h"
#include "agent_heap_empty.h"
#include "agent_heap_sample.h"
#include "agent_layer.h"
#include "agent_pending.h"
#include "agent_stack.h"
#include "agent_thread.h"
#include "wire_agent_block.h"
#include "wire_agent_entry.h"

typedef uint64_t body_function(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/* As a body takes them. */
struct arguments {
    uint64_t a, b, c;
};

/* --- in and out; between them and the body the clock of functions that are timed stands still --- */

static inline struct agent_thread *enter_heap(const struct agent_frame *frame)
{
    struct agent_thread *thread = agent_thread_enter(frame);
    if (thread != NULL)
        agent_pending_pause(thread);
    return thread;
}

static __attribute__((noinline)) uint64_t call_uncounted(const struct agent_frame *frame,
                                                         struct arguments given)
{
    bool unrecorded = agent_thread_begin_unrecorded(frame);
    uint64_t result = ((body_function *)frame->hook->body)(given.a, given.b, given.c, 0);
    if (unrecorded)
        agent_thread_end_unrecorded();
    return result;
}

static inline uint64_t call_counted(struct agent_thread *thread, uint64_t body, struct arguments given)
{
    agent_pending_resume(thread);
    uint64_t result = ((body_function *)body)(given.a, given.b, given.c, 0);
    agent_pending_pause(thread);
    return result;
}

/* `thread` NULL: nothing is counted. */
static inline uint64_t call_body(struct agent_thread *thread, const struct agent_frame *frame,
                                 struct arguments given)
{
    return __builtin_expect(thread != NULL, 1) ? call_counted(thread, frame->hook->body, given)
                                               : call_uncounted(frame, given);
}

static inline void leave_heap(struct agent_thread *thread)
{
    agent_pending_resume(thread);
    agent_thread_leave(thread);
}

/* --- sizes --- */

/* The allocator that may be asked for the sizes of the blocks that the function gives; NULL: none. The C
 * library's reallocarray calls whatever realloc there is: the block may be another allocator's, and to ask a
 * wrong one may end the program. */
static const struct wire_agent_layer *sizes_of(const struct agent_frame *frame)
{
    const struct wire_agent_layer *layer = agent_layer_of(frame);
    bool elsewhere = (frame->hook->cookie & 255) == WIRE_AGENT_ENTRY_REALLOCARRAY;
    return layer == NULL || layer->usable_size == 0 || (elsewhere && !layer->alone) ? NULL : layer;
}

static uint64_t usable_size(const struct wire_agent_layer *layer, uint64_t block)
{
    return ((body_function *)layer->usable_size)(block, 0, 0, 0);
}

static uint64_t taken_size(const struct wire_agent_layer *layer, uint64_t block)
{
    uint64_t usable = usable_size(layer, block);
    bool is_mapped = layer->mapped_bytes != 0 && (((const uint64_t *)block)[-1] & 2) != 0;
    return usable + layer->header_bytes + (is_mapped ? layer->mapped_bytes : 0);
}

#define NOT_COUNTED UINT64_MAX

/* What the block is counted as (--heap-overhead). */
static uint64_t counted_size(const struct agent_frame *frame, uint64_t block, uint64_t requested)
{
    uint32_t flags = agent_control()->flags & (WIRE_AGENT_INCLUDE | WIRE_AGENT_DELTA);
    if (__builtin_expect(flags == 0, 1))
        return requested;
    if (!__atomic_load_n(&agent_process()->layers_known, __ATOMIC_ACQUIRE))
        return NOT_COUNTED; /* tally has come this moment */
    const struct wire_agent_layer *layer = sizes_of(frame);
    uint64_t taken = layer != NULL ? taken_size(layer, block) : requested;
    if (flags & WIRE_AGENT_INCLUDE)
        return taken;
    return taken > requested ? taken - requested : 0;
}

/* A sample's 1/p blocks as a whole number, up or down by the address: the same when the block is released. */
static uint64_t whole_count(uint64_t count, uint64_t address)
{
    return (count + ((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48)) / WIRE_AGENT_SCALE;
}

static __attribute__((noinline)) struct agent_amount
amount_of_sample(struct agent_thread *thread, struct agent_heap_block block, uint64_t address, uint64_t mean)
{
    if (mean != 0)
        return agent_heap_sample_amount(thread, block.size, mean);
    struct agent_amount amount =
        agent_heap_sample_amount(thread, block.size, wire_agent_level_bytes(block.level));
    amount.count = whole_count(amount.count, address);
    amount.variance <<= 4 * (block.level - 1); /* in units of level 1 */
    return amount;
}

/* What a block that has a place stands for. */
static inline struct agent_amount amount_of(struct agent_thread *thread, struct agent_heap_block block,
                                            uint64_t address)
{
    uint64_t mean = agent_control()->sample_bytes;
    if (__builtin_expect(mean != 0 || block.level != 0, 0))
        return amount_of_sample(thread, block, address, mean);
    return (struct agent_amount){block.size, 1, block.size, 0};
}

/* The tables are full: most blocks only pass, and samples stand for them. Whether a block is a sample is
 * drawn once, even if it then finds no slot: drawing again would depend on how full the tables are. */
static void count_allocation_past_ceiling(struct agent_thread *thread, uint64_t address,
                                          struct agent_heap_block block)
{
    bool hit = agent_heap_sample_hits(thread, block.size, wire_agent_level_bytes(block.level));
    if (!hit || !agent_heap_block_insert(address, block)) {
        agent_lose(hit ? WIRE_AGENT_LOSS_NO_BLOCK : WIRE_AGENT_LOSS_SAMPLED);
        agent_cell_pass(thread, block.cell, block.size);
        return;
    }
    struct agent_amount amount = amount_of(thread, block, address);
    agent_cell_add(thread, block.cell, (struct agent_amount){block.size, 1, block.size, amount.variance});
    amount = (struct agent_amount){amount.bytes - block.size, amount.count - 1, 0, 0};
    agent_cell_restore(thread, block.cell, amount, false); /* it stands for so many more */
}

static __attribute__((noinline)) void count_allocation(struct agent_thread *thread,
                                                       const struct agent_frame *frame, uint64_t block,
                                                       uint64_t requested)
{
    uint64_t size = counted_size(frame, block, requested), mean = agent_control()->sample_bytes;
    thread->last_block = block;
    if (__builtin_expect(size == NOT_COUNTED, 0))
        return;
    if (mean != 0 && !agent_heap_sample_hits(thread, size, mean))
        return;
    agent_heap_block_expect(block);
    uint32_t cell = agent_stack_cell(thread, frame, WIRE_AGENT_HEAP);
    if (__builtin_expect(cell == 0, 0)) {
        agent_lose(WIRE_AGENT_LOSS_NO_CELL);
        return;
    }
    struct agent_heap_block fresh = {size, cell, __atomic_load_n(&agent_process()->level, __ATOMIC_RELAXED)};
    bool known = fresh.level == 0 && agent_heap_block_insert(block, fresh);
    if (__builtin_expect(known, 1)) {
        if (mean != 0)
            agent_heap_sample_mark(block, true);
        agent_cell_add(thread, cell, amount_of(thread, fresh, block));
        return;
    }
    fresh.level = __atomic_load_n(&agent_process()->level, __ATOMIC_RELAXED);
    if (fresh.level != 0) {
        count_allocation_past_ceiling(thread, block, fresh);
        return;
    }
    struct agent_amount amount = amount_of(thread, fresh, block);
    agent_lose(WIRE_AGENT_LOSS_NO_BLOCK);
    agent_cell_add(thread, cell, amount);
    agent_cell_release(thread, cell, amount, false);
}

/* What was released, to be taken back if it was not. */
struct release {
    struct agent_heap_block block;
    uint64_t empty;
    bool known, temporary;
};

static inline __attribute__((always_inline)) struct release count_block_release(struct agent_thread *thread,
                                                                                uint64_t block)
{
    struct release release = {{0, 0, 0}, 0, false, false};
    release.known = agent_heap_block_remove(block, &release.block);
    if (!release.known) {
        if (agent_control()->sample_bytes == 0)
            agent_lose(WIRE_AGENT_LOSS_UNKNOWN_FREE);
        return release;
    }
    if (agent_control()->sample_bytes != 0)
        agent_heap_sample_mark(block, false);
    release.temporary = thread->last_block == block;
    struct agent_amount amount = amount_of(thread, release.block, block);
    if (__builtin_expect(agent_heap_empty_asked(), 0)) {
        release.empty = agent_heap_empty_bytes(block, release.block.size) * amount.count;
        agent_cell_empty(release.block.cell, release.empty);
    }
    agent_cell_release(thread, release.block.cell, amount, release.temporary);
    return release;
}

static void take_release_back(struct agent_thread *thread, uint64_t block, const struct release *release)
{
    if (!release->known || !agent_heap_block_insert(block, release->block))
        return;
    if (agent_control()->sample_bytes != 0)
        agent_heap_sample_mark(block, true);
    agent_cell_empty(release->block.cell, -release->empty);
    agent_cell_restore(thread, release->block.cell, amount_of(thread, release->block, block),
                       release->temporary);
}

uint64_t agent_wrap_malloc(const struct agent_frame *frame, uint64_t size, uint64_t b, uint64_t c);
uint64_t agent_wrap_calloc(const struct agent_frame *frame, uint64_t count, uint64_t size);
uint64_t agent_wrap_realloc(const struct agent_frame *frame, uint64_t block, uint64_t size);
uint64_t agent_wrap_reallocarray(const struct agent_frame *frame, uint64_t block, uint64_t count,
                                 uint64_t size);
uint64_t agent_wrap_free(const struct agent_frame *frame, uint64_t block, uint64_t b, uint64_t c);
uint64_t agent_wrap_aligned(const struct agent_frame *frame, uint64_t alignment, uint64_t size, uint64_t c);
uint64_t agent_wrap_posix_memalign(const struct agent_frame *frame, uint64_t result, uint64_t alignment,
                                   uint64_t size);
uint64_t agent_wrap_pool_calloc(const struct agent_frame *frame, uint64_t pool, uint64_t count,
                                uint64_t size);
uint64_t agent_wrap_pool_realloc(const struct agent_frame *frame, uint64_t pool, uint64_t block,
                                 uint64_t size);
uint64_t agent_wrap_pool_free(const struct agent_frame *frame, uint64_t pool, uint64_t block, uint64_t c);
uint64_t agent_wrap_new(const struct agent_frame *frame, uint64_t size, uint64_t b, uint64_t c);

static inline __attribute__((always_inline)) uint64_t
finish_allocation(struct agent_thread *thread, const struct agent_frame *frame, uint64_t block, uint64_t size)
{
    if (thread != NULL) {
        if (block != 0)
            count_allocation(thread, frame, block, size);
        leave_heap(thread);
    }
    return block;
}

/* Of a block whose contents nobody was promised. */
static inline __attribute__((always_inline)) uint64_t finish_fresh_allocation(struct agent_thread *thread,
                                                                              const struct agent_frame *frame,
                                                                              uint64_t block, uint64_t size)
{
    if (thread != NULL && block != 0 && agent_heap_empty_fills())
        agent_heap_empty_fill(block, block + size);
    return finish_allocation(thread, frame, block, size);
}

uint64_t agent_wrap_malloc(const struct agent_frame *frame, uint64_t size, uint64_t b, uint64_t c)
{
    struct agent_thread *thread = enter_heap(frame);
    return finish_fresh_allocation(thread, frame, call_body(thread, frame, (struct arguments){size, b, c}),
                                   size);
}

uint64_t agent_wrap_calloc(const struct agent_frame *frame, uint64_t count, uint64_t size)
{
    struct agent_thread *thread = enter_heap(frame);
    return finish_allocation(thread, frame, call_body(thread, frame, (struct arguments){count, size, 0}),
                             count * size);
}

uint64_t agent_wrap_aligned(const struct agent_frame *frame, uint64_t alignment, uint64_t size, uint64_t c)
{
    struct agent_thread *thread = enter_heap(frame);
    return finish_fresh_allocation(thread, frame,
                                   call_body(thread, frame, (struct arguments){alignment, size, c}), size);
}

uint64_t agent_wrap_posix_memalign(const struct agent_frame *frame, uint64_t result, uint64_t alignment,
                                   uint64_t size)
{
    struct agent_thread *thread = enter_heap(frame);
    uint64_t failed = call_body(thread, frame, (struct arguments){result, alignment, size});
    finish_fresh_allocation(thread, frame, (uint32_t)failed == 0 ? *(const uint64_t *)result : 0, size);
    return failed;
}

/* How many bytes a resized block keeps, and what comes behind them may be filled; UINT64_MAX: nothing is to
 * be. */
static uint64_t kept_size(const struct agent_frame *frame, uint64_t block)
{
    if (!agent_heap_empty_fills())
        return UINT64_MAX;
    if (block == 0)
        return 0;
    const struct wire_agent_layer *layer = sizes_of(frame);
    return layer != NULL ? usable_size(layer, block) : UINT64_MAX;
}

static uint64_t reallocate_block(const struct agent_frame *frame, struct arguments given, uint64_t block,
                                 uint64_t size)
{
    struct agent_thread *thread = enter_heap(frame);
    if (thread == NULL)
        return call_uncounted(frame, given);
    uint64_t last = thread->last_block, kept = kept_size(frame, block);
    struct release release = {{0, 0, 0}, 0, false, false};
    /* Before the body: from then on the old address may be another thread's. */
    if (block != 0)
        release = count_block_release(thread, block);
    uint64_t result = call_body(thread, frame, given);
    if (result == 0 && size != 0) {
        take_release_back(thread, block, &release);
        thread->last_block = last;
    }
    if (result != 0 && kept < size)
        agent_heap_empty_fill(result + kept, result + size);
    return finish_allocation(thread, frame, result, size);
}

uint64_t agent_wrap_realloc(const struct agent_frame *frame, uint64_t block, uint64_t size)
{
    return reallocate_block(frame, (struct arguments){block, size, 0}, block, size);
}

/* A product that overflows makes the body fail; whatever it is, it is not 0 then. */
uint64_t agent_wrap_reallocarray(const struct agent_frame *frame, uint64_t block, uint64_t count,
                                 uint64_t size)
{
    uint64_t bytes;
    bool overflows = __builtin_mul_overflow(count, size, &bytes);
    return reallocate_block(frame, (struct arguments){block, count, size}, block,
                            overflows ? UINT64_MAX : bytes);
}

static uint64_t release_by(const struct agent_frame *frame, struct arguments given, uint64_t block)
{
    struct agent_thread *thread = enter_heap(frame);
    if (thread != NULL && block != 0)
        count_block_release(thread, block);
    uint64_t result = call_body(thread, frame, given);
    if (thread != NULL)
        leave_heap(thread);
    return result;
}

uint64_t agent_wrap_free(const struct agent_frame *frame, uint64_t block, uint64_t b, uint64_t c)
{
    return release_by(frame, (struct arguments){block, b, c}, block);
}

/* Functions of --alloc-functions that take something before the usual arguments. */
uint64_t agent_wrap_pool_calloc(const struct agent_frame *frame, uint64_t pool, uint64_t count, uint64_t size)
{
    struct agent_thread *thread = enter_heap(frame);
    return finish_allocation(thread, frame, call_body(thread, frame, (struct arguments){pool, count, size}),
                             count * size);
}

uint64_t agent_wrap_pool_realloc(const struct agent_frame *frame, uint64_t pool, uint64_t block,
                                 uint64_t size)
{
    return reallocate_block(frame, (struct arguments){pool, block, size}, block, size);
}

uint64_t agent_wrap_pool_free(const struct agent_frame *frame, uint64_t pool, uint64_t block, uint64_t c)
{
    return release_by(frame, (struct arguments){pool, block, c}, block);
}

uint64_t agent_wrap_new(const struct agent_frame *frame, uint64_t size, uint64_t b, uint64_t c)
{
    struct agent_thread *thread = enter_heap(frame);
    const struct wire_agent_layer *layer = thread != NULL ? agent_layer_of(frame) : NULL;
    uint64_t plain_new = layer != NULL ? __atomic_load_n(&layer->plain_new, __ATOMIC_RELAXED) : 0, block = 0;
    if (plain_new != 0)
        block = call_counted(thread, plain_new, (struct arguments){size, b, c});
    return finish_fresh_allocation(thread, frame, block, size);
}
