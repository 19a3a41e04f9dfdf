/* x86-64: the host half in C; host.S has the rest. */
#include "arch.h"

#if defined(__x86_64__) && !defined(__ILP32__)
const struct arch *arch_host(void)
{
    return &arch_x86_64;
}

uint64_t arch_host_ticks(void)
{
    return __builtin_ia32_rdtsc();
}
#endif
