/* What /proc says of threads: lines of it, this process, and a child. */
#include "proc_privileges.h"
#include "proc_refuse.h"
#include "proc_target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void a_call_is_read(void **state)
{
    (void)state;
    struct proc_target_call call;
    assert_true(proc_target_parse_call(
        "230 0x1 0x0 0x7ffc51e7c6b0 0x7ffc51e7c6f0 0x0 0x0 0x7ffc51e7c698 0x7f5e6574f503\n", &call));
    assert_int_equal(call.number, 230);
    assert_int_equal(call.first, 1);
    assert_int_equal(call.sp, 0x7ffc51e7c698);
    assert_int_equal(call.pc, 0x7f5e6574f503);
    assert_true(proc_target_parse_call("-1 0x7ffdb0ce5d00 0x55d0c12a1189\n", &call));
    assert_int_equal(call.number, -1);
    assert_int_equal(call.sp, 0x7ffdb0ce5d00);
    assert_int_equal(call.pc, 0x55d0c12a1189);
    assert_false(proc_target_parse_call("running\n", &call));
    assert_false(proc_target_parse_call("0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0\n", &call)); /* has ended */
    assert_false(proc_target_parse_call("", &call));
    assert_false(proc_target_parse_call(" ", &call));
}

/* A child that has called `prepare` and waits forever, as the leader of a session of its own. */
static pid_t waiting_child(void (*prepare)(int), int argument)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setsid() < 0)
            _exit(1);
        prepare(argument);
        if (write(ready[1], "", 1) != 1)
            _exit(2);
        for (;;)
            syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void take_name(int unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "a) \n(b");
}

static void a_sleeper_is_where_it_sleeps(void **state)
{
    (void)state;
    struct proc_target_call call;
    uint64_t pc = 0, sp = 0;
    pid_t child = waiting_child(take_name, 0);
    while (proc_target_call(child, child, &call) != BASE_OK || call.number != SYS_ppoll)
        ;
    assert_int_equal(call.first, 0);
    assert_true(proc_target_is_in_kernel(child, child, &pc, &sp));
    assert_true(pc == call.pc && sp == call.sp && pc != 0 && sp != 0);
    end_child(child);
    assert_int_equal(proc_target_call(child, child, &call),
                     BASE_EPERMISSION); /* no such file, as in kernels without it */
    assert_false(proc_target_is_in_kernel(child, child, &pc, &sp));
}

/* Of a child: a thread that reads this of itself is in a call, read. */
static void a_running_thread_is_in_no_call(void **state)
{
    (void)state;
    struct proc_target_call call;
    uint64_t pc, sp;
    pid_t child = fork();
    if (child == 0)
        for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
            __asm__ volatile("");
    while (proc_target_call(child, child, &call) != BASE_EBUSY)
        ;
    assert_false(proc_target_is_in_kernel(child, child, &pc, &sp));
    end_child(child);
}

static void facts_are_read_behind_any_name(void **state)
{
    (void)state;
    struct proc_target_facts facts;
    char name[32] = "";
    pid_t child = waiting_child(take_name, 0);
    assert_int_equal(proc_target_facts(child, child, &facts), BASE_OK);
    assert_string_equal(facts.name, "a) \n(b");
    assert_int_equal(facts.process, child);
    assert_int_equal(facts.parent, getpid());
    assert_int_equal(facts.session, child);
    assert_int_equal(facts.terminal, 0);
    assert_int_equal(facts.threads, 1);
    assert_int_equal(facts.tracer, 0);
    assert_true(proc_target_name(child, child, name, sizeof name));
    assert_string_equal(name, "a) \n(b");
    end_child(child);
    assert_int_equal(proc_target_facts(child, child, &facts), BASE_ENOTFOUND);
    assert_false(proc_target_name(child, child, name, sizeof name));
}

static void take_terminal(int terminal)
{
    if (ioctl(terminal, TIOCSCTTY, 0))
        _exit(3);
}

static void a_terminal_is_seen(void **state)
{
    (void)state;
    struct proc_target_facts facts;
    int outer = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(outer >= 0 && grantpt(outer) == 0 && unlockpt(outer) == 0);
    int inner = open(ptsname(outer), O_RDWR | O_NOCTTY);
    assert_true(inner >= 0);
    pid_t child = waiting_child(take_terminal, inner);
    assert_int_equal(proc_target_facts(child, child, &facts), BASE_OK);
    assert_int_not_equal(facts.terminal, 0);
    end_child(child);
    close(inner);
    close(outer);
}

static void *wait_for(void *end)
{
    char byte;
    return read(*(int *)end, &byte, 1) == 1 ? end : NULL;
}

