#include "function_rig.h"

#include <unistd.h>

struct agent_rig function_rig;
timed_function *function_timed, *function_unwinder;
jmp_buf function_jump;
ucontext_t function_outside, function_inside;
uint64_t function_seen, function_seen_after, function_seen_by_unwinder;

AWAY long function_unwinder_body(long value)
{
    function_seen_by_unwinder = RETURN_ADDRESS();
    return value + 1;
}

/* 0: returns; 1: unwinds first; 2: jumps out; 3: forks; 4: waits on its stack; more: calls itself that often
 * less ten. */
AWAY long function_timed_body(long what)
{
    function_seen = RETURN_ADDRESS();
    if (what == 1)
        what = function_unwinder(what);
    if (what == 2 && function_seen != 0)
        longjmp(function_jump, 1);
    if (what == 3)
        return fork();
    if (what == 4)
        swapcontext(&function_inside, &function_outside);
    if (what > 10)
        return function_timed(what - 1) + 1;
    __asm__ volatile("" ::: "memory");
    return 5;
}

int function_set_up(void **state)
{
    (void)state;
    agent_rig_begin(&function_rig, &(struct agent_rig_options){.flags = WIRE_AGENT_FOLLOW});
    function_rig.control->ns_of_ticks = UINT64_C(1) << 32;
    function_rig.process->timed = 1;
    function_timed = (timed_function *)agent_rig_hook_whole(&function_rig, "agent_entry_function",
                                                            (void *)function_timed_body);
    function_unwinder = (timed_function *)agent_rig_hook_whole(&function_rig, "agent_entry_unwind",
                                                               (void *)function_unwinder_body);
    return 0;
}

int function_tear_down(void **state)
{
    (void)state;
    agent_rig_end(&function_rig);
    return 0;
}

AWAY long function_caller(long what)
{
    long volatile result = function_timed(what);
    return result;
}

AWAY long function_second_caller(long what)
{
    long volatile result = function_timed(what);
    return result + 1; /* else the compiler makes one of two */
}

bool function_is_in(const void *function, uint64_t address)
{
    return address - (uint64_t)function < NEAR_BYTES;
}

uint64_t function_calls_of(const struct wire_agent_process *process)
{
    return agent_rig_read(&function_rig, process, 0, 0).count;
}

const struct wire_agent_latency *function_latencies(const struct wire_agent_process *process)
{
    return (const void *)((uintptr_t)process + function_rig.layout.latencies);
}

uint64_t function_calls_in_histograms(const struct wire_agent_process *process)
{
    uint64_t calls = 0;
    for (uint32_t i = 1; i <= process->latency_count; i++)
        for (uint32_t b = 0; b < WIRE_LATENCY_BUCKETS; b++)
            calls += function_latencies(process)[i].buckets[b];
    return calls;
}

void function_no_losses(void)
{
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        assert_int_equal(function_rig.process->losses[i], 0);
}
