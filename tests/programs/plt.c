/* plt - nothing but calls of an empty function of a library, so that samples land in the PLT stub. */
#include "truth.h"

long plt_callee(long value);

TRUTH_FUNCTION long plt_driver(long value)
{
    for (unsigned long i = 0; i < TRUTH_CHUNK; i++) {
        value = plt_callee(value);
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    long value = argc;

    if (truth.asked)
        printf("contains plt_driver\nstack main;plt_driver\nstack main;plt_driver;*\norigin start\n");
    while (!truth.asked && truth_more(&truth))
        value = plt_driver(value);
    return value == -1;
}
