/* A tick right before a call is continued that a stop has interrupted: the call goes on, and all registers are
 * as they were. The test stops a child of its own there. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"
#include "timer_rig.h"

#define WAIT_MS       300
#define CONTINUED     (-516) /* -ERESTART_RESTARTBLOCK */
#define CARRY         1
#define ROUNDING      0x7f80u /* mxcsr: towards zero; none of its exceptions raises a signal */
#define SS_AUTODISARM (1U << 31)
#define STACK_SIZE    (64 << 10)

enum stack_kind { OWN_STACK, SIGNAL_STACK, DISARMED_STACK };

/* Of the child, in memory that the test shares. */
static struct found {
    int64_t answer;
    uint64_t registers[8]; /* r8, r9, r10, r12, r13, r14, r15, rbx */
    uint64_t first, last;  /* xmm0, xmm15 */
    uint32_t control;      /* mxcsr */
    uint8_t carry;         /* the flag; all of these in the order in which they are stored */
    uint64_t waited_ms;
    volatile uint32_t caught;
    stack_t stack; /* for signals, afterwards */
    bool blocked;  /* SIGUSR2 is, afterwards */
} * found;

static struct agent_rig rig;
static pid_t (*hooked_fork)(void);

static int set_up(void **state)
{
    (void)state;
    timer_rig_begin(&rig);
    hooked_fork = (pid_t(*)(void))agent_rig_hook(&rig, "agent_entry_process", (void *)fork);
    found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(found, MAP_FAILED);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    munmap(found, sizeof *found);
    timer_rig_end(timer_rig_timers(&rig, rig.process));
    agent_rig_end(&rig);
    return 0;
}

/* --- the child --- */

static uint64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void on_signal(int signal)
{
    (void)signal;
    found->caught++;
}

/* poll, with something known in all that the kernel preserves. */
static void poll_with_registers(struct found *to)
{
    uint64_t answer = SYS_poll;
    to->control = ROUNDING;
    __asm__ volatile("ldmxcsr 80(%%rbx)\n\t"
                     "movl $0x1008, %%r8d\n\t"
                     "movl $0x1009, %%r9d\n\t"
                     "movl $0x100a, %%r10d\n\t"
                     "movl $0x100c, %%r12d\n\t"
                     "movl $0x100d, %%r13d\n\t"
                     "movl $0x100e, %%r14d\n\t"
                     "movl $0x100f, %%r15d\n\t"
                     "movq %%r8, %%xmm0\n\t"
                     "movq %%r15, %%xmm15\n\t"
                     "stc\n\t"
                     "syscall\n\t"
                     "setc 84(%%rbx)\n\t"
                     "movq %%r8, 0(%%rbx)\n\t"
                     "movq %%r9, 8(%%rbx)\n\t"
                     "movq %%r10, 16(%%rbx)\n\t"
                     "movq %%r12, 24(%%rbx)\n\t"
                     "movq %%r13, 32(%%rbx)\n\t"
                     "movq %%r14, 40(%%rbx)\n\t"
                     "movq %%r15, 48(%%rbx)\n\t"
                     "movq %%rbx, 56(%%rbx)\n\t"
                     "movq %%xmm0, 64(%%rbx)\n\t"
                     "movq %%xmm15, 72(%%rbx)\n\t"
                     "stmxcsr 80(%%rbx)\n\t"
                     : "+a"(answer)
                     : "b"(to->registers), "D"(0), "S"(0), "d"(WAIT_MS)
                     : "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rcx", "xmm0", "xmm15", "cc",
                       "memory");
    to->answer = (int64_t)answer;
}

/* The place of its timer, in the only region that a child has here. */
static unsigned timer_of(pid_t pid)
{
    const struct wire_agent_timer *timers = timer_rig_timers(&rig, agent_rig_process(&rig, 1));
    unsigned number = 0;
    while (number < WIRE_AGENT_TIMERS && timers[number].tid != (uint32_t)pid)
        number++;
    assert_true(number < WIRE_AGENT_TIMERS);
    return number;
}

/* No tick but the test's. */
static void disarm_timer(void)
{
    const struct itimerspec never = {0};
    const struct wire_agent_timer *timers = timer_rig_timers(&rig, agent_rig_process(&rig, 1));
    syscall(SYS_timer_settime, timers[timer_of(getpid())].id, 0, &never, NULL);
}

static void child(enum stack_kind kind)
{
    static uint8_t bytes[STACK_SIZE];
    const stack_t stack = {
        .ss_sp = bytes, .ss_size = sizeof bytes, .ss_flags = kind == DISARMED_STACK ? (int)SS_AUTODISARM : 0};
    sigset_t set;
    const stack_t none = {.ss_flags = SS_DISABLE}; /* a sanitizer's first thread has one */
    disarm_timer();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR1, on_signal);
    sigaltstack(kind == OWN_STACK ? &none : &stack, NULL);
    uint64_t began = now_ms();
    poll_with_registers(found);
    found->waited_ms = now_ms() - began;
    sigaltstack(NULL, &found->stack);
    sigprocmask(SIG_BLOCK, NULL, &set);
    found->blocked = sigismember(&set, SIGUSR2) && !sigismember(&set, SIGUSR1) && !sigismember(&set, SIGURG);
    _exit(found->stack.ss_size == (kind == OWN_STACK ? 0 : sizeof bytes) ? 0 : 1);
}

