/* Stopping and detaching: the children notice nothing. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_clock.h"
#include "proc_maps.h"
#include "proc_target.h"
#include "trace_child.h"
#include "trace_stop.h"
#include "trace_x86_64_call.h"
#include "wire_agent_timer.h"

static void nap_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static void must(int result, const struct base_error *error)
{
    if (result < 0)
        print_message("# %s\n", error->text);
    assert_int_equal(result, BASE_OK);
}

/* On a machine that is busy with other things a thread may get no processor for long: that is refused, and
 * tried again. */
static void begin(struct trace_stop *stop, pid_t pid)
{
    struct base_error error = {0};
    int result = BASE_EBUSY;
    for (int i = 0; i < 100 && result == BASE_EBUSY; i++) {
        base_error_clear(&error);
        result = trace_stop_begin(stop, pid, &error);
    }
    must(result, &error);
}

static void end(struct trace_stop *stop)
{
    for (int i = 0; i < 5000 && (i ? trace_stop_poll(stop) : trace_stop_end(stop)); i++)
        nap_us(1000);
    assert_int_equal(stop->count, 0);
}

static unsigned long long all_rounds(const struct trace_child *child)
{
    unsigned long long sum = 0;
    for (unsigned i = 0; i < TRACE_CHILD_THREADS; i++)
        sum += atomic_load(&child->shared->rounds[i]);
    return sum;
}

/* --- */

static void busy_threads_keep_their_results(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 50);
    struct trace_stop stop = {0};
    for (unsigned i = 0; i < trace_child_turns(60, 200); i++) {
        begin(&stop, child.pid);
        assert_int_equal(stop.count, 50);
        unsigned long long before = all_rounds(&child);
        if (i % 20 == 0)
            nap_us(3000);
        assert_int_equal(all_rounds(&child), before);
        end(&stop);
    }
    assert_int_equal(trace_child_tracers(child.pid), 0);
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void time_stops(unsigned threads)
{
    const unsigned stops = trace_child_turns(5, 11);
    struct trace_child child = trace_child_start(trace_child_busy, threads);
    struct trace_stop stop = {0};
    uint64_t least = UINT64_MAX, most = 0, sum = 0;
    for (unsigned i = 0; i < stops; i++) {
        begin(&stop, child.pid);
        assert_int_equal(stop.count, threads);
        uint64_t began = stop.began;
        trace_stop_end(&stop);
        uint64_t took = base_clock_now() - began;
        least = took < least ? took : least;
        most = took > most ? took : most;
        sum += took;
        end(&stop);
        nap_us(2000);
    }
    printf("# %u threads stopped and resumed: %llu us at least, %llu on average, %llu at most\n", threads,
           (unsigned long long)least / 1000, (unsigned long long)sum / stops / 1000,
           (unsigned long long)most / 1000);
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void any_number_of_threads(void **state)
{
    (void)state;
    time_stops(1);
    time_stops(50);
    time_stops(TRACE_CHILD_THREADS);
}

static void threads_that_are_created_and_end(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_creates_threads, 0);
    struct trace_stop stop = {0};
    for (int i = 0; i < 150; i++) {
        begin(&stop, child.pid);
        unsigned long long before = all_rounds(&child);
        if (i % 10 == 0)
            nap_us(2000);
        assert_int_equal(all_rounds(&child), before);
        end(&stop);
        nap_us(500);
    }
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

static pid_t start_sender(pid_t target, int count)
{
    pid_t sender = fork();
    if (sender)
        return sender;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < count; i++) {
        while (sigqueue(target, SIGRTMIN, (union sigval){.sival_int = i}))
            nap_us(100);
        nap_us(1000);
    }
    _exit(0);
}

static void signals_arrive_with_what_they_carry(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_signals, 0);
    struct trace_stop stop = {0};
    pid_t sender = start_sender(child.pid, 1000);
    while (waitpid(sender, NULL, WNOHANG) == 0) {
        begin(&stop, child.pid);
        end(&stop);
    }
    begin(&stop, child.pid); /* a signal that comes while it is stopped */
    assert_int_equal(sigqueue(child.pid, SIGRTMIN, (union sigval){.sival_int = 1000}), 0);
    end(&stop);
    for (int i = 0; i < 1000 && atomic_load(&child.shared->signals) < 1001; i++)
        nap_us(1000);
    assert_int_equal(atomic_load(&child.shared->signals), 1001);
    printf("# %llu of 1001 signals were delivered out of a stop\n", (unsigned long long)stop.delivered);
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void wait_for_state(pid_t pid, char wanted)
{
    for (int i = 0; i < 5000 && trace_child_state(pid) != wanted; i++)
        nap_us(1000);
    assert_int_equal(trace_child_state(pid), wanted);
}

