/* collect_calls.h - the collector of exact calls: processes are followed, patched, read out, and left.
 *
 *   collect_calls_new      before the session holds anything (a helper process is forked)
 *   collect_calls_launch   a child that waits before its exec: its program is counted from the first
 *                          instruction
 *   collect_calls_attach   a process that runs
 *   collect_calls_step     whatever happened since: births, forks, execs, loaded objects, ends. Never waits
 *                          for the target
 *   collect_calls_tell     running totals into the profile
 *   collect_calls_finish   living processes are left as they were found, and everything is told
 *
 * What happens to a process follows from a few rules. One thread alone counts without locks and without gs
 * (PLAIN). When a second one is born, all sites are led to stubs with a block for each thread (THREAD); where
 * the program uses gs itself, to stubs with locked increments (LOCK). A fork child counts for itself; who
 * runs in its parent's memory (vfork) counts there; an exec begins anew. ld.so's bell announces new objects
 * before their constructors run.
 *
 * A process that cannot be followed or patched any further goes on uncounted: a counted loss, and a notice
 * that says why. Context: tool, one thread. */
#ifndef COLLECT_CALLS_H
#define COLLECT_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "collect_calls_image.h"
#include "collect_process.h"
#include "patch_helper.h"

struct collect_calls;

struct collect_calls_options {
    struct collect_calls_wish wish; /* borrowed */
    bool follow;                    /* children by fork */
    bool
        untold; /* nothing else tells the processes' table of births, execs and ends: they are told from here */
};

/* The helper's process is calls_helper_pid's: for prctl(PR_SET_PTRACER). */
int collect_calls_new(const struct collect_calls_options *options, struct collect_processes *processes,
                      struct collect_calls **made, struct base_error *error);
pid_t collect_calls_helper(const struct collect_calls *calls);
/* Its helper, for another collector in the same processes, who is told before calls are set up: `exec`, the
 * process is held in a new image; `objects`, the process has mapped objects, and who did waits; `left`,
 * nothing of it is told any more; and who is asked what a return address really is that a hook found
 * (`real`). `guest` is copied; whoever is 0 is not told. */
struct collect_calls_guest {
    void (*exec)(void *context, pid_t pid);
    void (*objects)(void *context, pid_t pid);
    void (*left)(void *context, pid_t pid);
    uint64_t (*real)(void *context, pid_t pid, uint64_t address);
    void *context;
};
struct patch_helper *collect_calls_share(struct collect_calls *calls);
void collect_calls_invite(struct collect_calls *calls, const struct collect_calls_guest *guest);
int collect_calls_launch(struct collect_calls *calls, pid_t pid, struct base_error *error);
int collect_calls_attach(struct collect_calls *calls, pid_t pid, struct base_error *error);

/* Readable when there is something to do; two of them. */
void collect_calls_files(const struct collect_calls *calls, int files[2]);

int collect_calls_step(struct collect_calls *calls, struct base_error *error);
/* Around a stop of tally: nothing waits for it. What was loaded meanwhile is a loss, and counted from resume on. */
void collect_calls_suspend(struct collect_calls *calls);
void collect_calls_resume(struct collect_calls *calls);
void collect_calls_tell(struct collect_calls *calls);

/* Before an agent that is a guest leaves its processes: what lies over its hooks goes. */
void collect_calls_before_agent(struct collect_calls *calls);
/* Living processes are left; then nothing more happens. */
int collect_calls_leave(struct collect_calls *calls, struct base_error *error);
/* What has not been told yet; after the last events of other collectors were worked on. */
void collect_calls_finish(struct collect_calls *calls);
void collect_calls_free(struct collect_calls *calls);

/* One line worth telling, or "". */
const char *collect_calls_notice(const struct collect_calls *calls);

/* After collect_calls_leave: where something stayed; the collector's. */
struct collect_left *collect_calls_left(struct collect_calls *calls);

/* When `pc` of process `pid` lies in a stub: turns pc and sp into what they would be without it. `word` reads
 * a word of the stack; False: pc is not in a stub. */
typedef bool collect_calls_word(void *context, uint64_t address, uint64_t *value);
bool collect_calls_frame(struct collect_calls *calls, pid_t pid, uint64_t *pc, uint64_t *sp,
                         collect_calls_word *word, void *context);

#endif
