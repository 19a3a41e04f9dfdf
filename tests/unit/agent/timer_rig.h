/* timer_rig.h - the agent's timers in the test's own process: their handler is set as tally sets it. */
#ifndef TIMER_RIG_H
#define TIMER_RIG_H

#include "agent_rig.h"

#define TIMER_RIG_MS     UINT64_C(1000000)
#define TIMER_RIG_LEAST  (2 * TIMER_RIG_MS) /* of an interval; ns */
#define TIMER_RIG_SPREAD (4 * TIMER_RIG_MS)

void timer_rig_begin(struct agent_rig *rig);
/* Deletes timers and puts the signals back; the rig goes on. */
void timer_rig_end(const struct wire_agent_timer *timers);

void timer_rig_set_action(int signal, const struct wire_agent_action *action);
/* The table of a region. */
struct wire_agent_timer *timer_rig_timers(const struct agent_rig *rig, struct wire_agent_process *process);

#endif
