#include "loader_returns.h"

#include <stdlib.h>
#include <string.h>

#include "proc_target.h"
#include "trace_frames.h"
#include "wire_agent_process.h"

enum {
    CHUNK = 64 << 10,
    RED_ZONE = 128,
};

static bool read_words(const struct loader_access *access, uint64_t address, uint64_t *words, size_t count)
{
    size_t size = count * sizeof *words;
    return proc_target_read(access->pid, address, words, size) == size;
}

/* --- find --- */

static void merge_table(struct loader_returns *returns, const struct loader_access *access, uint64_t at,
                        uint64_t *table)
{
    struct wire_agent_process process;
    if (proc_target_read(access->pid, at, &process, sizeof process) != sizeof process ||
        process.magic != WIRE_AGENT_MAGIC || process.returns_start == 0 ||
        !read_words(access, at + returns->layout.returns, table, WIRE_AGENT_RETURNS))
        return;
    returns->start = process.returns_start;
    returns->own = process.own_start; /* the same in all of them */
    for (size_t i = 0; i < WIRE_AGENT_RETURNS; i++)
        if (table[i] != 0)
            returns->real[i] = table[i];
}

/* From the region that the process has mapped: its own, or its parent's where it is not counted and has
 * words of that. */
static bool read_table(struct loader_returns *returns, const struct loader_access *access)
{
    uint64_t *table = calloc(WIRE_AGENT_RETURNS, sizeof *table);
    if (table != NULL)
        merge_table(returns, access, returns->region + returns->control.regions_offset, table);
    free(table);
    return table != NULL;
}

