#include "helper_silence.h"

#include "base_clock.h"
#include "helper.h"
#include "proc_target.h"

#define MILLISECOND UINT64_C(1000000)
#define CHECK_NS    (5 * MILLISECOND) /* between two checks; after a request that is younger none is made */
#define COUNTED_NS  (4 * CHECK_NS)    /* at most, of the time between two checks, as idle time of tally */
#define NS          INT64_C(1000000000)

void helper_silence_begin(struct helper_silence *silence, pid_t tally)
{
    *silence = (struct helper_silence){.tally = tally};
    silence->has_clock = clock_getcpuclockid(tally, &silence->clock) == 0;
}

/* How long tally may use no processor in its present state. */
static uint64_t idle_ns(pid_t tally)
{
    struct proc_target_facts facts;
    char state = proc_target_facts(tally, tally, &facts) == BASE_OK ? facts.state : 0;
    if (state == 'T')
        return HELPER_SILENCE_STOPPED_MS * MILLISECOND;
    return (state == 't' ? HELPER_SILENCE_TRACED_MS : HELPER_SILENCE_IDLE_MS) * MILLISECOND;
}

/* Without its clock tally is taken to work, and only the longest timeout applies. */
static bool has_worked(struct helper_silence *silence)
{
    struct timespec time;
    if (!silence->has_clock || clock_gettime(silence->clock, &time))
        return true;
    int64_t spent = time.tv_sec * NS + time.tv_nsec;
    bool worked = spent != silence->spent_ns;
    silence->spent_ns = spent;
    return worked;
}

static uint64_t find_deadline(struct helper_silence *silence, uint64_t requested, uint64_t now)
{
    const uint64_t timeout = HELPER_TIMEOUT_MS * MILLISECOND;
    uint64_t gap = now - silence->checked_ns;
    silence->checked_ns = now;
    if (has_worked(silence))
        silence->worked_ns = now;
    else if (gap > COUNTED_NS) /* the helper itself, or the machine, did not run */
        silence->worked_ns += gap - COUNTED_NS;
    uint64_t last = requested > silence->worked_ns ? requested : silence->worked_ns;
    /* A tally that works between two checks was not stopped all the time: under strace it stops at each
     * call. */
    uint64_t idle = idle_ns(silence->tally);
    if (now - last >= idle)
        return now - idle;
    return now - requested >= timeout ? now - timeout : 0;
}

uint64_t helper_silence_deadline(struct helper_silence *silence, uint64_t requested)
{
    uint64_t now = base_clock_now();
    if (silence->alone)
        return now;
    if (!silence->watched || now - requested < CHECK_NS || now - silence->checked_ns < CHECK_NS)
        return 0;
    return find_deadline(silence, requested, now);
}

void helper_silence_found(struct helper_silence *silence)
{
    silence->alone = true;
}

void helper_silence_end(struct helper_silence *silence)
{
    silence->alone = false;
}
