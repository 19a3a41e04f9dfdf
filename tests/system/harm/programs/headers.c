/* Looks through the program headers, as libbsd does, and the runtimes of languages, and is no unwinder: what it opens is seen. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdio.h>

static int count(struct dl_phdr_info *info, size_t size, void *images)
{
    (void)size;
    *(int *)images += info->dlpi_phnum > 0;
    return 0;
}

__attribute__((noinline, noclone)) int leaked(void)
{
    int file = open("/dev/null", O_RDONLY);
    __asm__ volatile("" ::"r"(file));
    return file;
}

int main(void)
{
    int images = 0, opened = 0;
    dl_iterate_phdr(count, &images);
    for (int i = 0; i < 7; i++)
        opened += leaked() >= 0;
    printf("%d %d\n", images > 0, opened);
    return 0;
}
