/* What the agent does not do any more, since the program forbids it itself. */
#include "agent_may.h"

#include <sys/syscall.h>

#define GET_TSC       25 /* PR_GET_TSC, and its answer */
#define TSC_FORBIDDEN 2
#define SET_BYTES     8
#define ADD_MASK      0 /* SIG_BLOCK and SIG_SETMASK */
#define SET_MASK      2

static uint32_t count_calls(uint32_t calls)
{
    uint32_t count = 0;
    for (; calls != 0; calls &= calls - 1)
        count++;
    return count;
}

void agent_may_forbid(uint32_t calls)
{
    bool counted = agent_process_is_counted(); /* a child's own region, while it can be asked for */
    uint32_t before = __atomic_fetch_or(&agent_parameters.forbidden, calls, __ATOMIC_SEQ_CST);
    uint32_t fresh = calls & ~before & ~(uint32_t)WIRE_AGENT_CALL_TICKS;
    if (!counted)
        return;
    __atomic_fetch_or(&agent_process()->forbidden, calls, __ATOMIC_RELAXED);
    __atomic_fetch_add(&agent_process()->losses[WIRE_AGENT_LOSS_FORBIDDEN], count_calls(fresh),
                       __ATOMIC_RELAXED);
}

void agent_may_look(void)
{
    uint32_t may = 0;
    if (agent_may(WIRE_AGENT_CALL_PRCTL | WIRE_AGENT_CALL_TICKS) &&
        arch_host_syscall(SYS_prctl, GET_TSC, (uint64_t)&may, 0, 0, 0, 0) == 0 && may == TSC_FORBIDDEN)
        agent_may_forbid(WIRE_AGENT_CALL_TICKS);
}

bool agent_may_block(uint64_t signals, uint64_t *before)
{
    return agent_may(WIRE_AGENT_CALL_MASK) &&
           arch_host_syscall(SYS_rt_sigprocmask, ADD_MASK, (uint64_t)&signals, (uint64_t)before, SET_BYTES, 0,
                             0) == 0;
}

void agent_may_unblock(uint64_t before)
{
    arch_host_syscall(SYS_rt_sigprocmask, SET_MASK, (uint64_t)&before, 0, SET_BYTES, 0, 0);
}

uint64_t agent_may_pending(void)
{
    uint64_t set = 0;
    arch_host_syscall(SYS_rt_sigpending, (uint64_t)&set, SET_BYTES, 0, 0, 0, 0);
    return set;
}
