/* late_gs OBJECT - two threads that call functions, one of which loads an object that has memory of its own at gs, as WebAssembly that was
 * compiled ahead of time (RLBox) does; says whether gs stayed the object's. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static volatile int over;
static volatile long sum;

__attribute__((noinline)) static long leaf(long value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

static void *thread_work(void *argument)
{
    while (!over)
        sum = leaf(sum);
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc < 2 || pthread_create(&thread, NULL, thread_work, NULL))
        return 9;
    long mine = 0;
    for (int i = 0; i < 1000; i++)
        mine = leaf(mine);
    void *object = dlopen(argv[1], RTLD_NOW);
    long (*work)(long (*)(long), long) =
        object ? (long (*)(long (*)(long), long))dlsym(object, "late_gs_work") : NULL;
    if (!work)
        return 8;
    printf("wrong %ld\n", work(leaf, 20000));
    over = 1;
    pthread_join(thread, NULL);
    printf("calls %ld\n", mine);
    return 4;
}
