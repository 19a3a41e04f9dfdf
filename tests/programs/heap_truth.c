/* heap_truth MODE - allocates in a way that it knows, and says what it did: one line "pid bytes blocks
 * live-bytes live-blocks peak" for each process that counted itself, appended to the file that $TRUTH names,
 * by system calls alone, so that nothing else allocates.
 *
 * All blocks come from functions called own_*. The peak is that of the own blocks, where one thread
 * allocates.
 *
 *   single     every function that allocates, sizes of all kinds; ends by return
 *   quick      the same, ends by _exit          killed    ... by SIGKILL
 *   threads    8 threads; half of what one allocates another releases
 *   fork       a child that goes on allocating, and one that does nothing
 *   exec       executes itself as `single`
 *   spawn      starts itself as `single` through vfork, twice
 *   children   five, each of which allocates and then executes itself, while its recorder is stopped
 *   many       300 children, one after the other, each of which allocates
 *   orphan     a child that allocates when its parent has executed itself, and nobody is left who allocated
 *              before
 *   idle       a child that stays, tells of itself, and allocates only when its input ends
 *   deep       allocates below 200 frames
 *   load FILE  allocates in a library that is loaded, in its constructor and in a function
 *   hoard      60,000 blocks that it keeps
 *   wait       allocates until its input ends */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, SLOTS = 512, ROUNDS = 20000, CHILDREN = 5, MANY = 300 };

static uint64_t total, count, live, live_count, peak;

static void add(size_t size)
{
    __atomic_fetch_add(&total, size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&live_count, 1, __ATOMIC_RELAXED);
    uint64_t now = __atomic_add_fetch(&live, size, __ATOMIC_RELAXED);
    if (now > peak)
        peak = now; /* races where several threads allocate: nobody looks then */
}

static void sub(size_t size)
{
    __atomic_fetch_sub(&live_count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&live, size, __ATOMIC_RELAXED);
}

#define KEPT __attribute__((noinline, noclone))

