/* heap_sites - allocates in every way, and writes to a file what it did.
 *
 *     heap_sites FILE MODE [NUMBER [PLUGIN]]
 *
 * FILE holds a struct heap_sites (it is made, or added to). NUMBER is how many operations a thread makes. It
 * uses no stdio, so that a run with one thread has no other allocations than those it knows.
 *
 *     run        operations at random
 *     threads    in eight threads, which release each other's blocks
 *     fork       run; a child runs as well, with figures of its own (FILE.child)
 *     exec       run, then an exec that fails, then one of this program, "run" with FILE.exec
 *     exit       run, then _exit with blocks in hand
 *     kill       run, then SIGKILL itself
 *     handler    run, while a timer's handler allocates too (not in the midst of malloc: signals are blocked
 *                there)
 *     plugin     run, load PLUGIN, which allocates (heap_sites_plugin.c), unload it, and again
 *     shapes     every function that allocates, once, with what it must return */
#include "heap_sites.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE  __attribute__((noinline, noclone, section("heap_sites")))
#define SLOTS 256

extern const char __start_heap_sites[], __stop_heap_sites[];

static struct heap_sites *truth;
static const char *file_name;

static SITE void *heap_site_0(size_t size)
{
    void *volatile block = malloc(size);
    return block;
}
static SITE void *heap_site_1(size_t size)
{
    void *volatile block = malloc(size);
    return block;
}
static SITE void *heap_site_2(size_t size)
{
    void *volatile block = calloc(1, size);
    return block;
}
static SITE void *heap_site_3(void *old, size_t size)
{
    void *volatile block = realloc(old, size);
    return block;
}

static void must(bool holds)
{
    if (!holds)
        atomic_fetch_add(&truth->wrong, 1);
}

/* --- the truth --- */

static void added(unsigned site, size_t size)
{
    struct heap_sites_site *of = &truth->sites[site];
    of->total += size;
    of->count++;
    of->live_count++;
    unsigned long long live = (of->live += size), all = (truth->live += size);
    if (live > of->max)
        of->max = live;
    if (all <= truth->peak)
        return;
    truth->peak = all;
    for (unsigned i = 0; i < HEAP_SITES_SITES; i++)
        truth->sites[i].at_peak = truth->sites[i].live;
}

static void removed(unsigned site, size_t size)
{
    truth->sites[site].live -= size;
    truth->sites[site].live_count--;
    truth->live -= size;
}

/* --- operations --- */

struct block {
    unsigned char *bytes;
    size_t size;
    unsigned site;
};

struct slots {
    struct block blocks[SLOTS];
    uint32_t random;
};

static uint32_t draw(struct slots *slots)
{
    slots->random = slots->random * 1664525u + 1013904223u;
    return slots->random >> 8;
}

static struct block make(struct slots *slots)
{
    size_t size = draw(slots) % 64 == 0 ? 1 + draw(slots) % 300000 : 1 + draw(slots) % 700;
    unsigned site = draw(slots) % 3;
    struct block block = {NULL, size, site};
    block.bytes = site == 0 ? heap_site_0(size) : site == 1 ? heap_site_1(size) : heap_site_2(size);
    must(block.bytes != NULL && (site != 2 || (block.bytes[0] == 0 && block.bytes[size - 1] == 0)));
    block.bytes[0] = block.bytes[size - 1] = (unsigned char)size;
    added(site, size);
    return block;
}

static void drop(struct block *block)
{
    if (block->bytes == NULL)
        return;
    must(block->bytes[0] == (unsigned char)block->size);
    removed(block->site, block->size);
    free(block->bytes);
    block->bytes = NULL;
}

static void resize(struct slots *slots, struct block *block)
{
    size_t size = 1 + draw(slots) % 2000;
    unsigned char first = block->bytes[0];
    removed(block->site, block->size);
    unsigned char *bytes = heap_site_3(block->bytes, size);
    must(bytes != NULL && bytes[0] == first);
    bytes[0] = bytes[size - 1] = (unsigned char)size;
    *block = (struct block){bytes, size, 3};
    added(3, size);
}

static __attribute__((noinline)) void operate(struct slots *slots, unsigned number)
{
    for (unsigned i = 0; i < number; i++) {
        struct block *block = &slots->blocks[draw(slots) % SLOTS];
        if (block->bytes == NULL)
            *block = make(slots);
        else if (draw(slots) % 4 == 0)
            resize(slots, block);
        else
            drop(block);
    }
}

/* Half of what is left is released; the rest are leaks. */
static void end(struct slots *slots)
{
    for (unsigned i = 0; i < SLOTS; i += 2)
        drop(&slots->blocks[i]);
}

static struct slots own = {.random = 1};

static void run(unsigned number)
{
    operate(&own, number);
    end(&own);
}

/* --- threads --- */

static struct block exchange[64];
static pthread_mutex_t exchange_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned thread_number;

static void *work(void *argument)
{
    static __thread struct slots slots;
    slots.random = (uint32_t)(uintptr_t)argument + 99;
    for (unsigned i = 0; i < thread_number; i += 50) {
        operate(&slots, 50);
        struct block mine = make(&slots), other;
        unsigned at = draw(&slots) % 64;
        pthread_mutex_lock(&exchange_lock);
        other = exchange[at];
        exchange[at] = mine;
        pthread_mutex_unlock(&exchange_lock);
        drop(&other);
    }
    end(&slots);
    return NULL;
}

