/* What is left when tally ends at any moment, when a target does, when a ptrace request fails (the linker
 * sends the helper's here: -Wl,--wrap=ptrace), and when a thread is where code is to change. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_clock.h"
#include "helper_session.h"
#include "trace_child.h"

/* --- the faults --- */

struct faults {
    atomic_uint calls, fail_at; /* 0: none */
    int number;
};
static struct faults *faults; /* shared with helpers */

long __real_ptrace(int request, pid_t pid, void *address, void *data);
long __wrap_ptrace(int request, pid_t pid, void *address, void *data);
long __wrap_ptrace(int request, pid_t pid, void *address, void *data)
{
    if (faults && atomic_fetch_add(&faults->calls, 1) + 1 == atomic_load(&faults->fail_at)) {
        errno = faults->number;
        return -1;
    }
    return __real_ptrace(request, pid, address, data);
}

/* --- tally ends while a process is being left --- */

enum { RECEIVERS = 64, LEFT_ROUNDS = 40 };

/* The kernel ends such a call with EINTR at any stop, signal(7). */
static void *receive(void *argument)
{
    struct trace_child_shared *shared = argument;
    int ends[2];
    char byte;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 200000}, sizeof(struct timeval)))
        trace_child_wrong(shared, "socket", errno);
    while (!atomic_load(&shared->stop))
        if (recv(ends[0], &byte, 1, 0) != -1 || errno != EAGAIN)
            trace_child_wrong(shared, "recv", errno);
    return NULL;
}

