/* libunwind, linked in and stripped: it keeps what it found out of an address, and finds the same number of frames each time. */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 16, ROUNDS = 20, FRAMES = 64 };

static int frames, calls;

static int compare(const void *a, const void *b)
{
    void *found[FRAMES];
    frames += unw_backtrace(found, FRAMES);
    calls++;
    return *(const int *)a - *(const int *)b;
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        int items[SIZE];
        for (int i = 0; i < SIZE; i++)
            items[i] = i * 7 % SIZE;
        qsort(items, SIZE, sizeof *items, compare);
    }
    printf("%d calls, %d frames\n", calls, frames);
    return 0;
}
