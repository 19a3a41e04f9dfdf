#include "space_threads.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "proc_maps.h"
#include "space_memory.h"

/* A pool is as large as what created threads use up before tally is notified of them (helper_serve.c reports
 * 64 together). */
enum { POOL_LEAST = 16, POOL_MOST = 256, CHUNK_LEAST = 32, CHUNK_MOST = 4096 };

#define LOW_END  0x7ff00000ull /* displacements are signed 32-bit numbers */
#define LOW_FROM 0x01000000ull

/* The highest free range of a block's size below 2 GiB: programs that are linked to fixed addresses, and
 * their heaps, grow from below. */
static uint64_t find_low(const struct proc_maps *maps)
{
    uint64_t end = LOW_END;
    for (size_t i = maps->count; i-- > 0;) {
        const struct proc_mapping *mapping = &maps->items[i];
        if (mapping->start >= LOW_END)
            continue;
        if (mapping->end <= end && end - mapping->end >= SLAB_BLOCK_SIZE)
            break;
        end = mapping->start < end ? mapping->start : end;
    }
    uint64_t at = end > SLAB_BLOCK_SIZE ? (end - SLAB_BLOCK_SIZE) & ~0xfffull : 0;
    return at >= LOW_FROM ? at : 0;
}

static int map_fallback(struct space *space, struct space_session *session, struct base_error *error)
{
    struct proc_maps maps = {0};
    struct space_memory memory;
    int result = proc_maps_read(space->pid, &maps, error);
    if (result < 0)
        return result;
    struct helper_room room = {.low = find_low(&maps), .size = SLAB_BLOCK_SIZE};
    proc_maps_free(&maps);
    if (!room.low)
        return base_fail(
            error, BASE_EUNSUPPORTED,
            "process %d has no %llu MiB free below 2 GiB, where counters of threads without a gs base go",
            space->pid, SLAB_BLOCK_SIZE >> 20);
    result = space_memory_counters(space, session, room, &memory, error);
    if (result < 0)
        return result;
    space->fallback = (struct slab_block){.file = memory.file, .address = memory.address};
    result = slab_block_init(&space->fallback, space_memory_made(space), error);
    if (result == BASE_OK)
        space->gs_offset = memory.address;
    return result;
}

/* Beside the first arena: anywhere would do. */
static int add_chunk(struct space *space, struct space_session *session, size_t count,
                     struct base_error *error)
{
    struct space_memory memory;
    struct proc_maps maps = {0};
    struct helper_room room = {.size = count * SLAB_BLOCK_SIZE};
    int result = proc_maps_read(space->pid, &maps, error);
    if (result < 0)
        return result;
    for (size_t i = maps.count; i-- > 1 && !room.low;) { /* below what lies highest, where there is room */
        uint64_t gap = maps.items[i].start - maps.items[i - 1].end;
        if (maps.items[i].start < 1ull << 47 && gap > 2 * room.size + (1ull << 32))
            room.low = (maps.items[i - 1].end + gap / 2) & ~0xfffull;
    }
    proc_maps_free(&maps);
    if (!room.low)
        return base_fail(error, BASE_EUNSUPPORTED, "process %d has no room for the counters of its threads",
                         space->pid);
    result = space_memory_counters(space, session, room, &memory, error);
    for (size_t i = 0; i < count && result == BASE_OK; i++) {
        struct space_thread thread = {.block = {.file = memory.file,
                                                .offset = i * SLAB_BLOCK_SIZE,
                                                .address = memory.address + i * SLAB_BLOCK_SIZE}};
        if (!base_array_room(space->threads, space->thread_count, space->thread_capacity) ||
            !base_map_set(&space->thread_blocks, thread.block.address, (uint32_t)space->thread_count))
            return base_fail(error, BASE_ENOMEM, "out of memory");
        space->threads[space->thread_count++] = thread;
        space->thread_states[SPACE_FREE]++;
    }
    return result;
}

