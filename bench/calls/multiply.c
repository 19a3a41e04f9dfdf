/* multiply CALLS - calls of a function that multiplies two numbers, and nothing else: built at -O0, the worst
 * case for whoever counts. -DSHIFT='"BYTES"' moves its text; -DBY_JUMP has each call go through a jump, which is
 * the least that a stub is. */
#include <stdio.h>
#include <stdlib.h>

#ifdef SHIFT
__asm__(".text\n.balign 64\n.skip " SHIFT ", 0x90");
#endif

__attribute__((used)) static unsigned long multiply(unsigned long a, unsigned long b)
{
    return a * b;
}

#ifdef BY_JUMP
unsigned long called(unsigned long a, unsigned long b);
#else
#define called multiply
#endif

int main(int argc, char **argv)
{
    unsigned long calls = argc > 1 ? strtoul(argv[1], NULL, 10) : 500000000, product = 1;

    for (unsigned long i = 0; i < calls; i++)
        product = called(product, i | 1);
    printf("%lu\n", product);
    return 0;
}

#ifdef BY_JUMP
__asm__(".text\n.balign 64\ncalled:\n\tjmp multiply");
#endif
