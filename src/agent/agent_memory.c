/* How much of each part of the memory is mapped, and growing it.
 *
 * A program may limit its addresses (RLIMIT_AS), lock all of them (mlockall), or walk all that is writable
 * (leak checkers, collectors). So of each part (wire_agent_layout.h) only a beginning is mapped, and whoever
 * makes an index that lies beyond has the part grown first. Whoever finds an index need not ask.
 *
 *   growing    mremap in place: the loader has left free addresses behind each part, as many as it can have,
 *              far from where the kernel puts what the program maps. All that was there stays where it is, so
 *              nobody need know, and other threads go on.
 *   refused    by a limit, or because the program has mapped something there: then the part is full, which is
 *              the loss that its user counts for a full part, and a loss of its own here. It is tried again,
 *              but not at each event.
 *   no lock    A part has one size after the other, each a function of the one before, and the kernel grows
 *              it from a size only where it has that size. So whoever comes second, or finds what a thread
 *              did that never came to say so (a handler left by a jump, another thread runs instead), tries
 *              the next sizes, and learns from the one that the kernel grants. Where it grants none, others
 *              may know: they are waited for, two milliseconds at most, but not where the part was refused
 *              the last time, too.
 *   committed  Where the kernel commits no more memory than it has (WIRE_AGENT_COMMIT), the first touch of a
 *              page may be a SIGBUS. There all pages of what is to be mapped are made first, through a second
 *              view of the file that nobody else knows; a failure is as if the part could not grow. Those of
 *              the private part, which can have no second view, are made once it has grown, before the size
 *              is published. What is mapped at first tally makes.
 *
 * A fork's child has its parent's mappings. What it shows instead is its own region, at the same addresses,
 * by remap_file_pages: the only call that maps another place of a file that nobody has open. (The kernel has
 * kept the call, and for shared memory it is one mmap; MAP_NONBLOCK, or all of it were made at once. The new
 * mapping has lost what madvise said of the old one. Once since it was started the kernel prints a line in
 * its log: the program "uses deprecated remap_file_pages() syscall".)
 *
 * Source: mremap(2), remap_file_pages(2), madvise(2), mm/mremap.c, mm/mmap.c;
 * Documentation/mm/overcommit-accounting. */
#include "agent_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent_may.h"

#define PAGE       UINT64_C(4096)
#define MORE_LEAST (UINT64_C(64) << 10)
#define MORE_MOST  (UINT64_C(1) << 20)
#define BEHIND     8     /* sizes that a part may have more than is known */
#define WAITS      20    /* for threads that know, two milliseconds in all */
#define WAIT_NS    50000 /* and as much again until the thread runs */
#define TRY_AGAIN  1     /* of `refusals`: the part was refused, and is tried once; 0: it was not */
#define REFUSALS   512   /* of `refusals`, behind a refusal */
#define MAY_MOVE   1     /* MREMAP_MAYMOVE */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static struct wire_agent_place place_of(enum wire_agent_part part, uint32_t region)
{
    const struct wire_agent_control *control = agent_control();
    struct wire_agent_layout layout = wire_agent_layout(control->memory);
    return wire_agent_place(control, &layout, part, region);
}

/* --- sizes --- */

/* Tables of blocks, and indices of nodes, are as large as all before them. */
static uint64_t more_of(enum wire_agent_part part, uint64_t size)
{
    if (part == WIRE_AGENT_PART_BLOCKS || part == WIRE_AGENT_PART_INDEX)
        return size;
    if (part == WIRE_AGENT_PART_THREADS)
        return round_up(size / 16, WIRE_AGENT_THREAD_BYTES);
    uint64_t more = round_up(size / 4, PAGE);
    return more < MORE_LEAST ? MORE_LEAST : more < MORE_MOST ? more : MORE_MOST;
}

static uint64_t next_size(enum wire_agent_part part, uint64_t size, uint64_t most)
{
    uint64_t next = size + more_of(part, size);
    return next < most ? next : most;
}

