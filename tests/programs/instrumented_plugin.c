/* An object that is loaded late: its functions are instrumented, and the first is called while it is
 * loaded. */
#include <stdio.h>

#define APART __attribute__((noinline, noclone))

void plugged(int n);

APART static int plugged_inner(int n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

__attribute__((constructor)) static void plugged_first(void)
{
    plugged_inner(0);
}

void plugged(int n)
{
    for (int i = 0; i < n; i++)
        plugged_inner(i);
}
