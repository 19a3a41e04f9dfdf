/* realign - frames that align their stack: a variable of 64 bytes' alignment, the same with alloca beside it
 * (the frame's address is then kept in memory), and one after the other. */
#include <alloca.h>

#include "truth.h"

TRUTH_FUNCTION void realign_busy(void *a, void *b)
{
    __asm__ volatile("" : : "r"(a), "r"(b) : "memory");
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION void realign_leaf(size_t bytes)
{
    _Alignas(128) char aligned[128];
    char *variable = alloca(bytes);

    TRUTH_CALL(realign_busy(aligned, variable));
}

TRUTH_FUNCTION void realign_stacked(long a, long b, long c, long d, long e, long f, long on_the_stack,
                                    size_t bytes)
{
    _Alignas(64) char aligned[64];

    __asm__ volatile("" : : "r"(aligned), "r"(a + b + c + d + e + f + on_the_stack) : "memory");
    TRUTH_CALL(realign_leaf(bytes));
}

TRUTH_FUNCTION void realign_alloca(size_t bytes)
{
    _Alignas(64) char aligned[64];
    char *variable = alloca(bytes);

    __asm__ volatile("" : : "r"(aligned), "r"(variable) : "memory");
    TRUTH_CALL(realign_stacked(1, 2, 3, 4, 5, 6, 7, bytes + 8));
}

TRUTH_FUNCTION void realign_plain(size_t bytes)
{
    _Alignas(64) char aligned[64];

    __asm__ volatile("" : : "r"(aligned) : "memory");
    TRUTH_CALL(realign_alloca(bytes));
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    size_t bytes = 1;

    if (truth.asked)
        printf("contains realign_busy\n"
               "stack main;realign_plain;realign_alloca;realign_stacked;realign_leaf;realign_busy\norigin "
               "start\n");
    for (; !truth.asked && truth_more(&truth); bytes = bytes * 7 % 501)
        TRUTH_CALL(realign_plain(bytes));
    return 0;
}
