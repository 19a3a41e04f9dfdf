/* What the program forbids itself (agent_hook_filter.c): the agent does without, and makes none of these calls.
 * Nothing is really forbidden here but in a child, where it kills. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "agent_rig.h"
#include "wire_agent_call.h"

#define AWAY __attribute__((noinline, noclone))

enum { DEPTH = 40, SECCOMP = 317 };

typedef long call_function(long number, long first, long second, long third);

static struct agent_rig rig;
static call_function *hooked_prctl, *hooked_syscall;
static void *(*allocate)(size_t size);

static long body_call(long number, long first, long second, long third)
{
    return number + first + second + third;
}

static int set_up(void **state)
{
    (void)state;
    agent_rig_begin(&rig, &(struct agent_rig_options){.flags = WIRE_AGENT_FOLLOW});
    hooked_prctl = (call_function *)agent_rig_hook(&rig, "agent_entry_prctl", (void *)body_call);
    hooked_syscall = (call_function *)agent_rig_hook(&rig, "agent_entry_syscall", (void *)body_call);
    allocate = (void *(*)(size_t))agent_rig_hook(&rig, "agent_entry_malloc", (void *)malloc);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

static AWAY void *deep(int depth)
{
    void *volatile block = depth > 0 ? deep(depth - 1) : allocate(16);
    return block;
}

/* A filter that answers some calls like this and allows the others. */
struct program {
    struct sock_filter items[16];
    struct sock_fprog head;
};

static void put(struct program *program, struct sock_filter item)
{
    program->items[program->head.len++] = item;
    program->head.filter = program->items;
}

static void make(struct program *program, const int *calls, size_t count, uint32_t answer)
{
    program->head.len = 0;
    put(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < count; i++) {
        put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1));
        put(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
    }
    put(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

static void check(uint32_t forbidden, uint64_t counted)
{
    assert_int_equal(rig.parameters->forbidden, forbidden);
    assert_int_equal(rig.process->forbidden, forbidden);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_FORBIDDEN], counted);
}

/* By each of the ways in which a filter is set; what the answer is does not matter. */
static void test_each_way(void **state)
{
    static const int calls[] = {SYS_futex, SYS_gettid};
    static const uint32_t answers[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO | EPERM,
                                       SECCOMP_RET_USER_NOTIF};
    struct program program;
    for (size_t i = 0; i < 4; i++) {
        make(&program, calls, 2, answers[i]);
        long address = (long)&program.head;
        if (i == 0)
            hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, address, 0);
        if (i == 1)
            hooked_syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, 0, address);
        if (i == 2)
            hooked_syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, address);
        if (i == 3)
            hooked_syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, address);
        check(WIRE_AGENT_CALL_FUTEX | WIRE_AGENT_CALL_GETTID, 2);
        tear_down(state);
        set_up(state);
    }
}

/* Arguments count, and so does what was forbidden before. */
static void test_more_and_more(void **state)
{
    (void)state;
    static const int first[] = {SYS_getpid}, second[] = {SYS_getpid, SYS_rt_sigprocmask};
    struct program program;
    make(&program, first, 1, SECCOMP_RET_KILL_PROCESS);
    hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program.head, 0);
    check(WIRE_AGENT_CALL_GETPID, 1);
    make(&program, second, 2, SECCOMP_RET_KILL_PROCESS);
    hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program.head, 0);
    check(WIRE_AGENT_CALL_GETPID | WIRE_AGENT_CALL_MASK, 2);
}

/* Making pages is asked for where it is done. */
static void test_what_makes_pages(void **state)
{
    (void)state;
    static const int calls[] = {SYS_madvise};
    struct program program;
    rig.control->flags |= WIRE_AGENT_COMMIT;
    make(&program, calls, 1, SECCOMP_RET_KILL_PROCESS);
    hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program.head, 0);
    check(WIRE_AGENT_CALL_SHOW | WIRE_AGENT_CALL_COMMIT, 2);
}

/* All that a fork's child needs for its region is one thing. */
static void test_what_shows_a_region(void **state)
{
    static const int calls[] = {SYS_munmap, SYS_remap_file_pages, SYS_madvise};
    struct program program;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        make(&program, &calls[i], 1, SECCOMP_RET_KILL_PROCESS);
        hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program.head, 0);
        check(WIRE_AGENT_CALL_SHOW, 1);
        tear_down(state);
        set_up(state);
    }
}

/* What the kernel refuses, allows or does not take for a filter. */
static void test_nothing_forbidden(void **state)
{
    (void)state;
    static const int calls[] = {SYS_futex};
    struct program program;
    make(&program, calls, 1, SECCOMP_RET_LOG);
    void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program.head, 0);
    hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0);
    hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)nowhere, 0);
    program.head.filter = nowhere;
    hooked_syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, 0, (long)&program.head);
    hooked_prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0);
    hooked_syscall(SYS_getpid, 1, 2, 3);
    check(0, 0);
    munmap(nowhere, 4096);
}

static void test_clock(void **state)
{
    (void)state;
    hooked_prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0);
    check(WIRE_AGENT_CALL_TICKS, 0); /* each call that is not timed counts */
}

/* System calls that are dispatched to the program would be, if they were ours. */
static void test_dispatch(void **state)
{
    (void)state;
    const uint32_t calls = WIRE_AGENT_CALLS_ALL & ~(uint32_t)(WIRE_AGENT_CALL_TICKS | WIRE_AGENT_CALL_TIMERS |
                                                              WIRE_AGENT_CALL_COMMIT);
    hooked_prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0);
    check(0, 0);
    hooked_syscall(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0);
    check(calls, (unsigned)__builtin_popcount(calls));
}

