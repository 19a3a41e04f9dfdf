/* From the caller's registers to a node: walk, then intern what is new.
 *
 * The walk reads the live stack, by rows that tally prepared (wire_agent.h), through the cache of the
 * thread's record. Two things could go wrong with a live stack, a read that faults and a table that changes:
 *   1. The stack's end is not known, and a wrong row may lead anywhere. What is known to be readable is the
 *      page of sp; the window grows from there page by page, each one tried by a system call that reads a
 *      word and does nothing else (rt_sigprocmask with an impossible `how` says EFAULT before it says
 *      EINVAL). That costs some 100 ns a page, once, as long as the thread stays on its stack. It grows
 *      downwards in the same way: the next stack below, a coroutine's, has a guard page in between. What was
 *      found readable is forgotten when anything is unmapped, by functions of the C library that are hooked
 *      for it: programs free the stacks of coroutines, and put smaller ones in their place.
 *   2. Modules come and go in generations. Everything that a record remembers is of one generation and is
 *      forgotten with it.
 * Where rows are missing the frame pointer is tried, checked by the walk itself.
 *
 * Where a filter of system calls (agent_filter.c) forbids all that could tell what is readable, a window is
 * what was known before.
 *
 * Most stacks were met before and are known again by comparing words (unwind_known.h); the others are walked.
 * The walk says how many of the outermost frames are the same as in the walk before (unwind_trail.h): they
 * have their nodes already. The rest is looked up in the thread's small cache and then in the index. */
#include "agent.h"

#include <sys/syscall.h>

#define PAGE           UINT64_C(4096)
#define MAX_STEP       64 /* pages that one read may extend the window by */
#define HANDLER_FRAMES 24
#define WINDOW_FRAMES  128
#define FAULT          (-14) /* EFAULT */
#define SURVEY_MOST    (UINT64_C(16) << 20)
#define SEARCHES       1024 /* of stacks that were met before, in a row; at least half must be found */
#define SEARCHES_REST  (16 * SEARCHES)
#define WALKS          8 /* at most, of one stack: each by a table that is complete */

/* Caller-saved registers are gone at a return address: rbx rbp rsp r12-r15 and the address itself. */
#define KNOWN_REGISTERS UINT64_C(0x1f0c8)

/* A filter forbids the usual call. These two read what is there, too, before they find that nothing is to be
 * done. */
static bool is_readable_otherwise(uint64_t page)
{
    const int64_t at_once[2] = {0, 0};
    if (agent_may(WIRE_AGENT_CALL_ACTION))
        return arch_host_syscall(SYS_rt_sigaction, AGENT_NO_SIGNAL, page, 0, 8, 0, 0) != FAULT;
    return agent_may(WIRE_AGENT_CALL_FUTEX) &&
           arch_host_syscall(SYS_futex, page, AGENT_FUTEX_WAIT_OWN, 1, (uint64_t)at_once, 0, 0) != FAULT;
}

bool agent_stack_is_readable(uint64_t address)
{
    return agent_may(WIRE_AGENT_CALL_MASK) ? arch_host_syscall(SYS_rt_sigprocmask, UINT32_MAX,
                                                               address & ~UINT64_C(7), 0, 8, 0, 0) != FAULT
                                           : is_readable_otherwise(address & ~(PAGE - 1));
}

static bool may_look(void)
{
    return agent_may(WIRE_AGENT_CALL_MASK) || agent_may(WIRE_AGENT_CALL_ACTION) ||
           agent_may(WIRE_AGENT_CALL_FUTEX);
}

static bool is_in_known(const struct agent_thread *thread, uint64_t sp)
{
    return sp - thread->known_start < thread->known_end - thread->known_start;
}

bool agent_stack_is_known(const struct agent_thread *thread, uint64_t sp)
{
    return may_look() || is_in_known(thread, sp);
}

void agent_stack_survey(void)
{
    uint64_t sp = (uint64_t)__builtin_frame_address(0), low = sp & ~(PAGE - 1), high = low + PAGE;
    struct agent_thread *thread = agent_thread_come_back(agent_thread_pointer(), sp);
    if (thread == NULL)
        return;
    while (high - low < SURVEY_MOST && agent_stack_is_readable(high))
        high += PAGE;
    while (high - low < SURVEY_MOST && agent_stack_is_readable(low - PAGE))
        low -= PAGE;
    thread->known_start = low;
    thread->known_end = high;
    agent_thread_leave(thread);
}

