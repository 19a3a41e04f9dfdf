/* collect_agent_timer.h - timers for the threads of a process, where perf_event is refused (agent_timer.c
 * tells why they do no harm).
 *
 *   collect_agent_timer_plan    which signal, and intervals that this kernel can keep
 *   collect_agent_timer_begin   sets the handler, and a timer for each thread there is; the agent makes those
 *                               of later ones
 *   collect_agent_timer_move    the same with the other signal, when the program took the first one and the
 *                               agent ended the timers
 *   collect_agent_timer_clock   the CPU time of a process, for what was missed
 *
 * Context: tool, one thread. Source: timer_create(2), proc(5). */
#ifndef COLLECT_AGENT_TIMER_H
#define COLLECT_AGENT_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "collect_agent_file.h"
#include "patch_agent.h"

#define COLLECT_AGENT_TIMER_SIGNAL_NAME "SIGURG"

/* `user`: of time in user code alone. *rate_hz: what was wished; what it will be: the kernel looks at CPU
 * clocks at its ticks, and intervals must be some ticks long to be random. BASE_EUNSUPPORTED: the kernel is
 * too old. */
int collect_agent_timer_plan(bool user, double *rate_hz, struct collect_agent_timers *timing,
                             struct base_error *error);

/* What is needed of a process: in patch_agent_visit. */
struct collect_agent_timer_place {
    const struct patch_agent_image *image;
    struct collect_agent_file *file;
    struct collect_agent_timers timers;
    pid_t pid;
};
/* A visit (patch_agent.h): `context` is a struct collect_agent_timer_place, of region 0. BASE_EUSAGE: the
 * program has a use of its own for the signal. BASE_EPERMISSION: a filter forbids what the timers need. On
 * failure there are none. */
int collect_agent_timer_begin(void *context, struct patch_agent *agent, struct base_error *error);
/* The same. BASE_EUSAGE, too: it has a controlling terminal, or ever blocked or handled the other signal.
 * BASE_EBUSY: not now, perhaps later. */
int collect_agent_timer_move(void *context, struct patch_agent *agent, struct base_error *error);

/* ns; 0: not known. */
uint64_t collect_agent_timer_clock(pid_t pid, uint32_t clock);

#endif
