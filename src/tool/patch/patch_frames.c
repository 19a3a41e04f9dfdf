#include "patch_frames.h"

#include "patch_target.h"

/* Of struct rt_sigframe, by words from the saved pc: the sp, and the pointer to what is saved of the FPU. */
enum { FRAME_SP = -1, FRAME_FPU = 7 };

enum { STACK_MOST = 1 << 20, STACK_FEW = 64 << 10, THREADS_MANY = 64, STACKS = 4 };

size_t patch_frames_size(size_t thread_count)
{
    return thread_count > THREADS_MANY ? STACK_FEW : STACK_MOST;
}

/* *sp: another stack that a handler on this one has interrupted; 0: none. */
static int look_at_stack(pid_t pid, uint64_t *sp, uint64_t low, uint64_t high, uint64_t *words, size_t size,
                         patch_frames_take *take, void *context, struct base_error *error)
{
    uint64_t start = *sp & ~UINT64_C(7);
    size_t count = patch_target_stack(pid, start, words, size);
    int result = BASE_OK;
    *sp = 0;
    for (size_t i = 0; i < count && result == BASE_OK; i++) {
        if (!patch_target_is_frame_pc(words, count, i))
            continue;
        const uint64_t *pc = words + i;
        const struct patch_frame frame = {*pc, pc[FRAME_SP], start + i * sizeof *words,
                                          count - i > FRAME_FPU ? pc[FRAME_FPU] : 0};
        if (frame.sp - start >= count * sizeof *words)
            *sp = frame.sp;
        if (frame.pc >= low && frame.pc < high)
            result = take(context, &frame, error);
    }
    return result;
}

int patch_frames_each(pid_t pid, uint64_t sp, uint64_t low, uint64_t high, uint64_t *words, size_t size,
                      patch_frames_take *take, void *context, struct base_error *error)
{
    int result = BASE_OK;
    for (unsigned i = 0; i < STACKS && sp != 0 && result == BASE_OK; i++)
        result = look_at_stack(pid, &sp, low, high, words, size, take, context, error);
    return result;
}
