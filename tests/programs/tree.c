/* tree [DEPTH] [WIDTH] - a tree of processes: each makes WIDTH children by fork, every second of which then
 * executes this program anew; the deepest and all others work for the same time. Each kind works in a
 * function of its own and writes its CPU time into a pipe, so the root knows what each kind used. */
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

enum kind { ROOT, FORKED, EXECUTED, KINDS };

struct report {
    int kind;
    double work, process;
};

TRUTH_FUNCTION void tree_root_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION void tree_forked_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION void tree_executed_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

static void (*const work[KINDS])(void) = {tree_root_busy, tree_forked_busy, tree_executed_busy};
static const char *const names[KINDS] = {"tree_root_busy", "tree_forked_busy", "tree_executed_busy"};

struct place {
    enum kind kind;
    long depth, width;
    double seconds;
    int pipe; /* where reports go */
    char *self;
};

TRUTH_FUNCTION void tree_live(const struct place *place);

static void become_executed(const struct place *place)
{
    char flag[] = "--child", depth[24], width[24], seconds[32], pipe_text[24];
    char *arguments[] = {place->self, flag, depth, width, seconds, pipe_text, NULL};

    snprintf(depth, sizeof depth, "%ld", place->depth);
    snprintf(width, sizeof width, "%ld", place->width);
    snprintf(seconds, sizeof seconds, "%.6f", place->seconds);
    snprintf(pipe_text, sizeof pipe_text, "%d", place->pipe);
    execv("/proc/self/exe", arguments);
    _exit(1);
}

TRUTH_FUNCTION void tree_child(const struct place *place, bool execute)
{
    if (execute)
        become_executed(place);
    TRUTH_CALL(tree_live(place));
    _exit(0);
}

TRUTH_FUNCTION void tree_work(const struct place *place)
{
    double began = truth_clock(CLOCK_THREAD_CPUTIME_ID), now = began;
    struct report report = {.kind = place->kind};

    for (; now - began < place->seconds; now = truth_clock(CLOCK_THREAD_CPUTIME_ID))
        TRUTH_CALL(work[place->kind]());
    report.work = now - began;
    report.process = truth_clock(CLOCK_PROCESS_CPUTIME_ID);
    if (write(place->pipe, &report, sizeof report) != sizeof report)
        _exit(1);
}

TRUTH_FUNCTION void tree_live(const struct place *place)
{
    struct place child = *place;
    pid_t pid;

    child.depth--;
    for (long i = 0; i < place->width && place->depth > 0; i++) {
        child.kind = i % 2 == 1 ? EXECUTED : FORKED;
        pid = fork();
        if (pid == 0)
            tree_child(&child, child.kind == EXECUTED);
        if (pid < 0)
            _exit(1);
    }
    TRUTH_CALL(tree_work(place));
    while (wait(NULL) > 0)
        ;
}

static void print_truth(void)
{
    printf("contains tree_root_busy\nstack main;tree_live;tree_work;tree_root_busy\norigin start\n"
           "contains tree_forked_busy\nstack main;**;tree_child;tree_live;tree_work;tree_forked_busy\norigin "
           "start\n"
           "contains tree_executed_busy\nstack main;tree_live;tree_work;tree_executed_busy\norigin start\n");
}

/* What every process used, by kind; the write end is closed by then. */
static void print_shares(int read_end)
{
    struct report report;
    double seconds[KINDS] = {0}, all = 0;
    int processes = 0;

    for (; read(read_end, &report, sizeof report) == sizeof report; processes++) {
        seconds[report.kind] += report.work;
        all += report.process;
    }
    for (int kind = 0; kind < KINDS; kind++)
        truth_share(names[kind], seconds[kind]);
    printf("processes %d\nprocess %.9f\n", processes, all);
}

int main(int argc, char **argv)
{
    struct truth truth;
    int ends[2];

    if (argc == 6 && strcmp(argv[1], "--child") == 0) {
        struct place place = {EXECUTED, atol(argv[2]), atol(argv[3]), atof(argv[4]), atoi(argv[5]), argv[0]};
        TRUTH_CALL(tree_live(&place));
        return 0;
    }
    truth = truth_begin(argc, argv);
    if (truth.asked) {
        print_truth();
        return 0;
    }
    if (pipe(ends) != 0)
        return 1;
    {
        struct place place = {
            ROOT, truth_number(&truth, 0, 2), truth_number(&truth, 1, 3), truth.seconds, ends[1], argv[0]};
        TRUTH_CALL(tree_live(&place));
    }
    close(ends[1]);
    print_shares(ends[0]);
    return 0;
}
