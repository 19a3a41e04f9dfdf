/* Hooks of a process: which functions, what is written over them, and when.
 *
 *   1. collect   every function of objects that are not done yet gets a slot with its code, or one for each
 *                of its two hooks, or a reason;
 *   2. clear     threads that stand among bytes that will change go on in the slot's body;
 *   3. write     all changes, or none.
 *
 * 2. needs a standing process. Without one it is the caller's word that nobody runs there
 * (loader_update, `quiet`). */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base_array.h"
#include "loader_inside.h"
#include "proc_target.h"
#include "trace_frames.h"

#define STEP_ROUNDS 4
#define LAYERS      2 /* hooks of one function: the one beneath, and what goes over it */

struct pending {
    struct trace_memory_change change;
    struct stub_x86_64_hook moved;
    uint8_t length;
    bool dropped;
    size_t hook, count;                       /* index in agent->hooks of the first one, beneath */
    struct loader_x86_64_wrap *wraps[LAYERS]; /* their slots */
};

/* What a function is to have. */
struct layers {
    uint32_t functions[LAYERS]; /* indices in the plans' functions */
    size_t count;
};

struct setting {
    struct loader_agent *agent;
    struct loader_access *access;
    struct pending *items;
    size_t count, capacity;
    struct base_error *error;
};

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- 1. collect --- */

static int add(struct setting *setting, const struct loader_hook *hook, enum loader_state state,
               enum stub_reason reason)
{
    struct loader_agent *agent = setting->agent;
    if (!base_array_room(agent->hooks, agent->hook_count, agent->hook_capacity))
        return no_memory(setting->error);
    struct loader_hook *added = &agent->hooks[agent->hook_count++];
    *added = *hook;
    added->state = (uint8_t)state;
    added->reason = (uint8_t)reason;
    return BASE_OK;
}

static int refuse(struct setting *setting, const struct loader_hook *hook, const struct layers *layers,
                  enum stub_reason reason)
{
    struct loader_hook refused = *hook;
    int result = BASE_OK;
    for (size_t i = 0; i < layers->count && result == BASE_OK; i++) {
        refused.function = layers->functions[i];
        result = add(setting, &refused, LOADER_REFUSED, reason);
    }
    return result;
}

/* What stands there: the file's bytes, or somebody's jump over them, which then moves alone. 0: neither. */
static uint8_t judge(const struct plan_hookable *function, const uint8_t *live)
{
    const size_t jump = LOADER_X86_64_WRAP_JUMP;
    if (memcmp(live, function->old, function->length) == 0)
        return function->length;
    if (live[0] == 0xe9 && memcmp(live + jump, function->old + jump, function->length - jump) == 0)
        return (uint8_t)jump;
    return 0;
}

static void free_wraps(const struct pending *pending)
{
    for (size_t i = 0; i < pending->count; i++)
        pending->wraps[i]->hook.function = 0;
}

/* A slot for each. BASE_EBUSY: there is none. */
static int take_slots(struct setting *setting, const struct loader_object *object, size_t wanted,
                      struct pending *pending, uint64_t addresses[LAYERS])
{
    for (size_t i = 0; i < pending->count; i++) {
        struct loader_slab *slab;
        uint32_t slot;
        int result = loader_slot(setting->agent, setting->access, object, wanted, setting->access->standing,
                                 &slab, &slot, setting->error);
        if (result != BASE_OK)
            return result > 0 ? BASE_EBUSY : result;
        pending->wraps[i] = &slab->slots[slot];
        addresses[i] = slab->address + slot * sizeof *pending->wraps[i];
    }
    return BASE_OK;
}

/* The code of all, from the one beneath on. */
static enum stub_reason make(const struct setting *setting, uint64_t address, const uint8_t *live,
                             const struct layers *layers, struct pending *pending,
                             const uint64_t addresses[LAYERS])
{
    const struct loader_agent *agent = setting->agent;
    enum stub_reason reason = STUB_FINE;
    for (size_t i = 0; i < pending->count && reason == STUB_FINE; i++) {
        const struct loader_function *function = &agent->plans->functions[layers->functions[i]];
        struct loader_x86_64_wrap *wrap = pending->wraps[i];
        reason = i == 0 ? loader_x86_64_wrap_make(wrap, addresses[i], address, live, pending->length,
                                                  function->whole, &pending->moved)
                        : loader_x86_64_wrap_over(wrap, addresses[i], pending->wraps[i - 1], addresses[i - 1],
                                                  function->whole);
        wrap->hook.handler = agent->base + function->handler;
        wrap->hook.cookie = function->cookie;
    }
    return reason;
}

static void fill_change(struct pending *pending, uint64_t address, uint64_t slot, const uint8_t *live)
{
    pending->change = (struct trace_memory_change){.address = address, .length = LOADER_X86_64_WRAP_JUMP};
    memcpy(pending->change.before, live, LOADER_X86_64_WRAP_JUMP);
    loader_x86_64_wrap_jump(address, slot, pending->change.after);
}

