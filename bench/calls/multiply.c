/* multiply CALLS - calls of a function that multiplies two numbers, and nothing else: built at -O0, the worst
 * case for whoever counts. */
#include <stdio.h>
#include <stdlib.h>

static unsigned long multiply(unsigned long a, unsigned long b)
{
    return a * b;
}

int main(int argc, char **argv)
{
    unsigned long calls = argc > 1 ? strtoul(argv[1], NULL, 10) : 500000000, product = 1;

    for (unsigned long i = 0; i < calls; i++)
        product = multiply(product, i | 1);
    printf("%lu\n", product);
    return 0;
}
