/* probe_timer.h - timers for the threads of a process, where perf_event is refused (agent_timer.c says why
 * they do no harm).
 *
 *   probe_timer_plan    which signal, and intervals that this kernel can keep
 *   probe_timer_begin   sets the handler, and a timer for each thread there is; the agent makes those of
 *                       later ones
 *   probe_timer_move    the same with the other signal, when the program took the first one and the agent
 *                       ended the timers
 *   probe_timer_clock   the CPU time of a process, for what was missed
 *
 * Context: tool, one thread. Source: timer_create(2), proc(5). */
#ifndef PROBE_TIMER_H
#define PROBE_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "loader.h"
#include "shared_file.h"

#define PROBE_TIMER_SIGNAL_NAME "SIGURG"

/* `user`: of time in user code alone. *rate_hz: what was requested; what it will be: the kernel looks at
 * CPU clocks at its ticks, and intervals must be some ticks long to be random. BASE_EUNSUPPORTED: the
 * kernel is too old. */
int probe_timer_plan(bool user, double *rate_hz, struct shared_timers *timing, struct base_error *error);

/* What is needed of a process: in loader_visit. */
struct probe_timer_place {
    const struct loader_image *image;
    struct shared_file *file;
    struct shared_timers timers;
    pid_t pid;
};
/* A visit (loader.h): `context` is a struct probe_timer_place, of region 0. BASE_EUSAGE: the
 * program has a use of its own for the signal. BASE_EPERMISSION: a filter forbids what the timers need. On
 * failure there are none. */
int probe_timer_begin(void *context, struct loader_agent *agent, struct base_error *error);
/* The same. BASE_EUSAGE, too: it has a controlling terminal, or ever blocked or handled the other signal.
 * BASE_EBUSY: not now, perhaps later. */
int probe_timer_move(void *context, struct loader_agent *agent, struct base_error *error);

/* ns; 0: not known. */
uint64_t probe_timer_clock(pid_t pid, uint32_t clock);

#endif
