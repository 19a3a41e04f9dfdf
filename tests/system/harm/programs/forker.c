/* Makes a child at each SIGUSR1, which works as its parent does, and says its number. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void ask(int signal)
{
    (void)signal;
    asked = 1;
}
__attribute__((noinline)) long leaf_fn(long value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}
__attribute__((noinline)) long work_fn(long count)
{
    long sum = 0;
    for (long i = 0; i < count; i++)
        sum = leaf_fn(sum);
    return sum;
}
int main(void)
{
    signal(SIGUSR1, ask);
    puts("begun");
    fflush(stdout);
    for (;;) {
        work_fn(10000);
        usleep(1000);
        if (!asked)
            continue;
        asked = 0;
        pid_t child = fork();
        if (child > 0) {
            printf("%d\n", (int)child);
            fflush(stdout);
        }
    }
}
