/* exec_thread - a thread that is not the leader works, then executes this program anew (the process keeps its
 * number, the thread takes the leader's), which works as long again. */
#include <pthread.h>
#include <unistd.h>

#include "truth.h"

struct work {
    double seconds;
};

TRUTH_FUNCTION void before_exec_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION void after_exec_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION double exec_work(double seconds, void (*busy)(void))
{
    double began = truth_clock(CLOCK_THREAD_CPUTIME_ID), now = began;

    for (; now - began < seconds; now = truth_clock(CLOCK_THREAD_CPUTIME_ID))
        TRUTH_CALL(busy());
    return now - began;
}

TRUTH_FUNCTION void *exec_body(void *data)
{
    double used = exec_work(*(double *)data, before_exec_busy);
    char name[] = "exec_thread", flag[] = "--after", before[32], seconds[32];
    char *arguments[] = {name, flag, seconds, before, NULL};

    snprintf(seconds, sizeof seconds, "%.6f", *(double *)data);
    snprintf(before, sizeof before, "%.9f", used);
    execv("/proc/self/exe", arguments);
    return NULL;
}

int main(int argc, char **argv)
{
    struct truth truth;
    pthread_t thread;

    if (argc == 4 && strcmp(argv[1], "--after") == 0) {
        truth_share("before_exec_busy", atof(argv[3]));
        truth_share("after_exec_busy", exec_work(atof(argv[2]), after_exec_busy));
        truth_process(); /* of both: an exec does not reset it */
        return 0;
    }
    truth = truth_begin(argc, argv);
    if (truth.asked) {
        printf("contains before_exec_busy\nstack exec_body;exec_work;before_exec_busy\norigin thread\n"
               "contains after_exec_busy\nstack main;exec_work;after_exec_busy\norigin start\n");
        return 0;
    }
    if (pthread_create(&thread, NULL, exec_body, &truth.seconds) != 0)
        return 1;
    pthread_join(thread, NULL);
    return 1; /* only if the exec failed */
}
