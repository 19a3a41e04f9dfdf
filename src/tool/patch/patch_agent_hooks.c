/* Hooks of a process: which functions, what is written over them, and when.
 *
 *   1. collect   every function of objects that are not done yet gets a slot with its code, or a reason;
 *   2. clear     threads that stand among bytes that will change go on in the slot's body;
 *   3. write     all changes, or none.
 *
 * 2. needs a standing process. Without one it is the caller's word that nobody runs there (patch_agent_update, `quiet`). */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base_array.h"
#include "patch_agent_inside.h"
#include "patch_target.h"

#define STEP_ROUNDS 4

struct pending {
    struct patch_memory_change change;
    struct patch_x86_64_hook moved;
    uint8_t length;
    bool dropped;
    size_t hook;                    /* index in agent->hooks */
    struct patch_x86_64_wrap *wrap; /* its slot */
};

struct setting {
    struct patch_agent *agent;
    struct patch_agent_access *access;
    struct pending *items;
    size_t count, capacity;
    struct base_error *error;
};

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- 1. collect --- */

static int add(struct setting *setting, const struct patch_agent_hook *hook, enum patch_agent_state state,
               enum patch_reason reason)
{
    struct patch_agent *agent = setting->agent;
    if (!base_array_room(agent->hooks, agent->hook_count, agent->hook_capacity))
        return no_memory(setting->error);
    struct patch_agent_hook *added = &agent->hooks[agent->hook_count++];
    *added = *hook;
    added->state = (uint8_t)state;
    added->reason = (uint8_t)reason;
    return BASE_OK;
}

static int refuse(struct setting *setting, const struct patch_agent_hook *hook, enum patch_reason reason)
{
    return add(setting, hook, PATCH_AGENT_REFUSED, reason);
}

/* What stands there: the file's bytes, or somebody's jump over them, which then moves alone. 0: neither. */
static uint8_t judge(const struct patch_function *function, const uint8_t *live)
{
    const size_t jump = PATCH_X86_64_WRAP_JUMP;
    if (memcmp(live, function->old, function->length) == 0)
        return function->length;
    if (live[0] == 0xe9 && memcmp(live + jump, function->old + jump, function->length - jump) == 0)
        return (uint8_t)jump;
    return 0;
}

static void fill_change(struct pending *pending, const struct patch_agent_hook *hook, const uint8_t *live)
{
    pending->change =
        (struct patch_memory_change){.address = hook->address, .length = PATCH_X86_64_WRAP_JUMP};
    memcpy(pending->change.before, live, PATCH_X86_64_WRAP_JUMP);
    patch_x86_64_wrap_jump(hook->address, hook->slot, pending->change.after);
}

static int add_pending(struct setting *setting, const struct patch_agent_object *object,
                       struct patch_agent_hook *hook, const uint8_t *live, uint8_t length, size_t wanted)
{
    struct patch_agent *agent = setting->agent;
    struct patch_agent_slab *slab;
    uint32_t slot;
    if (!base_array_room(setting->items, setting->count, setting->capacity))
        return no_memory(setting->error);
    int result = patch_agent_slot(agent, setting->access, object, wanted, setting->access->standing, &slab,
                                  &slot, setting->error);
    if (result != BASE_OK)
        return result > 0 ? BASE_EBUSY : result;
    struct pending *pending = &setting->items[setting->count];
    *pending = (struct pending){.length = length, .wrap = &slab->slots[slot]};
    hook->slot = slab->address + slot * sizeof *pending->wrap;
    const struct patch_agent_function *function = &agent->plans->functions[hook->function];
    enum patch_reason reason = patch_x86_64_wrap_make(pending->wrap, hook->slot, hook->address, live, length,
                                                      function->whole, &pending->moved);
    if (reason != PATCH_FINE) {
        pending->wrap->hook.function = 0;
        hook->slot = 0;
        return refuse(setting, hook, reason);
    }
    pending->wrap->hook.handler = agent->base + function->handler;
    pending->wrap->hook.cookie = function->cookie;
    fill_change(pending, hook, live);
    pending->hook = agent->hook_count;
    result = refuse(setting, hook, PATCH_FINE); /* until it is written */
    setting->count += result == BASE_OK;
    return result;
}

