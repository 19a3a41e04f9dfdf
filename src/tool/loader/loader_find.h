/* loader_find.h - what of an agent lies in a process, by the process's memory alone: our mappings by their name,
 * in them home and slabs, which name the rest, and the places of the program that lead there. The first step of
 * leaving (loader_leave.c). Context: tool. */
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
    uint64_t *suspects;        /* where neither we nor the file explain what lies there */
    size_t suspect_count, suspect_capacity;
    struct loader_changes first,
        last;           /* last: of hooks that others need as long as return addresses are replaced */
    bool held, remains; /* remains: only what nobody has any more */
    struct loader_left *left;
    struct base_error *error;
};

/* `named`: with our name. */
bool loader_find_is_mapped(const struct proc_maps *maps, const struct loader_own_range *range, bool named);
/* False: there is none. */
bool loader_find_control(struct loader_leaving *leaving, struct wire_agent_control *control);
/* The process's own region, which it shows at the place of the first one (wire_agent_process.h); a child that is not
 * counted has its parent's there. */
void loader_find_process(struct loader_leaving *leaving, const struct wire_agent_control *control);
int loader_find_counts(struct loader_leaving *leaving);
/* New calls go past the agent from now on. */
void loader_find_publish(struct loader_leaving *leaving);
/* A step of loader_find: adds a mapping that bears our name to what is to be unmapped. */
int loader_find_add_mapping(struct loader_leaving *leaving, const struct proc_maps *maps,
                            const struct proc_mapping *mapping);
/* A step of loader_find: notes a mapping of ours, or a place of the program's that a hook has altered. */
int loader_find_mapping(struct loader_leaving *leaving, const struct proc_maps *maps,
                        const struct proc_mapping *mapping);
int loader_find_altered(struct loader_leaving *leaving, const struct proc_maps *maps,
                        const struct proc_mapping *mapping);
/* Every mapping of ours, as they are now. */
int loader_find(struct loader_leaving *leaving,
                int (*take)(struct loader_leaving *, const struct proc_maps *, const struct proc_mapping *));
/* One that was looked at before what explains it is not somebody else's. */
void loader_find_count_suspects(struct loader_leaving *leaving);

#endif
