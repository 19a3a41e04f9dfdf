#include "helper_wait.h"

#include <sys/wait.h>

#include "base_clock.h"
#include "base_wait.h"

#define CHEAP_NS UINT64_C(20000) /* waitpid(-1) is called each time */
#define RESTS    4               /* times what waitpid(-1) has cost */
/* But no longer than this: a call that took long may have waited for a processor, which is no reason to miss
 * threads for seconds. */
#define REST_MOST_NS UINT64_C(20000000)
#define ROW_MOST     32 /* likely threads in a row, while others may have something to report */

void helper_wait_expect(struct helper_wait *wait, pid_t tid)
{
    for (unsigned i = 0; i < HELPER_WAIT_LIKELY; i++)
        if (!tid || wait->likely[i] == tid)
            return;
    wait->likely[wait->next++ % HELPER_WAIT_LIKELY] = tid;
}

static pid_t wait_likely(struct helper_wait *wait, int *status)
{
    uint64_t began = base_clock_now();
    unsigned tried = 0;
    for (unsigned i = 0; i < HELPER_WAIT_LIKELY; i++) {
        pid_t *likely = &wait->likely[(wait->first + i) % HELPER_WAIT_LIKELY];
        pid_t tid = *likely ? base_wait(*likely, status, __WALL | WNOHANG) : 0;
        if (tid > 0) {
            wait->first += i + 1; /* the thread that has just reported something is tried last */
            return tid;
        }
        tried += *likely != 0;
        *likely = tid < 0 ? 0 : *likely;
    }
    uint64_t each = tried ? (base_clock_now() - began) / tried : 0;
    if (each && (!wait->likely_cost || each < wait->likely_cost))
        wait->likely_cost = each;
    return 0;
}

/* An older kernel searches all tracees for one: then it is not. */
static bool is_worth_trying(const struct helper_wait *wait)
{
    return wait->cost > CHEAP_NS && wait->likely_cost * HELPER_WAIT_LIKELY < wait->cost;
}

/* Until when only the likely threads are waited for. */
static uint64_t rests_until(const struct helper_wait *wait)
{
    if (!is_worth_trying(wait))
        return 0;
    return wait->looked + (wait->cost < REST_MOST_NS / RESTS ? RESTS * wait->cost : REST_MOST_NS);
}

static pid_t wait_all(struct helper_wait *wait, uint64_t now, int *status)
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
    pid_t tid = is_worth_trying(wait) && (rests || wait->row < ROW_MOST) ? wait_likely(wait, status) : 0;
    if (tid > 0) {
        wait->row++;
        return tid;
    }
    uint64_t now = base_clock_now();
    wait->missed = now < rests_until(wait);
    return wait->missed ? 0 : wait_all(wait, now, status);
}

uint64_t helper_wait_rest(const struct helper_wait *wait)
{
    uint64_t now = base_clock_now(), until = rests_until(wait);
    return !wait->missed ? 0 : until > now ? until - now : 1;
}
