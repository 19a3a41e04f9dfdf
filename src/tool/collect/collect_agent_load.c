#include "collect_agent_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base_array.h"
#include "collect_agent_filter.h"
#include "collect_agent_layers.h"
#include "collect_agent_proc.h"
#include "collect_agent_timer.h"
#include "collect_translator.h"
#include "patch_image.h"
#include "patch_target.h"
#include "wire_loss.h"

enum { MOVES_MOST = 5 }; /* attempts to give a process's timers the other signal */

/* --- what was hooked --- */

static void look_at_layers(struct collect_agent *agent, struct collect_agent_member *member)
{
    const struct collect_agent_layers_wish wish = {agent->functions.items, agent->functions.allocators,
                                                   collect_agent_asks_sizes(agent)};
    struct base_error why = {0};
    const char *unknown =
        collect_agent_layers(&member->family->file, member->region, member->pid, member->agent, &wish);
    if (!unknown)
        return;
    base_fail(&why, BASE_ENOTFOUND, "%s has no malloc_usable_size", unknown);
    collect_agent_note(
        agent, agent->empty.counter ? "what realloc adds is not filled" : "blocks are counted as requested",
        &why);
}

/* Is the function of a hook to be timed? Its number among those. */
static bool is_timed(const struct collect_agent *agent, const struct patch_agent_hook *hook, size_t *number)
{
    size_t first = agent->functions.timed;
    *number = hook->function - first;
    return hook->function >= first && *number < agent->options.function_count;
}

/* What unwinders without a name ask, and those that do not ask each time: what of it is not hooked (enum
 * patch_image_unwinder), and can no more be. The rest is in the C library, which is yet to be loaded. */
static unsigned not_asked(const struct collect_agent *agent, const struct collect_agent_stacks *stacks,
                          const struct patch_agent_hook *hooks, size_t count, unsigned *never)
{
    unsigned left = stacks->unwinders;
    *never = left & PATCH_IMAGE_REMEMBERS;
    for (size_t i = 0; i < count; i++) {
        unsigned answers = collect_agent_functions_answers(&agent->functions, hooks[i].function);
        if (hooks[i].state == PATCH_AGENT_HOOKED)
            left &= ~answers;
        else if (hooks[i].state == PATCH_AGENT_REFUSED)
            *never |= answers & stacks->unwinders;
    }
    return left | *never;
}

/* Whatever unwinds must be hooked, else nothing is timed: told in the region, which children inherit. */
static void look_at_unwinders(struct collect_agent *agent, const struct collect_agent_member *member,
                              const struct patch_agent_hook *hooks, size_t count)
{
    struct wire_agent_process *process = collect_agent_file_process(&member->family->file, member->region);
    const struct collect_agent_stacks *stacks = &member->family->stacks;
    struct base_error why = {0};
    unsigned never;
    bool timed = !not_asked(agent, stacks, hooks, count, &never);
    if (never)
        base_fail(&why, BASE_EUNSUPPORTED, "%s has an unwinder of its own", stacks->unwinder);
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
    if (why.text[0])
        collect_agent_note(agent,
                           agent->options.function_count ? "functions are counted, not timed"
                                                         : "what opens descriptors is not seen",
                           &why);
    __atomic_store_n(&process->timed, timed, __ATOMIC_RELEASE);
}

static enum collect_agent_watched watched_by(const struct collect_agent *agent,
                                             const struct patch_agent_hook *hook)
{
    uint64_t entry = agent->functions.items[hook->function].cookie & 255;
    return entry == WIRE_AGENT_ENTRY_ACTION ? COLLECT_AGENT_WATCHED_ACTION
           : entry == WIRE_AGENT_ENTRY_MASK ? COLLECT_AGENT_WATCHED_MASK
                                            : COLLECT_AGENT_WATCHED_OTHER;
}

static void note_hooked(struct collect_agent *agent, struct collect_agent_member *member,
                        const struct patch_agent_hook *hook)
{
    size_t allocators = agent->functions.allocators;
    member->allocates |= hook->function < allocators;
    member->opens |= (agent->functions.items[hook->function].cookie & 255) == WIRE_AGENT_ENTRY_DESCRIPTOR;
    agent->instrumented |= collect_agent_functions_instruments(&agent->functions.items[hook->function]);
    agent->throws |= hook->function >= allocators && hook->function - allocators < agent->functions.throwers;
    if (hook->function - agent->functions.first_timer < agent->functions.timers)
        member->watched[watched_by(agent, hook)] = true;
}

