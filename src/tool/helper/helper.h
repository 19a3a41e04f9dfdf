/* helper.h - a process that outlives tally does all that is done to a target by ptrace.
 *
 * Tally may be killed at any instant, and the target must not notice. So tally never traces: it forks a small
 * helper, and sends it one request after the other over a socket pair. The helper reads the socket only
 * between requests; when the other end is closed, it detaches every thread and ends. A request is finished or
 * undone, never left half done, and nothing is left in the target that needs the helper: no breakpoint, no
 * trap, no changed register. What stays is what finished requests made: mappings, and changes of text that
 * were applied.
 *
 * While a target is stopped tally may be stopped itself, by ^Z for example. The helper notices that
 * (helper_silence.h), and waits HELPER_TIMEOUT_MS at most for the next request; then it resumes the target,
 * and requests that need it stopped are refused.
 *
 * The helper is in a session of its own, so that no ^C reaches it, holds no other descriptor, blocks all
 * signals, and is tally's child: its number is `pid`. Where Yama allows only a program's ancestors to trace
 * it (ptrace_scope 1), the launched program must name the helper before its exec: prctl(PR_SET_PTRACER,
 * helper.pid). Only the helper's own end by SIGKILL can harm the target, in the 50 us of an injected call.
 *
 *   helper_begin                    forks
 *   helper_stop .. helper_resume    around the requests of helper_trace.h that need a stopped target, with
 *                                   `pid` 0
 *   helper_end                      resumes and detaches, waits
 *
 * That is for one process at a time, and for moments. With helper_trace.h many processes are followed, for as
 * long as a recording lasts; a process that is followed is refused here.
 *
 * Every function but begin and end returns BASE_OK or what the helper reported. Context: tool, one thread. */
#ifndef HELPER_H
#define HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base_error.h"
#include "trace_memory.h"
#include "trace_stop.h"

#define HELPER_TIMEOUT_MS 2000

struct trace_event;

struct helper {
    pid_t pid;
    int socket; /* -1: ended */
    /* Events that came with answers and that helper_trace_next has not returned yet: from event_first to
     * event_count. */
    struct trace_event *events;
    size_t event_first, event_count, event_capacity;
    bool events_lost; /* there was no memory for some; helper_trace_next reports that once */
};

int helper_begin(struct helper *helper, struct base_error *error);

/* Has the target resumed and detached, and waits until the helper has ended: then TracerPid of every thread
 * is 0. {.socket = -1} is allowed. */
void helper_end(struct helper *helper);

struct helper_stopped {
    uint64_t threads, attempts; /* trace_stop */
    uint64_t stopped_ns;        /* from the first interruption to the last release; set by helper_resume */
    uint64_t
        lingering; /* threads still asleep in the kernel, detached as soon as they wake; set by the same */
};

/* `result` may be NULL. */
int helper_stop(struct helper *helper, pid_t pid, struct helper_stopped *result, struct base_error *error);
int helper_resume(struct helper *helper, struct helper_stopped *result, struct base_error *error);

/* What to map, and where: `size` bytes within 2 GiB of every byte of low..high, or exactly at `low` when high
 * is 0. */
struct helper_room {
    uint64_t low, high, size;
    int protection; /* PROT_* */
    /* Of shared memory: bytes behind the others that can be written; both are whole pages then. `data_first`:
     * before the others, if all lies below `low`, so that the others are next to low..high either way. */
    uint64_t data;
    bool data_first;
    const char *name; /* of shared memory, which shows as /memfd:NAME in the target's maps; NULL: "tally" */
};

#endif
