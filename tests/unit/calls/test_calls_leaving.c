/* What stays in a process is reported however it was left: where counting could not begin, where it was given
 * up, and at the end. Real processes are followed, in which nothing can be counted, and leaving does what the
 * test wants. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "calls.h"
#include "calls_doorbell.h"
#include "calls_remove.h"
#include "remains_left.h"
#include "wire_loss.h"

static int leaving; /* what it comes to */
static struct calls_remains remaining;
static unsigned left_times;

int __wrap_calls_remove(struct space *space, struct space_session *session, bool held,
                        struct calls_remains *remains, struct base_error *error);
int __wrap_calls_remove(struct space *space, struct space_session *session, bool held,
                        struct calls_remains *remains, struct base_error *error)
{
    (void)space;
    (void)session;
    (void)held;
    *remains = remaining;
    left_times++;
    return leaving < 0 ? base_fail(error, leaving, "it cannot be left") : leaving;
}

int __wrap_space_build_all(struct space *space, struct space_session *session, bool held,
                           struct base_error *error);
int __wrap_space_build_all(struct space *space, struct space_session *session, bool held,
                           struct base_error *error)
{
    (void)space;
    (void)session;
    (void)held;
    return base_fail(error, BASE_EIO, "it cannot be counted");
}

int __wrap_calls_doorbell_install(struct space *space, struct space_session *session,
                                  struct loader_listen *listen, uint64_t code_ahead,
                                  struct base_error *error);
int __wrap_calls_doorbell_install(struct space *space, struct space_session *session,
                                  struct loader_listen *listen, uint64_t code_ahead, struct base_error *error)
{
    (void)space;
    (void)session;
    (void)listen;
    (void)code_ahead;
    return base_fail(error, BASE_EIO, "no doorbell");
}

struct recording {
    struct profile *profile;
    struct sample_images images;
    struct sample_processes processes;
    struct calls *calls;
    pid_t pid;
    int go; /* the child runs another image when it is written to */
};

static void wait_and_run(int go)
{
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(go, &byte, 1) < 0 && errno == EINTR)
        ;
    execl("/bin/sleep", "sleep", "60", (char *)NULL);
    _exit(127);
}

static int begin(void **state)
{
    static const char *const images[] = {"nothing*"};
    const struct calls_options options = {
        .request = {.images = images, .image_count = 1}, .follow = true, .unpublished = true};
    struct recording *recording = calloc(1, sizeof *recording);
    int pipes[2];
    if (!recording || pipe(pipes))
        return -1;
    leaving = BASE_OK;
    remaining = (struct calls_remains){0};
    left_times = 0;
    recording->pid = fork();
    if (recording->pid == 0)
        wait_and_run(pipes[0]);
    close(pipes[0]);
    recording->go = pipes[1];
    recording->profile = profile_new();
    *state = recording;
    if (!recording->profile || sample_images_init(&recording->images, recording->profile, NULL) < 0)
        return -1;
    sample_processes_init(&recording->processes, &recording->images, 0);
    return calls_new(&options, &recording->processes, &recording->calls, NULL);
}

static int end(void **state)
{
    struct recording *recording = *state;
    calls_free(recording->calls);
    sample_processes_free(&recording->processes);
    sample_images_free(&recording->images);
    profile_free(recording->profile);
    close(recording->go);
    kill(recording->pid, SIGKILL);
    waitpid(recording->pid, NULL, 0);
    free(recording);
    return 0;
}

static void expect_left(const struct recording *recording, uint64_t bytes, bool retry)
{
    const struct remains_left *left = calls_left(recording->calls);
    assert_int_equal(left->count, 1);
    assert_int_equal(left->items[0].pid, recording->pid);
    assert_int_equal(left->items[0].bytes, bytes);
    assert_int_equal(left->items[0].retry, retry);
}

static void attach(struct recording *recording)
{
    struct base_error error = {0};
    assert_true(calls_attach(recording->calls, recording->pid, &error) <
                0); /* with sanitizers, for their sake */
    assert_string_not_equal(error.text, "");
    unsigned times = left_times;
    assert_int_equal(calls_leave(recording->calls, NULL), BASE_OK);
    assert_int_equal(left_times, times); /* it was left once */
}

static void a_failed_attach_leaves_nothing(void **state)
{
    struct recording *recording = *state;
    attach(recording);
    assert_int_equal(left_times, 1);
    assert_int_equal(calls_left(recording->calls)->count, 0);
}

static void what_a_failed_attach_leaves_is_reported(void **state)
{
    struct recording *recording = *state;
    remaining = (struct calls_remains){.changes = 2, .memory_bytes = 4096};
    attach(recording);
    expect_left(recording, 4096, false);
    assert_int_equal(recording->profile->losses[WIRE_LOSS_TEXT_ALTERED], 2);
}

static void a_failed_attach_that_cannot_be_left_is_reported(void **state)
{
    struct recording *recording = *state;
    leaving = BASE_EIO;
    attach(recording);
    expect_left(recording, 0, true);
}

/* The image that the child runs cannot be counted. */
static void give_up(struct recording *recording)
{
    struct base_error error = {0};
    assert_int_equal(calls_launch(recording->calls, recording->pid, &error), BASE_OK);
    assert_int_equal(write(recording->go, "x", 1), 1);
    for (int i = 0; i < 1000 && !recording->profile->losses[WIRE_LOSS_CALLS_UNSEEN]; i++) {
        poll(NULL, 0, 10);
        assert_int_equal(calls_step(recording->calls, &error), BASE_OK);
    }
    assert_int_equal(recording->profile->losses[WIRE_LOSS_CALLS_UNSEEN], 1);
    assert_int_equal(left_times, 1);
    assert_int_equal(calls_leave(recording->calls, NULL), BASE_OK);
    assert_non_null(strstr(calls_notice(recording->calls), "are not counted"));
}

/* Tally does not wait for what is in the way as long as others are counted. */
static void a_process_given_up_that_cannot_be_left_is_reported(void **state)
{
    struct recording *recording = *state;
    leaving = BASE_EBUSY;
    give_up(recording);
    expect_left(recording, 0, true);
}

static void what_stays_in_a_process_given_up_is_reported(void **state)
{
    struct recording *recording = *state;
    remaining.memory_bytes = 8192;
    give_up(recording);
    expect_left(recording, 8192, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_failed_attach_leaves_nothing, begin, end),
        cmocka_unit_test_setup_teardown(what_a_failed_attach_leaves_is_reported, begin, end),
        cmocka_unit_test_setup_teardown(a_failed_attach_that_cannot_be_left_is_reported, begin, end),
        cmocka_unit_test_setup_teardown(a_process_given_up_that_cannot_be_left_is_reported, begin, end),
        cmocka_unit_test_setup_teardown(what_stays_in_a_process_given_up_is_reported, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
