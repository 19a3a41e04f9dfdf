/* Thread records: found by the thread pointer, entered once.
 *
 * The thread pointer (fs base) is the address of the C library's thread control block: distinct for all
 * threads that live, and used again when one has ended. A record outlives its thread and serves the next one
 * with that address; nothing in it belongs to a thread but caches, which are only that.
 *
 * Being inside. `shared.inside` is set by the outermost entry. A signal handler that interrupts a hook and
 * allocates finds it set, and so does an allocator's own inner call. Neither is counted; the handler's is a
 * loss. A hook that is left by longjmp, by a handler or by the cancellation of its thread, leaves `inside`
 * set. The next entry is then at or above the stack pointer of the one that was left, on the same stack,
 * which cannot be while that one is still running: so it is taken over. Where the stack is not known yet, it
 * is taken over by an entry on whose stack nothing of ours is.
 *
 * Between any two instructions here a signal's handler may come to a hook. Until a record is complete its key
 * has a bit too many, by which the handler knows it for its own thread's; and who enters looks once more
 * whether what is written is still there. */
#include "agent.h"

#include <sys/syscall.h>

#define PROBES 256
#define MAKING UINT64_C(1) /* thread pointers are even */

/* The first GROUPS threads have cells of their own, which they write without locked instructions; the others
 * share group 0. */
#define GROUPS 64

static void fill(struct agent_thread *thread, struct wire_agent_process *process, uint32_t number)
{
    struct wire_agent_own *own = agent_own();
    if (own != NULL && agent_room(WIRE_AGENT_PART_OWN, offsetof(struct wire_agent_own, calls) +
                                                           (number + UINT64_C(1)) * sizeof *own->calls)) {
        __atomic_fetch_or(&own->known.used[number / 64], UINT64_C(1) << number % 64, __ATOMIC_RELAXED);
        thread->calls = &own->calls[number];
    }
    uint32_t group = __atomic_add_fetch(&process->group_count, 1, __ATOMIC_RELAXED);
    thread->group = group <= GROUPS ? group : 0;
    if (agent_may(WIRE_AGENT_CALL_GETTID))
        thread->shared.tid = (uint32_t)arch_host_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    if (agent_control()->ns_of_ticks != 0)
        agent_filter_look();
    /* Not by the thread's number: the same program gets the same samples again. */
    thread->random = (agent_control()->sample_seed + group + ((uint64_t)process->parent << 32)) *
                         UINT64_C(0x9e3779b97f4a7c15) |
                     1;
}

/* --- finding a record --- */

static uint64_t *places(void)
{
    return agent_part(WIRE_AGENT_PLACES_AT);
}

/* The record of a word of `places` if it is of that thread pointer, complete or not; else NULL. */
static struct agent_thread *record_at(uint64_t word, uint64_t key)
{
    if (word >> 16 != key)
        return NULL;
    struct agent_thread *thread = agent_thread_at(word & UINT16_MAX);
    return (__atomic_load_n(&thread->shared.key, __ATOMIC_RELAXED) | MAKING) == (key | MAKING) ? thread
                                                                                               : NULL;
}

/* Makes a record that can be found: at the first place that has none yet. A handler of this very thread may
 * come first: then its record is this thread's, and the fresh one nobody's. NULL: there is no place. */
