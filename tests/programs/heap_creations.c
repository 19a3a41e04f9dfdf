/* Six threads start programs at once, 25 each, in turn by posix_spawn, vfork and fork; each allocates by
 * own_malloc. Each program says in the file TRUTH what it did: pid, bytes, blocks, live bytes, live blocks,
 * peak (0: not known). */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, PROGRAMS = 25, BLOCKS = 100, SIZE = 333 };

extern char **environ;
static char *self;

__attribute__((noinline, noclone)) static void *own_malloc(size_t size)
{
    void *volatile block = malloc(size);
    return block;
}

static int be_program(void)
{
    char line[64];
    const char *path = getenv("TRUTH");
    for (int i = 0; i < BLOCKS; i++)
        free(own_malloc(SIZE));
    int file = path ? open(path, O_WRONLY | O_APPEND) : -1;
    int size = snprintf(line, sizeof line, "%d %d %d 0 0 0\n", (int)getpid(), BLOCKS * SIZE, BLOCKS);
    return file >= 0 && write(file, line, (size_t)size) != size;
}

static pid_t start(int how)
{
    char *arguments[] = {self, (char[]){"program"}, NULL};
    pid_t pid = -1;
    if (how == 0)
        return posix_spawn(&pid, self, NULL, NULL, arguments, environ) ? -1 : pid;
    pid = how == 1 ? vfork() : fork();
    if (pid == 0) {
        execve(self, arguments, environ);
        _exit(9);
    }
    return pid;
}

static void *start_many(void *argument)
{
    intptr_t wrong = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        int status = 1;
        pid_t pid = start((i + (int)(intptr_t)argument) % 3);
        wrong += pid < 0 || waitpid(pid, &status, 0) != pid || status;
    }
    return (void *)wrong;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    intptr_t wrong = 0;
    self = argv[0];
    if (argc > 1)
        return be_program();
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, start_many, (void *)i))
            return 2;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (intptr_t)result;
    }
    return wrong != 0;
}