static void a_stopped_process_stays_stopped(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 5);
    struct trace_stop stop = {0};
    kill(child.pid, SIGSTOP);
    wait_for_state(child.pid, 'T');
    for (int i = 0; i < 20; i++) {
        begin(&stop, child.pid);
        unsigned long long before = all_rounds(&child);
        end(&stop);
        wait_for_state(child.pid, 'T');
        assert_int_equal(all_rounds(&child), before);
    }
    begin(&stop, child.pid); /* SIGCONT while it is held */
    kill(child.pid, SIGCONT);
    end(&stop);
    unsigned long long before = all_rounds(&child);
    for (int i = 0; i < 5000 && all_rounds(&child) == before; i++)
        nap_us(1000);
    assert_true(all_rounds(&child) > before);
    begin(&stop, child.pid); /* and SIGSTOP */
    kill(child.pid, SIGSTOP);
    end(&stop);
    wait_for_state(child.pid, 'T');
    kill(child.pid, SIGCONT);
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void blocked_calls_go_on(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_blocked, 0);
    struct trace_stop stop = {0};
    bool kernel = false, kin = false;
    for (int i = 0; i < 10; i++) {
        begin(&stop, child.pid);
        for (size_t j = 0; j < stop.count; j++) {
            kernel |= stop.threads[j].state == TRACE_STOP_KERNEL;
            kin |= stop.threads[j].process != child.pid && stop.threads[j].state == TRACE_STOP_STOPPED;
        }
        trace_stop_end(&stop);
        nap_us(5000);
        trace_stop_poll(&stop);
    }
    assert_true(kernel); /* the vfork parent sleeps on, */
    assert_true(kin);    /* its child was stopped */
    end(&stop);
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* A handler that runs must still end epoll_wait with EINTR, as without us. */
static void ignore(int number)
{
    (void)number;
}

static int wait_for_eintr(struct trace_child_shared *shared)
{
    struct sigaction action = {.sa_handler = ignore};
    struct epoll_event event;
    int file = epoll_create1(0);
    sigaction(SIGUSR1, &action, NULL);
    trace_child_ready(shared);
    int got = epoll_wait(file, &event, 1, -1);
    return got == -1 && errno == EINTR ? 0 : 1;
}

