/* AArch64: the host half in C; host.S has the rest. */
#include "arch.h"

#if defined(__aarch64__) && !defined(__ILP32__) && !defined(__AARCH64EB__)
const struct arch *arch_host(void)
{
    return &arch_aarch64;
}

uint64_t arch_host_ticks(void)
{
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
#endif
