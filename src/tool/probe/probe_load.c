#include "probe_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base_array.h"
#include "plan_image.h"
#include "probe_filter.h"
#include "probe_layers.h"
#include "probe_timer.h"
#include "proc_target.h"
#include "proc_translator.h"
#include "shared_proc.h"
#include "wire_loss.h"

enum { MOVES_MOST = 5 }; /* attempts to give a process's timers the other signal */

/* --- what was hooked --- */

static void look_at_layers(struct probe *probe, struct probe_member *member)
{
    const struct probe_layers_request request = {probe->functions.items, probe->functions.allocators,
                                                 probe_asks_sizes(probe)};
    struct base_error why = {0};
    const char *unknown =
        probe_layers(&member->group->file, member->region, member->pid, member->agent, &request);
    if (!unknown)
        return;
    base_fail(&why, BASE_ENOTFOUND, "%s has no malloc_usable_size", unknown);
    probe_note(probe,
               probe->empty.counter ? "what realloc adds is not filled" : "blocks are counted as requested",
               &why);
}

/* Is the function of a hook to be timed? Its number among those. */
static bool is_timed(const struct probe *probe, const struct loader_hook *hook, size_t *number)
{
    size_t first = probe->functions.timed;
    *number = hook->function - first;
    return hook->function >= first && *number < probe->options.function_count;
}

/* What unwinders without a name call (enum plan_image_unwinder) and is not hooked; *never: what cannot be
 * hooked any more. The C library may not be loaded yet. */
static unsigned unhooked_unwinders(const struct probe *probe, const struct shared_stacks *stacks,
                                   const struct loader_hook *hooks, size_t count, unsigned *never)
{
    unsigned left = stacks->unwinders;
    *never = left & PLAN_IMAGE_REMEMBERS;
    for (size_t i = 0; i < count; i++) {
        unsigned answers = probe_functions_answers(&probe->functions, hooks[i].function);
        if (hooks[i].state == LOADER_HOOKED)
            left &= ~answers;
        else if (hooks[i].state == LOADER_REFUSED)
            *never |= answers & stacks->unwinders;
    }
    return left | *never;
}

/* Whatever unwinds must be hooked, else nothing is timed: published in the region, which children inherit. */
static void look_at_unwinders(struct probe *probe, const struct probe_member *member,
                              const struct loader_hook *hooks, size_t count)
{
    struct wire_agent_process *process = shared_file_process(&member->group->file, member->region);
    const struct shared_stacks *stacks = &member->group->stacks;
    struct base_error why = {0};
    unsigned never;
    bool timed = !unhooked_unwinders(probe, stacks, hooks, count, &never);
    if (never)
        base_fail(&why, BASE_EUNSUPPORTED, "%s has an unwinder of its own", stacks->unwinder);
    for (size_t i = 0; i < count; i++) {
        if (hooks[i].state != LOADER_REFUSED ||
            !probe_functions_unwinds(&probe->functions, hooks[i].function))
            continue;
        timed = false;
        base_fail(&why, BASE_EUNSUPPORTED, "%s of %s cannot be hooked", hooks[i].name, hooks[i].path);
    }
    timed = timed && probe_timing_allows(member->pid, &why) == BASE_OK;
    if (member->unobserved)
        base_fail(&why, BASE_EUNSUPPORTED, "what process %d loads may unwind, and is not hooked",
                  (int)member->pid);
    timed = timed && !member->unobserved;
    if (why.text[0])
        probe_note(probe,
                   probe->options.function_count ? "functions are counted, not timed"
                                                 : "what opens descriptors is not seen",
                   &why);
    __atomic_store_n(&process->timed, timed, __ATOMIC_RELEASE);
}

static enum probe_watched watched_by(const struct probe *probe, const struct loader_hook *hook)
{
    uint64_t entry = probe->functions.items[hook->function].cookie & 255;
    return entry == WIRE_AGENT_ENTRY_ACTION ? PROBE_WATCHED_ACTION
           : entry == WIRE_AGENT_ENTRY_MASK ? PROBE_WATCHED_MASK
                                            : PROBE_WATCHED_OTHER;
}

static void note_hooked(struct probe *probe, struct probe_member *member, const struct loader_hook *hook)
{
    size_t allocators = probe->functions.allocators;
    member->allocates |= hook->function < allocators;
    member->opens |= (probe->functions.items[hook->function].cookie & 255) == WIRE_AGENT_ENTRY_DESCRIPTOR;
    probe->instrumented |= probe_functions_instruments(&probe->functions.items[hook->function]);
    probe->throws |= hook->function >= allocators && hook->function - allocators < probe->functions.throwers;
    if (hook->function - probe->functions.first_timer < probe->functions.timers)
        member->watched[watched_by(probe, hook)] = true;
}