/* A coroutine's stack may be gone, and a smaller one lie where it was: then what was readable above is
 * not. */
static inline void forget_unmapped(struct agent_thread *thread)
{
    uint32_t unmapped = __atomic_load_n(&agent_process()->unmapped, __ATOMIC_ACQUIRE);
    if (__builtin_expect(thread->unmapped == unmapped, 1))
        return;
    thread->readable_start = thread->readable_end = 0;
    thread->trail.count = 0;
    thread->unmapped = unmapped;
}

/* A walk's view of the live stack. */
struct window {
    struct unwind_memory memory;
    uint64_t *readable_end; /* the record's; NULL: a walk that may use none */
};

static bool read_outside(void *context, uint64_t address, uint64_t *word)
{
    struct window *window = context;
    struct unwind_memory *memory = &window->memory;
    if (address < memory->low || address % 8 != 0)
        return false;
    while (address >= memory->high && address - memory->high < MAX_STEP * PAGE) {
        if (!agent_stack_is_readable(memory->high))
            return false;
        memory->high += PAGE;
    }
    if (address >= memory->high && !agent_stack_is_readable(address))
        return false;
    if (window->readable_end != NULL && address < memory->high)
        *window->readable_end = memory->high;
    *word = *(const uint64_t *)address;
    return true;
}

/* Is sp in the window of before, or readable all the way up to it? */
static bool is_same_stack(struct agent_thread *thread, uint64_t sp)
{
    if (sp >= thread->readable_end || thread->readable_end - sp > MAX_STEP * PAGE)
        return false;
    uint64_t page = sp & ~(PAGE - 1);
    for (uint64_t at = page + PAGE; at < thread->readable_start; at += PAGE)
        if (!agent_stack_is_readable(at))
            return false;
    if (page < thread->readable_start)
        thread->readable_start = page;
    return true;
}

/* `thread` NULL: a walk that may use no record. True: the window has only grown. */
static bool open_window(struct window *window, uint64_t sp, struct agent_thread *thread)
{
    uint64_t page = sp & ~(PAGE - 1), high = page + PAGE;
    bool same = thread != NULL && is_same_stack(thread, sp);
    if (same)
        high = thread->readable_end;
    else if (thread != NULL) {
        bool known = is_in_known(thread, sp) && !may_look();
        thread->readable_start = known ? thread->known_start : page;
        thread->readable_end = high = known ? thread->known_end : high;
    }
    window->memory = (struct unwind_memory){sp, high, (const uint8_t *)sp, read_outside, window};
    window->readable_end = thread != NULL ? &thread->readable_end : NULL;
    return same;
}

/* A blob that tally wrote and checked; here only what keeps reads inside the file. `module` is a copy. */
static bool rows_of(struct unwind_rows *rows, const struct wire_agent_module *module)
{
    const struct wire_agent_control *control = agent_control();
    if (module->rows_size < sizeof(struct wire_rows_header) || module->rows_size > control->rows_size ||
        module->rows_offset > control->rows_size - module->rows_size ||
        !agent_room(WIRE_AGENT_PART_ROWS, module->rows_offset + module->rows_size))
        return false;
    const uint8_t *blob =
        (const uint8_t *)(agent_parameters.control + control->rows_offset + module->rows_offset);
    const struct wire_rows_header *header = (const void *)blob;
    rows->header = header;
    rows->rules = (const void *)(blob + sizeof *header);
    rows->pages = (const void *)(rows->rules + header->rule_count);
    rows->rows = (const void *)(rows->pages + header->page_count + 1);
    rows->arch = arch_host();
    return header->magic == WIRE_ROWS_MAGIC && header->machine == rows->arch->machine;
}

/* What find needs; a walk's own. */
struct place {
    uint32_t generation;
    struct unwind_rows *rows;
};