static void threads_are_counted(void **state)
{
    (void)state;
    enum { COUNT = 5 };
    struct proc_target_facts facts;
    pthread_t threads[COUNT];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for, &ends[0]), 0);
    assert_int_equal(proc_target_facts(getpid(), getpid(), &facts), BASE_OK);
    assert_int_equal(facts.threads, COUNT + 1);
    assert_int_equal(write(ends[1], "12345", COUNT), COUNT);
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    close(ends[0]);
    close(ends[1]);
}

static void capabilities_of_a_file_are_read(void **state)
{
    (void)state;
    static const unsigned char first[] = {1, 0, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0},
                               second[] = {1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0},
                               third[] = {1, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0,
                                          5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0};
    assert_int_equal(proc_privileges_of_file(first, sizeof first), 1u << 10);
    assert_int_equal(proc_privileges_of_file(second, sizeof second), UINT64_C(5) << 32 | 1u << 10);
    assert_int_equal(proc_privileges_of_file(third, sizeof third), UINT64_C(5) << 32 | 1u << 10);
    assert_int_equal(proc_privileges_of_file(second, 8), 0);
    assert_int_equal(proc_privileges_of_file(second, 0), 0);
}

/* As the kernel reports them to the process itself. */
static uint64_t permitted(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    return (uint64_t)data[1].permitted << 32 | data[0].permitted;
}

static uint64_t bounding(void)
{
    uint64_t set = 0;
    for (unsigned long i = 0; i < 64; i++)
        set |= (uint64_t)(prctl(PR_CAPBSET_READ, i, 0ul, 0ul, 0ul) == 1) << i;
    return set;
}

static void credentials_are_read(void **state)
{
    (void)state;
    struct proc_target_credentials has;
    assert_int_equal(proc_target_credentials(getpid(), &has), BASE_OK);
    assert_int_equal(has.user, geteuid());
    assert_int_equal(has.group, getegid());
    assert_int_equal(has.permitted, permitted());
    assert_int_equal(has.bounding, bounding());
    assert_int_equal(proc_privileges_of(getpid()), PROC_PRIVILEGES_KEPT);
    assert_int_equal(proc_target_credentials(0, &has), BASE_ENOTFOUND);
    assert_int_equal(proc_privileges_of(0), PROC_PRIVILEGES_KEPT);
}

/* --- memory that is shared --- */

static int child_number[2], child_may_end[2]; /* pipes */

/* The calling thread is suspended until the child has ended, the others go on. */
static void *make_vfork_child(void *unused)
{
    char byte = 0;
    pid_t child = vfork();
    if (child == 0) {
        child = getpid();
        _exit(write(child_number[1], &child, sizeof child) == sizeof child &&
                      read(child_may_end[0], &byte, 1) == 1
                  ? 0
                  : 1);
    }
    waitpid(child, NULL, 0);
    return unused;
}

static void a_vfork_child_runs_in_its_parent(void **state)
{
    (void)state;
    pthread_t thread;
    pid_t child;
    assert_int_equal(pipe(child_number) | pipe(child_may_end), 0);
    assert_int_equal(pthread_create(&thread, NULL, make_vfork_child, NULL), 0);
    assert_int_equal(read(child_number[0], &child, sizeof child), sizeof child);
    pid_t parent = proc_target_vfork_parent(child);
    assert_int_equal(write(child_may_end[1], "", 1), 1);
    pthread_join(thread, NULL);
    assert_int_equal(parent, getpid());
    assert_int_equal(proc_target_vfork_parent(getpid()), 0);
}

