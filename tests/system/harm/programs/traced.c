/* mtrace writes, of each block, the address that its allocator's function returns to. */
#include <mcheck.h>
#include <stdlib.h>

__attribute__((noipa)) static void *allocate(size_t size)
{
    char *block = malloc(size);
    block[0] = 1;
    return block;
}

int main(void)
{
    mtrace();
    char *block = realloc(allocate(100), 300);
    allocate(33);
    free(block);
    block = calloc(3, 30);
    block[0] = 1;
    return 0;
}