static int receive_all(struct trace_child_shared *shared)
{
    pthread_t threads[RECEIVERS];
    for (unsigned i = 0; i < RECEIVERS; i++)
        if (pthread_create(&threads[i], NULL, receive, shared))
            return 3;
    helper_session_nap_us(20000);
    trace_child_ready(shared);
    for (unsigned i = 0; i < RECEIVERS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

static void calls_go_on_when_tally_ends_while_it_leaves(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(receive_all, RECEIVERS);
    struct base_error error = {0};
    for (int i = 0; i < LEFT_ROUNDS; i++) {
        struct helper helper;
        helper_session_must(helper_begin(&helper, &error), &error);
        helper_session_must(helper_trace_follow(&helper, child.pid, &error), &error);
        helper_session_must(helper_trace_leave(&helper, child.pid, &error), &error);
        helper_end(&helper); /* for the helper it is as if tally had been killed */
        assert_true(trace_child_is_free(child.pid));
    }
    assert_int_equal(trace_child_finish(&child), 0);
}

/* --- writes at exit --- */

static volatile uint64_t exit_word; /* every target has its own */

static int wait_for_exit_write(void)
{
    int status;
    pid_t pid = fork();
    while (!exit_word)
        helper_session_nap_us(1000);
    if (pid == 0)
        _exit(exit_word == 77 ? 3 : 1);
    return exit_word == 77 && waitpid(pid, &status, 0) == pid ? 20 + WEXITSTATUS(status) : 1;
}

static void a_write_at_exit_reaches_every_process(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    pid_t pid = helper_session_fork(wait_for_exit_write);
    helper_session_follow(&tally, pid);
    helper_session_must(
        helper_trace_write_at_exit(&tally.helper, pid, (uint64_t)(uintptr_t)&exit_word, 77, &error), &error);
    atomic_store(&helper_session_truth->go, true);
    helper_session_work_until(&tally, TRACE_FORK, 1);
    helper_session_nap_us(20000);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    helper_session_finish(&tally);
    assert_int_equal(helper_session_wait_for(pid), 23 << 8);
}

/* --- endings --- */

static int ends_at_once(void)
{
    return 9;
}

static bool has_memory(pid_t pid)
{
    uint64_t word = 0;
    struct iovec local = {&word, sizeof word}, remote = {(void *)(uintptr_t)&exit_word, sizeof word};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof word;
}

static void an_ending_waits_until_it_was_inspected(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    helper_session_must(helper_trace_report_endings(&tally.helper, &error), &error);
    pid_t pid = helper_session_start(&tally, ends_at_once, 4);
    helper_session_work_until(&tally, TRACE_ENDING, 1);
    assert_int_equal(tally.last[TRACE_ENDING].pid, pid);
    assert_true(has_memory(pid));
    assert_int_equal(tally.kinds[TRACE_END], 0);
    helper_session_must(helper_trace_let_end(&tally.helper, pid, &error), &error);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 9 << 8);
    assert_int_equal(helper_trace_let_end(&tally.helper, pid, &error), BASE_ENOTFOUND);
    helper_session_finish(&tally);
}

/* Threads' ends are not reported so; children's are. Without an answer all end all the same. */
static void an_ending_does_not_wait_for_ever(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    helper_session_must(helper_trace_report_endings(&tally.helper, &error), &error);
    pid_t pid = helper_session_start(&tally, helper_session_churn, 64);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(tally.kinds[TRACE_ENDING], 1);
    assert_int_equal(tally.kinds[TRACE_EXITED], 1001);
    assert_int_equal(helper_session_wait_for(pid), 17 << 8);
    atomic_store(&helper_session_truth->go, false);
    pid = helper_session_start(&tally, helper_session_deep_tree, 64);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(tally.kinds[TRACE_ENDING], 1 + 31);
    assert_int_equal(helper_session_wait_for(pid), 31 << 8);
    helper_session_finish(&tally);
}

static void an_ending_process_can_be_held_left_and_killed(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct helper_session tally = helper_session_begin();
        struct base_error error = {0};
        helper_session_must(helper_trace_report_endings(&tally.helper, &error), &error);
        pid_t pid = helper_session_start(&tally, ends_at_once, 4);
        helper_session_work_until(&tally, TRACE_ENDING, 1);
        if (way == 0) {
            helper_trace_hold(&tally.helper, pid, NULL, NULL);
            helper_trace_release(&tally.helper, pid, NULL, NULL);
        }
        if (way == 1)
            helper_session_must(helper_trace_leave(&tally.helper, pid, &error), &error);
        if (way == 2)
            kill(pid, SIGKILL);
        int status = helper_session_wait_for(pid);
        assert_true(status == 9 << 8 || (way == 2 && status == SIGKILL));
        helper_session_finish(&tally);
    }
}

/* --- tally is killed --- */

static void *sum_up(void *argument)
{
    atomic_fetch_add(&helper_session_truth->creations, 1);
    return argument;
}

/* Threads, forks, vforks, execs; ends with a number that depends on all of them. */
static int busy_processes(void)
{
    static char self[] = "/proc/self/exe", option[] = "--image";
    char *const image[] = {self, option, NULL};
    volatile int sum = 0;
    for (volatile int round = 0; round < 12; round++) {
        pthread_t threads[3];
        int status;
        for (int i = 0; i < 3; i++)
            if (pthread_create(&threads[i], NULL, sum_up, NULL))
                return 201;
        pid_t pid = round % 2 ? fork() : vfork();
        if (pid == 0 && round % 3 == 0) {
            execv(image[0], image);
            _exit(1);
        }
        if (pid == 0)
            _exit(42);
        if (waitpid(pid, &status, 0) != pid || status != 42 << 8)
            return 202;
        for (int i = 0; i < 3; i++)
            if (pthread_join(threads[i], NULL))
                return 203;
        sum += 3 + (WEXITSTATUS(status) == 42);
    }
    return sum;
}

static int process_tree(void)
{
    pid_t pids[3];
    int sum = 0;
    for (int i = 0; i < 3; i++)
        if ((pids[i] = fork()) == 0)
            _exit(busy_processes());
    for (int i = 0; i < 3; i++) {
        int status;
        if (waitpid(pids[i], &status, 0) != pids[i] || status != 48 << 8)
            return 204;
        sum++;
    }
    return sum;
}

