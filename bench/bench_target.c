/* bench_target.c - runs a program and writes down what that program used, whoever profiles it.
 *
 *     bench_target FILE COMMAND [ARGUMENTS...]
 *
 * A profiler's own CPU must not be counted as the target's, so the target runs below this launcher and the
 * profiler above it. FILE gets one line: user and system CPU, wall-clock time, and the moment of the end, all
 * in nanoseconds, the last by CLOCK_MONOTONIC, so that the harness knows how long after it the prompt came
 * back. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static long long nanoseconds(const struct timeval *time)
{
    return time->tv_sec * 1000000000ll + time->tv_usec * 1000ll;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_target FILE COMMAND [ARGUMENTS...]\n");
        return 2;
    }
    long long start = now();
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    struct rusage used;
    int status;
    if (child < 0 || wait4(child, &status, 0, &used) != child) {
        perror("bench_target");
        return 2;
    }
    long long end = now();
    FILE *out = fopen(argv[1], "w");
    if (!out) {
        perror(argv[1]);
        return 2;
    }
    fprintf(out, "%lld %lld %lld %lld\n", nanoseconds(&used.ru_utime), nanoseconds(&used.ru_stime),
            end - start, end);
    fclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
