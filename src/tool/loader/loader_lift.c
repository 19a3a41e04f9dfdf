/* Removes hooks for breakpoints that others have set over them (loader.h). The breakpoint stays, and so
 * does the slot: threads may be in it. */
#include <stdlib.h>
#include <string.h>

#include "loader_inside.h"
#include "proc_uprobe.h"

struct look {
    const struct loader_agent *agent;
    size_t places[PROC_UPROBE_AT_ONCE]; /* indices of hooks */
    size_t count;
    size_t found[PROC_UPROBE_MOST];
    size_t found_count;
};

static void read_places(struct look *look)
{
    uint64_t addresses[PROC_UPROBE_AT_ONCE];
    uint8_t bytes[PROC_UPROBE_AT_ONCE];
    for (size_t i = 0; i < look->count; i++)
        addresses[i] = look->agent->hooks[look->places[i]].address;
    size_t got = proc_uprobe_read(look->agent->pid, addresses, look->count, bytes);
    for (size_t i = 0; i < got && look->found_count < PROC_UPROBE_MOST; i++)
        if (bytes[i] == TRACE_MEMORY_BREAKPOINT)
            look->found[look->found_count++] = look->places[i];
    look->count = 0;
}

static bool must_stay(const struct loader_agent *agent, uint64_t address)
{
    for (size_t i = 0; i < agent->hook_count; i++)
        if (agent->hooks[i].address == address && agent->plans->functions[agent->hooks[i].function].stays)
            return true;
    return false;
}

/* Of two hooks of one function the outer one, to which the jump leads, comes behind the other. */
static bool is_jump_target(const struct loader_agent *agent, size_t index)
{
    const struct loader_hook *hook = &agent->hooks[index];
    return hook->state == LOADER_HOOKED &&
           !(index + 1 < agent->hook_count && agent->hooks[index + 1].address == hook->address &&
             agent->hooks[index + 1].state == LOADER_HOOKED);
}

static void look_for_breakpoints(struct look *look)
{
    for (size_t i = 0; i < look->agent->hook_count; i++) {
        if (!is_jump_target(look->agent, i))
            continue;
        look->places[look->count++] = i;
        if (look->count == PROC_UPROBE_AT_ONCE)
            read_places(look);
    }
    read_places(look);
    size_t kept = 0;
    for (size_t i = 0; i < look->found_count; i++)
        if (!must_stay(look->agent, look->agent->hooks[look->found[i]].address))
            look->found[kept++] = look->found[i];
    look->found_count = kept;
}

bool loader_is_probed(const struct loader_agent *agent)
{
    struct look look = {.agent = agent};
    look_for_breakpoints(&look);
    return look.found_count > 0;
}

/* False: others have changed more of it, or the breakpoint has been removed again. */
static bool plan_lift(struct loader_access *access, const struct loader_hook *hook,
                      struct trace_memory_change *change)
{
    uint8_t live[LOADER_X86_64_WRAP_JUMP];
    struct loader_x86_64_wrap wrap;
    *change = (struct trace_memory_change){.address = hook->address, .length = sizeof live};
    if (loader_read(access, hook->slot, &wrap, sizeof wrap) < 0 ||
        loader_read(access, hook->address, live, sizeof live) < 0 || live[0] != TRACE_MEMORY_BREAKPOINT)
        return false;
    loader_x86_64_wrap_jump(hook->address, hook->slot, change->before);
    memcpy(change->after, wrap.old, sizeof live);
    return trace_memory_spare(live, change->before, change->after, sizeof live);
}

static void mark_lifted(struct loader_agent *agent, uint64_t address)
{
    for (size_t i = 0; i < agent->hook_count; i++)
        if (agent->hooks[i].address == address && agent->hooks[i].state == LOADER_HOOKED)
            agent->hooks[i].state = LOADER_LIFTED;
}

static int lift_hooks(void *context, struct loader_agent *agent, struct base_error *error)
{
    struct look look = {.agent = agent};
    struct loader_access *access = agent->loading;
    struct trace_memory_change changes[PROC_UPROBE_MOST];
    size_t count = 0;
    (void)context;
    look_for_breakpoints(&look);
    for (size_t i = 0; i < look.found_count; i++)
        count += plan_lift(access, &agent->hooks[look.found[i]], &changes[count]);
    int result = count ? helper_trace_stage(access->helper, access->trace, changes, count, error) : BASE_OK;
    if (count && result == BASE_OK)
        result = helper_trace_apply(access->helper, access->trace, error);
    for (size_t i = 0; i < count && result == BASE_OK; i++)
        mark_lifted(agent, changes[i].address);
    return result < 0 ? result : (int)count;
}

int loader_lift(struct loader_agent *agent, struct helper *helper, bool held, struct base_error *error)
{
    return loader_visit(agent, helper, held, lift_hooks, NULL, error);
}
