/* Thread records: found by the thread pointer, entered once.
 *
 * The thread pointer (fs base) is the address of the C library's thread control block: distinct for all
 * threads that live, and used again when one has ended. A record outlives its thread and serves the next one
 * with that address, or any other (agent_record.c).
 *
 * Being inside. `shared.inside` is set by the outermost entry. A signal handler that interrupts a hook and
 * allocates finds it set, and so does an allocator's own inner call. Neither is counted; the handler's is a
 * loss. A hook that is left by longjmp, by a handler or by the cancellation of its thread, leaves `inside`
 * set. The next entry is then at or above the stack pointer of the one that was left, on the same stack,
 * which cannot be while that one is still running: so it is taken over. Where the stack is not known yet, it
 * is taken over by an entry on whose stack nothing of ours is.
 *
 * Without a record, where no more fit, a thread is not counted, and its wrappers that call the function say
 * in the process's `unrecorded` that they are inside.
 *
 * Between any two instructions here a signal's handler may come to a hook. While a record is made, signals are
 * blocked, but those that an instruction raises, and unless the program forbids that. Until a record is
 * complete its key has a bit too many, by which the handler knows it for its own thread's; and who enters
 * looks once more whether what is written is still there. */
#include "agent_thread.h"

#include <sys/syscall.h>

#include "agent_layer.h"
#include "agent_may.h"
#include "agent_pending.h"
#include "agent_readable.h"
#include "agent_record.h"
#include "agent_view.h"
#include "wire_agent_entry.h"

/* The first GROUPS threads have cells of their own, which they write without locked instructions; the others
 * share group 0. */
#define GROUPS      64
#define PAGE        UINT64_C(4096)
#define SURVEY_MOST (UINT64_C(16) << 20)

/* --- making a record --- */

static bool is_complete(const struct agent_thread *thread, uint64_t key)
{
    return __atomic_load_n(&thread->shared.key, __ATOMIC_RELAXED) == key;
}

static struct agent_thread *find_complete(uint64_t key)
{
    struct agent_thread *thread = key != 0 ? agent_record_find(key, NULL) : NULL;
    return thread != NULL && is_complete(thread, key) ? thread : NULL;
}

/* A fork's child has its parent's stack, and perhaps its parent's filter. */
void agent_thread_inherit(void)
{
    agent_parameters.known_key = 0;
    if (agent_may(WIRE_AGENT_CALLS_ALL))
        return;
    uint64_t key = agent_thread_pointer();
    const struct agent_thread *before = find_complete(key);
    if (before == NULL)
        return;
    agent_parameters.known_key = key;
    agent_parameters.known_start = before->known_start;
    agent_parameters.known_end = before->known_end;
}

/* What a record keeps, whoever has it. */
static void found_group(struct agent_thread *thread, struct wire_agent_process *process)
{
    agent_pending_open(thread);
    uint32_t group = __atomic_add_fetch(&process->group_count, 1, __ATOMIC_RELAXED);
    thread->group = group <= GROUPS ? group : 0;
    /* Not by the thread's number: the same program gets the same samples again. */
    thread->random = (agent_control()->sample_seed + group + ((uint64_t)process->parent << 32)) *
                         UINT64_C(0x9e3779b97f4a7c15) |
                     1;
}

static void complete_record(struct agent_thread *thread, uint64_t key)
{
    if (thread->random == 0) /* a fresh one */
        found_group(thread, agent_process());
    thread->shared.tid = 0;
    if (agent_may(WIRE_AGENT_CALL_GETTID))
        thread->shared.tid = (uint32_t)arch_host_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    thread->tid_offset =
        agent_may(WIRE_AGENT_CALL_MASK) ? agent_record_tid_offset(key, thread->shared.tid) : 0;
    if (agent_control()->ns_of_ticks != 0)
        agent_may_look();
    if (agent_parameters.known_key == key) { /* agent_thread_inherit */
        thread->known_start = agent_parameters.known_start;
        thread->known_end = agent_parameters.known_end;
    }
    __atomic_store_n(&thread->shared.key, key, __ATOMIC_RELEASE);
}

/* Making a record takes system calls: who forbids them to all threads waits for those that are listed
 * (agent_hook_filter.c). What a handler left by a jump is taken off the list when the thread makes its record
 * at last; if it jumps as soon as signals are let in again, it stays there, and is waited for in vain, not for
 * long. Where the list is full, nobody waits for who is not on it. */
