/* late_gs OBJECT - two threads that call functions, one of which creates some more and at once loads an object that has memory of its own
 * at gs, as WebAssembly that was compiled ahead of time (RLBox) does; says whether gs stayed the object's, and in how many threads it is
 * not what it was in the end.
 *
 * late_gs OBJECT on - says that it has begun. Once Tally counts in it, or its input ends, the object is loaded and sets gs, and a thread is
 * created that has it from its creator; the object is unloaded. When its input ends it says in how many threads gs is not what it was.
 * late_gs OBJECT early - the same, but the object is loaded as soon as Tally has memory in the process.
 * late_gs OBJECT at_once - then it sets gs at once, too, and calls functions, as long as Tally is there; the object is unloaded. Says whether
 * gs stayed the object's. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RESTING = 8, LOOK_MS = 20, SETTLE_MS = 300 };

static atomic_int over, wrong;
static volatile long sum;
static long memory[512];
static pthread_t resting[RESTING];

__attribute__((noinline)) static long leaf(long value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

static void check_gs(const void *expected)
{
    uint64_t gs = 1;
    syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
    atomic_fetch_add(&wrong, gs != (uint64_t)(uintptr_t)expected);
}

/* Its argument is what gs is to be in the end. */
static void *thread_work(void *argument)
{
    while (!over)
        sum = leaf(sum);
    check_gs(argument);
    return argument;
}

static void *thread_rest(void *argument)
{
    while (!over)
        poll(NULL, 0, 1);
    check_gs(argument);
    return argument;
}

static int load(const char *path)
{
    long mine = 0;
    for (int i = 0; i < 1000; i++)
        mine = leaf(mine);
    for (int i = 0; i < RESTING; i++)
        if (pthread_create(&resting[i], NULL, thread_rest, NULL))
            return 9;
    void *object = dlopen(path, RTLD_NOW);
    long (*work)(long (*)(long), long) =
        object ? (long (*)(long (*)(long), long))dlsym(object, "late_gs_work") : NULL;
    if (!work)
        return 8;
    printf("wrong %ld\n", work(leaf, 20000));
    printf("calls %ld\n", mine);
    over = 1;
    for (int i = 0; i < RESTING; i++)
        pthread_join(resting[i], NULL);
    return 4;
}

static int input_ends(int ms)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, ms) != 0;
}

/* `maps` is open all the time: what a process has open is looked at. */
static int is_counted(int maps)
{
    static char text[1 << 16];
    size_t size = 0;
    ssize_t got;
    lseek(maps, 0, SEEK_SET);
    while ((got = read(maps, text + size, sizeof text - 1 - size)) > 0)
        size += (size_t)got;
    text[size] = '\0';
    return strstr(text, "/memfd:tally") != NULL;
}

static int stay_on(const char *path, int early)
{
    pthread_t thread;
    int maps = open("/proc/self/maps", O_RDONLY);
    puts("begun");
    fflush(stdout);
    while (!is_counted(maps) && !input_ends(early ? 0 : LOOK_MS))
        ;
    if (!early)
        input_ends(SETTLE_MS);
    void *object = dlopen(path, RTLD_NOW);
    input_ends(early ? SETTLE_MS : 0);
    long (*set)(void *) = object ? (long (*)(void *))dlsym(object, "late_gs_set") : NULL;
    if (!set || set(memory) || pthread_create(&thread, NULL, thread_work, memory) || dlclose(object))
        return 7;
    while (!input_ends(-1))
        ;
    over = 1;
    pthread_join(thread, NULL);
    check_gs(memory);
    return 4;
}

static int work_at_once(const char *path)
{
    int maps = open("/proc/self/maps", O_RDONLY);
    long wrong_there = 0;
    puts("begun");
    fflush(stdout);
    while (!is_counted(maps) && !input_ends(0))
        ;
    void *object = dlopen(path, RTLD_NOW);
    long (*work)(long (*)(long), long) =
        object ? (long (*)(long (*)(long), long))dlsym(object, "late_gs_work") : NULL;
    if (!work)
        return 8;
    do /* nearly all the time */
        for (int i = 0; i < 200; i++)
            wrong_there += work(leaf, 20000);
    while (is_counted(maps) && !input_ends(0));
    if (dlclose(object))
        return 7;
    input_ends(-1);
    printf("wrong %ld\n", wrong_there);
    return 4;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc < 2 || pthread_create(&thread, NULL, thread_work, NULL))
        return 9;
    int status = argc <= 2                    ? load(argv[1])
                 : strcmp(argv[2], "at_once") ? stay_on(argv[1], !strcmp(argv[2], "early"))
                                              : work_at_once(argv[1]);
    over = 1;
    pthread_join(thread, NULL);
    printf("wrong in the end %d\n", wrong);
    return status;
}
