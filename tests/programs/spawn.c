/* spawn - children by vfork and by posix_spawn, half of the work in each kind, the parent idle. */
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

#define SPAWN_CHILDREN 4

TRUTH_FUNCTION void spawned_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION void vforked_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION int spawn_child(const char *kind, double seconds)
{
    double began = truth_clock(CLOCK_THREAD_CPUTIME_ID);

    while (truth_clock(CLOCK_THREAD_CPUTIME_ID) - began < seconds) {
        if (strcmp(kind, "--vforked") == 0)
            TRUTH_CALL(vforked_busy());
        else
            TRUTH_CALL(spawned_busy());
    }
    return 0;
}

static pid_t start_vfork(char **arguments)
{
    pid_t pid = vfork();

    if (pid == 0) {
        execv("/proc/self/exe", arguments);
        _exit(1);
    }
    return pid;
}

static pid_t start_spawn(char **arguments)
{
    pid_t pid;

    return posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, NULL) == 0 ? pid : -1;
}

static int run(double seconds)
{
    char name[] = "spawn", with_vfork[] = "--vforked", with_spawn[] = "--spawned", text[32];
    char *vforked[] = {name, with_vfork, text, NULL};
    char *spawned[] = {name, with_spawn, text, NULL};
    int status;

    snprintf(text, sizeof text, "%.6f", seconds);
    for (int i = 0; i < SPAWN_CHILDREN; i++) {
        pid_t pid = i % 2 == 0 ? start_vfork(vforked) : start_spawn(spawned);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct truth truth;
    int status = -1;

    if (argc == 3 && (strcmp(argv[1], "--vforked") == 0 || strcmp(argv[1], "--spawned") == 0))
        status = spawn_child(argv[1], atof(argv[2]));
    if (status >= 0)
        return status;
    truth = truth_begin(argc, argv);
    if (!truth.asked)
        return run(truth.seconds / SPAWN_CHILDREN);
    printf("contains vforked_busy\nstack main;spawn_child;vforked_busy\norigin start\n"
           "contains spawned_busy\nstack main;spawn_child;spawned_busy\norigin start\n");
    return 0;
}
