/* Functions that read the call before their return address, as runtimes do that patch their calls or check who called. Each says
 * whether it is a `call` that leads to itself; the program fails when one does not. With a line on standard input it goes on. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLEE __attribute__((noinline, noclone, visibility("hidden")))
enum { CALLS = 1000 };

static unsigned char *target(const unsigned char *behind)
{
    int32_t distance;
    memcpy(&distance, behind - 4, sizeof distance);
    return (unsigned char *)behind + distance;
}

static int fail(const char *who, const unsigned char *behind)
{
    fprintf(stderr, "%s is called by %02x at another place\n", who, behind[-5]);
    exit(9);
}

/* A leaf: opcode and target. */
CALLEE int leaf(int x)
{
    unsigned char *behind = __builtin_return_address(0);
    return behind[-5] == 0xe8 && target(behind) == (unsigned char *)leaf ? x + 1 : fail("leaf", behind);
}

/* The target alone, with a frame of its own. */
CALLEE int framed(int x)
{
    volatile char room[200];
    memset((char *)room, x, sizeof room);
    unsigned char *behind = __builtin_return_address(0);
    return target(behind) == (unsigned char *)framed ? x + 1 : fail("framed", behind);
}

/* Another function looks. */
CALLEE int look(unsigned char *behind, unsigned char *wanted)
{
    return behind[-5] == 0xe8 && target(behind) == wanted;
}

CALLEE int hands_on(int x)
{
    return look(__builtin_return_address(0), (unsigned char *)hands_on)
               ? x + 1
               : fail("hands_on", __builtin_return_address(0));
}

/* Behind a return, with a stack that is aligned. */
CALLEE int late(int x)
{
    if (x < 0)
        return 0;
    char room[64] __attribute__((aligned(64)));
    memset(room, x, sizeof room);
    __asm__ volatile("" ::"r"(room) : "memory");
    if (room[5] == x + 1)
        return 1;
    unsigned char *behind = __builtin_return_address(0);
    return behind[-5] == 0xe8 && target(behind) == (unsigned char *)late ? x + 1 : fail("late", behind);
}

CALLEE int all(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += leaf(i) + framed(i) + hands_on(i) + late(i);
    return sum;
}

int main(int count, char **arguments)
{
    char line[8];
    printf("%d\n", all(CALLS));
    fflush(stdout);
    if (count > 1 && strcmp(arguments[1], "waits") == 0)
        while (fgets(line, sizeof line, stdin))
            ;
    printf("%d\n", all(CALLS));
    return 0;
}
