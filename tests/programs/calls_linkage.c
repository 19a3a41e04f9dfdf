/* calls_linkage [ROUNDS] - calls of another object, built in every way such calls are linked (meson.build):
 * lazily and eagerly bound tables of linkage, no table, with landing instructions; of plain functions, of one
 * that is chosen when it is bound (IFUNC), by pointer, and back. */
#include <stdlib.h>

#include "calls_linkage.h"
#include "calls_truth.h"
#include "truth.h"

int linkage_back(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value - 1;
}

TRUTH_FUNCTION int linkage_compare(const void *left, const void *right)
{
    CALLS_COUNT("*", "linkage_compare", "");
    return (*(const int *)left > *(const int *)right) - (*(const int *)left < *(const int *)right);
}

TRUTH_FUNCTION int linkage_round(int value)
{
    int (*volatile pointer)(int) = linkage_plain;

    value = CALLS("linkage_round", "linkage_plain", "", linkage_plain(value));
    value = CALLS("linkage_round", "linkage_chosen", "", linkage_ifunc(value));
    value = CALLS("linkage_round", "linkage_plain", "", pointer(value));
    value = CALLS("linkage_round", "linkage_caller", "", linkage_caller(value));
    __asm__ volatile("" : "+r"(value));
    return value;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, value = 0, numbers[64];

    for (int i = 0; i < rounds; i++)
        value = CALLS("main", "linkage_round", "direct", linkage_round(value));
    for (int i = 0; i < 64; i++)
        numbers[i] = i * 7919 % 64;
    qsort(numbers, 64, sizeof numbers[0], linkage_compare);
    value += numbers[5];
    __asm__ volatile("" : : "r"(value));
    linkage_print();
    calls_print();
    return 0;
}
