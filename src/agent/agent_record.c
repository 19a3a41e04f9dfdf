/* Thread records: where they are, who has one, and when it is another thread's.
 *
 * A record is found by the thread pointer, through a table of places with open addressing: a word of it is
 * the pointer and the record's number. Only the thread itself enters its own pointer, so nobody else enters
 * it at the same time, but a handler of its own.
 *
 * When a thread has ended its record serves the next one, so there are about as many as threads lived at
 * once. Nobody announces that it has ended. When a record is needed, some are looked at:
 *   1. The C library keeps the thread's number in its control block, at an offset that is found out by
 *      looking for the number there (tid_offset). The kernel writes 0 there when the thread has ended
 *      (glibc), or the library does as its last act (musl), or -1 who joins it; and the kernel writes the
 *      number of a new thread there before that one begins.
 *   2. A control block that is not mapped any more is nobody's.
 *   3. Where neither is to be seen the thread is taken to live.
 *
 * A new thread may begin with the same control block at any time. So a record is taken away first, by its
 * key, and then looked at again: the number is written before the new thread runs, so if it found the record
 * by the old key, that is seen, and the record is given back.
 *
 * Where none is free, a thread would ask for one at each of its events, and each time make two system calls
 * for every record that is looked at. So after a failure the next events of such threads, whichever they are,
 * pass without; each is a loss.
 *
 * A record keeps its group with the group's cells, which are thus written by one thread at a time, and its
 * caches. What was the thread's own is forgotten. */
#include "agent_record.h"

#include <errno.h>
#include <sys/syscall.h>

#include "agent_may.h"
#include "agent_memory.h"
#include "agent_pending.h"
#include "agent_readable.h"

#define PROBES     256
#define GONE       UINT64_C(1) /* of a place: it is free, but others may lie behind it */
#define LOOKS      16          /* at records, for each new thread */
#define UNCLAIMED  256         /* events of threads without a record, from one try to the next */
#define JOINED     UINT32_MAX  /* what glibc leaves for the number of a thread that was joined */
#define PAGE       UINT64_C(4096)
#define BLOCK_MOST 2048 /* bytes of a control block that are looked through */

/* --- places --- */

static uint64_t *record_places(void)
{
    return agent_part(WIRE_AGENT_PLACES_AT);
}

/* The record of a word of `places` if it is of that thread pointer, complete or not; else NULL. */
static struct agent_thread *record_at(uint64_t word, uint64_t key)
{
    if (word >> 16 != key || (word & UINT16_MAX) >= agent_thread_mapped())
        return NULL;
    struct agent_thread *thread = agent_thread_at(word & UINT16_MAX);
    uint64_t there = __atomic_load_n(&thread->shared.key, __ATOMIC_SEQ_CST);
    return (there | AGENT_RECORD_MAKING) == (key | AGENT_RECORD_MAKING) ? thread : NULL;
}

/* Is it for whoever comes: empty, or of a record that is another thread's by now? */
static bool is_free_place(uint64_t word)
{
    return word == 0 || word == GONE || record_at(word, word >> 16) == NULL;
}

/* Makes record `number` one that can be found: at the first place that is free. A handler of this very thread
 * may have come first: then its record is this thread's. NULL: there is no place. */
