/* Which memory can be read, by a system call that reads a word and does nothing else: rt_sigprocmask with an
 * impossible `how` says EFAULT before it says EINVAL. That costs some 100 ns. */
#include "agent_readable.h"

#include <sys/syscall.h>

#include "agent_may.h"

#define PAGE  UINT64_C(4096)
#define FAULT (-14) /* EFAULT */

/* A filter forbids the usual call. These two read what is there, too, before they find that nothing is to be
 * done. */
static bool is_readable_otherwise(uint64_t page)
{
    const int64_t at_once[2] = {0, 0};
    if (agent_may(WIRE_AGENT_CALL_ACTION))
        return arch_host_syscall(SYS_rt_sigaction, AGENT_NO_SIGNAL, page, 0, 8, 0, 0) != FAULT;
    return agent_may(WIRE_AGENT_CALL_FUTEX) &&
           arch_host_syscall(SYS_futex, page, AGENT_FUTEX_WAIT_OWN, 1, (uint64_t)at_once, 0, 0) != FAULT;
}

bool agent_readable(uint64_t address)
{
    return agent_may(WIRE_AGENT_CALL_MASK) ? arch_host_syscall(SYS_rt_sigprocmask, UINT32_MAX,
                                                               address & ~UINT64_C(7), 0, 8, 0, 0) != FAULT
                                           : is_readable_otherwise(address & ~(PAGE - 1));
}

bool agent_readable_may_ask(void)
{
    return agent_may(WIRE_AGENT_CALL_MASK) || agent_may(WIRE_AGENT_CALL_ACTION) ||
           agent_may(WIRE_AGENT_CALL_FUTEX);
}
