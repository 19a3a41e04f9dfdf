/* When tally detaches from a process, and how long it does not try again: on a clock of the test's own,
 * beside a helper of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "calls_detach.h"
#include "proc_target.h"

#define SECOND UINT64_C(1000000000)

/* --- the clock and the helper that the code under test sees --- */

static uint64_t now, refused_until;
static unsigned tried, taken;

uint64_t __wrap_base_clock_now(void);
uint64_t __wrap_base_clock_now(void)
{
    return now;
}

int __wrap_helper_trace_detach(struct helper *helper, pid_t pid, const struct trace_step_range *ranges,
                               size_t count, struct base_error *error);
int __wrap_helper_trace_detach(struct helper *helper, pid_t pid, const struct trace_step_range *ranges,
                               size_t count, struct base_error *error)
{
    (void)helper;
    assert_int_equal(pid, getpid());
    assert_int_equal(count, 1); /* our own code */
    assert_true(ranges[0].end > ranges[0].start);
    tried++;
    return now < refused_until ? base_fail(error, BASE_EBUSY, "a thread sleeps") : BASE_OK;
}

int __wrap_helper_trace_reattach(struct helper *helper, pid_t pid, struct base_error *error);
int __wrap_helper_trace_reattach(struct helper *helper, pid_t pid, struct base_error *error)
{
    (void)helper;
    (void)pid;
    (void)error;
    taken++;
    return BASE_OK;
}

/* Holding does nothing: the process is this one. */
int __wrap_helper_trace_hold(struct helper *helper, pid_t pid, struct helper_stopped *result,
                             struct base_error *error);
int __wrap_helper_trace_hold(struct helper *helper, pid_t pid, struct helper_stopped *result,
                             struct base_error *error)
{
    (void)helper;
    (void)pid;
    (void)result;
    (void)error;
    return BASE_OK;
}

int __wrap_helper_trace_release(struct helper *helper, pid_t pid, struct helper_stopped *result,
                                struct base_error *error);
int __wrap_helper_trace_release(struct helper *helper, pid_t pid, struct helper_stopped *result,
                                struct base_error *error)
{
    (void)helper;
    (void)pid;
    (void)result;
    (void)error;
    return BASE_OK;
}

static struct trace_memory_change staged[SPACE_DOORBELLS];
static size_t staged_count;
static int undoing; /* what it comes to */

int __wrap_helper_trace_stage(struct helper *helper, pid_t pid, const struct trace_memory_change *changes,
                              size_t count, struct base_error *error);
int __wrap_helper_trace_stage(struct helper *helper, pid_t pid, const struct trace_memory_change *changes,
                              size_t count, struct base_error *error)
{
    (void)helper;
    (void)pid;
    (void)error;
    memcpy(staged, changes, count * sizeof *changes);
    staged_count = count;
    return BASE_OK;
}

/* Every byte is checked before any is written, as in the helper. */
int __wrap_helper_trace_undo(struct helper *helper, pid_t pid, struct base_error *error);
int __wrap_helper_trace_undo(struct helper *helper, pid_t pid, struct base_error *error)
{
    (void)helper;
    (void)pid;
    for (size_t i = 0; i < staged_count; i++)
        if (memcmp((void *)(uintptr_t)staged[i].address, staged[i].after, staged[i].length) != 0)
            return base_fail(error, BASE_EBUSY, "changed");
    for (size_t i = 0; undoing == BASE_OK && i < staged_count; i++)
        memcpy((void *)(uintptr_t)staged[i].address, staged[i].before, staged[i].length);
    return undoing;
}

/* --- a process without images, and thus without functions that create --- */

struct quiet {
    struct space_session session;
    struct space space;
    struct space_code code;
    struct stub_doorbell doorbell;
    uint8_t bytes[4096];
};

static int begin(void **state)
{
    struct quiet *quiet = calloc(1, sizeof *quiet);
    if (!quiet)
        return -1;
    now = 1000 * SECOND;
    refused_until = 0;
    tried = taken = 0;
    quiet->session.profile = profile_new();
    quiet->session.helper.socket = -1;
    quiet->code = (struct space_code){
        .owners = 1, .file = -1, .address = 0x10000, .size = sizeof quiet->bytes, .bytes = quiet->bytes};
    quiet->space = (struct space){.pid = getpid(),
                                  .processes = 1,
                                  .created_ns = now,
                                  .doorbell_code = &quiet->code,
                                  .doorbell = &quiet->doorbell,
                                  .doorbell_set = true,
                                  .doorbell_words = 0x20000};
    *state = quiet;
    return quiet->session.profile ? 0 : -1;
}

static int end(void **state)
{
    struct quiet *quiet = *state;
    profile_free(quiet->session.profile);
    free(quiet);
    return 0;
}

/* Has the helper been called when all that is to be done at `time` is done? */
static bool detaches_at(struct quiet *quiet, uint64_t time)
{
    unsigned before = tried;
    now = time;
    calls_detach_tend(&quiet->space, &quiet->session);
    return tried != before;
}

/* Not a nanosecond before `time`, and then. */
static void detaches_first_at(struct quiet *quiet, uint64_t time)
{
    for (uint64_t before = now; before + SECOND / 2 < time; before += SECOND / 2)
        assert_false(detaches_at(quiet, before));
    assert_false(detaches_at(quiet, time - 1));
    assert_true(detaches_at(quiet, time));
}

