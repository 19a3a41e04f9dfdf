/* What the program forbids itself: system calls, by seccomp, and the processor's clock.
 *
 * A filter of system calls does not ask who makes one. What it forbids kills the program, or comes back as an
 * error that says something else to us: so whoever sets a filter by the C library is seen, the filter is run
 * here on every call that the agent makes (filter.h), and those that it does not simply allow are never made
 * again in the process. What each does without is said where it is made: a stack that is not known to be
 * readable ends earlier, a request that cannot be sent is not answered. All threads have what one of them
 * forbids itself: filters are few, and go from a thread to those that it makes. What was there before the
 * agent tally tries, one by one, as it loads it.
 *
 *   a filter       the calls that it forbids; the timers end if one of theirs is among them
 *   strict mode    all, and the clock: the kernel takes that away as well
 *   PR_SET_TSC     the clock: calls are counted, not timed
 *   dispatch       of system calls to the program (PR_SET_SYSCALL_USER_DISPATCH): all, which it would get
 *
 * Another thread may be about to make a call that has just been forbidden. So who sets a filter for all
 * threads waits first, a fifth of a second at most, until nobody else is inside, makes its record or its
 * timer, or is in the timers' handler. A filter that is set by an instruction of the program's own is not
 * seen. A vfork's child that sets one has it set for its parent too, as far as the agent is concerned.
 *
 * Source: seccomp(2), prctl(2); kernel/seccomp.c (disable_TSC). */
#include "agent_hook_filter.h"

#include <linux/audit.h>
#include <sys/syscall.h>

#include "agent.h"
#include "agent_may.h"
#include "agent_readable.h"
#include "agent_thread.h"
#include "agent_timer.h"
#include "filter.h"
#include "wire_agent_timer.h"

#define GET_TSC       25 /* PR_GET_TSC */
#define SET_TSC       26 /* PR_SET_TSC, and its value */
#define TSC_FORBIDDEN 2
#define SET_DISPATCH  59 /* PR_SET_SYSCALL_USER_DISPATCH, and what turns it off */
#define DISPATCH_OFF  0
#define SET_SECCOMP   22 /* PR_SET_SECCOMP and its modes */
#define MODE_STRICT   1
#define MODE_FILTER   2
#define CALL_SECCOMP  317 /* SYS_seccomp, which old headers lack, and its operations */
#define SET_STRICT    0
#define SET_FILTER    1
#define FOR_ALL       1 /* SECCOMP_FILTER_FLAG_TSYNC */
#define PAGE          UINT64_C(4096)
#define WAITS         1000
#define WAIT_NS       100000 /* and as much again until the thread runs */

