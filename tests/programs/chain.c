/* chain - a chain of different functions of different frame sizes, without frame pointers, the callee-saved
 * registers (the frame pointer's among them) used for values. */
#include "truth.h"

TRUTH_FUNCTION long chain_value(long value)
{
    __asm__ volatile("" : "+r"(value));
    return value;
}

TRUTH_FUNCTION long chain_busy(long a, long b)
{
    TRUTH_WORK(TRUTH_CHUNK);
    return a ^ b;
}

/* Keeps six values alive over the call, so that all callee-saved registers are taken. */
#define CHAIN_LINK(name, next, bytes)                                                                        \
    TRUTH_FUNCTION long name(long a, long b)                                                                 \
    {                                                                                                        \
        char room[bytes];                                                                                    \
        long c = chain_value(a), d = chain_value(b), e = chain_value(a + b), f = chain_value(a - b), result; \
        __asm__ volatile("" : : "r"(room) : "memory");                                                       \
        result = next(c, d);                                                                                 \
        __asm__ volatile("" : : "r"(room) : "memory");                                                       \
        return result + a + b + c + d + e + f;                                                               \
    }

CHAIN_LINK(chain_9, chain_busy, 8)
CHAIN_LINK(chain_8, chain_9, 200)
CHAIN_LINK(chain_7, chain_8, 1)
CHAIN_LINK(chain_6, chain_7, 500)
CHAIN_LINK(chain_5, chain_6, 16)
CHAIN_LINK(chain_4, chain_5, 77)
CHAIN_LINK(chain_3, chain_4, 1000)
CHAIN_LINK(chain_2, chain_3, 3)
CHAIN_LINK(chain_1, chain_2, 120)

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    long sum = 0;

    if (truth.asked)
        printf(
            "contains chain_busy\n"
            "stack main;chain_1;chain_2;chain_3;chain_4;chain_5;chain_6;chain_7;chain_8;chain_9;chain_busy\n"
            "origin start\n");
    while (!truth.asked && truth_more(&truth))
        sum += chain_1(argc, sum);
    return sum == 1;
}
