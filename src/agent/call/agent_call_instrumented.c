/* Instrumented functions: those that announce their calls, built with -finstrument-functions.
 *
 * Such a function calls __cyg_profile_func_enter when it begins and __cyg_profile_func_exit when it ends,
 * each with its own address and the one that it will return to. Both calls come by here (plan_linkage.h), at
 * tens of millions a second, so what happens is little: no stack is walked. A thread keeps the *path* of its
 * open calls; who enters is a child of the last one, found in a small table by (parent, place of the call),
 * and the time since the thread's last event belongs to who was innermost. Nothing is open-ended: a program
 * may be killed, or left, at any moment, and what is counted by then is right. Only the first function of a
 * path has its stack walked. Functions that are not instrumented are not in a path.
 *
 * Ends that nobody announces. A longjmp, and an exception in code of clang's, leave functions without an
 * exit. So each open call keeps its sp. Who enters knows where its own frame ends, because its return address
 * stands there (the distance is the same for each place that calls the hook, and is looked for once):
 * whatever is open below that is over. Functions that were inlined share the frame of the one that they are
 * in, and so the return address: they are not taken for ended, unless the same place is entered again. An
 * exit by a tail call comes when the frame is gone already; then the hook's own return address is the
 * function's.
 *
 * Other stacks (a signal's, a coroutine's) are more than NEAR away. Open calls on one stack are a *segment*;
 * the one that an event is on is brought to the end first, and a stack that is not known begins with a walk.
 *
 * A signal handler may interrupt us half-way (busy). Its own calls are then kept apart, below the last one
 * that is complete, until it returns.
 *
 * The clock is the processor's time-stamp counter. */
#include "agent_cell.h"
#include "agent_may.h"
#include "agent_module.h"
#include "agent_node.h"
#include "agent_readable.h"
#include "agent_stack.h"
#include "agent_thread.h"
#include "agent_view.h"

#define PAGE       UINT64_C(4096)
#define NEAR       (UINT64_C(64) << 10) /* on one stack, from one open call to the next */
#define UNFRAMED   1u                   /* agent_path_step.frame */
#define CROSSED    8                    /* pages that are looked at to have known ones grow downwards */
#define STEP_SHIFT 54

_Static_assert(UINT64_C(1) << (64 - STEP_SHIFT) == AGENT_PATH_STEPS, "an index of steps");

/* The arguments of a hook. */
struct event {
    uint64_t function, caller, site;
    uint64_t sp, now;
};

/* While an event is worked on. */
struct visit {
    struct agent_thread *thread;
    struct agent_path *path;
    struct agent_path_calls *calls; /* those that the event is about */
    uint32_t inside;                /* as it was */
    bool nested;                    /* it interrupted another event of the thread */
};

static bool is_near(uint64_t a, uint64_t b)
{
    return a - b + NEAR < 2 * NEAR;
}

static struct agent_path_call *last_of(const struct agent_path_calls *calls)
{
    return calls->count > 0 ? &calls->items[calls->count - 1] : NULL;
}

static void begin_path(struct agent_path *path)
{
    path->calls.items = path->items;
    path->calls.limit = AGENT_PATH_CALLS;
    path->inner.items = path->inner_items;
    path->inner.limit = AGENT_PATH_INNER;
}

/* --- in and out --- */

/* An event that was left half-way, by a handler's longjmp, had its sp at or below ours. */
static bool was_left(const struct agent_path *path, uint64_t sp)
{
    return sp - path->busy < NEAR;
}

static bool begin_visit(struct visit *visit, uint64_t thread_pointer, uint64_t sp)
{
    struct agent_thread *thread = agent_process_is_counted() ? agent_thread_of(thread_pointer) : NULL;
    if (__builtin_expect(thread == NULL, 0))
        return false;
    struct agent_path *path = &thread->path;
    *visit = (struct visit){thread, path, &path->calls, thread->shared.inside, false};
    if (__builtin_expect(path->calls.limit == 0, 0))
        begin_path(path);
    if (__builtin_expect(path->busy != 0, 0)) {
        visit->nested = !was_left(path, sp);
        visit->inside = 0;
    }
    if (__builtin_expect(visit->nested, 0)) {
        visit->calls = &path->inner;
        return true;
    }
    path->busy = sp;
    path->inner.count = path->inner.over = 0;
    if (visit->inside == 0)
        agent_thread_go_inside(thread, sp, WIRE_AGENT_INSIDE_ALONE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
}

static void end_visit(const struct visit *visit)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(visit->nested, 0))
        return;
    visit->path->busy = 0;
    __atomic_store_n(&visit->thread->shared.inside, visit->inside, __ATOMIC_RELEASE);
}

