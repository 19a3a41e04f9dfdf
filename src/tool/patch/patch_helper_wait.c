#include "patch_helper_wait.h"

#include <stddef.h>
#include <sys/wait.h>

#include "patch_target.h"

#define CHEAP_NS UINT64_C(20000) /* a look at all is made each time */
#define RESTS    4               /* times what the look has cost */

void patch_helper_wait_hear(struct patch_helper_wait *wait, pid_t tid)
{
    for (unsigned i = 0; i < PATCH_HELPER_WAIT_HEARD; i++)
        if (!tid || wait->heard[i] == tid)
            return;
    wait->heard[wait->next++ % PATCH_HELPER_WAIT_HEARD] = tid;
}

static pid_t ask_heard(struct patch_helper_wait *wait, int *status)
{
    uint64_t began = patch_target_now();
    unsigned asked = 0;
    for (unsigned i = 0; i < PATCH_HELPER_WAIT_HEARD; i++) {
        pid_t tid = wait->heard[i] ? waitpid(wait->heard[i], status, __WALL | WNOHANG) : 0;
        if (tid > 0)
            return tid;
        asked += wait->heard[i] != 0;
        wait->heard[i] = tid < 0 ? 0 : wait->heard[i];
    }
    uint64_t each = asked ? (patch_target_now() - began) / asked : 0;
    if (each && (!wait->heard_cost || each < wait->heard_cost))
        wait->heard_cost = each;
    return 0;
}

/* An older kernel looks through all for one. */
static bool is_worth_asking(const struct patch_helper_wait *wait)
{
    return wait->cost > CHEAP_NS && wait->heard_cost * PATCH_HELPER_WAIT_HEARD < wait->cost;
}

/* Until when none but those that were heard of are asked for. */
static uint64_t rests_until(const struct patch_helper_wait *wait)
{
    return is_worth_asking(wait) ? wait->looked + RESTS * wait->cost : 0;
}

pid_t patch_helper_wait_next(struct patch_helper_wait *wait, int *status)
{
    pid_t tid = is_worth_asking(wait) ? ask_heard(wait, status) : 0;
    if (tid > 0)
        return tid;
    uint64_t began = patch_target_now();
    wait->missed = began < rests_until(wait);
    if (wait->missed)
        return 0;
    tid = waitpid(-1, status, __WALL | WNOHANG);
    if (tid > 0)
        return tid;
    wait->looked = patch_target_now();
    wait->cost = wait->looked - began;
    return 0;
}

uint64_t patch_helper_wait_rest(const struct patch_helper_wait *wait)
{
    uint64_t now = patch_target_now(), until = rests_until(wait);
    return !wait->missed ? 0 : until > now ? until - now : 1;
}
