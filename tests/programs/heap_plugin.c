/* A library that allocates when it is loaded, and when it is asked to. */
#include <stdlib.h>

void *own_plugin(size_t size);
static void *kept;

__attribute__((noinline, noclone)) void *own_plugin(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

__attribute__((constructor)) static void begin(void)
{
    kept = own_plugin(1000);
}
