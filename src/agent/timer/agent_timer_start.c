/* New threads and processes of the program get timers.
 *
 * A start routine of the agent's is put before the program's, which is jumped to then
 * (agent_hook_x86_64_entry.S). `unrecorded` counts the creator while it is in here, and the thread until it
 * is about to jump. */
#include <stddef.h>

#include "agent.h"
#include "agent_process.h"
#include "agent_timer.h"
#include "wire_agent_layout.h"

struct started {
    uint64_t routine, argument; /* in rax and rdx */
};
struct started agent_timer_started(struct wire_agent_start *start);
struct agent_answer agent_wrap_thread(const struct agent_frame *frame, uint64_t result, uint64_t attributes,
                                      uint64_t routine, uint64_t argument);
struct agent_answer agent_wrap_process(const struct agent_frame *frame);
extern void agent_entry_started(void);

struct started agent_timer_started(struct wire_agent_start *start)
{
    const struct started started = {start->routine, start->argument};
    if (agent_timer_is_on())
        agent_timer_begin();
    __atomic_store_n(&start->used, 0, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&agent_process()->unrecorded, 1, __ATOMIC_RELEASE);
    return started;
}

static struct wire_agent_start *take_start(void)
{
    struct wire_agent_start *starts = agent_part(wire_agent_layout(agent_control()->memory).starts);
    for (uint32_t i = 0; i < WIRE_AGENT_STARTS; i++)
        if (__atomic_load_n(&starts[i].used, __ATOMIC_RELAXED) == 0 &&
            __atomic_exchange_n(&starts[i].used, 1, __ATOMIC_ACQUIRE) == 0)
            return &starts[i];
    return NULL;
}

struct agent_answer agent_wrap_thread(const struct agent_frame *frame, uint64_t result, uint64_t attributes,
                                      uint64_t routine, uint64_t argument)
{
    uint64_t (*body)(uint64_t, uint64_t, uint64_t, uint64_t) =
        (uint64_t(*)(uint64_t, uint64_t, uint64_t, uint64_t))frame->hook->body;
    struct wire_agent_start *start = agent_timer_is_on() ? take_start() : NULL;
    if (start == NULL)
        return (struct agent_answer){0, 0};
    struct wire_agent_process *process = agent_process();
    start->routine = routine;
    start->argument = argument;
    __atomic_fetch_add(&process->unrecorded, 2, __ATOMIC_RELAXED);
    uint64_t error = body(result, attributes, (uint64_t)agent_entry_started, (uint64_t)start);
    if ((uint32_t)error != 0)
        __atomic_store_n(&start->used, 0, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&process->unrecorded, (uint32_t)error != 0 ? 2 : 1, __ATOMIC_RELEASE);
    return (struct agent_answer){1, error};
}

/* A child comes here with a frame of ours on its stack, perhaps after its own hooks have taken a region: that
 * is made with the frame counted. */
struct agent_answer agent_wrap_process(const struct agent_frame *frame)
{
    uint64_t (*body)(void) = (uint64_t(*)(void))frame->hook->body;
    if (!agent_timer_is_on())
        return (struct agent_answer){0, 0};
    struct wire_agent_process *process = agent_process();
    __atomic_fetch_add(&process->unrecorded, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&agent_parameters.forking, 1, __ATOMIC_RELAXED);
    uint64_t pid = body();
    if ((uint32_t)pid != 0) {
        __atomic_fetch_sub(&agent_parameters.forking, 1, __ATOMIC_RELAXED);
        __atomic_fetch_sub(&process->unrecorded, 1, __ATOMIC_RELEASE);
        return (struct agent_answer){1, pid};
    }
    bool counted = agent_process_is_counted();
    agent_parameters.forking = 0;
    if (agent_timer_is_on())
        agent_timer_begin();
    if (counted)
        __atomic_fetch_sub(&agent_process()->unrecorded, 1, __ATOMIC_RELEASE);
    return (struct agent_answer){1, pid};
}
