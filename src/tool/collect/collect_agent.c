#include "collect_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent_blob.h"
#include "base_array.h"
#include "collect_agent_counts.h"
#include "collect_agent_descriptors.h"
#include "collect_agent_file.h"
#include "collect_agent_functions.h"
#include "collect_agent_latency.h"
#include "collect_agent_layers.h"
#include "collect_agent_modules.h"
#include "collect_agent_named_found.h"
#include "collect_agent_proc.h"
#include "collect_agent_timer.h"
#include "collect_agent_timing.h"
#include "collect_agent_unheard.h"
#include "collect_empty.h"
#include "collect_heap.h"
#include "collect_listen.h"
#include "collect_record.h"
#include "elf_maps.h"
#include "patch_agent.h"
#include "patch_target.h"
#include "wire_loss.h"

enum {
    PATIENCE_MS = 1000,
    TELL_SHARE = 20,      /* telling may take one part in so many of the time */
    LOOK_NS = 1000000000, /* for who is left of a family */
};

struct family {
    struct collect_agent_file file;
    struct collect_agent_stacks stacks;
    struct base_map rows; /* image -> where its rows are */
    size_t members; /* that have not ended. 0: somebody lives who has not allocated yet, as far as is known */
    struct patch_agent *last; /* of the member that ended last: a child that comes later has the same */
    uint64_t looked_ns;
    uint8_t joined[WIRE_AGENT_REGIONS / 8];
};

struct member {
    pid_t pid;
    int pidfd; /* -1: it has ended already, or cannot be watched */
    struct family *family;
    uint32_t region;
    struct patch_agent *agent; /* NULL: nothing more is to be done to it */
    uint32_t process, thread;  /* of the profile */
    struct collect_heap_told told;
    struct collect_agent_counts_told counted;
    struct collect_empty_told empty;
    struct collect_agent_latency_told latencies;
    struct collect_agent_descriptors_told opened;
    size_t hooks; /* that were looked at */
    bool allocates;
    bool watched[3];  /* by hooks: enum watched */
    bool unwatchable; /* what would have to be watched cannot be hooked */
    bool timed;       /* its threads have timers, or it was tried */
    uint64_t begun_ns,
        clock_ns; /* CPU time of the process when they got them, and when it was looked at last */
    bool
        blind; /* objects that it loads are not told, or could not be hooked: no return address is to be replaced */
};

/* Without these functions nothing is known of what the program does with the signal. */
enum watched { WATCHED_ACTION, WATCHED_MASK, WATCHED_OTHER };

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
    struct family **families;
    size_t family_count, family_capacity;
    struct member *members;
    size_t member_count, member_capacity;
    struct collect_agent_unheard unheard;
    struct pollfd *watched;
    size_t watched_capacity;
    uint64_t told_ns, tell_cost_ns;
    uint64_t memory_most; /* bytes of tables of one family */
    uint64_t memory_left; /* bytes that stayed in targets */
    uint64_t spent_ns;    /* of members that were dropped: collect_agent_timed */
    char notice[256];
};

static void note(struct collect_agent *agent, const char *what, const struct base_error *why)
{
    if (!agent->notice[0])
        snprintf(agent->notice, sizeof agent->notice, "%.60s: %.190s", what, why->text);
    profile_set_meta(agent->profile, "agent_notice", agent->notice);
}

static void take_note(void *agent, const char *what, const struct base_error *why)
{
    note(agent, what, why);
}

static uint64_t since_start(const struct collect_agent *agent)
{
    uint64_t now = patch_target_now(), start = agent->processes->start_ns;
    return now > start ? now - start : 0;
}

static bool counts(const struct collect_agent *agent, enum wire_agent_collector collector)
{
    return agent->options.collectors >> collector & 1;
}

/* Are return addresses replaced? */
static bool replaces(const struct collect_agent *agent)
{
    return agent->options.function_count || counts(agent, WIRE_AGENT_FDS);
}

/* Are there times in ticks? */
static bool times(const struct collect_agent *agent)
{
    return agent->options.function_count || counts(agent, WIRE_AGENT_INSTRUMENTED);
}

/* --- making and freeing --- */

/* Is malloc_usable_size to be asked? What is behind the bytes of a resized block, and is not to be filled, tells nothing else. */
static bool asks_sizes(const struct collect_agent *agent)
{
    return agent->options.overhead != PROFILE_HEAP_REQUESTED || agent->empty.flags & WIRE_AGENT_FILL;
}

static int make_plans(struct collect_agent *agent, struct base_error *error)
{
    const struct collect_agent_functions_wish wish = {.heap = counts(agent, WIRE_AGENT_HEAP),
                                                      .maps = counts(agent, WIRE_AGENT_MAP),
                                                      .throws = counts(agent, WIRE_AGENT_THROWS),
                                                      .named = agent->options.named,
                                                      .descriptors = counts(agent, WIRE_AGENT_FDS),
                                                      .instrumented = counts(agent, WIRE_AGENT_INSTRUMENTED),
                                                      .timed = agent->options.functions,
                                                      .timed_count = agent->options.function_count,
                                                      .timers = counts(agent, WIRE_AGENT_TIME),
                                                      .hosted = agent->options.host != NULL,
                                                      .ends = agent->empty.flags != 0 ||
                                                              counts(agent, WIRE_AGENT_FDS),
                                                      .sizes = asks_sizes(agent)};
    int result = patch_agent_image_open(agent_blob, agent_blob_size, &agent->image, error);
    if (result == BASE_OK)
        result = collect_agent_functions_make(&agent->functions, agent->image, &wish, error);
    if (result < 0)
        return result;
    agent->plans = patch_agent_plans_new(agent->functions.items, agent->functions.count);
    agent->found = (struct collect_agent_named_found){
        .named = agent->options.named ? agent->options.named->items : NULL,
        .named_count = agent->functions.named,
        .timed = agent->options.functions,
        .timed_count = agent->options.function_count,
        .profile = agent->profile,
        .note = take_note,
        .context = agent,
    };
    return agent->plans ? collect_agent_named_found_begin(&agent->found, error)
                        : base_fail(error, BASE_ENOMEM, "out of memory");
}

