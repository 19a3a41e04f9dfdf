#include "collect_stream.h"

#include "collect_record.h"
#include "collect_time.h"
#include "collect_waits.h"
#include "wire_loss.h"

enum { REREAD_NS = 1000000000 };

int collect_stream_init(struct collect_stream *stream, struct base_error *error)
{
    int result = collect_images_init(&stream->images, stream->profile, error);
    if (result < 0)
        return result;
    stream->images.replayed = stream->replayed;
    collect_processes_init(&stream->processes, &stream->images, stream->start_ns);
    stream->processes.replayed = stream->replayed;
    return collect_sampler_init(&stream->sampler, &stream->processes, error);
}

void collect_stream_free(struct collect_stream *stream)
{
    collect_sampler_free(&stream->sampler);
    collect_processes_free(&stream->processes);
    collect_images_free(&stream->images);
}

static bool is_stranger(const struct collect_stream *stream, uint32_t pid)
{
    return stream->strangers && !collect_processes_knows(&stream->processes, (pid_t)pid);
}

void collect_stream_sample(struct collect_stream *stream, const struct collect_sample *sample)
{
    const struct collect_event_form *form = stream->form;
    if (is_stranger(stream, sample->pid))
        return;
    if (stream->time && collect_time_is_double(stream->time, (pid_t)sample->tid, sample->id))
        return;
    struct collect_process *process =
        collect_processes_get(&stream->processes, (pid_t)sample->pid, sample->time);
    if (!process) {
        profile_lose(stream->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    bool copy_short = false;
    uint32_t thread = collect_processes_thread(&stream->processes, process, (pid_t)sample->tid);
    uint32_t node = form->stacks == COLLECT_STACKS_NONE
                        ? 0
                        : collect_sampler_node(&stream->sampler, process, sample, &copy_short);
    process->samples++;
    stream->full_copies += sample->stack && sample->stack_size == sample->stack_asked;
    process->short_copies +=
        copy_short && sample->stack_asked >= form->stack_copy; /* else: of an older event */
    stream->samples++;
    uint16_t cpu = sample->cpu < PROFILE_NO_CPU ? (uint16_t)sample->cpu : PROFILE_NO_CPU;
    profile_count(stream->profile, node, thread, cpu, stream->counter, stream->sample_value, 1);
    if (stream->timeline) /* what was sampled while events were still being opened is of the beginning */
        profile_timeline_add(stream->profile,
                             sample->time > stream->start_ns ? sample->time - stream->start_ns : 0, thread,
                             node, cpu, stream->counter);
}

void collect_stream_task(struct collect_stream *stream, const struct collect_task *task, bool exited)
{
    if (exited) {
        if (stream->waits)
            collect_waits_ended(stream->waits, (pid_t)task->tid, task->time);
        collect_processes_on_exit(&stream->processes, task);
        return;
    }
    bool child = task->pid != task->parent_pid;
    if (is_stranger(stream, task->parent_pid) || (child && !stream->follow)) {
        if (child)
            collect_processes_forget(&stream->processes, (pid_t)task->pid);
        return;
    }
    stream->births++;
    if (stream->waits)
        collect_waits_born(stream->waits, (pid_t)task->tid, task->time);
    collect_processes_on_fork(&stream->processes, task);
    if (stream->time && stream->time->per_thread && (stream->follow || !child))
        collect_time_open_thread(stream->time, (pid_t)task->tid);
}

/* A mapping may have been among what was dropped: what /proc says now is better than what was heard. */
static void on_lost(struct collect_stream *stream, const struct perf_event_header *header)
{
    uint64_t lost = collect_record_lost(header);
    stream->lost += lost;
    profile_lose(stream->profile, WIRE_LOSS_RING_FULL, lost);
    if (stream->last_time - stream->last_reread < REREAD_NS)
        return;
    stream->last_reread = stream->last_time;
    collect_processes_reread(&stream->processes);
}

void collect_stream_record(struct collect_stream *stream, const struct perf_event_header *header,
                           uint64_t time)
{
    struct collect_mmap mapping;
    struct collect_sample sample;
    struct collect_task task;
    struct collect_comm comm;
    if (time < stream->last_time)
        profile_lose(stream->profile, WIRE_LOSS_CLOCK_DISORDER, 1);
    else
        stream->last_time = time;
    switch (header->type) {
    case PERF_RECORD_SAMPLE:
        if (collect_record_sample(header, stream->form->fields, stream->form->register_count, &sample))
            collect_stream_sample(stream, &sample);
        break;
    case PERF_RECORD_MMAP2:
        if (collect_record_mmap(header, &mapping) && !is_stranger(stream, mapping.pid))
            collect_processes_on_mmap(&stream->processes, &mapping, time);
        break;
    case PERF_RECORD_COMM:
        if (collect_record_comm(header, &comm) && !is_stranger(stream, comm.pid))
            collect_processes_on_comm(&stream->processes, &comm, time);
        break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        if (collect_record_task(header, &task))
            collect_stream_task(stream, &task, header->type == PERF_RECORD_EXIT);
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
