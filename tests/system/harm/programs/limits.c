/* A program that limits its memory, or looks at what it has: it says whether all is as it should be.
 *
 *   limits addresses   RLIMIT_AS of 2,000 MiB: nearly all of it can be had by malloc, twice
 *   limits locked      as another user, who may lock 64 MiB at most: mlockall locks all there is and all that comes
 *   limits writable    a leak checker: the writable mappings, here and in a fork's child
 *
 * With a second argument it says so by a line, and does it when its standard input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
enum { LIMIT = 2000, FEW = 40, LOCKED = 64 };

static unsigned long status_of(const char *name)
{
    char line[256];
    unsigned long value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            value = strtoul(line + strlen(name), NULL, 10);
    if (file)
        fclose(file);
    return value;
}

static int has_nearly_all(void)
{
    static void *kept[LIMIT];
    int count = 0;
    while (count < LIMIT && (kept[count] = malloc(MIB)))
        count++;
    for (int i = 0; i < count; i++)
        free(kept[i]);
    return count >= LIMIT - FEW;
}

static int addresses(void)
{
    struct rlimit limit = {LIMIT * MIB, LIMIT * MIB};
    if (setrlimit(RLIMIT_AS, &limit))
        return 1;
    int first = has_nearly_all(), second = has_nearly_all();
    printf("addresses: %s, %s\n", first ? "nearly all" : "few", second ? "nearly all" : "few");
    return 0;
}

static int locked(void)
{
    struct rlimit limit = {LOCKED * MIB, LOCKED * MIB};
    setrlimit(RLIMIT_MEMLOCK, &limit); /* where it may not be raised it is enough as it is */
    if (setresuid(65534, 65534, 65534))
        return 1;
    int failed = mlockall(MCL_CURRENT | MCL_FUTURE);
    char *block = malloc(MIB);
    printf("locked: %s, %s, %s\n", failed ? "refused" : "all", block ? "and more" : "and no more",
           status_of("VmLck:") < 16 * 1024 ? "few" : "many");
    return 0;
}

static unsigned long long writable(void)
{
    char line[512], rights[5];
    unsigned long long sum = 0, start, end;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%llx-%llx %4s", &start, &end, rights) == 3 && rights[1] == 'w')
            sum += end - start;
    if (file)
        fclose(file);
    return sum;
}

static int walked(void)
{
    printf("writable: %s\n", writable() < 32 * MIB ? "few" : "many");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        free(malloc(10));
        printf("writable in a child: %s\n", writable() < 32 * MIB ? "few" : "many");
        fflush(stdout);
        _exit(0);
    }
    return waitpid(child, NULL, 0) != child;
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        puts("ready");
        fflush(stdout);
        while (getchar() != EOF)
            ;
    }
    return argc < 2                        ? 2
           : !strcmp(argv[1], "addresses") ? addresses()
           : !strcmp(argv[1], "locked")    ? locked()
                                           : walked();
}