static struct agent_thread *publish_record(uint64_t key, uint32_t number)
{
    uint32_t at = agent_thread_home(key);
    for (unsigned i = 0; i < PROBES; i++, at = (at + 1) % WIRE_AGENT_PLACES) {
        uint64_t there = __atomic_load_n(&record_places()[at], __ATOMIC_RELAXED);
        if (is_free_place(there) &&
            __atomic_compare_exchange_n(&record_places()[at], &there, wire_agent_place_word(key, number),
                                        false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return agent_thread_at(number);
        struct agent_thread *thread = record_at(there, key);
        if (thread != NULL)
            return thread;
    }
    return NULL;
}

/* No place leads to the record by that key any more. */
static void withdraw_record(uint64_t key, uint32_t number)
{
    uint32_t at = agent_thread_home(key);
    for (unsigned i = 0; i < PROBES; i++, at = (at + 1) % WIRE_AGENT_PLACES) {
        uint64_t there = __atomic_load_n(&record_places()[at], __ATOMIC_RELAXED);
        if (there == 0)
            return;
        if (there == wire_agent_place_word(key, number))
            __atomic_compare_exchange_n(&record_places()[at], &there, GONE, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED);
    }
}

/* --- has a thread ended? --- */

/* 0: the library keeps it nowhere. The first word is a pointer. */
uint32_t agent_record_tid_offset(uint64_t key, uint32_t tid)
{
    for (uint32_t at = sizeof(uint64_t); tid != 0 && at < BLOCK_MOST; at += sizeof tid) {
        uint64_t address = key + at;
        bool is_next_page = at == sizeof(uint64_t) || address % PAGE < sizeof tid;
        if (is_next_page && !agent_readable(address))
            return 0;
        if (*(const uint32_t *)address == tid)
            return at;
    }
    return 0;
}

/* By the kernel: another thread may unmap the word at any time. 0: so it is; -EAGAIN: it is something else;
 * -EFAULT: there is none. Nobody waits, and nobody is woken who waits there for the thread's end. */
static int64_t compare_word(uint64_t address, uint32_t value)
{
    return arch_host_syscall(SYS_futex, address, AGENT_FUTEX_COMPARE, 0, 0, address, value);
}

static bool has_ended(const struct agent_thread *thread, uint64_t key)
{
    uint64_t address = key + thread->tid_offset;
    if (!agent_may(WIRE_AGENT_CALL_FUTEX))
        return false; /* it cannot be found out */
    int64_t ended = compare_word(address, 0);
    if (ended == -EAGAIN)
        ended = compare_word(address, JOINED);
    return ended == -EFAULT || (ended == 0 && thread->tid_offset != 0);
}

/* --- a record for a new thread --- */

static void forget_owner(struct agent_thread *thread)
{
    agent_pending_forget(thread);
    thread->shared.entered_sp = 0;
    thread->readable_start = thread->readable_end = thread->known_start = thread->known_end = 0;
    thread->last_block = thread->spent = thread->working = 0;
    thread->put_back = (struct agent_put_back){0, 0, 0};
    thread->rest = (struct agent_rest){0, 0, 0, 0, 0, 0};
    thread->trail.count = 0;
    thread->nodes_root = 0;
    thread->path.busy = thread->path.last = thread->path.low = thread->path.high = 0;
    thread->path.passed = thread->path.passed_site = 0;
    thread->path.calls.count = thread->path.calls.over = 0;
    thread->path.inner.count = thread->path.inner.over = 0;
    __atomic_store_n(&thread->shared.inside, WIRE_AGENT_OUTSIDE, __ATOMIC_RELEASE);
}

/* A free record, or one whose thread has ended. */
static bool take_record_over(struct agent_thread *thread, uint32_t number, uint64_t key)
{
    uint64_t before = __atomic_load_n(&thread->shared.key, __ATOMIC_RELAXED);
    if ((before & AGENT_RECORD_MAKING) != 0 || (before != 0 && !has_ended(thread, before)) ||
        !__atomic_compare_exchange_n(&thread->shared.key, &before, key | AGENT_RECORD_MAKING, false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return false;
    if (before == 0)
        return true;
    /* Once more, now that its key is gone: a new thread with the same control block has its number written
     * before it runs, so it either shows here or does not find the record. */
    if (!has_ended(thread, before)) { /* a new one began there meanwhile */
        __atomic_store_n(&thread->shared.key, before, __ATOMIC_RELEASE);
        return false;
    }
    withdraw_record(before, number);
    forget_owner(thread);
    return true;
}

/* Looks go on where the last ones ended: so all records were looked at after as many new threads as a 16th of
 * them. */
static struct agent_thread *take_used_record(uint64_t key, uint32_t *number)
{
    uint64_t made = __atomic_load_n(&agent_process()->thread_count, __ATOMIC_RELAXED);
    uint64_t mapped = agent_thread_mapped();
    uint32_t count = (uint32_t)(made < mapped ? made : mapped);
    for (uint32_t i = 0; i < LOOKS && i < count; i++) {
        *number = __atomic_fetch_add(&agent_parameters.looked, 1, __ATOMIC_RELAXED) % count;
        if (take_record_over(agent_thread_at(*number), *number, key))
            return agent_thread_at(*number);
    }
    return NULL;
}

static bool has_record_room(uint64_t count)
{
    return count <= WIRE_AGENT_THREADS &&
           agent_memory_has(WIRE_AGENT_PART_THREADS, count * WIRE_AGENT_THREAD_BYTES);
}

/* Once it has a number another thread may claim it: then the next one is tried. */
static struct agent_thread *take_new_record(uint64_t key, uint32_t *number)
{
    uint32_t *count = &agent_process()->thread_count;
    while (has_record_room(__atomic_load_n(count, __ATOMIC_RELAXED) + UINT64_C(1))) {
        *number = __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
        if (!has_record_room(*number + UINT64_C(1)))
            return NULL; /* others came first: it is nobody's yet */
        struct agent_thread *thread = agent_thread_at(*number);
        uint64_t nobody = 0;
        if (__atomic_compare_exchange_n(&thread->shared.key, &nobody, key | AGENT_RECORD_MAKING, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return thread;
    }
    return NULL;
}

static struct agent_thread *try_claim_record(uint64_t key, bool *claimed)
{
    uint32_t number;
    struct agent_thread *taken = take_used_record(key, &number);
    if (taken == NULL)
        taken = take_new_record(key, &number);
    if (taken == NULL)
        return NULL;
    struct agent_thread *thread = publish_record(key, number);
    *claimed = thread == taken;
    if (!*claimed)
        __atomic_store_n(&taken->shared.key, 0, __ATOMIC_RELEASE);
    return thread;
}

bool agent_record_may_claim(void)
{
    return __atomic_load_n(&agent_parameters.unclaimed, __ATOMIC_RELAXED) == 0;
}

static struct agent_thread *claim_record(uint64_t key, bool *claimed)
{
    uint32_t *rest = &agent_parameters.unclaimed, left = __atomic_load_n(rest, __ATOMIC_RELAXED);
    if (left != 0) { /* two threads may decrement it once: harmless */
        __atomic_store_n(rest, left - 1, __ATOMIC_RELAXED);
        return NULL;
    }
    struct agent_thread *thread = try_claim_record(key, claimed);
    if (thread == NULL)
        __atomic_store_n(rest, UNCLAIMED, __ATOMIC_RELAXED);
    return thread;
}

struct agent_thread *agent_record_find(uint64_t key, bool *claimed)
{
    uint32_t at = agent_thread_home(key);
    for (unsigned i = 0; i < PROBES; i++, at = (at + 1) % WIRE_AGENT_PLACES) {
        uint64_t there = __atomic_load_n(&record_places()[at], __ATOMIC_ACQUIRE);
        struct agent_thread *thread = record_at(there, key);
        if (__builtin_expect(thread != NULL, 1))
            return thread;
        if (there == 0)
            break;
    }
    return claimed != NULL ? claim_record(key, claimed) : NULL;
}
