/* The live stack as a walk sees it.
 *
 * A read of a live stack may fault: its end is not known, and a wrong row may lead anywhere. What is known to
 * be readable is the page of sp; the view grows from there page by page, each one tried by a system call
 * (agent_readable.c), once, as long as the thread stays on its stack. It grows downwards in the same way: the
 * next stack below, a coroutine's, has a guard page in between. What was found readable is forgotten when
 * anything is unmapped (agent_stack.c), by functions of the C library that are hooked for it: programs free
 * the stacks of coroutines, and put smaller ones in their place.
 *
 * Where a filter of system calls (agent_hook_filter.c) forbids all that could find what is readable, a view
 * is what was known before. */
#include "agent_view.h"

#include "agent_module.h"
#include "agent_readable.h"
#include "agent_return.h"

#define PAGE           UINT64_C(4096)
#define MAX_STEP       64 /* pages that one read may extend the view by */
#define HANDLER_FRAMES 24
#define EXTENT_FRAMES  128

/* Caller-saved registers are gone at a return address: rbx rbp rsp r12-r15 and the address itself. */
#define KNOWN_REGISTERS UINT64_C(0x1f0c8)

bool agent_view_is_known(const struct agent_thread *thread, uint64_t sp)
{
    return agent_readable_may_ask() || agent_view_is_surveyed(thread, sp);
}

static bool read_outside(void *context, uint64_t address, uint64_t *word)
{
    struct agent_view *view = context;
    struct unwind_memory *memory = &view->memory;
    /* What is aligned lies in one page: one try is enough for the word. */
    if (address < memory->low || address % 8 != 0)
        return false;
    while (address >= memory->high && address - memory->high < MAX_STEP * PAGE) {
        if (!agent_readable(memory->high))
            return false;
        memory->high += PAGE;
    }
    if (address >= memory->high && !agent_readable(address))
        return false;
    if (view->readable_end != NULL && address < memory->high)
        *view->readable_end = memory->high;
    *word = *(const uint64_t *)address;
    return true;
}

/* Is sp in the view of before, or readable all the way up to it? */
static bool is_same_stack(struct agent_thread *thread, uint64_t sp)
{
    if (sp >= thread->readable_end || thread->readable_end - sp > MAX_STEP * PAGE)
        return false;
    uint64_t page = sp & ~(PAGE - 1);
    for (uint64_t at = page + PAGE; at < thread->readable_start; at += PAGE)
        if (!agent_readable(at))
            return false;
    if (page < thread->readable_start)
        thread->readable_start = page;
    return true;
}

bool agent_view_open(struct agent_view *view, uint64_t sp, struct agent_thread *thread)
{
    uint64_t page = sp & ~(PAGE - 1), high = page + PAGE;
    bool same = thread != NULL && is_same_stack(thread, sp);
    if (same)
        high = thread->readable_end;
    else if (thread != NULL) {
        bool known = agent_view_is_surveyed(thread, sp) && !agent_readable_may_ask();
        thread->readable_start = known ? thread->known_start : page;
        thread->readable_end = high = known ? thread->known_end : high;
    }
    view->memory = (struct unwind_memory){sp, high, (const uint8_t *)sp, read_outside, view};
    view->readable_end = thread != NULL ? &thread->readable_end : NULL;
    return same;
}

void agent_view_registers(const struct agent_frame *frame, struct arch_registers *registers)
{
    registers->value[3] = frame->rbx;
    registers->value[6] = frame->rbp;
    registers->value[7] = (uint64_t)(&frame->return_address + 1);
    registers->value[12] = frame->r12;
    registers->value[13] = frame->r13;
    registers->value[14] = frame->r14;
    registers->value[15] = frame->r15;
    registers->value[16] = agent_return_real(frame->return_address);
    registers->valid = KNOWN_REGISTERS;
}

/* --- walks that need no record --- */

/* Uses of the record only its cache; NULL: not even that. `guess`: by the frame pointer where rows are
 * missing. */
static struct unwind_result walk_alone(const struct agent_frame *frame, struct unwind_cache *cache,
                                       bool guess, struct unwind_frame *frames, size_t most,
                                       struct agent_extent *found)
{
    struct unwind_result result = {.end = UNWIND_CUT};
    for (unsigned i = 0; i < AGENT_MODULE_TRIES; i++) {
        struct unwind_rows rows;
        struct agent_module_table table = {agent_module_generation(), &rows};
        struct unwind_space space = {arch_host(), agent_module_place, &table, table.generation, guess};
        struct arch_registers registers;
        struct agent_view view;
        agent_view_registers(frame, &registers);
        registers.value[16]--; /* looked up as it is */
        agent_view_open(&view, registers.value[7], NULL);
        result = unwind_walk(&space, &view.memory, &registers, cache, frames, most);
        *found = (struct agent_extent){registers.value[7], view.memory.high};
        if (agent_module_is_present(table.generation))
            break;
    }
    return result;
}

enum agent_beneath agent_view_beneath(const struct agent_frame *frame)
{
    struct unwind_frame frames[HANDLER_FRAMES];
    struct agent_extent view;
    struct unwind_result result = walk_alone(frame, NULL, false, frames, HANDLER_FRAMES, &view);
    for (size_t i = 0; i < result.count; i++) {
        if (frames[i].flags & UNWIND_SIGNAL)
            return AGENT_BENEATH_HANDLER; /* perhaps in code of ours */
        if (frames[i].pc - agent_parameters.code < agent_parameters.code_end - agent_parameters.code)
            return AGENT_BENEATH_HOOK; /* a signal beyond would have come before the hook */
    }
    return result.end == UNWIND_OUTERMOST ? AGENT_BENEATH_NOTHING : AGENT_BENEATH_HOOK;
}

/* By the thread's record, whoever is inside. */
static bool extent_as_surveyed(uint64_t sp, struct agent_extent *found)
{
    const struct agent_thread *thread =
        agent_process()->state != WIRE_AGENT_FREE ? agent_thread_quick(agent_thread_pointer()) : NULL;
    if (thread == NULL || !agent_view_is_surveyed(thread, sp))
        return false;
    *found = (struct agent_extent){sp, thread->known_end};
    return true;
}

bool agent_view_extent(struct agent_thread *thread, const struct agent_frame *frame,
                       struct agent_extent *found)
{
    struct unwind_cache *cache = thread != NULL ? (struct unwind_cache *)thread->cache : NULL;
    if (__builtin_expect(!agent_readable_may_ask(), 0) &&
        extent_as_surveyed((uint64_t)(&frame->return_address + 1), found))
        return true;
    struct unwind_frame frames[EXTENT_FRAMES];
    return walk_alone(frame, cache, true, frames, EXTENT_FRAMES, found).end == UNWIND_OUTERMOST;
}
