/* calls_part [ROUNDS] - functions that a compiler cuts in two: a beginning that is inlined into its callers,
 * and a rest (NAME.part.0) that these call or jump to; and a leaf whose seldom half (NAME.cold) is another
 * function's in no sense.
 *
 * The truth is that of a build in which `part_work` was cut; another build calls the same function whole or
 * not at all. */
#include <stdlib.h>

#include "calls_truth.h"

struct cell {
    struct cell *next;
    long value;
};

static long seen;

CALLS_FUNCTION static long part_deep(struct cell *cell, long value)
{
    __asm__ volatile("" : : "r"(cell) : "memory");
    return value * 7 + cell->value;
}

/* Small numbers come back at once; all that follows is too much to inline. */
static long part_work(struct cell *cell, long value)
{
    if (value < 3)
        return value;
    for (struct cell *at = cell; at != NULL; at = at->next) {
        seen += part_deep(at, value);
        seen ^= part_deep(at, value + 1);
        if (at->value % 5 == 1)
            seen += part_deep(at, seen & 15) * 3;
        else if (at->value % 5 == 2)
            seen -= part_deep(at, seen & 7) / 2;
    }
    seen += part_deep(cell, seen & 3);
    return seen;
}

CALLS_FUNCTION static long part_jumps(struct cell *cell, long value)
{
    CALLS_COUNT_MANY("part_jumps", "part_work", "tail", value >= 3);
    return part_work(cell, value);
}

CALLS_FUNCTION static long part_jumps_too(struct cell *cell, long value)
{
    CALLS_COUNT_MANY("part_jumps_too", "part_work", "tail", value + 1 >= 3);
    return part_work(cell, value + 1);
}

CALLS_FUNCTION static long part_calls(struct cell *cell, long value)
{
    CALLS_COUNT_MANY("part_calls", "part_work", "direct", value >= 3);
    return 1 + part_work(cell, value);
}

/* A leaf that keeps a value below its stack pointer, and whose flags decide in the seldom half. */
CALLS_FUNCTION static long part_leaf(long a, long b)
{
    volatile long red[4] = {a, b, a ^ b, a + b};

    if (__builtin_expect(a < 0, 0)) {
        red[1] = red[0] * 3 - red[2];
        red[2] = red[1] % 7 + red[3];
    }
    return red[0] + red[1] + red[2] + red[3];
}

CALLS_FUNCTION static long drive(struct cell *cells, int rounds)
{
    long sum = 0;

    for (int i = 0; i < rounds; i++) {
        sum += CALLS("drive", "part_jumps", "direct", part_jumps(cells, i % 7));
        sum ^= CALLS("drive", "part_jumps_too", "direct", part_jumps_too(cells, i % 5));
        sum -= CALLS("drive", "part_calls", "direct", part_calls(cells, i % 6));
        sum += CALLS("drive", "part_leaf", "direct", part_leaf(i % 1000 == 999 ? -i : i, sum));
    }
    return sum;
}

int main(int argc, char **argv)
{
    static struct cell cells[3] = {{&cells[1], 1}, {&cells[2], 2}, {NULL, 3}};

    printf("%ld\n", drive(cells, argc > 1 ? atoi(argv[1]) : 1000));
    printf("%ld\n", seen);
    fflush(stdout);
    calls_print();
    return 0;
}
