/* loader_inside.h - tally's record of an agent, for loader*.c alone. Context: tool. */
#ifndef LOADER_INSIDE_H
#define LOADER_INSIDE_H

#include "elf_image.h"
#include "loader.h"
#include "loader_layout.h"
#include "proc_maps.h"
#include "trace_memory.h"

/* A file that was read. */
struct loader_file {
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* of its last change */
    struct plan_functions functions;
    struct elf_segment *segments;
    size_t segment_count;
    uint64_t low, high; /* image addresses of all segments */
    bool owns_stacks;   /* plan_image.h */
};

struct loader_plans {
    const struct loader_function *functions;
    size_t function_count;
    struct plan_function_request *requests; /* the functions' */
    const char *const *globs;               /* of images that are not changed */
    size_t glob_count;
    struct loader_file **files;
    size_t count, capacity;
};

/* --- loader_access.c: a process as it can be reached at the moment --- */

struct loader_access {
    struct helper *helper;
    pid_t pid, trace; /* trace: as the helper_trace functions take it; 0: stopped by helper_stop */
    bool held;
    struct trace_memory memory; /* when it is not held */
};

int loader_read(struct loader_access *access, uint64_t address, void *bytes, size_t size);

/* Holds the process unless it was held before. BASE_EBUSY is tried some times. */
int loader_stop(struct loader_access *access, struct helper *helper, pid_t pid, bool held_before,
                struct base_error *error);
void loader_resume(struct loader_access *access, bool held_before);

/* --- memory --- */

/* Shared by the agents of forked processes. */
struct loader_slab {
    unsigned owners;
    int file;
    uint64_t address, size;
    struct loader_x86_64_wrap *slots; /* our mapping; [0] is the head */
};

struct loader_tables {
    unsigned owners;
    int file;
    uint64_t address, span; /* of all pieces, and what they may become */
};

/* An executable mapping of a file. */
struct loader_object {
    uint64_t start, end, bias, inode;
    uint32_t device_major, device_minor;
    bool live, seen, done; /* done: its hooks were set, or refused */
    char *path;
    const struct loader_file *file; /* NULL: it could not be read */
};

struct loader_agent {
    pid_t pid;
    uint64_t started; /* of the process: the number may be another's by now */
    const struct loader_image *image;
    struct loader_plans *plans;
    struct loader_tables *tables;  /* NULL: no region */
    struct loader_access *loading; /* in `prepare` and `visit` */
    uint64_t home, home_size, base;
    uint64_t data, data_size, alive; /* data: ends with the alive page */
    struct loader_slab **slabs;
    size_t slab_count, slab_capacity;
    struct loader_object **objects; /* hooks borrow their paths */
    size_t object_count, object_capacity;
    struct loader_hook *hooks;
    size_t hook_count, hook_capacity;
};

/* --- loader_objects.c --- */

/* Reads the mappings: adds new objects with what their files have, and marks unmapped ones. */
int loader_survey(struct loader_agent *agent, struct base_error *error);

/* --- loader_slab.c --- */

struct loader_slot {
    struct loader_slab *slab;
    uint32_t index;
};
/* Takes a free slot within reach of the object; `wanted`: how many its functions may still take, which a
 * new slab is sized for. 1: there is none, and the process is not held, so that no slab can be mapped. */
int loader_slot_take(struct loader_agent *agent, struct loader_access *access,
                     const struct loader_object *object, size_t wanted, struct loader_slot *slot,
                     struct base_error *error);
/* Undoes what loader_load mapped for slabs. The process is held. A slab that a thread has been moved to
 * stays: the thread returns from there. The next load removes it. */
void loader_unmap_slabs(struct loader_agent *agent, struct loader_access *access);
void loader_slab_release(struct loader_slab *slab);

/* --- loader_leave.c --- */

/* Removes what a killed tally left. BASE_EBUSY: a running one, or this one, has an agent there; or a
 * thread is in it. */
int loader_remove_remains(struct helper *helper, pid_t pid, bool held, struct base_error *error);

/* --- loader_hooks.c --- */

/* Sets the hooks of all objects that are not done. Returns how many; BASE_EBUSY: the process must be
 * held for that. */
int loader_set_hooks(struct loader_agent *agent, struct loader_access *access, struct base_error *error);

#endif
