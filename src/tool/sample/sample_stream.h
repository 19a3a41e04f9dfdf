/* sample_stream.h - perf records in, counters on the tree out: the part of a session that knows no rings and
 * opens no events, so that captured records can be replayed through the very same code (bench/bench_replay).
 *
 * Records must come in the order of time.
 * Context: tool, one thread. */
#ifndef SAMPLE_STREAM_H
#define SAMPLE_STREAM_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "perf_event.h"
#include "profile.h"
#include "sample_image.h"
#include "sample_process.h"
#include "sample_stack.h"

struct perf_time;

/* Is notified of threads: when one has been created, and when one has ended. NULL: there is none. */
struct sample_watcher {
    void (*created)(void *context, pid_t tid, uint64_t time_ns);
    void (*ended)(void *context, pid_t tid, uint64_t time_ns);
    void *context;
};

struct sample_stream {
    struct profile *profile;
    const struct perf_event_form *form; /* how records are laid out */
    struct perf_time *time;             /* notified of new threads; NULL when nothing is recorded live */
    struct sample_watcher watcher;      /* notified of new threads and of ends */
    bool follow, timeline;
    bool replayed; /* records of another time: nothing is asked of processes that run now */
    bool others;   /* records of other processes come in as well: they are to be left out */
    uint16_t counter;
    int64_t sample_value; /* ns that one sample stands for */
    uint64_t start_ns, last_time, last_reread;
    uint64_t samples, lost;
    uint64_t creations;   /* of threads and processes */
    uint64_t full_copies; /* of stacks: these go on above, or their memory does */
    struct sample_images images;
    struct sample_processes processes;
    struct sample_stacks sampler;
};

/* The members above `samples` are set by the caller before. */
int sample_stream_init(struct sample_stream *stream, struct base_error *error);
void sample_stream_free(struct sample_stream *stream);

void sample_stream_record(struct sample_stream *stream, const struct perf_event_header *header,
                          uint64_t time);
/* For records that others have read: a sample, which counts stream->sample_value in stream->counter, and what
 * became of a thread. */
void sample_stream_sample(struct sample_stream *stream, const struct perf_sample *sample);
void sample_stream_task(struct sample_stream *stream, const struct perf_task *task, bool exited);

#endif