static bool is_known(const struct patch_agent *agent, uint64_t address)
{
    for (size_t i = 0; i < agent->hook_count; i++)
        if (agent->hooks[i].address == address && agent->hooks[i].state != PATCH_AGENT_GONE)
            return true;
    return false;
}

static int collect_function(struct setting *setting, const struct patch_agent_object *object,
                            const struct patch_function *function, size_t wanted)
{
    uint8_t live[sizeof function->old] = {0};
    struct patch_agent_hook hook = {.address = object->bias + function->address,
                                    .function = function->wish,
                                    .name = function->name,
                                    .path = object->path};
    if (hook.address < object->start || hook.address >= object->end || is_known(setting->agent, hook.address))
        return BASE_OK;
    if (setting->agent->plans->functions[function->wish].only_found && !function->resolver)
        return add(setting, &hook, PATCH_AGENT_FOUND, PATCH_FINE);
    if (function->reason != PATCH_FINE)
        return refuse(setting, &hook, function->reason);
    if (object->file->owns_stacks && setting->agent->plans->functions[function->wish].whole)
        return refuse(setting, &hook, PATCH_REASON_OWN_STACKS);
    if (patch_agent_read(setting->access, hook.address, live, function->length) < 0)
        return refuse(setting, &hook, PATCH_REASON_TEXT_DIFFERS);
    uint8_t length = judge(function, live);
    if (length == 0)
        return refuse(setting, &hook, PATCH_REASON_TEXT_DIFFERS);
    return add_pending(setting, object, &hook, live, length, wanted);
}

static int collect(struct setting *setting)
{
    struct patch_agent *agent = setting->agent;
    int result = BASE_OK;
    for (size_t i = 0; i < agent->object_count && result == BASE_OK; i++) {
        const struct patch_agent_object *object = agent->objects[i];
        size_t count = object->file != NULL ? object->file->functions.count : 0;
        if (!object->live || object->done)
            continue;
        for (size_t j = 0; j < count && result == BASE_OK; j++)
            result = collect_function(setting, object, &object->file->functions.items[j], count - j);
    }
    return result;
}

/* --- 2. clear --- */

static struct pending *around(struct setting *setting, uint64_t pc)
{
    for (size_t i = 0; i < setting->count; i++) {
        struct pending *pending = &setting->items[i];
        uint64_t start = pending->change.address;
        if (!pending->dropped && pc > start && pc < start + pending->length)
            return pending;
    }
    return NULL;
}

/* A thread on a boundary goes on at the same instruction in the body; elsewhere it is stepped out. */
static int move(struct setting *setting, pid_t tid, uint64_t pc, const struct pending *pending)
{
    struct patch_agent_access *access = setting->access;
    const struct patch_x86_64_entry entry = {.kind = PATCH_ENTRY,
                                             .length = pending->length,
                                             .address = pending->change.address,
                                             .old = pending->wrap->old};
    struct user_regs_struct registers;
    uint64_t body = patch_x86_64_entry_body_of(&entry, &pending->moved, pc);
    if (body == 0) {
        struct patch_step_range range = {entry.address + 1, entry.address + entry.length};
        return patch_trace_step_out(access->helper, access->trace, tid, &range, 1, NULL);
    }
    int result = patch_trace_read_registers(access->helper, access->trace, tid, &registers, NULL);
    registers.rip = body;
    return result < 0 ? result
                      : patch_trace_write_registers(access->helper, access->trace, tid, &registers, NULL);
}

