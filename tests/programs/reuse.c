/* reuse PLUGIN_A PLUGIN_B [ROUNDS] - loads, runs and unloads two libraries in turn, a third of the work in
 * the first. Both land at the same address (said in the truth's `reused` line), so a sample is named rightly
 * only by who follows each mapping. */
#include <dlfcn.h>
#include <stdint.h>

#include "truth.h"

TRUTH_FUNCTION void reuse_drive(void (*run)(unsigned long), unsigned long rounds)
{
    TRUTH_CALL(run(rounds));
}

/* Seconds of CPU time that the plugin ran, or -1. */
TRUTH_FUNCTION double reuse_use(const char *path, unsigned long rounds, uintptr_t *address)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*run)(unsigned long);
    double began;

    if (library == NULL)
        return -1;
    *(void **)&run = dlsym(library, "plugin_run");
    if (run == NULL)
        return -1;
    *address = (uintptr_t)run;
    began = truth_clock(CLOCK_THREAD_CPUTIME_ID);
    TRUTH_CALL(reuse_drive(run, rounds));
    began = truth_clock(CLOCK_THREAD_CPUTIME_ID) - began;
    dlclose(library);
    return began;
}

static void print_truth(void)
{
    printf("contains plugin_a_busy\nstack "
           "main;reuse_use;reuse_drive;plugin_run;plugin_a_entry;plugin_a_busy\norigin "
           "start\n"
           "contains plugin_b_busy\nstack "
           "main;reuse_use;reuse_drive;plugin_run;plugin_b_entry;plugin_b_busy\norigin "
           "start\n"
           "contains reuse_drive\nstack main;reuse_use;reuse_drive;**\norigin start\n");
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    unsigned long rounds = (unsigned long)truth_number(&truth, 2, (long)(20 * TRUTH_CHUNK));
    double seconds[2] = {0, 0}, once;
    uintptr_t address[2] = {0, 1};
    int turns = 0, reused = 0;

    if (truth.asked) {
        print_truth();
        return 0;
    }
    if (truth.argument_count < 2)
        return 2;
    for (; truth_more(&truth); turns++) {
        for (int i = 0; i < 2; i++) {
            once = reuse_use(truth.arguments[i], rounds * (i == 0 ? 1 : 2), &address[i]);
            if (once < 0) {
                fprintf(stderr, "reuse: %s\n", dlerror());
                return 1;
            }
            seconds[i] += once;
        }
        reused += address[0] == address[1];
    }
    printf("reused %d of %d\n", reused, turns);
    truth_share("plugin_a_busy", seconds[0]);
    truth_share("plugin_b_busy", seconds[1]);
    truth_process();
    return 0;
}
