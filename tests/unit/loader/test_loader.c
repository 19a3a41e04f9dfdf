/* The agent in real programs: loaded at their first instruction and while they run, given what they load,
 * taken out again. */
#include "loader_recording.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_probe.h"
#include "agent_target.h"
#include "loader.h"
#include "trace_child.h"
#include "wire_agent_process.h"

/* --- a program --- */

static bool has_ended(struct tally *tally)
{
    return waitpid(tally->pid, &tally->status, WNOHANG) == tally->pid;
}

/* One round of what a recording does all the time. */
static void answer_doorbells(struct tally *tally)
{
    struct base_error error = {0};
    if (tally->words == NULL)
        return;
    uint64_t notified = __atomic_load_n(&tally->words[PROBE_NOTIFIED], __ATOMIC_ACQUIRE);
    uint64_t execs = __atomic_load_n(&tally->words[PROBE_NOTIFIED + 2], __ATOMIC_ACQUIRE);
    if (notified != tally->words[PROBE_ANSWERED]) {
        loader_test_must(loader_update(tally->agent, &tally->helper, false, true, &error), &error);
        __atomic_store_n(&tally->words[PROBE_ANSWERED], notified, __ATOMIC_RELEASE);
    }
    if (execs != tally->words[PROBE_ANSWERED + 2]) {
        pid_t pid = (pid_t)tally->words[PROBE_PROCESS];
        int result = loader_expect_exec(&tally->helper, pid, &error);
        loader_test_must(result, &error);
        __atomic_store_n(&tally->words[PROBE_ANSWERED + 2], execs, __ATOMIC_RELEASE);
    }
}

static unsigned handle_events(struct tally *tally)
{
    struct trace_event event;
    struct base_error error = {0};
    struct pollfd socket = {tally->helper.socket, POLLIN, 0};
    unsigned images = 0;
    if (!helper_trace_pending(&tally->helper))
        poll(&socket, 1, 1);
    while (helper_trace_next(&tally->helper, &event, &error) > 0)
        if (loader_take_event(&tally->helper, &event)) {
            int result = loader_test_load(tally, event.pid, true, &error);
            loader_unfollow(&tally->helper, event.pid);
            loader_test_must(result, &error);
            images++;
        }
    return images;
}

/* From before the first instruction to the end. */
static void record(struct tally *tally, const char *target, const char *mode, const char *argument,
                   const char *number)
{
    struct base_error error = {0};
    unsigned images = 0;
    loader_test_start(tally, target, mode, argument, number);
    loader_test_must(loader_expect_exec(&tally->helper, tally->pid, &error), &error);
    loader_test_let_it_begin(tally);
    for (int i = 0; i < 60000 && !has_ended(tally); i++) {
        images += handle_events(tally);
        answer_doorbells(tally);
    }
    assert_true(images >= 1);
    assert_int_equal(tally->status, 0);
    assert_int_equal(tally->truth->wrong, 0);
    assert_int_equal(tally->words[PROBE_WRONG], 0);
}

static void check_counts(const struct tally *tally, unsigned from, unsigned to)
{
    for (unsigned i = from; i <= to; i++) {
        if (tally->words[i] != tally->truth->calls[i])
            print_message("# function %u: %llu counted, %llu made\n", i, (unsigned long long)tally->words[i],
                          (unsigned long long)tally->truth->calls[i]);
        assert_int_equal(tally->words[i], tally->truth->calls[i]);
    }
}

static void want_doorbells(struct tally *tally)
{
    loader_test_want(tally, "_dl_debug_state", "*/ld*", "probe_notify", 0);
    loader_test_want(tally, "execve", NULL, "probe_exec", 0);
}

/* --- tests --- */

static void test_every_program_counts_from_its_start(void **state)
{
    (void)state;
    static const char *const handlers[] = {"probe_count", "probe_wrap"};
    for (int i = 0; i < loader_test_target_count; i++)
        for (int j = 0; j < 2; j++) {
            struct tally tally = loader_test_begin_tally(handlers[j]);
            want_doorbells(&tally);
            loader_test_plan(&tally);
            record(&tally, loader_test_targets[i], "run", NULL, "2000");
            assert_int_equal(tally.truth->calls[TARGET_ADD], 4000);
            check_counts(&tally, TARGET_ADD, TARGET_LABEL);
            check_counts(&tally, TARGET_LIBC, TARGET_LIBC);
            assert_int_equal(*tally.inside, 0);
            assert_int_equal(loader_test_hook_of(&tally, "target_add")->reason, STUB_FINE);
            loader_test_finish_tally(&tally);
        }
}