static void run_threads(unsigned number)
{
    pthread_t threads[8];
    thread_number = number;
    for (uintptr_t i = 0; i < 8; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (unsigned i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

/* --- processes --- */

static struct heap_sites *open_truth(const char *name, const char *ending)
{
    char path[4096];
    if (strlen(name) + strlen(ending) >= sizeof path)
        _exit(3);
    memcpy(path, name, strlen(name));
    memcpy(path + strlen(name), ending, strlen(ending) + 1);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct heap_sites)) != 0)
        _exit(3);
    struct heap_sites *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        _exit(3);
    memory->low = (uintptr_t)__start_heap_sites;
    memory->high = (uintptr_t)__stop_heap_sites;
    return memory;
}

/* The child has no share in the parent's blocks: it begins with none. */
static void run_fork(unsigned number)
{
    operate(&own, number);
    pid_t child = fork();
    if (child == 0) {
        truth = open_truth(file_name, ".child");
        memset(&own, 0, sizeof own);
        own.random = 4711;
        run(number / 2);
        _exit(truth->wrong != 0);
    }
    int status = -1;
    must(waitpid(child, &status, 0) == child && status == 0);
    operate(&own, number);
    end(&own);
}

static void run_exec(unsigned number, char **argv)
{
    char path[4096];
    run(number);
    char *nothing[] = {NULL};
    must(execve("/nonexistent/program", argv, nothing) == -1 && errno == ENOENT);
    operate(&own, 10);
    size_t length = strlen(file_name);
    memcpy(path, file_name, length);
    memcpy(path + length, ".exec", 6);
    char *next[] = {argv[0], path, (char[]){"run"}, argv[3], NULL};
    execv("/proc/self/exe", next);
    must(false);
}

/* --- handlers --- */

static struct slots of_handler = {.random = 77};
static void handle(int number)
{
    (void)number;
    int before = errno;
    operate(&of_handler, 3);
    errno = before;
}

static void run_handler(unsigned number)
{
    sigset_t alarm;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 200}, {0, 200}}, none = {{0, 0}, {0, 0}};
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (unsigned i = 0; i < number; i += 10) {
        sigprocmask(SIG_BLOCK, &alarm, NULL);
        operate(&own, 10);
        sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    }
    setitimer(ITIMER_REAL, &none, NULL);
    end(&own);
}

/* --- a plugin --- */

#ifdef STATIC /* a static program loads nothing */
static void run_plugin(unsigned number, const char *path)
{
    (void)path;
    run(number);
    must(false);
}
#else
static void run_plugin(unsigned number, const char *path)
{
    for (unsigned i = 0; i < 3; i++) {
        run(number);
        void *plugin = path != NULL ? dlopen(path, RTLD_NOW) : NULL;
        must(plugin != NULL);
        if (plugin == NULL)
            return;
        void *(*allocate)(size_t);
        *(void **)&allocate = dlsym(plugin, "heap_sites_plugin_allocate");
        must(allocate != NULL);
        if (allocate != NULL)
            for (unsigned j = 0; j < 100; j++)
                free(allocate(1000 + i));
        dlclose(plugin);
    }
}
#endif

static void run_shapes(void)
{
    void *blocks[12] = {malloc(1),
                        calloc(3, 5),
                        realloc(NULL, 7),
                        reallocarray(NULL, 2, 9),
                        aligned_alloc(64, 128),
                        memalign(256, 33),
                        valloc(100),
                        pvalloc(100),
                        NULL,
                        strdup("twenty-one characters"),
                        NULL,
                        NULL};
    errno = 1234;
    must(posix_memalign(&blocks[8], 512, 77) == 0 && errno == 1234);
    must(posix_memalign(&blocks[10], 3, 77) == EINVAL);
    size_t volatile huge = SIZE_MAX / 2, two = 2;
    must(malloc(huge) == NULL && errno == ENOMEM);
    must(calloc(huge, two + 1) == NULL && realloc(blocks[2], huge) == NULL);
    must(reallocarray(blocks[3], huge, two + 1) == NULL);
    must((uintptr_t)blocks[4] % 64 == 0 && (uintptr_t)blocks[5] % 256 == 0 &&
         (uintptr_t)blocks[6] % 4096 == 0);
    must((uintptr_t)blocks[8] % 512 == 0 && malloc_usable_size(blocks[5]) >= 33);
    must(memcmp(blocks[9], "twenty-one characters", 22) == 0);
    blocks[0] = realloc(blocks[0], 10000);
    for (unsigned i = 0; i < 10; i++) {
        must(blocks[i] != NULL);
        free(blocks[i]);
    }
    free(NULL);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    unsigned number = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1000;
    const char *mode = argv[2];
    file_name = argv[1];
    truth = open_truth(file_name, "");
    if (strcmp(mode, "threads") == 0)
        run_threads(number);
    else if (strcmp(mode, "fork") == 0)
        run_fork(number);
    else if (strcmp(mode, "exec") == 0)
        run_exec(number, argv);
    else if (strcmp(mode, "handler") == 0)
        run_handler(number);
    else if (strcmp(mode, "plugin") == 0)
        run_plugin(number, argc > 4 ? argv[4] : NULL);
    else if (strcmp(mode, "shapes") == 0)
        run_shapes();
    else
        run(number);
    if (strcmp(mode, "exit") == 0)
        _exit(truth->wrong != 0);
    if (strcmp(mode, "kill") == 0)
        kill(getpid(), SIGKILL);
    return truth->wrong != 0;
}
