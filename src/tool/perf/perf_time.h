/* perf_time.h - the time collector's events: how many, at which periods, on which threads and CPUs.
 *
 * Randomised intervals. A fixed sampling period makes the stated margin of error false for a program that
 * has the same period (doc/design.md). Redrawing the period after each sample would cost a wake-up of Tally
 * per sample. Instead every CPU of a target gets a *set* of PERF_TIME_SET events whose periods are drawn at
 * random, unrelated to each other, and scaled so that together they fire at exactly the rate; they are drawn
 * anew at a random moment some 20 ms after the start, so that their phase is unrelated to the program's start
 * as well. Each event is an arithmetic progression with a random step and a random phase: for a program of
 * any period T two of its samples are pairwise independent as soon as the step is spread over a multiple of
 * T, so the variance of a share is the binomial one that Wilson's interval assumes; where the step is much
 * smaller than T, samples are spread more evenly than independent ones. Coverage of the 95 % interval is
 * tested by simulation (tests/unit/perf) and on a program (tests/system). Intervals between the samples of
 * one event are 0.7 to 1.9 times set / rate; the mean over all is 1 / rate. All events of a set count all the
 * time, so every sample stands for 1 / rate.
 *
 * Drawing again. A variance that is right on average hides draws that are far off: a step that happens to be
 * near a simple fraction of a multiple of T meets the same few places of it for a whole run, in 2 of 100 runs
 * badly enough for a comparison (tally diff) to be sure of a change that is none. So the periods of a set are
 * drawn again after every 32 samples of it, later after every 64th of all it took: a run is then made of many
 * draws, and a bad one is a small part. An event that is given a period begins it anew and forgets half of
 * the old one on average. That is 1 sample in 32 at most, the same for a thread that rarely runs as for one
 * that always does, since it is samples that are counted, and the rate that is drawn makes up for it.
 * What a thread or process inherits has the periods that its creator had at that moment, and keeps them: the
 * kernel lets no one change the period of an inherited event.
 *
 * Thread and process creation. An inherited event begins its period in every new thread: one that runs
 * shorter than a period is never sampled, and a program of many short threads or processes would hardly be
 * seen. Where they are many, and where it is allowed, CPUs are sampled instead, for the target's processes
 * only (perf_filter.h): one phase for all that runs there, whichever thread it is.
 *
 * Descriptors. Following threads and children needs inherited events, which must be bound to a CPU to be
 * mapped: threads x CPUs x set. When that does not fit into the (raised) limit the set shrinks to one event,
 * then it is one event a thread for any CPU, with a ring of its own; events of threads created later are
 * then opened as these are discovered. Context: tool, one thread. */
#ifndef PERF_TIME_H
#define PERF_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base_error.h"
#include "base_map.h"
#include "perf_event.h"
#include "perf_filter.h"
#include "perf_ring.h"

#define PERF_TIME_SET 2
#define PERF_TIME_DUE 64 /* sets that are drawn again in one step; what is beyond waits for its next sample */

struct perf_time_event {
    int fd, cpu;
    uint64_t id, period; /* ns; the period is kept for the test, which plays the kernel */
    pid_t tid;           /* -1: a CPU's */
    bool superseded;
    size_t set;        /* index of the first event of its set */
    unsigned set_size; /* of the first event of a set: how many there are; of the others 0 */
    uint64_t samples;  /* of the first event: what the whole set took, of its own thread */
    uint64_t taken;    /* since its periods were drawn, at drawn_ns */
    uint64_t drawn_ns;
    bool due; /* of the first event: to be drawn again */
};

