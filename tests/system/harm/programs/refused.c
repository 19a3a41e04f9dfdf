/* What is recorded while system calls are refused (refuse.c): it calls, allocates, opens a descriptor, works for some time, has a
 * thread, loads an object, and has a child that does the same. With an argument it goes on, a line each time, until its standard input
 * ends. Of what it does itself nothing depends on calls that a filter of a test refuses. */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 200, DEPTH = 20, FAILED = 1, ENDED = 3, CHILD = 7 };

__attribute__((noinline)) static long fibonacci(long n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void require(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "wrong: %s\n", what);
    _exit(FAILED);
}

__attribute__((noinline)) static void *work(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        char *block = malloc(100 + (size_t)i);
        memset(block, i, 100);
        require(fibonacci(DEPTH) == 6765, "a number");
        free(block);
    }
    return argument;
}

static void load(void)
{
    void *object = dlopen("libm.so.6", RTLD_NOW);
    double (*root)(double) = object ? (double (*)(double))dlsym(object, "cbrt") : NULL;
    require(root && root(27) > 2.9 && root(27) < 3.1, "a root");
    dlclose(object);
}

static void work_all(void)
{
    pthread_t thread;
    int opened = open("/dev/null", O_RDONLY);
    require(opened >= 0 && close(opened) == 0, "a descriptor");
    void *result;
    require(pthread_create(&thread, NULL, work, &thread) == 0, "a thread");
    work(NULL);
    require(pthread_join(thread, &result) == 0 && result == &thread, "the thread's result");
    load();
}

static void have_child(void)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        work_all();
        _exit(CHILD);
    }
    require(child > 0 && waitpid(child, &status, 0) == child, "a child");
    require(WIFEXITED(status) && WEXITSTATUS(status) == CHILD, "the child's status");
}

int main(int count, char **arguments)
{
    (void)arguments;
    puts("begun");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    do {
        work_all();
        have_child();
        if (count > 1)
            puts("round");
        fflush(stdout);
    } while (count > 1 && poll(&input, 1, 1) == 0);
    puts("done");
    return ENDED;
}
