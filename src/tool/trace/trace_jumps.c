#include "trace_jumps.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "proc_target.h"
#include "trace_frames.h"

#define JUMP 0xe9 /* and 32 bits of distance from its end */

/* In the FPU state that a signal's frame points to: struct _fpx_sw_bytes, in its first 512 bytes
 * (uapi/asm/sigcontext.h). */
enum { FRAME_MOST = 4096, FPU_MAGIC_AT = 464 };

enum { LENGTH = 5 };

struct jump {
    uint64_t address, destination;
};

struct jumps {
    struct jump *items; /* by address */
    size_t count, capacity;
};

/* --- jumps that the changes remove --- */

static int add_jump(struct jumps *jumps, uint64_t address, const uint8_t *bytes, struct base_error *error)
{
    int32_t distance;
    if (!base_array_room(jumps->items, jumps->count, jumps->capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    memcpy(&distance, bytes + 1, sizeof distance);
    jumps->items[jumps->count++] = (struct jump){address, address + LENGTH + (uint64_t)(int64_t)distance};
    return BASE_OK;
}

/* A byte within another instruction may look like a jump; no pc points there. Bytes behind the change are
 * read from memory. */
static int find_in_change(struct jumps *jumps, struct trace_memory *memory,
                          const struct trace_memory_change *change, bool on, struct base_error *error)
{
    const uint8_t *from = on ? change->before : change->after, *to = on ? change->after : change->before;
    uint8_t bytes[LENGTH];
    int result = BASE_OK;
    for (size_t at = 0; at < change->length && result == BASE_OK; at++) {
        if (from[at] != JUMP || to[at] == JUMP)
            continue;
        size_t held = change->length - at < LENGTH ? (size_t)change->length - at : LENGTH;
        memcpy(bytes, from + at, held);
        if (held == LENGTH || trace_memory_read(memory, change->address + change->length, bytes + held,
                                                LENGTH - held, NULL) == BASE_OK)
            result = add_jump(jumps, change->address + at, bytes, error);
    }
    return result;
}

static int by_address(const void *one, const void *other)
{
    const struct jump *a = one, *b = other;
    return (a->address > b->address) - (a->address < b->address);
}

static int find_jumps(struct jumps *jumps, struct trace_memory *memory,
                      const struct trace_memory_change *changes, size_t count, bool on,
                      struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < count && result == BASE_OK; i++)
        result = find_in_change(jumps, memory, &changes[i], on, error);
    if (jumps->count)
        qsort(jumps->items, jumps->count, sizeof *jumps->items, by_address);
    return result;
}

/* Most words of a stack are outside of all jumps: the quick test comes first. */
static const struct jump *jump_at(const struct jumps *jumps, uint64_t address)
{
    const struct jump key = {address, 0};
    if (address < jumps->items[0].address || address > jumps->items[jumps->count - 1].address)
        return NULL;
    return bsearch(&key, jumps->items, jumps->count, sizeof key, by_address);
}

/* --- threads that are on such a jump, or return to it --- */

/* A thread inside a system call returns behind the call's instruction, where no padding is; and if its pc
 * were moved, the kernel could not restart the call, which it does by stepping the pc back. */
static int move_thread(struct trace_stop *stop, const struct trace_stop_thread *thread, uint64_t destination,
                       struct base_error *error)
{
    struct user_regs_struct registers;
    int result = thread->in_call ? BASE_OK : trace_stop_read(stop, thread->tid, &registers, error);
    if (thread->in_call || result < 0)
        return result;
    registers.rip = destination;
    return trace_stop_write(stop, thread->tid, &registers, error);
}

/* For move_frame. */
struct frame_move {
    const struct jumps *jumps;
    struct trace_memory *memory;
    pid_t pid;
};

/* What lies behind the end of a stack may look like a frame, and words may be left of a frame whose handler
 * has returned. Only a frame whose saved FPU state is where it says, a little above, is written. */
static int move_frame(void *context, const struct trace_frame *frame, struct base_error *error)
{
    const struct frame_move *move = context;
    const struct jump *jump = jump_at(move->jumps, frame->pc);
    uint32_t magic = 0;
    if (!jump || frame->fpu - frame->at >= FRAME_MOST ||
        proc_target_read(move->pid, frame->fpu + FPU_MAGIC_AT, &magic, sizeof magic) != sizeof magic ||
        magic != FP_XSTATE_MAGIC1)
        return BASE_OK;
    return trace_memory_write(move->memory, frame->at, &jump->destination, sizeof jump->destination, error);
}

static int move_stopped_thread(struct trace_stop *stop, const struct trace_stop_thread *thread,
                               const struct jumps *jumps, struct base_error *error)
{
    const struct jump *jump = jump_at(jumps, thread->pc);
    return jump ? move_thread(stop, thread, jump->destination, error) : BASE_OK;
}

/* It may wait for the page that its pc is on, for example; its registers cannot be written. */
static int refuse_sleeping_thread(const struct trace_stop_thread *thread, const struct proc_target_call *call,
                                  const struct jumps *jumps, struct base_error *error)
{
    if (call->number >= 0 || !jump_at(jumps, call->pc))
        return BASE_OK;
    return base_fail(error, BASE_EBUSY, "thread %d sleeps inside the kernel and cannot be moved",
                     thread->tid);
}

static int move_off_jump(struct trace_stop *stop, const struct trace_stop_thread *thread,
                         const struct jumps *jumps, struct base_error *error)
{
    struct proc_target_call call;
    if (thread->state == TRACE_STOP_STOPPED)
        return move_stopped_thread(stop, thread, jumps, error);
    bool asleep =
        thread->state == TRACE_STOP_KERNEL && !proc_target_call(thread->process, thread->tid, &call);
    return asleep ? refuse_sleeping_thread(thread, &call, jumps, error) : BASE_OK;
}

int trace_jumps_leave(struct trace_stop *stop, struct trace_memory *memory,
                      const struct trace_memory_change *changes, size_t count, bool on,
                      struct base_error *error)
{
    struct jumps jumps = {0};
    int result = find_jumps(&jumps, memory, changes, count, on, error);
    bool some = jumps.count != 0;
    for (size_t i = 0; i < stop->count && some && result == BASE_OK; i++)
        result = move_off_jump(stop, &stop->threads[i], &jumps, error);
    if (some && result == BASE_OK)
        result = trace_frames_each(stop->threads, stop->count, move_frame,
                                   &(struct frame_move){&jumps, memory, stop->pid}, error);
    free(jumps.items);
    return result;
}