/* Hooks are looked at once each. */
static void look_at_hooks(struct probe *probe, struct probe_member *member)
{
    const struct loader_hook *hooks;
    size_t count = loader_hooks(member->agent, &hooks), number;
    for (size_t i = member->hooks; i < count; i++) {
        struct base_error why = {0};
        bool timed = is_timed(probe, &hooks[i], &number);
        if (timed)
            probe->found.is_timed_found[number] = true;
        else if (hooks[i].state == LOADER_HOOKED && probe->functions.items[hooks[i].function].alone)
            probe_named_found_taken(&probe->found, hooks[i].name, hooks[i].path);
        if (hooks[i].function < probe->functions.named)
            probe->found.is_named_found[hooks[i].function] = true;
        if (hooks[i].state == LOADER_HOOKED)
            note_hooked(probe, member, &hooks[i]);
        if (hooks[i].state != LOADER_REFUSED)
            continue;
        member->unwatchable |= hooks[i].function - probe->functions.first_timer < probe->functions.timers;
        if (!probe_functions_reports(&probe->functions.items[hooks[i].function]))
            profile_lose(probe->profile, timed ? WIRE_LOSS_FUNCTION_REFUSED : WIRE_LOSS_AGENT_REFUSED, 1);
        base_fail(&why, BASE_EUNSUPPORTED, "%s of %s: %s", hooks[i].name, hooks[i].path,
                  stub_reason_text(hooks[i].reason));
        probe_note(probe, "not hooked", &why);
    }
    if (count > member->hooks)
        look_at_layers(probe, member);
    if (probe_replaces(probe))
        look_at_unwinders(probe, member, hooks, count);
    member->hooks = count > member->hooks ? count : member->hooks;
}

/* --- timers --- */

/* As soon as the C library is there, and its functions hooked: a child of fork has what its parent has. */
static void consider_timers(struct probe *probe, struct probe_member *member, bool held)
{
    struct base_error why = {0};
    struct probe_timer_place place = {probe->image, &member->group->file, probe->options.timers, member->pid};
    if (!probe_does(probe, WIRE_AGENT_TIME) || member->timed || member->region || !member->agent ||
        !member->watched[PROBE_WATCHED_ACTION] || !member->watched[PROBE_WATCHED_MASK] || member->unwatchable)
        return;
    member->timed = true;
    member->begun_ns = probe_timer_clock(member->pid, probe->options.timers.clock);
    if (loader_visit(member->agent, probe->helper, held, probe_timer_begin, &place, &why) < 0)
        probe_note(probe, "time is not sampled", &why);
}

bool probe_load_may_move(const struct probe *probe, const struct probe_member *member)
{
    const struct wire_agent_process *process = shared_file_process(&member->group->file, member->region);
    return __atomic_load_n(&process->timing, __ATOMIC_ACQUIRE) == WIRE_AGENT_CLAIMED && !member->region &&
           member->agent && process->timer_signal == probe->options.timers.signal && !process->unmovable &&
           member->moves < MOVES_MOST;
}

void probe_load_move(struct probe *probe, struct probe_member *member)
{
    struct probe_timer_place place = {probe->image, &member->group->file, probe->options.timers, member->pid};
    const struct wire_agent_process *process = shared_file_process(&member->group->file, member->region);
    if (!probe_load_may_move(probe, member) || __atomic_load_n(&process->unrecorded, __ATOMIC_ACQUIRE) ||
        __atomic_load_n(&process->request, __ATOMIC_ACQUIRE))
        return;
    int result = loader_visit(member->agent, probe->helper, false, probe_timer_move, &place, NULL);
    member->moves = result == BASE_OK || result == BASE_EBUSY ? member->moves + 1 : MOVES_MOST;
}

/* --- objects --- */

static struct shared_stacks *stacks_of(const struct probe *probe, struct probe_group *group)
{
    return probe_replaces(probe) ? &group->stacks : NULL;
}

int probe_load_hooks(struct probe *probe, struct loader_agent *where, struct base_error *error)
{
    pid_t pid = loader_pid(where);
    bool held = probe->options.owner != NULL;
    int result = held ? helper_trace_hold(probe->helper, pid, NULL, error) : BASE_OK;
    if (result < 0)
        return result;
    result = loader_update(where, probe->helper, held, true, error);
    if (held)
        helper_trace_release(probe->helper, pid, NULL, NULL);
    return result;
}

static int publish_modules(struct probe *probe, struct probe_group *group, uint32_t region, pid_t pid,
                           struct base_error *error)
{
    const struct shared_known known = {.images = probe->processes->images,
                                       .cookies = &probe->cookies,
                                       .rows = &group->rows,
                                       .stacks = stacks_of(probe, group)};
    return shared_modules(&group->file, region, pid, &known, error);
}

void probe_load_objects(struct probe *probe, struct probe_member *member)
{
    struct base_error why = {0};
    int result = publish_modules(probe, member->group, member->region, member->pid, &why);
    if (result >= 0 && member->agent)
        result = probe_load_hooks(probe, member->agent, &why);
    if (member->agent)
        look_at_hooks(probe, member);
    consider_timers(probe, member, probe->options.owner != NULL);
    if (result < 0 && result != BASE_ENOTFOUND) {
        probe_note(probe, "objects that were loaded are not hooked", &why);
        profile_lose(probe->profile, WIRE_LOSS_AGENT_REFUSED, 1);
        probe_members_stop_observing(member);
    }
}