static void notify(struct quiet *quiet)
{
    unsigned before = taken;
    assert_int_equal(quiet->doorbell.creations, 1);
    assert_int_equal(calls_detach_reattach(&quiet->space, &quiet->session, NULL), BASE_OK);
    assert_int_equal(taken, before + 1);
    assert_int_equal(quiet->doorbell.creations, 0);
}

static void a_second_of_quiet_detaches(void **state)
{
    struct quiet *quiet = *state;
    detaches_first_at(quiet, now + SECOND);
    assert_int_equal(quiet->doorbell.creations, 1);
    assert_int_equal(quiet->doorbell.active, 0); /* the loader's doorbell is another one */
}

static void a_creation_begins_the_second_anew(void **state)
{
    struct quiet *quiet = *state;
    now += SECOND - 1;
    calls_detach_note_activity(&quiet->space);
    detaches_first_at(quiet, now + SECOND);
}

static void several_processes_stay_attached(void **state)
{
    struct quiet *quiet = *state;
    quiet->space.processes = 2;
    assert_false(detaches_at(quiet, now + 100 * SECOND));
    quiet->space.processes = 1;
    assert_true(detaches_at(quiet, now));
}

/* The first five notifications cost a second each, the next ones two, four, ... sixty. */
static void frequent_creation_detaches_seldom(void **state)
{
    static const unsigned seconds[] = {1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 60, 60, 60};
    struct quiet *quiet = *state;
    detaches_first_at(quiet, now + SECOND);
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        now += SECOND / 10;
        notify(quiet);
        detaches_first_at(quiet, now + seconds[i] * SECOND);
    }
}

/* What fails is tried again after one, two, four, ... sixty seconds, and after a success at once. */
static void failures_are_not_repeated_at_once(void **state)
{
    static const unsigned seconds[] = {1, 2, 4, 8, 16, 32, 60, 60};
    struct quiet *quiet = *state;
    refused_until = UINT64_MAX;
    detaches_first_at(quiet, now + SECOND);
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        assert_int_equal(quiet->doorbell.creations,
                         0); /* no thread waits at a doorbell of a process that is attached */
        detaches_first_at(quiet, now + seconds[i] * SECOND);
    }
    refused_until = 0;
    detaches_first_at(quiet, now + 60 * SECOND);
    assert_int_equal(quiet->doorbell.creations, 1);
    notify(quiet);
    refused_until = UINT64_MAX;
    detaches_first_at(quiet, now + SECOND);
    detaches_first_at(quiet, now + SECOND);
}

enum { DOORBELLS = 3, JUMP = 5 };

/* Functions of ours with doorbells on them. */
static void put_doorbells(struct quiet *quiet, uint8_t text[DOORBELLS][JUMP])
{
    static const uint8_t file[JUMP] = {0xf3, 0x0f, 0x1e, 0xfa, 0x55}, jump[JUMP] = {0xe9, 1, 2, 3, 4};
    struct space_detached *detached = &quiet->space.detached;
    undoing = BASE_OK;
    detached->count = DOORBELLS;
    for (size_t i = 0; i < DOORBELLS; i++) {
        struct trace_memory_change *change = &detached->changes[i];
        *change = (struct trace_memory_change){.address = (uint64_t)(uintptr_t)text[i], .length = JUMP};
        memcpy(change->before, file, JUMP);
        memcpy(change->after, jump, JUMP);
        memcpy(text[i], jump, JUMP);
        detached->ranges[i] = (struct trace_step_range){change->address, change->address + JUMP};
    }
}

/* A breakpoint of others is left by what is undone, and may be gone when undoing is tried again. */
static void doorbells_that_could_not_go_are_undone_later(void **state)
{
    static uint8_t text[DOORBELLS][JUMP];
    struct quiet *quiet = *state;
    struct space_detached *detached = &quiet->space.detached;
    put_doorbells(quiet, text);
    struct trace_memory_change kept[DOORBELLS];
    memcpy(kept, detached->changes, sizeof kept);
    memset(text[0], 0x90, JUMP); /* wholly somebody else's */
    text[1][0] = TRACE_MEMORY_BREAKPOINT;
    undoing = BASE_EIO;
    assert_int_equal(calls_detach_end(&quiet->space, &quiet->session, NULL), BASE_EIO);
    assert_int_equal(staged_count, 2);
    assert_int_equal(detached->count, DOORBELLS);
    assert_memory_equal(detached->changes, kept, sizeof kept);
    text[1][0] = kept[1].before[0]; /* the kernel writes the file's byte */
    undoing = BASE_OK;
    assert_int_equal(calls_detach_end(&quiet->space, &quiet->session, NULL), BASE_OK);
    assert_memory_equal(text[1], kept[1].before, JUMP);
    assert_memory_equal(text[2], kept[2].before, JUMP);
    assert_int_equal(detached->count, 1);
    assert_memory_equal(detached->changes, kept, sizeof *kept);
    assert_int_equal(detached->ranges[0].start, kept[0].address);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_second_of_quiet_detaches, begin, end),
        cmocka_unit_test_setup_teardown(a_creation_begins_the_second_anew, begin, end),
        cmocka_unit_test_setup_teardown(several_processes_stay_attached, begin, end),
        cmocka_unit_test_setup_teardown(frequent_creation_detaches_seldom, begin, end),
        cmocka_unit_test_setup_teardown(failures_are_not_repeated_at_once, begin, end),
        cmocka_unit_test_setup_teardown(doorbells_that_could_not_go_are_undone_later, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