struct perf_time {
    struct perf_event_form form;
    double rate_hz;
    unsigned set_size; /* events a target and CPU */
    bool per_thread;   /* one event a thread, any CPU */
    int *cpus;         /* those to record on */
    size_t cpu_count;
    struct perf_time_event *events;
    size_t event_count, event_capacity;
    struct base_map ring_of_cpu; /* cpu -> index into events of the one that owns the CPU's ring */
    struct base_map event_of;    /* event id -> index into events */
    size_t replaced;             /* events below this index say nothing of doubles: they are being replaced */
    size_t due[PERF_TIME_DUE];   /* sets that took enough samples since they were drawn */
    size_t due_count;
    struct base_map opened; /* tid -> 1: has events of its own; 0: had, they are closed */
    struct perf_rings *rings;
    size_t ring_size;                 /* bytes, of a CPU's ring */
    size_t thread_ring_size;          /* bytes, of a thread's ring */
    uint64_t unseen;                  /* threads that could not be opened */
    uint64_t random;                  /* state of the generator */
    struct rlimit descriptors;        /* as they were; 0 if that is not known */
    rlim_t descriptor_limit;          /* as it is now */
    int cgroup;                       /* of perf_time_open_cpus */
    const struct perf_filter *filter; /* processes for which a CPU's events fire; NULL: all */
};

/* Draws the periods of one set: count random periods (ns) whose rates add up to rate_hz. Exposed for its
 * test. */
void perf_time_periods(uint64_t *random, double rate_hz, unsigned count, uint64_t *periods);

/* Finds out what is allowed and which CPUs there are, raises the descriptor limit. `cpus`: "0,2-5" or NULL.
 */
int perf_time_init(struct perf_time *time, struct perf_rings *rings, const char *cpus,
                   struct base_error *error);
void perf_time_free(struct perf_time *time);

/* A process about to call exec: its one thread, on every CPU, starting by itself. */
int perf_time_open_child(struct perf_time *time, pid_t pid, struct base_error *error);

/* Which processes are to be recorded, now: a malloc'd list, asked for again until nothing new is on it. */
typedef size_t perf_time_list(void *context, pid_t **pids);

/* All threads of running processes; rescans until no new ones appear. Events start disabled. */
int perf_time_open_processes(struct perf_time *time, perf_time_list *list, void *context,
                             struct base_error *error);

/* Every process of the machine, or (cgroup >= 0, a descriptor of its directory) of a cgroup. */
int perf_time_open_cpus(struct perf_time *time, int cgroup, struct base_error *error);

/* One more thread, in the mode of one event a thread; it starts at once. */
void perf_time_open_thread(struct perf_time *time, pid_t tid);

/* A sample of `tid` came from event `id`: false when this thread is covered twice, by an event of its own
 * and by one inherited from a thread opened earlier (it was created while threads were being opened); its
 * own is closed then. */
bool perf_time_take(struct perf_time *time, pid_t tid, uint64_t id);

/* Draws the periods of all events anew. `now`: base_clock_now(). */
void perf_time_redraw(struct perf_time *time, uint64_t now);

/* Those of the sets that took enough samples since they were drawn. To be called in every step. */
void perf_time_redraw_due(struct perf_time *time, uint64_t now);

void perf_time_enable(struct perf_time *time);
void perf_time_disable(struct perf_time *time);

/* From now on stacks are copied up to `bytes`: opens new events beside the old, on all threads of the
 * processes listed (`list` NULL: on the CPUs again), then switches over. On failure everything stays as it
 * was. */
int perf_time_grow_copy(struct perf_time *time, uint32_t bytes, perf_time_list *list, void *context,
                        struct base_error *error);

/* From now on whole CPUs are sampled, for the processes in the filter's table: opens those events beside the
 * old, lets `enter` fill the table (false: give up), then switches over. On failure everything stays as it
 * was. The filter belongs to the caller and must outlive the events. */
int perf_time_switch_to_cpus(struct perf_time *time, const struct perf_filter *filter,
                             bool (*enter)(void *context), void *context, struct base_error *error);

/* One line for the profile: how intervals were randomised. */
void perf_time_describe(const struct perf_time *time, char *text, size_t size);

#endif
