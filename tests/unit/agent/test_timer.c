/* Timers of threads, and what the program does about their signal: real timers in the test's own process,
 * bodies of its own where a real call would do harm. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"
#include "timer_rig.h"

#define AWAY     __attribute__((noinline, noclone))
#define MS       TIMER_RIG_MS
#define LEAST    TIMER_RIG_LEAST
#define SPREAD   TIMER_RIG_SPREAD
#define SECCOMP  317
#define IO_URING 425

typedef int create_function(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                            void *argument);
typedef int mask_function(int how, const sigset_t *set, sigset_t *old);
typedef int action_function(int signal, const struct sigaction *action, struct sigaction *old);
typedef long call_function(long number, long first, long second, long third);

static struct agent_rig rig;
static create_function *hooked_create;
static mask_function *hooked_mask;
static action_function *hooked_action;
static call_function *hooked_prctl, *hooked_syscall, *hooked_ring;
static pid_t (*hooked_fork)(void);
static int (*hooked_stack)(const stack_t *stack, stack_t *old);
static volatile uint64_t sink;
static volatile sig_atomic_t caught;

static long body_call(long number, long first, long second, long third)
{
    return number + first + second + third;
}

/* --- the rig --- */

static void set_action(const struct wire_agent_action *action)
{
    timer_rig_set_action(SIGURG, action);
}

static uint64_t handler_of(int signal)
{
    struct wire_agent_action found;
    assert_int_equal(syscall(SYS_rt_sigaction, signal, NULL, &found, 8), 0);
    return found.handler;
}

static uint64_t handler_now(void)
{
    return handler_of(SIGURG);
}

static void hook_all(void)
{
    hooked_create = (create_function *)agent_rig_hook(&rig, "agent_entry_thread", (void *)pthread_create);
    hooked_mask = (mask_function *)agent_rig_hook(&rig, "agent_entry_mask", (void *)pthread_sigmask);
    hooked_action = (action_function *)agent_rig_hook(&rig, "agent_entry_action", (void *)sigaction);
    hooked_prctl = (call_function *)agent_rig_hook(&rig, "agent_entry_prctl", (void *)body_call);
    hooked_syscall = (call_function *)agent_rig_hook(&rig, "agent_entry_syscall", (void *)body_call);
    hooked_ring = (call_function *)agent_rig_hook(&rig, "agent_entry_ring", (void *)body_call);
    hooked_stack =
        (int (*)(const stack_t *, stack_t *))agent_rig_hook(&rig, "agent_entry_stack", (void *)sigaltstack);
    hooked_fork = (pid_t(*)(void))agent_rig_hook(&rig, "agent_entry_process", (void *)fork);
}

static int set_up(void **state)
{
    (void)state;
    timer_rig_begin(&rig);
    caught = 0;
    hook_all();
    return 0;
}

static struct wire_agent_timer *timers(void)
{
    return timer_rig_timers(&rig, rig.process);
}

static int kernel_timers(void)
{
    char line[256];
    int count = 0;
    FILE *file = fopen("/proc/self/timers", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strncmp(line, "ID:", 3) == 0;
    fclose(file);
    return count;
}

static int tear_down(void **state)
{
    (void)state;
    timer_rig_end(timers());
    assert_int_equal(kernel_timers(), 0);
    agent_rig_end(&rig);
    return 0;
}

static void begin_here(void)
{
    ((void (*)(void))agent_rig_symbol(&rig, "agent_timer_begin"))();
}

static struct wire_agent_timer *own_timer(void)
{
    for (unsigned i = 0; i < WIRE_AGENT_TIMERS; i++)
        if (timers()[i].tid == (uint32_t)gettid())
            return &timers()[i];
    return NULL;
}

static uint64_t armed_ns(void)
{
    struct itimerspec left;
    assert_int_equal(syscall(SYS_timer_gettime, own_timer()->id, &left), 0);
    assert_int_equal(left.it_interval.tv_sec + left.it_interval.tv_nsec, 0);
    return (uint64_t)left.it_value.tv_sec * 1000 * MS + (uint64_t)left.it_value.tv_nsec;
}

static bool is_ended(enum wire_agent_timing end)
{
    for (unsigned i = 0; i < WIRE_AGENT_TIMERS; i++)
        if (timers()[i].state != WIRE_AGENT_TIMER_NONE)
            return false;
    return rig.process->timing == end && kernel_timers() == 0;
}

static bool is_claimed(void)
{
    return is_ended(WIRE_AGENT_CLAIMED);
}

static uint64_t cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000 * MS + (uint64_t)time.tv_nsec;
}