static int add_pending(struct setting *setting, const struct loader_object *object,
                       const struct loader_hook *hook, const struct layers *layers, const uint8_t *live,
                       uint8_t length, size_t wanted)
{
    struct loader_agent *agent = setting->agent;
    uint64_t addresses[LAYERS];
    if (!base_array_room(setting->items, setting->count, setting->capacity))
        return no_memory(setting->error);
    struct pending *pending = &setting->items[setting->count];
    *pending = (struct pending){.length = length, .hook = agent->hook_count, .count = layers->count};
    int result = take_slots(setting, object, wanted, pending, addresses);
    if (result < 0)
        return result;
    enum stub_reason reason = make(setting, hook->address, live, layers, pending, addresses);
    if (reason != STUB_FINE) {
        free_wraps(pending);
        return refuse(setting, hook, layers, reason);
    }
    fill_change(pending, hook->address, addresses[layers->count - 1], live);
    result = refuse(setting, hook, layers, STUB_FINE); /* until it is written */
    for (size_t i = 0; i < layers->count && result == BASE_OK; i++)
        agent->hooks[pending->hook + i].slot = addresses[i];
    if (result < 0)
        free_wraps(pending);
    setting->count += result == BASE_OK;
    return result;
}

static bool is_known(const struct loader_agent *agent, uint64_t address)
{
    for (size_t i = 0; i < agent->hook_count; i++)
        if (agent->hooks[i].address == address && agent->hooks[i].state != LOADER_GONE)
            return true;
    return false;
}

/* Who hooks the function, the one beneath first. What is only to be found, and what stacks forbid, is told at
 * once. */
static int ask(struct setting *setting, const struct loader_object *object,
               const struct plan_hookable *function, struct loader_hook *hook, struct layers *layers)
{
    const struct loader_function *functions = setting->agent->plans->functions;
    bool has_over = function->over != 0 && !functions[function->request].alone;
    const uint32_t asked[LAYERS] = {function->request, function->over - 1};
    int result = BASE_OK;
    for (size_t i = 0; i < 1u + has_over && result == BASE_OK; i++) {
        const struct layers one = {{asked[i]}, 1};
        hook->function = asked[i];
        if (functions[asked[i]].only_found && !function->resolver)
            result = add(setting, hook, LOADER_FOUND, STUB_FINE);
        else if (functions[asked[i]].whole && object->file->owns_stacks && function->reason == STUB_FINE)
            result = refuse(setting, hook, &one, STUB_REASON_OWN_STACKS);
        else
            layers->functions[layers->count++] = asked[i];
    }
    return result;
}

static int hooks_of_function(struct setting *setting, const struct loader_object *object,
                             const struct plan_hookable *function, size_t wanted)
{
    uint8_t live[sizeof function->old] = {0};
    struct layers layers = {.count = 0};
    struct loader_hook hook = {
        .address = object->bias + function->address, .name = function->name, .path = object->path};
    if (hook.address < object->start || hook.address >= object->end || is_known(setting->agent, hook.address))
        return BASE_OK;
    int result = ask(setting, object, function, &hook, &layers);
    if (result < 0 || layers.count == 0)
        return result;
    if (function->reason != STUB_FINE)
        return refuse(setting, &hook, &layers, function->reason);
    if (loader_read(setting->access, hook.address, live, function->length) < 0)
        return refuse(setting, &hook, &layers, STUB_REASON_TEXT_DIFFERS);
    uint8_t length = judge(function, live);
    if (length == 0)
        return refuse(setting, &hook, &layers, STUB_REASON_TEXT_DIFFERS);
    return add_pending(setting, object, &hook, &layers, live, length, wanted);
}

/* How many slots the functions may take. */
static size_t slots_of(const struct plan_functions *functions)
{
    size_t count = functions->count;
    for (size_t i = 0; i < functions->count; i++)
        count += functions->items[i].over != 0;
    return count;
}

static int hooks_of_object(struct setting *setting, const struct loader_object *object)
{
    const struct plan_functions *functions = &object->file->functions;
    size_t wanted = slots_of(functions);
    int result = BASE_OK;
    for (size_t i = 0; i < functions->count && result == BASE_OK; i++) {
        result = hooks_of_function(setting, object, &functions->items[i], wanted);
        wanted -= 1u + (functions->items[i].over != 0);
    }
    return result;
}