static void test_forks_count_and_know_that_they_are_forks(void **state)
{
    (void)state;
    for (int i = 0; i < loader_test_target_count; i++) {
        struct tally tally = loader_test_begin_tally("probe_count");
        want_doorbells(&tally);
        loader_test_plan(&tally);
        record(&tally, loader_test_targets[i], "fork", NULL, "500");
        assert_int_equal(tally.truth->calls[TARGET_ADD], 3000);
        check_counts(&tally, TARGET_ADD, TARGET_LABEL);
        check_counts(&tally, TARGET_LIBC, TARGET_LIBC);
        assert_int_equal(tally.words[PROBE_CHILD], 500 * 7);
        loader_test_finish_tally(&tally);
    }
}

static void test_execs_are_handed_over(void **state)
{
    (void)state;
    static const char *const modes[] = {"exec", "spawn"};
    for (int i = 0; i < 2 * loader_test_target_count; i++) {
        struct tally tally = loader_test_begin_tally("probe_count");
        want_doorbells(&tally);
        loader_test_plan(&tally);
        record(&tally, loader_test_targets[i / 2], modes[i % 2], NULL, "300");
        assert_int_equal(tally.truth->calls[TARGET_ADD], 600);
        check_counts(&tally, TARGET_ADD, TARGET_LABEL);
        check_counts(&tally, TARGET_LIBC, TARGET_LIBC);
        loader_test_finish_tally(&tally);
    }
}

static void test_libraries_that_come_and_go_count(void **state)
{
    (void)state;
    struct tally tally = loader_test_begin_tally("probe_wrap");
    want_doorbells(&tally);
    loader_test_plan(&tally);
    record(&tally, loader_test_targets[0], "load", loader_test_library, "20");
    assert_int_equal(tally.truth->calls[TARGET_LOADED], 200);
    check_counts(&tally, TARGET_LOADED, TARGET_LOADED);
    loader_test_finish_tally(&tally);
}

/* --- into running programs, and out of them --- */

static void test_a_running_program_is_entered_and_left_many_times(void **state)
{
    (void)state;
    for (int i = 0; i < loader_test_target_count; i++) {
        struct base_error error = {0};
        struct tally tally = loader_test_begin_tally(i % 2 ? "probe_count" : "probe_wrap");
        unsigned before, after, descriptors;
        loader_test_plan(&tally);
        loader_test_begin_loop(&tally, loader_test_targets[i], "loop", "6");
        loader_test_nap_us(10000);
        loader_test_ours_in(tally.pid, &before);
        descriptors = trace_child_descriptors(tally.pid);
        for (int round = 0; round < 8; round++) {
            struct loader_left left;
            loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error);
            assert_true(trace_child_is_free(tally.pid));
            assert_int_equal(trace_child_descriptors(tally.pid), descriptors);
            assert_true(loader_test_ours_in(tally.pid, NULL) >= 3);
            loader_test_wait_for_more(&tally);
            loader_test_must_leave(&tally, tally.pid, &left);
            assert_true(left.places >= 6);
            assert_int_equal(left.skipped, 0);
            assert_int_equal(left.bytes_left, 0);
            assert_int_equal(loader_test_ours_in(tally.pid, &after), 0);
            assert_int_equal(tally.words[PROBE_WRONG], 0);
        }
        assert_int_equal(after, before);
        loader_test_end(&tally);
        loader_test_finish_tally(&tally);
    }
}

static bool refuses_to_apply;

int __real_helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error);
int __wrap_helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error);

int __wrap_helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error)
{
    return refuses_to_apply ? base_fail(error, BASE_EIO, "not now")
                            : __real_helper_trace_apply(helper, pid, error);
}

/* A thread that gets no processor cannot stop, and does not leave what it stands in. */
static int load_at_last(struct tally *tally, struct base_error *error)
{
    int result = BASE_EBUSY;
    for (int i = 0; i < 50 && result == BASE_EBUSY; i++) {
        base_error_clear(error);
        result = loader_test_load(tally, tally->pid, false, error);
    }
    return result;
}

/* Threads have been moved by then, some of them, into what was mapped for the hooks: one in some 1,500
 * times, so that 5,000 are not always enough. */
static void test_a_failed_load_does_no_harm(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct tally tally = loader_test_begin_tally("probe_count");
    struct loader_left left;
    unsigned kept = 0;
    loader_test_plan(&tally);
    loader_test_begin_loop(&tally, loader_test_targets[0], "loop", "8");
    refuses_to_apply = true;
    for (int i = 0; i < 20000 && kept < 2; i++) {
        int result = load_at_last(&tally, &error);
        assert_false(has_ended(&tally));
        assert_int_equal(result, BASE_EIO);
        kept += loader_test_ours_in(tally.pid, NULL) > 0;
    }
    refuses_to_apply = false;
    loader_test_must(load_at_last(&tally, &error), &error);
    loader_test_wait_for_more(&tally);
    loader_test_must_leave(&tally, tally.pid, &left);
    assert_int_equal(left.bytes_left, 0);
    assert_int_equal(loader_test_ours_in(tally.pid, NULL), 0);
    loader_test_end(&tally);
    assert_true(kept > 0);
    loader_test_finish_tally(&tally);
}

