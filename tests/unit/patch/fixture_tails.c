/* A library of functions that reach each other by pointers, mostly by tail jumps, and know who came from
 * whom: the truth for the marks of tail jumps. What to do next follows from `x` alone, so every run is the
 * same. */
#include <stdint.h>

#define NOINLINE __attribute__((noinline, noclone))

/* Who a call comes from. Functions 0 to 4 jump on, 5 and 6 call on, 7 only returns (tests leave it without a
 * hook), 8 is exported and reached through the linkage table, 9 jumps there. */
enum { TAILS_CALLS = 5, TAILS_QUIET = 7, TAILS_EXPORTED, TAILS_LINKED, TAILS_RUN, TAILS_MOST };

struct tails_truth {
    uint64_t from; /* set before each call or jump */
    uint64_t pairs[TAILS_MOST][TAILS_MOST];
};

typedef uint64_t function(struct tails_truth *truth, uint64_t x, uint64_t depth);
uint64_t tails_exported(struct tails_truth *truth, uint64_t x, uint64_t depth);
uint64_t tails_run(struct tails_truth *truth, uint64_t seed, uint64_t rounds);

static function *volatile const table[];
#define CHOICES 9

static inline void arrive(struct tails_truth *truth, unsigned at)
{
    truth->pairs[truth->from][at]++;
}

static inline uint64_t mix(uint64_t x, unsigned n)
{
    return (x ^ n) * 6364136223846793005u + 1442695040888963407u;
}

#define JUMPS(n)                                                                                             \
    NOINLINE static uint64_t jumps_##n(struct tails_truth *truth, uint64_t x, uint64_t depth)                \
    {                                                                                                        \
        arrive(truth, n);                                                                                    \
        if (depth == 0)                                                                                      \
            return x;                                                                                        \
        x = mix(x, n);                                                                                       \
        truth->from = n;                                                                                     \
        return table[(x >> 33) % CHOICES](truth, x, depth - 1);                                              \
    }
#define CALLS(n)                                                                                             \
    NOINLINE static uint64_t calls_##n(struct tails_truth *truth, uint64_t x, uint64_t depth)                \
    {                                                                                                        \
        arrive(truth, n);                                                                                    \
        if (depth == 0)                                                                                      \
            return x;                                                                                        \
        x = mix(x, n);                                                                                       \
        truth->from = n;                                                                                     \
        x = table[(x >> 33) % CHOICES](truth, x, depth - 1);                                                 \
        return x + n;                                                                                        \
    }

JUMPS(0)
JUMPS(1)
JUMPS(2)
JUMPS(3)
JUMPS(4)
CALLS(5)
CALLS(6)

NOINLINE static uint64_t quiet(struct tails_truth *truth, uint64_t x, uint64_t depth)
{
    arrive(truth, TAILS_QUIET);
    return x + depth;
}

NOINLINE uint64_t tails_exported(struct tails_truth *truth, uint64_t x, uint64_t depth)
{
    arrive(truth, TAILS_EXPORTED);
    return x ^ depth;
}

NOINLINE static uint64_t linked(struct tails_truth *truth, uint64_t x, uint64_t depth)
{
    arrive(truth, TAILS_LINKED);
    truth->from = TAILS_LINKED;
    return tails_exported(truth, x, depth);
}

static function *volatile const table[CHOICES] = {jumps_0, jumps_1, jumps_2, jumps_3, jumps_4,
                                                  calls_5, calls_6, quiet,   linked};

uint64_t tails_run(struct tails_truth *truth, uint64_t seed, uint64_t rounds)
{
    uint64_t x = seed;
    for (uint64_t i = 0; i < rounds; i++) {
        truth->from = TAILS_RUN;
        x = mix(x, TAILS_RUN);
        x ^= table[(x >> 33) % CHOICES](truth, x, x >> 60);
        if ((x & 3) == 0) {
            truth->from = TAILS_RUN;
            x += tails_exported(truth, x, i);
        }
    }
    return x;
}

/* Names for what the test finds by address. */
const void *const tails_functions[TAILS_MOST] = {jumps_0, jumps_1, jumps_2,        jumps_3, jumps_4,  calls_5,
                                                 calls_6, quiet,   tails_exported, linked,  tails_run};
