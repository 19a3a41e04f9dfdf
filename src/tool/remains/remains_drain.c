#include "remains_drain.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_clock.h"
#include "helper_trace.h"
#include "loader_unmap.h"
#include "proc_target.h"
#include "slab_block.h"
#include "trace_frames.h"

enum {
    ATTEMPTS = 20,
    REST_NS = 2000000,
    NEAR_CALL = 5, /* bytes */
    LONGEST_CALL = 7,
};

bool remains_ranges_add(struct remains_ranges *ranges, const struct loader_range *range)
{
    if (!base_array_room(ranges->items, ranges->count, ranges->capacity))
        return false;
    ranges->items[ranges->count++] = *range;
    return true;
}

static const struct loader_range *code_at(const struct remains_ranges *ranges, uint64_t address)
{
    return loader_range_of(ranges->items, ranges->count, address);
}

/* --- threads that are there --- */

/* What cannot be read counts as code. */
static bool is_code(pid_t pid, const struct remains_ranges *ranges, uint64_t address)
{
    uint64_t bytes = 1;
    return code_at(ranges, address) &&
           (proc_target_read(pid, address, &bytes, sizeof bytes) != sizeof bytes || bytes);
}

/* Stubs jump; what they call, the recorder and the doorbell, is code of ours. A thread in there has its pc in
 * our code, in its registers or in a signal's frame; return addresses of earlier calls remain on stacks, in
 * frames that never wrote there. */
static bool calls_ours(const struct remains_ranges *ranges, const uint8_t *call, uint64_t next)
{
    int32_t distance;
    memcpy(&distance, call + 1, sizeof distance);
    return code_at(ranges, next - NEAR_CALL) && code_at(ranges, next + (uint64_t)(int64_t)distance);
}

/* Is it the address behind a call of something that is not ours? A number that a program has (of an inode,
 * say) may look like an address of our code; it seldom looks like this one. */
static bool returns_here(pid_t pid, const struct remains_ranges *ranges, uint64_t address)
{
    uint8_t before[LONGEST_CALL];
    if (proc_target_read(pid, address - sizeof before, before, sizeof before) != sizeof before)
        return true;
    const uint8_t *near = before + LONGEST_CALL - NEAR_CALL;
    if (near[0] == 0xe8 && !calls_ours(ranges, near, address))
        return true;
    for (size_t at = 0; at + 2 <= LONGEST_CALL; at++)
        if (before[at] == 0xff && (before[at + 1] >> 3 & 7) == 2) /* ff /2: through a register or memory */
            return true;
    return false;
}

/* Stacks are searched from the thread's sp up. A word that only looks like an address of ours keeps memory
 * mapped, which does no harm; so does a stack that cannot be read. */
static bool stack_leads_here(pid_t pid, const struct remains_ranges *ranges, uint64_t sp, uint64_t *words,
                             size_t size)
{
    size_t count = proc_target_stack(pid, sp, words, size);
    for (size_t i = 0; i < count; i++)
        if (is_code(pid, ranges, words[i]) &&
            (proc_target_is_frame_pc(words, count, i) || returns_here(pid, ranges, words[i])))
            return true;
    return count == 0;
}

/* 1: a thread is or may come back there; 0: none. */
static int look_for_users(struct helper *helper, pid_t pid, const struct remains_ranges *ranges,
                          struct base_error *error)
{
    struct trace_stop_thread *threads;
    size_t count;
    int result = helper_trace_threads(helper, pid, &threads, &count, error);
    if (result < 0)
        return result;
    size_t size = trace_frames_size(count);
    uint64_t *words = malloc(size);
    bool used = !words;
    for (size_t i = 0; i < count && !used; i++) {
        if (threads[i].state == TRACE_STOP_GONE)
            continue;
        trace_stop_locate(&threads[i]);
        used = !threads[i].pc || code_at(ranges, threads[i].pc) ||
               stack_leads_here(pid, ranges, threads[i].sp, words, size);
    }
    free(words);
    free(threads);
    return used;
}

static void step_out_of_ranges(struct helper *helper, pid_t pid, pid_t tid,
                               const struct remains_ranges *ranges)
{
    struct trace_step_range *steps = malloc((ranges->count + 1) * sizeof *steps);
    size_t count = 0;
    for (size_t i = 0; steps && i < ranges->count; i++)
        if (ranges->items[i].code)
            steps[count++] = (struct trace_step_range){ranges->items[i].address,
                                                       ranges->items[i].address + ranges->items[i].size};
    if (steps)
        helper_trace_step_out(helper, pid, tid, steps, count, NULL);
    free(steps);
}

int remains_drain_gs(struct helper *helper, pid_t pid, const struct remains_ranges *ranges,
                     uint64_t gs_offset, struct base_error *error)
{
    struct trace_step_range *blocks = malloc((ranges->count + 1) * sizeof *blocks);
    size_t count = 0;
    if (!blocks)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < ranges->count; i++) {
        const struct loader_range *range = &ranges->items[i];
        if (!range->code && range->size % SLAB_BLOCK_SIZE == 0)
            blocks[count++] = (struct trace_step_range){range->address, range->address + range->size};
    }
    int result = helper_trace_clear_gs(helper, pid, gs_offset, blocks, count, error);
    free(blocks);
    return result;
}

static int move_threads(struct helper *helper, pid_t pid, const struct remains_ranges *ranges,
                        uint64_t gs_offset, struct base_error *error)
{
    struct trace_stop_thread *threads;
    size_t count;
    int result = helper_trace_threads(helper, pid, &threads, &count, error);
    for (size_t i = 0; result == BASE_OK && i < count; i++) {
        const struct loader_range *range = code_at(ranges, threads[i].pc);
        if (range && !range->waits)
            step_out_of_ranges(helper, pid, threads[i].tid, ranges);
    }
    if (result < 0)
        return result;
    free(threads);
    return gs_offset ? remains_drain_gs(helper, pid, ranges, gs_offset, error) : BASE_OK;
}

/* --- memory --- */

static int run_for_a_moment(struct helper *helper, pid_t pid, struct base_error *error)
{
    helper_trace_release(helper, pid, NULL, NULL);
    base_clock_sleep(REST_NS);
    return helper_trace_hold(helper, pid, NULL, error);
}

int remains_drain_memory(const struct remains_memory *memory, uint64_t *left, struct base_error *error)
{
    struct helper *helper = memory->helper;
    pid_t pid = memory->pid;
    const struct remains_ranges *ranges = memory->ranges;
    int used = 1;
    for (int i = 0; i < (memory->stay ? 1 : ATTEMPTS) && used > 0; i++) {
        int result = i ? run_for_a_moment(helper, pid, error) : BASE_OK;
        if (result == BASE_OK)
            result = move_threads(helper, pid, ranges, memory->gs_offset, error);
        used = result < 0 ? result : look_for_users(helper, pid, ranges, error);
        if (used == 0)
            used = loader_unmap(&(struct loader_target){helper, pid, pid}, ranges->items, ranges->count, left,
                                error);
        if (used == BASE_OK)
            return BASE_OK;
        used = used == BASE_ENOMEM ? 1 : used; /* there may be some in a moment */
    }
    for (size_t i = 0; used > 0 && i < ranges->count; i++)
        *left += ranges->items[i].size;
    return used < 0 ? used : BASE_OK;
}
