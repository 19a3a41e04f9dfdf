/* The process: its region, and what becomes of it when it forks.
 *
 * A fork's child has the parent's mapping of the file, shared, and so would go on writing the parent's
 * tables. What tells it that it is a child is a private page that the kernel hands to it as zeros
 * (MADV_WIPEONFORK): the first hook there finds 0 where the parent finds 1, without a system call. It then
 * takes the next free region (followed) or points itself at a region that says "do not count" for good. A
 * vfork's child runs in its parent's memory and counts for it, which is right: so do its blocks.
 *
 * The child begins with an empty table: blocks of the parent that it releases are unknown to it. Threads that
 * come to a hook while the first one is still setting up pass uncounted. */
#include "agent.h"

#include <sys/syscall.h>

#define COPIES 64 /* of the parent's table of modules, until one is whole */

__attribute__((visibility("hidden"))) struct wire_agent_parameters agent_parameters = {0, 0, 0, 0, 0,
                                                                                       0, 0, 0, 0, 0};

/* A process that counts nothing: state FREE. Only its first words are ever read (agent_x86_64_entry.S). */
__attribute__((visibility("hidden"))) const uint64_t agent_process_inert[8] = {0};

/* The parent's valid table; false: the next one was published meanwhile, and this one is perhaps of two. */
static bool copy_table(struct wire_agent_process *child, const struct wire_agent_process *parent,
                       uint32_t generation)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    const struct wire_agent_module *from =
        (const void *)((const uint8_t *)parent + layout.modules[generation & 1]);
    struct wire_agent_module *to = (void *)((uint8_t *)child + layout.modules[generation & 1]);
    uint32_t count = parent->module_count[generation & 1];
    if (count > WIRE_AGENT_MODULES)
        count = 0;
    for (uint32_t i = 0; i < count; i++)
        to[i] = from[i];
    child->module_count[generation & 1] = count;
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* the table is read before the generation */
    return __atomic_load_n(&parent->generation, __ATOMIC_RELAXED) == generation;
}

/* Where tables change under every copy the child has none (generation 0) until tally publishes its own:
 * stacks end at once until then, which is a loss. */
static void copy_modules(struct wire_agent_process *child, const struct wire_agent_process *parent)
{
    uint32_t generation = 0;
    for (unsigned i = 0; i < COPIES && generation == 0; i++) {
        uint32_t present = __atomic_load_n(&parent->generation, __ATOMIC_ACQUIRE);
        if (copy_table(child, parent, present))
            generation = present;
    }
    child->layers_known =
        __atomic_load_n(&parent->layers_known, __ATOMIC_ACQUIRE); /* written after the number */
    child->layer_count = __atomic_load_n(&parent->layer_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < WIRE_AGENT_LAYERS; i++)
        child->layers[i] = parent->layers[i];
    __atomic_store_n(&child->generation, generation, __ATOMIC_RELEASE);
}

/* Takes the next region; NULL: none for us. */
static struct wire_agent_process *take_region(struct wire_agent_process *parent)
{
    struct wire_agent_control *control = agent_control();
    if (!(control->flags & WIRE_AGENT_FOLLOW) || __atomic_load_n(&control->gone, __ATOMIC_RELAXED) ||
        !agent_may(WIRE_AGENT_CALL_GETPID))
        return NULL; /* nobody reads it */
    uint32_t number = __atomic_load_n(&control->next_region, __ATOMIC_RELAXED);
    do {
        if (number >= control->region_count)
            return NULL;
    } while (!__atomic_compare_exchange_n(&control->next_region, &number, number + 1, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    struct wire_agent_process *child =
        (void *)(agent_parameters.control + control->regions_offset + number * control->region_size);
    child->pid = (uint32_t)arch_host_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    child->parent = (uint32_t)(((uint64_t)parent - agent_parameters.control - control->regions_offset) /
                               control->region_size) +
                    1;
    child->scale = parent->scale;
    child->returns_start = parent->returns_start;
    child->own_start = parent->own_start;
    child->timed = parent->timed;
    child->pid_inside = child->pid;
    copy_modules(child, parent);
    agent_descriptor_inherit(child, parent);
    agent_function_inherit();
    child->unrecorded = agent_parameters.forking != 0; /* agent_wrap_birth's frame, which takes it back */
    child->own_pid = child->pid;
    child->forbidden = agent_parameters.forbidden;
    agent_timer_inherit(child, parent);
    child->version = WIRE_AGENT_VERSION;
    child->magic = WIRE_AGENT_MAGIC;
    return child;
}

bool agent_process_set_up_child(uint32_t *alive)
{
    uint32_t expected = AGENT_FORKED;
    if (!__atomic_compare_exchange_n(alive, &expected, AGENT_SETTING_UP, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_ACQUIRE))
        return false;
    struct wire_agent_process *parent = agent_process(), *child = take_region(parent);
    if (child == NULL && (agent_control()->flags & WIRE_AGENT_FOLLOW) && !agent_control()->gone)
        agent_lose(WIRE_AGENT_LOSS_INERT);
    if (child != NULL) {
        agent_parameters.process = (uint64_t)child;
        agent_return_tell();
        __atomic_store_n(&child->state, WIRE_AGENT_RUNNING, __ATOMIC_RELEASE);
        agent_bell_ring(WIRE_AGENT_FORKED, false);
    } else {
        agent_parameters.process = (uint64_t)agent_process_inert;
    }
    __atomic_store_n(alive, AGENT_ALIVE, __ATOMIC_RELEASE);
    return child != NULL;
}

/* What a compiler may ask for by itself in freestanding code. */
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memset(void *to, int byte, size_t size);

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}

void *memset(void *to, int byte, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = (uint8_t)byte;
    return to;
}
