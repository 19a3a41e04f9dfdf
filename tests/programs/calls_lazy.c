/* calls_lazy [MILLISECONDS] - calls an indirect function of libc's through a slot that is bound by the first
 * call, computes for a while, and ends. */
#include <string.h>
#include <time.h>

#include "calls_truth.h"
#include "truth.h"

TRUTH_FUNCTION int lazy_compare(const char *left, const char *right)
{
    int sum = 0;
    for (int i = 0; i < 1000; i++) {
        __asm__ volatile("" : "+r"(left), "+r"(right));
        sum += memcmp(left, right, strlen(right)) != 0;
    }
    return sum;
}

static long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int count, char **arguments)
{
    long end = milliseconds() + (count > 1 ? strtol(arguments[1], NULL, 10) : 0);
    int sum = lazy_compare(arguments[0], "calls");
    while (milliseconds() < end)
        ;
    return sum != 1000;
}
