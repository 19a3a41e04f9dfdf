/* Six threads start programs at once, 25 each, in turn by posix_spawn, vfork and fork. Each program does the same work: 100 times a block, a
 * descriptor and a call, ten exceptions; with BURN in the environment as many milliseconds on the CPU as that says, too. With an argument it
 * begins once its standard input gives a line. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, PROGRAMS = 25, ROUNDS = 100, EXCEPTIONS = 10 };

static char *self;

extern "C" __attribute__((noinline)) int own_work(int round)
{
    void *volatile block = malloc(100 + static_cast<size_t>(round));
    int descriptor = open("/dev/null", O_RDONLY);
    close(descriptor);
    free(block);
    return descriptor;
}

extern "C" __attribute__((noinline)) int own_throw(int number)
{
    try {
        throw number;
    } catch (int caught) {
        return caught == number;
    }
}

extern "C" __attribute__((noinline)) void own_burn(long milliseconds)
{
    timespec now;
    do {
        for (volatile int i = 0; i < 10000; i = i + 1)
            ;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < milliseconds);
}

extern "C" __attribute__((noinline)) int be_program()
{
    const char *burn = getenv("BURN");
    int wrong = 0;
    for (int i = 0; i < ROUNDS; i++)
        wrong += own_work(i) < 0;
    for (int i = 0; i < EXCEPTIONS; i++)
        wrong += own_throw(i) != 1;
    if (burn)
        own_burn(atol(burn));
    return wrong != 0;
}

static pid_t start(int how)
{
    char word[] = "program", *arguments[] = {self, word, nullptr};
    pid_t pid = -1;
    if (how == 0)
        return posix_spawn(&pid, self, nullptr, nullptr, arguments, environ) ? -1 : pid;
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
        pid_t pid = start((i + static_cast<int>(reinterpret_cast<intptr_t>(argument))) % 3);
        wrong += pid < 0 || waitpid(pid, &status, 0) != pid || status;
    }
    return reinterpret_cast<void *>(wrong);
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    intptr_t wrong = 0;
    self = arguments[0];
    if (count > 1 && strcmp(arguments[1], "program") == 0)
        return be_program();
    puts("begun");
    fflush(stdout);
    if (count > 1)
        getchar();
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], nullptr, start_many, reinterpret_cast<void *>(i)))
            return 2;
    for (pthread_t thread : threads) {
        void *result;
        pthread_join(thread, &result);
        wrong += reinterpret_cast<intptr_t>(result);
    }
    printf("%d programs, %d wrong\n", THREADS * PROGRAMS, static_cast<int>(wrong));
    return wrong != 0;
}
