/* recursion [DEPTH] [--mutual] - a recursion of known depth, by itself or between two functions; the same
 * source is also built statically, as a static PIE, against musl, and with frame pointers but without
 * call-frame information. */
#include "truth.h"

TRUTH_FUNCTION void recursion_leaf(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION void recursion_step(long left)
{
    if (left > 1)
        TRUTH_CALL(recursion_step(left - 1));
    else
        TRUTH_CALL(recursion_leaf());
}

TRUTH_FUNCTION void recursion_pong(long left);

TRUTH_FUNCTION void recursion_ping(long left)
{
    if (left > 1)
        TRUTH_CALL(recursion_pong(left - 1));
    else
        TRUTH_CALL(recursion_leaf());
}

TRUTH_FUNCTION void recursion_pong(long left)
{
    char room[48]; /* frames of different sizes */

    __asm__ volatile("" : : "r"(room) : "memory");
    if (left > 1)
        TRUTH_CALL(recursion_ping(left - 1));
    else
        TRUTH_CALL(recursion_leaf());
}

static void print_truth(long depth, bool mutual)
{
    printf("contains recursion_leaf\nstack main");
    if (!mutual)
        printf(";recursion_step{%ld}", depth);
    for (long i = 0; mutual && i < depth; i++)
        printf(";%s", i % 2 == 0 ? "recursion_ping" : "recursion_pong");
    printf(";recursion_leaf\norigin %s\n", RECURSION_ORIGIN);
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    long depth = truth_number(&truth, 0, 30);
    bool mutual = truth_flag(&truth, "--mutual");

    if (truth.asked)
        print_truth(depth, mutual);
    while (!truth.asked && truth_more(&truth)) {
        if (mutual)
            TRUTH_CALL(recursion_ping(depth));
        else
            TRUTH_CALL(recursion_step(depth));
    }
    return 0;
}
