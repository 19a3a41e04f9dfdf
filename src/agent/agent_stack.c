/* From the caller's registers to a node: walk, then intern what is new.
 *
 * The walk reads the live stack (agent_view.c), by rows that tally prepared (agent_module.c), through the
 * cache of the thread's record. Modules come and go in generations: everything that a record remembers is of
 * one generation and is forgotten with it. Where rows are missing the frame pointer is tried, checked by the
 * walk itself.
 *
 * Most stacks were met before and are known again by comparing words (unwind_known.h); the others are walked.
 * The walk says how many of the outermost frames are the same as in the walk before (unwind_trail.h): they
 * have their nodes already. The rest is looked up in the thread's small cache and then in the index. */
#include "agent_stack.h"

#include "agent_cell.h"
#include "agent_module.h"
#include "agent_node.h"
#include "agent_process.h"
#include "agent_return.h"
#include "agent_view.h"

#define SEARCHES      1024 /* of stacks that were met before, in a row; at least half must be found */
#define SEARCHES_REST (16 * SEARCHES)

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

static void forget_generation(struct agent_thread *thread, uint32_t generation)
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

static struct unwind_trail_result walk_once(struct agent_thread *thread, const struct agent_frame *frame,
                                            uint32_t unchanged)
{
    struct agent_module_table table = {thread->generation, &thread->rows};
    struct unwind_space space = {arch_host(), agent_module_place, &table, thread->generation, true};
    struct arch_registers registers;
    struct agent_view view;
    agent_view_registers(frame, &registers);
    if (!agent_view_open(&view, registers.value[7], thread))
        unchanged = 0; /* another stack */
    return unwind_trail_walk(&thread->trail, unchanged, &space, &view.memory, &registers,
                             (struct unwind_cache *)thread->cache);
}

/* Again where modules came or went meanwhile: what was read of them may be of two tables, or of one that is
 * being written. */
static struct unwind_trail_result walk_steadily(struct agent_thread *thread, const struct agent_frame *frame,
                                                uint32_t unchanged)
{
    struct unwind_trail_result result = {.end = UNWIND_CUT};
    uint32_t generation = agent_module_generation();
    for (unsigned i = 0; i < AGENT_MODULE_TRIES; i++) {
        if (__builtin_expect(thread->generation != generation, 0)) {
            forget_generation(thread, generation);
            unchanged = 0;
        }
        result = walk_once(thread, frame, unchanged);
        unchanged = 0; /* it was of a walk that changed tables made invalid */
        generation = agent_module_generation();
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
    if (thread->generation != agent_module_generation() || sp < thread->readable_start ||
        sp >= thread->readable_end)
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

/* With more stacks than can be kept, searching costs more than walking: the thread neither searches nor
 * inserts for a while. */
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

/* Who asks: for the stack's node, or for its cell, which is then kept in the place of the node. */
enum wanted { WANTED_NODE, WANTED_CELL };

/* `keep`: it is to be known the next time. */
static __attribute__((noinline)) uint32_t walk_unknown(struct agent_thread *thread,
                                                       const struct agent_frame *frame,
                                                       struct unwind_known_start *start, enum wanted wanted,
                                                       bool keep)
{
    uint32_t root = unwind_known_root(start->scope), node = node_by_walk(thread, frame, root);
    uint32_t value = wanted == WANTED_CELL ? agent_cell_of(node, thread->group) : node;
    start->scope = unwind_known_scope(root, thread->generation);
    if (keep && value != 0 && thread->nodes_root == root)
        unwind_known_insert(&thread->known, start, &thread->trail, arch_host()->code_mask, value);
    return value;
}

/* A collector always wants the same: what is kept is of its root. */
static inline uint32_t value_of_stack(struct agent_thread *thread, const struct agent_frame *frame,
                                      enum wire_agent_collector collector, enum wanted wanted)
{
    struct unwind_known_start start = {
        .pc = agent_return_real(frame->return_address),
        .sp = (uint64_t)(&frame->return_address + 1),
        .fp = frame->rbp,
        .scope = unwind_known_scope(root_of(thread, collector), agent_module_generation()),
    };
    forget_unmapped(thread);
    bool search = is_worth_searching(&thread->searches);
    uint32_t value = 0;
    if (search && start.sp - thread->readable_start < thread->readable_end - thread->readable_start)
        value = unwind_known_find(&thread->known, &start, thread->readable_end);
    thread->is_known = value != 0;
    if (value == 0)
        return walk_unknown(thread, frame, &start, wanted, search);
    thread->searches.found++;
    return value;
}

uint32_t agent_stack_node(struct agent_thread *thread, const struct agent_frame *frame,
                          enum wire_agent_collector collector)
{
    return value_of_stack(thread, frame, collector, WANTED_NODE);
}

uint32_t agent_stack_cell(struct agent_thread *thread, const struct agent_frame *frame,
                          enum wire_agent_collector collector)
{
    return value_of_stack(thread, frame, collector, WANTED_CELL);
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
static uint32_t intern_interrupted(struct agent_thread *thread, const struct unwind_result *result,
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
    uint32_t generation = agent_module_generation();
    if (thread->generation != generation)
        forget_generation(thread, generation);
    struct agent_module_table table = {generation, &thread->rows};
    struct unwind_space space = {arch_host(), agent_module_place, &table, generation, true};
    struct arch_registers registers;
    struct agent_view view;
    registers_of_context(context, &registers);
    if (!agent_view_open(&view, registers.value[arch_host()->sp], thread))
        thread->trail.count = 0; /* another stack */
    return unwind_walk(&space, &view.memory, &registers, (struct unwind_cache *)thread->cache,
                       thread->interrupted, WIRE_AGENT_FRAMES);
}

uint32_t agent_stack_interrupted(struct agent_thread *thread, const void *context,
                                 enum wire_agent_collector collector)
{
    struct unwind_result result = {.end = UNWIND_CUT};
    forget_unmapped(thread);
    for (unsigned i = 0; i < AGENT_MODULE_TRIES; i++) {
        result = walk_interrupted(thread, context);
        if (agent_module_is_present(thread->generation))
            break;
    }
    lose_end(result.end, result.frame_pointer_frames);
    return intern_interrupted(thread, &result, collector);
}
