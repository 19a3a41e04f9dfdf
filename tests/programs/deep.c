/* deep [KILOBYTES] - busy below frames of 1 KB each that sum up to so many (24): more than a small copy of
 * the stack holds. */
#include "truth.h"

TRUTH_FUNCTION void deep_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION void deep_frame(long left)
{
    char room[1000];

    __asm__ volatile("" : : "r"(room) : "memory");
    if (left > 1)
        TRUTH_CALL(deep_frame(left - 1));
    else
        TRUTH_CALL(deep_busy());
    __asm__ volatile("" : : "r"(room) : "memory");
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    long kilobytes = truth_number(&truth, 0, 24);

    if (truth.asked)
        printf("contains deep_busy\nstack main;deep_frame{%ld};deep_busy\norigin start\n", kilobytes);
    while (!truth.asked && truth_more(&truth))
        TRUTH_CALL(deep_frame(kilobytes));
    return 0;
}