/* Follows, holds and answers for ever. */
static _Noreturn void play_tally(pid_t pid, unsigned seed)
{
    struct helper_session tally = {.batch = 3};
    if (helper_begin(&tally.helper, NULL) < 0 || helper_trace_follow(&tally.helper, pid, NULL) < 0)
        _exit(1);
    atomic_store(&helper_session_truth->go, true);
    for (;;) {
        helper_session_work(&tally, 1);
        if (rand_r(&seed) % 4 == 0 && helper_trace_hold(&tally.helper, pid, NULL, NULL) == BASE_OK &&
            rand_r(&seed) % 2)
            helper_trace_release(&tally.helper, pid, NULL, NULL);
    }
}

static void tally_is_killed_at_random_moments(void **state)
{
    (void)state;
    unsigned seed = 4711, before_end = 0, kills = trace_child_turns(40, 100);
    for (unsigned i = 0; i < kills; i++) {
        memset(helper_session_truth, 0, sizeof *helper_session_truth);
        pid_t pid = helper_session_fork(process_tree);
        pid_t tally = fork();
        if (tally == 0)
            play_tally(pid, i);
        while (!atomic_load(&helper_session_truth->go))
            helper_session_nap_us(200);
        helper_session_nap_us(rand_r(&seed) % 40000);
        siginfo_t ended = {0};
        waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT);
        before_end += ended.si_pid == 0;
        kill(tally, SIGKILL);
        helper_session_wait_for(tally);
        assert_int_equal(helper_session_wait_for(pid), 3 << 8);
        assert_int_equal(atomic_load(&helper_session_truth->creations), 108);
    }
    printf("# killed %u times before the target ended\n", before_end);
    assert_true(before_end > kills / 5);
}

/* --- the target is killed --- */

static int fork_for_ever(void)
{
    setpgid(0, 0);
    atomic_store(&helper_session_truth->beats, 1);
    for (;;) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, WNOHANG);
    }
}

