#include "base_clock.h"

uint64_t base_clock_of(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t base_clock_now(void)
{
    return base_clock_of(CLOCK_MONOTONIC);
}
