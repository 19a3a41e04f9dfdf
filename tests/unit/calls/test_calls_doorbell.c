/* Doorbells that notify in many places at once: every notification is noticed, and answered, whatever the
 * number of doorbells. They come from threads and forked children that write the shared words as the
 * doorbell's code does (stub_x86_64_doorbell.h). */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "calls_doorbell.h"

enum { MANY = 200, THREADS = 6, NOTIFICATIONS = 300, WAIT_MS = 20000 };

static struct stub_doorbell *doorbells; /* shared, MANY of them */
static struct space spaces[MANY];
static struct loader_listen *listener;

static int set_up(void **state)
{
    (void)state;
    doorbells =
        mmap(NULL, MANY * sizeof *doorbells, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(doorbells, MAP_FAILED);
    for (unsigned i = 0; i < MANY; i++) {
        doorbells[i].active = 1;
        spaces[i] = (struct space){.pid = getpid(), .doorbell = &doorbells[i]};
    }
    return loader_listen_new(0, &listener, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    loader_listen_free(listener);
    return munmap(doorbells, MANY * sizeof *doorbells);
}

static void listen_to(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        assert_int_equal(calls_doorbell_listen(&spaces[i], listener, NULL), BASE_OK);
}

/* --- notifying --- */

static long futex(uint32_t *word, int operation, uint32_t value)
{
    const struct timespec round = {.tv_nsec = STUB_DOORBELL_TIMEOUT * 1000000l};
    return syscall(SYS_futex, word, operation, value, operation == FUTEX_WAIT ? &round : NULL, NULL, 0);
}

/* False: no answer within 20 s. */
static bool notify(struct stub_doorbell *doorbell)
{
    if (!__atomic_load_n(&doorbell->active, __ATOMIC_SEQ_CST))
        return true;
    uint32_t mine = __atomic_add_fetch(&doorbell->notified, 1, __ATOMIC_SEQ_CST);
    futex(&doorbell->notified, FUTEX_WAKE, 1);
    for (unsigned i = 0; i < WAIT_MS / STUB_DOORBELL_TIMEOUT; i++) {
        uint32_t answered = __atomic_load_n(&doorbell->answered, __ATOMIC_SEQ_CST);
        if ((int32_t)(answered - mine) >= 0 || !__atomic_load_n(&doorbell->active, __ATOMIC_SEQ_CST))
            return true;
        futex(&doorbell->answered, FUTEX_WAIT, answered);
    }
    return false;
}

/* --- listening, as a session does --- */

static bool answered(int ms)
{
    struct pollfd file = {loader_listen_file(listener), POLLIN, 0};
    eventfd_t value;
    int result;
    while ((result = poll(&file, 1, ms)) < 0 && errno == EINTR)
        ;
    return result == 1 && eventfd_read(file.fd, &value) == 0;
}

/* Answers all notifications; returns how many doorbells had one. */
static unsigned answer_all(void)
{
    unsigned count = 0;
    uint32_t notified;
    for (unsigned i = 0; i < MANY; i++)
        if (calls_doorbell_notifications(&spaces[i], &notified)) {
            calls_doorbell_answer(&spaces[i], notified);
            count++;
        }
    return count;
}

static uint64_t notified_in_all(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < MANY; i++)
        sum += doorbells[i].notified;
    return sum;
}

/* Until `notifications` were noticed and every one has its answer. */
static void serve(uint64_t notifications)
{
    while (notified_in_all() < notifications) {
        assert_true(answered(WAIT_MS));
        answer_all();
    }
    for (int i = 0; i < 100 && answer_all(); i++)
        ;
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(doorbells[i].answered, doorbells[i].notified);
}

static pid_t fork_notifier(unsigned first, unsigned step, unsigned notifications)
{
    pid_t pid = fork();
    if (pid == 0) {
        bool answered = true;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned i = 0; i < notifications; i++)
            answered &= notify(&doorbells[(first + i * step) % MANY]);
        _exit(answered ? 0 : 1);
    }
    return pid;
}