/* --- the test --- */

/* The signal that it is about to get; SIGTRAP: it was asked to stop. */
static int wait_for_stop(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    assert_true(WIFSTOPPED(status));
    return WSTOPSIG(status);
}

/* Signals that come before the trap are given to it. */
static struct user_regs_struct stop(pid_t pid)
{
    struct user_regs_struct registers;
    assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, 0, 0), 0);
    for (int signal = wait_for_stop(pid); signal != SIGTRAP; signal = wait_for_stop(pid))
        assert_int_equal(ptrace(PTRACE_CONT, pid, 0, signal), 0);
    assert_int_equal(ptrace(PTRACE_GETREGS, pid, 0, &registers), 0);
    return registers;
}

/* Where the kernel has it when it is about to continue its call. */
static void stop_before_continuing(pid_t pid)
{
    assert_int_equal(ptrace(PTRACE_SEIZE, pid, 0, 0), 0);
    struct user_regs_struct registers = stop(pid);
    while (registers.orig_rax != SYS_poll || (int64_t)registers.rax != CONTINUED) {
        assert_int_equal(ptrace(PTRACE_CONT, pid, 0, 0), 0);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        registers = stop(pid);
    }
    registers.rax = SYS_restart_syscall;
    registers.rip -= 2;
    assert_int_equal(ptrace(PTRACE_SETREGS, pid, 0, &registers), 0);
}

static void tick(pid_t pid)
{
    siginfo_t info = {.si_signo = SIGURG, .si_code = SI_TIMER};
    info.si_value.sival_ptr = (void *)(uintptr_t)WIRE_AGENT_TIMER_VALUE(timer_of(pid));
    assert_int_equal(syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGURG, &info), 0);
    assert_int_equal(ptrace(PTRACE_CONT, pid, 0, 0), 0);
    assert_int_equal(wait_for_stop(pid), SIGURG);
}

/* The child's poll with a tick before it is continued, and with signals that wait then. */
static void check_tick(enum stack_kind kind, int first, int second, int64_t answer)
{
    int status;
    const struct wire_agent_process *process = agent_rig_process(&rig, 1);
    pid_t pid = hooked_fork();
    if (pid == 0)
        child(kind);
    stop_before_continuing(pid);
    tick(pid);
    if (first)
        syscall(SYS_tgkill, pid, pid, first);
    if (second)
        syscall(SYS_tgkill, pid, pid, second);
    assert_int_equal(ptrace(PTRACE_DETACH, pid, 0, SIGURG), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(found->answer, answer);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(found->registers[i], 0x1008 + i);
    for (unsigned i = 3; i < 7; i++)
        assert_int_equal(found->registers[i], 0x1009 + i);
    assert_int_equal(found->registers[7], (uintptr_t)found->registers);
    assert_int_equal(found->first, 0x1008);
    assert_int_equal(found->last, 0x100f);
    assert_int_equal(found->control & ROUNDING, ROUNDING);
    assert_int_equal(found->carry, CARRY);
    assert_true(found->blocked);
    assert_true(agent_rig_read(&rig, process, 0, 0).count > 0); /* the sample is there */
    if (answer == 0)
        assert_true(found->waited_ms >= WAIT_MS);
}

static void test_goes_on(void **state)
{
    (void)state;
    check_tick(OWN_STACK, 0, 0, 0);
    assert_int_equal(found->caught, 0);
}

static void test_on_a_signal_stack(void **state)
{
    (void)state;
    check_tick(SIGNAL_STACK, 0, 0, 0);
}

/* Only rt_sigreturn puts that one back. */
static void test_on_a_disarmed_stack(void **state)
{
    (void)state;
    check_tick(DISARMED_STACK, 0, 0, -EINTR);
    assert_int_equal(found->stack.ss_flags, (int)SS_AUTODISARM);
}

/* A signal of the program's ends the call, as always; one that is blocked waits. */
static void test_with_signals(void **state)
{
    (void)state;
    check_tick(OWN_STACK, SIGUSR1, SIGUSR2, -EINTR);
    assert_int_equal(found->caught, 1);
}

static void test_with_a_blocked_signal(void **state)
{
    (void)state;
    check_tick(OWN_STACK, SIGUSR2, 0, 0);
    assert_int_equal(found->caught, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_goes_on), TEST(test_on_a_signal_stack),
                                       TEST(test_on_a_disarmed_stack), TEST(test_with_signals),
                                       TEST(test_with_a_blocked_signal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
