/* ending WAY [NUMBER] - works for a while and ends in the way that is named:
 *   exit N, _exit N, abort, signal N (raised, default action), kill (SIGKILL itself), segv,
 *   handles-int (until SIGINT comes; then says so and exits 5), ignores-int (works through it, exits 6),
 *   quiet N (exits N without having worked). */
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include "truth.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    interrupted = number;
}

TRUTH_FUNCTION void ending_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

static void work(const struct truth *truth)
{
    while (truth_more(truth))
        TRUTH_CALL(ending_busy());
}

static int until_interrupted(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};

    sigaction(SIGINT, &action, NULL);
    puts("waiting");
    fflush(stdout);
    while (!interrupted)
        TRUTH_CALL(ending_busy());
    puts("interrupted");
    return 5;
}

static int through_interrupt(const struct truth *truth)
{
    signal(SIGINT, SIG_IGN);
    puts("waiting");
    fflush(stdout);
    work(truth);
    puts("finished");
    return 6;
}

static int end(const struct truth *truth, const char *way, int number)
{
    struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none); /* nobody wants a core file of a test */
    if (strcmp(way, "handles-int") == 0)
        return until_interrupted();
    if (strcmp(way, "ignores-int") == 0)
        return through_interrupt(truth);
    if (strcmp(way, "quiet") == 0)
        return number;
    work(truth);
    if (strcmp(way, "exit") == 0)
        exit(number);
    if (strcmp(way, "_exit") == 0)
        _exit(number);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "signal") == 0)
        raise(number);
    if (strcmp(way, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(way, "segv") == 0)
        *(volatile int *)(uintptr_t)number = 1;
    return 99;
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);

    if (truth.argument_count < 1)
        return 98;
    return end(&truth, truth.arguments[0], (int)truth_number(&truth, 1, 0));
}
