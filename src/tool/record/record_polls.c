/* What a step waits for: the descriptors of collectors, of the processes that are recorded, and of rings. */
#include "record_inside.h"

#include <poll.h>

#include "base_array.h"
#include "perf_time.h"
#include "proc_ended.h"

bool record_add_poll(struct record_session *session, int fd)
{
    if (!base_array_room(session->polled, session->polled_count, session->polled_capacity))
        return false;
    session->polled[session->polled_count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    return true;
}

void record_poll_process(struct record_session *session, pid_t pid)
{
    struct proc_ended target;
    if (!base_array_room(session->targets, session->target_count, session->target_capacity) ||
        !proc_ended_begin(&target, pid))
        return;
    if (!record_add_poll(session, target.file)) {
        proc_ended_close(&target);
        return;
    }
    session->targets[session->target_count++] = target;
    session->first_ring_poll = session->polled_count;
    session->living_targets++;
}

/* One descriptor a ring is enough: the kernel wakes all that share it. Rings may come while recording. */
void record_poll_rings(struct record_session *session)
{
    const struct perf_time *time = &session->time;
    if (session->rings_polled == session->rings.count)
        return;
    session->rings_polled = session->rings.count;
    session->polled_count = session->first_ring_poll;
    for (size_t i = 0; i < time->event_count; i++) {
        const struct perf_time_event *event = &time->events[i];
        bool owner = event->cpu < 0 || base_map_find(&time->ring_of_cpu, (uint64_t)event->cpu) == i;
        if (owner && event->fd >= 0)
            record_add_poll(session, event->fd);
    }
}

void record_look_at_polls(struct record_session *session)
{
    for (size_t i = 0; i < session->target_count; i++) {
        struct proc_ended *target = &session->targets[i];
        struct pollfd *polled = &session->polled[RECORD_POLL_PROCESSES + i];
        if (!target->pid || (polled->fd >= 0 ? !(polled->revents & POLLIN) : !proc_ended_is(target)))
            continue;
        proc_ended_close(target);
        target->pid = 0;
        polled->fd = -1;
        if (--session->living_targets == 0)
            session->status.target_gone = true;
    }
    for (size_t i = session->first_ring_poll; i < session->polled_count; i++) {
        if (session->polled[i].revents & (POLLHUP | POLLERR))
            session->polled[i].fd = -1; /* its thread is gone: it would wake us for ever */
    }
}