/* --- figures --- */

static inline __attribute__((always_inline)) void add_figure(uint64_t *place, uint64_t more, bool shared)
{
    if (__builtin_expect(shared, 0))
        __atomic_fetch_add(place, more, __ATOMIC_RELAXED);
    else
        *place += more;
}

/* The time since the last event is the innermost call's. Clocks of two processors may differ a little. */
static inline __attribute__((always_inline)) void charge_innermost(const struct visit *visit, uint64_t now)
{
    struct agent_path *path = visit->path;
    const struct agent_path_call *last = last_of(visit->calls);
    uint64_t before = path->last;
    if (__builtin_expect(now <= before, 0))
        return;
    path->last = now;
    if (last == NULL && visit->nested)
        last = last_of(&path->calls);
    if (last != NULL && last->cell != NULL)
        add_figure(&last->cell->total, now - before, visit->thread->group == 0);
}

/* --- where a frame ends --- */

/* Known pages grow by those next to them, and are forgotten when the stack is another one. */
static void grow_pages_down(struct agent_path *path, uint64_t sp)
{
    uint64_t page = sp & ~(PAGE - 1);
    bool joins = path->high != 0 && sp < path->high && path->low - page <= CROSSED * PAGE;
    for (uint64_t at = page + PAGE; joins && at < path->low; at += PAGE)
        joins = agent_readable(at);
    if (sp >= path->low && sp < path->high)
        return;
    path->low = page;
    if (!joins)
        path->high = page + PAGE;
}

static bool grow_pages_up(struct agent_path *path, uint64_t end)
{
    while (path->high < end && agent_readable(path->high))
        path->high += PAGE;
    return path->high >= end;
}

/* From sp up to the first word that is the return address; sp when there is none. Who interrupted that search
 * does not begin one. */
static uint64_t look_for_end(const struct visit *visit, const struct event *event)
{
    struct agent_path *path = visit->path;
    if (visit->nested)
        return event->sp;
    uint32_t unmapped = __atomic_load_n(&agent_process()->unmapped, __ATOMIC_ACQUIRE);
    if (path->unmapped != unmapped)
        path->low = path->high = 0;
    path->unmapped = unmapped;
    grow_pages_down(path, event->sp);
    for (uint64_t at = event->sp & ~UINT64_C(7); at - event->sp < NEAR; at += 8) {
        if (!grow_pages_up(path, at + 8))
            break;
        if (*(const uint64_t *)at == event->caller)
            return at + 8;
    }
    return event->sp;
}

/* 0: the step does not say. */
static inline uint64_t end_by_step(const struct agent_path *path, const struct event *event,
                                   const struct agent_path_step *step)
{
    uint64_t end = event->sp + step->frame;
    if (__builtin_expect(step->frame == UNFRAMED, 0))
        return event->sp;
    bool known = step->frame != 0 && event->sp >= path->low && end <= path->high &&
                 path->unmapped == __atomic_load_n(&agent_process()->unmapped, __ATOMIC_ACQUIRE);
    return __builtin_expect(known && *(const uint64_t *)(end - 8) == event->caller, 1) ? end : 0;
}

/* --- steps --- */

static inline struct agent_path_step *step_at(struct agent_path *path, uint32_t parent, uint64_t site)
{
    uint64_t key = (site ^ (uint64_t)parent << 24) * UINT64_C(0x9e3779b97f4a7c15);
    return &path->steps[key >> STEP_SHIFT];
}

static inline bool is_step(const struct agent_path_step *step, uint32_t parent, const struct event *event)
{
    return step->site == event->site && step->parent == parent && step->function == event->function &&
           step->generation == __atomic_load_n(&agent_process()->generation, __ATOMIC_RELAXED);
}

