/* helper_wait.h - which thread waitpid is called for.
 *
 * waitpid(-1) searches all tracees until it finds one that has something to report: with thousands of threads
 * that costs far more than to handle the report, and each new thread would cost the more the more threads
 * there are. One given thread is found at once (Linux 5.13). So where waitpid(-1) has become expensive,
 * threads are tried first that are likely to have something to report: the one that SIGCHLD names, one that
 * has just reported something (a creator creates again), one that is about to trap, and the thread after one
 * that has ended. A waitpid(-1) that found nothing is followed by a rest in proportion to what it cost, but
 * of 20 ms at most, so that all of them together stay a share of the time. The likely threads do not keep the
 * others waiting: after some of them in a row waitpid(-1) is called, unless it rests. Context: helper, one
 * thread. */
#ifndef HELPER_WAIT_H
#define HELPER_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { HELPER_WAIT_LIKELY = 8 };

struct helper_wait { /* {0} at first */
    pid_t likely[HELPER_WAIT_LIKELY];
    unsigned next;        /* in `likely`: the place of the next one */
    unsigned first;       /* in `likely`: the one to try first */
    unsigned row;         /* how many of `likely` have reported something since the last waitpid(-1) */
    uint64_t cost;        /* ns of the last waitpid(-1) that found nothing */
    uint64_t looked;      /* when it ended; CLOCK_MONOTONIC */
    uint64_t likely_cost; /* ns of waitpid for one thread, at best; 0: not known */
    bool missed;          /* no thread was found, and waitpid(-1) was not called */
};

/* The thread is likely to have something to report; 0: no thread. */
void helper_wait_expect(struct helper_wait *wait, pid_t tid);

/* The next thread that has something to report, and its status (as of waitpid); 0: none of those that were
 * tried has. */
pid_t helper_wait_next(struct helper_wait *wait, int *status);

/* After how many ns helper_wait_next must be called again, though it found no thread and no SIGCHLD has come;
 * 0: it need not. */
uint64_t helper_wait_rest(const struct helper_wait *wait);

#endif