static AWAY void burn(uint64_t ms)
{
    for (uint64_t end = cpu_ns() + ms * MS; cpu_ns() < end;)
        for (unsigned i = 0; i < 2000; i++)
            sink = sink * 31 + i;
}

static struct agent_rig_figures figures(void)
{
    return agent_rig_read(&rig, rig.process, 0, 0);
}

static void on_signal(int signal)
{
    caught = signal;
}

/* --- samples --- */

static void *burn_in_thread(void *spent)
{
    uint64_t before = cpu_ns();
    burn(150);
    *(uint64_t *)spent = cpu_ns() - before;
    return spent;
}

/* Each stands for what passed, the first for an interval; all but those that end beyond the thread are
 * burn's. */
static void test_thread(void **state)
{
    (void)state;
    pthread_t thread;
    uint64_t spent = 0;
    void *result;
    assert_int_equal(hooked_create(&thread, NULL, burn_in_thread, &spent), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &spent);
    struct agent_rig_figures all = figures(),
                             in = agent_rig_read(&rig, rig.process, (uint64_t)burn, (uint64_t)burn + 1024);
    assert_true(in.count >= 5);
    assert_true(all.count - in.count <= 2);
    assert_true(all.total <= spent + LEAST + SPREAD);
    assert_true(all.total >= spent / 2);
    assert_int_equal(rig.process->unrecorded, 0);
    assert_int_equal(rig.process->untimed, 0);
    assert_int_equal(kernel_timers(), 1); /* of the thread that has ended, until its place is needed */
}

static void *take_routine(void *argument)
{
    return argument;
}

