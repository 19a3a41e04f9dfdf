#include "view_cycle.h"

#include <stdlib.h>

struct vertex {
    uint32_t index, low; /* order of discovery, from 1; the earliest that it reaches */
    uint32_t next;       /* successor to look at */
    bool waiting;        /* on the stack of undecided ones */
};

struct search {
    const uint32_t *first, *targets;
    uint32_t *component;
    struct vertex *vertices;
    uint32_t *path, *waiting;
    size_t path_count, waiting_count;
    uint32_t discovered, components;
};

static void discover_vertex(struct search *search, uint32_t v)
{
    search->vertices[v] = (struct vertex){++search->discovered, search->discovered, search->first[v], true};
    search->path[search->path_count++] = v;
    search->waiting[search->waiting_count++] = v;
}

/* Everything above v on the stack is v's component. */
static void settle_component(struct search *search, uint32_t v)
{
    size_t begin = search->waiting_count;
    while (search->waiting[--begin] != v)
        ;
    uint32_t number = search->waiting_count - begin > 1 ? ++search->components : 0;
    for (size_t i = begin; i < search->waiting_count; i++) {
        search->component[search->waiting[i]] = number;
        search->vertices[search->waiting[i]].waiting = false;
    }
    search->waiting_count = begin;
}

static void lower_link(uint32_t *low, uint32_t other)
{
    if (other < *low)
        *low = other;
}

/* One successor of the vertex at the end of the path, or its end. */
static void advance_path(struct search *search)
{
    uint32_t v = search->path[search->path_count - 1];
    struct vertex *vertex = &search->vertices[v];
    if (vertex->next < search->first[v + 1]) {
        uint32_t target = search->targets[vertex->next++];
        if (!search->vertices[target].index)
            discover_vertex(search, target);
        else if (search->vertices[target].waiting)
            lower_link(&vertex->low, search->vertices[target].index);
        return;
    }
    search->path_count--;
    if (vertex->low == vertex->index)
        settle_component(search, v);
    if (search->path_count)
        lower_link(&search->vertices[search->path[search->path_count - 1]].low, vertex->low);
}

bool view_cycle_find(size_t count, const uint32_t *first, const uint32_t *targets, uint32_t *component)
{
    struct search search = {.first = first, .targets = targets, .component = component};
    search.vertices = calloc(count + 1, sizeof *search.vertices);
    search.path = calloc(count + 1, sizeof *search.path);
    search.waiting = calloc(count + 1, sizeof *search.waiting);
    bool ready = search.vertices && search.path && search.waiting;
    for (size_t v = 0; ready && v < count; v++) {
        if (!search.vertices[v].index)
            discover_vertex(&search, (uint32_t)v);
        while (search.path_count)
            advance_path(&search);
    }
    free(search.vertices);
    free(search.path);
    free(search.waiting);
    return ready;
}
