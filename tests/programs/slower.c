/* slower [TURNS] [PERCENT] - the same work every time: TURNS turns, each through functions of about 40, 25,
 * 15, 10, 5, 3 and 2 % of the time; slower_work, the first, is given PERCENT more of it. Turns are short, so
 * that a machine that changes its pace changes it for all alike. It counts the calls it makes; how long they
 * take it does not know. */
#include "truth.h"

#define SLOWER_ROUNDS 1000ul

#define SLOWER_FUNCTION TRUTH_FUNCTION __attribute__((aligned(64)))

SLOWER_FUNCTION void slower_work(unsigned long rounds)
{
    TRUTH_WORK(rounds);
}

SLOWER_FUNCTION void slower_25(void)
{
    TRUTH_WORK(25 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_15(void)
{
    TRUTH_WORK(15 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_10(void)
{
    TRUTH_WORK(10 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_05(void)
{
    TRUTH_WORK(5 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_03(void)
{
    TRUTH_WORK(3 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_02(void)
{
    TRUTH_WORK(2 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_turn(unsigned long rounds)
{
    TRUTH_CALL(slower_work(rounds));
    TRUTH_CALL(slower_25());
    TRUTH_CALL(slower_15());
    TRUTH_CALL(slower_10());
    TRUTH_CALL(slower_05());
    TRUTH_CALL(slower_03());
    TRUTH_CALL(slower_02());
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    long turns = truth_number(&truth, 0, 10000), percent = truth_number(&truth, 1, 0);

    if (truth.asked) {
        printf("contains slower_work\nstack main;slower_turn;slower_work\norigin start\n");
        return 0;
    }
    for (long i = 0; i < turns; i++)
        TRUTH_CALL(slower_turn(40 * SLOWER_ROUNDS * (unsigned long)(100 + percent) / 100));
    printf("calls slower_work %ld\n", turns);
    truth_process();
    return 0;
}
