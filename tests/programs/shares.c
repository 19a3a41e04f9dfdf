/* shares [SEED] - functions with known shares of the CPU time: 5, 10, 25 and 60 %, worked in small chunks in
 * random order, each chunk timed by the thread's CPU clock. What was measured, not what was planned, is the
 * truth it prints. */
#include <stdint.h>

#include "truth.h"

#define SHARES_CHUNK 40000ul /* rounds: about 10 us, well below a sampling interval */

/* Aligned alike, so that a round takes as long in each. */
#define SHARES_FUNCTION TRUTH_FUNCTION __attribute__((aligned(64)))

SHARES_FUNCTION void share_05(void)
{
    TRUTH_WORK(SHARES_CHUNK);
}

SHARES_FUNCTION void share_10(void)
{
    TRUTH_WORK(SHARES_CHUNK);
}

SHARES_FUNCTION void share_25(void)
{
    TRUTH_WORK(SHARES_CHUNK);
}

SHARES_FUNCTION void share_60(void)
{
    TRUTH_WORK(SHARES_CHUNK);
}

enum { KINDS = 4 };

static const struct {
    void (*work)(void);
    const char *name;
    unsigned below; /* of 100 */
} kinds[KINDS] = {{share_05, "share_05", 5},
                  {share_10, "share_10", 15},
                  {share_25, "share_25", 40},
                  {share_60, "share_60", 100}};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int draw(uint64_t *state)
{
    unsigned number = (unsigned)(next_random(state) >> 33) % 100;
    int kind = 0;

    while (number >= kinds[kind].below)
        kind++;
    return kind;
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    uint64_t state = 88172645463325252u + (uint64_t)truth_number(&truth, 0, 0) * 2654435761u;
    double seconds[KINDS] = {0}, now = truth.started, last;

    if (truth.asked) {
        for (int i = 0; i < KINDS; i++)
            printf("contains %s\nstack main;%s\norigin start\n", kinds[i].name, kinds[i].name);
        return 0;
    }
    while (now - truth.started < truth.seconds) {
        int kind = draw(&state);
        for (int i = 0; i < 5; i++)
            TRUTH_CALL(kinds[kind].work());
        last = now;
        now = truth_clock(CLOCK_THREAD_CPUTIME_ID);
        seconds[kind] += now - last;
    }
    for (int i = 0; i < KINDS; i++)
        truth_share(kinds[i].name, seconds[i]);
    truth_process();
    return 0;
}
