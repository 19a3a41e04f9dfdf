/* bench_instrumented - a program that tells of its functions, and knows what an enter and exit of one took
 * it.
 *
 *   bench_instrumented leaf|tree|ways|first [CALLS]
 *
 * leaf: one function from a loop; tree: Fibonacci's recursion, 25 deep; ways: down 64 ways of six functions
 * each; first: as leaf, from functions that are not instrumented, so that each call begins a path. Prints the
 * ns of CPU time that a call of an instrumented function took, with its work. Built with
 * -finstrument-functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AWAY  __attribute__((noinline, noclone))
#define PLAIN __attribute__((no_instrument_function))

static unsigned long calls;

static AWAY long leaf(long a)
{
    __asm__ volatile("" : "+r"(a));
    return a + 1;
}

static AWAY long tree(long n)
{
    return n < 2 ? n : tree(n - 1) + tree(n - 2);
}

static AWAY void left(unsigned way, unsigned levels);
static AWAY void right(unsigned way, unsigned levels)
{
    if (levels > 0)
        (way & 1 ? right : left)(way >> 1, levels - 1);
    __asm__ volatile("");
}

static AWAY void left(unsigned way, unsigned levels)
{
    if (levels > 0)
        (way & 1 ? right : left)(way >> 1, levels - 1);
    __asm__ volatile("" ::: "memory");
}

/* How many calls of instrumented functions there were. */
PLAIN static unsigned long run(const char *kind)
{
    unsigned long done = 0;
    long sum = 0;
    if (!strcmp(kind, "tree")) {
        for (; done < calls; done += 242785) /* of tree(25) */
            sum += tree(25);
    } else if (!strcmp(kind, "ways")) {
        for (unsigned way = 0; done < calls; way += 37, done += 7)
            left(way, 6);
    } else {
        for (; done < calls; done++)
            sum = leaf(sum);
    }
    __asm__ volatile("" : : "r"(sum));
    return done;
}

static AWAY unsigned long run_inside(const char *kind)
{
    unsigned long done = run(kind);
    __asm__ volatile("");
    return done;
}

PLAIN static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

PLAIN int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "leaf";
    unsigned long wanted = argc > 2 ? strtoul(argv[2], NULL, 10) : 5000000;
    unsigned long (*const way)(const char *) = strcmp(kind, "first") ? run_inside : run;
    calls = wanted / 20 + 1;
    way(kind);
    calls = wanted;
    double before = cpu_ns();
    unsigned long done = way(kind);
    printf("%.3f\n", (cpu_ns() - before) / (double)done);
    return 0;
}
