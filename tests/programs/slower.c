/* slower [TURNS] [PERCENT] - the same work every time: TURNS turns, each through functions of about 40, 25,
 * 15, 10, 5, 3 and 2 % of the time; slower_work, the first, is given PERCENT more of it. Turns are short, so
 * that a machine that changes its pace changes it for most alike: where a neighbour on the same core takes
 * part of its caches, each loop is slowed down by its own factor. Which part of all cycles each function really
 * took is printed at the end ("part FUNCTION P"). */
#include "truth.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define SLOWER_ROUNDS 1000ul

enum { SLOWER_PARTS = 7 };

#define SLOWER_FUNCTION TRUTH_FUNCTION __attribute__((aligned(64)))

/* Cheap, and no function that would be sampled or counted beside the seven. */
static inline unsigned long long slower_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    unsigned long long ticks;

    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
#error "which register counts time here?"
#endif
}

#define SLOWER_CALL(ticks, call)                                                                             \
    do {                                                                                                     \
        unsigned long long began_ = slower_ticks();                                                          \
        TRUTH_CALL(call);                                                                                    \
        *(ticks) += slower_ticks() - began_;                                                                 \
    } while (0)

SLOWER_FUNCTION void slower_work(unsigned long rounds)
{
    TRUTH_WORK(rounds);
}

SLOWER_FUNCTION void slower_25(void)
{
    TRUTH_WORK(25 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_15(void)
{
    TRUTH_WORK(15 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_10(void)
{
    TRUTH_WORK(10 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_05(void)
{
    TRUTH_WORK(5 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_03(void)
{
    TRUTH_WORK(3 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_02(void)
{
    TRUTH_WORK(2 * SLOWER_ROUNDS);
}

SLOWER_FUNCTION void slower_turn(unsigned long rounds, unsigned long long *ticks)
{
    SLOWER_CALL(&ticks[0], slower_work(rounds));
    SLOWER_CALL(&ticks[1], slower_25());
    SLOWER_CALL(&ticks[2], slower_15());
    SLOWER_CALL(&ticks[3], slower_10());
    SLOWER_CALL(&ticks[4], slower_05());
    SLOWER_CALL(&ticks[5], slower_03());
    SLOWER_CALL(&ticks[6], slower_02());
}

static void print_parts(const unsigned long long *ticks)
{
    static const char *const names[SLOWER_PARTS] = {"work", "25", "15", "10", "05", "03", "02"};
    unsigned long long sum = 0;

    for (int i = 0; i < SLOWER_PARTS; i++)
        sum += ticks[i];
    for (int i = 0; i < SLOWER_PARTS; i++)
        printf("part slower_%s %.5f\n", names[i], (double)ticks[i] / (double)sum);
}

int main(int argc, char **argv)
{
    unsigned long long ticks[SLOWER_PARTS] = {0};
    struct truth truth = truth_begin(argc, argv);
    long turns = truth_number(&truth, 0, 10000), percent = truth_number(&truth, 1, 0);

    if (truth.asked) {
        printf("contains slower_work\nstack main;slower_turn;slower_work\norigin start\n");
        return 0;
    }
    for (long i = 0; i < turns; i++)
        TRUTH_CALL(slower_turn(40 * SLOWER_ROUNDS * (unsigned long)(100 + percent) / 100, ticks));
    printf("calls slower_work %ld\n", turns);
    print_parts(ticks);
    truth_process();
    return 0;
}