/* A copy, if it is the step; a handler may interrupt us and put another one in its place. */
static inline __attribute__((always_inline)) bool take_step(struct agent_path_step *taken,
                                                            const struct agent_path_step *step,
                                                            uint32_t parent, const struct event *event)
{
    *taken = *step;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return is_step(step, parent, event) && taken->cell != NULL;
}

/* The cell is NULL when there is no room for it. */
static struct agent_path_step make_step(const struct visit *visit, uint32_t parent, const struct event *event,
                                        uint64_t end)
{
    uint32_t generation = __atomic_load_n(&agent_process()->generation, __ATOMIC_ACQUIRE), frame = UNFRAMED;
    struct wire_agent_module module = {.cookie = 0};
    agent_module_find(event->function, &module);
    uint32_t node = agent_node_child(parent, event->function, module.cookie, WIRE_AGENT_NODE_EXACT);
    uint32_t cell = node != 0 ? agent_cell_of(node, visit->thread->group) : 0;
    if (end > event->sp)
        frame = (uint32_t)(end - event->sp);
    return (struct agent_path_step){
        event->site, event->function,           cell != 0 ? agent_cell_at(cell) : NULL,
        parent,      node != 0 ? node : parent, generation,
        frame};
}

/* --- open calls --- */

/* Where the segment begins that the call at `index` is of. */
static uint32_t segment_of(const struct agent_path_calls *calls, uint32_t index)
{
    while (index > 0 && is_near(calls->items[index - 1].sp, calls->items[index].sp))
        index--;
    return index;
}

static void reverse_calls(struct agent_path_call *items, uint32_t from, uint32_t to)
{
    for (; from + 1 < to; from++, to--) {
        struct agent_path_call kept = items[from];
        items[from] = items[to - 1];
        items[to - 1] = kept;
    }
}

/* Brings the segment that sp is on to the end, if there is one. */
static void resume_segment(struct agent_path_calls *calls, uint64_t sp)
{
    uint32_t found = calls->count;
    while (found > 0 && !is_near(calls->items[found - 1].sp, sp))
        found--;
    if (found == 0 || found == calls->count)
        return;
    uint32_t start = segment_of(calls, found - 1);
    reverse_calls(calls->items, start, found);
    reverse_calls(calls->items, found, calls->count);
    reverse_calls(calls->items, start, calls->count);
    calls->over = 0;
}

/* Is there room for one more? Calls on other stacks go first. */
static bool has_room(struct agent_path_calls *calls)
{
    if (__builtin_expect(calls->count < calls->limit, 1))
        return true;
    uint32_t start = segment_of(calls, calls->count - 1);
    for (uint32_t i = start; start > 0 && i < calls->count; i++)
        calls->items[i - start] = calls->items[i];
    calls->count -= start;
    return start > 0;
}

/* Complete before it counts: who interrupts us looks at the last one. */
static inline __attribute__((always_inline)) void
push_call(struct agent_path_calls *calls, struct agent_path_call *place, const struct agent_path_call *call)
{
    *place = *call;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    calls->count++;
}

static void push_step(struct agent_path_calls *calls, const struct event *event,
                      const struct agent_path_step *step, uint32_t depth)
{
    bool deep = depth >= WIRE_AGENT_PATH; /* others go beside it, not below */
    const struct agent_path_call call = {event->sp,
                                         event->function,
                                         event->caller,
                                         event->site,
                                         step->cell,
                                         deep ? step->parent : step->node,
                                         deep ? depth - 1 : depth};
    push_call(calls, &calls->items[calls->count], &call);
}

static void count_call(const struct visit *visit, const struct agent_path_step *step)
{
    if (step->cell != NULL)
        add_figure(&step->cell->count, 1, visit->thread->group == 0);
    else
        agent_lose(WIRE_AGENT_LOSS_NO_CELL);
}

/* --- enter_function --- */

/* Calls that have ended, now that one begins whose frame ends at `end`: those that are below that, but for
 * the functions that it is inlined in, which have its return address and were entered elsewhere. */