static void drop(struct setting *setting, struct pending *pending, enum patch_reason reason)
{
    setting->agent->hooks[pending->hook].reason = (uint8_t)reason;
    setting->agent->hooks[pending->hook].slot = 0;
    pending->wrap->hook.function = 0;
    pending->dropped = true;
}

/* True: somebody had to be moved, and may stand elsewhere among the bytes now. */
static bool clear_thread(struct setting *setting, const struct patch_stop_thread *thread)
{
    uint64_t pc = thread->pc, sp;
    if (thread->state == PATCH_STOP_GONE)
        return false;
    if (pc == 0 && !patch_target_is_in_kernel(thread->process, thread->tid, &pc, &sp))
        pc = 0;
    struct pending *pending = around(setting, pc);
    if (pending == NULL)
        return false;
    if (thread->state != PATCH_STOP_STOPPED || move(setting, thread->tid, pc, pending) < 0)
        drop(setting, pending, PATCH_REASON_ENTRY_OCCUPIED);
    return true;
}

static int clear(struct setting *setting)
{
    struct patch_agent_access *access = setting->access;
    bool moved = setting->count > 0;
    for (int round = 0; round < STEP_ROUNDS && moved; round++) {
        struct patch_stop_thread *threads;
        size_t count;
        int result = patch_trace_threads(access->helper, access->trace, &threads, &count, setting->error);
        if (result < 0)
            return result;
        moved = false;
        for (size_t i = 0; i < count; i++)
            moved |= clear_thread(setting, &threads[i]);
        free(threads);
    }
    return moved
               ? base_fail(setting->error, BASE_EBUSY, "a thread cannot be brought out of what is to change")
               : BASE_OK;
}

/* --- 3. write --- */

static int apply(struct setting *setting, struct patch_memory_change *changes, size_t count)
{
    struct patch_agent_access *access = setting->access;
    if (count == 0)
        return BASE_OK;
    if (!access->standing)
        return patch_memory_apply(&access->memory, changes, count, NULL, NULL) < 0 ? BASE_EBUSY : BASE_OK;
    int result = patch_trace_stage(access->helper, access->trace, changes, count, setting->error);
    return result < 0 ? result : patch_trace_apply(access->helper, access->trace, setting->error);
}

static int write_all(struct setting *setting)
{
    struct patch_memory_change *changes = calloc(setting->count + 1, sizeof *changes);
    size_t count = 0;
    if (changes == NULL)
        return no_memory(setting->error);
    for (size_t i = 0; i < setting->count; i++)
        if (!setting->items[i].dropped)
            changes[count++] = setting->items[i].change;
    int result = apply(setting, changes, count);
    free(changes);
    for (size_t i = 0; i < setting->count && result == BASE_OK; i++)
        if (!setting->items[i].dropped)
            setting->agent->hooks[setting->items[i].hook].state = PATCH_AGENT_HOOKED;
    return result < 0 ? result : (int)count;
}

/* --- all --- */

static void forget(struct setting *setting, size_t hook_count)
{
    for (size_t i = 0; i < setting->count; i++)
        setting->items[i].wrap->hook.function = 0;
    setting->agent->hook_count = hook_count;
}

int patch_agent_set_hooks(struct patch_agent *agent, struct patch_agent_access *access,
                          struct base_error *error)
{
    struct setting setting = {.agent = agent, .access = access, .error = error};
    size_t before = agent->hook_count;
    int result = collect(&setting);
    if (result == BASE_OK && access->standing)
        result = clear(&setting);
    if (result == BASE_OK)
        result = write_all(&setting);
    if (result < 0)
        forget(&setting, before);
    for (size_t i = 0; i < agent->object_count && result >= 0; i++)
        agent->objects[i]->done = true;
    free(setting.items);
    return result;
}

size_t patch_agent_hooks(const struct patch_agent *agent, const struct patch_agent_hook **hooks)
{
    *hooks = agent->hooks;
    return agent->hook_count;
}
