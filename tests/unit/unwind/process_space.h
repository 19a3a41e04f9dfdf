/* process_space.h - a live process as unwind_walk wants it: rows for every executable mapping, and memory.
 *
 * The collector has its own, which follows a process through time; this one is a single look at
 * /proc/PID/maps, for tests and benchmarks. */
#ifndef PROCESS_SPACE_H
#define PROCESS_SPACE_H

#include <sys/types.h>

#include "cfi.h"
#include "unwind.h"

struct process_mapping {
    uint64_t start, end, offset, bias;
    char path[256];
    struct unwind_rows rows;
    bool has_rows;
    void *blob;
    size_t blob_size;
};

struct process_space {
    pid_t pid;
    struct process_mapping mappings[256];
    unsigned count;
    struct unwind_space space; /* its context is this structure */
};

/* Reads the maps of `pid` again; rows of mappings that are still the same are kept. False: no such process.
 */
bool process_space_read(struct process_space *process, pid_t pid);
void process_space_free(struct process_space *process);

/* Memory of the process through process_vm_readv, as read_outside; the context is the process_space. */
bool process_space_word(void *context, uint64_t address, uint64_t *word);

const struct process_mapping *process_space_mapping(const struct process_space *process, uint64_t pc);

#endif
