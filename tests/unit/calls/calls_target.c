/* Calls a library's functions until it is asked to stop, and checks what they return. No sanitizer is in it:
 * such a program would not be followed.
 *
 *     calls_target LIBRARY DESCRIPTOR */
#include "calls_target.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

int main(int argument_count, char **arguments)
{
    if (argument_count < 3 || prctl(PR_SET_PDEATHSIG, SIGKILL))
        return 2;
    void *library = dlopen(arguments[1], RTLD_NOW);
    struct calls_target *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(arguments[2]), 0);
    if (!library || shared == MAP_FAILED)
        return 2;
    uint64_t (*run)(uint64_t) = (uint64_t(*)(uint64_t))(uintptr_t)dlsym(library, "fixture_run");
    shared->run = (uint64_t)(uintptr_t)run;
    uint64_t expected = run(20);
    while (!atomic_load(&shared->stop)) {
        if (run(20) != expected)
            atomic_fetch_add(&shared->wrong, 1);
        atomic_fetch_add(&shared->rounds, 1);
    }
    return 0;
}
