#include "probe_layers.h"

#include <string.h>

#include "probe_functions.h"
#include "proc_target.h"
#include "wire_hook.h"

enum {
    GLIBC_HEADER = 8,
    GLIBC_MAPPED = 8
}; /* bytes before a block; and as much again when it is mapped alone */

struct view {
    const struct loader_hook *hooks;
    size_t count;
    const struct probe_layers_request *request;
};

static bool is_allocator_hook(const struct view *view, const struct loader_hook *hook)
{
    return hook->state != LOADER_GONE && hook->function < view->request->allocators;
}

static uint32_t family_of(const struct view *view, const struct loader_hook *hook)
{
    return wire_agent_cookie_family(view->request->functions[hook->function].cookie);
}

/* malloc, je_malloc ... but not aligned_malloc. */
static bool is_malloc(const char *name)
{
    static const char *const names[] = {"malloc", "je_malloc", "mi_malloc", "tc_malloc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The family's malloc, hooked or refused; a family of other names for the same functions has none, and is the
 * plain one. */
static const struct loader_hook *malloc_of(const struct view *view, const char *path, uint32_t family)
{
    const struct loader_hook *plain = NULL;
    for (size_t i = 0; i < view->count; i++) {
        const struct loader_hook *hook = &view->hooks[i];
        if (!is_allocator_hook(view, hook) || !is_malloc(hook->name) || strcmp(hook->path, path) != 0)
            continue;
        if (family_of(view, hook) == family)
            return hook;
        if (family_of(view, hook) == WIRE_AGENT_PLAIN)
            plain = hook;
    }
    return plain;
}

/* Has the object an operator new of its own? */
static bool has_new(const struct view *view, const char *path)
{
    static const char *const beginnings[] = {"_Zn", "tc_new", "mi_new"};
    for (size_t i = 0; i < view->count; i++)
        for (size_t j = 0; j < sizeof beginnings / sizeof *beginnings; j++)
            if (is_allocator_hook(view, &view->hooks[i]) &&
                strncmp(view->hooks[i].name, beginnings[j], strlen(beginnings[j])) == 0 &&
                strcmp(view->hooks[i].path, path) == 0)
                return true;
    return false;
}

/* Has another object a realloc, of whatever kind? A reallocarray calls the one that the loader found
 * first. */
static bool is_only_realloc(const struct view *view, const char *path)
{
    for (size_t i = 0; i < view->count; i++)
        if (is_allocator_hook(view, &view->hooks[i]) && strcmp(view->hooks[i].name, "realloc") == 0 &&
            strcmp(view->hooks[i].path, path) != 0)
            return false;
    return true;
}

/* Run-time address; 0: the object has no such function. */
static uint64_t found_address(const struct view *view, const char *path, const char *name)
{
    for (size_t i = 0; name != NULL && i < view->count; i++)
        if (view->hooks[i].state == LOADER_FOUND && strcmp(view->hooks[i].name, name) == 0 &&
            strcmp(view->hooks[i].path, path) == 0)
            return view->hooks[i].address;
    return 0;
}

/* 0: it cannot be had. */
static uint64_t body_of(pid_t pid, const struct loader_hook *hook)
{
    struct wire_hook inside;
    if (hook->state != LOADER_HOOKED ||
        proc_target_read(pid, hook->slot, &inside, sizeof inside) != sizeof inside)
        return 0;
    return inside.function == hook->address ? inside.body : 0;
}

static bool is_of_arrays(uint32_t family)
{
    return family == WIRE_AGENT_ARRAYS || family == WIRE_AGENT_TC_ARRAYS;
}

/* The object's operator new, or new[], that may not throw; NULL: it has none, or it could not be hooked. */
static const struct loader_hook *nothrow_of(const struct view *view, const char *path, bool of_arrays)
{
    static const char *const names[][2] = {{"_ZnwmRKSt9nothrow_t", "tc_new_nothrow"},
                                           {"_ZnamRKSt9nothrow_t", "tc_newarray_nothrow"}};
    for (size_t i = 0; i < view->count; i++)
        for (size_t j = 0; j < 2; j++)
            if (is_allocator_hook(view, &view->hooks[i]) && strcmp(view->hooks[i].path, path) == 0 &&
                strcmp(view->hooks[i].name, names[of_arrays][j]) == 0)
                return &view->hooks[i];
    return NULL;
}

/* What the agent calls for operator new: malloc, which calls no handler of the program's when memory ends,
 * or where the allocator remembers which function gave a block, the same operator in its other form. */
static uint64_t plain_new(const struct view *view, pid_t pid, const struct loader_hook *hook,
                          const struct loader_hook *allocator)
{
    if (!has_new(view, hook->path))
        return 0;
    if (found_address(view, hook->path, PROBE_REMEMBERS))
        allocator = nothrow_of(view, hook->path, is_of_arrays(family_of(view, hook)));
    return allocator != NULL ? body_of(pid, allocator) : 0;
}

static void fill_layer(const struct view *view, pid_t pid, const struct loader_hook *hook,
                       struct wire_agent_layer *layer)
{
    const struct loader_hook *allocator = malloc_of(view, hook->path, family_of(view, hook));
    layer->family = (uint16_t)family_of(view, hook);
    layer->alone = is_only_realloc(view, hook->path);
    if (allocator == NULL || layer->family == WIRE_AGENT_NAMED) /* whose blocks are no allocator's we know */
        return;
    layer->plain_new = plain_new(view, pid, hook, allocator);
    if (!view->request->sizes)
        return;
    const char *name = probe_functions_usable_size(family_of(view, allocator));
    layer->usable_size = found_address(view, hook->path, name);
    if (family_of(view, allocator) == WIRE_AGENT_PLAIN && found_address(view, hook->path, PROBE_GLIBC)) {
        layer->header_bytes = GLIBC_HEADER;
        layer->mapped_bytes = GLIBC_MAPPED;
    }
}

static const struct wire_agent_module *module_at(const struct shared_file *file, uint64_t address)
{
    for (uint32_t i = 0; i < file->module_count; i++)
        if (address >= file->modules[i].start && address < file->modules[i].end)
            return &file->modules[i];
    return NULL;
}

/* Of modules that are gone: no address is in them any more. */
static void close_gone(const struct shared_file *file, struct wire_agent_process *process, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct wire_agent_layer *layer = &process->layers[i];
        const struct wire_agent_module *module = module_at(file, layer->start);
        if (module == NULL || module->start != layer->start || module->end != layer->end)
            __atomic_store_n(&layer->start, layer->end, __ATOMIC_RELEASE);
    }
}

static struct wire_agent_layer *layer_at(struct wire_agent_process *process, uint32_t count, uint64_t address,
                                         uint32_t family)
{
    for (uint32_t i = 0; i < count; i++)
        if (address >= process->layers[i].start && address < process->layers[i].end &&
            process->layers[i].family == family)
            return &process->layers[i];
    return NULL;
}

/* Another object may have come to the very place of one that is gone. */
static bool keep_layer(struct wire_agent_layer *there, const struct wire_agent_layer *layer)
{
    if (there->plain_new == layer->plain_new && there->usable_size == layer->usable_size &&
        there->alone == layer->alone)
        return true;
    __atomic_store_n(&there->start, there->end, __ATOMIC_RELEASE);
    return false;
}

static uint32_t add_layer(struct wire_agent_process *process, uint32_t count,
                          const struct wire_agent_layer *layer)
{
    if ((layer->plain_new == 0 && layer->usable_size == 0) || count == WIRE_AGENT_LAYERS)
        return count;
    process->layers[count] = *layer;
    __atomic_store_n(&process->layer_count, count + 1, __ATOMIC_RELEASE);
    return count + 1;
}

const char *probe_layers(const struct shared_file *file, uint32_t region, pid_t pid,
                         const struct loader_agent *agent, const struct probe_layers_request *request)
{
    struct wire_agent_process *process = shared_file_process(file, region);
    struct view view = {.request = request};
    const char *unknown = NULL;
    view.count = loader_hooks(agent, &view.hooks);
    uint32_t count = process->layer_count < WIRE_AGENT_LAYERS ? process->layer_count : WIRE_AGENT_LAYERS;
    close_gone(file, process, count);
    for (size_t i = 0; i < view.count; i++) {
        const struct loader_hook *hook = &view.hooks[i];
        const struct wire_agent_module *module = module_at(file, hook->address);
        if (!is_allocator_hook(&view, hook) || hook->state != LOADER_HOOKED || module == NULL)
            continue;
        struct wire_agent_layer layer = {.start = module->start, .end = module->end};
        fill_layer(&view, pid, hook, &layer);
        if (request->sizes && layer.usable_size == 0)
            unknown = hook->path;
        struct wire_agent_layer *there = layer_at(process, count, hook->address, layer.family);
        if (there == NULL || !keep_layer(there, &layer))
            count = add_layer(process, count, &layer);
    }
    __atomic_store_n(&process->layers_known, 1, __ATOMIC_RELEASE);
    return unknown;
}
