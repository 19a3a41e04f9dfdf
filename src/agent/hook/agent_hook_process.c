/* What tally must know of the whole process: it loads objects, executes a program, ends. */
#include "agent.h"
#include "agent_call_unwind.h"
#include "agent_hook_notify.h"
#include "agent_process.h"

/* The loader (ld.so) has mapped or unmapped objects: called from its _dl_debug_state, possibly before there
 * is a thread pointer. What is loaded unanswered may unwind and is not hooked, as the libgcc_s of a C
 * program's first backtrace(): it is to find the stack as it was. */
uint64_t agent_wrap_objects(const struct agent_frame *frame);
uint64_t agent_wrap_end(const struct agent_frame *frame, uint64_t status);
uint64_t agent_wrap_execve(const struct agent_frame *frame, uint64_t path, uint64_t arguments,
                           uint64_t environment);
uint64_t agent_wrap_execveat(const struct agent_frame *frame, uint64_t directory, uint64_t path,
                             uint64_t arguments, uint64_t environment, uint64_t flags);

uint64_t agent_wrap_objects(const struct agent_frame *frame)
{
    if (agent_process_is_counted()) {
        struct wire_agent_process *process = agent_process();
        __atomic_fetch_add(&process->unrecorded, 1, __ATOMIC_RELAXED);
        if (!agent_hook_notify(WIRE_AGENT_OBJECTS, true))
            agent_call_unwind_abandon(frame);
        __atomic_fetch_sub(&process->unrecorded, 1, __ATOMIC_RELEASE);
    }
    return ((uint64_t(*)(void))frame->hook->body)();
}

/* A process that ends: what its live blocks hold, and what it has open, can be seen only now, and only from
 * outside, where threads that go on do no harm. */
uint64_t agent_wrap_end(const struct agent_frame *frame, uint64_t status)
{
    if (agent_process_is_counted()) {
        struct wire_agent_process *process = agent_process();
        __atomic_fetch_add(&process->unrecorded, 1, __ATOMIC_RELAXED);
        agent_hook_notify(WIRE_AGENT_END, true);
        __atomic_fetch_sub(&process->unrecorded, 1, __ATOMIC_RELEASE);
    }
    return ((uint64_t(*)(uint64_t))frame->hook->body)(status);
}

/* Nothing is kept while the body runs: when it succeeds, it does not come back, and a vfork's child is in its
 * parent's memory. */
static void before_exec(void)
{
    if (!agent_process_is_counted())
        return;
    struct wire_agent_process *process = agent_process();
    __atomic_fetch_add(&process->unrecorded, 1, __ATOMIC_RELAXED);
    agent_hook_notify(WIRE_AGENT_EXEC, true);
    __atomic_fetch_sub(&process->unrecorded, 1, __ATOMIC_RELEASE);
}

static uint64_t after_exec(uint64_t result)
{
    if (agent_process_is_counted())
        agent_hook_notify(WIRE_AGENT_EXEC_FAILED, false);
    return result;
}

uint64_t agent_wrap_execve(const struct agent_frame *frame, uint64_t path, uint64_t arguments,
                           uint64_t environment)
{
    before_exec();
    return after_exec(
        ((uint64_t(*)(uint64_t, uint64_t, uint64_t))frame->hook->body)(path, arguments, environment));
}

uint64_t agent_wrap_execveat(const struct agent_frame *frame, uint64_t directory, uint64_t path,
                             uint64_t arguments, uint64_t environment, uint64_t flags)
{
    before_exec();
    return after_exec(((uint64_t(*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))frame->hook->body)(
        directory, path, arguments, environment, flags));
}