static int begin_timing(struct collect_agent *agent, struct base_error *error)
{
    if (!replaces(agent) && !times(agent))
        return BASE_OK;
    int result = collect_agent_timing_begin(&agent->timing, times(agent), error);
    if (result == BASE_OK)
        agent->wish.ns_of_ticks = collect_agent_timing_fixed(&agent->timing);
    return result;
}

static int init_figures(struct collect_agent *agent, struct base_error *error)
{
    int result = counts(agent, WIRE_AGENT_HEAP)
                     ? collect_heap_init(&agent->heap, agent->profile, agent->options.sample_bytes, error)
                     : collect_heap_init_idle(&agent->heap, agent->profile, error);
    agent->heap.samples_only = agent->options.collectors == 1u << WIRE_AGENT_TIME;
    if (result == BASE_OK)
        result = collect_agent_counts_init(&agent->counts, agent->profile, agent->options.collectors,
                                           agent->options.timers.clock == WIRE_AGENT_CLOCK_USER, error);
    if (result == BASE_OK && counts(agent, WIRE_AGENT_FDS))
        result = collect_agent_descriptors_init(&agent->descriptors, agent->profile, error);
    return result == BASE_OK ? collect_empty_init(&agent->empty, agent->profile, agent->options.empty, error)
                             : result;
}

static uint32_t flags_of(const struct collect_agent_options *options, const struct collect_empty *empty)
{
    return empty->flags | (options->follow ? WIRE_AGENT_FOLLOW : 0u) |
           (options->overhead == PROFILE_HEAP_INCLUDE ? WIRE_AGENT_INCLUDE : 0u) |
           (options->overhead == PROFILE_HEAP_DELTA ? WIRE_AGENT_DELTA : 0u);
}

int collect_agent_new(const struct collect_agent_options *options, struct collect_processes *processes,
                      struct collect_agent **made, struct base_error *error)
{
    struct collect_agent *agent = calloc(1, sizeof *agent);
    if (!agent)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    agent->options = *options;
    agent->processes = processes;
    agent->profile = processes->profile;
    agent->own.socket = -1;
    agent->helper = options->host ? options->host : &agent->own;
    int result = init_figures(agent, error);
    agent->wish =
        (struct collect_agent_wish){.memory = options->memory ? options->memory : COLLECT_AGENT_MEMORY,
                                    .flags = flags_of(options, &agent->empty),
                                    .sample_bytes = options->sample_bytes,
                                    .seed = patch_target_now(),
                                    .patience_ms = PATIENCE_MS,
                                    .timers = options->timers};
    if (result == BASE_OK && !options->host)
        result = patch_helper_begin(&agent->own, error);
    if (result == BASE_OK)
        result = make_plans(agent, error);
    if (result == BASE_OK)
        result = collect_listen_new(processes->start_ns, &agent->listener, error);
    if (result == BASE_OK)
        result = begin_timing(agent, error);
    if (result == BASE_OK && counts(agent, WIRE_AGENT_HEAP))
        profile_set_meta(agent->profile, "heap_overhead", profile_heap_overhead_name(options->overhead));
    if (result < 0) {
        collect_agent_free(agent);
        return result;
    }
    *made = agent;
    return BASE_OK;
}

static int listen_to(struct collect_agent *agent, struct family *family, struct base_error *error)
{
    struct wire_agent_control *control = collect_agent_file_control(&family->file);
    return collect_listen_add(agent->listener, &control->bell, &control->now_ns, error);
}

static void forget_bell(struct collect_agent *agent, const struct family *family)
{
    if (family->file.bytes)
        collect_listen_forget(agent->listener, &collect_agent_file_control(&family->file)->bell);
}

static void free_family(struct collect_agent *agent, struct family *family)
{
    int file = family->file.file;
    for (size_t i = 0; i < agent->family_count; i++)
        if (agent->families[i] == family)
            agent->families[i] = agent->families[--agent->family_count];
    forget_bell(agent, family);
    collect_agent_timing_keep(&agent->timing, &family->file);
    collect_agent_file_end(&family->file);
    if (file >= 0)
        close(file);
    base_map_free(&family->rows);
    patch_agent_free(family->last);
    free(family);
}

static void join_children(struct collect_agent *agent, struct family *family);

/* All that were heard of have ended. A child that has not allocated yet was not, and will go on in the family's tables: they stay as
 * long as somebody has them mapped. */
static void look_at_family(struct collect_agent *agent, struct family *family)
{
    struct base_error why = {0};
    forget_bell(agent, family);
    int outlives = collect_agent_file_outlives(&family->file, &why);
    if (outlives > 0 && listen_to(agent, family, &why) < 0)
        outlives = BASE_ENOMEM;
    if (outlives >= 0)
        join_children(agent, family); /* who came since the last look, and may have ended */
    else
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    family->looked_ns = patch_target_now();
    if (outlives <= 0 && !family->members)
        free_family(agent, family);
}

static uint64_t spent_ns(const struct member *member)
{
    return member->clock_ns > member->begun_ns ? member->clock_ns - member->begun_ns : 0;
}

/* The member's place is taken by the last one. */
static void drop_member(struct collect_agent *agent, size_t index)
{
    struct member *member = &agent->members[index];
    struct family *family = member->family;
    agent->spent_ns += spent_ns(member);
    if (member->agent) {
        patch_agent_free(family->last);
        family->last = member->agent;
    }
    if (member->pidfd >= 0)
        close(member->pidfd);
    collect_heap_told_free(&member->told);
    collect_agent_counts_told_free(&member->counted);
    collect_empty_told_free(&member->empty);
    collect_agent_latency_told_free(&member->latencies);
    collect_agent_descriptors_told_free(&member->opened);
    *member = agent->members[--agent->member_count];
    if (--family->members == 0)
        look_at_family(agent, family);
}

