/* AArch64: the host half in C; host.S has the rest. */
#include "arch.h"

#if defined(__aarch64__) && !defined(__ILP32__) && !defined(__AARCH64EB__)
const struct arch *arch_host(void)
{
    return &arch_aarch64;
}
#endif
