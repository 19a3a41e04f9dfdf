#include "collect_calls_threads.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "elf_maps.h"

/* A pool is as large as what births use up until tally has heard of them (patch_helper_serve.c tells 64
 * together). */
enum { POOL_LEAST = 16, POOL_MOST = 256, CHUNK_LEAST = 32, CHUNK_MOST = 4096 };

#define LOW_END  0x7ff00000ull /* displacements are signed 32-bit numbers */
#define LOW_FROM 0x01000000ull

/* The highest free range of a block's size below 2 GiB: programs that are linked to fixed addresses, and
 * their heaps, grow from below. */
static uint64_t find_low(const struct elf_maps *maps)
{
    uint64_t end = LOW_END;
    for (size_t i = maps->count; i-- > 0;) {
        const struct elf_mapping *mapping = &maps->items[i];
        if (mapping->start >= LOW_END)
            continue;
        if (mapping->end <= end && end - mapping->end >= COLLECT_BLOCK_SIZE)
            break;
        end = mapping->start < end ? mapping->start : end;
    }
    uint64_t at = end > COLLECT_BLOCK_SIZE ? (end - COLLECT_BLOCK_SIZE) & ~0xfffull : 0;
    return at >= LOW_FROM ? at : 0;
}

static int map_fallback(struct collect_calls_space *space, struct collect_calls_rig *rig,
                        struct base_error *error)
{
    struct elf_maps maps = {0};
    struct collect_calls_memory memory;
    int result = elf_maps_read(space->pid, &maps, error);
    if (result < 0)
        return result;
    struct patch_helper_room room = {.low = find_low(&maps), .size = COLLECT_BLOCK_SIZE};
    elf_maps_free(&maps);
    if (!room.low)
        return base_fail(
            error, BASE_EUNSUPPORTED,
            "process %d has no %llu MiB free below 2 GiB, where counters of threads without a gs base go",
            space->pid, COLLECT_BLOCK_SIZE >> 20);
    result = collect_calls_space_memory(space, rig, room, &memory, error);
    if (result < 0)
        return result;
    space->fallback = (struct collect_calls_block){.file = memory.file, .address = memory.address};
    result = collect_calls_block_init(&space->fallback, collect_calls_space_made(space), error);
    if (result == BASE_OK)
        space->gs_offset = memory.address;
    return result;
}

/* Beside the first arena: anywhere would do. */
static int add_chunk(struct collect_calls_space *space, struct collect_calls_rig *rig, size_t count,
                     struct base_error *error)
{
    struct collect_calls_memory memory;
    struct elf_maps maps = {0};
    struct patch_helper_room room = {.size = count * COLLECT_BLOCK_SIZE};
    int result = elf_maps_read(space->pid, &maps, error);
    if (result < 0)
        return result;
    for (size_t i = maps.count; i-- > 1 && !room.low;) { /* below what lies highest, where there is room */
        uint64_t gap = maps.items[i].start - maps.items[i - 1].end;
        if (maps.items[i].start < 1ull << 47 && gap > 2 * room.size + (1ull << 32))
            room.low = (maps.items[i - 1].end + gap / 2) & ~0xfffull;
    }
    elf_maps_free(&maps);
    if (!room.low)
        return base_fail(error, BASE_EUNSUPPORTED, "process %d has no room for the counters of its threads",
                         space->pid);
    result = collect_calls_space_memory(space, rig, room, &memory, error);
    for (size_t i = 0; i < count && result == BASE_OK; i++) {
        struct collect_calls_thread thread = {.block = {.file = memory.file,
                                                        .offset = i * COLLECT_BLOCK_SIZE,
                                                        .address = memory.address + i * COLLECT_BLOCK_SIZE}};
        if (!base_array_room(space->threads, space->thread_count, space->thread_capacity) ||
            !base_map_set(&space->thread_blocks, thread.block.address, (uint32_t)space->thread_count))
            return base_fail(error, BASE_ENOMEM, "out of memory");
        space->threads[space->thread_count++] = thread;
        space->thread_states[COLLECT_CALLS_FREE]++;
    }
    return result;
}

