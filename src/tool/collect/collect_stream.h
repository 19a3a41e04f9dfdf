/* collect_stream.h - perf records in, counters on the tree out: the part of a session that knows no rings and
 * opens no events, so that captured records can be replayed through the very same code (bench/bench_replay).
 *
 * Records must come in the order of time.
 * Context: tool, one thread. */
#ifndef COLLECT_STREAM_H
#define COLLECT_STREAM_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "collect_event.h"
#include "collect_image.h"
#include "collect_process.h"
#include "collect_sample.h"
#include "profile.h"

struct collect_time;
struct collect_waits;

struct collect_stream {
    struct profile *profile;
    const struct collect_event_form *form; /* how records are laid out */
    struct collect_time *time;             /* told of new threads; NULL when nothing is recorded live */
    struct collect_waits *waits;           /* told of new threads and of ends; NULL: nobody looks at waits */
    bool follow, timeline;
    bool replayed;  /* records of another time: nothing is asked of processes that live now */
    bool strangers; /* records of other processes come in as well: they are to be left out */
    uint16_t counter;
    int64_t sample_value; /* ns that one sample stands for */
    uint64_t start_ns, last_time, last_reread;
    uint64_t samples, lost;
    uint64_t births;      /* of threads and processes */
    uint64_t full_copies; /* of stacks: these go on above, or their memory does */
    struct collect_images images;
    struct collect_processes processes;
    struct collect_sampler sampler;
};

/* The members above `samples` are set by the caller before. */
int collect_stream_init(struct collect_stream *stream, struct base_error *error);
void collect_stream_free(struct collect_stream *stream);

/* The same of records that others have read: a sample, which counts `value` in `counter`, and what has become
 * of a thread. */
void collect_stream_sample(struct collect_stream *stream, const struct collect_sample *sample);
void collect_stream_task(struct collect_stream *stream, const struct collect_task *task, bool exited);

void collect_stream_record(struct collect_stream *stream, const struct perf_event_header *header,
                           uint64_t time);

#endif
