#include "collect_agent_layers.h"

#include <string.h>
#include <sys/uio.h>

#include "wire_hook.h"

/* malloc, je_malloc ... but not aligned_malloc. */
static bool is_malloc(const char *name)
{
    static const char *const names[] = {"malloc", "je_malloc", "mi_malloc", "tc_malloc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Has the object an operator new of its own? Only then it is a layer: libc's other functions are not its allocator's. */
static bool has_new(const struct patch_agent_hook *hooks, size_t count, const char *path)
{
    static const char *const beginnings[] = {"_Zn", "tc_new", "mi_new"};
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof beginnings / sizeof *beginnings; j++)
            if (strncmp(hooks[i].name, beginnings[j], strlen(beginnings[j])) == 0 &&
                strcmp(hooks[i].path, path) == 0)
                return true;
    return false;
}

static bool read_hook(pid_t pid, uint64_t address, struct wire_hook *hook)
{
    struct iovec local = {hook, sizeof *hook}, remote = {(void *)(uintptr_t)address, sizeof *hook};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof *hook;
}

static void set(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* The mapping that the function lies in becomes a layer. The target reads it meanwhile: never a function beside an allocator that is not its own. */
static bool make(const struct collect_agent_file *file, pid_t pid, const struct patch_agent_hook *hook,
                 struct wire_agent_layer *layer)
{
    struct wire_hook inside;
    for (uint32_t i = 0; i < file->module_count; i++)
        if (hook->address >= file->modules[i].start && hook->address < file->modules[i].end) {
            if (!read_hook(pid, hook->slot, &inside) || inside.function != hook->address)
                return false;
            if (layer->start != file->modules[i].start)
                set(&layer->plain_new, 0);
            set(&layer->start, file->modules[i].start);
            set(&layer->end, file->modules[i].end);
            set(&layer->plain_new, inside.body);
            return true;
        }
    return false;
}

void collect_agent_layers(const struct collect_agent_file *file, uint32_t region, pid_t pid,
                          const struct patch_agent *agent)
{
    struct wire_agent_process *process = collect_agent_file_process(file, region);
    const struct patch_agent_hook *hooks;
    size_t count = patch_agent_hooks(agent, &hooks);
    uint32_t made = 0;
    for (size_t i = 0; i < count && made < WIRE_AGENT_LAYERS; i++)
        if (hooks[i].state == PATCH_AGENT_HOOKED && is_malloc(hooks[i].name) &&
            has_new(hooks, count, hooks[i].path))
            made += make(file, pid, &hooks[i], &process->layers[made]);
    __atomic_store_n(&process->layer_count, made, __ATOMIC_RELEASE);
}
