/* For each byte of its standard input it does the same work, and says so by a line: 1000 times a call, a block and a descriptor, and some
 * hundredths of a second on the CPU. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) static void own_work(int round)
{
    void *volatile block = malloc(100 + (size_t)round);
    close(open("/dev/null", O_RDONLY));
    free(block);
}

__attribute__((noinline)) static void own_burn(void)
{
    clock_t until = clock() + CLOCKS_PER_SEC / 10;
    while (clock() < until)
        for (volatile int i = 0; i < 10000; i++)
            ;
}

int main(void)
{
    char byte;
    puts("begun");
    fflush(stdout);
    while (read(0, &byte, 1) == 1) {
        for (int i = 0; i < 1000; i++)
            own_work(i);
        own_burn();
        puts("done");
        fflush(stdout);
    }
    return 3;
}
