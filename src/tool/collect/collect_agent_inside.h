/* collect_agent_inside.h - the tables of the collector inside the target, for collect_agent.c,
 * collect_agent_members.c and collect_agent_load.c alone. Context: tool, one thread. */
#ifndef COLLECT_AGENT_INSIDE_H
#define COLLECT_AGENT_INSIDE_H

#include <poll.h>

#include "base_map.h"
#include "collect_agent.h"
#include "collect_agent_counts.h"
#include "collect_agent_descriptors.h"
#include "collect_agent_file.h"
#include "collect_agent_functions.h"
#include "collect_agent_latency.h"
#include "collect_agent_modules.h"
#include "collect_agent_named_found.h"
#include "collect_agent_timing.h"
#include "collect_agent_unheard.h"
#include "collect_empty.h"
#include "collect_ended.h"
#include "collect_heap.h"
#include "collect_left.h"
#include "collect_listen.h"
#include "patch_agent.h"
#include "wire_agent_control.h"
#include "wire_agent_node.h"

struct collect_agent_family {
    struct collect_agent_file file;
    struct collect_agent_stacks stacks;
    struct base_map rows; /* image -> where its rows are */
    size_t members; /* that have not ended. 0: somebody lives who has not allocated yet, as far as is known */
    struct patch_agent *last; /* of the member that ended last: a child that comes later has the same */
    uint64_t looked_ns;
    uint8_t joined[WIRE_AGENT_REGIONS / 8];
};

struct collect_agent_member {
    pid_t pid;
    struct collect_ended end;
    struct collect_agent_family *family;
    uint32_t region;
    struct patch_agent *agent; /* NULL: nothing more is to be done to it */
    uint32_t process, thread;  /* of the profile */
    struct collect_heap_told told;
    struct collect_agent_counts_told counted;
    struct collect_empty_told empty;
    struct collect_agent_latency_told latencies;
    struct collect_agent_descriptors_told opened;
    size_t hooks;          /* that were looked at */
    bool allocates, opens; /* functions were hooked that do so */
    bool watched[3];       /* by hooks: enum collect_agent_watched */
    bool unwatchable;      /* what would have to be watched cannot be hooked */
    bool timed;            /* its threads have timers, or it was tried */
    uint32_t moves;        /* how often it was tried to give its timers the other signal */
    uint64_t begun_ns,
        clock_ns; /* CPU time of the process when they got them, and when it was looked at last */
    bool
        blind; /* objects that it loads are not told, or could not be hooked: no return address is to be replaced */
};

/* Without these functions nothing is known of what the program does with the signal. */
enum collect_agent_watched {
    COLLECT_AGENT_WATCHED_ACTION,
    COLLECT_AGENT_WATCHED_MASK,
    COLLECT_AGENT_WATCHED_OTHER
};

struct collect_agent {
    struct collect_agent_options options;
    struct collect_agent_wish wish;
    struct collect_processes *processes;
    struct profile *profile;
    struct patch_helper own, *helper; /* ours, or the host's */
    struct patch_agent_image *image;
    struct collect_agent_functions functions;
    struct patch_agent_plans *plans;
    struct collect_listen *listener;
    struct collect_agent_cookies cookies;
    struct collect_heap heap;
    struct collect_agent_counts counts;
    struct collect_agent_descriptors descriptors;
    struct collect_agent_timing timing;
    struct collect_agent_named_found found;
    struct collect_empty empty;
    bool throws;       /* a function that throws was hooked somewhere */
    bool instrumented; /* what instrumented functions call was hooked somewhere */
    struct collect_agent_family **families;
    size_t family_count, family_capacity;
    struct collect_agent_member *members;
    size_t member_count, member_capacity;
    struct collect_agent_unheard unheard;
    struct pollfd *watched;
    size_t watched_capacity;
    uint64_t told_ns, tell_cost_ns;
    uint64_t probes_ns;       /* when breakpoints are looked for next */
    uint64_t memory_most;     /* bytes of tables of one family */
    struct collect_left left; /* processes in which something stayed */
    uint64_t leaving_ns;      /* since when processes that cannot be had are waited for; 0: none was */
    uint64_t spent_ns;        /* of members that were dropped: collect_agent_timed */
    char notice[256];
};