static void drop_left(struct agent_path_calls *calls, const struct event *event, uint64_t end)
{
    uint32_t kept = calls->count;
    for (uint32_t i = calls->count; i > 0; i--) {
        const struct agent_path_call *call = &calls->items[i - 1];
        bool is_below = call->sp < end || (call->sp == end && end == event->sp);
        if (!is_below || !is_near(call->sp, event->sp))
            break;
        if (call->caller == event->caller ? call->site == event->site : call->sp < end)
            kept = i - 1;
    }
    if (kept != calls->count)
        calls->over = 0;
    calls->count = kept;
}

/* Below `parent`; `depth`: of the new call. */
static void begin_call(const struct visit *visit, const struct event *event, uint32_t parent, uint32_t depth,
                       uint64_t end)
{
    struct agent_path_step *place = step_at(visit->path, parent, event->site), step;
    if (!take_step(&step, place, parent, event)) {
        step = make_step(visit, parent, event, end);
        *place = step;
    }
    count_call(visit, &step);
    if (depth >= WIRE_AGENT_PATH)
        agent_lose(WIRE_AGENT_LOSS_PATH_DEEP);
    if (visit->calls->over == 0 && has_room(visit->calls)) {
        push_step(visit->calls, event, &step, depth);
        return;
    }
    visit->calls->over++;
    if (depth < WIRE_AGENT_PATH)
        agent_lose(WIRE_AGENT_LOSS_PATH_DEEP);
}

/* The call that is the parent of an event at sp; NULL: it begins a path. */
static const struct agent_path_call *parent_of(const struct visit *visit, uint64_t sp)
{
    const struct agent_path_call *last = last_of(visit->calls);
    if (last == NULL && visit->nested)
        return last_of(&visit->path->calls); /* it was interrupted */
    return last != NULL && (visit->nested || is_near(last->sp, sp)) ? last : NULL;
}

/* Is the event further in than the last call that found room, however far? */
static bool is_over(const struct agent_path_calls *calls, uint64_t sp)
{
    return calls->over > 0 && sp < last_of(calls)->sp;
}

/* False: the stack is to be walked first. */
static bool enter_slowly(const struct visit *visit, const struct event *event)
{
    const struct agent_path_call *last = last_of(visit->calls);
    if (is_over(visit->calls, event->sp)) {
        begin_call(visit, event, last->node, last->depth + 1, event->sp);
        return true;
    }
    if (!visit->nested)
        resume_segment(visit->calls, event->sp);
    uint64_t end = look_for_end(visit, event);
    drop_left(visit->calls, event, end);
    const struct agent_path_call *parent = parent_of(visit, event->sp);
    if (parent == NULL)
        return false;
    begin_call(visit, event, parent->node, parent->depth + 1, end);
    return true;
}

static bool enter_function(const struct visit *visit, const struct event *event)
{
    charge_innermost(visit, event->now);
    return enter_slowly(visit, event);
}

/* The stack that a path begins on, without the frame of the function that enters: the event names it. */
static uint32_t root_of(const struct visit *visit, const struct agent_frame *frame)
{
    struct agent_thread *thread = visit->thread;
    if (visit->inside != 0 || visit->nested)
        return agent_node_child(0, WIRE_AGENT_INSTRUMENTED, thread->group, 0);
    uint32_t node = agent_stack_node(thread, frame, WIRE_AGENT_INSTRUMENTED);
    uint32_t outer = node != 0 ? agent_node_at(node)->parent : 0;
    return outer != 0 ? outer : node;
}

/* --- exit --- */

/* How many calls stay open when this one ends whose frame is still there; calls->count: it is not known. */
static uint32_t find_ended(const struct agent_path_calls *calls, const struct event *event, uint32_t start)
{
    for (uint32_t i = calls->count; i > start; i--)
        if (calls->items[i - 1].function == event->function && calls->items[i - 1].sp == event->sp)
            return i - 1;
    for (uint32_t i = calls->count; i > start; i--) /* its stack pointer has moved since */
        if (calls->items[i - 1].function == event->function && calls->items[i - 1].caller == event->caller)
            return i - 1;
    return calls->count;
}

