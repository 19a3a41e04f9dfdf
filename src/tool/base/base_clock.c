#include "base_clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base_error.h"

#define SECOND 1000000000u

uint64_t base_clock_of(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

uint64_t base_clock_now(void)
{
    return base_clock_of(CLOCK_MONOTONIC);
}

void base_clock_sleep(uint64_t ns)
{
    const struct timespec rest = {(time_t)(ns / SECOND), (long)(ns % SECOND)};
    const uint32_t word = 0;
    if (!nanosleep(&rest, NULL) || !base_error_is_refusal(errno))
        return;
    if (!ppoll(NULL, 0, &rest, NULL) || !base_error_is_refusal(errno))
        return;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &rest, NULL, 0);
}