static void a_fork_child_runs_in_its_own(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    pid_t parent = proc_target_vfork_parent(child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(parent, 0);
}

/* --- signals' frames --- */

enum { STACK_BYTES = 64 << 10 };

static struct {
    uint64_t pcs[4]; /* what was found between a handler and the end of its caller's frame */
    size_t count;
    uint64_t saved;
    void *above;
} framed;

static void find_frames(uint64_t sp, uint64_t end)
{
    static uint64_t words[STACK_BYTES / 8];
    size_t size = end - sp < sizeof words ? (size_t)(end - sp) : sizeof words;
    size_t count = proc_target_read(getpid(), sp & ~UINT64_C(7), words, size) / sizeof *words;
    framed.count = 0;
    for (size_t i = 0; i < count; i++)
        if (proc_target_is_frame_pc(words, count, i) && framed.count < 4)
            framed.pcs[framed.count++] = words[i];
}

static void look_at_frames(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    const ucontext_t *here = context;
    framed.saved = (uint64_t)here->uc_mcontext.gregs[REG_RIP];
    uint64_t end = framed.above ? (uint64_t)framed.above : (uint64_t)here->uc_mcontext.gregs[REG_RSP];
    find_frames((uint64_t)__builtin_frame_address(0), end);
}

static void raise_with(int flags)
{
    struct sigaction action = {.sa_sigaction = look_at_frames, .sa_flags = SA_SIGINFO | flags}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
    assert_int_equal(framed.count, 1);
    assert_int_equal(framed.pcs[0], framed.saved);
}

static void frames_of_signals_are_known(void **state)
{
    (void)state;
    static char other[STACK_BYTES];
    framed.above = NULL;
    raise_with(0);
    const stack_t stack = {.ss_sp = other, .ss_size = sizeof other}, none = {.ss_flags = SS_DISABLE};
    assert_int_equal(sigaltstack(&stack, NULL), 0);
    framed.above = other + sizeof other;
    raise_with(SA_ONSTACK);
    sigaltstack(&none, NULL);
}

/* Small odd numbers behind an address, as on stacks of unwinders, are none; nor is a frame that is cut. */
static void numbers_are_no_frames(void **state)
{
    (void)state;
    enum { PC = 21, COUNT = 26 };
    uint64_t words[COUNT] = {[0] = 7, [PC] = 0x401000, 0x246, 0x2b000000000033, 0, 1};
    assert_true(proc_target_is_frame_pc(words, COUNT, PC));
    assert_false(proc_target_is_frame_pc(words, COUNT - 1, PC));
    assert_false(proc_target_is_frame_pc(words + 1, COUNT - 1, PC - 1));
    const struct {
        size_t at;
        uint64_t word;
    } others[] = {{0, 0x7fff0000}, {PC + 1, 0x3b}, {PC + 1, 0x402246},
                  {PC + 2, 3},     {PC + 2, 0x2b}, {PC + 4, 300}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        uint64_t before = words[others[i].at];
        words[others[i].at] = others[i].word;
        assert_false(proc_target_is_frame_pc(words, COUNT, PC));
        words[others[i].at] = before;
    }
}

/* --- memory --- */

/* Whole, to the page that is missing, and none; of ourselves. False: something is wrong. */
static bool reads_memory(void)
{
    static char copy[8192];
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 'x', 8192);
    bool whole = proc_target_read(getpid(), (uint64_t)(uintptr_t)pages, copy, 8192) == 8192 &&
                 !memcmp(copy, pages, 8192);
    munmap(pages + 4096, 4096);
    memset(copy, 0, sizeof copy);
    bool cut = proc_target_read(getpid(), (uint64_t)(uintptr_t)pages + 96, copy, 8000) == 4000 &&
               !memcmp(copy, pages, 4000) && !copy[4000];
    bool none = proc_target_read(getpid(), (uint64_t)(uintptr_t)pages + 4096, copy, 8) == 0;
    munmap(pages, 4096);
    return whole && cut && none;
}

/* A process of two threads whose first one has ended. */
static void *outlive(void *unused)
{
    static char word[8] = "outlives";
    char copy[8] = "";
    struct proc_target_facts facts = {0};
    while (proc_target_facts(getpid(), getpid(), &facts) == BASE_OK && facts.state != 'Z')
        usleep(1000);
    size_t got = proc_target_read(getpid(), (uint64_t)(uintptr_t)word, copy, sizeof copy);
    _exit(got != sizeof copy || memcmp(copy, word, sizeof copy) ? 1 : 0);
    return unused;
}

static int status_of(void (*work)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        work();
        _exit(9);
    }
    waitpid(child, &status, 0);
    return status;
}

static void read_refused(void)
{
    _exit(!proc_refuse(SYS_process_vm_readv, EPERM) || !reads_memory());
}

static void outlive_refused(void)
{
    pthread_t thread;
    if (!proc_refuse(SYS_process_vm_readv, EPERM) || pthread_create(&thread, NULL, outlive, NULL))
        _exit(2);
    pthread_exit(NULL);
}

static void memory_is_read_by_either_way(void **state)
{
    (void)state;
    assert_true(reads_memory());
    assert_int_equal(status_of(read_refused), 0);
    assert_int_equal(status_of(outlive_refused), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_read),
        cmocka_unit_test(a_sleeper_is_where_it_sleeps),
        cmocka_unit_test(a_running_thread_is_in_no_call),
        cmocka_unit_test(facts_are_read_behind_any_name),
        cmocka_unit_test(a_terminal_is_seen),
        cmocka_unit_test(threads_are_counted),
        cmocka_unit_test(capabilities_of_a_file_are_read),
        cmocka_unit_test(credentials_are_read),
        cmocka_unit_test(a_vfork_child_runs_in_its_parent),
        cmocka_unit_test(a_fork_child_runs_in_its_own),
        cmocka_unit_test(frames_of_signals_are_known),
        cmocka_unit_test(numbers_are_no_frames),
        cmocka_unit_test(memory_is_read_by_either_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
