/* An ordinary program: calls, memory, a descriptor, a thread, a child. With an argument it works until its
 * standard input ends. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void *thread_work(void *argument)
{
    char *block = malloc(100);
    strcpy(block, "from a thread");
    *(char **)argument = block;
    return argument;
}

__attribute__((unused)) static int child_status(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(fibonacci(10));
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong: %s\n", what);
        abort();
    }
}

static void work(void)
{
    char *block = NULL;
    pthread_t thread;
    require(pthread_create(&thread, NULL, thread_work, &block) == 0, "a thread");
    pthread_join(thread, NULL);
    require(strcmp(block, "from a thread") == 0 && fibonacci(15) == 610, "a result");
#ifndef WITHOUT_CHILD /* QEMU's user mode deadlocks now and then in a fork after there was a thread */
    require(child_status() == 55, "the child's status");
#endif
    free(block);
    int descriptor = open("/dev/null", O_RDONLY);
    close(descriptor);
}

int main(int count, char **arguments)
{
    (void)arguments;
    puts("begun");
    fflush(stdout);
    work();
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (count > 1 && poll(&input, 1, 1) == 0)
        work();
    puts("done");
    return 3;
}