/* Hooks are looked at once each. */
static void look_at_hooks(struct collect_agent *agent, struct collect_agent_member *member)
{
    const struct patch_agent_hook *hooks;
    size_t count = patch_agent_hooks(member->agent, &hooks), number;
    for (size_t i = member->hooks; i < count; i++) {
        struct base_error why = {0};
        bool timed = is_timed(agent, &hooks[i], &number);
        if (timed)
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
        if (!collect_agent_functions_tells(&agent->functions.items[hooks[i].function]))
            profile_lose(agent->profile, timed ? WIRE_LOSS_FUNCTION_REFUSED : WIRE_LOSS_AGENT_REFUSED, 1);
        base_fail(&why, BASE_EUNSUPPORTED, "%s of %s: %s", hooks[i].name, hooks[i].path,
                  patch_reason_text(hooks[i].reason));
        collect_agent_note(agent, "not hooked", &why);
    }
    if (count > member->hooks)
        look_at_layers(agent, member);
    if (collect_agent_replaces(agent))
        look_at_unwinders(agent, member, hooks, count);
    member->hooks = count > member->hooks ? count : member->hooks;
}

/* --- timers --- */

/* As soon as the C library is there, and its functions hooked: a child of fork has what its parent has. */
static void consider_timers(struct collect_agent *agent, struct collect_agent_member *member, bool held)
{
    struct base_error why = {0};
    struct collect_agent_timer_place place = {agent->image, &member->family->file, agent->options.timers,
                                              member->pid};
    if (!collect_agent_does(agent, WIRE_AGENT_TIME) || member->timed || member->region || !member->agent ||
        !member->watched[COLLECT_AGENT_WATCHED_ACTION] || !member->watched[COLLECT_AGENT_WATCHED_MASK] ||
        member->unwatchable)
        return;
    member->timed = true;
    member->begun_ns = collect_agent_timer_clock(member->pid, agent->options.timers.clock);
    if (patch_agent_visit(member->agent, agent->helper, held, collect_agent_timer_begin, &place, &why) < 0)
        collect_agent_note(agent, "time is not sampled", &why);
}

bool collect_agent_load_may_move(const struct collect_agent *agent, const struct collect_agent_member *member)
{
    const struct wire_agent_process *process =
        collect_agent_file_process(&member->family->file, member->region);
    return __atomic_load_n(&process->timing, __ATOMIC_ACQUIRE) == WIRE_AGENT_CLAIMED && !member->region &&
           member->agent && process->timer_signal == agent->options.timers.signal && !process->unmovable &&
           member->moves < MOVES_MOST;
}

void collect_agent_load_move(struct collect_agent *agent, struct collect_agent_member *member)
{
    struct collect_agent_timer_place place = {agent->image, &member->family->file, agent->options.timers,
                                              member->pid};
    const struct wire_agent_process *process =
        collect_agent_file_process(&member->family->file, member->region);
    if (!collect_agent_load_may_move(agent, member) ||
        __atomic_load_n(&process->unrecorded, __ATOMIC_ACQUIRE) ||
        __atomic_load_n(&process->request, __ATOMIC_ACQUIRE))
        return;
    int result =
        patch_agent_visit(member->agent, agent->helper, false, collect_agent_timer_move, &place, NULL);
    member->moves = result == BASE_OK || result == BASE_EBUSY ? member->moves + 1 : MOVES_MOST;
}

/* --- objects --- */

static struct collect_agent_stacks *stacks_of(const struct collect_agent *agent,
                                              struct collect_agent_family *family)
{
    return collect_agent_replaces(agent) ? &family->stacks : NULL;
}

int collect_agent_load_hooks(struct collect_agent *agent, struct patch_agent *where, struct base_error *error)
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

void collect_agent_load_objects(struct collect_agent *agent, struct collect_agent_member *member)
{
    struct base_error why = {0};
    int result =
        collect_agent_modules(&member->family->file, member->region, member->pid, agent->processes->images,
                              &agent->cookies, &member->family->rows, stacks_of(agent, member->family), &why);
    if (result >= 0 && member->agent)
        result = collect_agent_load_hooks(agent, member->agent, &why);
    if (member->agent)
        look_at_hooks(agent, member);
    consider_timers(agent, member, agent->options.host != NULL);
    if (result < 0 && result != BASE_ENOTFOUND) {
        collect_agent_note(agent, "objects that were loaded are not hooked", &why);
        profile_lose(agent->profile, WIRE_LOSS_AGENT_REFUSED, 1);
        collect_agent_members_make_blind(member);
    }
}

/* --- loading --- */

struct loading {
    struct collect_agent *agent;
    struct collect_agent_family *family;
    pid_t pid;
};

