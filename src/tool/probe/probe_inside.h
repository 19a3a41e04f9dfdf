/* probe_inside.h - the tables of the collector inside the target, for the files of this module. Context:
 * tool, one thread. */
#ifndef PROBE_INSIDE_H
#define PROBE_INSIDE_H

#include <poll.h>

#include "base_map.h"
#include "loader.h"
#include "loader_listen.h"
#include "probe.h"
#include "probe_functions.h"
#include "probe_named_found.h"
#include "probe_timing.h"
#include "probe_undiscovered.h"
#include "proc_ended.h"
#include "remains_left.h"
#include "shared_counts.h"
#include "shared_descriptors.h"
#include "shared_empty.h"
#include "shared_file.h"
#include "shared_heap.h"
#include "shared_latency.h"
#include "shared_modules.h"
#include "wire_agent_control.h"
#include "wire_agent_node.h"

struct probe_group {
    struct shared_file file;
    struct shared_stacks stacks;
    struct base_map rows; /* image -> where its rows are */
    /* that have not ended. 0: a process runs that has not allocated yet, as far as is known */
    size_t members;
    struct loader_agent *last; /* of the member that ended last: a child that comes later has the same */
    uint64_t looked_ns;
    uint8_t joined[WIRE_AGENT_REGIONS / 8];
};

struct probe_member {
    pid_t pid;
    struct proc_ended end;
    struct probe_group *group;
    uint32_t region;
    struct loader_agent *agent; /* NULL: nothing more is to be done to it */
    uint32_t process, thread;   /* of the profile */
    struct shared_heap_published published;
    struct shared_counts_published counted;
    struct shared_empty_published empty;
    struct shared_latency_published latencies;
    struct shared_descriptors_published opened;
    size_t hooks;          /* that were looked at */
    bool allocates, opens; /* functions were hooked that do so */
    bool watched[3];       /* by hooks: enum probe_watched */
    bool unwatchable;      /* what would have to be watched cannot be hooked */
    bool timed;            /* its threads have timers, or it was tried */
    uint32_t moves;        /* how often it was tried to give its timers the other signal */
    uint64_t begun_ns,
        clock_ns; /* CPU time of the process when they got them, and when it was looked at last */
    /* objects that it loads are not reported to us, or could not be hooked: no return address is to be
     * replaced */
    bool unobserved;
};

/* Without these functions nothing is known of what the program does with the signal. */
enum probe_watched { PROBE_WATCHED_ACTION, PROBE_WATCHED_MASK, PROBE_WATCHED_OTHER };

struct probe {
    struct probe_options options;
    struct shared_request request;
    struct sample_processes *processes;
    struct profile *profile;
    struct helper own, *helper; /* ours, or the owner's */
    struct loader_image *image;
    struct probe_functions functions;
    struct loader_plans *plans;
    struct loader_listen *listener;
    struct shared_cookies cookies;
    struct shared_heap heap;
    struct shared_counts counts;
    struct shared_descriptors descriptors;
    struct probe_timing timing;
    struct probe_named_found found;
    struct shared_empty empty;
    bool throws;       /* a function that throws was hooked somewhere */
    bool instrumented; /* what instrumented functions call was hooked somewhere */
    struct probe_group **groups;
    size_t group_count, group_capacity;
    struct probe_member *members;
    size_t member_count, member_capacity;
    struct probe_undiscovered undiscovered;
    struct pollfd *watched;
    size_t watched_capacity;
    uint64_t published_ns, publish_cost_ns;
    uint64_t probes_ns;       /* when breakpoints are looked for next */
    uint64_t memory_most;     /* bytes of tables of one group */
    struct remains_left left; /* processes in which something stayed */
    uint64_t leaving_ns;      /* since when processes that cannot be had are waited for; 0: none was */
    uint64_t spent_ns;        /* of members that were dropped: probe_timed */
    char notice[256];
};

static inline bool probe_does(const struct probe *probe, enum wire_agent_collector collector)
{
    return probe->options.collectors >> collector & 1;
}