KEPT void *own_malloc(size_t size)
{
    void *block = malloc(size);
    add(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

KEPT void *own_calloc(size_t size)
{
    void *block = calloc(1, size);
    add(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

KEPT void *own_aligned(size_t size, unsigned kind)
{
    void *block = NULL;
    if (kind == 0)
        block = aligned_alloc(64, (size + 63) / 64 * 64);
    else if (kind == 1)
        block = memalign(128, size);
    else if (posix_memalign(&block, 256, size))
        abort();
    add(kind == 0 ? (size + 63) / 64 * 64 : size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

KEPT void *own_realloc(void *block, size_t old, size_t size)
{
    sub(old);
    block = realloc(block, size);
    add(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

struct slot {
    void *block;
    size_t size;
};

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void release(struct slot *slot)
{
    if (slot->block)
        sub(slot->size);
    free(slot->block);
    slot->block = NULL;
}

static void churn(struct slot *slots, uint64_t seed, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        struct slot *slot = &slots[next(&seed) % SLOTS];
        size_t size = 1 + next(&seed) % (next(&seed) % 16 ? 200 : 20000);
        unsigned kind = next(&seed) % 8;
        if (kind == 7 && slot->block) {
            slot->block = own_realloc(slot->block, slot->size, size);
            slot->size = size;
            continue;
        }
        release(slot);
        unsigned way = kind % 3;
        slot->size = kind >= 4 && way == 0 ? (size + 63) / 64 * 64 : size;
        slot->block = kind < 2 ? own_malloc(size) : kind < 4 ? own_calloc(size) : own_aligned(size, way);
    }
}

static void say(void)
{
    char line[200];
    int length = snprintf(line, sizeof line, "%d %llu %llu %llu %llu %llu\n", (int)getpid(),
                          (unsigned long long)total, (unsigned long long)count, (unsigned long long)live,
                          (unsigned long long)live_count, (unsigned long long)peak);
    int file = open(getenv("TRUTH"), O_WRONLY | O_APPEND);
    if (file < 0 || write(file, line, (size_t)length) != length)
        _exit(9);
    close(file);
}

static struct slot slots[THREADS][SLOTS];

static void *thread(void *number)
{
    churn(slots[(uintptr_t)number], 77 + (uintptr_t)number, ROUNDS);
    return NULL;
}

/* What a thread has left its neighbour releases, every other block. */
static void *sweep(void *number)
{
    struct slot *others = slots[((uintptr_t)number + 1) % THREADS];
    for (size_t i = 0; i < SLOTS; i += 2)
        release(&others[i]);
    return NULL;
}

static void on_all(void *(*what)(void *))
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, what, (void *)i))
            _exit(8);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void fork_twice(void)
{
    churn(slots[0], 5, ROUNDS);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (!child) {
            total = count = live = live_count = peak = 0;
            memset(slots, 0, sizeof slots);
            if (i)
                churn(slots[1], 6, ROUNDS);
            if (i)
                say();
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    say();
}

static void fork_many(void)
{
    for (unsigned i = 0; i < MANY; i++) {
        pid_t child = fork();
        if (child < 0)
            _exit(5);
        if (!child) {
            churn(slots[0], i, 50);
            say();
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    churn(slots[0], MANY, 50);
    say();
}

/* A child executes itself as `after`, and hands on what it counted; nothing of that lives. */
static void go_on_as_after(char *self, unsigned number)
{
    char bytes[32], blocks[32];
    churn(slots[0], number, 50);
    for (unsigned i = 0; i < SLOTS; i++)
        release(&slots[0][i]);
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)total);
    snprintf(blocks, sizeof blocks, "%llu", (unsigned long long)count);
    execl(self, self, "after", bytes, blocks, (char *)NULL);
    _exit(4);
}

/* Who records sleeps meanwhile, and finds a child's first allocation and its exec at one time. */
static void run_children(char *self)
{
    pid_t recorder = getppid();
    for (unsigned i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child < 0)
            _exit(5);
        if (!child) {
            kill(recorder, SIGSTOP);
            go_on_as_after(self, i);
        }
        do { /* again and again: the child may have stopped it later */
            nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
            kill(recorder, SIGCONT);
        } while (waitpid(child, NULL, WNOHANG) == 0);
    }
}

static void after(const char *bytes, const char *blocks)
{
    total = strtoull(bytes, NULL, 10);
    count = strtoull(blocks, NULL, 10);
    churn(slots[0], 2, 500);
    say();
}

/* The child waits for a byte of the program that its parent executes: who records has seen to that then. */
static void leave_orphan(char *self)
{
    int go[2];
    char byte, end[16];
    if (pipe(go))
        _exit(3);
    pid_t child = fork();
    if (child < 0)
        _exit(5);
    if (!child) {
        if (read(go[0], &byte, 1) != 1)
            _exit(2);
        churn(slots[0], 8, 500);
        say();
        _exit(0);
    }
    snprintf(end, sizeof end, "%d", go[1]);
    execl(self, self, "release", end, (char *)NULL);
    _exit(4);
}

/* The child's output is closed: nobody waits for it. */
static void leave_idle(void)
{
    int reported[2];
    char byte;
    if (pipe(reported))
        _exit(3);
    pid_t child = fork();
    if (child < 0)
        _exit(5);
    if (!child) {
        close(1);
        close(2);
        say();
        close(reported[0]);
        if (write(reported[1], "t", 1) != 1 || read(0, &byte, 1) != 0)
            _exit(2);
        churn(slots[0], 8, 500);
        say();
        _exit(0);
    }
    churn(slots[0], 7, 500);
    if (read(reported[0], &byte, 1) != 1)
        _exit(3);
    say();
}

static void release_orphan(int end)
{
    int status = 1;
    churn(slots[0], 7, 500);
    if (write(end, "g", 1) != 1 || wait(&status) < 0 || status)
        _exit(3);
    say();
}

KEPT void own_deep(unsigned frames)
{
    if (frames)
        own_deep(frames - 1);
    else
        churn(slots[0], 4, 100);
    __asm__ volatile("" : : : "memory");
}

static void spawn_twice(char *self)
{
    extern char **environ;
    char single[] = "single", *arguments[] = {self, single, NULL};
    for (int i = 0; i < 2; i++) {
        pid_t child;
        if (posix_spawn(&child, self, NULL, NULL, arguments, environ))
            _exit(7);
        waitpid(child, NULL, 0);
    }
}

#ifndef STATIC
static void load(const char *file)
{
    void *library = dlopen(file, RTLD_NOW);
    void *(*allocate)(size_t) = library ? (void *(*)(size_t))dlsym(library, "own_plugin") : NULL;
    if (!allocate)
        _exit(6);
    add(1000); /* its constructor's */
    for (size_t i = 0; i < 100; i++) {
        allocate(10 + i);
        add(10 + i);
    }
    say();
}

#else
static void load(const char *file)
{
    (void)file;
    _exit(6);
}
#endif

static void keep_many(void)
{
    for (size_t i = 0; i < 60000; i++)
        own_malloc(i % 50 ? 10 + i % 400 : 5000);
    say();
}

static void go_on(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    do
        churn(slots[0], 9, 1000);
    while (poll(&input, 1, 1) == 0);
    say();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "single";
    if (!strcmp(mode, "threads")) {
        on_all(thread);
        on_all(sweep);
        say();
    } else if (!strcmp(mode, "fork")) {
        fork_twice();
    } else if (!strcmp(mode, "many")) {
        fork_many();
    } else if (!strcmp(mode, "exec")) {
        churn(slots[0], 1, 100);
        execl(argv[0], argv[0], "single", (char *)NULL);
    } else if (!strcmp(mode, "spawn")) {
        spawn_twice(argv[0]);
    } else if (!strcmp(mode, "children")) {
        run_children(argv[0]);
    } else if (!strcmp(mode, "after") && argc > 3) {
        after(argv[2], argv[3]);
    } else if (!strcmp(mode, "orphan")) {
        leave_orphan(argv[0]);
    } else if (!strcmp(mode, "idle")) {
        leave_idle();
    } else if (!strcmp(mode, "release") && argc > 2) {
        release_orphan(atoi(argv[2]));
    } else if (!strcmp(mode, "deep")) {
        own_deep(200);
        say();
    } else if (!strcmp(mode, "load")) {
        load(argv[2]);
    } else if (!strcmp(mode, "hoard")) {
        keep_many();
    } else if (!strcmp(mode, "wait")) {
        go_on();
    } else {
        churn(slots[0], 3, ROUNDS);
        say();
        if (!strcmp(mode, "quick"))
            _exit(0);
        if (!strcmp(mode, "killed"))
            raise(SIGKILL);
    }
    return 0;
}
