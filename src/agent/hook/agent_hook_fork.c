/* Forks: a child takes a region of its own.
 *
 * A fork's child has the parent's mapping of the file, shared, and so would go on writing the parent's
 * tables. It knows that it is a child by a private page that the kernel hands to it as zeros
 * (MADV_WIPEONFORK): the first hook there finds 0 where the parent finds 1, without a system call. It then
 * takes the next free region (followed) and shows it where the parent's was, or points itself at a region
 * that says "do not count" for good. A vfork's child runs in its parent's memory and counts for it, which is
 * right: so do its blocks.
 *
 * The child begins with an empty table: blocks of the parent that it releases are unknown to it. Threads that
 * come to a hook while the first one is still setting up pass uncounted. */
#include <sys/syscall.h>

#include "agent_call_descriptor.h"
#include "agent_hook_notify.h"
#include "agent_may.h"
#include "agent_memory.h"
#include "agent_pending.h"
#include "agent_process.h"
#include "agent_return.h"
#include "agent_thread.h"
#include "agent_timer.h"

#define COPIES 64 /* of the parent's table of modules, until one is whole */

/* The parent's valid table; false: the next one was published meanwhile, and this one is perhaps of two. */
static bool copy_module_table(struct wire_agent_process *child, const struct wire_agent_process *parent,
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
        if (copy_module_table(child, parent, present))
            generation = present;
    }
    child->layers_known =
        __atomic_load_n(&parent->layers_known, __ATOMIC_ACQUIRE); /* written after the number */
    child->layer_count = __atomic_load_n(&parent->layer_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < WIRE_AGENT_LAYERS; i++)
        child->layers[i] = parent->layers[i];
    __atomic_store_n(&child->generation, generation, __ATOMIC_RELEASE);
}

/* Would anybody read a region of ours, and can it be shown? */
static bool may_have_region(void)
{
    const struct wire_agent_control *control = agent_control();
    return (control->flags & WIRE_AGENT_FOLLOW) && !__atomic_load_n(&control->gone, __ATOMIC_RELAXED) &&
           __atomic_load_n(&control->next_region, __ATOMIC_RELAXED) < control->region_count &&
           agent_may(WIRE_AGENT_CALL_GETPID | WIRE_AGENT_CALL_GROW | WIRE_AGENT_CALL_SHOW);
}

/* The number of the next region; 0: none for us. */
static uint32_t take_region_number(void)
{
    struct wire_agent_control *control = agent_control();
    uint32_t number = __atomic_load_n(&control->next_region, __ATOMIC_RELAXED);
    do {
        if (number >= control->region_count)
            return 0;
    } while (!__atomic_compare_exchange_n(&control->next_region, &number, number + 1, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return number;
}

/* It could not be shown, and nothing was written to it: the next one may have it, unless others have come
 * since. */
static void give_region_number_back(uint32_t number)
{
    uint32_t next = number + 1;
    __atomic_compare_exchange_n(&agent_control()->next_region, &next, number, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

/* A new region has what its process inherits. */
static void fill_region(struct wire_agent_process *child, const struct wire_agent_process *parent)
{
    child->pid = (uint32_t)arch_host_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    child->scale = parent->scale;
    child->returns_start = parent->returns_start;
    child->own_start = parent->own_start;
    child->timed = parent->timed;
    child->pid_inside = child->pid;
    copy_modules(child, parent);
    agent_pending_inherit();
    child->unrecorded = agent_parameters.forking != 0; /* agent_wrap_process's frame, which takes it back */
    child->own_pid = child->pid;
    child->forbidden = agent_parameters.forbidden;
    agent_timer_inherit(child, parent);
    child->version = WIRE_AGENT_VERSION;
    child->magic = WIRE_AGENT_MAGIC;
}

/* A region in the place of the parent's. False: none for us, and the parent's head is still there. */
static bool move_to_region(const struct wire_agent_process *parent, const void *descriptors)
{
    uint32_t before = agent_parameters.region, number = take_region_number();
    if (number == 0)
        return false;
    agent_thread_inherit();
    if (!agent_memory_show(number)) {
        give_region_number_back(number);
        return false;
    }
    agent_parameters.region = number;
    agent_process()->parent = before + 1;
    fill_region(agent_process(), parent);
    agent_call_descriptor_inherit(agent_process(), parent, descriptors);
    return true;
}

static bool take_region(void)
{
    uint64_t head = agent_parameters.mapped[WIRE_AGENT_PART_HEAD];
    uint64_t opened = agent_call_descriptor_mapped();
    if (!may_have_region())
        return false;
    const struct wire_agent_process *parent = agent_memory_view(WIRE_AGENT_PART_HEAD, head);
    const void *descriptors = opened != 0 ? agent_memory_view(WIRE_AGENT_PART_DESCRIPTORS, opened) : NULL;
    bool taken =
        parent != NULL && (opened == 0 || descriptors != NULL) && move_to_region(parent, descriptors);
    agent_memory_end_view(parent, head);
    agent_memory_end_view(descriptors, opened);
    return taken;
}

bool agent_process_set_up_child(uint32_t *alive)
{
    uint32_t expected = AGENT_FORKED;
    if (!__atomic_compare_exchange_n(alive, &expected, AGENT_SETTING_UP, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_ACQUIRE))
        return false;
    bool taken = take_region();
    if (!taken && (agent_control()->flags & WIRE_AGENT_FOLLOW) && !agent_control()->gone)
        agent_lose(WIRE_AGENT_LOSS_INERT);
    if (taken) {
        agent_return_publish();
        __atomic_store_n(&agent_process()->state, WIRE_AGENT_RUNNING, __ATOMIC_RELEASE);
        agent_hook_notify(WIRE_AGENT_FORKED, false);
    } else {
        agent_pending_inherit();
        agent_parameters.process = (uint64_t)agent_process_inert;
    }
    __atomic_store_n(alive, AGENT_ALIVE, __ATOMIC_RELEASE);
    return taken;
}
