/* The helper: requests over a socket, and what is left when tally is killed between any two of them, in any
 * of them, or when a ptrace request fails (the linker sends those here: -Wl,--wrap=ptrace). */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper.h"
#include "helper_silence.h"
#include "helper_trace.h"
#include "helper_wire.h"
#include "proc_refuse.h"
#include "proc_target.h"
#include "trace_child.h"

enum { PAGE = 4096, CHANGES = 500 };

/* --- the faults --- */

struct faults {
    atomic_uint calls, fail_at; /* 0: none */
    int number;
    pid_t victim; /* instead of the failure: the process to kill before the request; 0: none */
};
static struct faults *faults; /* shared with helpers */

long __real_ptrace(int request, pid_t pid, void *address, void *data);
long __wrap_ptrace(int request, pid_t pid, void *address, void *data);
long __wrap_ptrace(int request, pid_t pid, void *address, void *data)
{
    if (faults && atomic_fetch_add(&faults->calls, 1) + 1 == atomic_load(&faults->fail_at)) {
        if (!faults->victim) {
            errno = faults->number;
            return -1;
        }
        kill(faults->victim, SIGKILL);
    }
    return __real_ptrace(request, pid, address, data);
}

/* --- */

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

/* In the child at the same address; a page that the test changes in the child alone. */
static __attribute__((aligned(4096))) uint8_t data[4 * PAGE] = {1};

static void make_changes(struct trace_memory_change *changes, size_t count)
{
    memset(changes, 0, count * sizeof *changes);
    for (size_t i = 0; i < count; i++) {
        changes[i].address = (uint64_t)(uintptr_t)data + i * 31;
        changes[i].length = 4;
        memcpy(changes[i].before, data + i * 31, 4);
        memcpy(changes[i].after, &i, 4);
        changes[i].after[3] = 0xee;
    }
}

static struct helper_room near_text(int protection)
{
    uint64_t text = (uint64_t)(uintptr_t)&make_changes & ~(uint64_t)(PAGE - 1);
    return (struct helper_room){.low = text, .high = text + PAGE, .size = 2 * PAGE, .protection = protection};
}

/* On a busy machine a stop may be refused; then it is tried again. */
static int stop(struct helper *helper, pid_t pid, struct helper_stopped *stopped, struct base_error *error)
{
    int result = BASE_EBUSY;
    for (int i = 0; i < 50 && result == BASE_EBUSY; i++) {
        base_error_clear(error);
        result = helper_stop(helper, pid, stopped, error);
    }
    return result;
}

/* --- a whole session --- */

static void map_and_share(struct helper *helper, uint64_t addresses[2], int *file)
{
    struct base_error error = {0};
    struct helper_room room = near_text(PROT_READ | PROT_EXEC);
    must(helper_trace_share(helper, 0, &room, &addresses[0], file, &error), &error);
    room.protection = PROT_READ | PROT_WRITE;
    must(helper_trace_map(helper, 0, &room, &addresses[1], &error), &error);
    char *ours = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0), theirs[4];
    assert_ptr_not_equal(ours, MAP_FAILED);
    memcpy(ours + PAGE, "abc", 4);
    must(helper_trace_read(helper, 0, addresses[0] + PAGE, theirs, 4, &error), &error);
    assert_string_equal(theirs, "abc");
    must(helper_trace_write(helper, 0, addresses[1] + PAGE, "def", 4, &error), &error);
    must(helper_trace_read(helper, 0, addresses[1] + PAGE, theirs, 4, &error), &error);
    assert_string_equal(theirs, "def");
    munmap(ours, 2 * PAGE);
}