/* A child whose creator was killed before it could announce it must not stay stopped for ever. */
static void children_of_the_killed_go_on(void **state)
{
    (void)state;
    unsigned seed = 99;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (int i = 0; i < 100; i++) {
        struct helper_session tally = helper_session_begin();
        pid_t pid = helper_session_start(&tally, fork_for_ever, 0);
        while (!atomic_load(&helper_session_truth->beats))
            helper_session_work(&tally, 1);
        uint64_t until = base_clock_now() + (uint64_t)(rand_r(&seed) % 3000) * 1000;
        while (base_clock_now() < until)
            helper_session_work(&tally, 0);
        kill(pid, SIGKILL);
        int left = 3000;
        while (waitpid(-pid, NULL, WNOHANG) >= 0 && left-- > 0)
            helper_session_work(&tally, 1);
        assert_true(left > 0);
        assert_int_equal(tally.kinds[TRACE_END], tally.kinds[TRACE_FORK] + 1);
        helper_session_finish(&tally);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* --- out of code that changes --- */

void test_spin(atomic_ullong *beats, atomic_uint *done);
extern const char test_spin_group[], test_spin_group_end[], test_spin_end[];

/* The group is most of the loop, so that most stops find the thread in it. */
__asm__(".text\n"
        ".globl test_spin, test_spin_group, test_spin_group_end, test_spin_end\n"
        "test_spin:\n"
        "    lock incq (%rdi)\n"
        "test_spin_group:\n"
        "    .fill 12, 1, 0x90\n"
        "    lock incq (%rdi)\n"
        "    .fill 12, 1, 0x90\n"
        "test_spin_group_end:\n"
        "    cmpl $0, (%rsi)\n"
        "    je test_spin\n"
        "    ret\n"
        "test_spin_end:\n");

static void on_timer(int number)
{
    (void)number;
    atomic_fetch_add(&helper_session_truth->signals, 1);
}

static int spin(void)
{
    struct itimerval every = {{0, 2000}, {0, 2000}};
    signal(SIGALRM, on_timer);
    setitimer(ITIMER_REAL, &every, NULL);
    test_spin(&helper_session_truth->beats, &helper_session_truth->done);
    return 18;
}

static uint64_t address_of(const char *label)
{
    return (uint64_t)(uintptr_t)label;
}

static void a_thread_steps_out_of_a_group(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct user_regs_struct registers;
    const struct trace_step_range group = {address_of(test_spin_group), address_of(test_spin_group_end)},
                                  all = {(uint64_t)(uintptr_t)test_spin, address_of(test_spin_end)};
    unsigned inside = 0, stuck = 0;
    pid_t pid = helper_session_start(&tally, spin, 0);
    while (atomic_load(&helper_session_truth->beats) < 100)
        helper_session_work(&tally, 1);
    for (int i = 0; i < 200; i++) {
        helper_session_hold(&tally, pid);
        helper_session_must(helper_trace_read_registers(&tally.helper, pid, pid, &registers, &error), &error);
        bool within = registers.rip >= group.start && registers.rip < group.end;
        bool in_loop = registers.rip >= all.start && registers.rip < all.end;
        inside += within;
        unsigned signals = atomic_load(&helper_session_truth->signals);
        helper_session_must(helper_trace_step_out(&tally.helper, pid, pid, &group, 1, &error), &error);
        helper_session_must(helper_trace_read_registers(&tally.helper, pid, pid, &registers, &error), &error);
        assert_false(registers.rip >= group.start && registers.rip < group.end);
        if (within)
            assert_int_equal(registers.rip, group.end);
        assert_int_equal(atomic_load(&helper_session_truth->signals), signals);
        if (in_loop && i % 10 == 0) {
            assert_int_equal(helper_trace_step_out(&tally.helper, pid, pid, &all, 1, NULL), BASE_EBUSY);
            stuck++;
        }
        helper_session_release(&tally, pid);
        helper_session_nap_us(300);
    }
    printf("# %u of 200 times inside\n", inside);
    assert_true(inside > 20 && stuck > 0);
    unsigned signals = atomic_load(&helper_session_truth->signals);
    for (int i = 0; i < 1000 && atomic_load(&helper_session_truth->signals) < signals + 10; i++)
        helper_session_nap_us(1000);
    assert_true(atomic_load(&helper_session_truth->signals) >= signals + 10);
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 18 << 8);
    helper_session_finish(&tally);
}

static void a_thread_asleep_in_a_call_is_not_moved(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    const struct trace_step_range everywhere = {0, UINT64_MAX};
    struct trace_child child = trace_child_start(trace_child_busy, 51);
    helper_session_follow(&tally, child.pid);
    struct trace_stop_thread *threads = NULL;
    size_t count = 0;
    unsigned asleep = 0;
    /* The one that sleeps gets a processor seldom, and must have one to go to sleep. */
    for (int round = 0; round < 1000 && !asleep; round++) {
        helper_session_hold(&tally, child.pid);
        assert_int_equal(helper_trace_threads(&tally.helper, child.pid, &threads, &count, NULL), BASE_OK);
        for (size_t i = 0; i < count; i++) {
            struct user_regs_struct registers;
            if (helper_trace_read_registers(&tally.helper, child.pid, threads[i].tid, &registers, NULL) < 0 ||
                (long)registers.orig_rax < 0 || (long)registers.rax > -512 || (long)registers.rax < -516)
                continue;
            asleep++;
            assert_int_equal(
                helper_trace_step_out(&tally.helper, child.pid, threads[i].tid, &everywhere, 1, NULL),
                BASE_EBUSY);
        }
        free(threads);
        helper_session_release(&tally, child.pid);
        helper_session_nap_us(1000);
    }
    assert_true(asleep > 0);
    helper_session_finish(&tally);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* --- numbers that are used again: root may choose the next one --- */

static bool ask_for_number(pid_t wanted)
{
    int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    bool written = file >= 0 && dprintf(file, "%d", wanted - 1) > 0;
    if (file >= 0)
        close(file);
    return written;
}

/* A process, then a thread, then a process under one number; how often that number could be had. */
static int come_again(void)
{
    int again = 0, status;
    pid_t number = fork();
    if (number == 0)
        _exit(1);
    waitpid(number, &status, 0);
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        if (!ask_for_number(number))
            return 255;
        if (i % 2) {
            if (pthread_create(&thread, NULL, helper_session_live, NULL) || pthread_join(thread, NULL))
                return 254;
            continue;
        }
        pid_t pid = fork();
        if (pid == 0)
            _exit(helper_session_number_of(helper_session_own_gs()) ? 1 : 2);
        if (waitpid(pid, &status, 0) != pid || status != 1 << 8)
            return 253;
        again += pid == number;
    }
    return again;
}

static void numbers_may_be_used_again(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, come_again, 4);
    helper_session_work_until_ended(&tally, pid);
    int status = helper_session_wait_for(pid);
    assert_true(WIFEXITED(status));
    helper_session_finish(&tally);
    if (WEXITSTATUS(status) == 255)
        skip();
    printf("# %d of 20 forks got the number again\n", WEXITSTATUS(status));
    assert_true(WEXITSTATUS(status) <= 20);
    assert_int_equal(tally.kinds[TRACE_FORK], 21);
    assert_int_equal(tally.kinds[TRACE_CREATED], 20);
    assert_int_equal(tally.kinds[TRACE_EXITED], 42);
    assert_int_equal(tally.kinds[TRACE_END], 22);
}