void collect_agent_free(struct collect_agent *agent)
{
    if (!agent)
        return;
    patch_helper_end(&agent->own);
    while (agent->member_count)
        drop_member(agent, agent->member_count - 1);
    while (agent->family_count)
        free_family(agent, agent->families[0]);
    collect_agent_unheard_free(&agent->unheard);
    collect_listen_free(agent->listener);
    patch_agent_plans_free(agent->plans);
    patch_agent_image_close(agent->image);
    collect_agent_cookies_free(&agent->cookies);
    collect_agent_timing_end(&agent->timing);
    collect_agent_named_found_end(&agent->found);
    free(agent->functions.items);
    free(agent->families);
    free(agent->members);
    free(agent->watched);
    free(agent);
}

pid_t collect_agent_helper(const struct collect_agent *agent)
{
    return agent->helper->pid;
}

void collect_agent_files(const struct collect_agent *agent, int files[2])
{
    files[0] = agent->options.host ? -1 : agent->helper->socket;
    files[1] = collect_listen_file(agent->listener);
}

void collect_agent_restart(struct collect_agent *agent)
{
    collect_listen_restart(agent->listener, agent->processes->start_ns);
}

const char *collect_agent_notice(const struct collect_agent *agent)
{
    return agent->notice;
}

/* --- members --- */

static struct member *find_member(struct collect_agent *agent, pid_t pid)
{
    for (size_t i = agent->member_count; i-- > 0;)
        if (agent->members[i].pid == pid)
            return &agent->members[i];
    return NULL;
}

/* A child that may be gone already is not asked for in /proc: it has its parent's name; or everything about it was told before we came
 * to hear of it. */
static struct collect_process *process_of(struct collect_agent *agent, pid_t pid, pid_t parent, bool ended)
{
    struct collect_task task = {.pid = (uint32_t)pid,
                                .tid = (uint32_t)pid,
                                .parent_pid = (uint32_t)parent,
                                .parent_tid = (uint32_t)parent,
                                .time = patch_target_now()};
    if (ended && base_map_find(&agent->processes->by_pid, (uint64_t)pid) != BASE_MAP_NONE)
        return collect_processes_latest(agent->processes, pid, task.time);
    if (parent && !collect_processes_knows(agent->processes, pid))
        collect_processes_on_fork(agent->processes, &task);
    return collect_processes_get(agent->processes, pid, task.time);
}

/* `parent` 0: none that is counted. */
static struct member *add_member(struct collect_agent *agent, struct family *family, uint32_t region,
                                 pid_t pid, pid_t parent, bool ended)
{
    int pidfd = ended ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    struct collect_process *process = process_of(agent, pid, parent, ended || (pidfd < 0 && errno == ESRCH));
    bool room = process && base_array_room(agent->members, agent->member_count, agent->member_capacity);
    uint32_t thread = room ? profile_thread(agent->profile, process->profile_process, 0) : 0;
    if (!thread) {
        if (pidfd >= 0)
            close(pidfd);
        return NULL;
    }
    profile_set_thread_name(agent->profile, thread, "(all threads)");
    struct member *member = &agent->members[agent->member_count++];
    *member = (struct member){.pid = pid,
                              .pidfd = pidfd,
                              .family = family,
                              .region = region,
                              .process = process->profile_process,
                              .thread = thread};
    if (replaces(agent) && collect_agent_timing_add(&agent->timing, pid, &family->file, region, NULL) < 0)
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    family->members++;
    family->joined[region / 8] |= (uint8_t)(1u << region % 8);
    return member;
}

/* --- telling --- */

static struct collect_agent_descriptors_place place_of(const struct member *member)
{
    return (struct collect_agent_descriptors_place){&member->family->file, member->region, member->pid};
}

static void look_at_descriptors(struct collect_agent *agent, struct member *member,
                                enum collect_agent_descriptors_look which)
{
    const struct collect_agent_descriptors_place place = place_of(member);
    collect_agent_descriptors_look(&agent->descriptors, &place, &member->opened, which);
}

static int tell_counts(struct collect_agent *agent, const struct collect_agent_tree *tree,
                       struct member *member, bool final, struct base_error *error)
{
    const struct collect_agent_descriptors_place place = place_of(member);
    const struct collect_agent_descriptors_whose whose = {member->process, member->thread, since_start(agent),
                                                          final};
    struct collect_agent_nodes nodes = {.profile = agent->profile,
                                        .tree = tree,
                                        .cookies = agent->cookies.items,
                                        .cookie_count = agent->cookies.count,
                                        .special_unknown = agent->heap.special_unknown};
    int result = collect_agent_counts_tell(&agent->counts, &nodes, &member->counted, member->thread, error);
    if (result == BASE_OK && agent->options.function_count)
        result = collect_agent_latency_tell(&nodes, &member->latencies, member->process,
                                            agent->counts.ns_of_tick, error);
    if (result == BASE_OK)
        result = collect_agent_descriptors_tell(&agent->descriptors, &place, &nodes, &member->opened, &whose,
                                                error);
    return result == BASE_OK
               ? collect_empty_tell(&agent->empty, &nodes, &member->empty, member->thread, final, error)
               : result;
}

/* `pid` 0: it has ended. */
static void look_at_blocks(const struct collect_agent *agent, struct member *member, pid_t pid)
{
    collect_empty_look(&agent->empty, &member->family->file, member->region, pid, &member->empty);
}

/* Of a process that has ended, unless it was looked at. An exec that failed is told without waiting: we may not have heard of it. */
static void settle_last(const struct collect_agent *agent, struct member *member)
{
    const struct wire_agent_process *process =
        collect_agent_file_process(&member->family->file, member->region);
    if (!member->empty.looked ||
        __atomic_load_n(&process->request, __ATOMIC_ACQUIRE) & WIRE_AGENT_EXEC_FAILED)
        look_at_blocks(agent, member, 0);
}

static void look_at_clock(const struct collect_agent *agent, struct member *member)
{
    bool timed = counts(agent, WIRE_AGENT_TIME) && (member->timed || member->region);
    uint64_t now = timed ? collect_agent_timer_clock(member->pid, agent->options.timers.clock) : 0;
    member->clock_ns = now > member->clock_ns ? now : member->clock_ns;
}

