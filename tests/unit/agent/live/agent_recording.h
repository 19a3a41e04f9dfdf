/* agent_recording.h - a command recorded with the agent, as simply as can be: for tests and measurements of
 * the agent itself.
 *
 * It is launched, given the agent at its first instruction, its doorbells are answered, its forks and execs
 * followed. Afterwards what the agent counted is there by load (one for each image that was executed) and
 * region (one for each process of it). */
#ifndef AGENT_RECORDING_H
#define AGENT_RECORDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "loader.h"
#include "process_space.h"
#include "shared_file.h"

enum { AGENT_RECORDING_LOADS = 8, AGENT_RECORDING_REGIONS = 8 };

struct agent_recording_load {
    pid_t pid;
    struct loader_agent *agents[AGENT_RECORDING_REGIONS];
    struct shared_file file;
    struct process_space space;
};

struct agent_recording {
    struct shared_request request;
    struct helper helper;
    struct loader_image *image;
    struct loader_plans *plans;
    struct loader_function functions[64];
    struct agent_recording_load *loads[AGENT_RECORDING_LOADS];
    unsigned load_count, hooks;
    pid_t pid;
    int status; /* as of wait */
    struct rusage usage;
    const char *failed; /* NULL: nothing did */
    struct base_error error;
};

/* Runs the command to its end. Zero the structure but for `request`. False: see `failed` and `error`. */
bool agent_recording_run(struct agent_recording *recording, char *const argv[]);
void agent_recording_free(struct agent_recording *recording);

struct agent_recording_figures {
    uint64_t total, count, live, live_count, max, peak, temporary, cells, nodes, losses;
};
/* Over all cells with an address in [low, high) in their stack; high 0: over all. False: no such region. */
bool agent_recording_read(struct agent_recording *recording, unsigned load, uint32_t region, uint64_t low,
                          uint64_t high, struct agent_recording_figures *figures);

#endif
