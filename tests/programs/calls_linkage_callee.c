/* calls_linkage_callee - the other object of calls_linkage. */
#include "calls_linkage.h"
#include "calls_truth.h"
#include "truth.h"

TRUTH_FUNCTION int linkage_plain(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

TRUTH_FUNCTION static int linkage_chosen(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 2;
}

TRUTH_FUNCTION static int linkage_never(int value)
{
    return value;
}

/* A resolver runs before the object is relocated. */
static int (*choose(void))(int)
{
    return sizeof(void *) == 8 ? linkage_chosen : linkage_never;
}

int linkage_ifunc(int value) __attribute__((ifunc("choose")));

TRUTH_FUNCTION int linkage_caller(int value)
{
    value = CALLS("linkage_caller", "linkage_back", "", linkage_back(value));
    value = CALLS("linkage_caller", "linkage_chosen", "", linkage_ifunc(value));
    __asm__ volatile("" : "+r"(value));
    return value;
}

void linkage_print(void)
{
    calls_print();
}
