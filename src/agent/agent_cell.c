/* Figures: what one allocation or release changes. The rules of reading, and the technique of the peak, are
 * in wire_agent_node.h.
 *
 * A cell's first line is written by the threads of its group only; a group is one thread, but for group 0,
 * which takes everybody who came late. One writer needs no locked instruction. Releases by other threads are
 * counted in the second line, atomically. */
#include "agent_cell.h"

#include "agent_memory.h"

static uint32_t make_cell(uint32_t node, uint32_t group)
{
    struct wire_agent_process *process = agent_process();
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    uint32_t number = agent_memory_number(&process->cell_count, layout.cell_count, WIRE_AGENT_PART_CELLS,
                                          sizeof(struct wire_agent_cell));
    if (number != 0) {
        struct wire_agent_cell *cell = agent_cell_at(number);
        cell->node = node;
        cell->group = group;
    }
    return number;
}

/* Two threads of group 0 may both make one: the second is given back to nobody and stays empty. */
uint32_t agent_cell_make(uint32_t node, uint32_t group)
{
    uint32_t *place = &agent_node_at(node)->cell, there = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (__builtin_expect(there != 0 || node == 0, 1))
        return there;
    uint32_t made = make_cell(node, group);
    if (made == 0)
        return 0;
    return __atomic_compare_exchange_n(place, &there, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
               ? made
               : there;
}

static uint64_t live_bytes(const struct wire_agent_cell *cell)
{
    return cell->total - cell->freed_own - __atomic_load_n(&cell->freed_other, __ATOMIC_RELAXED);
}

/* Before a cell changes while the process is below its peak: what it held at the peak is saved once. */
static inline __attribute__((always_inline)) void save_peak(const struct wire_agent_process *process,
                                                            struct wire_agent_cell *cell)
{
    if (__atomic_load_n(&process->at_peak, __ATOMIC_RELAXED))
        return;
    uint32_t epoch = __atomic_load_n(&process->peak_epoch, __ATOMIC_RELAXED);
    uint32_t seen = __atomic_load_n(&cell->peak_epoch, __ATOMIC_RELAXED);
    if (__builtin_expect(seen == epoch, 1))
        return;
    uint64_t live = live_bytes(cell);
    if (__atomic_compare_exchange_n(&cell->peak_epoch, &seen, epoch, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
        cell->peak = live < UINT64_C(1) << 63 ? live : 0; /* in the middle of agent_cell_pass */
}

static void raise_peak(struct wire_agent_process *process, int64_t live)
{
    int64_t peak = __atomic_load_n(&process->peak, __ATOMIC_RELAXED);
    while (live > peak)
        if (__atomic_compare_exchange_n(&process->peak, &peak, live, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            if (!__atomic_load_n(&process->at_peak, __ATOMIC_RELAXED)) {
                __atomic_fetch_add(&process->peak_epoch, 1, __ATOMIC_RELAXED);
                __atomic_store_n(&process->at_peak, 1, __ATOMIC_RELEASE);
            }
            break;
        }
}

static void leave_peak(struct wire_agent_process *process)
{
    if (__atomic_load_n(&process->at_peak, __ATOMIC_RELAXED)) {
        process->peak_ns = agent_control()->now_ns;
        __atomic_store_n(&process->at_peak, 0, __ATOMIC_RELEASE);
    }
}

/* How many live bytes a thread may hold back from the process's sum: a part of all, so that small programs
 * have a precise peak; at least WIRE_AGENT_BATCH_LEAST, so that small blocks do not write the shared sum
 * each time. */
static int64_t batch_limit(int64_t live)
{
    int64_t part = live / WIRE_AGENT_BATCH_PART;
    if (part < WIRE_AGENT_BATCH_LEAST)
        return WIRE_AGENT_BATCH_LEAST;
    return part < WIRE_AGENT_BATCH ? part : WIRE_AGENT_BATCH;
}

/* Puts the thread's share into the process's sum. The first thread, as long as it is the only one, has a sum
 * that nobody else writes: no locked instruction, and exact at each step. With others, each one's share goes
 * into the common sum in batches. */
static inline __attribute__((always_inline)) void move_live(struct wire_agent_process *process,
                                                            struct agent_thread *thread, int64_t change)
{
    int64_t live = __atomic_load_n(&process->live, __ATOMIC_RELAXED),
            first = __atomic_load_n(&process->first_live, __ATOMIC_RELAXED);
    if (thread->group == 1 && process->thread_count == 1) {
        __atomic_store_n(&process->first_live, first += change, __ATOMIC_RELAXED);
    } else {
        int64_t limit = batch_limit(live + first);
        thread->batch += change;
        if (thread->batch < limit && thread->batch > -limit)
            return;
        live = __atomic_add_fetch(&process->live, thread->batch, __ATOMIC_RELAXED);
        thread->batch = 0;
    }
    if (live + first > __atomic_load_n(&process->peak, __ATOMIC_RELAXED))
        raise_peak(process, live + first);
}

static void raise_most(struct wire_agent_cell *cell)
{
    uint64_t live = live_bytes(cell);
    if (live > cell->max && live < UINT64_C(1) << 63)
        cell->max = live;
}

static void add_shared(struct wire_agent_cell *cell, struct agent_amount amount)
{
    __atomic_fetch_add(&cell->total, amount.bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cell->count, amount.count, __ATOMIC_RELAXED);
}

void agent_cell_add(struct agent_thread *thread, uint32_t number, struct agent_amount amount)
{
    struct wire_agent_process *process = agent_process();
    struct wire_agent_cell *cell = agent_cell_at(number);
    save_peak(process, cell);
    if (cell->count == cell->freed_own_count + __atomic_load_n(&cell->freed_other_count, __ATOMIC_RELAXED))
        cell->live_since_ns = agent_control()->now_ns;
    if (__builtin_expect(cell->group == 0, 0)) {
        add_shared(cell, amount);
    } else {
        cell->total += amount.bytes;
        cell->count += amount.count;
    }
    raise_most(cell);
    if (amount.variance != 0)
        __atomic_fetch_add(&cell->variance, amount.variance, __ATOMIC_RELAXED);
    if (amount.largest > cell->largest)
        cell->largest = amount.largest;
    move_live(process, thread, (int64_t)amount.bytes);
}

void agent_cell_empty(uint32_t number, uint64_t bytes)
{
    if (bytes != 0)
        __atomic_fetch_add(&agent_cell_at(number)->empty, bytes, __ATOMIC_RELAXED);
}

void agent_cell_sample(uint32_t number, uint64_t amount)
{
    struct wire_agent_cell *cell = agent_cell_at(number);
    __atomic_fetch_add(&cell->total, amount, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cell->count, 1, __ATOMIC_RELAXED);
}

static void count_release(const struct agent_thread *thread, struct wire_agent_cell *cell,
                          struct agent_amount amount)
{
    if (amount.variance != 0)
        __atomic_fetch_add(&cell->freed_variance, amount.variance, __ATOMIC_RELAXED);
    if (cell->group == thread->group && cell->group != 0) {
        cell->freed_own += amount.bytes;
        cell->freed_own_count += amount.count;
    } else {
        __atomic_fetch_add(&cell->freed_other, amount.bytes, __ATOMIC_RELAXED);
        __atomic_fetch_add(&cell->freed_other_count, amount.count, __ATOMIC_RELAXED);
    }
}

void agent_cell_pass(const struct agent_thread *thread, uint32_t number, uint64_t size)
{
    struct wire_agent_cell *cell = agent_cell_at(number);
    struct agent_amount amount = {size, 1, size, 0};
    count_release(thread, cell, amount); /* first: what is live may be read as nothing, but not as too much */
    if (cell->group == 0) {
        add_shared(cell, amount);
    } else {
        cell->total += size;
        cell->count++;
    }
    if (size > cell->largest)
        cell->largest = size;
}

void agent_cell_release(struct agent_thread *thread, uint32_t number, struct agent_amount amount,
                        bool temporary)
{
    struct wire_agent_process *process = agent_process();
    struct wire_agent_cell *cell = agent_cell_at(number);
    leave_peak(process);
    save_peak(process, cell);
    count_release(thread, cell, amount);
    if (temporary)
        __atomic_fetch_add(&cell->temporary, amount.count, __ATOMIC_RELAXED);
    move_live(process, thread, -(int64_t)amount.bytes);
}

void agent_cell_restore(struct agent_thread *thread, uint32_t number, struct agent_amount amount,
                        bool temporary)
{
    struct wire_agent_process *process = agent_process();
    struct wire_agent_cell *cell = agent_cell_at(number);
    struct agent_amount back = {-amount.bytes, -amount.count, 0, -amount.variance};
    save_peak(process, cell);
    count_release(thread, cell, back);
    raise_most(cell);
    if (temporary)
        __atomic_fetch_sub(&cell->temporary, amount.count, __ATOMIC_RELAXED);
    move_live(process, thread, (int64_t)amount.bytes);
}