static void check_threads(struct helper *helper, size_t wanted)
{
    struct base_error error = {0};
    struct trace_stop_thread *threads = NULL;
    struct user_regs_struct registers;
    size_t count = 0;
    must(helper_trace_threads(helper, 0, &threads, &count, &error), &error);
    assert_int_equal(count, wanted);
    for (size_t i = 0; i < count; i++) {
        must(helper_trace_read_registers(helper, 0, threads[i].tid, &registers, &error), &error);
        must(helper_trace_write_registers(helper, 0, threads[i].tid, &registers, &error), &error);
    }
    free(threads);
}

static void a_session_from_end_to_end(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 8);
    struct helper helper;
    struct helper_stopped stopped;
    struct base_error error = {0};
    struct trace_memory_change changes[CHANGES];
    uint64_t addresses[2];
    int file = -1;
    unsigned mappings = trace_child_mappings(child.pid), descriptors = trace_child_descriptors(child.pid);
    make_changes(changes, CHANGES);
    must(helper_begin(&helper, &error), &error);
    must(helper_trace_stage(&helper, 0, changes, CHANGES, &error), &error);
    assert_int_equal(helper_trace_apply(&helper, 0, NULL), BASE_EUSAGE); /* nothing is stopped */
    must(stop(&helper, child.pid, &stopped, &error), &error);
    assert_int_equal(stopped.threads, 8);
    assert_int_equal(helper_stop(&helper, child.pid, NULL, NULL), BASE_EUSAGE);
    map_and_share(&helper, addresses, &file);
    check_threads(&helper, 8);
    must(helper_trace_apply(&helper, 0, &error), &error);
    assert_int_equal(helper_trace_apply(&helper, 0, &error), BASE_EBUSY);
    assert_non_null(strstr(error.text, "not what it was planned"));
    base_error_clear(&error);
    must(helper_trace_undo(&helper, 0, &error), &error);
    must(helper_trace_unmap(&helper, 0, addresses[0], 2 * PAGE, &error), &error);
    must(helper_trace_unmap(&helper, 0, addresses[1], 2 * PAGE, &error), &error);
    must(helper_resume(&helper, &stopped, &error), &error);
    assert_int_equal(stopped.lingering, 0);
    assert_int_equal(trace_child_tracers(child.pid), 0);
    must(stop(&helper, child.pid, NULL, &error), &error);
    must(helper_trace_apply(&helper, 0, &error), &error);
    must(helper_resume(&helper, &stopped, &error), &error);
    printf("# 8 threads, %d changes: stopped for %llu us\n", CHANGES,
           (unsigned long long)stopped.stopped_ns / 1000);
    must(stop(&helper, child.pid, NULL, &error), &error);
    must(helper_trace_undo(&helper, 0, &error), &error);
    must(helper_resume(&helper, &stopped, &error), &error);
    helper_end(&helper);
    assert_int_equal(trace_child_mappings(child.pid), mappings);
    assert_int_equal(trace_child_descriptors(child.pid), descriptors);
    close(file);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void refusals_travel(void **state)
{
    (void)state;
    struct helper helper;
    struct base_error error = {0};
    must(helper_begin(&helper, &error), &error);
    assert_int_equal(helper_stop(&helper, helper.pid, NULL, &error), BASE_EUSAGE);
    base_error_clear(&error);
    assert_int_equal(helper_stop(&helper, 0, NULL, &error), BASE_ENOTFOUND);
    assert_string_equal(error.text, "there is no process 0");
    base_error_clear(&error);
    assert_int_equal(helper_resume(&helper, NULL, &error), BASE_EUSAGE);
    kill(helper.pid, SIGTERM); /* it blocks all signals */
    kill(helper.pid, SIGINT);
    base_error_clear(&error);
    assert_int_equal(helper_trace_stage(&helper, 0, NULL, 0, &error), BASE_OK);
    kill(helper.pid, SIGKILL);
    assert_int_equal(helper_stop(&helper, getppid(), NULL, &error), BASE_EIO);
    assert_non_null(strstr(error.text, "helper process"));
    helper_end(&helper);
    helper_end(&helper);
}

