/* An allocator of a name of its own that throws: the exception passes the agent's frames, if the function has its hook. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>

#define AWAY __attribute__((noipa))

extern "C" AWAY void *shop_alloc(size_t size)
{
    if (size > 1000)
        throw size;
    return malloc(size);
}

extern "C" AWAY void shop_free(void *block)
{
    free(block);
}

static AWAY size_t round_of()
{
    size_t sum = 0;
    for (size_t size = 0; size < 2000; size += 200) {
        try {
            shop_free(shop_alloc(size));
        } catch (size_t thrown) {
            sum += thrown;
        }
    }
    return sum;
}

int main(int count, char **arguments)
{
    struct pollfd input = {0, POLLIN, 0};
    unsigned wrong = round_of() != 6000;
    if (count > 1 && !strcmp(arguments[1], "on")) {
        puts("begun");
        fflush(stdout);
        while (poll(&input, 1, 5) == 0)
            wrong += round_of() != 6000;
    }
    printf("%u wrong\n", wrong);
    return 0;
}
