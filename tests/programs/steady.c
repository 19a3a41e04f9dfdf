/* steady [LINES] [MILLISECONDS] - writes numbered lines, each after so much CPU time of work: what it writes
 * and its status must be the same whatever happens to its profiler. The status is 42. */
#include "truth.h"

TRUTH_FUNCTION void steady_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK / 4);
}

TRUTH_FUNCTION void steady_step(double seconds)
{
    double end = truth_clock(CLOCK_THREAD_CPUTIME_ID) + seconds;

    while (truth_clock(CLOCK_THREAD_CPUTIME_ID) < end)
        TRUTH_CALL(steady_busy());
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    long lines = truth_number(&truth, 0, 100), milliseconds = truth_number(&truth, 1, 10);

    if (truth.asked) {
        printf("contains steady_busy\nstack main;steady_step;steady_busy\norigin start\n");
        return 0;
    }
    for (long i = 0; i < lines; i++) {
        TRUTH_CALL(steady_step((double)milliseconds * 1e-3));
        printf("line %ld\n", i);
        fflush(stdout);
    }
    return 42;
}
