/* helper_wait.h - whom waitpid is asked for.
 *
 * waitpid(-1) looks through all tracees until it finds one that has something to tell: with thousands of
 * threads that costs far more than what it tells, and each birth would cost the more the more threads there
 * are. One thread is found at once (Linux 5.13). So where a look at all has become dear, those are asked for
 * first that are likely: whom SIGCHLD names, who has just been heard of (a creator creates again), who is
 * about to trap, and the thread after one that has ended. A look at all that found nothing is followed by a
 * rest in proportion to what it cost, but of 20 ms at most, so that all looks together stay a share of the time. Those that are likely do
 * not keep the others waiting: after some of them in a row all are looked at, unless it rests.
 * Context: helper, one thread. */
#ifndef HELPER_WAIT_H
#define HELPER_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { HELPER_WAIT_ANSWERED = 8 };

struct helper_wait { /* {0} at first */
    pid_t answered[HELPER_WAIT_ANSWERED];
    unsigned next;          /* in `answered`: whose place the next one takes */
    unsigned first;         /* in `answered`: who is asked for first */
    unsigned row;           /* how many of `answered` were told since the last look at all */
    uint64_t cost;          /* ns of the last look at all that found nothing */
    uint64_t looked;        /* when it ended; CLOCK_MONOTONIC */
    uint64_t answered_cost; /* ns of asking for one, at best; 0: not known */
    bool missed;            /* nobody was found, and not all were looked at */
};

/* The thread is likely to have something to tell; 0: nobody. */
void helper_wait_expect(struct helper_wait *wait, pid_t tid);

/* The next thread that has something to tell, and what (as of waitpid); 0: nobody that was looked at has. */
pid_t helper_wait_next(struct helper_wait *wait, int *status);

/* In how many ns helper_wait_next is to be asked again, though it has found nobody and nobody sends
 * SIGCHLD; 0: it need not. */
uint64_t helper_wait_rest(const struct helper_wait *wait);

#endif
