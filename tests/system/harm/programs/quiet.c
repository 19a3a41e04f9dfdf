/* A program that works, allocates and reads, all in one thread, until its standard input ends: nothing of what /proc tells of it changes
 * by itself. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static unsigned work(unsigned rounds)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < rounds; i++)
        sum = sum * 31 + i;
    return sum;
}

int main(void)
{
    unsigned sum = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    puts("begun");
    fflush(stdout);
    while (poll(&input, 1, 1) == 0) {
        char *block = malloc(1000);
        memset(block, 1, 1000);
        sum += work(1000) + (unsigned char)block[sum % 1000];
        free(block);
    }
    printf("done %d\n", sum != 0);
    return 0;
}