int collect_calls_threads_index(struct collect_calls_space *space, struct base_error *error)
{
    bool room = true;
    space->thread_blocks = space->thread_assigned = (struct base_map){0};
    for (size_t i = 0; i < space->thread_count && room; i++)
        room = base_map_set(&space->thread_blocks, space->threads[i].block.address, (uint32_t)i);
    memset(space->thread_states, 0, sizeof space->thread_states);
    space->thread_states[COLLECT_CALLS_FREE] = space->thread_count;
    space->first_free = 0;
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

void collect_calls_threads_set(struct collect_calls_space *space, struct collect_calls_thread *thread,
                               enum collect_calls_thread_state state)
{
    size_t index = (size_t)(thread - space->threads);
    space->thread_states[thread->state]--;
    space->thread_states[state]++;
    thread->state = state;
    if (state == COLLECT_CALLS_FREE && index < space->first_free)
        space->first_free = index;
}

int collect_calls_threads_begin(struct collect_calls_space *space, struct collect_calls_rig *rig,
                                size_t count, struct base_error *error)
{
    int result = space->gs_offset ? BASE_OK : map_fallback(space, rig, error);
    if (result < 0 || space->thread_count)
        return result;
    return add_chunk(space, rig, count + CHUNK_LEAST, error);
}

/* --- giving out --- */

static struct collect_calls_thread *take_free(struct collect_calls_space *space, struct base_error *error)
{
    for (; space->first_free < space->thread_count; space->first_free++) {
        struct collect_calls_thread *thread = &space->threads[space->first_free];
        if (thread->state != COLLECT_CALLS_FREE)
            continue;
        collect_calls_block_expect(&thread->block, collect_calls_space_pairs(space));
        int result = collect_calls_block_clear(&thread->block, collect_calls_space_made(space), error);
        return result == BASE_OK ? thread : NULL;
    }
    base_fail(error, BASE_ENOTFOUND, "no counters are free");
    return NULL;
}

int collect_calls_threads_assign(struct collect_calls_space *space, struct collect_calls_rig *rig,
                                 pid_t process, pid_t tid, struct base_error *error)
{
    struct collect_calls_thread *thread = take_free(space, error);
    if (!thread)
        return BASE_EIO;
    int result = patch_trace_set_gs(&rig->helper, tid, thread->block.address - space->gs_offset, error);
    if (result < 0)
        return result;
    collect_calls_threads_set(space, thread, COLLECT_CALLS_USED);
    thread->process = process;
    thread->tid = tid;
    return base_map_set(&space->thread_assigned, (uint64_t)tid, (uint32_t)(thread - space->threads))
               ? BASE_OK
               : base_fail(error, BASE_ENOMEM, "out of memory");
}

/* One that was on its way out of the kernel's exit as the process was held may have ended since: it needs none. */
static int assign_unless_ended(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               const struct patch_stop_thread *thread, struct base_error *error)
{
    int result = collect_calls_threads_assign(space, rig, thread->process, thread->tid, error);
    if (result != BASE_ENOTFOUND)
        return result;
    base_error_clear(error);
    return BASE_OK;
}

int collect_calls_threads_assign_all(struct collect_calls_space *space, struct collect_calls_rig *rig,
                                     pid_t unborn, struct base_error *error)
{
    struct patch_stop_thread *threads;
    size_t count;
    int result = patch_trace_threads(&rig->helper, space->pid, &threads, &count, error);
    if (result < 0)
        return result;
    result = collect_calls_threads_begin(space, rig, count, error);
    for (size_t i = 0; i < count && result == BASE_OK; i++)
        if (threads[i].tid != unborn && threads[i].state != PATCH_STOP_GONE)
            result = assign_unless_ended(space, rig, &threads[i], error);
    free(threads);
    return result;
}

int collect_calls_threads_inherit(struct collect_calls_space *child, struct collect_calls_rig *rig,
                                  struct base_error *error)
{
    struct user_regs_struct registers;
    int result = patch_trace_read_registers(&rig->helper, child->pid, child->pid, &registers, error);
    if (result < 0 || !registers.gs_base || child->form != PATCH_THREAD)
        return result;
    struct collect_calls_thread *thread = collect_calls_threads_find(child, registers.gs_base);
    if (!thread)
        return patch_trace_set_gs(&rig->helper, child->pid, 0, error);
    collect_calls_threads_set(child, thread, COLLECT_CALLS_USED);
    thread->process = thread->tid = child->pid;
    return collect_calls_block_init(&thread->block, collect_calls_space_made(child), error);
}

static size_t pool_size(const struct collect_calls_space *space)
{
    size_t size = space->thread_states[COLLECT_CALLS_USED] / 4;
    return size < POOL_LEAST ? POOL_LEAST : size < POOL_MOST ? size : POOL_MOST;
}

static int need_free(struct collect_calls_space *space, struct collect_calls_rig *rig, size_t wanted,
                     bool held, struct base_error *error)
{
    size_t count = space->thread_count < CHUNK_MOST ? space->thread_count : CHUNK_MOST;
    if (space->thread_states[COLLECT_CALLS_FREE] >= wanted)
        return BASE_OK;
    count = count < CHUNK_LEAST ? CHUNK_LEAST : count;
    if (held)
        return add_chunk(space, rig, count, error);
    int result = patch_trace_hold(&rig->helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = add_chunk(space, rig, count, error);
    patch_trace_release(&rig->helper, space->pid, NULL, NULL);
    return result;
}

int collect_calls_threads_refill(struct collect_calls_space *space, struct collect_calls_rig *rig, bool held,
                                 struct base_error *error)
{
    uint64_t gs[POOL_MOST];
    size_t count = 0, size = pool_size(space), pooled = space->thread_states[COLLECT_CALLS_POOLED];
    if (pooled >= size / 2)
        return BASE_OK;
    int result = need_free(space, rig, size - pooled, held, error);
    while (count < size - pooled && result == BASE_OK) {
        struct collect_calls_thread *thread = take_free(space, NULL);
        if (!thread)
            break;
        collect_calls_threads_set(space, thread, COLLECT_CALLS_POOLED);
        gs[count++] = thread->block.address - space->gs_offset;
    }
    return result < 0 ? result : patch_trace_give(&rig->helper, space->pid, gs, count, error);
}

struct collect_calls_thread *collect_calls_threads_find(struct collect_calls_space *space, uint64_t gs)
{
    uint32_t index = gs ? base_map_find(&space->thread_blocks, gs + space->gs_offset) : BASE_MAP_NONE;
    return index != BASE_MAP_NONE ? &space->threads[index] : NULL;
}

void collect_calls_threads_withdraw(struct collect_calls_space *space, pid_t tid)
{
    uint32_t index = base_map_find(&space->thread_assigned, (uint64_t)tid);
    struct collect_calls_thread *thread = index != BASE_MAP_NONE ? &space->threads[index] : NULL;
    if (thread && thread->state == COLLECT_CALLS_USED && thread->tid == tid)
        collect_calls_threads_recycle(space, thread);
}

void collect_calls_threads_recycle(struct collect_calls_space *space, struct collect_calls_thread *thread)
{
    collect_calls_threads_set(space, thread, COLLECT_CALLS_FREE);
    thread->tid = thread->process = 0;
    thread->told = false;
}
