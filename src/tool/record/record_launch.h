/* record_launch.h - starting the program to be recorded, and restoring for it what Tally changed of itself.
 *
 * The child waits, before it becomes the program, until its events are open (they start by themselves at
 * exec), and reports through a pipe that closes on exec when exec fails. It gets back what Tally changed of
 * itself: signal mask, priority and descriptor limit (Tally blocks signals, it never changes how they are
 * handled). It stays in Tally's process group, so that the terminal's signals reach it as they would without
 * Tally. Context: tool, one thread. */
#ifndef RECORD_LAUNCH_H
#define RECORD_LAUNCH_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base_error.h"

struct record_launch {
    pid_t pid;
    int go;     /* write end: the child waits for a byte */
    int failed; /* read end: errno of a failed exec, or end of file */
};

/* What the child is to find as Tally's own parent left it. */
struct record_launch_inherited {
    struct rlimit descriptors; /* rlim_max 0: not known, left as they are */
    sigset_t signals;          /* blocked ones */
    int nice;                  /* as setpriority takes it */
    pid_t tracer;              /* may trace the program besides its ancestors (Yama); 0: none */
};

/* Forks. argv[0] is looked up in PATH when the child is released. */
int record_launch_prepare(struct record_launch *launch, char *const *argv,
                          const struct record_launch_inherited *inherited, struct base_error *error);

/* Releases the child. BASE_OK: the program runs. BASE_ENOTFOUND: no such command (exit status 127);
 * BASE_EPERMISSION: it cannot be executed (126). The child is gone then. */
int record_launch_go(struct record_launch *launch, const char *command, struct base_error *error);

/* Ends a child that was never released. */
void record_launch_abandon(struct record_launch *launch);

#endif
