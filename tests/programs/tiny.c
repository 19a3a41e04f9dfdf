/* tiny - functions that are little but prologue and epilogue: many samples land between two changes of the
 * frame. */
#include "truth.h"

/* A division, so that on every processor some samples land here: an interrupt that is due is often taken where the
 * processor waits, and little else here makes it wait. */
TRUTH_FUNCTION long tiny_leaf(long a, long b)
{
    __asm__ volatile("" : "+r"(a));
    return a / (b | 1) + b;
}

/* Each keeps four values over its call, so it saves and restores four registers. */
#define TINY(name, next)                                                                                     \
    TRUTH_FUNCTION long name(long a, long b)                                                                 \
    {                                                                                                        \
        long c = a ^ b, d = a & b, result;                                                                   \
        __asm__ volatile("" : "+r"(c), "+r"(d));                                                             \
        result = next(a, b);                                                                                 \
        return result + a + b + c + d;                                                                       \
    }

TINY(tiny_3, tiny_leaf)
TINY(tiny_2, tiny_3)
TINY(tiny_1, tiny_2)

TRUTH_FUNCTION long tiny_drive(long value)
{
    for (int i = 0; i < 20000; i++)
        value += tiny_1(value, i);
    return value;
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    long value = argc;

    if (truth.asked)
        printf("contains tiny_drive\nstack main;tiny_drive\nstack main;tiny_drive;tiny_1\n"
               "stack main;tiny_drive;tiny_1;tiny_2\nstack main;tiny_drive;tiny_1;tiny_2;tiny_3\n"
               "stack main;tiny_drive;tiny_1;tiny_2;tiny_3;tiny_leaf\norigin start\n"
               "contains tiny_leaf\nstack main;tiny_drive;tiny_1;tiny_2;tiny_3;tiny_leaf\norigin start\n");
    while (!truth.asked && truth_more(&truth))
        value = tiny_drive(value);
    return value == 1;
}
