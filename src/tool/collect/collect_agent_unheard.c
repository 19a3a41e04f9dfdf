#include "collect_agent_unheard.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base_array.h"
#include "collect_ended.h"

struct collect_agent_unheard_child {
    pid_t pid;
    struct collect_ended end;
    struct patch_agent *agent;
};

/* The last one takes its place. */
static struct patch_agent *take_out(struct collect_agent_unheard *unheard, size_t index)
{
    struct patch_agent *agent = unheard->items[index].agent;
    collect_ended_close(&unheard->items[index].end);
    unheard->items[index] = unheard->items[--unheard->count];
    return agent;
}

void collect_agent_unheard_free(struct collect_agent_unheard *unheard)
{
    while (unheard->count)
        patch_agent_free(take_out(unheard, unheard->count - 1));
    free(unheard->items);
    *unheard = (struct collect_agent_unheard){0};
}

/* Who has ended is forgotten first: the number may be another's by now. False: not here. */
static bool find(struct collect_agent_unheard *unheard, pid_t pid, size_t *index)
{
    for (size_t i = unheard->count; i-- > 0;)
        if (collect_ended_is(&unheard->items[i].end))
            patch_agent_free(take_out(unheard, i));
    for (*index = 0; *index < unheard->count; ++*index)
        if (unheard->items[*index].pid == pid)
            return true;
    return false;
}

struct patch_agent *collect_agent_unheard_find(struct collect_agent_unheard *unheard, pid_t pid)
{
    size_t index;
    return find(unheard, pid, &index) ? unheard->items[index].agent : NULL;
}

struct patch_agent *collect_agent_unheard_take(struct collect_agent_unheard *unheard, pid_t pid)
{
    size_t index;
    return find(unheard, pid, &index) ? take_out(unheard, index) : NULL;
}

int collect_agent_unheard_add(struct collect_agent_unheard *unheard, const struct patch_agent *parent,
                              pid_t pid, struct patch_agent **agent, struct base_error *error)
{
    if (!base_array_room(unheard->items, unheard->count, unheard->capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    struct collect_ended end;
    if (!collect_ended_begin(&end, pid))
        return base_fail(error, BASE_ENOTFOUND, "process %d has ended", (int)pid);
    int result = patch_agent_adopt(parent, pid, agent, error);
    if (result < 0) {
        collect_ended_close(&end);
        return result;
    }
    unheard->items[unheard->count++] = (struct collect_agent_unheard_child){pid, end, *agent};
    return BASE_OK;
}