static void a_silent_tally_loses_its_hold(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 2);
    struct helper helper;
    struct base_error error = {0};
    char byte;
    must(helper_begin(&helper, &error), &error);
    must(stop(&helper, child.pid, NULL, &error), &error);
    assert_true(trace_child_tracers(child.pid) > 0);
    assert_true(trace_child_is_free(child.pid)); /* without a request */
    assert_int_equal(helper_trace_read(&helper, 0, (uint64_t)(uintptr_t)data, &byte, 1, &error), BASE_EBUSY);
    assert_non_null(strstr(error.text, "was resumed because"));
    base_error_clear(&error);
    must(stop(&helper, child.pid, NULL, &error), &error);
    helper_end(&helper);
    assert_int_equal(trace_child_tracers(child.pid), 0);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* Before it stops itself tally reports that: what it holds goes on at once, and not only when it has been
 * silent for a while. */
static void a_tally_that_is_about_to_stop_resumes_what_it_holds(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 2);
    struct helper helper;
    struct base_error error = {0};
    char byte;
    must(helper_begin(&helper, &error), &error);
    for (int round = 0; round < 3; round++) {
        must(helper_trace_suspend(&helper, &error), &error); /* nothing is held */
        must(stop(&helper, child.pid, NULL, &error), &error);
        assert_true(trace_child_tracers(child.pid) > 0);
        must(helper_trace_suspend(&helper, &error), &error);
        assert_int_equal(trace_child_tracers(child.pid), 0); /* by its answer */
        assert_int_equal(helper_trace_read(&helper, 0, (uint64_t)(uintptr_t)data, &byte, 1, &error),
                         BASE_EBUSY);
        base_error_clear(&error);
    }
    helper_end(&helper);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* --- tally is killed --- */

/* The steps of a session, as requests. */
static struct helper_message step_of(unsigned step, pid_t pid, uint64_t mapped)
{
    struct helper_room room = near_text(PROT_READ);
    const struct helper_message steps[] = {
        {.code = HELPER_STAGE, .size = CHANGES * sizeof(struct trace_memory_change)},
        {.code = HELPER_STOP, .values = {(uint64_t)pid}},
        {.code = HELPER_SHARE, .values = {room.low, room.high, room.size, PROT_READ}},
        {.code = HELPER_APPLY},
        {.code = HELPER_UNDO},
        {.code = HELPER_UNMAP, .values = {mapped, 2 * PAGE}},
        {.code = HELPER_RESUME},
        {.code = HELPER_STOP, .values = {(uint64_t)pid}},
        {.code = HELPER_APPLY},
        {.code = HELPER_RESUME},
        {.code = HELPER_STOP, .values = {(uint64_t)pid}},
        {.code = HELPER_UNDO},
        {.code = HELPER_RESUME},
    };
    if (step < sizeof steps / sizeof *steps)
        return steps[step];
    return (struct helper_message){.code = -1};
}

/* Tally's part, in a process of its own: it kills itself right before step `last`, or `in_it`: when it has
 * sent it. -1: it goes on for ever. */
static _Noreturn void play_tally(pid_t pid, int last, bool in_it)
{
    struct helper helper;
    struct trace_memory_change changes[CHANGES];
    uint64_t mapped = 0;
    make_changes(changes, CHANGES);
    if (helper_begin(&helper, NULL) < 0)
        _exit(1);
    for (unsigned step = 0;; step++) {
        struct helper_message message = step_of(step, pid, mapped), answer;
        void *bytes = NULL;
        int file = -1;
        if (message.code < 0) {
            step = 0;
            message = step_of(step, pid, mapped);
        }
        if (last == (int)step && !in_it)
            kill(getpid(), SIGKILL);
        if (helper_wire_send(helper.socket, &message, changes, -1))
            _exit(2);
        if (last == (int)step)
            kill(getpid(), SIGKILL);
        if (helper_wire_receive(helper.socket, &answer, &bytes, &file))
            _exit(3);
        mapped = message.code == HELPER_SHARE ? answer.values[0] : mapped;
        free(bytes);
        if (file >= 0)
            close(file);
    }
}

