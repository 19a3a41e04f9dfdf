#include "perf_rate.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base_clock.h"

enum { SPIN_NS = 4000000, TEST_HZ = 10000, TRIALS = 3 };

/* Work done in SPIN_NS of wall time. */
static uint64_t spin_turns(void)
{
    uint64_t turns = 0, end = base_clock_now() + SPIN_NS;
    while (base_clock_now() < end)
        turns++;
    return turns;
}

static int open_timer(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .sample_period = 1000000000 / TEST_HZ,
                                   .sample_type = PERF_SAMPLE_IP,
                                   .exclude_kernel = 1,
                                   .disabled = 1};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The least of several trials: others on the machine only make it look slower. */
static double measure_interrupt_ns(void)
{
    int timer = open_timer();
    if (timer < 0)
        return 0;
    double least = 1e9;
    for (int i = 0; i < TRIALS; i++) {
        double without = (double)spin_turns();
        ioctl(timer, PERF_EVENT_IOC_ENABLE, 0);
        double with = (double)spin_turns();
        ioctl(timer, PERF_EVENT_IOC_DISABLE, 0);
        double lost = without > 0 ? 1 - with / without : 0;
        double cost = lost * 1e9 / TEST_HZ;
        least = cost < least ? cost : least;
    }
    close(timer);
    return least > 0 ? least : 0;
}

double perf_rate_limit(double hz, double interrupt_ns)
{
    if (interrupt_ns <= 0)
        return hz;
    double limit = 0.5e9 / interrupt_ns;
    if (limit < PERF_RATE_UNTESTED)
        limit = PERF_RATE_UNTESTED;
    return hz < limit ? hz : limit;
}

double perf_rate_bearable(double hz, uint64_t *interrupt_ns)
{
    *interrupt_ns = 0;
    if (hz <= PERF_RATE_UNTESTED)
        return hz;
    double cost = measure_interrupt_ns();
    *interrupt_ns = (uint64_t)cost;
    return perf_rate_limit(hz, cost);
}