/* Are return addresses replaced? */
static inline bool probe_replaces(const struct probe *probe)
{
    return probe->options.function_count || probe_does(probe, WIRE_AGENT_FDS);
}

/* Are there times in ticks? */
static inline bool probe_times(const struct probe *probe)
{
    return probe->options.function_count || probe_does(probe, WIRE_AGENT_INSTRUMENTED);
}

/* Is malloc_usable_size to be asked? What is behind the bytes of a resized block, and is not to be filled,
 * is known from nothing else. */
static inline bool probe_asks_sizes(const struct probe *probe)
{
    return probe->options.overhead != PROFILE_HEAP_REQUESTED || probe->empty.flags & WIRE_AGENT_FILL;
}

/* --- probe_note.c --- */

/* The first one is what tally says; `what` is not done, because of `why`. */
void probe_note(struct probe *probe, const char *what, const struct base_error *why);

/* --- probe_members.c: which processes are counted --- */

/* The listener is notified by the group's doorbell from now on. */
int probe_members_listen(struct probe *probe, struct probe_group *group, struct base_error *error);
void probe_members_forget_doorbell(struct probe *probe, const struct probe_group *group);
/* Which may be in the list of groups, or not. */
void probe_members_free_group(struct probe *probe, struct probe_group *group);

struct probe_member *probe_members_find(struct probe *probe, pid_t pid);
/* `parent` 0: none that is counted. NULL: out of memory. Members move when one is added or dropped. */
struct probe_member *probe_members_add(struct probe *probe, struct probe_group *group, uint32_t region,
                                       pid_t pid, pid_t parent, bool ended);
/* CPU time since its timers were made, ns. */
uint64_t probe_members_spent_ns(const struct probe_member *member);
/* What it loads from now on is not hooked: none of its functions is timed any more. */
void probe_members_stop_observing(struct probe_member *member);
/* Does the owner follow the process, and so report what it loads? A child that it could not follow loads
 * objects unseen. */
bool probe_members_is_followed_by_owner(const struct probe *probe, pid_t pid);

/* --- probe_load.c: what is put into a process --- */

/* The agent, and a group that begins with the process. `held`: it is traced and stopped. */
int probe_load(struct probe *probe, pid_t pid, bool held, struct base_error *error);
/* A thread that waits in the owner's doorbell, or in ours, has mapped what does not run yet. The owner
 * follows the process: then it is held. */
int probe_load_hooks(struct probe *probe, struct loader_agent *where, struct base_error *error);
/* The member has loaded objects: publishes them to the agent and hooks them. A failure is noted. */
void probe_load_objects(struct probe *probe, struct probe_member *member);
/* The program took the signal of its timers: may they have the other one, as far as is known? */
bool probe_load_may_move(const struct probe *probe, const struct probe_member *member);
/* Makes them anew with that, if so and if nothing is under way in the program; else later, some times. */
void probe_load_move(struct probe *probe, struct probe_member *member);

/* --- probe_join.c: members that come and go --- */

/* All that were discovered have ended: the group is freed, unless a process has its tables mapped. */
void probe_join_look_at_group(struct probe *probe, struct probe_group *group);
/* The member's place is taken by the last one. */
void probe_join_drop(struct probe *probe, size_t index);
/* Children of all groups that have come to a hook since become members. */
void probe_join_all(struct probe *probe);

/* --- probe_publish.c --- */

/* `final`: it does not run any more. */
void probe_publish_member(struct probe *probe, struct probe_member *member, bool final);
/* What is open in it now. */
void probe_publish_descriptors(struct probe *probe, struct probe_member *member,
                               enum shared_descriptors_look which);
/* Looks at its blocks (shared_empty.h). `pid` 0: it has ended. */
void probe_publish_blocks(const struct probe *probe, struct probe_member *member, pid_t pid);

/* --- probe_end.c --- */

/* What was never counted in a member that ends, or execs, is said. */
void probe_end_look_at(struct probe *probe, struct probe_member *member);
/* Members that have ended are published for the last time and dropped. */
void probe_end_members(struct probe *probe);

#endif