/* It took for itself what timers cannot be beside (agent_watch.c). */
static void look_at_claim(struct collect_agent *agent, const struct member *member)
{
    struct base_error why = {0};
    const struct wire_agent_process *process =
        collect_agent_file_process(&member->family->file, member->region);
    if (__atomic_load_n(&process->timing, __ATOMIC_RELAXED) != WIRE_AGENT_CLAIMED)
        return;
    base_fail(&why, BASE_EUSAGE,
              "process %d uses " COLLECT_AGENT_TIMER_SIGNAL_NAME
              " itself, or set a seccomp filter, or made an io_uring; it is not sampled any more",
              (int)member->pid);
    note(agent, "time", &why);
}

static void tell_member(struct collect_agent *agent, struct member *member, bool final)
{
    struct collect_agent_tree tree;
    struct base_error why = {0};
    uint64_t used = collect_agent_file_used(&member->family->file);
    if (used > agent->memory_most)
        agent->memory_most = used;
    agent->heap.cookies = agent->cookies.items;
    agent->heap.cookie_count = agent->cookies.count;
    agent->counts.ns_of_tick = times(agent) ? collect_agent_timing_ns(&agent->timing) : 1;
    if (final)
        settle_last(agent, member);
    int result = collect_agent_file_read(&member->family->file, member->region, &tree, &why);
    if (result == BASE_OK) {
        look_at_claim(agent, member);
        look_at_clock(agent, member);
        result = collect_heap_tell(&agent->heap, &tree, &member->told, member->process, member->thread,
                                   since_start(agent), final, &why);
        if (result == BASE_OK)
            result = tell_counts(agent, &tree, member, final, &why);
        collect_agent_tree_free(&tree);
    }
    if (result < 0)
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

void collect_agent_tell(struct collect_agent *agent)
{
    uint64_t now = patch_target_now();
    if (now - agent->told_ns < agent->tell_cost_ns * TELL_SHARE)
        return;
    for (size_t i = 0; i < agent->member_count; i++) {
        look_at_descriptors(agent, &agent->members[i], COLLECT_AGENT_DESCRIPTORS_NAMES);
        tell_member(agent, &agent->members[i], false);
    }
    agent->told_ns = patch_target_now();
    agent->tell_cost_ns = agent->told_ns - now;
}

/* --- what was hooked --- */

static void look_at_layers(struct collect_agent *agent, struct member *member)
{
    const struct collect_agent_layers_wish wish = {agent->functions.items, agent->functions.allocators,
                                                   asks_sizes(agent)};
    struct base_error why = {0};
    const char *unknown =
        collect_agent_layers(&member->family->file, member->region, member->pid, member->agent, &wish);
    if (!unknown)
        return;
    base_fail(&why, BASE_ENOTFOUND, "%s has no malloc_usable_size", unknown);
    note(agent, agent->empty.counter ? "what realloc adds is not filled" : "blocks are counted as requested",
         &why);
}

/* Is the function of a hook to be timed? Its number among those. */
static bool is_timed(const struct collect_agent *agent, const struct patch_agent_hook *hook, size_t *number)
{
    size_t first = agent->functions.timed;
    *number = hook->function - first;
    return hook->function >= first && *number < agent->options.function_count;
}

/* Whatever unwinds must be hooked, else nothing is timed: told in the region, which children inherit. */
static void look_at_unwinders(struct collect_agent *agent, const struct member *member,
                              const struct patch_agent_hook *hooks, size_t count)
{
    struct wire_agent_process *process = collect_agent_file_process(&member->family->file, member->region);
    const char *hidden = member->family->stacks.hidden_unwinder;
    struct base_error why = {0};
    bool timed = !*hidden;
    if (*hidden)
        base_fail(&why, BASE_EUNSUPPORTED, "%s has an unwinder of its own", hidden);
    for (size_t i = 0; i < count; i++) {
        if (hooks[i].state != PATCH_AGENT_REFUSED ||
            !collect_agent_functions_unwinds(&agent->functions, hooks[i].function))
            continue;
        timed = false;
        base_fail(&why, BASE_EUNSUPPORTED, "%s of %s cannot be hooked", hooks[i].name, hooks[i].path);
    }
    timed = timed && collect_agent_timing_allows(member->pid, &why) == BASE_OK;
    if (member->blind)
        base_fail(&why, BASE_EUNSUPPORTED, "what process %d loads may unwind, and is not hooked",
                  (int)member->pid);
    timed = timed && !member->blind;
    if (!timed)
        note(agent,
             agent->options.function_count ? "functions are counted, not timed"
                                           : "what opens descriptors is not seen",
             &why);
    __atomic_store_n(&process->timed, timed, __ATOMIC_RELEASE);
}

static enum watched watched_by(const struct collect_agent *agent, const struct patch_agent_hook *hook)
{
    uint64_t entry = agent->functions.items[hook->function].cookie & 255;
    return entry == WIRE_AGENT_ENTRY_ACTION ? WATCHED_ACTION
           : entry == WIRE_AGENT_ENTRY_MASK ? WATCHED_MASK
                                            : WATCHED_OTHER;
}

static void note_hooked(struct collect_agent *agent, struct member *member,
                        const struct patch_agent_hook *hook)
{
    size_t allocators = agent->functions.allocators;
    member->allocates |= hook->function < allocators;
    agent->instrumented |= collect_agent_functions_instruments(&agent->functions.items[hook->function]);
    agent->throws |= hook->function >= allocators && hook->function - allocators < agent->functions.throwers;
    if (hook->function - agent->functions.first_timer < agent->functions.timers)
        member->watched[watched_by(agent, hook)] = true;
}

/* Hooks are looked at once each. */
static void look_at_hooks(struct collect_agent *agent, struct member *member)
{
    const struct patch_agent_hook *hooks;
    size_t count = patch_agent_hooks(member->agent, &hooks), number;
    for (size_t i = member->hooks; i < count; i++) {
        struct base_error why = {0};
        if (is_timed(agent, &hooks[i], &number))
            agent->found.is_timed_found[number] = true;
        else if (hooks[i].state == PATCH_AGENT_HOOKED && agent->functions.items[hooks[i].function].alone)
            collect_agent_named_found_taken(&agent->found, hooks[i].name, hooks[i].path);
        if (hooks[i].function < agent->functions.named)
            agent->found.is_named_found[hooks[i].function] = true;
        if (hooks[i].state == PATCH_AGENT_HOOKED)
            note_hooked(agent, member, &hooks[i]);
        if (hooks[i].state != PATCH_AGENT_REFUSED)
            continue;
        member->unwatchable |= hooks[i].function - agent->functions.first_timer < agent->functions.timers;
        profile_lose(agent->profile, WIRE_LOSS_AGENT_REFUSED, 1);
        base_fail(&why, BASE_EUNSUPPORTED, "%s of %s: %s", hooks[i].name, hooks[i].path,
                  patch_reason_text(hooks[i].reason));
        note(agent, "not hooked", &why);
    }
    if (count > member->hooks)
        look_at_layers(agent, member);
    if (replaces(agent))
        look_at_unwinders(agent, member, hooks, count);
    member->hooks = count > member->hooks ? count : member->hooks;
}

/* --- timers --- */

/* As soon as the C library is there, and its functions hooked: a child of fork has what its parent has. */
static void consider_timers(struct collect_agent *agent, struct member *member, bool held)
{
    struct base_error why = {0};
    struct collect_agent_timer_place place = {agent->image, &member->family->file, agent->options.timers,
                                              member->pid};
    if (!counts(agent, WIRE_AGENT_TIME) || member->timed || member->region || !member->agent ||
        !member->watched[WATCHED_ACTION] || !member->watched[WATCHED_MASK] || member->unwatchable)
        return;
    member->timed = true;
    member->begun_ns = collect_agent_timer_clock(member->pid, agent->options.timers.clock);
    if (patch_agent_visit(member->agent, agent->helper, held, collect_agent_timer_begin, &place, &why) < 0)
        note(agent, "time is not sampled", &why);
}

/* A process that never had timers. */
static void look_at_timers(struct collect_agent *agent, const struct member *member)
{
    struct base_error why = {0};
    const struct profile_process *process = &agent->profile->processes[member->process];
    if (!counts(agent, WIRE_AGENT_TIME) || member->timed || member->region)
        return;
    base_fail(&why, BASE_ENOTFOUND, "%s (%d) has no C library that could be watched for signals",
              profile_text(agent->profile, process->name), (int)member->pid);
    note(agent, "time is not sampled", &why);
}

struct collect_agent_timed collect_agent_timed(const struct collect_agent *agent)
{
    struct collect_agent_timed timed = {agent->counts.samples, agent->counts.sampled_ns, agent->spent_ns};
    for (size_t i = 0; i < agent->member_count; i++)
        timed.spent_ns += spent_ns(&agent->members[i]);
    return timed;
}

/* --- loading --- */

struct loading {
    struct collect_agent *agent;
    struct family *family;
    pid_t pid;
};

static int write_parameters(struct collect_agent *self, const struct family *family,
                            struct patch_agent *agent, struct base_error *error)
{
    const unsigned long fsgsbase = 2; /* HWCAP2_FSGSBASE of x86-64 */
    uint64_t place, control = patch_agent_region(agent);
    struct wire_agent_parameters parameters = {
        .control = control,
        .process = control + collect_agent_file_region(&family->file, 0),
        .alive = patch_agent_alive(agent),
        .flags = getauxval(AT_HWCAP2) & fsgsbase ? WIRE_AGENT_FSGSBASE : 0,
        .own = patch_agent_own(agent),
        .code = patch_agent_base(agent),
        .code_end = patch_agent_base(agent) + patch_agent_image_fixed(self->image)};
    if (!patch_agent_image_symbol(self->image, "agent_parameters", &place))
        return base_fail(error, BASE_EFORMAT, "the agent takes no parameters");
    return patch_agent_write(agent, place, &parameters, sizeof parameters, error);
}

/* Samples of time may meet the agent's own code: its frames have rows and names like any others. */
static void know_image(struct collect_agent *self, pid_t pid, const struct patch_agent *agent)
{
    struct elf_maps maps = {0};
    uint64_t base = patch_agent_base(agent);
    char path[128];
    if (elf_maps_read(pid, &maps, NULL) < 0)
        return;
    for (size_t i = 0; i < maps.count; i++) {
        const struct elf_mapping *mapping = &maps.items[i];
        struct collect_image_key key = {.path = mapping->path,
                                        .major = mapping->device_major,
                                        .minor = mapping->device_minor,
                                        .inode = mapping->inode,
                                        .deleted = mapping->deleted};
        if (!mapping->executable || base <= mapping->start || base >= mapping->end)
            continue;
        collect_images_know(self->processes->images, &key, PROFILE_AGENT_IMAGE, agent_blob, agent_blob_size,
                            base - mapping->start + mapping->offset, NULL);
        snprintf(path, sizeof path, "%s (deleted)", mapping->path); /* as the kernel's events have it */
        key.path = path;
        collect_images_know(self->processes->images, &key, PROFILE_AGENT_IMAGE, agent_blob, agent_blob_size,
                            base - mapping->start + mapping->offset, NULL);
    }
    elf_maps_free(&maps);
}

static struct collect_agent_stacks *stacks_of(const struct collect_agent *agent, struct family *family)
{
    return replaces(agent) ? &family->stacks : NULL;
}

/* Where the agent's blocks are, in the region: for samples, and for who takes the agent out. */
static int tell_blocks(const struct collect_agent *self, const struct family *family,
                       const struct patch_agent *agent, struct base_error *error)
{
    uint64_t place;
    if (!patch_agent_image_symbol(self->image, "agent_return_blocks", &place))
        return base_fail(error, BASE_EFORMAT, "the agent times no functions");
    struct wire_agent_process *process = collect_agent_file_process(&family->file, 0);
    process->returns_start = patch_agent_base(agent) + place;
    process->own_start = patch_agent_own(agent);
    return BASE_OK;
}

static int prepare(void *context, struct patch_agent *agent, struct base_error *error)
{
    struct loading *loading = context;
    struct collect_agent *self = loading->agent;
    struct family *family = loading->family;
    int file = fcntl(patch_agent_region_file(agent), F_DUPFD_CLOEXEC, 0);
    if (file < 0)
        return base_fail_errno(error, errno, "the agent's memory");
    int result = collect_agent_file_begin(&family->file, file, &self->wish, error);
    if (result < 0) {
        close(file);
        family->file.file = -1;
        return result;
    }
    collect_agent_file_take(&family->file, loading->pid, collect_agent_proc_start(loading->pid));
    family->file.nested = collect_agent_proc_is_nested(loading->pid);
    know_image(self, loading->pid, agent);
    result = collect_agent_modules(&family->file, 0, loading->pid, self->processes->images, &self->cookies,
                                   &family->rows, stacks_of(self, family), error);
    if (result == BASE_OK && replaces(self))
        result = tell_blocks(self, family, agent, error);
    if (result == BASE_OK && counts(self, WIRE_AGENT_FDS))
        collect_agent_descriptors_begin(
            &(struct collect_agent_descriptors_place){&family->file, 0, loading->pid});
    if (result == BASE_OK)
        result = listen_to(self, family, error);
    return result < 0 ? result : write_parameters(self, family, agent, error);
}

static int load(struct collect_agent *agent, pid_t pid, bool held, struct base_error *error)
{
    struct loading loading = {agent, calloc(1, sizeof *loading.family), pid};
    struct patch_agent_options options = {.image = agent->image,
                                          .plans = agent->plans,
                                          .region_size = collect_agent_file_size(&agent->wish),
                                          .own_size = replaces(agent) ? sizeof(struct wire_agent_own) : 0,
                                          .prepare = prepare,
                                          .context = &loading};
    struct patch_agent *loaded = NULL;
    if (!loading.family)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    loading.family->file.file = -1;
    int result = patch_agent_load(agent->helper, pid, held, &options, &loaded, error);
    bool room = base_array_room(agent->families, agent->family_count, agent->family_capacity);
    struct member *member = result < 0 || !room ? NULL : add_member(agent, loading.family, 0, pid, 0, false);
    if (result >= 0 && !member)
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result < 0) {
        patch_agent_free(loaded);
        free_family(agent, loading.family);
        return result;
    }
    agent->families[agent->family_count++] = loading.family;
    member->agent = loaded;
    look_at_hooks(agent, member);
    consider_timers(agent, member, held);
    return BASE_OK;
}

