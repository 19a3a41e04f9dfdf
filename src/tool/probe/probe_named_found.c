#include "probe_named_found.h"

#include <stdio.h>
#include <stdlib.h>

#include "plan_absent.h"
#include "wire_loss.h"

int probe_named_found_begin(struct probe_named_found *found, struct base_error *error)
{
    found->is_named_found = calloc(found->named_count + 1, sizeof *found->is_named_found);
    found->is_timed_found = calloc(found->timed_count + 1, sizeof *found->is_timed_found);
    return found->is_named_found && found->is_timed_found ? BASE_OK
                                                          : base_fail(error, BASE_ENOMEM, "out of memory");
}

void probe_named_found_end(struct probe_named_found *found)
{
    free(found->is_named_found);
    free(found->is_timed_found);
    *found = (struct probe_named_found){0};
}

void probe_named_found_taken(struct probe_named_found *found, const char *name, const char *path)
{
    struct base_error why = {0};
    for (size_t i = 0; i < found->timed_count; i++) {
        if (!plan_function_concerns(&found->timed[i], path) || !plan_function_means(&found->timed[i], name))
            continue;
        found->is_timed_found[i] = true;
        profile_lose(found->profile, WIRE_LOSS_FUNCTION_REFUSED, 1);
        base_fail(&why, BASE_EUNSUPPORTED, "%s of %s: the agent has hooked it for something else", name,
                  path);
        found->note(found->context, "not timed", &why);
        return;
    }
}

static void explain_absent(const struct probe_named_found *found, const struct plan_function_request *request,
                           const char *place, struct base_error *why)
{
    struct symbol_near near = {0};
    for (size_t i = 0; i < found->images->count; i++)
        if (plan_function_concerns(request, found->images->items[i].path))
            sample_image_visit(&found->images->items[i], plan_absent_look, &near);
    plan_absent_explain(&near, request->name, request->image ? request->image : "any image of the program",
                        place, why);
    symbol_near_free(&near);
}

/* Of several the first is named: there is one notice, and to look through large programs for each takes
 * seconds. */
static bool publish_timed(const struct probe_named_found *found)
{
    bool published = false;
    for (size_t i = 0; i < found->timed_count; i++) {
        struct base_error why = {0};
        if (found->is_timed_found[i])
            continue;
        profile_lose(found->profile, WIRE_LOSS_FUNCTION_ABSENT, 1);
        if (published)
            continue;
        explain_absent(found, &found->timed[i], "", &why);
        found->note(found->context, "not timed", &why);
        published = true;
    }
    return published;
}

static void publish_named(const struct probe_named_found *found, bool published)
{
    for (size_t i = 0; i < found->named_count; i++) {
        const struct probe_named_function *named = &found->named[i];
        struct base_error why = {0};
        char place[256];
        if (found->is_named_found[i])
            continue;
        profile_lose(found->profile, WIRE_LOSS_AGENT_NAME_ABSENT, 1);
        if (published)
            continue;
        snprintf(place, sizeof place, "%s:%u: ", named->file, named->line);
        explain_absent(found, &named->request, place, &why);
        found->note(found->context, "not counted", &why);
        published = true;
    }
}

void probe_named_found_publish(const struct probe_named_found *found)
{
    publish_named(found, publish_timed(found));
}
