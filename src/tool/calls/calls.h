/* calls.h - the collector of exact calls: processes are followed, patched, read out, and left.
 *
 *   calls_new       before the session holds anything (a helper process is forked)
 *   calls_launch    a child that waits before its exec: its program is counted from the first instruction
 *   calls_attach    a process that runs
 *   calls_step      what happened since: threads and processes created, execs, loaded objects, ends. Never
 *                   waits for the target
 *   calls_publish   running totals into the profile
 *   calls_leave     living processes are left as they were found
 *   calls_finish    everything is published
 *
 * What happens to a process follows from a few rules. One thread alone counts without locks and without gs
 * (PLAIN). When a second one is created, all sites are led to stubs with a block for each thread (THREAD);
 * where the program uses gs itself, to stubs with locked increments (LOCK). A fork child counts for itself; a
 * child that runs in its parent's memory (vfork) counts there; an exec begins anew. The doorbell of ld.so
 * announces new objects before their constructors run.
 *
 * A process that cannot be followed or patched any further goes on uncounted: a counted loss, and a notice
 * that says why. Context: tool, one thread. */
#ifndef CALLS_H
#define CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "helper.h"
#include "sample_stack.h"
#include "space_image.h"

struct calls;

struct calls_options {
    struct space_request request; /* borrowed */
    bool follow;                  /* children by fork */
    /* Nothing else reports creation, execs and ends to the table of processes: this collector does. */
    bool unpublished;
};

/* calls_helper is the helper's process: for prctl(PR_SET_PTRACER). */
int calls_new(const struct calls_options *options, struct sample_processes *processes, struct calls **made,
              struct base_error *error);
pid_t calls_helper(const struct calls *calls);
/* Another collector in the same processes, which shares the helper and is notified before calls are set up:
 * `exec`, the process is held in a new image; `objects`, the process has mapped objects, and the thread that
 * did waits; `left`, it is not followed any more, and no notification comes; `real` returns the return
 * address that a word found by a hook stands for. `client` is copied; members that are 0 are not called. */
struct calls_client {
    void (*exec)(void *context, pid_t pid);
    void (*objects)(void *context, pid_t pid);
    void (*left)(void *context, pid_t pid);
    uint64_t (*real)(void *context, pid_t pid, uint64_t address);
    void *context;
};
struct helper *calls_share(struct calls *calls);
void calls_register(struct calls *calls, const struct calls_client *client);
int calls_launch(struct calls *calls, pid_t pid, struct base_error *error);
int calls_attach(struct calls *calls, pid_t pid, struct base_error *error);

/* Readable when there is something to do; two of them. */
void calls_files(const struct calls *calls, int files[2]);

int calls_step(struct calls *calls, struct base_error *error);
/* Around a stop of tally: nothing waits for it. What was loaded meanwhile is a loss, and counted from resume
 * on. */
void calls_suspend(struct calls *calls);
void calls_resume(struct calls *calls);
void calls_publish(struct calls *calls);

/* Before the agent of a client leaves its processes: what lies over its hooks goes. */
void calls_before_agent(struct calls *calls);
/* Living processes are left; then nothing more happens in them. */
int calls_leave(struct calls *calls, struct base_error *error);
/* What has not been published yet; after the last events of other collectors were handled. */
void calls_finish(struct calls *calls);
void calls_free(struct calls *calls);

/* One line for the user, or "". */
const char *calls_notice(const struct calls *calls);

/* After calls_leave: where something stayed; the collector's. */
struct remains_left *calls_left(struct calls *calls);

/* When `pc` of process `pid` lies in a stub: turns pc and sp into what they would be without it. `word` reads
 * a word of the stack. True: the instruction at pc is one that counting added. */
bool calls_frame(struct calls *calls, pid_t pid, uint64_t *pc, uint64_t *sp, sample_word *word,
                 void *context);

#endif
