/* A rest lasts as long as it is to, whichever calls a filter refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include "base_clock.h"

#define REST_NS 20000000u

/* The linker sends both here: -Wl,--wrap. */
static int sleep_error, poll_error; /* 0: not refused */
static unsigned polls;

int __real_nanosleep(const struct timespec *rest, struct timespec *left);
int __wrap_nanosleep(const struct timespec *rest, struct timespec *left);
int __wrap_nanosleep(const struct timespec *rest, struct timespec *left)
{
    if (!sleep_error)
        return __real_nanosleep(rest, left);
    errno = sleep_error;
    return -1;
}

int __real_ppoll(struct pollfd *files, nfds_t count, const struct timespec *rest, const sigset_t *signals);
int __wrap_ppoll(struct pollfd *files, nfds_t count, const struct timespec *rest, const sigset_t *signals);
int __wrap_ppoll(struct pollfd *files, nfds_t count, const struct timespec *rest, const sigset_t *signals)
{
    polls++;
    if (!poll_error)
        return __real_ppoll(files, count, rest, signals);
    errno = poll_error;
    return -1;
}

static bool rests(void)
{
    uint64_t began = base_clock_now();
    base_clock_sleep(REST_NS);
    return base_clock_now() - began >= REST_NS;
}

static void it_lasts(void **state)
{
    (void)state;
    const int errors[] = {0, EPERM, ENOSYS};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        for (size_t j = 0; j < sizeof errors / sizeof *errors; j++) {
            sleep_error = errors[i];
            poll_error = errors[j];
            polls = 0;
            assert_true(rests());
            assert_int_equal(polls, sleep_error != 0);
        }
}

/* Otherwise who is to look at something soon would look late. */
static void a_signal_ends_it(void **state)
{
    (void)state;
    sleep_error = EINTR;
    poll_error = polls = 0;
    assert_false(rests());
    assert_int_equal(polls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_lasts), cmocka_unit_test(a_signal_ends_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