/* Other threads may have published more meanwhile. */
static void publish_size(uint64_t *published, uint64_t size)
{
    uint64_t there = __atomic_load_n(published, __ATOMIC_RELAXED);
    while (there < size &&
           !__atomic_compare_exchange_n(published, &there, size, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

/* Whoever has the kernel's answer is often put aside at once for those who waited for the kernel. */
void agent_memory_wait(void)
{
    const int64_t moment[2] = {0, WAIT_NS};
    uint32_t word = 0; /* nobody wakes: it ends by itself */
    if (agent_may(WIRE_AGENT_CALL_FUTEX))
        arch_host_syscall(SYS_futex, (uint64_t)&word, AGENT_FUTEX_WAIT_OWN, 0, (uint64_t)moment, 0, 0);
}

/* --- making pages --- */

static bool is_committed(void)
{
    return (agent_control()->flags & WIRE_AGENT_COMMIT) != 0;
}

static bool make_pages(uint64_t address, uint64_t bytes)
{
    return agent_may(WIRE_AGENT_CALL_COMMIT) &&
           arch_host_syscall(SYS_madvise, address, bytes, AGENT_MAKE_PAGES, 0, 0, 0) == 0;
}

static void *view_of(uint64_t address, uint64_t bytes)
{
    int64_t view = arch_host_syscall(SYS_mremap, address, 0, bytes, MAY_MOVE, 0, 0);
    return view > 0 ? (void *)view : NULL;
}

/* Those of `bytes` of the file, from what `address` shows on, or (`file` not 0) from `file` on. */
static bool make_unseen(uint64_t address, uint64_t file, uint64_t bytes)
{
    void *view = agent_may(WIRE_AGENT_CALL_SHOW) ? view_of(address, bytes) : NULL;
    if (view == NULL)
        return false;
    bool shown = file == 0 || arch_host_syscall(SYS_remap_file_pages, (uint64_t)view, bytes, 0, file / PAGE,
                                                MAP_NONBLOCK, 0) == 0;
    bool made = shown && make_pages((uint64_t)view, bytes);
    arch_host_syscall(SYS_munmap, (uint64_t)view, bytes, 0, 0, 0, 0);
    return made;
}

/* --- growing a part --- */

/* `known`: what may be used so far. A part has the size `size` only where all pages below it are made, but
 * for the private one, where somebody may be about to make those behind `known`. */
static bool grow_from(enum wire_agent_part part, uint64_t address, uint64_t known, uint64_t size,
                      uint64_t next)
{
    bool private = part == WIRE_AGENT_PART_OWN, committed = is_committed();
    if (committed && !private && !make_unseen(address + size - PAGE, 0, next - size + PAGE))
        return false;
    return (uint64_t)arch_host_syscall(SYS_mremap, address, size, next, 0, 0, 0) == address &&
           (!committed || !private || make_pages(address + known, next - known));
}

/* From the size that is known, or from one of those behind it. */
static bool grow_once(enum wire_agent_part part, uint64_t size, const struct wire_agent_place *place)
{
    uint64_t address = agent_parameters.control + place->address, known = size;
    for (unsigned i = 0; i < BEHIND && size < place->most && agent_may(WIRE_AGENT_CALL_GROW); i++) {
        uint64_t next = next_size(part, size, place->most);
        if (grow_from(part, address, known, size, next)) {
            publish_size(&agent_parameters.mapped[part], next);
            return true;
        }
        size = next;
    }
    return false;
}

static bool grow_part(enum wire_agent_part part, uint64_t bytes, const struct wire_agent_place *place,
                      unsigned most_waits)
{
    const uint64_t *mapped = &agent_parameters.mapped[part];
    uint64_t size = __atomic_load_n(mapped, __ATOMIC_ACQUIRE);
    for (unsigned waits = 0; size < bytes; size = __atomic_load_n(mapped, __ATOMIC_ACQUIRE)) {
        if (grow_once(part, size, place) || size != __atomic_load_n(mapped, __ATOMIC_ACQUIRE))
            continue;
        if (waits++ == most_waits)
            return false;
        agent_memory_wait();
    }
    return true;
}

bool agent_memory_grow(enum wire_agent_part part, uint64_t bytes)
{
    uint32_t *refusals = &agent_parameters.refusals[part], left = __atomic_load_n(refusals, __ATOMIC_RELAXED);
    struct wire_agent_place place = place_of(part, 0);
    if (bytes > place.most || agent_parameters.mapped[part] == 0 || !agent_may(WIRE_AGENT_CALL_GROW))
        return false;
    if (left > TRY_AGAIN) {
        __atomic_store_n(refusals, left - 1, __ATOMIC_RELAXED);
        return false;
    }
    bool grown = grow_part(part, bytes, &place, left == TRY_AGAIN ? 0 : WAITS);
    if (!grown)
        agent_lose(WIRE_AGENT_LOSS_NO_ROOM);
    if (!grown || left == TRY_AGAIN)
        __atomic_store_n(refusals, grown ? 0 : REFUSALS, __ATOMIC_RELAXED);
    return grown;
}

/* --- a fork's child --- */

static bool is_shown(enum wire_agent_part part)
{
    return part >= WIRE_AGENT_PART_HEAD && part <= WIRE_AGENT_PART_THREADS &&
           agent_parameters.mapped[part] != 0;
}

/* What the parent grew the child does not need yet; descriptors it has as many as the parent. */
static void shrink_part(enum wire_agent_part part, uint64_t address)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    uint64_t first = wire_agent_first(&layout, part), mapped = agent_parameters.mapped[part];
    if (mapped <= first || part == WIRE_AGENT_PART_DESCRIPTORS)
        return;
    arch_host_syscall(SYS_munmap, address + first, mapped - first, 0, 0, 0, 0);
    agent_parameters.mapped[part] = first;
}

/* What is shown is a mapping anew, which core dumps have unless it is said again. */
static bool show_part(enum wire_agent_part part, uint32_t number)
{
    struct wire_agent_place place = place_of(part, number);
    uint64_t address = agent_parameters.control + place.address;
    shrink_part(part, address);
    if (is_committed() && !make_unseen(address, place.file, agent_parameters.mapped[part]))
        return false;
    if (arch_host_syscall(SYS_remap_file_pages, address, agent_parameters.mapped[part], 0, place.file / PAGE,
                          MAP_NONBLOCK, 0) != 0)
        return false;
    if (agent_may(WIRE_AGENT_CALL_SHOW)) /* a failure is no harm: the dump is larger */
        arch_host_syscall(SYS_madvise, address, agent_parameters.mapped[part], MADV_DONTDUMP, 0, 0, 0);
    return true;
}

bool agent_memory_show(uint32_t number)
{
    for (unsigned i = 0; i < WIRE_AGENT_MAKERS; i++)
        agent_parameters.making[i] = 0; /* who made theirs in the parent is not here */
    agent_parameters.unclaimed = 0;
    for (unsigned i = 0; i < WIRE_AGENT_PARTS; i++)
        agent_parameters.refusals[i] = 0;
    for (unsigned part = WIRE_AGENT_PART_THREADS; part >= WIRE_AGENT_PART_HEAD; part--)
        if (is_shown(part) && !show_part(part, number))
            return false;
    return true;
}

const void *agent_memory_view(enum wire_agent_part part, uint64_t bytes)
{
    uint64_t address = agent_parameters.control + place_of(part, 0).address;
    void *view = view_of(address, round_up(bytes, PAGE));
    if (view == NULL || !is_committed() || make_pages((uint64_t)view, round_up(bytes, PAGE)))
        return view;
    /* tally gave back the pages of an ended parent; they cannot be allocated again */
    agent_memory_end_view(view, bytes);
    return NULL;
}

void agent_memory_end_view(const void *view, uint64_t bytes)
{
    if (view != NULL)
        arch_host_syscall(SYS_munmap, (uint64_t)view, round_up(bytes, PAGE), 0, 0, 0, 0);
}
