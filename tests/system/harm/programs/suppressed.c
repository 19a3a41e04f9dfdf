/* Leaks that LeakSanitizer is asked to pass over, by the function that its own walk must find. */
#include <stdio.h>
#include <stdlib.h>

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:^known_leak$";
}

__attribute__((noinline)) static void known_leak(size_t size)
{
    volatile char *block = malloc(size);
    block[0] = 1;
    block = calloc(2, size);
    block[0] = 1;
    block = realloc(NULL, size);
    block[0] = 1;
}

int main(void)
{
    known_leak(10);
    known_leak(20);
    puts("done");
    return 0;
}