/* What a killed tally left is complete: all changes, or none; and they can be undone. */
static void clean_up(const struct trace_child *child)
{
    struct helper helper;
    struct base_error error = {0};
    struct trace_memory_change changes[CHANGES];
    uint8_t first[4];
    make_changes(changes, CHANGES);
    must(helper_begin(&helper, &error), &error);
    must(helper_trace_stage(&helper, 0, changes, CHANGES, &error), &error);
    must(stop(&helper, child->pid, NULL, &error), &error);
    must(helper_trace_read(&helper, 0, changes[1].address, first, 4, &error), &error);
    if (!memcmp(first, changes[1].after, 4))
        must(helper_trace_undo(&helper, 0, &error), &error);
    else
        must(helper_trace_apply(&helper, 0, &error), &error),
            must(helper_trace_undo(&helper, 0, &error), &error);
    helper_end(&helper);
}

static void tally_is_killed_at_every_step(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 4);
    int steps = 0;
    while (step_of((unsigned)steps, 0, 0).code >= 0)
        steps++;
    for (int step = 0; step < 2 * steps; step++) {
        int status;
        pid_t tally = fork();
        if (tally == 0)
            play_tally(child.pid, step / 2, step % 2);
        waitpid(tally, &status, 0);
        assert_true(WIFSIGNALED(status));
        assert_true(trace_child_is_free(child.pid));
        clean_up(&child);
    }
    assert_int_equal(trace_child_finish(&child), 0);
}

static void tally_is_killed_at_random_moments(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_signals, 0);
    unsigned seed = 12345;
    int value = 0;
    for (int i = 0; i < 100; i++) {
        pid_t tally = fork();
        if (tally == 0)
            play_tally(child.pid, -1, false);
        long moment = rand_r(&seed) % 15000;
        for (long at = 0; at < moment; at += 1000, nap_us(1000))
            value += !sigqueue(child.pid, SIGRTMIN, (union sigval){.sival_int = value});
        nap_us(moment % 1000);
        kill(tally, SIGKILL);
        waitpid(tally, NULL, 0);
        assert_true(trace_child_is_free(child.pid));
    }
    clean_up(&child);
    for (int i = 0; i < 5000 && atomic_load(&child.shared->signals) < (unsigned)value; i++)
        nap_us(1000);
    assert_int_equal(atomic_load(&child.shared->signals), value);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* --- calls are refused --- */

/* The helper's number, of a tally that ends at once; 0: it has none. */
static pid_t helper_without(unsigned call, const char *why)
{
    pid_t helper_pid = 0;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t tally = fork();
    if (tally == 0) {
        struct helper helper;
        struct base_error error = {0};
        bool forbidden = proc_refuse(call, EPERM), begun = helper_begin(&helper, &error) == BASE_OK;
        if (begun && write(ends[1], &helper.pid, sizeof helper.pid) < 0)
            _exit(1);
        _exit(!forbidden || begun != !why || (why && !strstr(error.text, why)));
    }
    int status;
    close(ends[1]);
    waitpid(tally, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &helper_pid, sizeof helper_pid), why ? 0 : (int)sizeof helper_pid);
    close(ends[0]);
    return helper_pid;
}

/* It is notified that tally has ended though it could not close the other end by one call. */
static void a_helper_ends_where_calls_are_refused(void **state)
{
    (void)state;
    const unsigned calls[] = {SYS_close_range, SYS_dup2,  SYS_setsid, SYS_signalfd4, SYS_rt_sigprocmask,
                              SYS_ppoll,       SYS_wait4, SYS_chdir,  SYS_setsockopt};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        pid_t pid = helper_without(calls[i], NULL);
        for (int k = 0; k < 5000 && proc_target_is_alive(pid); k++)
            nap_us(1000);
        assert_false(proc_target_is_alive(pid));
    }
}

