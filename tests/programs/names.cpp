// names [ROUNDS] - functions with names that are longer than they are written: in namespaces, overloaded, of templates, methods, operators,
// and two whose symbols are those that Rust gives. Each is called its own number of times in a round, which is in the line of JSON.
#include <cstdio>
#include <cstdlib>

#include "calls_truth.h"

#define KEEP __attribute__((noinline, noipa, used))

namespace shop
{

KEEP long price(long piece)
{
    return piece + 1;
}

KEEP long price(long piece, char unit)
{
    return piece + unit;
}

template <typename T> KEEP T most(T left, T right)
{
    return left > right ? left : right;
}

struct Till {
    long sum = 0;
    KEEP long add(long much);
    KEEP long total() const;
    KEEP bool operator<(const Till &other) const;
};

long Till::add(long much)
{
    return sum += much;
}

long Till::total() const
{
    return sum;
}

bool Till::operator<(const Till &other) const
{
    return sum < other.sum;
}

namespace
{

KEEP long hide(int *hidden)
{
    return ++*hidden;
}

} // namespace

} // namespace shop

/* crate::work by the old scheme, store::keep by the new. */
KEEP static long old_scheme(long value) __asm__("_ZN5crate4work17h0123456789abcdefE");
KEEP static long new_scheme(long value) __asm__("_RNvC5store4keep");

static long old_scheme(long value)
{
    return value * 3;
}

static long new_scheme(long value)
{
    return value * 5;
}

KEEP static long names_round(long round)
{
    shop::Till till, other;
    int hidden = 0;
    long sum = 0;

    sum += CALLS("names_round", "shop::price(long)", "direct", shop::price(round));
    for (int i = 0; i < 2; i++)
        sum += CALLS("names_round", "shop::price(long, char)", "direct", shop::price(round, 'k'));
    for (int i = 0; i < 3; i++)
        sum += CALLS("names_round", "long shop::most<long>(long, long)", "direct", shop::most(round, 7L));
    for (int i = 0; i < 4; i++)
        sum += CALLS("names_round", "char shop::most<char>(char, char)", "direct", shop::most('a', 'b'));
    for (int i = 0; i < 5; i++)
        sum += CALLS("names_round", "shop::Till::add(long)", "direct", till.add(round));
    for (int i = 0; i < 6; i++)
        sum += CALLS("names_round", "shop::Till::total() const", "direct", till.total());
    for (int i = 0; i < 7; i++)
        sum += CALLS("names_round", "shop::Till::operator<(shop::Till const&) const", "direct", other < till);
    for (int i = 0; i < 8; i++)
        sum += CALLS("names_round", "shop::(anonymous namespace)::hide(int*)", "direct", shop::hide(&hidden));
    for (int i = 0; i < 9; i++)
        sum += CALLS("names_round", "crate::work", "direct", old_scheme(round));
    for (int i = 0; i < 10; i++)
        sum += CALLS("names_round", "store::keep", "direct", new_scheme(round));
    return sum;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? std::atol(argv[1]) : 10, sum = 0;

    calls_wait();
    for (long i = 0; i < rounds; i++)
        sum += CALLS("main", "names_round(long)", "direct", names_round(i));
    std::printf("%ld\n", sum);
    std::fflush(stdout);
    calls_print();
    return 0;
}