static void begin_making(uint64_t key)
{
    for (unsigned i = 0; i < WIRE_AGENT_MAKERS; i++) {
        uint64_t *maker = &agent_parameters.making[i], nobody = 0;
        if (__atomic_compare_exchange_n(maker, &nobody, key, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ||
            nobody == key)
            return;
    }
}

static void end_making(uint64_t key)
{
    for (unsigned i = 0; i < WIRE_AGENT_MAKERS; i++) {
        uint64_t *maker = &agent_parameters.making[i], own = key;
        __atomic_compare_exchange_n(maker, &own, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    }
}

/* Who needs the record: it decides what a half-made one means. */
enum asker {
    /* its frame distinguishes a signal's handler, which interrupted the making, from a jump out of one */
    ASKER_ENTRY,
    ASKER_UNKNOWN, /* these two cannot be distinguished: it is taken for a handler */
    ASKER_SAMPLE,  /* the same, and a sample that finds no record is no loss */
};

/* A new record, or one that a signal's handler interrupted. */
static struct agent_thread *try_make(uint64_t key, enum asker asker, const struct agent_frame *frame)
{
    bool claimed = false;
    struct agent_thread *thread = key != 0 ? agent_record_find(key, &claimed) : NULL;
    if (thread == NULL) {
        if (asker != ASKER_SAMPLE)
            agent_lose(WIRE_AGENT_LOSS_NO_RECORD);
        return NULL;
    }
    if (is_complete(thread, key))
        return thread;
    bool left = claimed || (asker == ASKER_ENTRY && agent_view_beneath(frame) != AGENT_BENEATH_HANDLER);
    if (!left) {
        if (asker != ASKER_SAMPLE)
            agent_lose(WIRE_AGENT_LOSS_INTERRUPTED);
        return NULL;
    }
    complete_record(thread, key);
    return thread;
}

/* Signals wait meanwhile: what their handlers call is counted then. A handler that came just before has made
 * the record: then nothing is left to be done. */
static struct agent_thread *make_undisturbed(uint64_t key, enum asker asker, const struct agent_frame *frame)
{
    struct agent_thread *begun = key != 0 ? agent_record_find(key, NULL) : NULL;
    bool makes = begun != NULL ? !is_complete(begun, key) : key != 0 && agent_record_may_claim();
    uint64_t before;
    bool blocks = makes && agent_may_block(AGENT_SIGNALS_ASYNC, &before);
    struct agent_thread *thread = try_make(key, asker, frame);
    if (blocks)
        agent_may_unblock(before);
    return thread;
}

static __attribute__((noinline)) struct agent_thread *make_record(uint64_t key, enum asker asker,
                                                                  const struct agent_frame *frame)
{
    begin_making(key);
    struct agent_thread *thread = make_undisturbed(key, asker, frame);
    /* A handler that interrupts this, and finds the record half made, leaves it and the list as they are. */
    if (thread != NULL || agent_record_find(key, NULL) == NULL)
        end_making(key);
    return thread;
}

/* The thread's record, complete; NULL: none is free, or a handler came while it was made. A handler that
 * never came back to what it interrupted left it so: then it is made now. */
static struct agent_thread *find_or_make(uint64_t key, enum asker asker, const struct agent_frame *frame)
{
    struct agent_thread *thread = find_complete(key);
    return __builtin_expect(thread != NULL, 1) ? thread : make_record(key, asker, frame);
}

struct agent_thread *agent_thread_of(uint64_t thread_pointer)
{
    return find_or_make(thread_pointer, ASKER_UNKNOWN, NULL);
}

/* --- being inside --- */

static bool was_left(const struct agent_thread *thread, uint64_t sp)
{
    return sp >= thread->shared.entered_sp && sp < thread->readable_end;
}

/* Wrappers that end before the function itself begins. */
static enum wire_agent_inside inside_of(uint64_t entry)
{
    return entry == WIRE_AGENT_ENTRY_FUNCTION ? WIRE_AGENT_INSIDE_ALONE
           : entry == WIRE_AGENT_ENTRY_UNWIND ? WIRE_AGENT_INSIDE_UNWINDING
                                              : WIRE_AGENT_INSIDE;
}

/* Was the entry made by a signal's handler that interrupted the one that is inside? Only a function that a
 * wrapper called can have made it else, and where there is none nothing need be walked: under many signals
 * that is asked again and again. */
static enum agent_beneath beneath_entry(const struct agent_thread *thread, const struct agent_frame *frame)
{
    return thread->shared.inside != WIRE_AGENT_INSIDE    ? AGENT_BENEATH_HANDLER
           : agent_layer_is_inner(frame->return_address) ? AGENT_BENEATH_HOOK
                                                         : agent_view_beneath(frame);
}

/* Somebody is inside. True: who was, has left by a jump that its stack pointer did not show. Else the
 * entry is not counted; functions that unwind count nothing. */
static bool lose_entry(const struct agent_thread *thread, const struct agent_frame *frame)
{
    uint64_t entry = frame->hook->cookie & 255;
    if (entry == WIRE_AGENT_ENTRY_UNWIND)
        return false;
    enum agent_beneath found = beneath_entry(thread, frame);
    if (found == AGENT_BENEATH_HANDLER)
        agent_lose(WIRE_AGENT_LOSS_INTERRUPTED);
    else if (found == AGENT_BENEATH_HOOK && entry == WIRE_AGENT_ENTRY_FUNCTION)
        agent_lose(WIRE_AGENT_LOSS_INNER);
    return found == AGENT_BENEATH_NOTHING;
}

/* Whatever else may be than what agent_thread_enter knows. */
struct agent_thread *agent_thread_enter_any(const struct agent_frame *frame)
{
    if (!agent_process_is_counted())
        return NULL;
    struct agent_thread *thread = find_or_make(frame->thread, ASKER_ENTRY, frame);
    if (__builtin_expect(thread == NULL, 0))
        return NULL;
    /* The caller's sp: an entry that was left by a jump had its own at or below it. */
    uint64_t sp = (uint64_t)(&frame->return_address + 1);
    if (__builtin_expect(thread->shared.inside != 0, 0) && !was_left(thread, sp) &&
        !lose_entry(thread, frame))
        return NULL;
    agent_thread_go_inside(thread, sp, inside_of(frame->hook->cookie & 255));
    return thread;
}

/* Who leaves the function by a jump is counted for good: nothing shows it. */
bool agent_thread_begin_unrecorded(const struct agent_frame *frame)
{
    if (!agent_process_is_counted() || find_complete(frame->thread) != NULL)
        return false;
    __atomic_fetch_add(&agent_process()->unrecorded, 1, __ATOMIC_ACQ_REL);
    return true;
}

void agent_thread_end_unrecorded(void)
{
    __atomic_fetch_sub(&agent_process()->unrecorded, 1, __ATOMIC_RELEASE);
}

static struct agent_thread *enter_at(struct agent_thread *thread, uint64_t key, uint64_t sp)
{
    if (thread == NULL || !is_complete(thread, key) || (thread->shared.inside != 0 && !was_left(thread, sp)))
        return NULL;
    agent_thread_go_inside(thread, sp, WIRE_AGENT_INSIDE_ALONE);
    return thread;
}

struct agent_thread *agent_thread_come_back(uint64_t thread_pointer, uint64_t sp)
{
    return enter_at(thread_pointer != 0 ? agent_record_find(thread_pointer, NULL) : NULL, thread_pointer, sp);
}

/* The hook that was left by a jump is known in the same way: what was interrupted is at or above it. */
struct agent_thread *agent_thread_interrupt(uint64_t thread_pointer, uint64_t sp)
{
    return enter_at(find_or_make(thread_pointer, ASKER_SAMPLE, NULL), thread_pointer, sp);
}

void agent_thread_survey(void)
{
    uint64_t sp = (uint64_t)__builtin_frame_address(0), low = sp & ~(PAGE - 1), high = low + PAGE;
    struct agent_thread *thread = agent_thread_come_back(agent_thread_pointer(), sp);
    if (thread == NULL)
        return;
    while (high - low < SURVEY_MOST && agent_readable(high))
        high += PAGE;
    while (high - low < SURVEY_MOST && agent_readable(low - PAGE))
        low -= PAGE;
    thread->known_start = low;
    thread->known_end = high;
    agent_thread_leave(thread);
}
