/* loader_returns.h - puts back all replaced return addresses in a process that an agent leaves
 * (agent_call_function.c).
 *
 * They may be in the slots of pending calls, and in stale slots, both of which the process's own memory
 * lists; on the stacks of threads; in registers of a thread that is about to push one. The process is held
 * while it is searched. The regions hold what a word is to become; only words of ours are ever changed. For
 * loader_find.c, loader_leave.c and loader_users.c. Context: tool. */
#ifndef LOADER_RETURNS_H
#define LOADER_RETURNS_H

#include <stdbool.h>

#include "loader_inside.h"
#include "wire_agent_control.h"
#include "wire_agent_layout.h"

struct loader_returns {
    struct wire_agent_control control;
    uint64_t region; /* run-time address of the file; 0: there is none */
    uint64_t start;  /* of the blocks; 0: nothing was ever replaced */
    uint64_t *real;  /* by block */
    struct wire_agent_layout layout;
    uint64_t own; /* run-time address of the process's struct wire_agent_own; 0: not known */
};

/* `control` at `region`, checked. */
int loader_returns_begin(struct loader_returns *returns, const struct wire_agent_control *control,
                         uint64_t region, struct base_error *error);
void loader_returns_free(struct loader_returns *returns);

/* Puts back what is found now: between two looks the process has run, and a thread that was in the agent
 * then may have replaced one more. The registers of a thread that sleeps inside a system call cannot be
 * read, but it is about to push nothing; its sp is known (trace_stop_locate), or 0. False: some may be
 * left that no list has, or that could not be written. */
bool loader_returns_put_back(struct loader_returns *returns, struct loader_access *access,
                             const struct trace_stop_thread *threads, size_t count);

#endif