static int write_parameters(struct collect_agent *self, const struct collect_agent_family *family,
                            struct patch_agent *agent, struct base_error *error)
{
    const unsigned long fsgsbase = 2; /* HWCAP2_FSGSBASE of x86-64 */
    uint64_t place;
    struct wire_agent_parameters parameters = {
        .alive = patch_agent_alive(agent),
        .flags = getauxval(AT_HWCAP2) & fsgsbase ? WIRE_AGENT_FSGSBASE : 0,
        .code = patch_agent_base(agent),
        .code_end = patch_agent_base(agent) + patch_agent_image_fixed(self->image),
        .forbidden = collect_agent_file_process(&family->file, 0)->forbidden};
    collect_agent_file_parameters(&family->file, &self->wish, patch_agent_region(agent), &parameters);
    if (!patch_agent_image_symbol(self->image, "agent_parameters", &place))
        return base_fail(error, BASE_EFORMAT, "the agent takes no parameters");
    return patch_agent_write(agent, place, &parameters, sizeof parameters, error);
}

/* Where the agent's blocks are, in the region: for samples, and for who takes the agent out. */
static int tell_blocks(const struct collect_agent *self, const struct collect_agent_family *family,
                       const struct patch_agent *agent, struct base_error *error)
{
    uint64_t place;
    struct wire_agent_parameters parameters;
    if (!patch_agent_image_symbol(self->image, "agent_return_blocks", &place))
        return base_fail(error, BASE_EFORMAT, "the agent times no functions");
    struct wire_agent_process *process = collect_agent_file_process(&family->file, 0);
    process->returns_start = patch_agent_base(agent) + place;
    collect_agent_file_parameters(&family->file, &self->wish, patch_agent_region(agent), &parameters);
    process->own_start = parameters.own;
    return BASE_OK;
}

static int prepare(void *context, struct patch_agent *agent, struct base_error *error)
{
    struct loading *loading = context;
    struct collect_agent *self = loading->agent;
    struct collect_agent_family *family = loading->family;
    int file = fcntl(patch_agent_region_file(agent), F_DUPFD_CLOEXEC, 0);
    if (file < 0)
        return base_fail_errno(error, errno, "the agent's memory");
    int result = collect_agent_file_begin(&family->file, file, &self->wish, error);
    if (result < 0) {
        close(file);
        family->file.file = -1;
        return result;
    }
    collect_agent_file_take(&family->file, loading->pid,
                            patch_target_stat(loading->pid, PATCH_TARGET_STARTED));
    family->file.nested = collect_agent_proc_is_nested(loading->pid);
    collect_agent_modules_know(self->processes->images, loading->pid, patch_agent_base(agent));
    result = collect_agent_modules(&family->file, 0, loading->pid, self->processes->images, &self->cookies,
                                   &family->rows, stacks_of(self, family), error);
    if (result == BASE_OK && collect_agent_replaces(self))
        result = tell_blocks(self, family, agent, error);
    if (result == BASE_OK && collect_agent_does(self, WIRE_AGENT_FDS))
        collect_agent_descriptors_begin(
            &(struct collect_agent_descriptors_place){&family->file, 0, loading->pid});
    collect_agent_filter_try(&family->file, agent, collect_agent_times(self));
    if (result == BASE_OK)
        result = collect_agent_members_listen(self, family, error);
    return result < 0 ? result : write_parameters(self, family, agent, error);
}

/* It was loaded, and there is no memory to know of it. */
static void take_out(struct collect_agent *agent, pid_t pid, bool held)
{
    struct patch_agent_left left = {0};
    if (patch_agent_leave(agent->helper, pid, held, &left, NULL) < 0 || left.bytes_left)
        collect_left_add(&agent->left, pid, left.bytes_left, !left.skipped);
}

int collect_agent_load(struct collect_agent *agent, pid_t pid, bool held, struct base_error *error)
{
    struct loading loading = {agent, calloc(1, sizeof *loading.family), pid};
    struct collect_agent_file_pieces pieces;
    collect_agent_file_pieces(&agent->wish, &pieces);
    struct patch_agent_options options = {.image = agent->image,
                                          .plans = agent->plans,
                                          .file_size = collect_agent_file_size(&agent->wish),
                                          .span = pieces.span,
                                          .pieces = pieces.items,
                                          .piece_count = pieces.count,
                                          .prepare = prepare,
                                          .context = &loading};
    struct patch_agent *loaded = NULL;
    if (!loading.family)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    loading.family->file.file = -1;
    int result = collect_translator_refuse(pid, error);
    if (result == BASE_OK)
        result = patch_agent_load(agent->helper, pid, held, &options, &loaded, error);
    bool room = base_array_room(agent->families, agent->family_count, agent->family_capacity);
    struct collect_agent_member *member =
        result < 0 || !room ? NULL : collect_agent_members_add(agent, loading.family, 0, pid, 0, false);
    if (result >= 0 && !member)
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result < 0) {
        if (loaded)
            take_out(agent, pid, held);
        patch_agent_free(loaded);
        collect_agent_members_free_family(agent, loading.family);
        return result;
    }
    agent->families[agent->family_count++] = loading.family;
    member->agent = loaded;
    look_at_hooks(agent, member);
    consider_timers(agent, member, held);
    return BASE_OK;
}