/* The module of an address in the table of that generation; NULL: none. */
static const struct wire_agent_module *module_at(uint32_t generation, uint64_t pc)
{
    const struct wire_agent_process *process = agent_process();
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    const struct wire_agent_module *modules = agent_part(layout.modules[generation & 1]);
    uint32_t low = 0, high = __atomic_load_n(&process->module_count[generation & 1], __ATOMIC_RELAXED);
    if (generation == 0 || high > WIRE_AGENT_MODULES)
        return NULL;
    const uint32_t count = high;
    while (low < high) { /* the first module that ends behind pc */
        uint32_t middle = low + (high - low) / 2;
        if (modules[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low >= count || pc < modules[low].start)
        return NULL;
    return &modules[low];
}

/* Is that generation's table the valid one still? As soon as the next one is published tally may write this
 * one again, so what was read of it counts only if it is. */
static bool is_present(uint32_t generation)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* the table is read before the generation */
    return __atomic_load_n(&agent_process()->generation, __ATOMIC_RELAXED) == generation;
}

/* A copy of the module of an address, of one table. All that is used of a module comes from such a copy:
 * tally writes the table itself while we look, so a word of it that was checked may be another one when it is
 * read again. */
static bool copy_module(uint32_t generation, uint64_t address, struct wire_agent_module *module)
{
    const struct wire_agent_module *there = module_at(generation, address);
    if (there != NULL)
        *module = *there;
    return is_present(generation) && there != NULL;
}

/* What stands for a return address (agent_return.c) is described as that is: the walk looks at the word
 * before it. */
static bool find(void *context, uint64_t pc, struct unwind_place *found)
{
    const struct place *place = context;
    uint64_t real = agent_return_real(pc + 1) - 1;
    struct wire_agent_module module;
    if (!copy_module(place->generation, real, &module))
        return false;
    *found = (struct unwind_place){rows_of(place->rows, &module) ? place->rows : NULL,
                                   module.bias + (pc - real), module.cookie};
    return true;
}

/* False: the address is in no module, or tables changed under every look. */
static bool copy_present_module(uint64_t address, struct wire_agent_module *module)
{
    for (unsigned i = 0; i < WALKS; i++) {
        uint32_t generation = __atomic_load_n(&agent_process()->generation, __ATOMIC_ACQUIRE);
        if (copy_module(generation, address, module))
            return true;
        if (is_present(generation))
            return false;
    }
    return false;
}

bool agent_stack_module(uint64_t address, struct wire_agent_module *module)
{
    struct unwind_rows rows;
    return copy_present_module(address, module) && rows_of(&rows, module) &&
           unwind_rows_find(&rows, address - module->bias)->cfa_kind != WIRE_CFA_NONE;
}

static void registers_of(const struct agent_frame *frame, struct arch_registers *registers)
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

/* By nothing of a thread's record but its cache; NULL: nor by that. `guess`: by the frame pointer where rows
 * are missing. */
static struct unwind_result walk_alone(const struct agent_frame *frame, struct unwind_cache *cache,
                                       bool guess, struct unwind_frame *frames, size_t most,
                                       struct agent_window *found)
{
    struct unwind_result result = {.end = UNWIND_CUT};
    for (unsigned i = 0; i < WALKS; i++) {
        struct unwind_rows rows;
        struct place place = {__atomic_load_n(&agent_process()->generation, __ATOMIC_ACQUIRE), &rows};
        struct unwind_space space = {arch_host(), find, &place, place.generation, guess};
        struct arch_registers registers;
        struct window window;
        registers_of(frame, &registers);
        registers.value[16]--; /* looked up as it is */
        open_window(&window, registers.value[7], NULL);
        result = unwind_walk(&space, &window.memory, &registers, cache, frames, most);
        *found = (struct agent_window){registers.value[7], window.memory.high};
        if (is_present(place.generation))
            break;
    }
    return result;
}

enum agent_beneath agent_stack_beneath(const struct agent_frame *frame)
{
    struct unwind_frame frames[HANDLER_FRAMES];
    struct agent_window window;
    struct unwind_result result = walk_alone(frame, NULL, false, frames, HANDLER_FRAMES, &window);
    for (size_t i = 0; i < result.count; i++) {
        if (frames[i].flags & UNWIND_SIGNAL)
            return AGENT_BENEATH_HANDLER; /* perhaps in code of ours */
        if (frames[i].pc - agent_parameters.code < agent_parameters.code_end - agent_parameters.code)
            return AGENT_BENEATH_HOOK; /* a signal beyond would have come before the hook */
    }
    return result.end == UNWIND_OUTERMOST ? AGENT_BENEATH_NOTHING : AGENT_BENEATH_HOOK;
}

/* The thread's record tells, whoever is inside. */
static bool window_as_known(uint64_t sp, struct agent_window *found)
{
    const struct agent_thread *thread =
        agent_process()->state != WIRE_AGENT_FREE ? agent_thread_quick(agent_thread_pointer()) : NULL;
    if (thread == NULL || !is_in_known(thread, sp))
        return false;
    *found = (struct agent_window){sp, thread->known_end};
    return true;
}

bool agent_stack_window(struct agent_thread *thread, const struct agent_frame *frame,
                        struct agent_window *found)
{
    struct unwind_cache *cache = thread != NULL ? (struct unwind_cache *)thread->cache : NULL;
    if (__builtin_expect(!may_look(), 0) && window_as_known((uint64_t)(&frame->return_address + 1), found))
        return true;
    struct unwind_frame frames[WINDOW_FRAMES];
    return walk_alone(frame, cache, true, frames, WINDOW_FRAMES, found).end == UNWIND_OUTERMOST;
}

static void forget(struct agent_thread *thread, uint32_t generation)
{
    thread->generation = generation;
    thread->trail.count = 0;
    thread->nodes_root = 0;
    for (unsigned i = 0; thread->is_linked && i < AGENT_LINKS; i++)
        thread->links[i].node = 0; /* a fresh record's need not be touched: they are many pages */
    thread->is_linked = false;
    for (unsigned i = 0; i < AGENT_FUNCTIONS; i++)
        thread->functions[i].node = 0;
}

static void lose_end(enum unwind_end end, uint64_t frame_pointer_frames)
{
    static const uint8_t losses[] = {
        [UNWIND_FULL] = WIRE_AGENT_LOSS_TOO_DEEP,
        [UNWIND_CUT] = WIRE_AGENT_LOSS_CUT,
        [UNWIND_BAD_READ] = WIRE_AGENT_LOSS_CUT,
        [UNWIND_NO_ROWS] = WIRE_AGENT_LOSS_NO_ROWS,
        [UNWIND_ODD_RULE] = WIRE_AGENT_LOSS_ODD_RULE,
        [UNWIND_NO_MAPPING] = WIRE_AGENT_LOSS_NO_MAPPING,
        [UNWIND_NO_PROGRESS] = WIRE_AGENT_LOSS_NO_PROGRESS,
    };
    if (end != UNWIND_OUTERMOST && end < sizeof losses)
        agent_lose((enum wire_agent_loss)losses[end]);
    if (frame_pointer_frames != 0)
        __atomic_fetch_add(&agent_process()->losses[WIRE_AGENT_LOSS_FRAME_POINTER], frame_pointer_frames,
                           __ATOMIC_RELAXED);
}

static struct unwind_trail_result walk(struct agent_thread *thread, const struct agent_frame *frame,
                                       uint32_t unchanged)
{
    struct place place = {thread->generation, &thread->rows};
    struct unwind_space space = {arch_host(), find, &place, thread->generation, true};
    struct arch_registers registers;
    struct window window;
    registers_of(frame, &registers);
    if (!open_window(&window, registers.value[7], thread))
        unchanged = 0; /* another stack */
    return unwind_trail_walk(&thread->trail, unchanged, &space, &window.memory, &registers,
                             (struct unwind_cache *)thread->cache);
}

/* Again where modules came or went meanwhile: what was read of them may be of two tables, or of one that is
 * being written. */
static struct unwind_trail_result walk_steadily(struct agent_thread *thread, const struct agent_frame *frame,
                                                uint32_t unchanged)
{
    struct unwind_trail_result result = {.end = UNWIND_CUT};
    uint32_t generation = __atomic_load_n(&agent_process()->generation, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < WALKS; i++) {
        if (__builtin_expect(thread->generation != generation, 0)) {
            forget(thread, generation);
            unchanged = 0;
        }
        result = walk(thread, frame, unchanged);
        unchanged = 0; /* of a walk that was for nothing */
        generation = __atomic_load_n(&agent_process()->generation, __ATOMIC_ACQUIRE);
        if (__builtin_expect(thread->generation == generation, 1))
            break;
    }
    if (__builtin_expect(result.end != UNWIND_OUTERMOST || result.frame_pointer_frames != 0, 0))
        lose_end(result.end, result.frame_pointer_frames);
    return result;
}

/* How much of the last walk's stack is still there, all of it having been found readable. */
static uint32_t unchanged_frames(const struct agent_thread *thread, uint64_t sp)
{
    if (thread->generation != __atomic_load_n(&agent_process()->generation, __ATOMIC_ACQUIRE) ||
        sp < thread->readable_start || sp >= thread->readable_end)
        return 0;
    return unwind_trail_unchanged(&thread->trail, sp, arch_host()->code_mask);
}

/* Whoever leaves from in between by a jump leaves no link that is of two. */
static void put_link(struct agent_link *link, struct agent_link wanted)
{
    link->node = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    link->pc = wanted.pc;
    link->parent = wanted.parent;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    link->node = wanted.node;
}

/* The node of frame `at`, outermost first. */
static uint32_t child_of(struct agent_thread *thread, uint32_t parent, uint32_t at, bool is_cut)
{
    const struct unwind_trail_frame *frame = &thread->trail.last[at];
    uint64_t pc = agent_return_real(frame->pc);
    /* The slot is chosen by all the addresses up to here and not by the parent's node: so slots need not wait
     * for each other. */
    uint64_t path = thread->paths[at + 1] = (thread->paths[at] ^ pc) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t flags =
        (frame->flags & UNWIND_SIGNAL ? WIRE_AGENT_NODE_EXACT : 0) | (is_cut ? WIRE_AGENT_NODE_CUT : 0);
    if (__builtin_expect(flags != 0, 0))
        return agent_node_child(parent, pc, frame->cookie, flags);
    struct agent_link *pair = &thread->links[(path >> 32) % (AGENT_LINKS / 2) * 2];
    for (unsigned i = 0; i < 2; i++)
        if (pair[i].pc == pc && pair[i].parent == parent && pair[i].node != 0)
            return pair[i].node;
    uint32_t node = agent_node_child(parent, pc, frame->cookie, 0);
    if (node != 0) {
        thread->is_linked = true;
        put_link(&pair[1], pair[0]);
        put_link(&pair[0], (struct agent_link){pc, parent, node});
    }
    return node;
}

static uint32_t root_of(struct agent_thread *thread, enum wire_agent_collector collector)
{
    if (thread->roots[collector] == 0)
        thread->roots[collector] = agent_node_child(0, collector, thread->group, 0);
    return thread->roots[collector];
}

/* Walks, and interns what is new. */
static uint32_t node_by_walk(struct agent_thread *thread, const struct agent_frame *frame, uint32_t root)
{
    uint64_t sp = (uint64_t)(&frame->return_address + 1);
    uint32_t unchanged = unchanged_frames(thread, sp), done = 0;
    bool known = thread->nodes_root == root;
    thread->nodes_root = 0; /* until nodes are the trail's again, whoever leaves from here by a jump */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    struct unwind_trail_result result = walk_steadily(thread, frame, unchanged);
    if (known)
        done = result.same;
    thread->nodes[0] = root;
    thread->paths[0] = root;
    for (; done < result.count; done++) {
        bool is_cut = done == 0 && result.end != UNWIND_OUTERMOST;
        uint32_t node = child_of(thread, thread->nodes[done], done, is_cut);
        if (node == 0) {
            agent_lose(WIRE_AGENT_LOSS_NO_NODE);
            break;
        }
        thread->nodes[done + 1] = node;
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->nodes_root = done == result.count ? root : 0;
    return thread->nodes[done];
}

/* Programs with more stacks than can be kept are better off without: they search for nothing, and keep for
 * nobody. */
static bool is_worth_searching(struct agent_searches *searches)
{
    if (searches->rest != 0) {
        searches->rest--;
        return false;
    }
    if (++searches->count == SEARCHES) {
        searches->rest = searches->found < SEARCHES / 2 ? SEARCHES_REST : 0;
        searches->count = searches->found = 0;
    }
    return true;
}

uint32_t agent_stack_node(struct agent_thread *thread, const struct agent_frame *frame,
                          enum wire_agent_collector collector)
{
    struct unwind_known_start start = {
        .pc = agent_return_real(frame->return_address),
        .sp = (uint64_t)(&frame->return_address + 1),
        .fp = frame->rbp,
        .generation = __atomic_load_n(&agent_process()->generation, __ATOMIC_ACQUIRE),
        .root = root_of(thread, collector),
    };
    forget_unmapped(thread);
    bool search = is_worth_searching(&thread->searches);
    uint32_t node = 0;
    if (search && start.sp - thread->readable_start < thread->readable_end - thread->readable_start)
        node = unwind_known_find(&thread->known, &start, thread->readable_end);
    thread->is_known = node != 0;
    if (node != 0) {
        thread->searches.found++;
        return node;
    }
    node = node_by_walk(thread, frame, start.root);
    start.generation = thread->generation;
    if (search && thread->nodes_root == start.root)
        unwind_known_keep(&thread->known, &start, &thread->trail, arch_host()->code_mask, node);
    return node;
}

/* --- what a signal interrupted: no call, so that every register counts and the innermost address is no
 * return address --- */

static void registers_of_context(const void *context, struct arch_registers *registers)
{
    const struct arch *arch = arch_host();
    const uint8_t *saved = (const uint8_t *)context + arch->signal_context;
    registers->valid = 0;
    for (unsigned i = 0; i < arch->signal_count; i++) {
        const struct arch_signal_slot *slot = &arch->signal_slots[i];
        registers->value[slot->register_number] = *(const uint64_t *)(saved + slot->offset);
        registers->valid |= UINT64_C(1) << slot->register_number;
    }
}

uint64_t agent_stack_pointer(const void *context)
{
    struct arch_registers registers;
    registers_of_context(context, &registers);
    return registers.value[arch_host()->sp];
}

/* Outermost first, as the tree is. */
static uint32_t intern(struct agent_thread *thread, const struct unwind_result *result,
                       enum wire_agent_collector collector)
{
    uint32_t node = root_of(thread, collector);
    for (size_t i = result->count; i-- > 0 && node != 0;) {
        const struct unwind_frame *frame = &thread->interrupted[i];
        bool is_cut = i + 1 == result->count && result->end != UNWIND_OUTERMOST;
        uint32_t flags = (i == 0 || frame->flags & UNWIND_SIGNAL ? WIRE_AGENT_NODE_EXACT : 0u) |
                         (is_cut ? WIRE_AGENT_NODE_CUT : 0u);
        uint64_t pc = i == 0 ? frame->pc : agent_return_real(frame->pc);
        uint32_t child = agent_node_child(node, pc, frame->cookie, flags);
        if (child == 0) {
            agent_lose(WIRE_AGENT_LOSS_NO_NODE);
            break;
        }
        node = child;
    }
    return node;
}

static struct unwind_result walk_interrupted(struct agent_thread *thread, const void *context)
{
    uint32_t generation = __atomic_load_n(&agent_process()->generation, __ATOMIC_ACQUIRE);
    if (thread->generation != generation)
        forget(thread, generation);
    struct place place = {generation, &thread->rows};
    struct unwind_space space = {arch_host(), find, &place, generation, true};
    struct arch_registers registers;
    struct window window;
    registers_of_context(context, &registers);
    if (!open_window(&window, registers.value[arch_host()->sp], thread))
        thread->trail.count = 0; /* another stack */
    return unwind_walk(&space, &window.memory, &registers, (struct unwind_cache *)thread->cache,
                       thread->interrupted, WIRE_AGENT_FRAMES);
}

uint32_t agent_stack_interrupted(struct agent_thread *thread, const void *context,
                                 enum wire_agent_collector collector)
{
    struct unwind_result result = {.end = UNWIND_CUT};
    forget_unmapped(thread);
    for (unsigned i = 0; i < WALKS; i++) {
        result = walk_interrupted(thread, context);
        if (is_present(thread->generation))
            break;
    }
    lose_end(result.end, result.frame_pointer_frames);
    return intern(thread, &result, collector);
}
