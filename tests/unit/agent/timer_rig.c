#include "timer_rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define SA_RESTORER 0x04000000

void timer_rig_set_action(int signal, const struct wire_agent_action *action)
{
    assert_int_equal(syscall(SYS_rt_sigaction, signal, action, NULL, 8), 0);
}

struct wire_agent_timer *timer_rig_timers(const struct agent_rig *rig, struct wire_agent_process *process)
{
    return (void *)((uint8_t *)process + rig->layout.timers);
}

void timer_rig_begin(struct agent_rig *rig)
{
    agent_rig_begin(rig, &(struct agent_rig_options){.flags = WIRE_AGENT_FOLLOW});
    struct wire_agent_control *control = rig->control;
    control->timer_least_ns = TIMER_RIG_LEAST;
    control->timer_spread_ns = TIMER_RIG_SPREAD;
    control->timer_mean_ns = TIMER_RIG_LEAST + TIMER_RIG_SPREAD / 2;
    control->timer_tick_ns = TIMER_RIG_MS;
    control->timer_signal = SIGURG;
    control->timer_other = SIGWINCH;
    control->timer_clock = WIRE_AGENT_CLOCK_CPU;
    control->action =
        (struct wire_agent_action){(uint64_t)agent_rig_symbol(rig, "agent_timer_handler"),
                                   SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_RESTORER,
                                   (uint64_t)agent_rig_symbol(rig, "agent_entry_restorer"), UINT64_MAX};
    rig->process->own_pid = (uint32_t)getpid();
    rig->process->timer_signal = SIGURG;
    timer_rig_set_action(SIGURG, &control->action);
    rig->process->timing = WIRE_AGENT_TIMED;
}

void timer_rig_end(const struct wire_agent_timer *timers)
{
    for (unsigned i = 0; i < WIRE_AGENT_TIMERS; i++)
        if (timers[i].state != WIRE_AGENT_TIMER_NONE)
            syscall(SYS_timer_delete, timers[i].id);
    signal(SIGURG, SIG_DFL);
    signal(SIGWINCH, SIG_DFL);
}