static void a_helper_without_messages_is_refused(void **state)
{
    (void)state;
    assert_int_equal(helper_without(SYS_sendmsg, "sendmsg"), 0);
    assert_int_equal(helper_without(SYS_recvmsg, "recvmsg"), 0);
}

/* --- ptrace fails --- */

/* 0 or the first error; the steps go on after it, as a tally that cleans up would. */
static int change_target(pid_t pid, int *reported)
{
    struct helper helper;
    struct trace_memory_change changes[CHANGES];
    struct helper_room room = near_text(PROT_READ);
    uint64_t mapped[2] = {0, 0};
    int file = -1, results[6];
    make_changes(changes, CHANGES);
    if (helper_begin(&helper, NULL) < 0 || helper_trace_stage(&helper, 0, changes, CHANGES, NULL) < 0)
        return -1;
    results[0] = helper_stop(&helper, pid, NULL, NULL);
    if (results[0] < 0) { /* resumed and refused: it must work now */
        (*reported)++;
        results[0] = stop(&helper, pid, NULL, NULL);
    }
    results[1] = helper_trace_share(&helper, 0, &room, &mapped[0], &file, NULL);
    results[2] = helper_trace_map(&helper, 0, &room, &mapped[1], NULL);
    results[3] = helper_trace_apply(&helper, 0, NULL);
    results[4] = helper_trace_undo(&helper, 0, NULL);
    for (int i = 0; i < 2; i++)
        if (results[1 + i] == BASE_OK && helper_trace_unmap(&helper, 0, mapped[i], 2 * PAGE, NULL) < 0) {
            (*reported)++;
            results[5] = helper_trace_unmap(&helper, 0, mapped[i], 2 * PAGE, NULL);
        }
    for (int i = 0; i < 5; i++)
        *reported += results[i] < 0;
    helper_resume(&helper, NULL, NULL);
    helper_end(&helper);
    if (file >= 0)
        close(file);
    return results[0];
}

