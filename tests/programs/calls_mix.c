/* calls_mix [ROUNDS] - calls as compilers make them, built at every level and in every way
 * (tests/system/test_calls_builds.py).
 *
 * Nothing is inlined, but functions may be cloned, split into hot and cold parts, end by jumps, and keep
 * values in registers that their callees do not use. Functions that have no `static` are seen by the
 * linker. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "calls_truth.h"

static volatile int zero;

CALLS_FUNCTION static int mix_leaf(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

CALLS_FUNCTION static double mix_floating(double value, double other)
{
    __asm__ volatile("" : "+x"(value));
    return value * 1.5 + other;
}

CALLS_FUNCTION static int mix_fibonacci(int n)
{
    int left, right;

    if (n < 2)
        return n;
    left = CALLS("mix_fibonacci", "mix_fibonacci", "", mix_fibonacci(n - 1));
    right = CALLS("mix_fibonacci", "mix_fibonacci", "", mix_fibonacci(n - 2));
    __asm__ volatile("" : "+r"(right)); /* else the compiler makes a loop of the second call */
    return left + right;
}

CALLS_FUNCTION static int mix_odd(int n);

CALLS_FUNCTION static int mix_even(int n)
{
    __asm__ volatile("" : "+r"(n));
    return n == 0 ? 1 : CALLS("mix_even", "mix_odd", "", mix_odd(n - 1));
}

CALLS_FUNCTION static int mix_odd(int n)
{
    __asm__ volatile("" : "+r"(n));
    return n == 0 ? 2 : CALLS("mix_odd", "mix_even", "", mix_even(n - 1));
}

CALLS_FUNCTION __attribute__((cold)) static int mix_rare(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value - 7;
}

/* What is unlikely goes to another section. */
CALLS_FUNCTION static int mix_hot(int value)
{
    int sum = 0;

    for (int i = 0; i < 4; i++) {
        sum += CALLS("mix_hot", "mix_leaf", "", mix_leaf(value + i));
        if (__builtin_expect(value % 1024 == 1023, 0)) {
            sum += CALLS("mix_hot", "mix_rare", "", mix_rare(sum));
            sum += CALLS("mix_hot", "mix_leaf", "", mix_leaf(sum));
        }
    }
    return sum;
}

struct mix_large {
    long values[9];
};

CALLS_FUNCTION static struct mix_large mix_structure(struct mix_large large, int index)
{
    large.values[index % 9] += index;
    __asm__ volatile("" : "+m"(large));
    return large;
}

CALLS_FUNCTION static int mix_variable(int count, ...)
{
    va_list arguments;
    int sum = 0;

    va_start(arguments, count);
    for (int i = 0; i < count; i++)
        sum += CALLS("mix_variable", "mix_leaf", "", mix_leaf(va_arg(arguments, int)));
    va_end(arguments);
    return sum;
}

int mix_add(int value);
int mix_subtract(int value);
int mix_negate(int value);

CALLS_FUNCTION int mix_add(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 3;
}

CALLS_FUNCTION int mix_subtract(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value - 2;
}

CALLS_FUNCTION int mix_negate(int value)
{
    return -CALLS("mix_negate", "mix_leaf", "", mix_leaf(value));
}

static int (*const table[])(int) = {mix_add, mix_subtract, mix_negate, mix_leaf};

CALLS_FUNCTION static int mix_dispatch(int value, int index)
{
    switch (index & 3) {
    case 0:
        CALLS_COUNT("mix_dispatch", "mix_add", "");
        break;
    case 1:
        CALLS_COUNT("mix_dispatch", "mix_subtract", "");
        break;
    case 2:
        CALLS_COUNT("mix_dispatch", "mix_negate", "");
        break;
    default:
        CALLS_COUNT("mix_dispatch", "mix_leaf", "");
    }
    return table[index & 3](value);
}

/* A switch whose cases call: a jump table in the middle. */
CALLS_FUNCTION static int mix_switch(int value)
{
    switch (value % 11) {
    case 0:
        return CALLS("mix_switch", "mix_add", "", mix_add(value));
    case 1:
        return CALLS("mix_switch", "mix_subtract", "", mix_subtract(value)) * 3;
    case 2:
        return CALLS("mix_switch", "mix_negate", "", mix_negate(value)) ^ value;
    case 3:
        return CALLS("mix_switch", "mix_leaf", "", mix_leaf(value)) | 1;
    case 4:
        return value * 7;
    case 5:
        return CALLS("mix_switch", "mix_hot", "", mix_hot(value));
    case 6:
        return value ^ 0x55;
    case 7:
        return CALLS("mix_switch", "mix_even", "", mix_even(value % 5)) - value;
    default:
        return CALLS("mix_switch", "mix_dispatch", "", mix_dispatch(value, value));
    }
}

/* Values that live in registers across the calls: a stub that changed one would change the sum. */
CALLS_FUNCTION static long mix_registers(long a, long b, long c, long d, long e, long f)
{
    double x = (double)a, y = (double)b;
    long g = a * 3, h = b * 5, i = c * 7, j = d * 11, k = e * 13, l = f * 17;

    for (int round = 0; round < 3; round++) {
        a += CALLS("mix_registers", "mix_leaf", "", mix_leaf((int)g));
        x = CALLS("mix_registers", "mix_floating", "", mix_floating(x, y));
        y += x;
        b ^= g + CALLS("mix_registers", "mix_leaf", "", mix_leaf((int)h));
        c += h - i;
        d ^= j + k;
        e += l ^ CALLS("mix_registers", "mix_leaf", "", mix_leaf((int)k));
        f += (long)x;
    }
    return a + b + c + d + e + f + g + h + i + j + k + l + (long)y;
}

CALLS_FUNCTION static int mix_compare(const void *left, const void *right)
{
    CALLS_COUNT("*", "mix_compare", "");
    return memcmp(left, right, sizeof(int));
}

CALLS_FUNCTION static void mix_sort(unsigned seed)
{
    int numbers[128];

    for (int i = 0; i < 128; i++)
        numbers[i] = (int)(seed = seed * 1664525u + 1013904223u);
    qsort(numbers, 128, sizeof numbers[0], mix_compare);
    __asm__ volatile("" : : "m"(numbers));
}

CALLS_FUNCTION static long mix_round(int i)
{
    struct mix_large large;
    long sum = 0;

    memset(&large, i & 15, sizeof large);
    sum += CALLS("mix_round", "mix_hot", "", mix_hot(i));
    large = CALLS("mix_round", "mix_structure", "", mix_structure(large, i));
    sum += large.values[i % 9] & 0xffff;
    sum += CALLS("mix_round", "mix_variable", "", mix_variable(3, i, i + 1, i + 2));
    sum += CALLS("mix_round", "mix_dispatch", "", mix_dispatch(i, i + 1));
    sum += CALLS("mix_round", "mix_switch", "", mix_switch(i));
    sum += CALLS("mix_round", "mix_registers", "", mix_registers(i, i + 1, sum & 255, i ^ 5, i & 7, 9));
    sum += CALLS("mix_round", "mix_even", "", mix_even(i % 30));
    if (i % 100 == 0) {
        sum += CALLS("mix_round", "mix_fibonacci", "", mix_fibonacci(12));
        CALLS("mix_round", "mix_sort", "", mix_sort((unsigned)i));
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 3000;
    long sum = zero;

    for (int i = 0; i < rounds; i++)
        sum += CALLS("main", "mix_round", "", mix_round(i)) & 0xffffff;
    printf("%ld\n", sum);
    fflush(stdout);
    calls_print();
    return 0;
}
