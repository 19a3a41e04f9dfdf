#include "sample_stream.h"

#include "perf_record.h"
#include "perf_time.h"
#include "wire_loss.h"

enum { REREAD_NS = 1000000000 };

int sample_stream_init(struct sample_stream *stream, struct base_error *error)
{
    int result = sample_images_init(&stream->images, stream->profile, error);
    if (result < 0)
        return result;
    stream->images.replayed = stream->replayed;
    sample_processes_init(&stream->processes, &stream->images, stream->start_ns);
    stream->processes.replayed = stream->replayed;
    return sample_stacks_init(&stream->sampler, &stream->processes, error);
}

void sample_stream_free(struct sample_stream *stream)
{
    sample_stacks_free(&stream->sampler);
    sample_processes_free(&stream->processes);
    sample_images_free(&stream->images);
}

static bool is_other(const struct sample_stream *stream, uint32_t pid)
{
    return stream->others && !sample_processes_knows(&stream->processes, (pid_t)pid);
}

void sample_stream_sample(struct sample_stream *stream, const struct perf_sample *sample)
{
    const struct perf_event_form *form = stream->form;
    if (is_other(stream, sample->pid))
        return;
    if (stream->time && !perf_time_take(stream->time, (pid_t)sample->tid, sample->id))
        return;
    struct sample_process *process =
        sample_processes_get(&stream->processes, (pid_t)sample->pid, sample->time);
    if (!process) {
        profile_lose(stream->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    bool copy_short = false;
    uint32_t thread = sample_processes_thread(&stream->processes, process, (pid_t)sample->tid);
    uint32_t node = form->stacks == PERF_STACKS_NONE
                        ? 0
                        : sample_stacks_node(&stream->sampler, process, sample, &copy_short);
    process->samples++;
    stream->full_copies += sample->stack && sample->stack_size == sample->stack_asked;
    process->short_copies +=
        copy_short && sample->stack_asked >= form->stack_copy; /* else: of an older event */
    stream->samples++;
    uint16_t cpu = sample->cpu < PROFILE_NO_CPU ? (uint16_t)sample->cpu : PROFILE_NO_CPU;
    profile_count(stream->profile, (struct profile_key){node, thread, cpu, stream->counter},
                  stream->sample_value, 1);
    if (stream->timeline) /* what was sampled while events were still being opened is of the beginning */
        profile_timeline_add(stream->profile,
                             sample->time > stream->start_ns ? sample->time - stream->start_ns : 0, thread,
                             node, cpu, stream->counter);
}

void sample_stream_task(struct sample_stream *stream, const struct perf_task *task, bool exited)
{
    if (exited) {
        if (stream->watcher.ended)
            stream->watcher.ended(stream->watcher.context, (pid_t)task->tid, task->time);
        sample_processes_on_exit(&stream->processes, task);
        return;
    }
    bool child = task->pid != task->parent_pid;
    if (is_other(stream, task->parent_pid) || (child && !stream->follow)) {
        if (child)
            sample_processes_forget(&stream->processes, (pid_t)task->pid);
        return;
    }
    stream->creations++;
    if (stream->watcher.created)
        stream->watcher.created(stream->watcher.context, (pid_t)task->tid, task->time);
    sample_processes_on_fork(&stream->processes, task);
    if (stream->time && stream->time->per_thread && (stream->follow || !child))
        perf_time_open_thread(stream->time, (pid_t)task->tid);
}

/* A mapping may have been among what was dropped: what /proc says now is better than what the records
 * said. */
static void on_lost(struct sample_stream *stream, const struct perf_event_header *header)
{
    uint64_t lost = perf_record_lost(header);
    stream->lost += lost;
    profile_lose(stream->profile, WIRE_LOSS_RING_FULL, lost);
    if (stream->last_time - stream->last_reread < REREAD_NS)
        return;
    stream->last_reread = stream->last_time;
    sample_processes_reread(&stream->processes);
}

void sample_stream_record(struct sample_stream *stream, const struct perf_event_header *header, uint64_t time)
{
    struct perf_mmap mapping;
    struct perf_sample sample;
    struct perf_task task;
    struct perf_comm comm;
    if (time < stream->last_time)
        profile_lose(stream->profile, WIRE_LOSS_CLOCK_DISORDER, 1);
    else
        stream->last_time = time;
    switch (header->type) {
    case PERF_RECORD_SAMPLE:
        if (perf_record_sample(header, stream->form->fields, stream->form->register_count, &sample))
            sample_stream_sample(stream, &sample);
        break;
    case PERF_RECORD_MMAP2:
        if (perf_record_mmap(header, &mapping) && !is_other(stream, mapping.pid))
            sample_processes_on_mmap(&stream->processes, &mapping, time);
        break;
    case PERF_RECORD_COMM:
        if (perf_record_comm(header, &comm) && !is_other(stream, comm.pid))
            sample_processes_on_comm(&stream->processes, &comm, time);
        break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        if (perf_record_task(header, &task))
            sample_stream_task(stream, &task, header->type == PERF_RECORD_EXIT);
        break;
    case PERF_RECORD_LOST:
    case PERF_RECORD_LOST_SAMPLES:
        on_lost(stream, header);
        break;
    case PERF_RECORD_THROTTLE:
        profile_lose(stream->profile, WIRE_LOSS_THROTTLED, 1);
        break;
    default:
        break;
    }
}
