/* Takes all memory that the kernel will commit to (vm.overcommit_memory=2), and goes on with what it has:
 * blocks, calls by address, threads and a child that were there before. It is no administrator, for whom the
 * kernel keeps a reserve. With an argument it says so first, and does it once for each line of its standard
 * input. */
#include <linux/capability.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 100000, THREADS = 4, PIECES = 100000, MIB = 1 << 20, STACK = 256 << 10, LEAST = 4096 };

static void *blocks[BLOCKS];
static struct piece {
    void *start;
    size_t size;
} pieces[PIECES];
static size_t piece_count;
static char stacks[THREADS][STACK] __attribute__((aligned(4096)));
static pthread_barrier_t together;

static __attribute__((noinline)) unsigned long step(unsigned long x)
{
    return x * 31 + 7;
}
#define FUNCTION(n)                                                                                          \
    static __attribute__((noinline)) unsigned long function_##n(unsigned long x)                             \
    {                                                                                                        \
        return step(x) + n;                                                                                  \
    }
FUNCTION(0)
FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
static unsigned long (*const volatile functions[])(unsigned long) = {function_0, function_1, function_2,
                                                                     function_3};

static void take_all(void)
{
    for (size_t size = (size_t)1 << 30; size >= LEAST; size /= 2)
        while (piece_count < PIECES) {
            void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (start == MAP_FAILED)
                break;
            pieces[piece_count++] = (struct piece){start, size};
        }
}

static void give_all(void)
{
    while (piece_count)
        munmap(pieces[piece_count - 1].start, pieces[piece_count - 1].size), piece_count--;
}

static unsigned long work(unsigned long count)
{
    unsigned long sum = 0;
    for (unsigned long i = 0; i < count; i++) {
        blocks[i] = malloc(16 + i % 100);
        sum += functions[i % 4](i) + (blocks[i] ? 1 : 1000);
    }
    for (unsigned long i = 0; i < count; i++)
        free(blocks[i]);
    return sum;
}

static void *run(void *sum)
{
    pthread_barrier_wait(&together);
    for (unsigned long i = 0; i < 20000; i++)
        *(unsigned long *)sum += functions[i % 4](i);
    pthread_barrier_wait(&together);
    return NULL;
}

static unsigned long with_threads(void)
{
    static unsigned long sums[THREADS + 1];
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    memset(sums, 0, sizeof sums);
    pthread_barrier_init(&together, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stacks[i], STACK);
        if (pthread_create(&threads[i], &attributes, run, &sums[i]))
            _exit(3);
    }
    take_all();
    sums[THREADS] = work(BLOCKS);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sums[THREADS] += sums[i];
    }
    return sums[THREADS];
}

static int child(int wait, int tell)
{
    char byte;
    unsigned long sum = 0;
    if (read(wait, &byte, 1) == 1)
        sum = work(BLOCKS / 4);
    return write(tell, &sum, sizeof sum) == sizeof sum ? 0 : 1;
}

/* A child that is created before, and works while all is taken. */
static int once(void)
{
    int go[2], said[2], status = -1;
    unsigned long sum, childs = 0;
    if (pipe(go) || pipe(said))
        return 4;
    fflush(stdout);
    pid_t created = fork();
    if (created == 0) {
        close(go[1]); /* it ends with its parent */
        _exit(child(go[0], said[1]));
    }
    sum = with_threads();
    take_all();
    if (created < 0 || write(go[1], "", 1) != 1 || read(said[0], &childs, sizeof childs) != sizeof childs)
        childs = 0;
    give_all();
    if (created > 0)
        waitpid(created, &status, 0);
    close(go[0]), close(go[1]), close(said[0]), close(said[1]);
    printf("%lu, child %lu status %d\n", sum, childs, status);
    fflush(stdout);
    return 0;
}

static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    syscall(SYS_capset, &header, none);
}

int main(int argc, char **argv)
{
    char line[16];
    (void)argv;
    drop_capabilities();
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TRIM_THRESHOLD, 256 * MIB);
    mallopt(M_MMAP_THRESHOLD, 256 * MIB);
    char *first = malloc(32 * MIB);
    if (!first)
        return 2;
    memset(first, 1, 32 * MIB);
    free(first);
    if (argc < 2)
        return once();
    pthread_barrier_init(&together, NULL, 1); /* what the C library sets up with a first thread is done */
    pthread_t thread;
    unsigned long sum = 0;
    if (pthread_create(&thread, NULL, run, &sum) || pthread_join(thread, NULL))
        return 3;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        if (once())
            return 1;
    return 0;
}