/* One call of each form. Addresses may be any. */
static const struct asked {
    uint32_t call, number;
    uint64_t arguments[4];
} asked[] = {
    {WIRE_AGENT_CALL_GETTID, SYS_gettid, {0}},
    {WIRE_AGENT_CALL_GETPID, SYS_getpid, {0}},
    {WIRE_AGENT_CALL_FUTEX, SYS_futex, {PAGE, AGENT_FUTEX_WAIT, 1, PAGE}},
    {WIRE_AGENT_CALL_FUTEX, SYS_futex, {PAGE, AGENT_FUTEX_WAIT_OWN, 1, PAGE}},
    {WIRE_AGENT_CALL_FUTEX, SYS_futex, {PAGE, AGENT_FUTEX_WAKE, INT32_MAX, 0}},
    {WIRE_AGENT_CALL_FUTEX, SYS_futex, {PAGE, AGENT_FUTEX_COMPARE, 0, 0}},
    {WIRE_AGENT_CALL_CLOCK, SYS_clock_gettime, {1, PAGE}},
    {WIRE_AGENT_CALL_MASK, SYS_rt_sigprocmask, {UINT32_MAX, PAGE, 0, 8}},
    {WIRE_AGENT_CALL_MASK, SYS_rt_sigprocmask, {0, PAGE, PAGE, 8}},
    {WIRE_AGENT_CALL_MASK, SYS_rt_sigprocmask, {2, PAGE, 0, 8}},
    {WIRE_AGENT_CALL_ACTION, SYS_rt_sigaction, {AGENT_NO_SIGNAL, PAGE, 0, 8}},
    {WIRE_AGENT_CALL_ARCH_PRCTL, SYS_arch_prctl, {0x1003, PAGE}},
    {WIRE_AGENT_CALL_PRCTL, SYS_prctl, {GET_TSC, PAGE}},
    {WIRE_AGENT_CALL_TIMERS, SYS_timer_create, {~UINT32_C(7) | 4 | WIRE_AGENT_CLOCK_CPU, PAGE, PAGE}},
    {WIRE_AGENT_CALL_TIMERS, SYS_timer_settime, {0, 0, PAGE, 0}},
    {WIRE_AGENT_CALL_TIMERS, SYS_timer_delete, {0}},
    {WIRE_AGENT_CALL_TIMERS, SYS_clock_gettime, {~UINT32_C(7) | 4 | WIRE_AGENT_CLOCK_CPU, PAGE}},
    {WIRE_AGENT_CALL_TIMERS, SYS_rt_sigaction, {23, 0, PAGE, 8}},
    {WIRE_AGENT_CALL_TIMERS, SYS_rt_sigprocmask, {0, 0, PAGE, 8}},
    {WIRE_AGENT_CALL_TIMERS, SYS_rt_sigpending, {PAGE, 8}},
    {WIRE_AGENT_CALL_TIMERS, SYS_poll, {PAGE, 1, 0}},
    {WIRE_AGENT_CALL_TIMERS, SYS_fcntl, {0, 3}}, /* F_GETFL */
    {WIRE_AGENT_CALL_PENDING, SYS_rt_sigpending, {PAGE, 8}},
    {WIRE_AGENT_CALL_TIMERS, SYS_rt_sigreturn, {0}},
    {WIRE_AGENT_CALL_TIMERS, SYS_sigaltstack, {0, PAGE}},
    {WIRE_AGENT_CALL_TIMERS, SYS_tgkill, {1, 1, 0}},
    {WIRE_AGENT_CALL_GROW, SYS_mremap, {PAGE, PAGE, 2 * PAGE, 0}},
    {WIRE_AGENT_CALL_GROW, SYS_mremap, {PAGE, 0, PAGE, 1}},
    {WIRE_AGENT_CALL_SHOW, SYS_munmap, {PAGE, PAGE}},
    {WIRE_AGENT_CALL_SHOW, SYS_remap_file_pages, {PAGE, PAGE, 0, 0}},
    {WIRE_AGENT_CALL_SHOW, SYS_madvise, {PAGE, PAGE, 16}}, /* MADV_DONTDUMP */
    {WIRE_AGENT_CALL_COMMIT, SYS_madvise, {PAGE, PAGE, AGENT_MAKE_PAGES}},
};

#define OF_TIMERS                                                                                            \
    (WIRE_AGENT_CALL_TIMERS | WIRE_AGENT_CALL_GETTID | WIRE_AGENT_CALL_GETPID | WIRE_AGENT_CALL_CLOCK |      \
     WIRE_AGENT_CALL_MASK)
#define OF_LOOKS (WIRE_AGENT_CALL_MASK | WIRE_AGENT_CALL_ACTION | WIRE_AGENT_CALL_FUTEX)

/* The region has it too, if there is one, so that tally can say it. */
static void forbid_calls(uint32_t calls)
{
    bool counted = agent_process_is_counted(); /* a child's own region, while it can be asked for */
    if (agent_control()->timer_signal == 0)
        calls &= ~(uint32_t)WIRE_AGENT_CALL_TIMERS;
    if ((agent_control()->flags & WIRE_AGENT_COMMIT) == 0)
        calls &= ~(uint32_t)WIRE_AGENT_CALL_COMMIT;
    if ((calls & OF_TIMERS) != 0)
        agent_timer_end_for_good();
    if (counted && (calls & OF_LOOKS) == OF_LOOKS)
        agent_thread_survey();
    agent_may_forbid(calls);
}

/* --- a filter that is about to be set --- */

static bool can_read(uint64_t start, uint64_t size)
{
    for (uint64_t at = start & ~(PAGE - 1); at < start + size; at += PAGE)
        if (!agent_readable(at))
            return false;
    return true;
}

static uint32_t forbidden_by(const struct sock_fprog *program)
{
    uint32_t calls = 0;
    for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct seccomp_data data = {.nr = (int)asked[i].number,
                                    .arch = AUDIT_ARCH_X86_64,
                                    .instruction_pointer = agent_parameters.code};
        for (unsigned k = 0; k < sizeof asked->arguments / sizeof *asked->arguments; k++)
            data.args[k] = asked[i].arguments[k];
        if (!filter_allows(filter_run(program->filter, program->len, &data)))
            calls |= asked[i].call;
    }
    return calls;
}