static void exit_slowly(const struct visit *visit, const struct event *event)
{
    struct agent_path_calls *calls = visit->calls;
    if (calls->over > 0) {
        calls->over--;
        return;
    }
    if (!visit->nested)
        resume_segment(calls, event->sp);
    if (calls->count == 0 || !is_near(last_of(calls)->sp, event->sp))
        return; /* it was entered before we came */
    uint32_t start = visit->nested ? 0 : segment_of(calls, calls->count - 1), below = calls->count;
    while (below > start && calls->items[below - 1].sp < event->sp)
        below--;
    bool is_tail = event->site == event->caller; /* then it is itself among those */
    uint32_t ended = is_tail ? below : find_ended(calls, event, start);
    calls->count = ended < below ? ended : below;
}

static void leave_function(const struct visit *visit, const struct event *event)
{
    struct agent_path_calls *calls = visit->calls;
    const struct agent_path_call *last = last_of(calls);
    charge_innermost(visit, event->now);
    if (last == NULL || last->function != event->function || last->sp != event->sp) {
        exit_slowly(visit, event);
        return;
    }
    calls->over = 0;
    calls->count--;
}

/* --- the usual cases ---
 *
 * The thread is known, nothing was interrupted, and nobody has ended unseen. Nothing is called, so that who
 * takes the agent out finds the thread by where it stands. False: nothing happened. */

static inline __attribute__((always_inline)) bool is_ready(const struct agent_thread *thread, uint64_t now)
{
    const struct agent_path *path = &thread->path;
    return path->busy == 0 && path->calls.count > 0 && path->calls.over == 0 && now > path->last &&
           thread->group != 0;
}

/* A handler may have come and gone since we looked. */
static inline __attribute__((always_inline)) bool begin_quickly(struct agent_path *path,
                                                                const struct event *event)
{
    path->busy = event->sp;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(event->now > path->last, 1))
        return true;
    path->busy = 0;
    return false;
}

static inline __attribute__((always_inline)) void
charge_quickly(struct agent_path *path, const struct agent_path_call *last, uint64_t now)
{
    last->cell->total += now - path->last;
    path->last = now;
}

static inline __attribute__((always_inline)) bool enter_quickly(uint64_t thread_pointer,
                                                                const struct event *event)
{
    struct agent_thread *thread = agent_thread_quick(thread_pointer);
    if (thread == NULL || !is_ready(thread, event->now))
        return false;
    struct agent_path *path = &thread->path;
    const struct agent_path_call *last = &path->items[path->calls.count - 1];
    struct agent_path_step step;
    if (!take_step(&step, step_at(path, last->node, event->site), last->node, event) || last->cell == NULL ||
        last->depth + 1 >= WIRE_AGENT_PATH || path->calls.count >= AGENT_PATH_CALLS)
        return false;
    uint64_t end = end_by_step(path, event, &step);
    if (end == 0 || last->sp - end >= NEAR)
        return false;
    if (!begin_quickly(path, event))
        return false;
    charge_quickly(path, last, event->now);
    step.cell->count++;
    const struct agent_path_call call = {event->sp, event->function, event->caller,  event->site,
                                         step.cell, step.node,       last->depth + 1};
    push_call(&path->calls, &path->items[path->calls.count], &call);
    path->passed = event->sp;
    path->passed_site = event->site;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    path->busy = 0;
    return true;
}

static inline __attribute__((always_inline)) bool leave_quickly(uint64_t thread_pointer,
                                                                const struct event *event)
{
    struct agent_thread *thread = agent_thread_quick(thread_pointer);
    if (thread == NULL || !is_ready(thread, event->now))
        return false;
    struct agent_path *path = &thread->path;
    const struct agent_path_call *last = &path->items[path->calls.count - 1];
    if (last->function != event->function || last->sp != event->sp || last->cell == NULL)
        return false;
    if (!begin_quickly(path, event))
        return false;
    charge_quickly(path, last, event->now);
    path->calls.count--;
    path->passed = event->sp;
    path->passed_site = event->site;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    path->busy = 0;
    return true;
}

/* --- hooks --- */

bool agent_wrap_enter(uint64_t function, uint64_t caller, const uint64_t *slot, uint64_t thread_pointer,
                      uint64_t now);
uint64_t agent_wrap_enter_first(const struct agent_frame *frame, uint64_t function, uint64_t caller);
void agent_wrap_exit(uint64_t function, uint64_t caller, const uint64_t *slot, uint64_t thread_pointer,
                     uint64_t now);
