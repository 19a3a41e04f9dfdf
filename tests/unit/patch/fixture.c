/* A library whose functions count themselves: `fixture_entered[N]` is the truth about function N. Compiled at
 * several levels; without its symbol table too. Flavours of calls: direct, recursive, tail, conditional tail,
 * through tables, through structures, through the linkage table, with many arguments, varargs, floating
 * point. */
#include <stdarg.h>
#include <stdint.h>

#define COUNTED(n) fixture_entered[n]++
#define NOINLINE   __attribute__((noinline, noclone))

uint64_t fixture_entered[64];

NOINLINE static uint64_t leaf(uint64_t x)
{
    COUNTED(0);
    return x * 3 + 1;
}

NOINLINE static uint64_t fibonacci(uint64_t n)
{
    COUNTED(1);
    if (n < 2)
        return n;
    uint64_t before = fibonacci(n - 1);
    return before ^ (fibonacci(n - 2) + 1); /* not a sum: that would become a loop */
}

NOINLINE static uint64_t tail_to_leaf(uint64_t x)
{
    COUNTED(2);
    return leaf(x ^ 5);
}

NOINLINE static uint64_t maybe_tail(uint64_t x)
{
    COUNTED(3);
    if (x & 1)
        return leaf(x);
    return x;
}

NOINLINE static double mixed(int a, double b, long c, float d, long e, double f, long g, long h, long i,
                             double j)
{
    COUNTED(4);
    return a + b + (double)c + d + (double)e + f + (double)g + (double)h + (double)i + j;
}

NOINLINE static uint64_t sum(unsigned count, ...)
{
    uint64_t total = 0;
    va_list list;
    COUNTED(5);
    va_start(list, count);
    while (count-- > 0)
        total += va_arg(list, uint64_t);
    va_end(list);
    return total;
}

NOINLINE static uint64_t one(uint64_t x)
{
    COUNTED(6);
    return x + 1;
}
NOINLINE static uint64_t two(uint64_t x)
{
    COUNTED(7);
    return x + 2;
}
NOINLINE static uint64_t three(uint64_t x)
{
    COUNTED(8);
    return leaf(x) + 3;
}
NOINLINE static uint64_t tiny(uint64_t x)
{
    (void)x;
    return 4; /* six bytes, does not count itself */
}

static uint64_t (*volatile const table[])(uint64_t) = {one, two, three, tail_to_leaf, tiny};

struct object {
    uint64_t padding[20];
    uint64_t (*method)(uint64_t);
    uint64_t (*volatile late)(uint64_t);
};
static struct object object = {.method = one, .late = two};

uint64_t fixture_exported(uint64_t x);
uint64_t fixture_offered(uint64_t x);
uint64_t fixture_run(uint64_t rounds);

uint64_t fixture_exported(uint64_t x)
{
    COUNTED(9);
    return leaf(x) + 1;
}

NOINLINE static uint64_t switched(uint64_t x)
{
    COUNTED(10);
    switch (x % 8) {
    case 0:
        return leaf(x);
    case 1:
        return one(x);
    case 2:
        return x * 7;
    case 3:
        return two(x + 1);
    case 4:
        return fixture_exported(x);
    case 5:
        return x - 9;
    case 6:
        return maybe_tail(x);
    default:
        return three(x);
    }
}

NOINLINE static uint64_t through_object(struct object *which, uint64_t x)
{
    COUNTED(11);
    return which->method(x) + which->late(x);
}

NOINLINE static uint64_t tail_indirect(unsigned n, uint64_t x)
{
    COUNTED(12);
    return table[n](x);
}

/* Called from here and offered to others; no table has it. */
uint64_t fixture_offered(uint64_t x)
{
    COUNTED(14);
    return x ^ 7;
}

uint64_t fixture_run(uint64_t rounds)
{
    uint64_t result = fibonacci(12);
    COUNTED(13);
    for (uint64_t i = 0; i < rounds; i++) {
        result = result * 31 + tail_to_leaf(i);
        result = result * 31 + maybe_tail(i);
        result = result * 31 + switched(i);
        result = result * 31 + (uint64_t)mixed((int)i, 1.5, 2, 3.25f, 4, 5.5, 6, 7, 8, 9.75);
        result = result * 31 + sum(9, i, 1ul, 2ul, 3ul, 4ul, 5ul, 6ul, 7ul, 8ul);
        result = result * 31 + table[i % 5](i);
        result = result * 31 + through_object(&object, i);
        result = result * 31 + tail_indirect((unsigned)(i % 5), i);
        result = result * 31 + fixture_offered(fixture_exported(i));
    }
    return result;
}

/* Names for what the test finds by address. */
const void *const fixture_functions[] = {
    leaf, fibonacci, tail_to_leaf,     maybe_tail, mixed,          sum,           one,
    two,  three,     fixture_exported, switched,   through_object, tail_indirect, fixture_run};