/* --- privileges --- */

static bool copy_with_rights(const char *path)
{
    int from = open("/bin/true", O_RDONLY | O_CLOEXEC), to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    struct stat file;
    bool done = from >= 0 && to >= 0 && !fstat(from, &file) &&
                sendfile(to, from, NULL, (size_t)file.st_size) == file.st_size && !fchmod(to, 04755);
    close(from);
    close(to);
    return done;
}

/* In a process without privileges: 0 when the exec was reported as it should be. */
static int follow_exec_of(const char *path, uint64_t wanted)
{
    struct helper_session tally = {.batch = 1};
    if (helper_begin(&tally.helper, NULL) < 0)
        return 2;
    pid_t pid = fork();
    if (pid == 0) {
        while (!atomic_load(&helper_session_truth->go))
            helper_session_nap_us(500);
        execl(path, path, (char *)NULL);
        _exit(1);
    }
    if (helper_trace_follow(&tally.helper, pid, NULL) < 0)
        return 3;
    atomic_store(&helper_session_truth->go, true);
    for (int i = 0; i < 1000 && tally.ended != pid; i++)
        helper_session_work(&tally, 10);
    helper_end(&tally.helper);
    return helper_session_wait_for(pid) ? 4 : tally.kinds[TRACE_EXEC] == 1 && tally.flags == wanted ? 0 : 5;
}

static void lost_privileges_are_reported(void **state)
{
    (void)state;
    char directory[] = "/tmp/tally-rights-XXXXXX", path[64];
    struct statvfs system;
    if (geteuid() != 0 || !mkdtemp(directory) || statvfs(directory, &system) ||
        (system.f_flag & (ST_NOSUID | ST_NOEXEC)))
        skip();
    snprintf(path, sizeof path, "%s/true", directory);
    assert_true(chmod(directory, 0755) == 0 && copy_with_rights(path));
    const char *const images[] = {path, "/bin/true"};
    for (int i = 0; i < 2; i++) {
        memset(helper_session_truth, 0, sizeof *helper_session_truth);
        pid_t pid = fork();
        if (pid == 0) {
            if (setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1))
                _exit(9);
            _exit(follow_exec_of(images[i], i == 0 ? TRACE_FLAG_PRIVILEGES_LOST : 0));
        }
        assert_int_equal(helper_session_wait_for(pid), 0);
    }
    unlink(path);
    rmdir(directory);
}

