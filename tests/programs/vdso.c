/* vdso - reads the time in a loop, which happens in the vDSO. */
#include "truth.h"

TRUTH_FUNCTION void vdso_driver(void)
{
    struct timespec now;

    for (int i = 0; i < 20000; i++)
        clock_gettime(CLOCK_MONOTONIC, &now);
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);

    if (truth.asked)
        printf("contains vdso_driver\nstack main;vdso_driver\nstack main;vdso_driver;*\nstack "
               "main;vdso_driver;*;*\n"
               "stack main;vdso_driver;*;*;*\norigin start\n");
    while (!truth.asked && truth_more(&truth))
        TRUTH_CALL(vdso_driver());
    return 0;
}
