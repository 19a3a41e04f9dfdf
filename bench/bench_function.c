/* bench_function - a program that calls one function again and again, and knows what a call took it.
 *
 *   bench_function place|ways|busy [CALLS]
 *
 * Below a stack of nine frames: place, from one place; ways, each time down another of 64 ways through six
 * more frames; busy, as place, with so much work between calls that there are about ten million a second.
 * Prints the ns of CPU time that a call took, with the work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AWAY __attribute__((noinline, noclone))

static unsigned long state = 1;
static unsigned work;

AWAY long timed_add(long a, long b);
AWAY long timed_add(long a, long b)
{
    __asm__ volatile("");
    return a + b;
}

static unsigned long draw(void)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return state >> 33;
}

static AWAY void call(unsigned way)
{
    for (unsigned i = 0; i < work; i++)
        __asm__ volatile("");
    state += (unsigned long)timed_add((long)state, way);
}

static AWAY void left(unsigned way, unsigned levels);
static AWAY void right(unsigned way, unsigned levels)
{
    if (levels == 0)
        call(way);
    else if (way >> levels & 1)
        right(way, levels - 1);
    else
        left(way, levels - 1);
    __asm__ volatile("");
}

static AWAY void left(unsigned way, unsigned levels)
{
    if (levels == 0)
        call(way + 1);
    else if (way >> levels & 1)
        right(way, levels - 1);
    else
        left(way, levels - 1);
    __asm__ volatile("" ::: "memory");
}

static AWAY void run(unsigned long calls, int many_ways)
{
    for (unsigned long i = 0; i < calls; i++)
        if (many_ways)
            left((unsigned)draw(), 6);
        else
            call(21);
}

static AWAY void down(unsigned depth, unsigned long calls, int many_ways)
{
    if (depth == 0)
        run(calls, many_ways);
    else
        down(depth - 1, calls, many_ways);
    __asm__ volatile("");
}

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    unsigned long calls = argc > 2 ? strtoul(argv[2], NULL, 10) : 5000000;
    int many_ways = argc > 1 && !strcmp(argv[1], "ways");
    if (argc > 1 && !strcmp(argv[1], "busy"))
        work = 250;
    down(5, calls / 20 + 1, many_ways);
    double before = cpu_ns();
    down(5, calls, many_ways);
    printf("%.3f\n", (cpu_ns() - before) / (double)calls);
    return 0;
}