int collect_agent_attach(struct collect_agent *agent, pid_t pid, struct base_error *error)
{
    return load(agent, pid, false, error);
}

int collect_agent_launch(struct collect_agent *agent, pid_t pid, struct base_error *error)
{
    return patch_agent_expect_exec(agent->helper, pid, error);
}

/* --- ends --- */

/* A process that never allocated by a function that was hooked: nothing of it was counted. */
static void look_at_end(struct collect_agent *agent, struct member *member)
{
    struct base_error why = {0};
    const struct profile_process *process = &agent->profile->processes[member->process];
    look_at_timers(agent, member);
    if (member->allocates || member->region || !counts(agent, WIRE_AGENT_HEAP))
        return;
    profile_lose(agent->profile, WIRE_LOSS_AGENT_ABSENT, 1);
    base_fail(&why, BASE_ENOTFOUND, "no function that allocates was found in %s (%d)",
              profile_text(agent->profile, process->name), (int)member->pid);
    note(agent, "memory is not counted", &why);
}

static void end_member(struct collect_agent *agent, size_t index)
{
    struct member *member = &agent->members[index];
    struct collect_task task = {
        .pid = (uint32_t)member->pid, .tid = (uint32_t)member->pid, .time = patch_target_now()};
    look_at_end(agent, member);
    tell_member(agent, member, true);
    collect_agent_file_forget(&member->family->file, member->region);
    if (agent->options.untold)
        collect_processes_on_exit(agent->processes, &task);
    drop_member(agent, index);
}

