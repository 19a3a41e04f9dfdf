/* How far the heap grows by brk. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    int grown = 0;
    while (grown < 256 && sbrk(1 << 20) != (void *)(intptr_t)-1)
        grown++;
    printf("%d MiB\n", grown);
    return 0;
}
