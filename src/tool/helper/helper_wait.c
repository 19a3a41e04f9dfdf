#include "helper_wait.h"

#include <stddef.h>
#include <sys/wait.h>

#include "base_clock.h"
#include "base_wait.h"

#define CHEAP_NS UINT64_C(20000) /* a look at all is made each time */
#define RESTS    4               /* times what the look has cost */
/* But no longer than this: a look that took long may have waited for a processor, and it is not worth seconds in which nobody is heard. */
#define REST_MOST_NS UINT64_C(20000000)
#define ROW_MOST     32 /* of those heard of, one after the other, while others may have something to tell */

void helper_wait_expect(struct helper_wait *wait, pid_t tid)
{
    for (unsigned i = 0; i < HELPER_WAIT_ANSWERED; i++)
        if (!tid || wait->answered[i] == tid)
            return;
    wait->answered[wait->next++ % HELPER_WAIT_ANSWERED] = tid;
}

static pid_t ask_answered(struct helper_wait *wait, int *status)
{
    uint64_t began = base_clock_now();
    unsigned asked = 0;
    for (unsigned i = 0; i < HELPER_WAIT_ANSWERED; i++) {
        pid_t *answered = &wait->answered[(wait->first + i) % HELPER_WAIT_ANSWERED];
        pid_t tid = *answered ? base_wait(*answered, status, __WALL | WNOHANG) : 0;
        if (tid > 0) {
            wait->first += i + 1; /* who has just told something is asked last */
            return tid;
        }
        asked += *answered != 0;
        *answered = tid < 0 ? 0 : *answered;
    }
    uint64_t each = asked ? (base_clock_now() - began) / asked : 0;
    if (each && (!wait->answered_cost || each < wait->answered_cost))
        wait->answered_cost = each;
    return 0;
}

/* An older kernel looks through all for one. */
static bool is_worth_asking(const struct helper_wait *wait)
{
    return wait->cost > CHEAP_NS && wait->answered_cost * HELPER_WAIT_ANSWERED < wait->cost;
}

/* Until when none but those that were heard of are asked for. */
static uint64_t rests_until(const struct helper_wait *wait)
{
    if (!is_worth_asking(wait))
        return 0;
    return wait->looked + (wait->cost < REST_MOST_NS / RESTS ? RESTS * wait->cost : REST_MOST_NS);
}

static pid_t ask_all(struct helper_wait *wait, uint64_t now, int *status)
{
    pid_t tid = base_wait(-1, status, __WALL | WNOHANG);
    wait->row = 0;
    if (tid > 0)
        return tid;
    wait->looked = base_clock_now();
    wait->cost = wait->looked - now;
    return 0;
}

pid_t helper_wait_next(struct helper_wait *wait, int *status)
{
    bool rests = base_clock_now() < rests_until(wait);
    pid_t tid = is_worth_asking(wait) && (rests || wait->row < ROW_MOST) ? ask_answered(wait, status) : 0;
    if (tid > 0) {
        wait->row++;
        return tid;
    }
    uint64_t now = base_clock_now();
    wait->missed = now < rests_until(wait);
    return wait->missed ? 0 : ask_all(wait, now, status);
}

uint64_t helper_wait_rest(const struct helper_wait *wait)
{
    uint64_t now = base_clock_now(), until = rests_until(wait);
    return !wait->missed ? 0 : until > now ? until - now : 1;
}
