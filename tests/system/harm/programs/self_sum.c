/* self_sum [on] - sums its own text and what its file has of it, as self-tests of certified modules do: status 0 when they are the
 * same. With an argument it says "begun" and sums when its input ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) unsigned leaf_fn(unsigned x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

__attribute__((noinline)) unsigned work_fn(unsigned x)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < 10; i++)
        sum += leaf_fn(x + i);
    return sum;
}

/* The program is reported first. */
static int compare(struct dl_phdr_info *info, size_t size, void *context)
{
    int file = open("/proc/self/exe", O_RDONLY), *differs = context;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *it = &info->dlpi_phdr[i];
        unsigned char *bytes = it->p_type == PT_LOAD && it->p_flags & PF_X ? malloc(it->p_filesz) : NULL;
        if (bytes && pread(file, bytes, it->p_filesz, (off_t)it->p_offset) == (ssize_t)it->p_filesz)
            *differs = memcmp(bytes, (const void *)(info->dlpi_addr + it->p_vaddr), it->p_filesz) != 0;
        free(bytes);
    }
    close(file);
    return 1;
}

int main(int count, char **arguments)
{
    int differs = 2;
    char byte;
    (void)arguments;
    if (count > 1) {
        puts("begun");
        fflush(stdout);
        while (read(0, &byte, 1) > 0)
            ;
    }
    unsigned sum = 0;
    for (unsigned i = 0; i < 100; i++)
        sum += work_fn(i);
    dl_iterate_phdr(compare, &differs);
    printf("%u %s\n", sum, differs == 0 ? "text is as in the file" : "text differs from the file");
    return differs;
}