static inline bool collect_agent_does(const struct collect_agent *agent, enum wire_agent_collector collector)
{
    return agent->options.collectors >> collector & 1;
}

/* Are return addresses replaced? */
static inline bool collect_agent_replaces(const struct collect_agent *agent)
{
    return agent->options.function_count || collect_agent_does(agent, WIRE_AGENT_FDS);
}

/* Are there times in ticks? */
static inline bool collect_agent_times(const struct collect_agent *agent)
{
    return agent->options.function_count || collect_agent_does(agent, WIRE_AGENT_INSTRUMENTED);
}

/* Is malloc_usable_size to be asked? What is behind the bytes of a resized block, and is not to be filled,
 * tells nothing else. */
static inline bool collect_agent_asks_sizes(const struct collect_agent *agent)
{
    return agent->options.overhead != PROFILE_HEAP_REQUESTED || agent->empty.flags & WIRE_AGENT_FILL;
}

/* --- collect_agent.c --- */

/* The first one is what tally says; `what` is not done, because of `why`. */
void collect_agent_note(struct collect_agent *agent, const char *what, const struct base_error *why);

/* --- collect_agent_members.c: who is counted --- */

/* Hears the family's bell. */
int collect_agent_members_listen(struct collect_agent *agent, struct collect_agent_family *family,
                                 struct base_error *error);
/* Which may be in the list of families, or not. */
void collect_agent_members_free_family(struct collect_agent *agent, struct collect_agent_family *family);
/* All that were heard of have ended: the family is freed, unless somebody has its tables mapped. */
void collect_agent_members_look_at_family(struct collect_agent *agent, struct collect_agent_family *family);

struct collect_agent_member *collect_agent_members_find(struct collect_agent *agent, pid_t pid);
/* `parent` 0: none that is counted. NULL: out of memory. Members move when one is added or dropped. */
struct collect_agent_member *collect_agent_members_add(struct collect_agent *agent,
                                                       struct collect_agent_family *family, uint32_t region,
                                                       pid_t pid, pid_t parent, bool ended);
/* The member's place is taken by the last one. */
void collect_agent_members_drop(struct collect_agent *agent, size_t index);
/* Children of all families that have come to a hook since become members. */
void collect_agent_members_join(struct collect_agent *agent);
/* What it loads from now on is not hooked: none of its functions is timed any more. */
void collect_agent_members_make_blind(struct collect_agent_member *member);
/* A child that the host could not follow loads objects without our knowing. */
bool collect_agent_members_is_told_by_host(const struct collect_agent *agent, pid_t pid);

/* --- collect_agent_load.c: what is put into a process --- */

/* The agent, and a family that begins with the process. `held`: it is traced and stopped. */
int collect_agent_load(struct collect_agent *agent, pid_t pid, bool held, struct base_error *error);
/* Who waits in the host's bell, or in ours, has mapped what nobody runs yet. The host follows the process:
 * then it is held. */
int collect_agent_load_hooks(struct collect_agent *agent, struct patch_agent *where,
                             struct base_error *error);
/* The member has loaded objects: they are told to it and hooked. A failure is noted. */
void collect_agent_load_objects(struct collect_agent *agent, struct collect_agent_member *member);
/* The program took the signal of its timers: may they have the other one, as far as is known? */
bool collect_agent_load_may_move(const struct collect_agent *agent,
                                 const struct collect_agent_member *member);
/* Makes them anew with that, if so and if nothing is under way in the program; else later, some times. */
void collect_agent_load_move(struct collect_agent *agent, struct collect_agent_member *member);

#endif