/* --- vfork before the process is followed --- */

static int nap_in_vfork(void)
{
    int status;
    atomic_store(&helper_session_truth->pids[0], getpid());
    pid_t pid = vfork();
    if (pid == 0) {
        while (!atomic_load(&helper_session_truth->done)) {
            atomic_fetch_add(&helper_session_truth->beats, 1);
            helper_session_nap_us(1000);
        }
        _exit(7);
    }
    return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 1;
}

static void a_vfork_child_from_before_is_followed_too(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    atomic_store(&helper_session_truth->go, true);
    pid_t pid = helper_session_fork(nap_in_vfork);
    while (!helper_session_beats())
        ;
    helper_session_follow(&tally, pid);
    helper_session_work_until(&tally, TRACE_VFORK, 1);
    assert_int_equal(tally.last[TRACE_VFORK].parent, pid);
    for (int i = 0; i < 5; i++) {
        helper_session_hold(&tally, pid);
        unsigned long long beats = atomic_load(&helper_session_truth->beats);
        helper_session_nap_us(10000);
        assert_int_equal(atomic_load(&helper_session_truth->beats), beats);
        helper_session_release(&tally, pid);
        assert_true(helper_session_beats());
    }
    atomic_store(&helper_session_truth->done, 1);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 7 << 8);
    assert_int_equal(tally.kinds[TRACE_END], 2);
    helper_session_finish(&tally);
}

/* --- ptrace fails --- */

static int small_processes(void)
{
    int sum = 0, status;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, helper_session_live, NULL) || pthread_join(thread, NULL))
            return 201; /* joined before the fork: a sanitizer's locks do not survive it */
        pid_t pid = fork();
        if (pid == 0)
            _exit(busy_processes() == 48 ? 0 : 1);
        raise(SIGCHLD);
        sum += waitpid(pid, &status, 0) == pid && status == 0;
    }
    return sum;
}

/* The target ends as it should, whatever was reported. */
static void change_target(pid_t pid, unsigned *refused)
{
    struct helper_session tally = {.batch = 4};
    assert_int_equal(helper_begin(&tally.helper, NULL), BASE_OK);
    if (helper_trace_follow(&tally.helper, pid, NULL) < 0) {
        (*refused)++;
        assert_int_equal(helper_trace_follow(&tally.helper, pid, NULL), BASE_OK);
    }
    helper_session_prepare(&tally, pid, 4);
    atomic_store(&helper_session_truth->go, true);
    uint64_t until = base_clock_now() + 30000000000u;
    for (int i = 0; base_clock_now() < until && tally.ended != pid; i++) {
        helper_session_work(&tally, 5);
        if (i % 8 == 0 && helper_trace_hold(&tally.helper, pid, NULL, NULL) == BASE_OK)
            helper_trace_release(&tally.helper, pid, NULL, NULL);
    }
    if (tally.ended != pid)
        print_message("# request %u of %u, errno %d\n", atomic_load(&faults->fail_at),
                      atomic_load(&faults->calls), faults->number);
    assert_int_equal(tally.ended, pid);
    assert_int_equal(helper_session_wait_for(pid), 2 << 8);
    helper_end(&tally.helper);
}

/* How many requests it took. `fail_at`: which of them fails; 0: none. */
static unsigned follow_processes(unsigned fail_at, int number, unsigned *refused)
{
    memset(helper_session_truth, 0, sizeof *helper_session_truth);
    faults->number = number;
    atomic_store(&faults->calls, 0);
    atomic_store(&faults->fail_at, fail_at);
    pid_t pid = helper_session_fork(small_processes);
    change_target(pid, refused);
    assert_int_equal(atomic_load(&helper_session_truth->wrong), 0);
    return atomic_load(&faults->calls);
}

