#include "trace_frames.h"

#include <stdlib.h>

#include "proc_target.h"

/* Of struct rt_sigframe, by words from the saved pc: the sp, and the pointer to what is saved of the FPU. */
enum { FRAME_SP = -1, FRAME_FPU = 7 };

enum { STACK_MOST = 1 << 20, STACK_FEW = 64 << 10, THREADS_MANY = 64, STACKS = 4 };

size_t trace_frames_size(size_t thread_count)
{
    return thread_count > THREADS_MANY ? STACK_FEW : STACK_MOST;
}

/* A search for frames. */
struct frame_search {
    trace_frames_take *take;
    void *context;
    uint64_t *words;
    size_t size;
};

/* *sp: another stack that a handler on this one has interrupted; 0: none. */
static int search_stack(const struct frame_search *search, pid_t pid, uint64_t *sp, struct base_error *error)
{
    const uint64_t *words = search->words;
    uint64_t start = *sp & ~UINT64_C(7);
    size_t count = proc_target_stack(pid, start, search->words, search->size);
    int result = BASE_OK;
    *sp = 0;
    for (size_t i = 0; i < count && result == BASE_OK; i++) {
        if (!proc_target_is_frame_pc(words, count, i))
            continue;
        const uint64_t *pc = words + i;
        const struct trace_frame frame = {*pc, pc[FRAME_SP], start + i * sizeof *words,
                                          count - i > FRAME_FPU ? pc[FRAME_FPU] : 0};
        if (frame.sp - start >= count * sizeof *words)
            *sp = frame.sp;
        result = search->take(search->context, &frame, error);
    }
    return result;
}

/* The sp of a thread that sleeps in the kernel, in a system call or for a page, is known from /proc. */
static int search_thread(const struct frame_search *search, const struct trace_stop_thread *thread,
                         struct base_error *error)
{
    struct proc_target_call call = {.sp = thread->sp};
    int result = BASE_OK;
    if (thread->state == TRACE_STOP_GONE)
        return BASE_OK;
    if (thread->state == TRACE_STOP_KERNEL)
        proc_target_call(thread->process, thread->tid, &call);
    uint64_t sp = call.sp;
    for (unsigned i = 0; i < STACKS && sp != 0 && result == BASE_OK; i++)
        result = search_stack(search, thread->process, &sp, error);
    return result;
}

int trace_frames_each(const struct trace_stop_thread *threads, size_t count, trace_frames_take *take,
                      void *context, struct base_error *error)
{
    size_t size = trace_frames_size(count);
    struct frame_search search = {take, context, malloc(size), size};
    int result = search.words != NULL ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < count && result == BASE_OK; i++)
        result = search_thread(&search, &threads[i], error);
    free(search.words);
    return result;
}