static void join_all_children(struct collect_agent *agent)
{
    for (size_t i = 0; i < agent->family_count; i++)
        join_children(agent, agent->families[i]);
}

static void end_the_dead(struct collect_agent *agent)
{
    while (agent->watched_capacity < agent->member_count)
        if (!base_array_room(agent->watched, agent->watched_capacity, agent->watched_capacity))
            return;
    for (size_t i = 0; i < agent->member_count; i++)
        agent->watched[i] = (struct pollfd){.fd = agent->members[i].pidfd, .events = POLLIN};
    size_t polled = agent->member_count;
    poll(agent->watched, polled, 0);
    join_all_children(agent); /* before their parents end; of these children nothing was asked yet */
    for (size_t i = agent->member_count; i-- > 0;)
        if (agent->members[i].pidfd < 0 || (i < polled && agent->watched[i].revents))
            end_member(agent, i);
    for (size_t i = agent->family_count; i-- > 0;)
        if (!agent->families[i]->members && patch_target_now() - agent->families[i]->looked_ns >= LOOK_NS)
            look_at_family(agent, agent->families[i]);
}

/* --- requests --- */

static void make_blind(struct member *member)
{
    struct wire_agent_process *process = collect_agent_file_process(&member->family->file, member->region);
    member->blind = true;
    __atomic_store_n(&process->timed, 0, __ATOMIC_RELEASE);
}

/* A child that the host could not follow loads objects without our knowing. */
static bool is_told_by_host(const struct collect_agent *agent, pid_t pid)
{
    struct patch_trace_cost cost;
    return !agent->options.host || patch_trace_cost(agent->helper, pid, &cost, NULL) == BASE_OK;
}

static void update_objects(struct collect_agent *agent, struct member *member);