/* A thread that cannot be made leaves nothing. */
static void test_no_thread(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)1 << 60);
    for (unsigned i = 0; i < 3 * WIRE_AGENT_STARTS; i++)
        assert_int_not_equal(hooked_create(&thread, &attributes, take_routine, NULL), 0);
    assert_int_equal(rig.process->unrecorded, 0);
    for (unsigned i = 0; i < 2 * WIRE_AGENT_TIMERS; i++) { /* more than there is room for at once */
        assert_int_equal(hooked_create(&thread, NULL, take_routine, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_equal(rig.process->unrecorded, 0);
    assert_int_equal(rig.process->untimed, 0);
    assert_true(kernel_timers() <= WIRE_AGENT_TIMERS);
}

static void test_gone(void **state)
{
    (void)state;
    begin_here();
    begin_here(); /* it has one */
    assert_int_equal(kernel_timers(), 1);
    burn(60);
    assert_true(figures().count >= 2);
    rig.control->gone = 1;
    burn(20); /* the one that was armed */
    assert_int_equal(armed_ns(), 0);
    uint64_t count = figures().count;
    burn(60);
    assert_int_equal(figures().count, count);
}

/* --- what the program does about the signal --- */

static void test_blocked(void **state)
{
    (void)state;
    sigset_t all, before, found;
    sigfillset(&all);
    begin_here();
    assert_true(armed_ns() > 0);
    assert_int_equal(hooked_mask(SIG_SETMASK, &all, &before), 0);
    assert_false(sigismember(&before, SIGURG));
    assert_int_equal(rig.process->idle, 1);
    assert_int_equal(own_timer()->state, WIRE_AGENT_TIMER_IDLE);
    assert_int_equal(armed_ns(), 0);
    uint64_t count = figures().count;
    burn(40);
    assert_int_equal(figures().count, count);
    assert_int_equal(sigpending(&found), 0);
    assert_false(sigismember(&found, SIGURG));
    assert_int_equal(hooked_mask(SIG_BLOCK, NULL, &found), 0); /* asks only */
    assert_int_equal(rig.process->idle, 1);
    assert_int_equal(hooked_mask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(rig.process->idle, 0);
    assert_true(armed_ns() > 0);
    burn(60);
    assert_true(figures().count > count);
}

/* A thread that is created with the signal blocked has a timer that rests. */
static void *look_at_timer(void *state)
{
    *(uint32_t *)state = own_timer()->state;
    return state;
}

static void test_born_blocked(void **state)
{
    (void)state;
    pthread_t thread;
    sigset_t all, before;
    uint32_t found = WIRE_AGENT_TIMER_ENDED;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(hooked_create(&thread, NULL, look_at_timer, &found), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(found, WIRE_AGENT_TIMER_IDLE);
}

static void test_asked(void **state)
{
    (void)state;
    struct sigaction old = {.sa_handler = on_signal};
    begin_here();
    assert_int_equal(hooked_action(SIGURG, NULL, &old), 0);
    assert_true(old.sa_handler == SIG_DFL && old.sa_flags == 0);
    assert_int_equal(hooked_action(SIGUSR1, NULL, &old), 0);
    /* The default action in another form: it is notified of that, and the handler is there still. */
    const struct sigaction reset = {.sa_handler = SIG_DFL, .sa_flags = SA_RESTART};
    assert_int_equal(hooked_action(SIGURG, &reset, &old), 0);
    assert_true(old.sa_handler == SIG_DFL && old.sa_flags == 0);
    assert_int_equal(hooked_action(SIGURG, NULL, &old), 0);
    assert_true(old.sa_handler == SIG_DFL && (old.sa_flags & SA_RESTART));
    assert_int_equal(handler_now(), rig.control->action.handler);
    assert_int_equal(rig.process->timing, WIRE_AGENT_TIMED);
    assert_int_equal(rig.process->unrecorded, 0);
}

static void test_taken(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal}, old;
    begin_here();
    assert_int_equal(hooked_action(SIGURG, &action, &old), 0);
    assert_true(old.sa_handler == SIG_DFL);
    assert_true(is_claimed());
    assert_int_equal(handler_now(), (uint64_t)on_signal);
    uint64_t count = figures().count;
    burn(30);
    assert_int_equal(figures().count, count);
    assert_int_equal(caught, 0);
    raise(SIGURG);
    assert_int_equal(caught, SIGURG);
    begin_here(); /* never again */
    assert_int_equal(handler_now(), (uint64_t)on_signal);
}

static void test_ignored(void **state)
{
    (void)state;
    begin_here();
    const struct sigaction action = {.sa_handler = SIG_IGN};
    assert_int_equal(hooked_action(SIGURG, &action, NULL), 0);
    assert_true(is_claimed());
    assert_int_equal(handler_now(), (uint64_t)SIG_IGN);
}

/* By a system call of its own, as Go's run time: found when a thread is created, and left as it is. */
static void test_taken_unseen(void **state)
{
    (void)state;
    pthread_t thread;
    uint64_t spent;
    struct wire_agent_action action = rig.control->action;
    begin_here();
    action.handler = (uint64_t)on_signal;
    set_action(&action);
    assert_int_equal(hooked_create(&thread, NULL, burn_in_thread, &spent), 0);
    pthread_join(thread, NULL);
    assert_true(is_ended(WIRE_AGENT_OVER));
    assert_int_equal(handler_now(), (uint64_t)on_signal);
    assert_int_equal(figures().count, 0);
}

/* Somebody else's signal. */
static void test_foreign(void **state)
{
    (void)state;
    begin_here();
    raise(SIGURG);
    assert_true(is_claimed());
    assert_int_equal(handler_now(), 0);
    raise(SIGURG);
    assert_int_equal(figures().count, 0);
}

static void check_claims(call_function **function, long number, long first, long second,
                         enum wire_agent_timing end)
{
    void *state = NULL;
    tear_down(&state);
    set_up(&state);
    begin_here();
    assert_int_equal((*function)(number, first, second, 0), number + first + second);
    assert_int_equal(end == WIRE_AGENT_TIMED ? rig.process->timing == end : is_ended(end), 1);
    assert_int_equal(handler_now(), end != WIRE_AGENT_TIMED ? 0 : rig.control->action.handler);
}

/* Filters and rings. */
static void test_claims(void **state)
{
    (void)state;
    check_claims(&hooked_prctl, PR_SET_SECCOMP, 1, 0, WIRE_AGENT_OVER);
    check_claims(&hooked_prctl, PR_SET_SECCOMP, 2, 0, WIRE_AGENT_TIMED); /* there is no filter */
    check_claims(&hooked_prctl, PR_SET_NAME, 2, 0, WIRE_AGENT_TIMED);
    check_claims(&hooked_ring, 8, 0, 0, WIRE_AGENT_OVER);
    check_claims(&hooked_syscall, SECCOMP, 0, 0, WIRE_AGENT_OVER);
    check_claims(&hooked_syscall, SECCOMP, 1, 0, WIRE_AGENT_TIMED);
    check_claims(&hooked_syscall, IO_URING, 8, 0, WIRE_AGENT_OVER);
    check_claims(&hooked_syscall, SYS_prctl, PR_SET_SECCOMP, 1, WIRE_AGENT_OVER);
    check_claims(&hooked_syscall, SYS_prctl, PR_GET_NAME, 2, WIRE_AGENT_TIMED);
    check_claims(&hooked_syscall, SYS_rt_sigaction, SIGURG, 4096, WIRE_AGENT_CLAIMED);
    check_claims(&hooked_syscall, SYS_rt_sigaction, SIGURG, 0, WIRE_AGENT_TIMED);
    check_claims(&hooked_syscall, SYS_rt_sigaction, SIGUSR1, 4096, WIRE_AGENT_TIMED);
    check_claims(&hooked_syscall, SYS_getpid, 0, 0, WIRE_AGENT_TIMED);
}

/* --- the other signal --- */

/* What tally does. */
static void move_here(void)
{
    const struct wire_agent_action none = {0};
    assert_int_equal(rig.process->timing, WIRE_AGENT_CLAIMED);
    assert_int_equal(rig.process->unmovable, 0);
    rig.process->before = none;
    rig.process->timer_signal = SIGWINCH;
    timer_rig_set_action(SIGWINCH, &rig.control->action);
    rig.process->timing = WIRE_AGENT_TIMED;
    begin_here();
}

static void claim(int signal)
{
    const struct sigaction action = {.sa_handler = on_signal};
    assert_int_equal(hooked_action(signal, &action, NULL), 0);
}

static void test_moved(void **state)
{
    (void)state;
    sigset_t window;
    struct sigaction old = {.sa_handler = on_signal};
    sigemptyset(&window);
    sigaddset(&window, SIGWINCH);
    begin_here();
    claim(SIGURG);
    move_here();
    uint64_t count = figures().count;
    burn(60);
    assert_true(figures().count > count);
    raise(SIGURG); /* the program's own */
    assert_int_equal(caught, SIGURG);
    claim(SIGURG);
    assert_int_equal(rig.process->timing, WIRE_AGENT_TIMED);
    assert_int_equal(hooked_mask(SIG_BLOCK, &window, NULL), 0);
    assert_int_equal(own_timer()->state, WIRE_AGENT_TIMER_IDLE);
    assert_int_equal(hooked_mask(SIG_UNBLOCK, &window, NULL), 0);
    assert_int_equal(own_timer()->state, WIRE_AGENT_TIMER_ARMED);
    assert_int_equal(hooked_action(SIGWINCH, NULL, &old), 0);
    assert_true(old.sa_handler == SIG_DFL);
    claim(SIGWINCH);
    assert_true(is_claimed());
    assert_int_equal(handler_of(SIGWINCH), (uint64_t)on_signal);
    assert_int_equal(handler_now(), (uint64_t)on_signal);
}

/* What is late, of timers with the first signal, is dropped. */
static void test_late(void **state)
{
    (void)state;
    begin_here();
    claim(SIGURG);
    move_here();
    set_action(&rig.control->action);
    raise(SIGURG);
    assert_int_equal(rig.process->timing, WIRE_AGENT_TIMED);
    raise(SIGWINCH);
    assert_true(is_claimed());
    assert_int_equal(handler_of(SIGWINCH), 0);
}

/* One that waits for the program's handler is not lost when that is set. */
static void test_waiting(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_handler = on_signal};
    struct sigaction old = action;
    sigset_t urgent;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    begin_here();
    assert_int_equal(hooked_mask(SIG_BLOCK, &urgent, NULL), 0);
    raise(SIGURG);
    assert_int_equal(hooked_action(SIGURG, &action, &old), 0);
    assert_true(old.sa_handler == SIG_DFL);
    assert_true(is_claimed());
    assert_int_equal(rig.process->unrecorded, 0);
    assert_int_equal(caught, 0);
    assert_int_equal(hooked_mask(SIG_UNBLOCK, &urgent, NULL), 0);
    assert_int_equal(caught, SIGURG);
    assert_int_equal(handler_now(), (uint64_t)on_signal);
}

static void check_stays(bool stays)
{
    void *state = NULL;
    assert_int_equal(rig.process->unmovable, stays);
    assert_int_equal(rig.process->timing, WIRE_AGENT_TIMED);
    tear_down(&state);
    set_up(&state);
    begin_here();
}

/* Who has a use for the other signal, or threads that are to have no timer, is not moved. */
static void test_stays(void **state)
{
    (void)state;
    static char bytes[6000];
    const stack_t small = {.ss_sp = bytes, .ss_size = sizeof bytes}, none = {.ss_flags = SS_DISABLE};
    const struct sigaction action = {.sa_handler = on_signal}, reset = {.sa_handler = SIG_DFL};
    sigset_t set, before;
    begin_here();
    assert_int_equal(hooked_action(SIGWINCH, NULL, NULL), 0);
    assert_int_equal(hooked_action(SIGWINCH, &reset, NULL), 0);
    assert_int_equal(hooked_action(SIGUSR1, &reset, NULL), 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    assert_int_equal(hooked_mask(SIG_BLOCK, &set, &before), 0);
    sigaddset(&set, SIGWINCH);
    assert_int_equal(hooked_mask(SIG_UNBLOCK, &set, NULL), 0);
    check_stays(false);
    assert_int_equal(hooked_action(SIGWINCH, &action, NULL), 0);
    check_stays(true);
    hooked_syscall(SYS_rt_sigaction, SIGWINCH, 4096, 0);
    check_stays(true);
    assert_int_equal(hooked_mask(SIG_BLOCK, &set, NULL), 0);
    assert_int_equal(hooked_mask(SIG_SETMASK, &before, NULL), 0);
    check_stays(true);
    assert_int_equal(hooked_stack(&small, NULL), 0);
    assert_int_equal(hooked_stack(&none, NULL), 0);
    check_stays(true);
    claim(SIGURG);
    assert_int_equal(hooked_ring(8, 0, 0, 0), 8);
    assert_true(is_ended(WIRE_AGENT_OVER));
}

/* A stack for signals on which the handler has no room. */
static void test_small_stack(void **state)
{
    (void)state;
    static char bytes[65536];
    const stack_t small = {.ss_sp = bytes, .ss_size = 6000},
                  large = {.ss_sp = bytes, .ss_size = sizeof bytes}, none = {.ss_flags = SS_DISABLE};
    begin_here();
    assert_int_equal(hooked_stack(&large, NULL), 0);
    assert_int_equal(hooked_stack(NULL, NULL), 0);
    assert_int_equal(own_timer()->state, WIRE_AGENT_TIMER_ARMED);
    burn(40);
    assert_true(figures().count >= 1);
    assert_int_equal(hooked_stack(&none, NULL), 0);
    assert_int_equal(own_timer()->state, WIRE_AGENT_TIMER_ARMED);
    assert_int_equal(hooked_stack(&small, NULL), 0);
    assert_int_equal(own_timer()->state, WIRE_AGENT_TIMER_ENDED);
    assert_int_equal(armed_ns(), 0);
    assert_int_equal(rig.process->untimed, 1);
    uint64_t count = figures().count;
    burn(30);
    assert_int_equal(figures().count, count);
    syscall(SYS_timer_delete, own_timer()->id);
    memset(own_timer(), 0, sizeof *own_timer());
    begin_here(); /* it has the small one still */
    assert_null(own_timer());
    assert_int_equal(rig.process->untimed, 2);
    assert_int_equal(hooked_stack(&none, NULL), 0);
}

/* --- children --- */

static void test_fork(void **state)
{
    (void)state;
    int status;
    begin_here();
    pid_t pid = hooked_fork();
    if (pid == 0) {
        burn(100);
        _exit(kernel_timers());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    const struct wire_agent_process *child = agent_rig_process(&rig, 1);
    struct agent_rig_figures found = agent_rig_read(&rig, child, (uint64_t)burn, (uint64_t)burn + 1024);
    assert_int_equal(child->timing, WIRE_AGENT_TIMED);
    assert_int_equal(child->unrecorded, 0);
    assert_int_equal(rig.process->unrecorded, 0);
    assert_true(found.count >= 4);
}

/* What a child sees of SIGURG, and then how it is timed. */
static void check_inherits(enum wire_agent_timing timing, uint32_t signal, uint64_t handler)
{
    int status;
    const struct wire_agent_process *child = agent_rig_process(&rig, rig.control->next_region);
    pid_t pid = fork();
    if (pid == 0) {
        struct sigaction old = {.sa_flags = SA_NODEFER};
        hooked_action(SIGURG, NULL, &old);
        _exit((uint64_t)old.sa_handler != handler);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(child->timing, timing);
    assert_int_equal(child->timer_signal, signal);
}

/* The parent's timers have moved, ended or begun since it was created. */
static void test_inherits(void **state)
{
    rig.process->timing = WIRE_AGENT_CLAIMED;
    check_inherits(WIRE_AGENT_TIMED, SIGURG, 0);
    tear_down(state);
    set_up(state);
    rig.process->timer_signal = SIGWINCH;
    check_inherits(WIRE_AGENT_TIMED, SIGURG, 0);
    rig.process->timing = WIRE_AGENT_CLAIMED;
    signal(SIGURG, on_signal);
    check_inherits(WIRE_AGENT_CLAIMED, SIGWINCH, (uint64_t)on_signal);
    rig.process->timing = WIRE_AGENT_TIMED;
    check_inherits(WIRE_AGENT_UNTIMED, SIGWINCH, (uint64_t)on_signal);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_thread),       TEST(test_no_thread), TEST(test_gone),   TEST(test_blocked),
        TEST(test_born_blocked), TEST(test_asked),     TEST(test_taken),  TEST(test_ignored),
        TEST(test_taken_unseen), TEST(test_foreign),   TEST(test_claims), TEST(test_moved),
        TEST(test_late),         TEST(test_waiting),   TEST(test_stays),  TEST(test_small_stack),
        TEST(test_fork),         TEST(test_inherits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
