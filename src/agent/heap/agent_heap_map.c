/* Memory that the program maps by itself: mmap, munmap, mremap, brk, sbrk, by stack, in whole pages.
 *
 * What an allocator maps while it is in a hook of its own is the allocator's own: such a thread is inside,
 * and passes. The loader's own functions are not hooked. Some of these are called before there is a thread
 * pointer (a static program's start): those pass too. A remapped range counts as unmapped and mapped anew, as
 * a resized block does. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent_cell.h"
#include "agent_heap_range.h"
#include "agent_stack.h"
#include "agent_thread.h"

#define PAGE            UINT64_C(4096)
#define FAILED          UINT64_MAX /* MAP_FAILED, and sbrk's -1 */
#define HUGETLB         0x40000    /* MAP_HUGETLB; log2 of the page in the bits from HUGE_SHIFT on */
#define HUGE_SHIFT      26
#define HUGE_MASK       63
#define HUGE_USUAL      21
#define REMAP_DONTUNMAP 4

typedef uint64_t body_function(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);

uint64_t agent_wrap_mmap(struct agent_frame *frame, uint64_t address, uint64_t size, uint64_t protection,
                         uint64_t flags, uint64_t file);
uint64_t agent_wrap_munmap(struct agent_frame *frame, uint64_t address, uint64_t size);
uint64_t agent_wrap_mremap(struct agent_frame *frame, uint64_t old, uint64_t old_size, uint64_t size,
                           uint64_t flags, uint64_t address);
uint64_t agent_wrap_brk(struct agent_frame *frame, uint64_t address);
uint64_t agent_wrap_sbrk(struct agent_frame *frame, uint64_t increment);

static body_function *body_of(const struct agent_frame *frame)
{
    return (body_function *)frame->hook->body;
}

static uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* Somebody's stack may be in it: said before, as agent_entry_unmap does where nothing is counted. A process
 * without a region has no place for it (agent_process_inert). */
static void say_unmapped(void)
{
    struct wire_agent_process *process = agent_process();
    if (__atomic_load_n(&process->state, __ATOMIC_RELAXED) != WIRE_AGENT_FREE)
        __atomic_fetch_add(&process->unmapped, 1, __ATOMIC_SEQ_CST);
}

/* --- in and out --- */

struct visit {
    struct agent_thread *thread; /* NULL: not counted */
    uint64_t number;             /* before anything was unmapped */
    uint64_t end;                /* of the program's data (brk), before */
    bool unrecorded;             /* the process's count includes it, since no record does */
};

static struct visit enter_map(struct agent_frame *frame)
{
    struct visit visit = {NULL, 0, 0, false};
    frame->thread = agent_thread_pointer();
    if (frame->thread != 0)
        visit.thread = agent_thread_enter(frame);
    if (visit.thread != NULL)
        visit.number = agent_heap_range_number();
    else
        visit.unrecorded = agent_thread_begin_unrecorded(frame);
    return visit;
}

static uint64_t leave_map(const struct visit *visit, uint64_t result)
{
    if (visit->thread != NULL)
        agent_thread_leave(visit->thread);
    else if (visit->unrecorded)
        agent_thread_end_unrecorded();
    return result;
}

static void add_mapping(const struct visit *visit, const struct agent_frame *frame, uint64_t start,
                        uint64_t end)
{
    uint32_t cell = agent_stack_cell(visit->thread, frame, WIRE_AGENT_MAP);
    if (cell != 0)
        agent_heap_range_add(start, end, cell);
    else
        agent_lose(WIRE_AGENT_LOSS_NO_CELL);
}

/* --- mmap and its kin --- */

static uint64_t page_of(uint64_t flags)
{
    uint64_t bits = flags >> HUGE_SHIFT & HUGE_MASK;
    if ((flags & HUGETLB) == 0)
        return PAGE;
    return UINT64_C(1) << (bits != 0 ? bits : HUGE_USUAL);
}

uint64_t agent_wrap_mmap(struct agent_frame *frame, uint64_t address, uint64_t size, uint64_t protection,
                         uint64_t flags, uint64_t file)
{
    struct visit visit = enter_map(frame);
    if ((protection & PROT_READ) == 0)
        say_unmapped();
    uint64_t result = body_of(frame)(address, size, protection, flags, file, frame->sixth);
    if (visit.thread != NULL && result != FAILED)
        add_mapping(&visit, frame, result, result + round_up(size, page_of(flags)));
    return leave_map(&visit, result);
}

uint64_t agent_wrap_munmap(struct agent_frame *frame, uint64_t address, uint64_t size)
{
    struct visit visit = enter_map(frame);
    say_unmapped();
    uint64_t result = body_of(frame)(address, size, 0, 0, 0, 0);
    if (visit.thread != NULL && (uint32_t)result == 0)
        agent_heap_range_remove(address, address + round_up(size, PAGE), visit.number);
    return leave_map(&visit, result);
}

uint64_t agent_wrap_mremap(struct agent_frame *frame, uint64_t old, uint64_t old_size, uint64_t size,
                           uint64_t flags, uint64_t address)
{
    struct visit visit = enter_map(frame);
    say_unmapped();
    uint64_t result = body_of(frame)(old, old_size, size, flags, address, 0);
    if (visit.thread != NULL && result != FAILED) {
        if ((flags & REMAP_DONTUNMAP) == 0)
            agent_heap_range_remove(old, old + round_up(old_size, PAGE), visit.number);
        add_mapping(&visit, frame, result, result + round_up(size, PAGE));
    }
    return leave_map(&visit, result);
}

/* --- the end of the program's data --- */

static uint64_t data_end(void)
{
    return round_up((uint64_t)arch_host_syscall(SYS_brk, 0, 0, 0, 0, 0, 0), PAGE);
}

static struct visit enter_brk(struct agent_frame *frame)
{
    struct visit visit = enter_map(frame);
    if (visit.thread != NULL)
        visit.end = data_end();
    return visit;
}

static uint64_t leave_brk(const struct agent_frame *frame, const struct visit *visit, uint64_t result)
{
    uint64_t end = visit->thread != NULL ? data_end() : 0;
    if (end > visit->end)
        add_mapping(visit, frame, visit->end, end);
    else if (end < visit->end)
        agent_heap_range_remove(end, visit->end, visit->number);
    return leave_map(visit, result);
}

uint64_t agent_wrap_brk(struct agent_frame *frame, uint64_t address)
{
    struct visit visit = enter_brk(frame);
    return leave_brk(frame, &visit, body_of(frame)(address, 0, 0, 0, 0, 0));
}

uint64_t agent_wrap_sbrk(struct agent_frame *frame, uint64_t increment)
{
    struct visit visit = enter_brk(frame);
    return leave_brk(frame, &visit, body_of(frame)(increment, 0, 0, 0, 0, 0));
}
