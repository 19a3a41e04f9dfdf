/* creations FILE thread|fork|buffer|exec|object [PAUSE [START END]]: makes one after the other until its standard
 * input ends, with PAUSE milliseconds between them (5: some hundred a second); how many so far stands in FILE. A
 * fork's child calls own_work a hundred times; how many children were traced from the beginning stands behind
 * that. With `buffer` a child has memory from START to END, which its parent has unmapped. */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *thread_work(void *argument)
{
    return argument;
}

static int make_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, thread_work, NULL) || pthread_join(thread, NULL);
}

static int end_of(pid_t child)
{
    int status = -1;
    return waitpid(child, &status, 0) != child || status;
}

static __attribute__((noinline)) void own_work(int turn)
{
    __asm__ volatile("" : : "r"(turn));
}

static volatile int64_t *numbers; /* made, traced */

static int is_traced(void)
{
    char line[256];
    int tracer = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status) && sscanf(line, "TracerPid: %d", &tracer) != 1)
        ;
    return tracer != 0;
}

static int make_fork(void)
{
    pid_t child = fork();
    if (child == 0) {
        numbers[1] += is_traced();
        for (int i = 0; i < 100; i++)
            own_work(i);
        _exit(0);
    }
    return end_of(child);
}

static unsigned char *buffer_start, *buffer_end;

/* The parent unmaps it when the child has a copy. What is there already is not replaced; at first nothing is. */
static int make_buffer(void)
{
    size_t size = (size_t)(buffer_end - buffer_start);
    unsigned char *buffer = mmap(buffer_start, size, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    bool there = buffer != MAP_FAILED;
    if (!there && numbers[0] == 0)
        return 1;
    if (there)
        buffer[0] = buffer[size - 1] = 42;
    pid_t child = fork();
    if (child == 0) {
        numbers[1] += is_traced();
        poll(NULL, 0, 2);
        _exit(there && (buffer[0] != 42 || buffer[size / 2] != 0 || buffer[size - 1] != 42));
    }
    return (there && munmap(buffer, size)) || end_of(child);
}

static int make_exec(void)
{
    pid_t child;
    char *arguments[] = {"true", NULL};
    return posix_spawnp(&child, "true", NULL, NULL, arguments, environ) || end_of(child);
}

static int make_object(void)
{
    void *object = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    return !object || dlclose(object);
}

int main(int argc, char **argv)
{
    int file = argc > 2 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    if (file < 0 || ftruncate(file, 2 * sizeof(int64_t)))
        return 9;
    numbers = mmap(NULL, 2 * sizeof *numbers, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (numbers == MAP_FAILED)
        return 9;
    int (*make)(void) = argv[2][0] == 't'   ? make_thread
                        : argv[2][0] == 'f' ? make_fork
                        : argv[2][0] == 'b' ? make_buffer
                        : argv[2][0] == 'e' ? make_exec
                                            : make_object;
    int pause = argc > 3 ? atoi(argv[3]) : 5;
    if (argc > 5) {
        buffer_start = (unsigned char *)strtoull(argv[4], NULL, 16);
        buffer_end = (unsigned char *)strtoull(argv[5], NULL, 16);
    }
    puts("begun");
    fflush(stdout);
    for (struct pollfd end = {0, POLLIN, 0}; poll(&end, 1, pause) == 0; ++numbers[0])
        if (make())
            return 8;
    return 0;
}