static void assert_answered(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- the tests --- */

static void one_notification_is_noticed_once(void **state)
{
    (void)state;
    uint32_t notified = 77;
    listen_to(0, 1);
    assert_false(answered(0));
    assert_false(calls_doorbell_notifications(&spaces[0], &notified));
    pid_t pid = fork_notifier(0, 0, 1);
    assert_true(answered(WAIT_MS));
    assert_true(calls_doorbell_notifications(&spaces[0], &notified));
    assert_int_equal(notified, 1);
    assert_true(calls_doorbell_notifications(&spaces[0], &notified)); /* until it is answered */
    calls_doorbell_answer(&spaces[0], notified);
    assert_false(calls_doorbell_notifications(&spaces[0], &notified));
    assert_answered(pid);
    assert_false(answered(20));
}

/* Notified once more after the listener looked, before the answer: that one is not answered by it. */
static void a_later_notification_is_not_answered_by_an_earlier_answer(void **state)
{
    (void)state;
    uint32_t first, second;
    doorbells[0].notified = doorbells[0].answered = UINT32_MAX; /* counts wrap around */
    listen_to(0, 1);
    assert_true(answered(WAIT_MS)); /* it has notified before */
    assert_false(calls_doorbell_notifications(&spaces[0], &first));
    pid_t pid = fork_notifier(0, 0, 1);
    assert_true(answered(WAIT_MS));
    assert_true(calls_doorbell_notifications(&spaces[0], &first));
    assert_int_equal(first, 0);
    pid_t other = fork_notifier(0, 0, 1);
    assert_true(answered(WAIT_MS));
    calls_doorbell_answer(&spaces[0], first);
    assert_answered(pid);
    assert_true(calls_doorbell_notifications(&spaces[0], &second));
    assert_int_equal(second, 1);
    assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
    calls_doorbell_answer(&spaces[0], second);
    assert_answered(other);
}

static void many_doorbells_are_noticed(void **state)
{
    (void)state;
    pid_t children[4];
    listen_to(0, MANY);
    for (unsigned i = 0; i < MANY; i += 7) { /* each alone, beyond what one call can wait for, too */
        pid_t pid = fork_notifier(i, 0, 1);
        assert_true(answered(WAIT_MS));
        assert_int_equal(answer_all(), 1);
        assert_answered(pid);
    }
    assert_true(calls_doorbell_notifications(&spaces[0], &(uint32_t){0}) == false);
    uint64_t before = notified_in_all();
    for (unsigned i = 0; i < 4; i++)
        children[i] = fork_notifier(i * 50, 3 + 2 * i, NOTIFICATIONS);
    serve(before + 4 * NOTIFICATIONS);
    for (unsigned i = 0; i < 4; i++)
        assert_answered(children[i]);
    assert_int_equal(notified_in_all(), before + 4 * NOTIFICATIONS);
}

static void *notify_often(void *context)
{
    bool answered = true;
    for (unsigned i = 0; i < NOTIFICATIONS; i++)
        answered &= notify(context);
    return answered ? context : NULL;
}

static void threads_share_a_doorbell(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    listen_to(0, 3);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, notify_often, &doorbells[i % 3]), 0);
    serve((uint64_t)THREADS * NOTIFICATIONS);
    for (unsigned i = 0; i < THREADS; i++) {
        void *answered = NULL;
        pthread_join(threads[i], &answered);
        assert_ptr_equal(answered, &doorbells[i % 3]);
    }
}

static void doorbells_come_and_go_meanwhile(void **state)
{
    (void)state;
    pid_t pid = fork_notifier(0, 0, NOTIFICATIONS);
    listen_to(0, 1); /* it may have notified before: none is forgotten */
    for (unsigned i = 0; i < 50; i++) {
        unsigned other = 1 + i % 100;
        if (answered(1))
            answer_all();
        listen_to(other, 20);
        answer_all();
        for (unsigned j = other; j < other + 20; j++)
            calls_doorbell_forget(&spaces[j], listener);
    }
    serve(NOTIFICATIONS);
    assert_answered(pid);
}

static void a_forgotten_doorbell_is_not_read(void **state)
{
    (void)state;
    listen_to(0, 2);
    calls_doorbell_forget(&spaces[0], listener);
    calls_doorbell_forget(&spaces[0], listener); /* it is none of them any more */
    doorbells[0].notified++;
    futex(&doorbells[0].notified, FUTEX_WAKE, INT_MAX);
    assert_false(answered(20));
    struct stub_doorbell *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct space space = {.doorbell = gone};
    assert_int_equal(calls_doorbell_listen(&space, listener, NULL), BASE_OK);
    calls_doorbell_forget(&space, listener);
    munmap(gone, 4096);
    pid_t pid = fork_notifier(1, 0, 1);
    assert_true(answered(WAIT_MS));
    assert_int_equal(answer_all(), 2);
    assert_answered(pid);
}

