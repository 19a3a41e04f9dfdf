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
static struct loader_agent *take_agent(struct probe_undiscovered *undiscovered, size_t index)
{
    struct loader_agent *agent = undiscovered->items[index].agent;
    proc_ended_close(&undiscovered->items[index].end);
    undiscovered->items[index] = undiscovered->items[--undiscovered->count];
    return agent;
}

void probe_undiscovered_free(struct probe_undiscovered *undiscovered)
{
    while (undiscovered->count)
        loader_free(take_agent(undiscovered, undiscovered->count - 1));
    free(undiscovered->items);
    *undiscovered = (struct probe_undiscovered){0};
}

/* A process that has ended is forgotten first: the number may be another's by now. False: not here. */
static bool find_child(struct probe_undiscovered *undiscovered, pid_t pid, size_t *index)
{
    for (size_t i = undiscovered->count; i-- > 0;)
        if (proc_ended_is(&undiscovered->items[i].end))
            loader_free(take_agent(undiscovered, i));
    for (*index = 0; *index < undiscovered->count; ++*index)
        if (undiscovered->items[*index].pid == pid)
            return true;
    return false;
}

struct loader_agent *probe_undiscovered_find(struct probe_undiscovered *undiscovered, pid_t pid)
{
    size_t index;
    return find_child(undiscovered, pid, &index) ? undiscovered->items[index].agent : NULL;
}

struct loader_agent *probe_undiscovered_take(struct probe_undiscovered *undiscovered, pid_t pid)
{
    size_t index;
    return find_child(undiscovered, pid, &index) ? take_agent(undiscovered, index) : NULL;
}

int probe_undiscovered_add(struct probe_undiscovered *undiscovered, const struct loader_agent *parent,
                           pid_t pid, struct loader_agent **agent, struct base_error *error)
{
    if (!base_array_room(undiscovered->items, undiscovered->count, undiscovered->capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    struct proc_ended end;
    if (!proc_ended_begin(&end, pid))
        return base_fail(error, BASE_ENOTFOUND, "process %d has ended", (int)pid);
    int result = loader_adopt(parent, pid, agent, error);
    if (result < 0) {
        proc_ended_close(&end);
        return result;
    }
    undiscovered->items[undiscovered->count++] = (struct probe_undiscovered_child){pid, end, *agent};
    return BASE_OK;
}