/* What cannot be read the kernel refuses. */
static void judge_filter(uint64_t address)
{
    const struct sock_fprog *program = (const struct sock_fprog *)address;
    if (address == 0 || !can_read(address, sizeof *program))
        return;
    uint64_t items = (uint64_t)program->filter;
    uint32_t calls =
        items != 0 && can_read(items, program->len * sizeof(struct sock_filter)) ? forbidden_by(program) : 0;
    if (calls != 0)
        forbid_calls(calls);
}

static bool somebody_is_inside(uint64_t thread_pointer)
{
    if (__atomic_load_n(&agent_process()->unrecorded, __ATOMIC_SEQ_CST) != 0)
        return true;
    for (unsigned i = 0; i < WIRE_AGENT_MAKERS; i++) {
        uint64_t maker = __atomic_load_n(&agent_parameters.making[i], __ATOMIC_SEQ_CST);
        if (maker != 0 && maker != thread_pointer)
            return true;
    }
    uint64_t count = __atomic_load_n(&agent_process()->thread_count, __ATOMIC_RELAXED);
    uint64_t mapped = agent_parameters.mapped[WIRE_AGENT_PART_THREADS] / WIRE_AGENT_THREAD_BYTES;
    for (uint64_t i = 0; i < count && i < mapped; i++) {
        const struct wire_agent_thread *thread = &agent_thread_at(i)->shared;
        if (__atomic_load_n(&thread->inside, __ATOMIC_RELAXED) != 0 && thread->key != thread_pointer)
            return true;
    }
    return false;
}

/* Not for ever: one may be inside while it sleeps in what is hooked, and makes no call of ours there. Once at
 * least: the word by which a thread says that it is inside may still be on its way. What this filter forbids
 * may be called until it is set; what another one forbids that comes meanwhile may not. */
static void wait_for_others(bool may_wait)
{
    uint32_t word = 0, waits = 0, forbidden = __atomic_load_n(&agent_parameters.forbidden, __ATOMIC_RELAXED);
    do {
        int64_t rest[2] = {0, WAIT_NS};
        if (may_wait && __atomic_load_n(&agent_parameters.forbidden, __ATOMIC_RELAXED) == forbidden)
            arch_host_syscall(SYS_futex, (uint64_t)&word, AGENT_FUTEX_WAIT_OWN, 0, (uint64_t)rest, 0, 0);
    } while (++waits < WAITS && somebody_is_inside(agent_thread_pointer()));
}

/* --- who sets one --- */

static void on_seccomp(uint64_t operation, uint64_t flags, uint64_t program)
{
    if ((uint32_t)operation == SET_STRICT && program == 0)
        forbid_calls(WIRE_AGENT_CALLS_ALL);
    if ((uint32_t)operation != SET_FILTER)
        return;
    bool may_wait = agent_may(WIRE_AGENT_CALL_FUTEX); /* until the filter is set, whatever it forbids */
    judge_filter(program);
    if (flags & FOR_ALL && !agent_may(WIRE_AGENT_CALLS_ALL) && agent_process_is_counted())
        wait_for_others(may_wait);
}

static void on_prctl(uint64_t option, uint64_t first, uint64_t second)
{
    if ((uint32_t)option == SET_SECCOMP && first == MODE_STRICT)
        forbid_calls(WIRE_AGENT_CALLS_ALL);
    if ((uint32_t)option == SET_SECCOMP && first == MODE_FILTER)
        judge_filter(second);
    if ((uint32_t)option == SET_DISPATCH && first != DISPATCH_OFF)
        forbid_calls(WIRE_AGENT_CALLS_ALL & ~(uint32_t)WIRE_AGENT_CALL_TICKS);
    if ((uint32_t)option == SET_TSC && (uint32_t)first == TSC_FORBIDDEN)
        forbid_calls(WIRE_AGENT_CALL_TICKS);
}

struct agent_answer agent_wrap_prctl(const struct agent_frame *frame, uint64_t option, uint64_t first,
                                     uint64_t second);

struct agent_answer agent_wrap_prctl(const struct agent_frame *frame, uint64_t option, uint64_t first,
                                     uint64_t second)
{
    (void)frame;
    on_prctl(option, first, second);
    return (struct agent_answer){0, 0};
}

void agent_hook_filter_call(uint64_t number, uint64_t first, uint64_t second, uint64_t third)
{
    if (number == CALL_SECCOMP)
        on_seccomp(first, second, third);
    if (number == SYS_prctl)
        on_prctl(first, second, third);
}
