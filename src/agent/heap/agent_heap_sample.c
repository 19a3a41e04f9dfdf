/* Poisson samples of bytes, in integers: the agent may not touch a target's floating-point registers.
 *
 * Every byte that is allocated is a sample with probability 1/R. A block of S bytes is taken if one of its
 * bytes is, so with p = 1 - exp(-S/R), and then stands for 1/p blocks and S/p bytes: both sums are unbiased,
 * whatever the sizes. The same S gives the same p when the block is released, so live figures are unbiased as
 * well. The distance to the next sample is exponential and has no memory: it is drawn anew behind each taken
 * block. The variance of a sum of such weights is estimated by the sum of (S/p)^2 (1-p).
 *
 * Fixed point: x = S/R in 2^-40; exp(-x) is the product, over the bits of x, of constants in 2^-64;
 * logarithms by repeated squaring. All of it only happens for a taken block. Source: Horvitz and Thompson
 * (1952); tcmalloc's sampler for the idea of counting down bytes. */
#include "agent_heap_sample.h"

#define FRACTION 40 /* bits of x behind the point */
#define MOST     32 /* from S = 32 R on, p is 1 to 14 digits */

/* exp(-2^(i - 40)) in units of 2^-64 */
static const uint64_t exponentials[FRACTION + 5] = {
    0xffffffffff000000, 0xfffffffffe000000, 0xfffffffffc000000, 0xfffffffff8000000, 0xfffffffff0000000,
    0xffffffffe0000000, 0xffffffffc0000000, 0xffffffff80000000, 0xffffffff00000000, 0xfffffffe00000002,
    0xfffffffc00000008, 0xfffffff800000020, 0xfffffff000000080, 0xffffffe000000200, 0xffffffc000000800,
    0xffffff8000002000, 0xffffff0000008000, 0xfffffe0000020000, 0xfffffc0000080000, 0xfffff80000200000,
    0xfffff000007ffffd, 0xffffe00001ffffeb, 0xffffc00007ffff55, 0xffff80001ffffaab, 0xffff00007fffd555,
    0xfffe0001fffeaaab, 0xfffc0007fff55560, 0xfff8001fffaaab55, 0xfff0007ffd556000, 0xffe001ffeaab5551,
    0xffc007ff555fff77, 0xff801ffaab554446, 0xff007fd55ffdde39, 0xfe01feab551127cc, 0xfc07f55ff77d2494,
    0xf81fab5445aebc8a, 0xf07d5fde38151e73, 0xe1eb51276c110c3c, 0xc75f7cf564105743, 0x9b4597e37cb04ff4,
    0x5e2d58d8b3bcdf1b, 0x22a555477f039740, 0x04b0556e084f3d1e, 0x0015fc21041027ad, 0x000001e355bbaee8,
};

static uint64_t multiply_high(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* (numerator << bits) / denominator, numerator below denominator, denominator below 2^63 or the carry
 * kept. */
static uint64_t divide_fraction(uint64_t numerator, uint64_t denominator, unsigned bits)
{
    uint64_t quotient = 0;
    for (unsigned i = 0; i < bits; i++) {
        bool carry = numerator >> 63;
        numerator <<= 1;
        quotient <<= 1;
        if (carry || numerator >= denominator) {
            numerator -= denominator;
            quotient |= 1;
        }
    }
    return quotient;
}

/* exp(-size/mean) in 2^-64, for size < MOST * mean. */
static uint64_t unseen_part(uint64_t size, uint64_t mean)
{
    uint64_t x = size / mean << FRACTION | divide_fraction(size % mean, mean, FRACTION);
    uint64_t product = UINT64_MAX;
    for (unsigned i = 0; i < FRACTION + 5; i++)
        if (x >> i & 1)
            product = multiply_high(product, exponentials[i]);
    return product;
}

static struct agent_amount amount_of(uint64_t size, uint64_t mean)
{
    uint64_t bytes = size != 0 ? size : 1;
    if (bytes / MOST >= mean)
        return (struct agent_amount){size, WIRE_AGENT_SCALE, size, 0};
    uint64_t unseen = unseen_part(bytes, mean), seen = 0 - unseen;
    /* 2^80 / seen: one step to have a numerator below the denominator, then 16 + 64 bits of which the high
     * ones are 0 */
    uint64_t count = divide_fraction(1, seen, 80);
    uint64_t weight = (uint64_t)((unsigned __int128)bytes * count >> 16);
    uint64_t share = (uint64_t)((unsigned __int128)weight << 16) / mean;
    return (struct agent_amount){size != 0 ? weight : 0, count, size,
                                 multiply_high(share * share, unseen) >> 16};
}

/* Sizes come again and again, each first when a block comes and then when it goes. */
struct agent_amount agent_heap_sample_amount(struct agent_thread *thread, uint64_t size, uint64_t mean)
{
    struct agent_weighed *weighed = &thread->weighed[(size >> 3 ^ size >> 9) % AGENT_WEIGHED];
    if (weighed->size == size && weighed->mean == mean)
        return weighed->amount;
    struct agent_amount amount = amount_of(size, mean);
    weighed->mean = 0; /* until it is whole, whoever leaves from here by a jump */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    weighed->size = size;
    weighed->amount = amount;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    weighed->mean = mean;
    return amount;
}

static uint64_t draw_random(struct agent_thread *thread)
{
    thread->random ^= thread->random >> 12;
    thread->random ^= thread->random << 25;
    thread->random ^= thread->random >> 27;
    return thread->random * UINT64_C(0x2545f4914f6cdd1d);
}

/* -ln(u / 2^64) in 2^-32 */
static uint64_t minus_logarithm(uint64_t u)
{
    unsigned zeros = (unsigned)__builtin_clzll(u | 1);
    uint64_t mantissa = (u | 1) << zeros, fraction = 0; /* 1 <= mantissa / 2^63 < 2 */
    for (unsigned i = 0; i < 32; i++) {
        uint64_t square = multiply_high(mantissa, mantissa); /* in 2^-62 */
        bool high = square >> 63;
        mantissa = high ? square : square << 1;
        fraction = fraction << 1 | high;
    }
    uint64_t log2 = ((uint64_t)(zeros + 1) << 32) - fraction;             /* -log2(u / 2^64) in 2^-32 */
    return multiply_high(log2 << 16, UINT64_C(0xb17217f7d1cf79ac)) >> 16; /* ln 2 */
}

static void draw_distance(struct agent_thread *thread, uint64_t mean)
{
    thread->sample_mean = mean;
    thread->until_sample =
        (int64_t)((unsigned __int128)minus_logarithm(draw_random(thread)) * mean >> 32) + 1;
}

bool agent_heap_sample_hits(struct agent_thread *thread, uint64_t size, uint64_t mean)
{
    if (__builtin_expect(thread->sample_mean != mean, 0))
        draw_distance(thread, mean);
    if (size >= INT64_MAX)
        size = INT64_MAX - 1;
    thread->until_sample -= (int64_t)(size != 0 ? size : 1);
    if (__builtin_expect(thread->until_sample > 0, 1))
        return false;
    draw_distance(thread, mean);
    return true;
}

/* --- which addresses may be samples: what the quick entries look at --- */

static uint8_t *sampled_at(uint64_t address)
{
    return (uint8_t *)agent_part(WIRE_AGENT_SAMPLED_AT) +
           ((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48);
}

void agent_heap_sample_mark(uint64_t address, bool lives)
{
    uint8_t *at = sampled_at(address), there = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (there != UINT8_MAX &&
           !__atomic_compare_exchange_n(at, &there, (uint8_t)(lives ? there + 1 : there - 1), false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}