static void test_a_child_is_left_by_itself(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct tally tally = loader_test_begin_tally("probe_count");
    struct loader_left left;
    struct loader_agent *child_agent;
    char path[64], text[32] = "";
    want_doorbells(&tally);
    loader_test_plan(&tally);
    loader_test_start(&tally, loader_test_targets[0], "twice", NULL, "2");
    loader_test_must(loader_expect_exec(&tally.helper, tally.pid, &error), &error);
    loader_test_let_it_begin(&tally);
    for (int i = 0; i < 5000 && !atomic_load(&tally.truth->ready); i++) {
        handle_events(&tally);
        answer_doorbells(&tally);
    }
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", tally.pid, tally.pid);
    int file = open(path, O_RDONLY);
    assert_true(read(file, text, sizeof text - 1) > 0);
    close(file);
    pid_t child = (pid_t)strtol(text, NULL, 10);
    loader_test_must(loader_adopt(tally.agent, child, &child_agent, &error), &error);
    assert_int_equal(loader_update(child_agent, &tally.helper, false, false, &error), 0);
    loader_free(child_agent);
    struct wire_agent_process *shown = (void *)(tally.region + 4096);
    shown->pid = (uint32_t)child; /* as if it had a region of its own */
    loader_test_must_leave(&tally, child, &left);
    assert_int_equal(shown->state, WIRE_AGENT_LEFT);
    shown->pid = (uint32_t)tally.pid;
    shown->state = WIRE_AGENT_RUNNING;
    assert_true(left.places >= 7);
    assert_int_equal(left.bytes_left, 0);
    assert_int_equal(loader_test_ours_in(child, NULL), 0);
    loader_test_wait_for_more(&tally);
    loader_test_must_leave(&tally, tally.pid, &left);
    assert_int_equal(left.bytes_left, 0);
    loader_test_end(&tally);
    loader_test_finish_tally(&tally);
}

static void test_who_sleeps_inside_is_waited_for(void **state)
{
    (void)state;
    static const char *const lengths[] = {"150", "3000"};
    for (int i = 0; i < 2; i++) {
        struct base_error error = {0};
        struct loader_left left;
        struct tally tally = loader_test_begin_tally("probe_wrap");
        loader_test_plan(&tally);
        loader_test_begin_loop(&tally, loader_test_targets[i], "sleep", lengths[i]);
        loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error);
        for (int j = 0; j < 5000 && __atomic_load_n(tally.inside, __ATOMIC_ACQUIRE) == 0; j++)
            loader_test_nap_us(1000);
        assert_int_equal(*tally.inside, 1);
        loader_test_must_leave(&tally, tally.pid, &left);
        assert_true(left.places >= 6);
        assert_int_equal(left.bytes_left != 0, i == 1); /* the long sleep: it stays, inert */
        for (int j = 0; j < 5000 && __atomic_load_n(tally.inside, __ATOMIC_ACQUIRE) != 0; j++)
            loader_test_nap_us(1000);
        loader_test_nap_us(20000);
        loader_test_must_leave(&tally, tally.pid, &left);
        assert_int_equal(left.places, 0);
        assert_int_equal(left.mappings != 0, i == 1);
        assert_int_equal(left.bytes_left, 0);
        assert_int_equal(loader_test_ours_in(tally.pid, NULL), 0);
        loader_test_end(&tally);
        loader_test_finish_tally(&tally);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4 || !loader_test_open_probe(argv[1]))
        return 2;
    loader_test_library = argv[2];
    loader_test_targets = argv + 3;
    loader_test_target_count = argc - 3;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_program_counts_from_its_start),
        cmocka_unit_test(test_forks_count_and_know_that_they_are_forks),
        cmocka_unit_test(test_execs_are_handed_over),
        cmocka_unit_test(test_libraries_that_come_and_go_count),
        cmocka_unit_test(test_a_running_program_is_entered_and_left_many_times),
        cmocka_unit_test(test_a_failed_load_does_no_harm),
        cmocka_unit_test(test_a_child_is_left_by_itself),
        cmocka_unit_test(test_who_sleeps_inside_is_waited_for),
    };
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    loader_image_close(loader_test_probe);
    return result;
}