static void a_handler_still_interrupts(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(wait_for_eintr, 0);
    struct trace_stop stop = {0};
    wait_for_state(child.pid, 'S');
    begin(&stop, child.pid);
    end(&stop);
    wait_for_state(child.pid, 'S'); /* it was restarted */
    begin(&stop, child.pid);
    kill(child.pid, SIGUSR1);
    end(&stop);
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void registers_are_read_and_written(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 3);
    struct trace_stop stop = {0};
    struct user_regs_struct before, after;
    struct base_error error = {0};
    begin(&stop, child.pid);
    for (size_t i = 0; i < stop.count; i++) {
        pid_t tid = stop.threads[i].tid;
        must(trace_stop_read(&stop, tid, &before, &error), &error);
        struct user_regs_struct changed = before;
        changed.gs_base = 0x10000 * (i + 1);
        must(trace_stop_write(&stop, tid, &changed, &error), &error);
        must(trace_stop_read(&stop, tid, &after, &error), &error);
        assert_int_equal(after.gs_base, changed.gs_base);
        must(trace_stop_write(&stop, tid, &before, &error), &error);
    }
    assert_int_equal(trace_stop_read(&stop, 1, &before, NULL), BASE_ENOTFOUND);
    end(&stop);
    assert_int_equal(trace_stop_read(&stop, child.pid, &before, NULL), BASE_ENOTFOUND);
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* --- refusals --- */

static void refused(pid_t pid, int code, const char *part)
{
    struct trace_stop stop = {0};
    struct base_error error = {0};
    int result = trace_stop_begin(&stop, pid, &error);
    if (result != code || !strstr(error.text, part))
        print_message("# %d: %s\n", result, error.text);
    assert_int_equal(result, code);
    assert_non_null(strstr(error.text, part));
    assert_int_equal(stop.count, 0);
    trace_stop_free(&stop);
}

static void what_cannot_be_stopped_is_refused(void **state)
{
    (void)state;
    refused(0, BASE_ENOTFOUND, "no process");
    refused(getpid(), BASE_EUSAGE, "own calls");
    pid_t zombie = fork();
    if (zombie == 0)
        _exit(0);
    wait_for_state(zombie, 'Z');
    refused(zombie, BASE_ENOTFOUND, "has ended");
    waitpid(zombie, NULL, 0);
    refused(zombie, BASE_ENOTFOUND, "no process");
    struct proc_target_facts facts;
    if (proc_target_facts(2, 2, &facts) == BASE_OK && facts.kernel_thread)
        refused(2, BASE_EUNSUPPORTED, "thread of the kernel");
    else
        print_message("# no thread of the kernel is visible here\n");
}

static void names_are_those_of_now(void **state)
{
    (void)state;
    char before[32] = "", name[32] = "as it was", few[4];
    pid_t pid = getpid();
    prctl(PR_GET_NAME, before);
    prctl(PR_SET_NAME, "a) (b\nc d");
    assert_true(proc_target_name(pid, pid, few, sizeof few));
    assert_true(proc_target_name(pid, pid, name, sizeof name));
    prctl(PR_SET_NAME, before);
    assert_string_equal(name, "a) (b\nc d");
    assert_string_equal(few, "a) ");
    assert_false(proc_target_name(pid, 1, name, sizeof name)); /* no thread of this process */
    assert_string_equal(name, "a) (b\nc d");
}

static void a_tracer_is_named(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 1);
    pid_t tracer = fork();
    if (tracer == 0) {
        prctl(PR_SET_NAME, "othertracer");
        ptrace(PTRACE_SEIZE, child.pid, 0, 0);
        for (;;)
            pause();
    }
    for (int i = 0; i < 5000 && trace_child_tracers(child.pid) == 0; i++)
        nap_us(1000);
    refused(child.pid, BASE_EBUSY, "othertracer");
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    assert_true(trace_child_is_free(child.pid));
    assert_int_equal(trace_child_finish(&child), 0);
}

