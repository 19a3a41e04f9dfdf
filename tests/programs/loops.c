/* loops - hot lines and nests of loops with known shares of the CPU time, worked in small chunks in random
 * order, each chunk timed by the thread's CPU clock. What was measured is the truth it prints: `share NAME
 * SECONDS`, where NAME also stands in a comment at the end of the line that the time is spent in. */
#include <stdint.h>

#include "truth.h"

#define LOOPS_CHUNK    40000ul /* rounds: about 10 us, well below a sampling interval */
#define LOOPS_FUNCTION TRUTH_FUNCTION __attribute__((aligned(64)))

/* Work as TRUTH_WORK, marked, so that no two places of it are one to the compiler. */
#define LOOPS_WORK(mark, rounds)                                                                             \
    for (unsigned long round_ = 0; round_ < (rounds); round_++)                                              \
    __asm__ volatile("# " mark : "+r"(round_))

LOOPS_FUNCTION void lines(unsigned kind)
{
    if (kind == 0)
        LOOPS_WORK("a", LOOPS_CHUNK); /* line_a */
    else if (kind == 1)
        LOOPS_WORK("b", LOOPS_CHUNK); /* line_b */
    else
        LOOPS_WORK("c", LOOPS_CHUNK); /* line_c */
}

LOOPS_FUNCTION void nest(unsigned long inner, unsigned long beside)
{
    for (unsigned i = 0; i < 2; i++) { /* nest_outer */
        __asm__ volatile("# outer" : "+r"(i));
        for (unsigned j = 0; j < 2; j++) { /* nest_middle */
            __asm__ volatile("# middle" : "+r"(j));
            LOOPS_WORK("inner", inner); /* nest_inner */
            __asm__ volatile("# middle's end" : "+r"(j));
        }
        LOOPS_WORK("beside", beside); /* nest_beside */
        __asm__ volatile("# outer's end" : "+r"(i));
    }
}

LOOPS_FUNCTION void leaf(void)
{
    LOOPS_WORK("leaf", LOOPS_CHUNK / 8); /* leaf */
}

LOOPS_FUNCTION void caller(void)
{
    for (unsigned i = 0; i < 8; i++) { /* caller_loop */
        __asm__ volatile("" : "+r"(i));
        TRUTH_CALL(leaf()); /* caller_call */
    }
}

static inline __attribute__((always_inline)) void inlined(unsigned long rounds)
{
    LOOPS_WORK("inlined", rounds); /* inlined */
}

LOOPS_FUNCTION void host(void)
{
    inlined(LOOPS_CHUNK); /* host_call */
}

enum { KINDS = 7 };

static const char *const names[KINDS] = {"line_a",      "line_b", "line_c", "nest_inner",
                                         "nest_beside", "leaf",   "inlined"};

static void work(int kind)
{
    if (kind < 3)
        TRUTH_CALL(lines((unsigned)kind));
    else if (kind == 3)
        TRUTH_CALL(nest(LOOPS_CHUNK / 4, 0));
    else if (kind == 4)
        TRUTH_CALL(nest(0, LOOPS_CHUNK / 2));
    else if (kind == 5)
        TRUTH_CALL(caller());
    else
        TRUTH_CALL(host());
}

/* Of 100: 5, 10, 20, 25, 10, 15, 15. */
static int draw(uint64_t *state)
{
    static const unsigned below[KINDS] = {5, 15, 35, 60, 70, 85, 100};
    unsigned number;
    int kind = 0;

    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    number = (unsigned)(*state >> 33) % 100;
    while (number >= below[kind])
        kind++;
    return kind;
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    uint64_t state = 88172645463325252u;
    double seconds[KINDS] = {0}, now = truth.started, last;

    if (truth.asked)
        return 0;
    while (now - truth.started < truth.seconds) {
        int kind = draw(&state);
        for (int i = 0; i < 5; i++)
            work(kind);
        last = now;
        now = truth_clock(CLOCK_THREAD_CPUTIME_ID);
        seconds[kind] += now - last;
    }
    for (int i = 0; i < KINDS; i++)
        truth_share(names[i], seconds[i]);
    truth_process();
    return 0;
}
