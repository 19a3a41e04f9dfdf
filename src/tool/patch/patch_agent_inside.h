/* patch_agent_inside.h - tally's side of an agent, for patch_agent*.c alone. Context: tool. */
#ifndef PATCH_AGENT_INSIDE_H
#define PATCH_AGENT_INSIDE_H

#include "elf_image.h"
#include "elf_maps.h"
#include "patch_agent.h"
#include "patch_agent_ledger.h"
#include "patch_memory.h"

/* A file that was looked at. */
struct patch_agent_file {
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* of its last change */
    struct patch_functions functions;
    struct elf_segment *segments;
    size_t segment_count;
    uint64_t low, high; /* image addresses of all segments */
    bool owns_stacks;   /* patch_image.h */
};

struct patch_agent_plans {
    const struct patch_agent_function *functions;
    size_t function_count;
    struct patch_function_wish *wishes; /* the functions' */
    const char *const *globs;           /* of images that are left as they are */
    size_t glob_count;
    struct patch_agent_file **files;
    size_t count, capacity;
};

/* What the open file `descriptor` (which is closed) has of the functions; kept. `path`: of the object, for
 * wishes and messages. */
int patch_agent_plans_find(struct patch_agent_plans *plans, int descriptor, const char *path,
                           const struct patch_agent_file **file, struct base_error *error);

/* --- a process as it can be reached at the moment --- */

struct patch_agent_access {
    struct patch_helper *helper;
    pid_t pid, trace; /* trace: as the patch_trace functions take it; 0: stopped by patch_helper_stop */
    bool standing;
    struct patch_memory memory; /* when it does not stand */
};

int patch_agent_read(struct patch_agent_access *access, uint64_t address, void *bytes, size_t size);

/* Stops the process unless it is held. BASE_EBUSY is tried some times. */
int patch_agent_stop(struct patch_agent_access *access, struct patch_helper *helper, pid_t pid, bool held,
                     struct base_error *error);
void patch_agent_go(struct patch_agent_access *access, bool held);

/* --- memory --- */

/* Shared by the agents of forked processes. */
struct patch_agent_slab {
    unsigned owners;
    int file;
    uint64_t address, size;
    struct patch_x86_64_wrap *slots; /* our mapping; [0] is the head */
};

struct patch_agent_tables {
    unsigned owners;
    int file;
    uint64_t address, span; /* of all pieces, and what they may become */
};

/* An executable mapping of a file. */
struct patch_agent_object {
    uint64_t start, end, bias, inode;
    uint32_t device_major, device_minor;
    bool live, seen, done; /* done: its hooks were set, or refused */
    char *path;
    const struct patch_agent_file *file; /* NULL: it could not be read */
};

struct patch_agent {
    pid_t pid;
    uint64_t started; /* of the process: the number may be another's by now */
    const struct patch_agent_image *image;
    struct patch_agent_plans *plans;
    struct patch_agent_tables *tables;  /* NULL: no region */
    struct patch_agent_access *loading; /* in `prepare` */
    uint64_t home, home_size, base;
    uint64_t data, data_size, alive; /* data: ends with the alive page */
    struct patch_agent_slab **slabs;
    size_t slab_count, slab_capacity;
    struct patch_agent_object **objects; /* hooks borrow their paths */
    size_t object_count, object_capacity;
    struct patch_agent_hook *hooks;
    size_t hook_count, hook_capacity;
};

/* --- patch_agent_objects.c --- */

/* Reads the mappings: new objects are looked at, those gone are marked. */
int patch_agent_survey(struct patch_agent *agent, struct base_error *error);

/* --- patch_agent_slab.c --- */

/* A free slot within reach of the object, and whose it is; 1: there is none, and `may_map` is false. */
int patch_agent_slot(struct patch_agent *agent, struct patch_agent_access *access,
                     const struct patch_agent_object *object, size_t wanted, bool may_map,
                     struct patch_agent_slab **slab, uint32_t *slot, struct base_error *error);
/* Undoes what patch_agent_load mapped for slabs. The process stands. One where a thread has been moved to
 * stays: its way back is in there. The next load removes it. */
void patch_agent_unmap_slabs(struct patch_agent *agent, struct patch_agent_access *access);
void patch_agent_slab_release(struct patch_agent_slab *slab);

/* --- patch_agent_leave.c --- */

/* What a killed tally left. BASE_EBUSY: a living one, or this one, has an agent there; or a thread is in
 * it. */
int patch_agent_remove_remains(struct patch_helper *helper, pid_t pid, bool held, struct base_error *error);

/* --- patch_agent_hooks.c --- */

/* Sets the hooks of all objects that are not done. Returns how many; BASE_EBUSY without a standing process:
 * it must stand for that. */
int patch_agent_set_hooks(struct patch_agent *agent, struct patch_agent_access *access,
                          struct base_error *error);

#endif
