/* loader_returns.h - replaced return addresses in a process that an agent leaves: all put back
 * (agent_call_function.c).
 *
 * Where they may stand: in the slots of pending calls, and in those that were forgotten, both of which the
 * process's own memory tells; on the stacks of threads; in registers, of a thread that is about to push one.
 * The process stands while it is looked through. What a word is to become is in the regions; nothing that is
 * no word of ours is ever changed. For loader_leave.c alone. Context: tool. */
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

/* Puts back what is found now: between two looks the process has run, and who was in the agent then may have
 * replaced one more. A thread that sleeps inside a system call has no registers, and is about to push nothing; its place
 * is known (trace_stop_locate), or 0. False: some may be left that nothing tells of, or that could not be written. */
bool loader_returns_put_back(struct loader_returns *returns, struct loader_access *access,
                             const struct trace_stop_thread *threads, size_t count);

#endif
