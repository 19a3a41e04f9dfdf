#include "collect_agent_named_found.h"

#include <stdlib.h>

#include "wire_loss.h"

int collect_agent_named_found_begin(struct collect_agent_named_found *found, struct base_error *error)
{
    found->is_named_found = calloc(found->named_count + 1, sizeof *found->is_named_found);
    found->is_timed_found = calloc(found->timed_count + 1, sizeof *found->is_timed_found);
    return found->is_named_found && found->is_timed_found ? BASE_OK
                                                          : base_fail(error, BASE_ENOMEM, "out of memory");
}

void collect_agent_named_found_end(struct collect_agent_named_found *found)
{
    free(found->is_named_found);
    free(found->is_timed_found);
    *found = (struct collect_agent_named_found){0};
}

void collect_agent_named_found_taken(struct collect_agent_named_found *found, const char *name,
                                     const char *path)
{
    struct base_error why = {0};
    for (size_t i = 0; i < found->timed_count; i++) {
        if (!patch_function_concerns(&found->timed[i], path) || !patch_function_means(&found->timed[i], name))
            continue;
        found->is_timed_found[i] = true;
        profile_lose(found->profile, WIRE_LOSS_AGENT_REFUSED, 1);
        base_fail(&why, BASE_EUNSUPPORTED, "%s of %s: the agent has hooked it for something else", name,
                  path);
        found->note(found->context, "not timed", &why);
        return;
    }
}

static void tell_timed(const struct collect_agent_named_found *found)
{
    for (size_t i = 0; i < found->timed_count; i++) {
        const struct patch_function_wish *wish = &found->timed[i];
        struct base_error why = {0};
        if (found->is_timed_found[i])
            continue;
        profile_lose(found->profile, WIRE_LOSS_FUNCTION_ABSENT, 1);
        base_fail(&why, BASE_ENOTFOUND, "no function %s was found in %s", wish->name,
                  wish->image ? wish->image : "any image of the program");
        found->note(found->context, "not timed", &why);
    }
}

static void tell_named(const struct collect_agent_named_found *found)
{
    for (size_t i = 0; i < found->named_count; i++) {
        const struct collect_agent_named_function *named = &found->named[i];
        struct base_error why = {0};
        if (found->is_named_found[i])
            continue;
        profile_lose(found->profile, WIRE_LOSS_AGENT_NAME_ABSENT, 1);
        base_fail(&why, BASE_ENOTFOUND, "%s:%u: no function %s was found in %s", named->file, named->line,
                  named->wish.name, named->wish.image ? named->wish.image : "any image of the program");
        found->note(found->context, "not counted", &why);
    }
}

void collect_agent_named_found_tell(const struct collect_agent_named_found *found)
{
    tell_timed(found);
    tell_named(found);
}