int loader_returns_begin(struct loader_returns *returns, const struct wire_agent_control *control,
                         uint64_t region, struct base_error *error)
{
    *returns = (struct loader_returns){.control = *control,
                                       .region = region,
                                       .layout = wire_agent_layout(control->memory),
                                       .real = calloc(WIRE_AGENT_RETURNS, sizeof *returns->real)};
    return returns->real != NULL ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

void loader_returns_free(struct loader_returns *returns)
{
    free(returns->real);
    returns->real = NULL;
}

/* --- put back --- */

struct putting {
    const struct loader_returns *returns;
    struct loader_access *access;
    uint64_t *words; /* CHUNK bytes */
    bool failed;
};

static bool is_block(const struct loader_returns *returns, uint64_t word)
{
    uint64_t offset = word - returns->start;
    return offset < (uint64_t)WIRE_AGENT_RETURNS * WIRE_AGENT_BLOCK &&
           offset % WIRE_AGENT_BLOCK == WIRE_AGENT_BLOCK_BACK;
}

/* Only the addresses that calls return to: others in blocks are not on stacks. */
static uint64_t real_of(const struct loader_returns *returns, uint64_t word)
{
    return is_block(returns, word) ? wire_agent_return(returns->start, returns->real, word) : word;
}

static void put_word(struct putting *putting, uint64_t address, uint64_t word)
{
    uint64_t real = real_of(putting->returns, word);
    if (real == word && is_block(putting->returns, word))
        putting->failed = true; /* the original address is not published yet */
    if (real != word && helper_trace_write(putting->access->helper, putting->access->trace, address, &real,
                                           sizeof real, NULL) < 0)
        putting->failed = true;
}

static void put_slot(struct putting *putting, uint64_t slot)
{
    uint64_t word;
    if (slot != 0 && read_words(putting->access, slot, &word, 1)) /* else its stack is gone */
        put_word(putting, slot, word);
}

static void put_calls(struct putting *putting, uint64_t number)
{
    struct wire_agent_calls *calls = (void *)putting->words;
    uint64_t at = putting->returns->own + offsetof(struct wire_agent_own, calls) + number * sizeof *calls;
    _Static_assert(sizeof *calls <= CHUNK, "a thread's calls in one chunk");
    if (!read_words(putting->access, at, putting->words, sizeof *calls / 8)) {
        putting->failed = true;
        return;
    }
    for (size_t i = 0; i < WIRE_AGENT_PENDING;
         i++) /* all of them: reading a slot that is not pending does no harm */
        put_slot(putting, calls->items[i].slot);
}

static void put_stale_slots(struct putting *putting, const struct wire_agent_stale *stale_slots)
{
    const size_t count = WIRE_AGENT_STALE_PAGE / 8;
    if (stale_slots->page == 0 || !read_words(putting->access, stale_slots->page, putting->words, count))
        return; /* its stack is gone */
    for (size_t i = 0; i < count; i++)
        if (stale_slots->slots[i / 64] >> i % 64 & 1)
            put_word(putting, stale_slots->page + i * 8, putting->words[i]);
}

/* What the process's own memory lists. A fork's child that is not counted has it from its parent. */
static void put_known(struct putting *putting)
{
    uint64_t own = putting->returns->own;
    struct wire_agent_known *known = malloc(sizeof *known);
    if (known == NULL || own == 0 ||
        !read_words(putting->access, own, (uint64_t *)(void *)known, sizeof *known / 8) ||
        known->stale_lost != 0) {
        putting->failed = true;
        free(known);
        return;
    }
    for (uint64_t i = 0; i < WIRE_AGENT_THREADS; i++)
        if (known->used[i / 64] >> i % 64 & 1)
            put_calls(putting, i);
    for (size_t i = 0; i < WIRE_AGENT_STALE_COUNT; i++)
        put_stale_slots(putting, &known->stale[i]);
    free(known);
}

/* From the red zone up, as far as memory goes. */
static void put_stack(struct putting *putting, uint64_t sp, uint64_t most)
{
    uint64_t start = (sp - RED_ZONE) & ~UINT64_C(7);
    size_t got = CHUNK;
    for (uint64_t done = 0; done < most && got == CHUNK; done += CHUNK) {
        got = proc_target_read(putting->access->pid, start + done, putting->words, CHUNK);
        for (size_t i = 0; i < got / 8; i++)
            put_word(putting, start + done + i * 8, putting->words[i]);
    }
}

/* A function that keeps its return address in a register for a while: vfork. */
static void put_registers(struct putting *putting, const struct trace_stop_thread *thread)
{
    struct loader_access *access = putting->access;
    struct user_regs_struct registers;
    unsigned long long *const places[] = {&registers.rax, &registers.rbx, &registers.rcx, &registers.rdx,
                                          &registers.rsi, &registers.rdi, &registers.rbp, &registers.r8,
                                          &registers.r9,  &registers.r10, &registers.r11, &registers.r12,
                                          &registers.r13, &registers.r14, &registers.r15};
    bool changed = false;
    if (helper_trace_read_registers(access->helper, access->trace, thread->tid, &registers, NULL) < 0) {
        putting->failed = true;
        return;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint64_t real = real_of(putting->returns, *places[i]);
        changed |= real != *places[i];
        *places[i] = real;
    }
    if (changed &&
        helper_trace_write_registers(access->helper, access->trace, thread->tid, &registers, NULL) < 0)
        putting->failed = true;
}

bool loader_returns_put_back(struct loader_returns *returns, struct loader_access *access,
                             const struct trace_stop_thread *threads, size_t count)
{
    if (returns->region == 0)
        return true;
    struct putting putting = {returns, access, malloc(CHUNK), false};
    bool read = putting.words != NULL && read_table(returns, access);
    if (!read || returns->start == 0) {
        free(putting.words);
        return read;
    }
    put_known(&putting);
    for (size_t i = 0; i < count; i++) {
        if (threads[i].state == TRACE_STOP_GONE)
            continue;
        if (threads[i].state == TRACE_STOP_STOPPED)
            put_registers(&putting, &threads[i]);
        else
            putting.failed |= threads[i].sp == 0;
        put_stack(&putting, threads[i].sp, trace_frames_size(count));
    }
    free(putting.words);
    return !putting.failed;
}