static void join(struct collect_agent *agent, struct family *family, uint32_t region)
{
    struct wire_agent_process *process = collect_agent_file_process(&family->file, region);
    struct base_error why = {0};
    struct member *parent = NULL;
    bool ended = collect_agent_proc_outside(&family->file, 0, &process->pid) == 0;
    pid_t pid = (pid_t)process->pid;
    for (size_t i = 0; i < agent->member_count; i++)
        if (agent->members[i].family == family &&
            (!parent || agent->members[i].region + 1 == process->parent))
            parent = &agent->members[i];
    if (pid <= 0)
        return;
    const struct patch_agent *like = parent ? parent->agent : family->last;
    struct member *member = add_member(agent, family, region, pid, parent ? parent->pid : 0, ended);
    if (!member) {
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    member->agent = collect_agent_unheard_take(&agent->unheard, pid);
    bool loaded = member->agent;
    if (!loaded && like && member->pidfd >= 0)
        patch_agent_adopt(like, pid, &member->agent, &why);
    if (replaces(agent) && ((parent && parent->blind) || !is_told_by_host(agent, pid)))
        make_blind(member);
    if (loaded)
        update_objects(agent, member);
}

/* Regions that children have taken. */
static void join_children(struct collect_agent *agent, struct family *family)
{
    uint32_t regions = collect_agent_file_regions(&family->file);
    for (uint32_t r = 1; r < regions && r < WIRE_AGENT_REGIONS; r++)
        if (!(family->joined[r / 8] & 1u << r % 8) &&
            __atomic_load_n(&collect_agent_file_process(&family->file, r)->state, __ATOMIC_ACQUIRE))
            join(agent, family, r);
}

/* Who runs in a process's memory (vfork) rings its bell. */
static void expect_exec(struct collect_agent *agent, const struct member *member, pid_t pid)
{
    struct base_error why = {0};
    if (agent->options.host || !pid || (pid != member->pid && !agent->options.follow))
        return;
    if (patch_agent_expect_exec(agent->helper, pid, &why) < 0) {
        profile_lose(agent->profile, WIRE_LOSS_AGENT_ABSENT, 1);
        note(agent, "a program that was started is not counted", &why);
    }
}

/* Who waits in the host's bell, or in ours, has mapped what nobody runs yet. The host follows the process: then it is held. */
static int set_hooks(struct collect_agent *agent, struct patch_agent *where, struct base_error *error)
{
    pid_t pid = patch_agent_pid(where);
    bool held = agent->options.host != NULL;
    int result = held ? patch_trace_hold(agent->helper, pid, NULL, error) : BASE_OK;
    if (result < 0)
        return result;
    result = patch_agent_update(where, agent->helper, held, true, error);
    if (held)
        patch_trace_release(agent->helper, pid, NULL, NULL);
    return result;
}

static void update_objects(struct collect_agent *agent, struct member *member)
{
    struct base_error why = {0};
    int result =
        collect_agent_modules(&member->family->file, member->region, member->pid, agent->processes->images,
                              &agent->cookies, &member->family->rows, stacks_of(agent, member->family), &why);
    if (result >= 0 && member->agent)
        result = set_hooks(agent, member->agent, &why);
    if (member->agent)
        look_at_hooks(agent, member);
    consider_timers(agent, member, agent->options.host != NULL);
    if (result < 0 && result != BASE_ENOTFOUND) {
        note(agent, "objects that were loaded are not hooked", &why);
        profile_lose(agent->profile, WIRE_LOSS_AGENT_REFUSED, 1);
        make_blind(member);
    }
}

/* What a process has that ends or execs: its last moment. Who runs in it by vfork ends nothing of it. */
static void look_at_last(struct collect_agent *agent, struct member *member, uint32_t asked, pid_t pid)
{
    if (asked & WIRE_AGENT_EXEC_FAILED)
        member->empty.looked = false;
    if (!(asked & (WIRE_AGENT_END | WIRE_AGENT_EXEC)) || pid != member->pid)
        return;
    if (agent->empty.counter)
        look_at_blocks(agent, member, member->pid);
    if (asked & WIRE_AGENT_END)
        look_at_descriptors(agent, member, COLLECT_AGENT_DESCRIPTORS_ENDING);
}

static void answer(struct collect_agent *agent, struct member *member)
{
    uint32_t sequence, tid;
    uint32_t asked = collect_agent_file_request(&member->family->file, member->region, &sequence, &tid);
    pid_t pid = asked ? collect_agent_proc_outside(&member->family->file, member->pid, &tid) : 0;
    if (asked & WIRE_AGENT_OBJECTS)
        update_objects(agent, member);
    if (asked & WIRE_AGENT_EXEC_FAILED && pid && !agent->options.host)
        patch_agent_let_go(agent->helper, pid);
    if (asked & WIRE_AGENT_EXEC)
        expect_exec(agent, member, pid);
    look_at_last(agent, member, asked, pid);
    if (asked)
        collect_agent_file_answer(&member->family->file, member->region, sequence);
}

static void answer_all(struct collect_agent *agent)
{
    uint64_t ignored;
    if (read(collect_listen_file(agent->listener), &ignored, sizeof ignored) < 0)
        return;
    join_all_children(agent);
    for (size_t i = 0; i < agent->member_count; i++)
        answer(agent, &agent->members[i]);
}

/* --- execs --- */

static void tell_exec(struct collect_agent *agent, pid_t pid)
{
    char path[64], name[32] = "";
    struct collect_comm comm = {(uint32_t)pid, (uint32_t)pid, true, name};
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file && fgets(name, sizeof name, file))
        name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
    collect_processes_on_comm(agent->processes, &comm, patch_target_now());
}

void collect_agent_exec(struct collect_agent *agent, pid_t pid)
{
    struct base_error why = {0};
    /* Who execs may be a child that nothing was heard of: joined later, it would be taken for its new program. */
    join_all_children(agent);
    struct collect_agent_descriptors_told opened = {0};
    struct member *old = find_member(agent, pid);
    if (old) {
        look_at_descriptors(agent, old, COLLECT_AGENT_DESCRIPTORS_EXECED);
        tell_member(agent, old, true);
        collect_agent_descriptors_carry(&opened, &old->opened);
        collect_agent_file_forget(&old->family->file, old->region);
        drop_member(agent, (size_t)(old - agent->members));
    }
    if (agent->options.untold)
        tell_exec(agent, pid);
    if (load(agent, pid, true, &why) < 0) {
        profile_lose(agent->profile, WIRE_LOSS_AGENT_ABSENT, 1);
        note(agent, "a program that was started is not counted", &why);
    } else if ((old = find_member(agent, pid))) {
        collect_agent_descriptors_carry(&old->opened, &opened);
    }
    collect_agent_descriptors_told_free(&opened);
}