/* --- loading --- */

struct loading {
    struct probe *agent;
    struct probe_group *group;
    pid_t pid;
};

static int write_parameters(struct probe *self, const struct probe_group *group, struct loader_agent *agent,
                            struct base_error *error)
{
    const unsigned long fsgsbase = 2; /* HWCAP2_FSGSBASE of x86-64 */
    uint64_t place;
    struct wire_agent_parameters parameters = {
        .alive = loader_alive(agent),
        .flags = getauxval(AT_HWCAP2) & fsgsbase ? WIRE_AGENT_FSGSBASE : 0,
        .code = loader_base(agent),
        .code_end = loader_base(agent) + loader_image_fixed(self->image),
        .forbidden = shared_file_process(&group->file, 0)->forbidden};
    shared_file_parameters(&group->file, &self->request, loader_region(agent), &parameters);
    if (!loader_image_symbol(self->image, "agent_parameters", &place))
        return base_fail(error, BASE_EFORMAT, "the agent takes no parameters");
    return loader_write(agent, place, &parameters, sizeof parameters, error);
}

/* Where the agent's blocks are, in the region: for samples, and for what takes the agent out. */
static int publish_blocks(const struct probe *self, const struct probe_group *group,
                          const struct loader_agent *agent, struct base_error *error)
{
    uint64_t place;
    struct wire_agent_parameters parameters;
    if (!loader_image_symbol(self->image, "agent_return_blocks", &place))
        return base_fail(error, BASE_EFORMAT, "the agent times no functions");
    struct wire_agent_process *process = shared_file_process(&group->file, 0);
    process->returns_start = loader_base(agent) + place;
    shared_file_parameters(&group->file, &self->request, loader_region(agent), &parameters);
    process->own_start = parameters.own;
    return BASE_OK;
}

static int prepare_load(void *context, struct loader_agent *agent, struct base_error *error)
{
    struct loading *loading = context;
    struct probe *self = loading->agent;
    struct probe_group *group = loading->group;
    int file = fcntl(loader_region_file(agent), F_DUPFD_CLOEXEC, 0);
    if (file < 0)
        return base_fail_errno(error, errno, "the agent's memory");
    int result = shared_file_begin(&group->file, file, &self->request, error);
    if (result < 0) {
        close(file);
        group->file.file = -1;
        return result;
    }
    shared_file_claim_region(&group->file, loading->pid, proc_target_stat(loading->pid, PROC_TARGET_STARTED));
    group->file.nested = shared_proc_is_nested(loading->pid);
    shared_modules_know(self->processes->images, loading->pid, loader_base(agent));
    result = publish_modules(self, group, 0, loading->pid, error);
    if (result == BASE_OK && probe_replaces(self))
        result = publish_blocks(self, group, agent, error);
    if (result == BASE_OK && probe_does(self, WIRE_AGENT_FDS))
        shared_descriptors_begin(&(struct shared_descriptors_place){&group->file, 0, loading->pid});
    probe_filter_try(&group->file, agent, probe_times(self));
    if (result == BASE_OK)
        result = probe_members_listen(self, group, error);
    return result < 0 ? result : write_parameters(self, group, agent, error);
}

/* It was loaded, and there is no memory to know of it. */
static void unload_agent(struct probe *probe, pid_t pid, bool held)
{
    struct loader_left left = {0};
    if (loader_leave(probe->helper, pid, held, &left, NULL) < 0 || left.bytes_left)
        remains_left_add(&probe->left, pid, left.bytes_left, !left.skipped);
}

int probe_load(struct probe *probe, pid_t pid, bool held, struct base_error *error)
{
    struct loading loading = {probe, calloc(1, sizeof *loading.group), pid};
    struct shared_file_pieces pieces;
    shared_file_pieces(&probe->request, &pieces);
    struct loader_options options = {.image = probe->image,
                                     .plans = probe->plans,
                                     .file_size = shared_file_size(&probe->request),
                                     .span = pieces.span,
                                     .pieces = pieces.items,
                                     .piece_count = pieces.count,
                                     .prepare = prepare_load,
                                     .context = &loading};
    struct loader_agent *loaded = NULL;
    if (!loading.group)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    loading.group->file.file = -1;
    int result = proc_translator_refuse(pid, error);
    if (result == BASE_OK)
        result = loader_load(probe->helper, pid, held, &options, &loaded, error);
    bool room = base_array_room(probe->groups, probe->group_count, probe->group_capacity);
    struct probe_member *member =
        result < 0 || !room ? NULL : probe_members_add(probe, loading.group, 0, pid, 0, false);
    if (result >= 0 && !member)
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result < 0) {
        if (loaded)
            unload_agent(probe, pid, held);
        loader_free(loaded);
        probe_members_free_group(probe, loading.group);
        return result;
    }
    probe->groups[probe->group_count++] = loading.group;
    member->agent = loaded;
    look_at_hooks(probe, member);
    consider_timers(probe, member, held);
    return BASE_OK;
}
