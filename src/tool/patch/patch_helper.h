/* patch_helper.h - all that is done to a target by ptrace, done by a process that outlives tally.
 *
 * Tally may be killed at any instant, the target must not notice. So tally never traces: it forks a small
 * helper before, and tells it step by step what to do over a socket pair. The helper looks at the socket only
 * between steps; when it finds the other end closed, it lets every thread go and ends. A step is finished or
 * undone, never left half way, and nothing is left in the target that needs the helper: no breakpoint, no
 * trap, no changed register. What stays is what finished steps made: mappings, and changes of text that were
 * applied.
 *
 * While a target is stopped tally may be stopped itself, by ^Z for one. The helper sees that (patch_silence.h),
 * and waits PATCH_HELPER_PATIENCE_MS at most for the next step; then it lets the target go, and steps that need
 * it stopped are refused.
 *
 * The helper is in a session of its own, so that no ^C reaches it, holds no other descriptor, blocks all
 * signals, and is tally's child: its number is `pid`. Where Yama allows only a program's ancestors to trace
 * it (ptrace_scope 1), the launched program must name the helper before its exec: prctl(PR_SET_PTRACER,
 * helper.pid). The one death that can hurt the target is the helper's own, by SIGKILL, in the 50 us of an
 * injected call.
 *
 *   patch_helper_begin   forks                     patch_helper_stage    hands changes over, before anything
 *                        stops
 *   patch_helper_check   may it be done at all?    patch_helper_switch   stops, applies or undoes, lets go:
 *                        one step
 *   patch_helper_stop .. patch_helper_resume       around the calls below, which need a stopped target
 *   patch_helper_end     lets go, waits
 *
 * That is for one process at a time, and for moments. patch_trace.h follows many, for as long as a recording
 * lasts; the two do not meet: a process that is followed is refused here.
 *
 * Every function but begin and end returns BASE_OK or what the helper reported. Context: tool, one thread. */
#ifndef PATCH_HELPER_H
#define PATCH_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base_error.h"
#include "patch_memory.h"
#include "patch_stop.h"

#define PATCH_HELPER_PATIENCE_MS 2000

struct patch_trace_event;

struct patch_helper {
    pid_t pid;
    int socket; /* -1: ended */
    /* What came with answers and was not asked for yet (patch_trace_next): from `first` to `count`. */
    struct patch_trace_event *events;
    size_t event_first, event_count, event_capacity;
    bool events_lost; /* there was no memory for some; patch_trace_next says so once */
};

int patch_helper_begin(struct patch_helper *helper, struct base_error *error);

/* Lets the target go and waits until the helper has ended: then TracerPid of every thread is 0. {.socket =
 * -1} is allowed. */
void patch_helper_end(struct patch_helper *helper);

/* May `pid` be stopped? (patch_target_check, and then a stop that is let go at once.) */
int patch_helper_check(struct patch_helper *helper, pid_t pid, struct base_error *error);

struct patch_helper_stopped {
    uint64_t threads, attempts; /* patch_stop */
    uint64_t stopped_ns; /* from the first interruption to the last release; set by resume and switch */
    uint64_t lingering; /* threads still asleep in the kernel, let go as soon as they wake; set by the same */
};

/* `result` may be NULL. */
int patch_helper_stop(struct patch_helper *helper, pid_t pid, struct patch_helper_stopped *result,
                      struct base_error *error);
int patch_helper_resume(struct patch_helper *helper, struct patch_helper_stopped *result,
                        struct base_error *error);

/* Hands a list of changes over (patch_memory.h); it replaces the one before. Needs no stop, and makes stops
 * short. */
int patch_helper_stage(struct patch_helper *helper, const struct patch_memory_change *changes, size_t count,
                       struct base_error *error);
/* The staged list, wholly or not at all. The target must be stopped. */
int patch_helper_apply(struct patch_helper *helper, struct base_error *error);
int patch_helper_undo(struct patch_helper *helper, struct base_error *error);
/* Stop, apply (`on`) or undo, resume. The target must not be stopped. */
int patch_helper_switch(struct patch_helper *helper, pid_t pid, bool on, struct patch_helper_stopped *result,
                        struct base_error *error);

/* --- while the target is stopped --- */

/* Its threads; *threads is malloc'ed, the caller frees it. */
int patch_helper_threads(struct patch_helper *helper, struct patch_stop_thread **threads, size_t *count,
                         struct base_error *error);
int patch_helper_read_registers(struct patch_helper *helper, pid_t tid, struct user_regs_struct *registers,
                                struct base_error *error);
int patch_helper_write_registers(struct patch_helper *helper, pid_t tid,
                                 const struct user_regs_struct *registers, struct base_error *error);
int patch_helper_read(struct patch_helper *helper, uint64_t address, void *bytes, size_t size,
                      struct base_error *error);
int patch_helper_write(struct patch_helper *helper, uint64_t address, const void *bytes, size_t size,
                       struct base_error *error);

/* Where to map. `size` bytes within 2 GiB of every byte of low..high, or exactly at `low` when high is 0. */
struct patch_helper_room {
    uint64_t low, high, size;
    int protection; /* PROT_* */
    uint64_t data;  /* of shared memory: bytes behind them that can be written; both are whole pages then */
    bool
        data_first; /* the data lies before them wherever all lies below `low`: they come next to low..high either way */
};

/* Private zeroed memory; *address is where. */
int patch_helper_map(struct patch_helper *helper, const struct patch_helper_room *room, uint64_t *address,
                     struct base_error *error);
/* Memory shared with tally (patch_inject_share); shows as /memfd:tally in the target's maps. *file is the
 * caller's. */
int patch_helper_share(struct patch_helper *helper, const struct patch_helper_room *room, uint64_t *address,
                       int *file, struct base_error *error);
int patch_helper_unmap(struct patch_helper *helper, uint64_t address, uint64_t size,
                       struct base_error *error);
int patch_helper_protect(struct patch_helper *helper, uint64_t address, uint64_t size, int protection,
                         struct base_error *error);

#endif
