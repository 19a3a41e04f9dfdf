/* loader_find.h - finds what of an agent is in a process, by the process's memory alone: our mappings by
 * their name, in them home and slabs, which list the rest, and the places of the program that jump there.
 * The first step of leaving (loader_leave.c). Context: tool. */
#ifndef LOADER_FIND_H
#define LOADER_FIND_H

#include "loader_inside.h"
#include "loader_returns.h"
#include "loader_users.h"
#include "proc_maps.h"
#include "wire_agent_control.h"

struct loader_found {
    struct loader_own_range *items; /* what is to be unmapped */
    size_t count, capacity;
};

struct loader_changes {
    struct trace_memory_change *items;
    size_t count, capacity;
};

struct loader_leaving {
    struct loader_access access;
    struct loader_found ours;
    struct loader_users users;
    struct loader_returns returns;
    uint64_t *functions; /* that are or were hooked */
    size_t function_count, function_capacity;
    uint64_t region, region_size;
    uint32_t timer_signals[2]; /* the timers' and what they may have moved to; 0: none */
    uint32_t own_signal;       /* which of them the process has now */
    uint64_t timers;           /* run-time address of the process's timers; 0: it has no region */
    uint64_t *suspects;        /* places whose bytes are neither ours nor the file's */
    size_t suspect_count, suspect_capacity;
    struct loader_changes first;
    struct loader_changes last; /* of hooks that unwinders need as long as return addresses are replaced */
    bool held;
    bool remains; /* only what no running tally uses, this one included */
    struct loader_left *left;
    struct base_error *error;
};

/* Is all of the range mapped? `named`: with our name. */
bool loader_find_is_mapped(const struct proc_maps *maps, const struct loader_own_range *range, bool named);
/* Reads the region's control; false: there is none. */
bool loader_find_control(struct loader_leaving *leaving, struct wire_agent_control *control);
/* Finds the process's own region, which is mapped at the place of the first one (wire_agent_process.h); a
 * child that is not counted has its parent's there. */
void loader_find_process(struct loader_leaving *leaving, const struct wire_agent_control *control);
/* Finds all that the region lists: timers, threads' records, return addresses. */
int loader_find_counts(struct loader_leaving *leaving);
/* Publishes WIRE_AGENT_LEFT: new calls go past the agent from now on. */
void loader_find_publish(struct loader_leaving *leaving);
/* For loader_find: adds a mapping with our name to what is to be unmapped. */
int loader_find_add_mapping(struct loader_leaving *leaving, const struct proc_maps *maps,
                            const struct proc_mapping *mapping);
/* For loader_find: the same, and what home or a slab in it lists; then, when all jumps that are as we made
 * them are known, the places where others have changed a jump. */
int loader_find_mapping(struct loader_leaving *leaving, const struct proc_maps *maps,
                        const struct proc_mapping *mapping);
int loader_find_altered(struct loader_leaving *leaving, const struct proc_maps *maps,
                        const struct proc_mapping *mapping);
/* Calls `take` for every mapping with our name, as they are now. */
int loader_find(struct loader_leaving *leaving,
                int (*take)(struct loader_leaving *, const struct proc_maps *, const struct proc_mapping *));
/* Counts the suspects as skipped, but for those that a change found later explains. */
void loader_find_count_suspects(struct loader_leaving *leaving);

#endif
