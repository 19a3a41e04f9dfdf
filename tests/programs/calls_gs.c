/* calls_gs [ROUNDS] - a program with something of its own at gs, in two threads, that looks after every call
 * whether it is still there. */
#include <asm/prctl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "calls_truth.h"
#include "truth.h"

TRUTH_FUNCTION long gs_read(void)
{
    long value;

    __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
    return value;
}

TRUTH_FUNCTION long gs_leaf(long value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

TRUTH_FUNCTION void *gs_body(void *data)
{
    long mine[2048] = {0}, wrong = 0, rounds = *(long *)data;

    for (int i = 0; i < 2048; i++)
        mine[i] = 0x5a5a0000 + i;
    if (syscall(SYS_arch_prctl, ARCH_SET_GS, mine) != 0)
        return (void *)1;
    for (long i = 0; i < rounds; i++) {
        CALLS("gs_body", "gs_leaf", "direct", gs_leaf(i));
        wrong += CALLS("gs_body", "gs_read", "direct", gs_read()) != 0x5a5a0001;
    }
    for (int i = 0; i < 2048; i++)
        wrong += mine[i] != 0x5a5a0000 + i;
    return (void *)wrong;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 100000;
    pthread_t thread;
    void *wrong[2];

    calls_wait();
    CALLS_COUNT("*", "gs_body", "");
    if (pthread_create(&thread, NULL, gs_body, &rounds) != 0)
        return 1;
    wrong[0] = CALLS("main", "gs_body", "direct", gs_body(&rounds));
    pthread_join(thread, &wrong[1]);
    printf("wrong %ld %ld\n", (long)wrong[0], (long)wrong[1]);
    fflush(stdout);
    calls_print();
    return 0;
}