static struct agent_thread *publish(uint64_t key, uint32_t number)
{
    uint32_t at = agent_thread_home(key);
    for (unsigned i = 0; i < PROBES; i++, at = (at + 1) % WIRE_AGENT_PLACES) {
        uint64_t there = __atomic_load_n(&places()[at], __ATOMIC_RELAXED);
        if (there == 0 &&
            __atomic_compare_exchange_n(&places()[at], &there, wire_agent_place_word(key, number), false,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return agent_thread_at(number);
        struct agent_thread *thread = record_at(there, key);
        if (thread != NULL)
            return thread;
    }
    return NULL;
}

static bool has_room(uint64_t count)
{
    return count <= WIRE_AGENT_THREADS &&
           agent_room(WIRE_AGENT_PART_THREADS, count * WIRE_AGENT_THREAD_BYTES);
}

/* A record for this thread, taken, and its number. NULL: there is none. */
static struct agent_thread *take_record(uint64_t key, uint32_t *number)
{
    uint32_t *count = &agent_process()->thread_count;
    if (!has_room(__atomic_load_n(count, __ATOMIC_RELAXED) + UINT64_C(1)))
        return NULL;
    *number = __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
    if (!has_room(*number + UINT64_C(1)))
        return NULL; /* others came first: it is nobody's */
    struct agent_thread *thread = agent_thread_at(*number);
    __atomic_store_n(&thread->shared.key, key | MAKING, __ATOMIC_RELAXED);
    return thread;
}

static struct agent_thread *claim(uint64_t key, bool *claimed)
{
    uint32_t number;
    struct agent_thread *made = take_record(key, &number);
    struct agent_thread *thread = made != NULL ? publish(key, number) : NULL;
    *claimed = thread != NULL && thread == made;
    if (made != NULL && !*claimed)
        __atomic_store_n(&made->shared.key, 0, __ATOMIC_RELEASE);
    return thread;
}

/* The thread's record, if it has one, complete or not. `claimed` not NULL: takes a free one if there is none,
 * and says so. */
static struct agent_thread *find(uint64_t key, bool *claimed)
{
    uint32_t at = agent_thread_home(key);
    for (unsigned i = 0; i < PROBES; i++, at = (at + 1) % WIRE_AGENT_PLACES) {
        uint64_t there = __atomic_load_n(&places()[at], __ATOMIC_ACQUIRE);
        struct agent_thread *thread = record_at(there, key);
        if (__builtin_expect(thread != NULL, 1))
            return thread;
        if (there == 0)
            break;
    }
    return claimed != NULL ? claim(key, claimed) : NULL;
}

static bool is_complete(const struct agent_thread *thread, uint64_t key)
{
    return __atomic_load_n(&thread->shared.key, __ATOMIC_RELAXED) == key;
}

/* A fork's child has its parent's stack, and perhaps its parent's filter. */
void agent_thread_inherit(void)
{
    agent_parameters.known_key = 0;
    if (agent_may(WIRE_AGENT_CALLS_ALL))
        return;
    uint64_t key = agent_thread_pointer();
    const struct agent_thread *before = key != 0 ? find(key, NULL) : NULL;
    if (before == NULL || !is_complete(before, key))
        return;
    agent_parameters.known_key = key;
    agent_parameters.known_start = before->known_start;
    agent_parameters.known_end = before->known_end;
}

static void inherit(struct agent_thread *thread, uint64_t key)
{
    if (agent_parameters.known_key != key)
        return;
    thread->known_start = agent_parameters.known_start;
    thread->known_end = agent_parameters.known_end;
}

static void complete(struct agent_thread *thread, uint64_t key)
{
    uint64_t number = ((uint64_t)thread - agent_parameters.threads) / WIRE_AGENT_THREAD_BYTES;
    fill(thread, agent_process(), (uint32_t)number);
    inherit(thread, key);
    __atomic_store_n(&thread->shared.key, key, __ATOMIC_RELEASE);
}

static bool was_left(const struct agent_thread *thread, uint64_t sp)
{
    return sp >= thread->entered_sp && sp < thread->readable_end;
}

void agent_thread_go_inside(struct agent_thread *thread, uint64_t sp, enum agent_inside how)
{
    do {
        __atomic_store_n(&thread->entered_sp, sp, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        __atomic_store_n(&thread->shared.inside, how, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } while (__builtin_expect(__atomic_load_n(&thread->entered_sp, __ATOMIC_RELAXED) != sp ||
                                  __atomic_load_n(&thread->shared.inside, __ATOMIC_RELAXED) != how,
                              0));
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* The record of the frame's thread, complete; NULL: none is free, or a handler came while it was made. A
 * handler that never came back to what it interrupted left it so: then it is made now. */
static struct agent_thread *record_of(const struct agent_frame *frame)
{
    bool claimed = false;
    struct agent_thread *thread = frame->thread != 0 ? find(frame->thread, &claimed) : NULL;
    if (__builtin_expect(thread == NULL, 0)) {
        agent_lose(WIRE_AGENT_LOSS_NO_RECORD);
        __atomic_store_n(&agent_process()->unrecorded, UINT32_MAX / 2, __ATOMIC_RELAXED); /* for good */
        return NULL;
    }
    if (__builtin_expect(is_complete(thread, frame->thread), 1))
        return thread;
    if (!claimed && agent_stack_beneath(frame) == AGENT_BENEATH_HANDLER) {
        agent_lose(WIRE_AGENT_LOSS_INTERRUPTED);
        return NULL;
    }
    complete(thread, frame->thread);
    return thread;
}

struct agent_thread *agent_thread_of(uint64_t thread_pointer)
{
    bool claimed = false;
    struct agent_thread *thread = thread_pointer != 0 ? find(thread_pointer, &claimed) : NULL;
    if (__builtin_expect(thread == NULL, 0)) {
        agent_lose(WIRE_AGENT_LOSS_NO_RECORD);
        __atomic_store_n(&agent_process()->unrecorded, UINT32_MAX / 2, __ATOMIC_RELAXED); /* for good */
        return NULL;
    }
    if (__builtin_expect(is_complete(thread, thread_pointer), 1))
        return thread;
    if (!claimed) {
        agent_lose(WIRE_AGENT_LOSS_INTERRUPTED);
        return NULL;
    }
    complete(thread, thread_pointer);
    return thread;
}

/* Wrappers that end before the function itself begins. */
static enum agent_inside inside_of(uint64_t entry)
{
    bool alone = entry == WIRE_AGENT_ENTRY_FUNCTION || entry == WIRE_AGENT_ENTRY_UNWIND;
    return alone ? AGENT_INSIDE_ALONE : AGENT_INSIDE;
}

/* Was the entry made by a signal's handler that interrupted the one that is inside? Only a function that a
 * wrapper called can have made it else, and where there is none nothing need be walked: under many signals
 * that is asked again and again. */
static enum agent_beneath beneath(const struct agent_thread *thread, const struct agent_frame *frame)
{
    return thread->shared.inside == AGENT_INSIDE_ALONE  ? AGENT_BENEATH_HANDLER
           : agent_heap_is_inner(frame->return_address) ? AGENT_BENEATH_HOOK
                                                        : agent_stack_beneath(frame);
}

/* Somebody is inside. True: who was, has left by a jump that its stack pointer did not tell of. Else the entry
 * is not counted; functions that unwind count nothing. */
static bool lose_entry(const struct agent_thread *thread, const struct agent_frame *frame)
{
    uint64_t entry = frame->hook->cookie & 255;
    if (entry == WIRE_AGENT_ENTRY_UNWIND)
        return false;
    enum agent_beneath found = beneath(thread, frame);
    if (found == AGENT_BENEATH_HANDLER)
        agent_lose(WIRE_AGENT_LOSS_INTERRUPTED);
    else if (found == AGENT_BENEATH_HOOK && entry == WIRE_AGENT_ENTRY_FUNCTION)
        agent_lose(WIRE_AGENT_LOSS_INNER);
    return found == AGENT_BENEATH_NOTHING;
}

struct agent_thread *agent_thread_enter(const struct agent_frame *frame)
{
    if (!agent_process_is_counted())
        return NULL;
    struct agent_thread *thread = record_of(frame);
    if (__builtin_expect(thread == NULL, 0))
        return NULL;
    uint64_t sp = (uint64_t)(&frame->return_address + 1);
    if (__builtin_expect(thread->shared.inside != 0, 0) && !was_left(thread, sp) &&
        !lose_entry(thread, frame))
        return NULL;
    agent_thread_go_inside(thread, sp, inside_of(frame->hook->cookie & 255));
    return thread;
}

static struct agent_thread *enter_at(struct agent_thread *thread, uint64_t key, uint64_t sp)
{
    if (thread == NULL || !is_complete(thread, key) || (thread->shared.inside != 0 && !was_left(thread, sp)))
        return NULL;
    agent_thread_go_inside(thread, sp, AGENT_INSIDE_ALONE);
    return thread;
}

struct agent_thread *agent_thread_come_back(uint64_t thread_pointer, uint64_t sp)
{
    return enter_at(thread_pointer != 0 ? find(thread_pointer, NULL) : NULL, thread_pointer, sp);
}

/* The hook that was left by a jump is known in the same way: what was interrupted is at or above it. */
struct agent_thread *agent_thread_interrupt(uint64_t thread_pointer, uint64_t sp)
{
    bool claimed = false;
    struct agent_thread *thread = thread_pointer != 0 ? find(thread_pointer, &claimed) : NULL;
    if (claimed)
        complete(thread, thread_pointer);
    return enter_at(thread, thread_pointer, sp);
}
