/* waits.h - time.real: what of a thread's time is not on a CPU, seen from outside.
 *
 * A timer that ran while a thread waits would end its system call with EINTR, and a sample a switch would
 * cost every switch. So time on CPUs is sampled as ever, and a waiting thread is only *looked at*, some
 * milliseconds apart, at random:
 *
 *   how long   /proc/PID/task/TID/schedstat has the ns a thread has run and was queued for a CPU, and how
 *              often it was let run. What is left of the time that passed it has waited. Of a thread that
 *              waits these are exact, so that their sum is, too.
 *   where      /proc/PID/task/TID/syscall has its program counter and stack pointer, and its stack stands
 *              still: it is read from its memory and walked (waits_frame.h finds the frame pointer).
 *              If it was let run meanwhile nothing of that counts. Where it waits is looked up again only
 *              after it has run.
 *
 * What a thread that ran has waited between two looks that find it waiting is half of the place's where the
 * first finds it, half of the second's. So of a long wait no more is uncertain than two looks are apart, and
 * of short ones the places are a sample, with the amounts known. Where all CPUs are busy Tally is scheduled
 * when another thread begins to wait, and short waits behind work seem longer than they are. Time queued for
 * a CPU is "(waiting for a CPU)". What a thread did before the first look at it and after the last one is
 * not known: WIRE_LOSS_WAIT_UNSEEN is the most that can be. Where the kernel does not let look (Yama,
 * another user's program), the time has no stack, and is WIRE_LOSS_WAIT_REFUSED.
 *
 * A look costs 5 us a thread, 30 us more when the thread has run since the last; looks are so far apart that
 * they take no more than a twentieth of a CPU. The target is not touched. Context: tool, one thread. Source:
 * proc(5); kernel Documentation/scheduler/sched-stats.rst. */
#ifndef WAITS_H
#define WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "perf_event.h"
#include "sample_stack.h"

struct waits;

struct waits_options {
    struct sample_stacks *sampler; /* of the session, as is what it points to */
    enum perf_stacks stacks;
    uint16_t counter; /* of the sampler's profile */
};

/* BASE_EUNSUPPORTED: this kernel has no account of waiting threads. */
int waits_new(const struct waits_options *options, struct waits **made, struct base_error *error);
void waits_free(struct waits *waits);

/* A command is released at `now` (CLOCK_MONOTONIC): what it waits until the first look is a loss. Those
 * that run already begin with the look. */
void waits_begin(struct waits *waits, uint64_t now);

/* When the next look is due (CLOCK_MONOTONIC). */
uint64_t waits_due(const struct waits *waits);

/* Looks at all threads of the running processes. The first look begins the account of those that are
 * there. */
void waits_look(struct waits *waits);

/* A thread, or a process's first one, was created or has ended, at that time (CLOCK_MONOTONIC); in this
 * order. What it may have waited unseen, before it was first looked at and after it was last, is known by
 * that. */
void waits_created(struct waits *waits, pid_t tid, uint64_t time);
void waits_ended(struct waits *waits, pid_t tid, uint64_t time);

/* Since the last look Tally has held programs, as it does to load an agent: what threads that ran have waited
 * since is not theirs. */
void waits_busy(struct waits *waits);

/* What there is to say at the end, and the losses, go into the profile. */
void waits_finish(struct waits *waits);

/* How often a thread was found waiting. */
uint64_t waits_samples(const struct waits *waits);

#endif
