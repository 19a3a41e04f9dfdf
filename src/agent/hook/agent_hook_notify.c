/* Requests to tally, and waiting for the answer: never longer than agreed, and never again once it did not
 * come. */
#include "agent_hook_notify.h"

#include <sys/syscall.h>

#include "agent_may.h"

#define STEP_MS    10
#define COUNTED_MS (2 * STEP_MS) /* at most, of a step, against tally */
#define NS_OF_MS   1000000

/* Returns after the word is no longer `old`, or STEP_MS, or a signal. */
static void wait_step(const uint32_t *word, uint32_t old)
{
    int64_t time[2] = {0, STEP_MS * NS_OF_MS};
    arch_host_syscall(SYS_futex, (uint64_t)word, AGENT_FUTEX_WAIT, old, (uint64_t)time, 0, 0);
}

static void wake_waiters(const uint32_t *word)
{
    if (agent_may(WIRE_AGENT_CALL_FUTEX))
        arch_host_syscall(SYS_futex, (uint64_t)word, AGENT_FUTEX_WAKE, INT32_MAX, 0, 0, 0);
}

static uint64_t now_ms(void)
{
    int64_t time[2] = {0, 0};
    arch_host_syscall(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, (uint64_t)time, 0, 0, 0, 0);
    return (uint64_t)time[0] * 1000 + (uint64_t)time[1] / NS_OF_MS;
}

/* Tally is stopped, or has left: it says so itself. */
static bool will_not_answer(const struct wire_agent_control *control)
{
    return __atomic_load_n(&control->gone, __ATOMIC_RELAXED) ||
           __atomic_load_n(&control->suspended, __ATOMIC_RELAXED);
}

/* Tally's clock goes on while it lives, also when the answer takes it long: a large object, a busy
 * machine. While this thread itself does not run, tally may not either: little of that time counts. */
static bool wait_for_answer(const struct wire_agent_process *process, uint32_t sequence)
{
    const struct wire_agent_control *control = agent_control();
    uint64_t begun = now_ms(), looked = begun, still = 0, clock = 0;
    while (agent_may(WIRE_AGENT_CALL_FUTEX | WIRE_AGENT_CALL_CLOCK)) { /* a filter may come meanwhile */
        uint32_t answered = __atomic_load_n(&process->answer_sequence, __ATOMIC_ACQUIRE);
        if ((int32_t)(answered - sequence) >= 0)
            return true;
        uint64_t now = now_ms(), seen = __atomic_load_n(&control->now_ns, __ATOMIC_RELAXED);
        uint64_t step = now - looked < COUNTED_MS ? now - looked : COUNTED_MS;
        still = seen != clock ? 0 : still + step;
        looked = now;
        clock = seen;
        if (still >= control->patience_ms ||
            now - begun >= (uint64_t)control->patience_ms * WIRE_AGENT_PATIENCE_MOST ||
            will_not_answer(control))
            return false;
        wait_step(&process->answer_sequence, answered);
    }
    return false;
}

/* No answer came, or a filter forbids to wait: a loss, and the process never asks again. */
static bool fall_silent(struct wire_agent_process *process)
{
    agent_lose(WIRE_AGENT_LOSS_NO_ANSWER);
    __atomic_store_n(&process->silent, 1, __ATOMIC_RELAXED);
    return false;
}

/* A request of one thread. Several threads may ask at once, and tally must see each. False: more ask than
 * there are words; this request is not seen. */
static bool ask_for_thread(struct wire_agent_process *process, enum wire_agent_request request)
{
    uint64_t tid = (uint64_t)arch_host_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0), nothing = 0;
    for (unsigned i = 0; i < WIRE_AGENT_ASKS; i++, nothing = 0)
        if (__atomic_compare_exchange_n(&process->asks[i], &nothing, tid << 32 | request, false,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return true;
    agent_lose(WIRE_AGENT_LOSS_NO_ANSWER);
    return false;
}

bool agent_hook_notify(enum wire_agent_request request, bool wait)
{
    struct wire_agent_process *process = agent_process();
    struct wire_agent_control *control = agent_control();
    if (__atomic_load_n(&control->gone, __ATOMIC_RELAXED) ||
        __atomic_load_n(&process->silent, __ATOMIC_RELAXED))
        return false;
    if (wait && !agent_may(WIRE_AGENT_CALL_GETTID | WIRE_AGENT_CALL_FUTEX | WIRE_AGENT_CALL_CLOCK))
        return fall_silent(process);
    if ((request & WIRE_AGENT_OF_THREADS) != 0 &&
        (!agent_may(WIRE_AGENT_CALL_GETTID) || !ask_for_thread(process, request)))
        return false;
    /* The bits before the sequence: tally answers a sequence only when it has seen all that was asked up to
     * it. The doorbell last: it may look as soon as that has changed. */
    __atomic_fetch_or(&process->request, request, __ATOMIC_RELEASE);
    uint32_t sequence = __atomic_add_fetch(&process->request_sequence, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&control->doorbell, 1, __ATOMIC_RELEASE);
    wake_waiters(&control->doorbell);
    if (!wait || wait_for_answer(process, sequence))
        return true;
    return fall_silent(process);
}
