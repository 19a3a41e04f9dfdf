/* Hooks of a process: which functions, what is written over them, and when.
 *
 *   1. collect   every function of objects that are not done yet gets a slot with its code, or one for each
 *                of its two hooks, or a reason;
 *   2. clear     threads that stand among bytes that will change go on in the slot's body;
 *   3. write     all changes, or none.
 *
 * 2. needs a process that is held. In another one the caller ensures that no thread runs there
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
    size_t wanted; /* slots that the present object's functions may still take */
    struct base_error *error;
};

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- 1. collect --- */

static int add_hook(struct setting *setting, const struct loader_hook *hook, enum loader_state state,
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

static int refuse_hook(struct setting *setting, const struct loader_hook *hook, const struct layers *layers,
                       enum stub_reason reason)
{
    struct loader_hook refused = *hook;
    int result = BASE_OK;
    for (size_t i = 0; i < layers->count && result == BASE_OK; i++) {
        refused.function = layers->functions[i];
        result = add_hook(setting, &refused, LOADER_REFUSED, reason);
    }
    return result;
}

/* How many bytes are to be moved: the file's, or another tool's jump over them, which then moves alone. 0:
 * the bytes are neither. */
static uint8_t movable_length(const struct plan_hookable *function, const uint8_t *live)
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

/* A slot for each layer. BASE_EBUSY: there is none. */
static int take_slots(struct setting *setting, const struct loader_object *object, struct pending *pending,
                      uint64_t addresses[LAYERS])
{
    for (size_t i = 0; i < pending->count; i++) {
        struct loader_slot slot;
        int result =
            loader_slot_take(setting->agent, setting->access, object, setting->wanted, &slot, setting->error);
        if (result != BASE_OK)
            return result > 0 ? BASE_EBUSY : result;
        pending->wraps[i] = &slot.slab->slots[slot.index];
        addresses[i] = slot.slab->address + slot.index * sizeof *pending->wraps[i];
    }
    return BASE_OK;
}

/* The code of all layers, from the one beneath on. */
static enum stub_reason make_wraps(const struct setting *setting, uint64_t address, const uint8_t *live,
                                   const struct layers *layers, struct pending *pending,
                                   const uint64_t addresses[LAYERS])
{
    const struct loader_agent *agent = setting->agent;
    enum stub_reason reason = STUB_FINE;
    for (size_t i = 0; i < pending->count && reason == STUB_FINE; i++) {
        const struct loader_function *function = &agent->plans->functions[layers->functions[i]];
        struct loader_x86_64_wrap *wrap = pending->wraps[i];
        const struct loader_x86_64_wrapped wrapped = {address, live, pending->length, function->whole};
        reason = i == 0 ? loader_x86_64_wrap_make(wrap, addresses[i], &wrapped, &pending->moved)
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
                       uint8_t length)
{
    struct loader_agent *agent = setting->agent;
    uint64_t addresses[LAYERS];
    if (!base_array_room(setting->items, setting->count, setting->capacity))
        return no_memory(setting->error);
    struct pending *pending = &setting->items[setting->count];
    *pending = (struct pending){.length = length, .hook = agent->hook_count, .count = layers->count};
    int result = take_slots(setting, object, pending, addresses);
    if (result < 0)
        return result;
    enum stub_reason reason = make_wraps(setting, hook->address, live, layers, pending, addresses);
    if (reason != STUB_FINE) {
        free_wraps(pending);
        return refuse_hook(setting, hook, layers, reason);
    }
    fill_change(pending, hook->address, addresses[layers->count - 1], live);
    result = refuse_hook(setting, hook, layers, STUB_FINE); /* until it is written */
    for (size_t i = 0; i < layers->count && result == BASE_OK; i++)
        agent->hooks[pending->hook + i].slot = addresses[i];
    if (result < 0)
        free_wraps(pending);
    setting->count += result == BASE_OK;
    return result;
}

static bool is_known_hook(const struct loader_agent *agent, uint64_t address)
{
    for (size_t i = 0; i < agent->hook_count; i++)
        if (agent->hooks[i].address == address && agent->hooks[i].state != LOADER_GONE)
            return true;
    return false;
}

/* Which requests hook the function, the one beneath first. Functions that are only to be found, and those
 * that the image's own stacks forbid, are entered at once. */
static int choose_layers(struct setting *setting, const struct loader_object *object,
                         const struct plan_hookable *function, struct loader_hook *hook,
                         struct layers *layers)
{
    const struct loader_function *functions = setting->agent->plans->functions;
    bool has_over = function->over != 0 && !functions[function->request].alone;
    const uint32_t requests[LAYERS] = {function->request, function->over - 1};
    int result = BASE_OK;
    for (size_t i = 0; i < 1u + has_over && result == BASE_OK; i++) {
        const struct layers one = {{requests[i]}, 1};
        hook->function = requests[i];
        if (functions[requests[i]].only_found && !function->resolver)
            result = add_hook(setting, hook, LOADER_FOUND, STUB_FINE);
        else if (functions[requests[i]].whole && object->file->owns_stacks && function->reason == STUB_FINE)
            result = refuse_hook(setting, hook, &one, STUB_REASON_OWN_STACKS);
        else
            layers->functions[layers->count++] = requests[i];
    }
    return result;
}

static int collect_function(struct setting *setting, const struct loader_object *object,
                            const struct plan_hookable *function)
{
    uint8_t live[sizeof function->old] = {0};
    struct layers layers = {.count = 0};
    struct loader_hook hook = {
        .address = object->bias + function->address, .name = function->name, .path = object->path};
    if (hook.address < object->start || hook.address >= object->end ||
        is_known_hook(setting->agent, hook.address))
        return BASE_OK;
    int result = choose_layers(setting, object, function, &hook, &layers);
    if (result < 0 || layers.count == 0)
        return result;
    if (function->reason != STUB_FINE)
        return refuse_hook(setting, &hook, &layers, function->reason);
    if (loader_read(setting->access, hook.address, live, function->length) < 0)
        return refuse_hook(setting, &hook, &layers, STUB_REASON_TEXT_DIFFERS);
    uint8_t length = movable_length(function, live);
    if (length == 0)
        return refuse_hook(setting, &hook, &layers, STUB_REASON_TEXT_DIFFERS);
    return add_pending(setting, object, &hook, &layers, live, length);
}

/* How many slots the functions may take. */
static size_t slots_of(const struct plan_functions *functions)
{
    size_t count = functions->count;
    for (size_t i = 0; i < functions->count; i++)
        count += functions->items[i].over != 0;
    return count;
}

static int collect_object(struct setting *setting, const struct loader_object *object)
{
    const struct plan_functions *functions = &object->file->functions;
    int result = BASE_OK;
    setting->wanted = slots_of(functions);
    for (size_t i = 0; i < functions->count && result == BASE_OK; i++) {
        result = collect_function(setting, object, &functions->items[i]);
        setting->wanted -= 1u + (functions->items[i].over != 0);
    }
    return result;
}

static int collect_hooks(struct setting *setting)
{
    struct loader_agent *agent = setting->agent;
    int result = BASE_OK;
    for (size_t i = 0; i < agent->object_count && result == BASE_OK; i++) {
        const struct loader_object *object = agent->objects[i];
        if (object->live && !object->done && object->file != NULL)
            result = collect_object(setting, object);
    }
    return result;
}

/* --- 2. clear --- */

static struct pending *pending_around(struct setting *setting, uint64_t pc)
{
    for (size_t i = 0; i < setting->count; i++) {
        struct pending *pending = &setting->items[i];
        uint64_t start = pending->change.address;
        if (!pending->dropped && pc > start && pc < start + pending->length)
            return pending;
    }
    return NULL;
}

/* A thread between two instructions goes on at the same instruction in the body; elsewhere it is stepped
 * out. */
static int move_thread(struct setting *setting, pid_t tid, uint64_t pc, const struct pending *pending)
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

static void drop_pending(struct setting *setting, struct pending *pending, enum stub_reason reason)
{
    for (size_t i = 0; i < pending->count; i++) {
        setting->agent->hooks[pending->hook + i].reason = (uint8_t)reason;
        setting->agent->hooks[pending->hook + i].slot = 0;
    }
    free_wraps(pending);
    pending->dropped = true;
}

/* True: the thread had to be moved, and may stand elsewhere among the bytes now. */
static bool clear_thread(struct setting *setting, const struct trace_stop_thread *thread)
{
    uint64_t pc = thread->pc, sp;
    if (thread->state == TRACE_STOP_GONE)
        return false;
    if (pc == 0 && !proc_target_is_in_kernel(thread->process, thread->tid, &pc, &sp))
        pc = 0;
    struct pending *pending = pending_around(setting, pc);
    if (pending == NULL)
        return false;
    if (thread->state != TRACE_STOP_STOPPED || move_thread(setting, thread->tid, pc, pending) < 0)
        drop_pending(setting, pending, STUB_REASON_ENTRY_OCCUPIED);
    return true;
}

/* A handler's thread returns to the bytes when the handler ends. */
static int drop_interrupted(void *context, const struct trace_frame *frame, struct base_error *error)
{
    struct setting *setting = context;
    struct pending *pending = pending_around(setting, frame->pc);
    (void)error;
    if (pending != NULL)
        drop_pending(setting, pending, STUB_REASON_ENTRY_OCCUPIED);
    return BASE_OK;
}

static int clear_threads(struct setting *setting)
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
    return moved ? base_fail(setting->error, BASE_EBUSY,
                             "a thread cannot be moved out of the code that is to change")
                 : BASE_OK;
}

/* --- 3. write --- */

static int apply_changes(struct setting *setting, struct trace_memory_change *changes, size_t count)
{
    struct loader_access *access = setting->access;
    if (count == 0)
        return BASE_OK;
    if (!access->held)
        return trace_memory_apply(&access->memory, changes, count, NULL, NULL) < 0 ? BASE_EBUSY : BASE_OK;
    int result = helper_trace_stage(access->helper, access->trace, changes, count, setting->error);
    return result < 0 ? result : helper_trace_apply(access->helper, access->trace, setting->error);
}

static int write_hooks(struct setting *setting)
{
    struct trace_memory_change *changes = calloc(setting->count + 1, sizeof *changes);
    size_t count = 0;
    if (changes == NULL)
        return no_memory(setting->error);
    for (size_t i = 0; i < setting->count; i++)
        if (!setting->items[i].dropped)
            changes[count++] = setting->items[i].change;
    int result = apply_changes(setting, changes, count);
    free(changes);
    for (size_t i = 0; i < setting->count && result == BASE_OK; i++)
        for (size_t j = 0; j < setting->items[i].count && !setting->items[i].dropped; j++)
            setting->agent->hooks[setting->items[i].hook + j].state = LOADER_HOOKED;
    return result < 0 ? result : (int)count;
}

/* --- all --- */

static void undo_setting(struct setting *setting, size_t hook_count)
{
    for (size_t i = 0; i < setting->count; i++)
        free_wraps(&setting->items[i]);
    setting->agent->hook_count = hook_count;
}

int loader_set_hooks(struct loader_agent *agent, struct loader_access *access, struct base_error *error)
{
    struct setting setting = {.agent = agent, .access = access, .error = error};
    size_t before = agent->hook_count;
    int result = collect_hooks(&setting);
    if (result == BASE_OK && access->held)
        result = clear_threads(&setting);
    if (result == BASE_OK)
        result = write_hooks(&setting);
    if (result < 0)
        undo_setting(&setting, before);
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
