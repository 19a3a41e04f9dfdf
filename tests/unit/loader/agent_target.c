#include "agent_target.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, noipa))

static struct target_truth *truth;

long target_add(long a, long b);
double target_mixed(int a, double b, long c, float d);
long target_sum(unsigned count, ...);
long target_label(long a);
long target_sleep(long microseconds);
extern __typeof__(target_add) target_alias __attribute__((alias("target_add")));

NOINLINE long target_add(long a, long b)
{
    return a + b;
}

NOINLINE double target_mixed(int a, double b, long c, float d)
{
    return a + b * (double)c - (double)d;
}

NOINLINE long target_sum(unsigned count, ...)
{
    long sum = 0;
    va_list list;
    va_start(list, count);
    while (count-- > 0)
        sum += va_arg(list, long);
    va_end(list);
    return sum;
}

NOINLINE long target_sleep(long microseconds)
{
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
    return microseconds;
}

/* A branch and an operand relative to rip among the first bytes. */
__asm__(".text; .p2align 4; .globl target_label; .type target_label, @function; target_label: .cfi_startproc;"
        "test %rdi, %rdi; js 1f; mov target_constant(%rip), %rax; add %rdi, %rax; ret; 1: mov $-1, %rax; ret;"
        ".cfi_endproc; .size target_label, .-target_label;"
        ".data; .p2align 3; target_constant: .quad 1000; .text");

static void check(enum target_function function, int right)
{
    atomic_fetch_add(&truth->calls[function], 1);
    if (!right)
        atomic_fetch_add(&truth->wrong, 1);
}

static void call_everything(long i)
{
    check(TARGET_ADD, target_add(i, 3) == i + 3);
    check(TARGET_ADD, target_alias(i, 4) == i + 4);
    check(TARGET_MIXED, target_mixed((int)(i % 1000), 0.5, 4, 1.5f) == (double)(i % 1000) + 0.5);
    check(TARGET_SUM, target_sum(7, i, 1L, 2L, 3L, 4L, 5L, 6L) == i + 21);
    check(TARGET_LABEL, target_label(i) == i + 1000);
    check(TARGET_LABEL, target_label(-1 - i) == -1);
    check(TARGET_LIBC, a64l("z1") == 63 + 64 * 3);
}

static int run(long rounds)
{
    for (long i = 0; i < rounds; i++)
        call_everything(i);
    return truth->wrong != 0;
}

static void *loop(void *nothing)
{
    for (long i = 0; !atomic_load(&truth->stop); i++)
        call_everything(i & 0xffff);
    return nothing;
}

static int loop_in_threads(long count)
{
    pthread_t threads[64];
    for (long i = 1; i < count; i++)
        if (pthread_create(&threads[i], NULL, loop, NULL))
            return 3;
    atomic_store(&truth->ready, 1);
    loop(NULL);
    for (long i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    return truth->wrong != 0;
}

static int run_in_child(long rounds)
{
    int status = -1;
    run(rounds);
    pid_t pid = fork();
    if (pid == 0)
        _exit(run(rounds));
    waitpid(pid, &status, 0);
    run(rounds);
    return status || truth->wrong;
}

static int become(char **argv)
{
    char run_[] = "run", *next[] = {argv[0], argv[1], run_, argv[3], NULL};
    execv("/nowhere/at/all", next);
    execv("/proc/self/exe", next);
    return 4;
}

static int spawn(char **argv)
{
    char run_[] = "run", *next[] = {argv[0], argv[1], run_, argv[3], NULL};
    int status = -1;
    pid_t pid = vfork();
    if (pid == 0) {
        execv("/proc/self/exe", next);
        _exit(5);
    }
    waitpid(pid, &status, 0);
    return status || truth->wrong;
}

#ifdef TARGET_STATIC
static int load(const char *path, long rounds)
{
    return path && rounds ? 6 : 7;
}
#else
static int load(const char *path, long rounds)
{
    for (long i = 0; i < rounds; i++) {
        void *library = dlopen(path, RTLD_NOW);
        long (*function)(long) = NULL;
        if (library == NULL)
            return 6;
        *(void **)&function = dlsym(library, "fixture_exported");
        long wanted = function(11);
        for (long j = 1; j < 10; j++)
            check(TARGET_LOADED, function(11) == wanted);
        check(TARGET_LOADED, 1); /* the first */
        dlclose(library);
    }
    return truth->wrong != 0;
}
#endif

static int loop_twice(long count)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(loop_in_threads(count));
    int result = loop_in_threads(count);
    waitpid(pid, &status, 0);
    return status || result;
}

static int sleep_inside(long milliseconds)
{
    atomic_store(&truth->ready, 1);
    while (!atomic_load(&truth->stop))
        check(TARGET_SLEEP, target_sleep(milliseconds * 1000) == milliseconds * 1000);
    return truth->wrong != 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0);
    if (truth == MAP_FAILED)
        return 2;
    long number = argc > 3 ? strtol(argv[argc - 1], NULL, 10) : 0;
    if (!strcmp(argv[2], "run"))
        return run(number);
    if (!strcmp(argv[2], "loop"))
        return loop_in_threads(number);
    if (!strcmp(argv[2], "fork"))
        return run_in_child(number);
    if (!strcmp(argv[2], "exec"))
        return become(argv);
    if (!strcmp(argv[2], "spawn"))
        return spawn(argv);
    if (!strcmp(argv[2], "load"))
        return load(argv[3], number);
    if (!strcmp(argv[2], "sleep"))
        return sleep_inside(number);
    if (!strcmp(argv[2], "twice"))
        return loop_twice(number);
    return 2;
}
