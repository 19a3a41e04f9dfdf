#include "proc_uprobe.h"

#include <sys/uio.h>

#include "base_clock.h"
#include "proc_target.h"

#define EVERY_NS 50000000
#define SHARE    100

size_t proc_uprobe_read(pid_t pid, const uint64_t *addresses, size_t count, uint8_t *bytes)
{
    struct iovec here = {bytes, count}, there[PROC_UPROBE_AT_ONCE];
    for (size_t i = 0; i < count; i++)
        there[i] = (struct iovec){(void *)(uintptr_t)addresses[i], 1};
    ssize_t got = count ? process_vm_readv(pid, &here, 1, there, count, 0) : 0;
    if (got >= 0)
        return (size_t)got;
    size_t one_by_one = 0;
    while (one_by_one < count && proc_target_read(pid, addresses[one_by_one], &bytes[one_by_one], 1))
        one_by_one++;
    return one_by_one;
}

uint64_t proc_uprobe_next(uint64_t began)
{
    uint64_t ended = base_clock_now(), rest = (ended - began) * SHARE;
    return ended + (rest > EVERY_NS ? rest : EVERY_NS);
}