static void other_users_processes_are_refused(void **state)
{
    (void)state;
    if (geteuid())
        skip();
    struct trace_child child = trace_child_start(trace_child_busy, 1);
    int status;
    pid_t user = fork();
    if (user == 0) {
        struct trace_stop stop = {0};
        struct base_error error = {0};
        if (setresuid(65534, 65534, 65534))
            _exit(9);
        int result = trace_stop_begin(&stop, child.pid, &error);
        _exit(result == BASE_EPERMISSION && strstr(error.text, "user 65534") ? 0 : 1);
    }
    waitpid(user, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* An ELF file of 32 bits whose only instruction jumps to itself. */
static const unsigned char program_32[] = {
    0x7f, 'E', 'L',  'F',  1, 1, 1,    0,    0, 0, 0, 0, 0, 0, 0, 0, 2,    0, 3, 0,    1,   0,
    0,    0,   0x54, 0,    4, 8, 0x34, 0,    0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0x34, 0,   0x20,
    0,    1,   0,    0x28, 0, 0, 0,    0,    0, 1, 0, 0, 0, 0, 0, 0, 0,    0, 0, 4,    8,   0,
    0,    4,   8,    0x56, 0, 0, 0,    0x56, 0, 0, 0, 5, 0, 0, 0, 0, 0x10, 0, 0, 0xeb, 0xfe};

static void programs_of_32_bits_are_refused(void **state)
{
    (void)state;
    int file = memfd_create("program_32", 0), failed[2], number = 0;
    assert_int_equal(write(file, program_32, sizeof program_32), sizeof program_32);
    assert_int_equal(pipe2(failed, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char *const none[] = {NULL};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fexecve(file, none, none);
        number = errno;
        _exit(write(failed[1], &number, sizeof number) < 0);
    }
    close(failed[1]);
    if (read(failed[0], &number, sizeof number) == 0)
        refused(child, BASE_EUNSUPPORTED, "64-bit");
    else
        print_message("# 32-bit programs cannot run here: %s\n", strerror(number));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(failed[0]);
    close(file);
}

/* --- a process whose first thread is a zombie --- */

static void *outlive(void *argument)
{
    struct trace_child_shared *shared = argument;
    while (!atomic_load(&shared->stop)) {
        atomic_fetch_add(&shared->rounds[0], 1);
        sched_yield();
    }
    _exit(0);
}

static int end_first_thread(struct trace_child_shared *shared)
{
    static char stack[65536];
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    int (*function)(void *) = (int (*)(void *))(void *)outlive;
    if (clone(function, stack + sizeof stack - 64, flags, shared) < 0)
        return 3;
    trace_child_ready(shared);
    syscall(SYS_exit, 0);
    return 4;
}

static void a_first_thread_may_have_ended(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(end_first_thread, 0);
    struct trace_stop stop = {0};
    wait_for_state(child.pid, 'Z');
    for (int i = 0; i < 20; i++) {
        begin(&stop, child.pid);
        assert_int_equal(stop.count, 1);
        end(&stop);
    }
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* A zombie has no memory and no mappings, but its process has. */
static void what_a_first_thread_left_is_read(void **state)
{
    (void)state;
    static uint64_t known[8192] = {0x1234}, found[8192];
    struct trace_child child = trace_child_start(end_first_thread, 0);
    struct proc_maps maps = {0};
    struct base_error error = {0};
    uint64_t at = (uintptr_t)known;
    bool mapped = false;
    wait_for_state(child.pid, 'Z');
    assert_int_equal(proc_target_read(child.pid, at, found, sizeof found), sizeof known);
    assert_memory_equal(found, known, sizeof known);
    assert_int_equal(proc_target_read(child.pid, 8, found, 8), 0);
    memset(found, 0, sizeof found);
    assert_int_equal(proc_target_stack(child.pid, at + 3, found, sizeof found), sizeof found / 8);
    assert_int_equal(found[0], 0x1234);
    assert_int_equal(proc_target_stack(child.pid, 8, found, sizeof found), 0);
    must(proc_maps_read(child.pid, &maps, &error), &error);
    for (size_t i = 0; i < maps.count; i++)
        mapped |= at >= maps.items[i].start && at < maps.items[i].end;
    assert_true(mapped);
    proc_maps_free(&maps);
    assert_int_equal(trace_child_finish(&child), 0);
    assert_int_equal(proc_target_read(child.pid, at, found, sizeof found), 0);
}

/* Where a stack ends within the bytes that are to be read, all up to its end is read. */
static void a_stack_is_read_to_its_end(void **state)
{
    (void)state;
    enum { PAGE = 4096, PAGES = 5 };
    static uint64_t found[64 * PAGE / sizeof(uint64_t)];
    uint8_t *place =
        mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(place, MAP_FAILED);
    assert_int_equal(munmap(place + PAGES * PAGE, PAGE), 0);
    uint64_t end = (uintptr_t)place + PAGES * PAGE;
    memcpy(place + PAGES * PAGE - 8, &end, sizeof end);
    for (size_t words = 1; words < PAGES * PAGE / 8; words += 61) {
        assert_int_equal(proc_target_stack(getpid(), end - 8 * words, found, sizeof found), words);
        assert_int_equal(found[words - 1], end);
    }
    munmap(place, PAGES * PAGE);
}

/* --- ticks of the agent's timers --- */

static volatile sig_atomic_t ticks;

static void count_tick(int signal)
{
    (void)signal;
    ticks++;
}

/* Polls, and handles the signal; with `count` it blocks it. A poll that ends early is wrong. */
static int poll_patiently(struct trace_child_shared *shared)
{
    sigset_t set;
    signal(SIGURG, count_tick);
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    if (shared->count)
        sigprocmask(SIG_BLOCK, &set, NULL);
    trace_child_ready(shared);
    while (!atomic_load(&shared->stop))
        if (poll(NULL, 0, 300) < 0)
            trace_child_wrong(shared, "poll", errno);
    return ticks;
}

static void wait_until_it_polls(struct trace_stop *stop, pid_t pid)
{
    for (int i = 0; i < 100; i++) {
        begin(stop, pid);
        if (stop->threads[0].in_call)
            return;
        end(stop);
        nap_us(1000);
    }
    fail();
}

static siginfo_t tick_info(void)
{
    siginfo_t info = {.si_signo = SIGURG, .si_code = SI_TIMER};
    info.si_value.sival_ptr = (void *)(uintptr_t)WIRE_AGENT_TIMER_VALUE(3);
    return info;
}

/* A tick comes while the thread is stopped: it is detached at once, its poll goes on, and the handler does
 * not run. */
static void detach_with_a_tick(bool blocked)
{
    struct trace_child child = trace_child_start(poll_patiently, blocked);
    struct trace_stop stop = {0};
    siginfo_t info = tick_info();
    for (int i = 0; i < 5; i++) {
        nap_us(2000);
        wait_until_it_polls(&stop, child.pid);
        assert_int_equal(syscall(SYS_rt_tgsigqueueinfo, child.pid, child.pid, SIGURG, &info), 0);
        end(&stop);
        assert_true(trace_child_is_free(child.pid));
    }
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void pending_ticks_interrupt_no_call(void **state)
{
    (void)state;
    detach_with_a_tick(false);
    detach_with_a_tick(true);
}

/* The linker sends ptrace here: -Wl,--wrap=ptrace. */
static unsigned pretended; /* so often a tick is said to be pending */

long __real_ptrace(int request, pid_t pid, void *address, void *data);
long __wrap_ptrace(int request, pid_t pid, void *address, void *data);
long __wrap_ptrace(int request, pid_t pid, void *address, void *data)
{
    if (request != PTRACE_PEEKSIGINFO || !pretended)
        return __real_ptrace(request, pid, address, data);
    pretended--;
    *(siginfo_t *)data = tick_info();
    return 1;
}

/* Linux 6.13 drops the signal of a timer that was deleted meanwhile, though it is in the queue: the thread does not
 * stop for it, and is not waited for. */
static void a_dropped_tick_holds_nobody(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(poll_patiently, false);
    struct trace_stop stop = {0};
    for (unsigned i = 1; i <= 5; i++) {
        nap_us(2000);
        wait_until_it_polls(&stop, child.pid);
        pretended = i;
        end(&stop);
        assert_int_equal(pretended, 0);
        assert_true(trace_child_is_free(child.pid));
    }
    trace_stop_free(&stop);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* --- the pure part --- */

static void interrupted_calls_are_recognised(void **state)
{
    (void)state;
    struct user_regs_struct registers = {.rax = (unsigned long long)-EINTR, .orig_rax = SYS_epoll_wait};
    assert_true(trace_x86_64_call_restart(&registers));
    assert_int_equal((long)registers.rax, -514);
    assert_false(trace_x86_64_call_restart(&registers));
    registers = (struct user_regs_struct){.rax = (unsigned long long)-EINTR, .orig_rax = SYS_connect};
    assert_false(trace_x86_64_call_restart(&registers));
    registers.orig_rax = (unsigned long long)-1;
    assert_false(trace_x86_64_call_restart(&registers));
    const uint8_t bytes[] = {0x90, 0x0f, 0x0f, 0x05, 0xc3};
    assert_int_equal(trace_x86_64_call_find(bytes, sizeof bytes), 2);
    assert_int_equal(trace_x86_64_call_find(bytes, 3), SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupted_calls_are_recognised),
        cmocka_unit_test(pending_ticks_interrupt_no_call),
        cmocka_unit_test(a_dropped_tick_holds_nobody),
        cmocka_unit_test(busy_threads_keep_their_results),
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(threads_that_are_created_and_end),
        cmocka_unit_test(signals_arrive_with_what_they_carry),
        cmocka_unit_test(a_stopped_process_stays_stopped),
        cmocka_unit_test(blocked_calls_go_on),
        cmocka_unit_test(a_handler_still_interrupts),
        cmocka_unit_test(registers_are_read_and_written),
        cmocka_unit_test(a_first_thread_may_have_ended),
        cmocka_unit_test(what_a_first_thread_left_is_read),
        cmocka_unit_test(a_stack_is_read_to_its_end),
        cmocka_unit_test(what_cannot_be_stopped_is_refused),
        cmocka_unit_test(names_are_those_of_now),
        cmocka_unit_test(a_tracer_is_named),
        cmocka_unit_test(other_users_processes_are_refused),
        cmocka_unit_test(programs_of_32_bits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