static uint64_t frames_of(void *block)
{
    uint64_t frames = 0;
    const struct wire_agent_node *nodes = agent_rig_nodes(&rig, rig.process);
    for (uint32_t i = 1; i <= rig.process->node_count; i++)
        frames += nodes[i].pc - (uint64_t)deep < 256;
    free(block);
    return frames;
}

/* Other calls tell what of a stack is readable; and when none may be made, what was known before does. */
static void test_stacks(void **state)
{
    static const int calls[] = {SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_futex};
    struct program program;
    for (size_t i = 0; i <= 3; i++) {
        make(&program, calls, i, SECCOMP_RET_KILL_PROCESS);
        free(allocate(1)); /* the thread has a record */
        hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program.head, 0);
        assert_true(frames_of(deep(DEPTH)) >= DEPTH);
        assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_CUT], 0);
        tear_down(state);
        set_up(state);
    }
}

/* In earnest, in a child. */
static void test_strict(void **state)
{
    (void)state;
    free(allocate(1));
    pid_t child = fork();
    if (child == 0) {
        hooked_prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        for (int i = 0; i < 100; i++)
            deep(DEPTH);
        syscall(SYS_exit, 7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

static void *make_record_slowly(void *argument)
{
    (void)argument;
    usleep(30000);
    __atomic_store_n(&rig.parameters->making[7], 0, __ATOMIC_SEQ_CST);
    return NULL;
}

/* A thread that has no record yet makes calls to have one: who sets a filter for all threads waits for it,
 * not for ever, and not for itself. */
static void test_records_that_are_made(void **state)
{
    static const int calls[] = {SYS_futex, SYS_mremap};
    struct program program;
    make(&program, calls, 2, SECCOMP_RET_KILL_PROCESS);
    for (int round = 0; round < 2; round++) {
        pthread_t thread;
        rig.parameters->making[7] = 4096;
        if (round == 0)
            assert_int_equal(pthread_create(&thread, NULL, make_record_slowly, NULL), 0);
        hooked_syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, (long)&program.head);
        check(WIRE_AGENT_CALL_FUTEX | WIRE_AGENT_CALL_GROW, 2);
        assert_int_equal(rig.parameters->making[7], round == 0 ? 0 : 4096);
        if (round == 0)
            pthread_join(thread, NULL);
        tear_down(state);
        set_up(state);
    }
}

static unsigned makers(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < WIRE_AGENT_MAKERS; i++)
        count += __atomic_load_n(&rig.parameters->making[i], __ATOMIC_SEQ_CST) ==
                 (uint64_t)(uintptr_t)__builtin_thread_pointer();
    return count;
}

static volatile unsigned listed, traps;
static sigjmp_buf away;
static bool jumps;

/* Of the agent's gettid: in the midst of making the record. */
static void on_trap(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    listed = makers();
    if (traps++ == 0 && jumps)
        siglongjmp(away, 1);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 1;
}

/* In a child, whose gettid is trapped. Its status: what went wrong. */
static int make_trapped(void)
{
    static const int calls[] = {SYS_gettid};
    struct program program;
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
    make(&program, calls, 1, SECCOMP_RET_TRAP);
    sigaction(SIGSYS, &action, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program.head))
        return 2;
    if (sigsetjmp(away, 1) == 0)
        free(allocate(1));
    if (traps != 1 || listed != 1)
        return 3;
    if (makers() != (jumps ? 1 : 0))
        return 4;
    free(allocate(1)); /* makes it anew where the handler jumped */
    return traps != (jumps ? 2 : 1) || listed != 1 || makers() != 0 ? 5 : 0;
}

static void run_in_child(int (*function)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(function());
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_makers_are_listed(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        jumps = round == 1;
        run_in_child(make_trapped);
    }
}

static volatile unsigned handled;

static void on_user_signal(int signal)
{
    (void)signal;
    handled = traps; /* 1: after the trap's handler has ended */
    free(allocate(1));
}

static void raise_in_trap(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    kill(getpid(), SIGUSR1); /* raise() asks for the thread's number */
    traps++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 1;
}

/* In a child. A signal that comes while the record is made is handled when it is complete. */
static int make_interrupted(void)
{
    static const int calls[] = {SYS_gettid};
    struct program program;
    struct sigaction trap = {.sa_sigaction = raise_in_trap, .sa_flags = SA_SIGINFO};
    struct sigaction user = {.sa_handler = on_user_signal};
    sigset_t blocked;
    make(&program, calls, 1, SECCOMP_RET_TRAP);
    sigaction(SIGSYS, &trap, NULL);
    sigaction(SIGUSR1, &user, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program.head))
        return 2;
    free(allocate(1));
    if (handled != 1 || rig.process->losses[WIRE_AGENT_LOSS_INTERRUPTED] != 0)
        return 3;
    if (makers() != 0)
        return 4;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    return sigisemptyset(&blocked) ? 0 : 5;
}

static void test_signals_wait_for_a_record(void **state)
{
    (void)state;
    run_in_child(make_interrupted);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_each_way),
        TEST(test_more_and_more),
        TEST(test_what_shows_a_region),
        TEST(test_what_makes_pages),
        TEST(test_nothing_forbidden),
        TEST(test_clock),
        TEST(test_dispatch),
        TEST(test_stacks),
        TEST(test_strict),
        TEST(test_records_that_are_made),
        TEST(test_makers_are_listed),
        TEST(test_signals_wait_for_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
