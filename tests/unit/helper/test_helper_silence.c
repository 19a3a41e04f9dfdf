/* helper_silence: processes that work, stop, and stop at each check. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_clock.h"
#include "helper.h"
#include "helper_silence.h"
#include "proc_target.h"

#define MS UINT64_C(1000000)

enum { LOOK_MS = 6, LOOKS = 100, LATE_MS = 35, GAP_MS = 20, TRIES = 10 };

static void nap_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static pid_t start(bool works)
{
    pid_t test = getpid(), child = fork();
    if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != test)) /* it has ended already */
        _exit(1);
    while (child == 0)
        if (!works)
            pause();
    assert_true(child > 0);
    return child;
}

static void stop(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void trace(pid_t child)
{
    assert_int_equal(ptrace(PTRACE_SEIZE, child, 0, 0), 0);
}

/* As a debugger does, which does not continue it. */
static void stop_as_tracer(pid_t child)
{
    int status;
    assert_int_equal(ptrace(PTRACE_INTERRUPT, child, 0, 0), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
}

/* Checks until something must go on; returns ns from the beginning, or 0: nothing had to, in all checks. The
 * test itself is late on a loaded machine: then nothing is known of the time between. */
static uint64_t look(struct helper_silence *silence, pid_t child, bool stops_at_each)
{
    uint64_t began = base_clock_now(), deadline = 0;
    for (int i = 0; i < LOOKS && !deadline; i++) {
        if (stops_at_each)
            stop_as_tracer(child);
        deadline = helper_silence_deadline(silence, began);
        if (stops_at_each)
            ptrace(PTRACE_CONT, child, 0, 0);
        nap_ms(LOOK_MS);
    }
    return deadline ? base_clock_now() - began : 0;
}

static struct helper_silence watch(pid_t child)
{
    struct helper_silence silence;
    helper_silence_begin(&silence, child);
    silence.watched = true;
    return silence;
}

static void a_working_tally_is_waited_for(void **state)
{
    (void)state;
    pid_t child = start(true);
    struct helper_silence silence = watch(child);
    assert_int_equal(look(&silence, child, false), 0);
    end(child);
}

/* As a tracer stops it at each system call. */
static void a_tally_that_works_between_stops_is_waited_for(void **state)
{
    (void)state;
    pid_t child = start(true);
    trace(child);
    struct helper_silence silence = watch(child);
    assert_int_equal(look(&silence, child, true), 0);
    end(child);
}

static void a_stopped_tally_is_not(void **state)
{
    (void)state;
    pid_t child = start(true);
    stop(child);
    struct helper_silence silence = watch(child);
    uint64_t waited = look(&silence, child, false);
    assert_in_range(waited, HELPER_SILENCE_STOPPED_MS * MS, HELPER_TIMEOUT_MS * MS);
    end(child);
}

static void a_tally_stopped_by_a_tracer_is_waited_for_longer(void **state)
{
    (void)state;
    pid_t child = start(true);
    trace(child);
    stop_as_tracer(child);
    struct helper_silence silence = watch(child);
    uint64_t waited = look(&silence, child, false);
    assert_in_range(waited, HELPER_SILENCE_TRACED_MS * MS, HELPER_TIMEOUT_MS * MS);
    end(child);
}

/* How many checks there are until something must go on, each so late that its gap counts in part. 0: the
 * machine was so late itself that tally was silent by the longest timeout. */
static unsigned count_late_looks(pid_t child)
{
    struct helper_silence silence = watch(child);
    uint64_t requested = base_clock_now() - LOOK_MS * MS, deadline = 0;
    unsigned looks = 0;
    for (; !deadline; looks++) {
        if (looks)
            nap_ms(LATE_MS);
        deadline = helper_silence_deadline(&silence, requested);
    }
    return base_clock_now() - requested < HELPER_TIMEOUT_MS * MS ? looks : 0;
}

/* Of the gap between two checks 20 ms count as idle time: neither all of it, nor nothing. */
static void a_late_check_counts_in_part(void **state)
{
    (void)state;
    pid_t child = start(false);
    trace(child);
    stop_as_tracer(child);
    unsigned looks = 0;
    for (int i = 0; i < TRIES && !looks; i++)
        looks = count_late_looks(child);
    assert_int_equal(looks, 1 + HELPER_SILENCE_TRACED_MS / GAP_MS);
    end(child);
}

static void a_sleeping_tally_is_waited_for_longer(void **state)
{
    (void)state;
    pid_t child = start(false);
    struct helper_silence silence = watch(child);
    uint64_t waited = look(&silence, child, false);
    assert_in_range(waited, HELPER_SILENCE_IDLE_MS * MS, HELPER_TIMEOUT_MS * MS);
    end(child);
}

/* Idle time counts from the last request on; after silence nothing waits for tally until its next request. */
static void a_request_ends_the_silence(void **state)
{
    (void)state;
    pid_t child = start(false);
    struct helper_silence silence = watch(child);
    helper_silence_found(&silence);
    assert_true(helper_silence_deadline(&silence, base_clock_now()) > 0);
    helper_silence_end(&silence);
    assert_int_equal(helper_silence_deadline(&silence, base_clock_now()), 0);
    end(child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_working_tally_is_waited_for),
        cmocka_unit_test(a_tally_that_works_between_stops_is_waited_for),
        cmocka_unit_test(a_stopped_tally_is_not),
        cmocka_unit_test(a_tally_stopped_by_a_tracer_is_waited_for_longer),
        cmocka_unit_test(a_late_check_counts_in_part),
        cmocka_unit_test(a_sleeping_tally_is_waited_for_longer),
        cmocka_unit_test(a_request_ends_the_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