static int collect(struct setting *setting)
{
    struct loader_agent *agent = setting->agent;
    int result = BASE_OK;
    for (size_t i = 0; i < agent->object_count && result == BASE_OK; i++) {
        const struct loader_object *object = agent->objects[i];
        if (object->live && !object->done && object->file != NULL)
            result = hooks_of_object(setting, object);
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
    struct loader_access *access = setting->access;
    const struct stub_x86_64_entry entry = {.kind = STUB_ENTRY,
                                            .length = pending->length,
                                            .address = pending->change.address,
                                            .old = pending->wraps[0]->old};
    struct user_regs_struct registers;
    uint64_t body = stub_x86_64_entry_body_of(&entry, &pending->moved, pc);
    if (body == 0) {
        struct trace_step_range range = {entry.address + 1, entry.address + entry.length};
        return helper_trace_step_out(access->helper, access->trace, tid, &range, 1, NULL);
    }
    int result = helper_trace_read_registers(access->helper, access->trace, tid, &registers, NULL);
    registers.rip = body;
    return result < 0 ? result
                      : helper_trace_write_registers(access->helper, access->trace, tid, &registers, NULL);
}

static void drop(struct setting *setting, struct pending *pending, enum stub_reason reason)
{
    for (size_t i = 0; i < pending->count; i++) {
        setting->agent->hooks[pending->hook + i].reason = (uint8_t)reason;
        setting->agent->hooks[pending->hook + i].slot = 0;
    }
    free_wraps(pending);
    pending->dropped = true;
}

/* True: somebody had to be moved, and may stand elsewhere among the bytes now. */
static bool clear_thread(struct setting *setting, const struct trace_stop_thread *thread)
{
    uint64_t pc = thread->pc, sp;
    if (thread->state == TRACE_STOP_GONE)
        return false;
    if (pc == 0 && !proc_target_is_in_kernel(thread->process, thread->tid, &pc, &sp))
        pc = 0;
    struct pending *pending = around(setting, pc);
    if (pending == NULL)
        return false;
    if (thread->state != TRACE_STOP_STOPPED || move(setting, thread->tid, pc, pending) < 0)
        drop(setting, pending, STUB_REASON_ENTRY_OCCUPIED);
    return true;
}

/* A handler's thread comes back among the bytes when the handler is over. */
static int drop_interrupted(void *context, const struct trace_frame *frame, struct base_error *error)
{
    struct setting *setting = context;
    struct pending *pending = around(setting, frame->pc);
    (void)error;
    if (pending != NULL)
        drop(setting, pending, STUB_REASON_ENTRY_OCCUPIED);
    return BASE_OK;
}

static int clear(struct setting *setting)
{
    struct loader_access *access = setting->access;
    bool moved = setting->count > 0;
    for (int round = 0; round < STEP_ROUNDS && moved; round++) {
        struct trace_stop_thread *threads;
        size_t count;
        int result = helper_trace_threads(access->helper, access->trace, &threads, &count, setting->error);
        if (result < 0)
            return result;
        result = trace_frames_each(threads, count, drop_interrupted, setting, setting->error);
        moved = false;
        for (size_t i = 0; i < count && result == BASE_OK; i++)
            moved |= clear_thread(setting, &threads[i]);
        free(threads);
        if (result < 0)
            return result;
    }
    return moved
               ? base_fail(setting->error, BASE_EBUSY, "a thread cannot be brought out of what is to change")
               : BASE_OK;
}

/* --- 3. write --- */

static int apply(struct setting *setting, struct trace_memory_change *changes, size_t count)
{
    struct loader_access *access = setting->access;
    if (count == 0)
        return BASE_OK;
    if (!access->standing)
        return trace_memory_apply(&access->memory, changes, count, NULL, NULL) < 0 ? BASE_EBUSY : BASE_OK;
    int result = helper_trace_stage(access->helper, access->trace, changes, count, setting->error);
    return result < 0 ? result : helper_trace_apply(access->helper, access->trace, setting->error);
}

static int write_all(struct setting *setting)
{
    struct trace_memory_change *changes = calloc(setting->count + 1, sizeof *changes);
    size_t count = 0;
    if (changes == NULL)
        return no_memory(setting->error);
    for (size_t i = 0; i < setting->count; i++)
        if (!setting->items[i].dropped)
            changes[count++] = setting->items[i].change;
    int result = apply(setting, changes, count);
    free(changes);
    for (size_t i = 0; i < setting->count && result == BASE_OK; i++)
        for (size_t j = 0; j < setting->items[i].count && !setting->items[i].dropped; j++)
            setting->agent->hooks[setting->items[i].hook + j].state = LOADER_HOOKED;
    return result < 0 ? result : (int)count;
}

/* --- all --- */

static void forget(struct setting *setting, size_t hook_count)
{
    for (size_t i = 0; i < setting->count; i++)
        free_wraps(&setting->items[i]);
    setting->agent->hook_count = hook_count;
}

int loader_set_hooks(struct loader_agent *agent, struct loader_access *access, struct base_error *error)
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

size_t loader_hooks(const struct loader_agent *agent, const struct loader_hook **hooks)
{
    *hooks = agent->hooks;
    return agent->hook_count;
}
