/* Its hot text goes to anonymous memory at the same address while it runs, by mremap (1) or by a new mapping that is filled (2), as
 * runtimes do that want huge pages. Built with .hot_text in a segment of its own. With `before` or `after` it forks a child before or after
 * that, which goes on as it does, and says at the end how that ended. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOT __attribute__((noinline, section(".hot_text"), aligned(64)))
static volatile uint64_t sink = 1;

HOT void *leaf_fn(void)
{
    for (int i = 0; i < 1000; i++)
        sink = sink * 3 + 1;
    return malloc(16);
}

HOT void step_fn(void)
{
    free(leaf_fn());
}

__attribute__((noinline)) static void remap(char *from, size_t size, int how)
{
    char *copy = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(copy, from, size);
    if (how == 1) {
        mprotect(copy, size, PROT_READ | PROT_EXEC);
        mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, from);
        return;
    }
    mmap(from, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memcpy(from, copy, size);
    mprotect(from, size, PROT_READ | PROT_EXEC);
}

enum { FORK_BEFORE = 400, MOVE = 600, FORK_AFTER = 800 }; /* milliseconds after the beginning */

/* Milliseconds since the first call. */
static long passed(void)
{
    static struct timespec begun;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (begun.tv_sec == 0)
        begun = now;
    return (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000;
}

int main(int count, char **arguments)
{
    int how = count > 1 ? atoi(arguments[1]) : 0, done = 0, status = -1;
    long fork_at = count > 2 ? (strcmp(arguments[2], "before") == 0 ? FORK_BEFORE : FORK_AFTER) : 1000000;
    pid_t child = -1;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    passed();
    puts("begun");
    fflush(stdout);
    do {
        step_fn();
        if (child < 0 && passed() > fork_at)
            child = fork();
        if (!done && passed() > MOVE) {
            remap((char *)((uintptr_t)&leaf_fn & ~(uintptr_t)4095), 4096, how);
            done = 1;
        }
    } while (poll(&input, 1, 1) == 0);
    if (child == 0)
        _exit(!done);
    puts(done ? "moved" : "not moved");
    if (child > 0 && waitpid(child, &status, 0) == child)
        printf("child %d\n", status);
    return 0;
}