static void every_request_fails_once(void **state)
{
    (void)state;
    static const int numbers[] = {EIO, ESRCH, EPERM};
    unsigned refused = 0, all = follow_processes(0, 0, &refused), failed = 0;
    unsigned ways = trace_child_turns(1, 3); /* of each request; they take turns */
    const unsigned later = trace_child_turns(60, 60);
    for (unsigned at = 1; at < all;
         at += at < later + 20 ? 1 : all / later) /* each of the first, then some */
        for (unsigned i = 0; i < ways; i++, failed++)
            follow_processes(at, numbers[failed % 3], &refused);
    atomic_store(&faults->fail_at, 0);
    printf("# of %u requests %u failed one by one, %u ways each; %u processes were refused at first\n", all,
           failed / ways, ways, refused);
    assert_true(failed > later * 5 / 3 * ways);
}

/* --- many at once --- */

static int start_threads(void)
{
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, sum_up, NULL) || pthread_join(thread, NULL))
            return 1;
    }
    return 17;
}

static int start_processes(void)
{
    for (int i = 0; i < 300; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(3);
        if (waitpid(pid, &status, 0) != pid || status != 3 << 8)
            return 1;
    }
    return 17;
}

static int raise_signals(void)
{
    signal(SIGUSR1, on_timer);
    for (int i = 0; i < 5000; i++)
        if (raise(SIGUSR1))
            return 1;
    return 17;
}

static void thousands_of_events_change_nothing(void **state)
{
    (void)state;
    static int (*const functions[])(void) = {start_threads, start_processes, raise_signals};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        struct helper_session tally = helper_session_begin();
        pid_t pid = helper_session_start(&tally, functions[i], 256);
        tally.batch = 256;
        while (tally.ended != pid)
            helper_session_work(&tally, 100);
        assert_int_equal(helper_session_wait_for(pid), 17 << 8);
        helper_session_finish(&tally);
    }
}

static void many_threads_are_held_again_and_again(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 50; threads += 49) {
        struct helper_session tally = helper_session_begin();
        struct trace_child child = trace_child_start(trace_child_busy, threads);
        helper_session_follow(&tally, child.pid);
        for (int i = 0; i < 21; i++) {
            helper_session_hold(&tally, child.pid);
            assert_int_equal(helper_trace_release(&tally.helper, child.pid, NULL, NULL), BASE_OK);
            helper_session_nap_us(3000);
        }
        helper_session_finish(&tally);
        assert_int_equal(trace_child_finish(&child), 0);
    }
}

int main(int argc, char **argv)
{
    if (!helper_session_main(argc, argv))
        return 1;
    faults = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_at_exit_reaches_every_process),
        cmocka_unit_test(calls_go_on_when_tally_ends_while_it_leaves),
        cmocka_unit_test(an_ending_waits_until_it_was_inspected),
        cmocka_unit_test(an_ending_does_not_wait_for_ever),
        cmocka_unit_test(an_ending_process_can_be_held_left_and_killed),
        cmocka_unit_test(tally_is_killed_at_random_moments),
        cmocka_unit_test(children_of_the_killed_go_on),
        cmocka_unit_test(a_thread_steps_out_of_a_group),
        cmocka_unit_test(a_thread_asleep_in_a_call_is_not_moved),
        cmocka_unit_test(numbers_may_be_used_again),
        cmocka_unit_test(lost_privileges_are_reported),
        cmocka_unit_test(a_vfork_child_from_before_is_followed_too),
        cmocka_unit_test(every_request_fails_once),
        cmocka_unit_test(thousands_of_events_change_nothing),
        cmocka_unit_test(many_threads_are_held_again_and_again),
    };
    return faults == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