/* Beside a doorbell that is not notified, and one without a clock. */
static void a_clock_goes_on_until_its_doorbell_is_forgotten(void **state)
{
    (void)state;
    uint64_t clock = 0, last;
    listen_to(1, 1);
    assert_int_equal(loader_listen_add(listener, &doorbells[0].notified, &clock, NULL), BASE_OK);
    for (int i = 0; i < 3; i++) {
        last = __atomic_load_n(&clock, __ATOMIC_RELAXED);
        assert_int_not_equal(last, 0);
        for (int j = 0; j < WAIT_MS && __atomic_load_n(&clock, __ATOMIC_RELAXED) == last; j++)
            assert_false(answered(1));
        assert_true(__atomic_load_n(&clock, __ATOMIC_RELAXED) > last);
    }
    loader_listen_forget(listener, &doorbells[0].notified);
    clock = 1;
    assert_false(answered(30));
    assert_int_equal(clock, 1);
}

static void use_a_processor(uint64_t ns)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((uint64_t)(now.tv_sec - begin.tv_sec) * 1000000000 + (uint64_t)now.tv_nsec -
               (uint64_t)begin.tv_nsec <
           ns);
}

static uint32_t beats_of(unsigned doorbell)
{
    return __atomic_load_n(&doorbells[doorbell].beats, __ATOMIC_SEQ_CST);
}

/* While this thread sleeps. The last of its work is seen when the listener gets a processor. */
static bool beats_end(unsigned doorbell)
{
    for (int i = 0; i < 100; i++) {
        uint32_t before = beats_of(doorbell);
        nanosleep(&(struct timespec){.tv_nsec = 5 * STUB_DOORBELL_BEAT * 1000000l}, NULL);
        if (beats_of(doorbell) == before)
            return true;
    }
    return false;
}

/* While its notification has no answer and this thread works; the other doorbell, which is not notified, has
 * none. */
static void a_doorbell_has_beats_while_tally_works_on_it(void **state)
{
    (void)state;
    listen_to(0, 2);
    use_a_processor(2 * STUB_DOORBELL_BEAT * 1000000);
    assert_int_equal(beats_of(0), 0); /* none has notified */
    pid_t pid = fork_notifier(0, 0, 1);
    assert_true(answered(WAIT_MS));
    for (uint32_t beats = 0; beats < 3;) {
        use_a_processor(STUB_DOORBELL_BEAT * 1000000);
        beats = beats_of(0);
    }
    assert_true(beats_end(0)); /* a tally that waits for a file, say */
    assert_int_equal(answer_all(), 1);
    assert_answered(pid);
    uint32_t before = beats_of(0);
    use_a_processor(4 * STUB_DOORBELL_BEAT * 1000000);
    assert_true(beats_of(0) - before <= 1); /* the one under way */
    assert_int_equal(beats_of(1), 0);
}

static void a_doorbell_that_was_disabled_is_enabled_again(void **state)
{
    (void)state;
    listen_to(0, 1);
    assert_false(calls_doorbell_reopen(&spaces[0]));
    doorbells[0].active = 0;
    assert_true(calls_doorbell_reopen(&spaces[0]));
    assert_int_equal(doorbells[0].active, 1);
}

static void a_silenced_doorbell_releases_every_thread(void **state)
{
    (void)state;
    uint32_t notified;
    listen_to(0, 1);
    pid_t pid = fork_notifier(0, 0, 1);
    assert_true(answered(WAIT_MS));
    calls_doorbell_silence(&spaces[0]);
    assert_answered(pid);
    assert_answered(fork_notifier(0, 0, NOTIFICATIONS)); /* nor does anyone wait later */
    assert_true(calls_doorbell_notifications(&spaces[0], &notified));
    assert_int_equal(notified, 1);
}

static void a_space_without_a_doorbell_is_quiet(void **state)
{
    (void)state;
    uint32_t notified;
    struct space space = {.pid = getpid()};
    assert_int_equal(calls_doorbell_listen(&space, listener, NULL), BASE_OK);
    assert_false(calls_doorbell_notifications(&space, &notified));
    calls_doorbell_silence(&space);
    assert_true(calls_doorbell_settled(&space));
    calls_doorbell_forget(&space, listener);
    assert_false(answered(5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_notification_is_noticed_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_later_notification_is_not_answered_by_an_earlier_answer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(many_doorbells_are_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_share_a_doorbell, set_up, tear_down),
        cmocka_unit_test_setup_teardown(doorbells_come_and_go_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_forgotten_doorbell_is_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_clock_goes_on_until_its_doorbell_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_doorbell_has_beats_while_tally_works_on_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_doorbell_that_was_disabled_is_enabled_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silenced_doorbell_releases_every_thread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_space_without_a_doorbell_is_quiet, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
