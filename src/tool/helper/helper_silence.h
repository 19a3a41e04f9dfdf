/* helper_silence.h - how long the helper lets a target wait for tally: not at all while tally can do nothing,
 * and not for long while it does nothing.
 *
 * Tally is *silent* when it has used no processor for
 *   HELPER_SILENCE_STOPPED_MS   and is stopped by a signal (^Z, SIGSTOP), as /proc says
 *   HELPER_SILENCE_TRACED_MS    and is stopped by a tracer: strace stops it at each call, and may be late
 *   HELPER_SILENCE_IDLE_MS      in a frozen control group, without a processor, or waiting for a file system
 * or when it has sent no request for HELPER_TIMEOUT_MS, however busy. What waits for it then goes on, and
 * until its next request nothing waits for it any more. Context: helper, one thread. Source:
 * clock_getcpuclockid(3). */
#ifndef HELPER_SILENCE_H
#define HELPER_SILENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define HELPER_SILENCE_IDLE_MS    500
#define HELPER_SILENCE_TRACED_MS  200
#define HELPER_SILENCE_STOPPED_MS 100

struct helper_silence {
    pid_t tally;
    clockid_t clock; /* its time on processors; only if has_clock */
    bool has_clock;
    bool watched; /* something waits for tally: set by the owner */
    bool alone;   /* it was silent and has sent no request since: nothing waits for it */
    int64_t spent_ns;
    uint64_t checked_ns, worked_ns; /* monotonic: the last check, and the last that found it had worked */
};

void helper_silence_begin(struct helper_silence *silence, pid_t tally);

/* What waits for tally since before this time (monotonic ns) must go on; 0: nothing must. `requested`: the
 * time of tally's last request. */
uint64_t helper_silence_deadline(struct helper_silence *silence, uint64_t requested);

/* Something went on without tally. */
void helper_silence_found(struct helper_silence *silence);
/* Tally has sent a request. */
void helper_silence_end(struct helper_silence *silence);

#endif