static void fail_each_request(trace_child_function *function, int number)
{
    struct trace_child child = trace_child_start(function, 3);
    unsigned mappings = trace_child_mappings(child.pid), descriptors = trace_child_descriptors(child.pid),
             n = 0;
    int reported = 0;
    faults->number = number;
    do {
        atomic_store(&faults->calls, 0);
        atomic_store(&faults->fail_at, ++n);
        assert_int_equal(change_target(child.pid, &reported), BASE_OK);
        assert_int_equal(trace_child_tracers(child.pid), 0);
        assert_int_equal(trace_child_mappings(child.pid), mappings);
        assert_int_equal(trace_child_descriptors(child.pid), descriptors);
    } while (atomic_load(&faults->calls) >= n && n < 2000);
    atomic_store(&faults->fail_at, 0);
    printf("# %u requests failed one by one, %d steps were reported to have failed\n", n - 1, reported);
    assert_true(n > 40);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* The process is killed at each moment of sharing memory with it: the helper says so, and serves others. */
static void a_process_killed_while_memory_is_shared_ends_no_other(void **state)
{
    (void)state;
    struct trace_child other = trace_child_start(trace_child_busy, 1);
    struct helper_room room = near_text(PROT_READ);
    struct helper helper;
    struct base_error error = {0};
    unsigned n = 0, failures = 0;
    must(helper_begin(&helper, &error), &error);
    do {
        struct trace_child child = trace_child_start(trace_child_busy, 1);
        uint64_t mapped;
        int file = -1;
        must(stop(&helper, child.pid, NULL, &error), &error);
        faults->victim = child.pid;
        atomic_store(&faults->calls, 0);
        atomic_store(&faults->fail_at, ++n);
        failures += helper_trace_share(&helper, 0, &room, &mapped, &file, NULL) < 0;
        atomic_store(&faults->fail_at, 0);
        faults->victim = 0;
        if (file >= 0)
            close(file);
        helper_resume(&helper, NULL, NULL);
        kill(child.pid, SIGKILL);
        assert_int_equal(trace_child_finish(&child), -1);
        int result = BASE_EBUSY; /* while the helper waits for the killed process's threads */
        for (int i = 0; i < 5000 && result == BASE_EBUSY; i++) {
            base_error_clear(&error);
            result = helper_stop(&helper, other.pid, NULL, &error);
            if (result == BASE_OK)
                result = helper_resume(&helper, NULL, &error);
            nap_us(result == BASE_EBUSY ? 1000 : 0);
        }
        must(result, &error);
    } while (atomic_load(&faults->calls) >= n && n < 200);
    printf("# %u of %u ends were reported\n", failures, n);
    assert_true(n > 10 && failures > 5);
    helper_end(&helper);
    assert_int_equal(trace_child_finish(&other), 0);
}

static void every_request_fails_once(void **state)
{
    (void)state;
    fail_each_request(trace_child_busy, EIO);
    fail_each_request(trace_child_busy, ESRCH);
    fail_each_request(trace_child_busy, EPERM);
}

/* The text is as the changes say after each, whichever threads ran between them. */
static void five_thousand_changes_come_and_go(void **state)
{
    (void)state;
    enum { MANY = 5000, STEP = 50 };
    const unsigned times = trace_child_turns(5, 11) | 1; /* the last of them applies */
    static uint8_t text[64 * PAGE] = {1};
    static const unsigned counts[] = {1, 50, TRACE_CHILD_THREADS};
    struct trace_memory_change *changes = calloc(MANY, sizeof *changes);
    for (size_t i = 0; i < MANY; i++) {
        changes[i].address = (uint64_t)(uintptr_t)text + i * STEP;
        changes[i].length = 4;
        memcpy(changes[i].before, text + i * STEP, 4);
        memset(changes[i].after, 7, 4);
    }
    for (size_t run = 0; run < sizeof counts / sizeof *counts; run++) {
        struct trace_child child = trace_child_start(trace_child_busy, counts[run]);
        struct helper helper;
        struct base_error error = {0};
        uint8_t there[4];
        must(helper_begin(&helper, &error), &error);
        must(helper_trace_stage(&helper, 0, changes, MANY, &error), &error);
        for (size_t i = 0; i < times; i++) {
            const struct trace_memory_change *some = &changes[i * 457 % MANY];
            must(stop(&helper, child.pid, NULL, &error), &error);
            must(i % 2 == 0 ? helper_trace_apply(&helper, 0, &error) : helper_trace_undo(&helper, 0, &error),
                 &error);
            must(helper_trace_read(&helper, 0, some->address, there, sizeof there, &error), &error);
            assert_memory_equal(there, i % 2 == 0 ? some->after : some->before, sizeof there);
            must(helper_resume(&helper, NULL, &error), &error);
            nap_us(2000);
        }
        helper_end(&helper);
        assert_int_equal(trace_child_finish(&child), 0);
    }
    free(changes);
}

int main(void)
{
    faults = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_from_end_to_end),
        cmocka_unit_test(refusals_travel),
        cmocka_unit_test(a_silent_tally_loses_its_hold),
        cmocka_unit_test(a_tally_that_is_about_to_stop_resumes_what_it_holds),
        cmocka_unit_test(tally_is_killed_at_every_step),
        cmocka_unit_test(tally_is_killed_at_random_moments),
        cmocka_unit_test(a_helper_ends_where_calls_are_refused),
        cmocka_unit_test(a_helper_without_messages_is_refused),
        cmocka_unit_test(every_request_fails_once),
        cmocka_unit_test(a_process_killed_while_memory_is_shared_ends_no_other),
        cmocka_unit_test(five_thousand_changes_come_and_go),
    };
    return faults == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
