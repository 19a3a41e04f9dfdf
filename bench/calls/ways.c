/* ways [THREADED] - what one call costs, for each way in which a function may be called: nanoseconds, the
 * least of many short loops, which a busy machine does not disturb. With an argument a second thread waits
 * meanwhile. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 5000, LOOPS = 4000 };

#define APART __attribute__((noipa, aligned(64)))

static volatile unsigned long kept;

/* Only called by name. */
APART static unsigned long plain(unsigned long value)
{
    return value * 3 + 1;
}

/* Called by name, and by address. */
APART static unsigned long taken(unsigned long value)
{
    return value * 3 + 1;
}

APART static unsigned long passes_on(unsigned long value)
{
    return plain(value + 1);
}

static unsigned long (*volatile pointer)(unsigned long) = taken;

#define LOOP(name, call)                                                                                     \
    APART static void name(void)                                                                             \
    {                                                                                                        \
        unsigned long (*by_address)(unsigned long) = pointer;                                                \
        unsigned long value = 1;                                                                             \
        for (int i = 0; i < CALLS; i++)                                                                      \
            value = call(value);                                                                             \
        kept = value + (by_address != NULL);                                                                 \
    }
LOOP(by_name, plain)
LOOP(by_name_and_jump, passes_on)
LOOP(by_name_of_taken, taken)
LOOP(by_address_first, by_address)
LOOP(by_address_later, by_address)

static double least(void (*loop)(void))
{
    double best = 1e9;
    for (int i = 0; i < LOOPS; i++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        loop();
        clock_gettime(CLOCK_MONOTONIC, &to);
        double each = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / CALLS;
        best = each < best ? each : best;
    }
    return best;
}

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*loop)(void);
    } ways[] = {
        {"by name", by_name},
        {"by name, then a jump to another function", by_name_and_jump},
        {"by name, of a function that is called by address too", by_name_of_taken},
        {"by address, from where it was first called", by_address_first},
        {"by address, from elsewhere", by_address_later},
    };
    pthread_t thread;
    (void)argv;
    if (argc > 1 && pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
        return 1;
    by_address_first();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        printf("%s\t%.3f\n", ways[i].name, least(ways[i].loop));
    return 0;
}