int space_threads_index(struct space *space, struct base_error *error)
{
    bool room = true;
    space->thread_blocks = space->thread_assigned = (struct base_map){0};
    for (size_t i = 0; i < space->thread_count && room; i++)
        room = base_map_set(&space->thread_blocks, space->threads[i].block.address, (uint32_t)i);
    memset(space->thread_states, 0, sizeof space->thread_states);
    space->thread_states[SPACE_FREE] = space->thread_count;
    space->first_free = 0;
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

void space_threads_set(struct space *space, struct space_thread *thread, enum space_thread_state state)
{
    size_t index = (size_t)(thread - space->threads);
    space->thread_states[thread->state]--;
    space->thread_states[state]++;
    thread->state = state;
    if (state == SPACE_FREE && index < space->first_free)
        space->first_free = index;
}

/* The fallback block, and a first chunk with room for `count` threads. The space is held. */
static int begin_threads(struct space *space, struct space_session *session, size_t count,
                         struct base_error *error)
{
    int result = space->gs_offset ? BASE_OK : map_fallback(space, session, error);
    if (result < 0 || space->thread_count)
        return result;
    return add_chunk(space, session, count + CHUNK_LEAST, error);
}

/* --- assigning blocks --- */

static struct space_thread *take_free(struct space *space, struct base_error *error)
{
    for (; space->first_free < space->thread_count; space->first_free++) {
        struct space_thread *thread = &space->threads[space->first_free];
        if (thread->state != SPACE_FREE)
            continue;
        slab_block_expect(&thread->block, space_pairs(space));
        int result = slab_block_clear(&thread->block, space_memory_made(space), error);
        return result == BASE_OK ? thread : NULL;
    }
    base_fail(error, BASE_ENOTFOUND, "no counters are free");
    return NULL;
}

int space_threads_assign(struct space *space, struct space_session *session, pid_t process, pid_t tid,
                         struct base_error *error)
{
    struct space_thread *thread = take_free(space, error);
    if (!thread)
        return BASE_EIO;
    int result = helper_trace_set_gs(&session->helper, tid, thread->block.address - space->gs_offset, error);
    if (result < 0)
        return result;
    space_threads_set(space, thread, SPACE_USED);
    thread->process = process;
    thread->tid = tid;
    return base_map_set(&space->thread_assigned, (uint64_t)tid, (uint32_t)(thread - space->threads))
               ? BASE_OK
               : base_fail(error, BASE_ENOMEM, "out of memory");
}

/* A thread that was exiting in the kernel as the process was held may have ended since: it needs none. */
static int assign_unless_ended(struct space *space, struct space_session *session,
                               const struct trace_stop_thread *thread, struct base_error *error)
{
    int result = space_threads_assign(space, session, thread->process, thread->tid, error);
    if (result != BASE_ENOTFOUND)
        return result;
    base_error_clear(error);
    return BASE_OK;
}

int space_threads_assign_all(struct space *space, struct space_session *session, pid_t created,
                             struct base_error *error)
{
    struct trace_stop_thread *threads;
    size_t count;
    int result = helper_trace_threads(&session->helper, space->pid, &threads, &count, error);
    if (result < 0)
        return result;
    result = begin_threads(space, session, count, error);
    for (size_t i = 0; i < count && result == BASE_OK; i++)
        if (threads[i].tid != created && threads[i].state != TRACE_STOP_GONE)
            result = assign_unless_ended(space, session, &threads[i], error);
    free(threads);
    return result;
}

int space_threads_inherit(struct space *child, struct space_session *session, struct base_error *error)
{
    struct user_regs_struct registers;
    int result = helper_trace_read_registers(&session->helper, child->pid, child->pid, &registers, error);
    if (result < 0 || !registers.gs_base || child->form != STUB_THREAD)
        return result;
    struct space_thread *thread = space_threads_find(child, registers.gs_base);
    if (!thread)
        return helper_trace_set_gs(&session->helper, child->pid, 0, error);
    space_threads_set(child, thread, SPACE_USED);
    thread->process = thread->tid = child->pid;
    return slab_block_init(&thread->block, space_memory_made(child), error);
}

static size_t pool_size(const struct space *space)
{
    size_t size = space->thread_states[SPACE_USED] / 4;
    return size < POOL_LEAST ? POOL_LEAST : size < POOL_MOST ? size : POOL_MOST;
}

static int ensure_free(struct space *space, struct space_session *session, size_t wanted, bool held,
                       struct base_error *error)
{
    size_t count = space->thread_count < CHUNK_MOST ? space->thread_count : CHUNK_MOST;
    if (space->thread_states[SPACE_FREE] >= wanted)
        return BASE_OK;
    count = count < CHUNK_LEAST ? CHUNK_LEAST : count;
    if (held)
        return add_chunk(space, session, count, error);
    int result = helper_trace_hold(&session->helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = add_chunk(space, session, count, error);
    helper_trace_release(&session->helper, space->pid, NULL, NULL);
    return result;
}

int space_threads_refill(struct space *space, struct space_session *session, bool held,
                         struct base_error *error)
{
    uint64_t gs[POOL_MOST];
    size_t count = 0, size = pool_size(space), pooled = space->thread_states[SPACE_POOLED];
    if (pooled >= size / 2)
        return BASE_OK;
    int result = ensure_free(space, session, size - pooled, held, error);
    while (count < size - pooled && result == BASE_OK) {
        struct space_thread *thread = take_free(space, NULL);
        if (!thread)
            break;
        space_threads_set(space, thread, SPACE_POOLED);
        gs[count++] = thread->block.address - space->gs_offset;
    }
    return result < 0 ? result : helper_trace_give(&session->helper, space->pid, gs, count, error);
}

struct space_thread *space_threads_find(struct space *space, uint64_t gs)
{
    uint32_t index = gs ? base_map_find(&space->thread_blocks, gs + space->gs_offset) : BASE_MAP_NONE;
    return index != BASE_MAP_NONE ? &space->threads[index] : NULL;
}

void space_threads_withdraw(struct space *space, pid_t tid)
{
    uint32_t index = base_map_find(&space->thread_assigned, (uint64_t)tid);
    struct space_thread *thread = index != BASE_MAP_NONE ? &space->threads[index] : NULL;
    if (thread && thread->state == SPACE_USED && thread->tid == tid)
        space_threads_recycle(space, thread);
}

void space_threads_recycle(struct space *space, struct space_thread *thread)
{
    space_threads_set(space, thread, SPACE_FREE);
    thread->tid = thread->process = 0;
    thread->published = false;
}
