#include "patch_probe.h"

#include <sys/uio.h>

#include "patch_target.h"

#define EVERY_NS 50000000
#define SHARE    100

size_t patch_probe_read(pid_t pid, const uint64_t *addresses, size_t count, uint8_t *bytes)
{
    struct iovec here = {bytes, count}, there[PATCH_PROBE_AT_ONCE];
    for (size_t i = 0; i < count; i++)
        there[i] = (struct iovec){(void *)(uintptr_t)addresses[i], 1};
    ssize_t got = count ? process_vm_readv(pid, &here, 1, there, count, 0) : 0;
    if (got >= 0)
        return (size_t)got;
    size_t one_by_one = 0;
    while (one_by_one < count && patch_target_read(pid, addresses[one_by_one], &bytes[one_by_one], 1))
        one_by_one++;
    return one_by_one;
}

uint64_t patch_probe_next(uint64_t began)
{
    uint64_t ended = patch_target_now(), rest = (ended - began) * SHARE;
    return ended + (rest > EVERY_NS ? rest : EVERY_NS);
}