/* Whose agent a child goes on with that has not come to a hook yet; NULL: it is none of ours. */
static const struct patch_agent *parent_of(const struct collect_agent *agent, pid_t pid)
{
    for (size_t i = 0; i < agent->member_count; i++)
        if (agent->members[i].agent && collect_agent_file_is_users(&agent->members[i].family->file, pid))
            return agent->members[i].agent;
    for (size_t i = 0; i < agent->family_count; i++)
        if (collect_agent_file_is_users(&agent->families[i]->file, pid))
            return agent->families[i]->last;
    return NULL;
}

static void update_unheard(struct collect_agent *agent, pid_t pid)
{
    struct base_error why = {0};
    struct patch_agent *there = collect_agent_unheard_find(&agent->unheard, pid);
    const struct patch_agent *parent = there ? NULL : parent_of(agent, pid);
    int result = BASE_OK;
    if (parent)
        result = collect_agent_unheard_add(&agent->unheard, parent, pid, &there, &why);
    if (result == BASE_OK && there)
        result = set_hooks(agent, there, &why);
    if (result < 0)
        note(agent, "objects that were loaded are not hooked", &why);
}

void collect_agent_objects(struct collect_agent *agent, pid_t pid)
{
    join_all_children(agent);
    struct member *member = find_member(agent, pid);
    if (member)
        update_objects(agent, member);
    else
        update_unheard(agent, pid);
}

void collect_agent_unhosted(struct collect_agent *agent, pid_t pid)
{
    join_all_children(agent);
    struct member *member = find_member(agent, pid);
    if (member)
        make_blind(member);
}

int collect_agent_step(struct collect_agent *agent, struct base_error *error)
{
    struct patch_trace_event event;
    int result = BASE_OK;
    while (!agent->options.host && (result = patch_trace_next(agent->helper, &event, error)) > 0) {
        if (patch_agent_take_event(agent->helper, &event)) {
            collect_agent_exec(agent, event.pid);
            patch_agent_let_go(agent->helper, event.pid);
        }
        answer_all(agent);
    }
    answer_all(agent);
    end_the_dead(agent);
    return result;
}

/* --- the end --- */

/* Whom the host follows is held. One that cannot be, since it runs another image by now or has ended, has no agent. */
static void leave_process(struct collect_agent *agent, pid_t pid)
{
    struct patch_agent_left left = {0};
    struct base_error why = {0};
    bool held = agent->options.host && is_told_by_host(agent, pid);
    int result = held ? patch_trace_hold(agent->helper, pid, NULL, &why) : BASE_OK;
    if (result == BASE_OK) {
        result = patch_agent_leave(agent->helper, pid, held, NULL, NULL, &left, &why);
        if (held)
            patch_trace_release(agent->helper, pid, NULL, NULL);
    }
    if (result < 0 && !(held && result == BASE_ENOTFOUND))
        note(agent, "leaving", &why);
    agent->memory_left += left.bytes_left;
}

/* A runtime that was linked in and stripped has no names. */
static void look_for_hooked(struct collect_agent *agent, enum wire_agent_collector collector, bool hooked,
                            const char *what, const char *missing)
{
    struct base_error why = {0};
    if (hooked || !counts(agent, collector))
        return;
    if (collector == WIRE_AGENT_INSTRUMENTED)
        profile_lose(agent->profile, WIRE_LOSS_INSTRUMENTED_ABSENT, 1);
    base_fail(&why, BASE_ENOTFOUND, "no %s", missing);
    note(agent, what, &why);
}

/* Who still has a family's memory mapped: those that `left` knows, where a part had to stay, and children that were never heard of. */
static void leave_unheard(struct collect_agent *agent, const struct base_map *left)
{
    for (size_t i = 0; i < agent->family_count; i++) {
        pid_t *pids;
        size_t count = collect_agent_file_users(&agent->families[i]->file, &pids);
        for (size_t j = 0; j < count; j++)
            if (base_map_find(left, (uint64_t)pids[j]) == BASE_MAP_NONE)
                leave_process(agent, pids[j]);
        free(pids);
    }
}

uint64_t collect_agent_real(const struct collect_agent *agent, pid_t pid, uint64_t pc)
{
    return collect_agent_timing_real(&agent->timing, pid, pc);
}

int collect_agent_leave(struct collect_agent *agent, struct base_error *error)
{
    int result = collect_agent_step(agent, error);
    struct base_map left = {0};
    for (size_t i = 0; i < agent->member_count; i++) {
        look_at_descriptors(agent, &agent->members[i], COLLECT_AGENT_DESCRIPTORS_ENDING);
        collect_agent_file_release(&agent->members[i].family->file, agent->members[i].region);
        leave_process(agent, agent->members[i].pid);
        base_map_set(&left, (uint64_t)agent->members[i].pid, 1);
    }
    for (size_t i = 0; i < agent->family_count; i++)
        collect_agent_file_leave(&agent->families[i]->file);
    while (agent->member_count) {
        struct member *member = &agent->members[agent->member_count - 1];
        look_at_end(agent, member);
        if (!member->empty.looked)
            look_at_blocks(agent, member, member->pid);
        tell_member(agent, member, true);
        drop_member(agent, agent->member_count - 1);
    }
    leave_unheard(agent, &left);
    base_map_free(&left);
    look_for_hooked(agent, WIRE_AGENT_THROWS, agent->throws, "no exceptions are counted",
                    "__cxa_throw was found in the program");
    look_for_hooked(agent, WIRE_AGENT_INSTRUMENTED, agent->instrumented, "nothing to count",
                    "function of the program was built with -finstrument-functions");
    collect_agent_named_found_tell(&agent->found);
    profile_set_metaf(agent->profile, "agent_memory", "%llu", (unsigned long long)agent->memory_most);
    if (agent->memory_left)
        profile_set_metaf(agent->profile, "agent_memory_left", "%llu",
                          (unsigned long long)agent->memory_left);
    return result;
}