uint64_t agent_wrap_enter_defined(const struct agent_frame *frame, uint64_t function, uint64_t caller);
uint64_t agent_wrap_exit_defined(const struct agent_frame *frame, uint64_t function, uint64_t caller);

static inline __attribute__((always_inline)) struct event event_of(uint64_t function, uint64_t caller,
                                                                   const uint64_t *slot, uint64_t now)
{
    return (struct event){function, caller, *slot, (uint64_t)(slot + 1), now};
}

/* The stub goes on to a definition that may be hooked as well: that hook finds here that this one was
 * seen. */
static void note_passed(const struct visit *visit, const struct event *event)
{
    visit->path->passed = event->sp;
    visit->path->passed_site = event->site;
}

static bool has_passed(const struct visit *visit, const struct event *event)
{
    return visit->path->passed == event->sp && visit->path->passed_site == event->site;
}

static __attribute__((noinline)) bool enter_fully(struct event event, uint64_t thread_pointer)
{
    struct visit visit;
    if (!begin_visit(&visit, thread_pointer, event.sp))
        return true;
    note_passed(&visit, &event);
    bool done = enter_function(&visit, &event);
    end_visit(&visit);
    return done;
}

static __attribute__((noinline)) void leave_fully(struct event event, uint64_t thread_pointer)
{
    struct visit visit;
    if (!begin_visit(&visit, thread_pointer, event.sp))
        return;
    note_passed(&visit, &event);
    leave_function(&visit, &event);
    end_visit(&visit);
}

/* True: nothing happened but that its time was charged; agent_wrap_enter_first is to be called. */
bool agent_wrap_enter(uint64_t function, uint64_t caller, const uint64_t *slot, uint64_t thread_pointer,
                      uint64_t now)
{
    const struct event event = event_of(function, caller, slot, now);
    return __builtin_expect(!enter_quickly(thread_pointer, &event), 0) && !enter_fully(event, thread_pointer);
}

void agent_wrap_exit(uint64_t function, uint64_t caller, const uint64_t *slot, uint64_t thread_pointer,
                     uint64_t now)
{
    const struct event event = event_of(function, caller, slot, now);
    if (__builtin_expect(!leave_quickly(thread_pointer, &event), 0))
        leave_fully(event, thread_pointer);
}

/* A handler on a stack of its own is below what it interrupted; every other stack begins a path. */
static void enter_first(const struct visit *visit, const struct event *event, const struct agent_frame *frame)
{
    if (enter_function(visit, event))
        return;
    uint64_t end = look_for_end(visit, event);
    const struct agent_path_call *last = last_of(visit->calls);
    if (last != NULL && agent_view_beneath(frame) == AGENT_BENEATH_HANDLER)
        begin_call(visit, event, last->node, last->depth + 1, end);
    else
        begin_call(visit, event, root_of(visit, frame), 1, end);
}

uint64_t agent_wrap_enter_first(const struct agent_frame *frame, uint64_t function, uint64_t caller)
{
    const struct event event = event_of(function, caller, &frame->return_address, agent_ticks());
    struct visit visit;
    if (!begin_visit(&visit, frame->thread, event.sp))
        return 0;
    enter_first(&visit, &event, frame);
    end_visit(&visit);
    return 0;
}

/* At a definition that a stub may have gone on to: what that noted as passed was counted there. */
static void count_defined(const struct agent_frame *frame, uint64_t function, uint64_t caller, bool enters)
{
    const struct event event = event_of(function, caller, &frame->return_address, agent_ticks());
    struct visit visit;
    if (!begin_visit(&visit, frame->thread, event.sp))
        return;
    if (!has_passed(&visit, &event)) {
        if (enters)
            enter_first(&visit, &event, frame);
        else
            leave_function(&visit, &event);
    }
    visit.path->passed = 0;
    end_visit(&visit);
}

uint64_t agent_wrap_enter_defined(const struct agent_frame *frame, uint64_t function, uint64_t caller)
{
    count_defined(frame, function, caller, true);
    return 0;
}

uint64_t agent_wrap_exit_defined(const struct agent_frame *frame, uint64_t function, uint64_t caller)
{
    count_defined(frame, function, caller, false);
    return 0;
}
