#include "symbol_near.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_options.h"
#include "symbol_name.h"

void symbol_near_add(struct symbol_near *near, const char *raw)
{
    struct symbol_name name;
    if (near->count == SYMBOL_NEAR_MOST || !base_array_room(near->names, near->count, near->capacity))
        return;
    symbol_name_begin(&name, raw, false);
    char *bare = strdup(symbol_name_bare(&name));
    symbol_name_end(&name);
    if (bare)
        near->names[near->count++] = bare;
}

void symbol_near_free(struct symbol_near *near)
{
    for (size_t i = 0; i < near->count; i++)
        free(near->names[i]);
    free(near->names);
    *near = (struct symbol_near){0};
}

static const char *last_word(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

static bool is_before(const char *name, const char *other)
{
    size_t length = strlen(name), others = strlen(other);
    return length != others ? length < others : strcmp(name, other) < 0;
}

/* Of those that end in the same word the nearest, or else the shortest. */
static const char *same_word(const struct symbol_near *near, const char *wanted)
{
    const char **names = calloc(near->count + 1, sizeof *names), *shortest = NULL;
    size_t count = 0;
    for (size_t i = 0; names && i < near->count; i++)
        if (!strcmp(last_word(near->names[i]), last_word(wanted))) {
            names[count++] = near->names[i];
            shortest = shortest && is_before(shortest, names[count - 1]) ? shortest : names[count - 1];
        }
    const char *nearest = names ? base_options_nearest(wanted, names, count) : NULL;
    free(names);
    return nearest ? nearest : shortest;
}

const char *symbol_near_find(const struct symbol_near *near, const char *pattern)
{
    struct symbol_name name;
    if (!near->count || strpbrk(pattern, "*?["))
        return NULL;
    symbol_name_begin(&name, pattern, true);
    const char *wanted = symbol_name_bare(&name), *found = same_word(near, wanted);
    if (!found)
        found = base_options_nearest(wanted, (const char *const *)near->names, near->count);
    symbol_name_end(&name);
    return found;
}
