#include "helper_silence.h"

#include <unistd.h>

#include "base_clock.h"
#include "helper.h"
#include "proc_target.h"

#define MILLISECOND UINT64_C(1000000)
#define LOOK_NS     (5 * MILLISECOND) /* between two looks; a request that is younger needs none */
#define COUNTED_NS  (4 * LOOK_NS)     /* at most, of the time between two looks, against tally */
#define NS          INT64_C(1000000000)

void helper_silence_begin(struct helper_silence *silence, pid_t tally)
{
    *silence = (struct helper_silence){.tally = tally};
    silence->has_clock = clock_getcpuclockid(tally, &silence->clock) == 0;
}

/* How long it may use no processor, as it is now. */
static uint64_t idle_ns(pid_t tally)
{
    struct proc_target_facts facts;
    char state = proc_target_facts(tally, tally, &facts) == BASE_OK ? facts.state : 0;
    if (state == 'T')
        return HELPER_SILENCE_STOPPED_MS * MILLISECOND;
    return (state == 't' ? HELPER_SILENCE_TRACED_MS : HELPER_SILENCE_IDLE_MS) * MILLISECOND;
}

/* Without its clock it is taken to work, and the longest patience is the only one. */
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

static uint64_t look(struct helper_silence *silence, uint64_t asked, uint64_t now)
{
    const uint64_t patience = HELPER_TIMEOUT_MS * MILLISECOND;
    uint64_t gap = now - silence->looked_ns;
    silence->looked_ns = now;
    if (has_worked(silence))
        silence->worked_ns = now;
    else if (gap > COUNTED_NS) /* the helper itself, or the machine, stood still */
        silence->worked_ns += gap - COUNTED_NS;
    uint64_t last = asked > silence->worked_ns ? asked : silence->worked_ns;
    /* One that works between two looks was not stopped all the time: under strace it stops at each call. */
    uint64_t idle = idle_ns(silence->tally);
    if (now - last >= idle)
        return now - idle;
    return now - asked >= patience ? now - patience : 0;
}

uint64_t helper_silence_deadline(struct helper_silence *silence, uint64_t asked)
{
    uint64_t now = base_clock_now();
    if (silence->alone)
        return now;
    if (!silence->watched || now - asked < LOOK_NS || now - silence->looked_ns < LOOK_NS)
        return 0;
    return look(silence, asked, now);
}

void helper_silence_found(struct helper_silence *silence)
{
    silence->alone = true;
}

void helper_silence_end(struct helper_silence *silence)
{
    silence->alone = false;
}
