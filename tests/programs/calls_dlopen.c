/* calls_dlopen PLUGIN_A PLUGIN_B [ROUNDS] - loads, calls and unloads two libraries in turn, which land at the
 * same address. Their constructors and destructors call counted functions. Each library prints its own truth
 * before it goes. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "calls_truth.h"
#include "truth.h"

TRUTH_FUNCTION int dlopen_back(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

TRUTH_FUNCTION int dlopen_drive(int (*run)(int, int (*)(int)), int rounds)
{
    return 1 + run(rounds, dlopen_back);
}

TRUTH_FUNCTION void *dlopen_use(const char *path, int rounds)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*run)(int, int (*)(int));

    if (library == NULL) {
        fprintf(stderr, "calls_dlopen: %s\n", dlerror());
        exit(1);
    }
    *(void **)&run = dlsym(library, "calls_plugin_run");
    CALLS("dlopen_use", "dlopen_drive", "direct", dlopen_drive(run, rounds));
    dlclose(library);
    return (void *)(uintptr_t)run;
}

int main(int argc, char **argv)
{
    int rounds = argc > 3 ? atoi(argv[3]) : 5, reused = 0;
    void *places[2];

    if (argc < 3)
        return 2;
    calls_wait();
    for (int i = 0; i < rounds; i++) {
        for (int which = 0; which < 2; which++)
            places[which] = CALLS("main", "dlopen_use", "direct", dlopen_use(argv[1 + which], 100 + i));
        reused += places[0] == places[1];
    }
    printf("reused %d of %d\n", reused, rounds);
    fflush(stdout);
    calls_print();
    return 0;
}
