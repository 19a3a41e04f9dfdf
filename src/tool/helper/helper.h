/* helper.h - all that is done to a target by ptrace, done by a process that outlives tally.
 *
 * Tally may be killed at any instant, the target must not notice. So tally never traces: it forks a small
 * helper before, and tells it step by step what to do over a socket pair. The helper looks at the socket only
 * between steps; when it finds the other end closed, it lets every thread go and ends. A step is finished or
 * undone, never left half way, and nothing is left in the target that needs the helper: no breakpoint, no
 * trap, no changed register. What stays is what finished steps made: mappings, and changes of text that were
 * applied.
 *
 * While a target is stopped tally may be stopped itself, by ^Z for one. The helper sees that (helper_silence.h),
 * and waits HELPER_TIMEOUT_MS at most for the next step; then it lets the target go, and steps that need
 * it stopped are refused.
 *
 * The helper is in a session of its own, so that no ^C reaches it, holds no other descriptor, blocks all
 * signals, and is tally's child: its number is `pid`. Where Yama allows only a program's ancestors to trace
 * it (ptrace_scope 1), the launched program must name the helper before its exec: prctl(PR_SET_PTRACER,
 * helper.pid). The one death that can hurt the target is the helper's own, by SIGKILL, in the 50 us of an
 * injected call.
 *
 *   helper_begin   forks                     helper_stage    hands changes over, before anything
 *                        stops
 *   helper_check   may it be done at all?    helper_switch   stops, applies or undoes, lets go:
 *                        one step
 *   helper_stop .. helper_resume       around the calls below, which need a stopped target
 *   helper_end     lets go, waits
 *
 * That is for one process at a time, and for moments. helper_trace.h follows many, for as long as a recording
 * lasts; the two do not meet: a process that is followed is refused here.
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
    /* What came with answers and was not asked for yet (helper_trace_next): from `first` to `count`. */
    struct trace_event *events;
    size_t event_first, event_count, event_capacity;
    bool events_lost; /* there was no memory for some; helper_trace_next says so once */
};

int helper_begin(struct helper *helper, struct base_error *error);

/* Lets the target go and waits until the helper has ended: then TracerPid of every thread is 0. {.socket =
 * -1} is allowed. */
void helper_end(struct helper *helper);

/* May `pid` be stopped? (proc_target_check, and then a stop that is let go at once.) */
int helper_check(struct helper *helper, pid_t pid, struct base_error *error);

struct helper_stopped {
    uint64_t threads, attempts; /* trace_stop */
    uint64_t stopped_ns; /* from the first interruption to the last release; set by resume and switch */
    uint64_t lingering; /* threads still asleep in the kernel, let go as soon as they wake; set by the same */
};

/* `result` may be NULL. */
int helper_stop(struct helper *helper, pid_t pid, struct helper_stopped *result, struct base_error *error);
int helper_resume(struct helper *helper, struct helper_stopped *result, struct base_error *error);

/* Hands a list of changes over (trace_memory.h); it replaces the one before. Needs no stop, and makes stops
 * short. */
int helper_stage(struct helper *helper, const struct trace_memory_change *changes, size_t count,
                 struct base_error *error);
/* The staged list, wholly or not at all. The target must be stopped. */
int helper_apply(struct helper *helper, struct base_error *error);
int helper_undo(struct helper *helper, struct base_error *error);
/* Stop, apply (`on`) or undo, resume. The target must not be stopped. */
int helper_switch(struct helper *helper, pid_t pid, bool on, struct helper_stopped *result,
                  struct base_error *error);

/* --- while the target is stopped --- */

/* Its threads; *threads is malloc'ed, the caller frees it. */
int helper_threads(struct helper *helper, struct trace_stop_thread **threads, size_t *count,
                   struct base_error *error);
int helper_read_registers(struct helper *helper, pid_t tid, struct user_regs_struct *registers,
                          struct base_error *error);
int helper_write_registers(struct helper *helper, pid_t tid, const struct user_regs_struct *registers,
                           struct base_error *error);
int helper_read(struct helper *helper, uint64_t address, void *bytes, size_t size, struct base_error *error);
int helper_write(struct helper *helper, uint64_t address, const void *bytes, size_t size,
                 struct base_error *error);

/* Where to map. `size` bytes within 2 GiB of every byte of low..high, or exactly at `low` when high is 0. */
struct helper_room {
    uint64_t low, high, size;
    int protection; /* PROT_* */
    uint64_t data;  /* of shared memory: bytes behind them that can be written; both are whole pages then */
    bool
        data_first; /* the data lies before them wherever all lies below `low`: they come next to low..high either way */
};

/* Private zeroed memory; *address is where. */
int helper_map(struct helper *helper, const struct helper_room *room, uint64_t *address,
               struct base_error *error);
/* Memory shared with tally (trace_inject_share); shows as /memfd:tally in the target's maps. *file is the
 * caller's. */
int helper_share(struct helper *helper, const struct helper_room *room, uint64_t *address, int *file,
                 struct base_error *error);
int helper_unmap(struct helper *helper, uint64_t address, uint64_t size, struct base_error *error);
int helper_protect(struct helper *helper, uint64_t address, uint64_t size, int protection,
                   struct base_error *error);

#endif
