#include "probe_undiscovered.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base_array.h"
#include "proc_ended.h"

struct probe_undiscovered_child {
    pid_t pid;
    struct proc_ended end;
    struct loader_agent *agent;
};

/* The last one takes its place. */
static struct loader_agent *take_out(struct probe_undiscovered *unheard, size_t index)
{
    struct loader_agent *agent = unheard->items[index].agent;
    proc_ended_close(&unheard->items[index].end);
    unheard->items[index] = unheard->items[--unheard->count];
    return agent;
}

void probe_undiscovered_free(struct probe_undiscovered *unheard)
{
    while (unheard->count)
        loader_free(take_out(unheard, unheard->count - 1));
    free(unheard->items);
    *unheard = (struct probe_undiscovered){0};
}

/* Who has ended is forgotten first: the number may be another's by now. False: not here. */
static bool find(struct probe_undiscovered *unheard, pid_t pid, size_t *index)
{
    for (size_t i = unheard->count; i-- > 0;)
        if (proc_ended_is(&unheard->items[i].end))
            loader_free(take_out(unheard, i));
    for (*index = 0; *index < unheard->count; ++*index)
        if (unheard->items[*index].pid == pid)
            return true;
    return false;
}

struct loader_agent *probe_undiscovered_find(struct probe_undiscovered *unheard, pid_t pid)
{
    size_t index;
    return find(unheard, pid, &index) ? unheard->items[index].agent : NULL;
}

struct loader_agent *probe_undiscovered_take(struct probe_undiscovered *unheard, pid_t pid)
{
    size_t index;
    return find(unheard, pid, &index) ? take_out(unheard, index) : NULL;
}

int probe_undiscovered_add(struct probe_undiscovered *unheard, const struct loader_agent *parent, pid_t pid,
                           struct loader_agent **agent, struct base_error *error)
{
    if (!base_array_room(unheard->items, unheard->count, unheard->capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    struct proc_ended end;
    if (!proc_ended_begin(&end, pid))
        return base_fail(error, BASE_ENOTFOUND, "process %d has ended", (int)pid);
    int result = loader_adopt(parent, pid, agent, error);
    if (result < 0) {
        proc_ended_close(&end);
        return result;
    }
    unheard->items[unheard->count++] = (struct probe_undiscovered_child){pid, end, *agent};
    return BASE_OK;
}
