/* What fixture.c inlines, three deep. */
#ifndef FIXTURE_INLINED_H
#define FIXTURE_INLINED_H

static volatile int fixture_state;

static inline __attribute__((always_inline)) int inlined_leaf(int value)
{
    fixture_state += value;
    return value * fixture_state;
}

static inline __attribute__((always_inline)) int inlined_middle(int value)
{
    int sum = inlined_leaf(value);
    while (sum > 1000)
        sum -= inlined_leaf(sum);
    return sum;
}

static inline __attribute__((always_inline)) int inlined_outer(int value)
{
    return inlined_middle(value + 1) + inlined_leaf(value + 2);
}

#endif
