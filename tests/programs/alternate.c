/* alternate [PERIOD_US] [--monotonic] - spends 30 % of every period (1001 us) in one function and 70 % in
 * another. A profiler that samples at that very period, and does not randomise, sees one of them only. Driven
 * by the thread's CPU clock, so that the phase holds against a clock that counts CPU time too. */
#include "truth.h"

struct alternation {
    clockid_t clock;
    double period, began;
};

/* Works until `until` (seconds since the start); returns when it ended. */
#define ALTERNATE_UNTIL(alternation, until)                                                                  \
    double now;                                                                                              \
    do {                                                                                                     \
        TRUTH_WORK(20000);                                                                                   \
        now = truth_clock((alternation)->clock) - (alternation)->began;                                      \
    } while (now < (until));                                                                                 \
    return now

TRUTH_FUNCTION double alternate_30(const struct alternation *alternation, double until)
{
    ALTERNATE_UNTIL(alternation, until);
}

TRUTH_FUNCTION double alternate_70(const struct alternation *alternation, double until)
{
    ALTERNATE_UNTIL(alternation, until);
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    struct alternation alternation = {.clock = CLOCK_THREAD_CPUTIME_ID};
    double now = 0, first, seconds[2] = {0, 0};

    if (truth.asked) {
        printf("contains alternate_30\nstack main;alternate_30;**\norigin start\n"
               "contains alternate_70\nstack main;alternate_70;**\norigin start\n");
        return 0;
    }
    if (truth_flag(&truth, "--monotonic"))
        alternation.clock = CLOCK_MONOTONIC;
    alternation.period =
        (double)(truth_number(&truth, 0, 1001) > 0 ? truth_number(&truth, 0, 1001) : 1001) * 1e-6;
    alternation.began = truth_clock(alternation.clock);
    for (long turn = 0; now < truth.seconds; turn++) {
        double start = now;
        first = alternate_30(&alternation, ((double)turn + 0.3) * alternation.period);
        now = alternate_70(&alternation, ((double)turn + 1.0) * alternation.period);
        seconds[0] += first - start;
        seconds[1] += now - first;
    }
    truth_share("alternate_30", seconds[0]);
    truth_share("alternate_70", seconds[1]);
    truth_process();
    return 0;
}
