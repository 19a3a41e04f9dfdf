#include "collect_empty.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "patch_target.h"
#include "wire_agent_empty.h"
#include "wire_loss.h"

enum { PAGE = 4096, WINDOW = 64 * PAGE, BUCKETS = 256 };

int collect_empty_init(struct collect_empty *empty, struct profile *profile, enum profile_heap_empty which,
                       struct base_error *error)
{
    static const uint32_t flags[] = {[PROFILE_HEAP_EMPTY_ZERO] = WIRE_AGENT_EMPTY,
                                     [PROFILE_HEAP_EMPTY_INIT] = WIRE_AGENT_EMPTY | WIRE_AGENT_FILL,
                                     [PROFILE_HEAP_EMPTY_UNUSED] =
                                         WIRE_AGENT_EMPTY | WIRE_AGENT_FILL | WIRE_AGENT_UNUSED};
    *empty = (struct collect_empty){.profile = profile};
    if (which == PROFILE_HEAP_EMPTY_NONE)
        return BASE_OK;
    empty->flags = flags[which];
    empty->counter = (uint16_t)profile_counter(profile, "empty.bytes", "bytes", true, PROFILE_SUM);
    profile_set_meta(profile, "empty_pages", profile_heap_empty_name(which));
    return empty->counter ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

void collect_empty_told_free(struct collect_empty_told *told)
{
    free(told->told);
    free(told->live);
    *told = (struct collect_empty_told){0};
}

/* --- live blocks --- */

struct walk {
    pid_t pid; /* 0: it has ended */
    uint64_t word;
    uint64_t budget; /* bytes that may still be looked at */
    struct collect_empty_told *told;
    uint64_t *window;
    uint64_t lost;
};

/* Bytes of addresses; 0: it has none any more. */
static uint64_t memory_of(pid_t pid)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    return strtoull(text, NULL, 10) * PAGE;
}

static uint64_t empty_in(const struct walk *walk, uint64_t bytes)
{
    uint64_t empty = 0;
    for (uint64_t page = 0; page + PAGE <= bytes; page += PAGE) {
        const uint64_t *words = walk->window + page / sizeof *words;
        uint64_t same = 0;
        while (same < PAGE / sizeof *words && words[same] == walk->word)
            same++;
        empty += same == PAGE / sizeof *words ? PAGE : 0;
    }
    return empty;
}

/* False: the process has ended meanwhile. */
static bool look_at_pages(const struct walk *walk, uint64_t from, uint64_t to, uint64_t *empty)
{
    while (from < to) {
        uint64_t wanted = to - from < WINDOW ? to - from : WINDOW;
        uint64_t got = patch_target_read(walk->pid, from, walk->window, wanted) / PAGE * PAGE;
        if (got < wanted && !memory_of(walk->pid))
            return false;
        *empty += empty_in(walk, got);
        from += got < wanted ? got + PAGE : got; /* past a page that nobody may read */
    }
    return true;
}

/* A block past the agent's memory is a sample, and stands for others of its size. */
static uint64_t weighted(const struct wire_agent_slot *slot, uint64_t empty)
{
    double mean = (double)wire_agent_level_bytes(wire_agent_slot_level(slot));
    return mean > 0 ? (uint64_t)((double)empty / -expm1(-(double)wire_agent_slot_size(slot) / mean) + 0.5)
                    : empty;
}

static void look_at_block(struct walk *walk, const struct wire_agent_slot *slot)
{
    uint64_t start = wire_agent_slot_address(slot), size = wire_agent_slot_size(slot), empty = 0;
    uint64_t from = (start + PAGE - 1) / PAGE * PAGE, to = (start + size) / PAGE * PAGE;
    uint32_t cell = wire_agent_slot_cell(slot);
    if (!slot->key || !slot->value || from >= to || cell >= walk->told->live_count)
        return;
    bool looked = walk->pid && to - from <= walk->budget && look_at_pages(walk, from, to, &empty);
    if (looked) {
        walk->budget -= to - from;
        walk->told->live[cell] += weighted(slot, empty);
    } else {
        walk->lost++;
    }
}

static void walk_tables(struct walk *walk, const struct collect_agent_file *file, uint32_t region)
{
    const struct wire_agent_process *process = collect_agent_file_process(file, region);
    struct wire_agent_bucket buckets[BUCKETS];
    uint64_t most = file->layout.block_bytes / sizeof *buckets;
    uint32_t tables = __atomic_load_n(&process->block_tables, __ATOMIC_ACQUIRE);
    uint64_t count = tables < 48 ? wire_agent_table_before(tables) : most;
    uint64_t start = collect_agent_file_region(file, region) + file->layout.blocks;
    count = count < most ? count : most;
    for (uint64_t at = 0; at < count; at += BUCKETS) {
        uint64_t wanted = (count - at < BUCKETS ? count - at : BUCKETS) * sizeof *buckets;
        ssize_t got = pread(file->file, buckets, wanted, (off_t)(start + at * sizeof *buckets));
        for (uint64_t i = 0; got > 0 && i < (uint64_t)got / sizeof *buckets; i++)
            for (unsigned j = 0; j < WIRE_AGENT_SLOTS; j++)
                look_at_block(walk, &buckets[i].slots[j]);
    }
}

void collect_empty_look(const struct collect_empty *empty, const struct collect_agent_file *file,
                        uint32_t region, pid_t pid, struct collect_empty_told *told)
{
    if (!empty->counter)
        return;
    uint64_t cells = collect_agent_file_process(file, region)->cell_count;
    told->live_count = (cells < file->layout.cell_count ? cells : file->layout.cell_count - 1) + 1;
    free(told->live);
    told->live = calloc(told->live_count, sizeof *told->live);
    struct walk walk = {.pid = pid,
                        .word = wire_agent_empty_word(empty->flags),
                        .budget = pid ? memory_of(pid) : 0,
                        .told = told,
                        .window = malloc(WINDOW)};
    if (told->live && walk.window)
        walk_tables(&walk, file, region);
    else
        profile_lose(empty->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    told->live_count = told->live ? told->live_count : 0;
    told->lost = walk.lost;
    told->looked = true;
    free(walk.window);
}

/* --- telling --- */

static bool make_room(struct collect_empty_told *told, size_t cells)
{
    if (cells <= told->count)
        return true;
    int64_t *more = realloc(told->told, cells * sizeof *more);
    if (!more)
        return false;
    memset(more + told->count, 0, (cells - told->count) * sizeof *more);
    told->told = more;
    told->count = cells;
    return true;
}

static int64_t figure(const struct wire_agent_cell *cell, uint64_t live)
{
    uint64_t sum;
    bool over = __builtin_add_overflow(cell->empty, live, &sum);
    return over || sum > INT64_MAX ? INT64_MAX : (int64_t)sum;
}

int collect_empty_tell(const struct collect_empty *empty, struct collect_agent_nodes *nodes,
                       struct collect_empty_told *told, uint32_t thread, bool final, struct base_error *error)
{
    const struct collect_agent_tree *tree = nodes->tree;
    if (!empty->counter)
        return BASE_OK;
    if (!make_room(told, (size_t)tree->cell_count + 1) || !collect_agent_nodes_begin(nodes))
        return base_fail(error, BASE_ENOMEM, "out of memory for what the agent counted");
    for (uint32_t i = 1; i <= tree->cell_count; i++) {
        int64_t now = figure(&tree->cells[i], final && i < told->live_count ? told->live[i] : 0);
        uint32_t node =
            now != told->told[i] ? collect_agent_nodes_find(nodes, tree->cells[i].node, WIRE_AGENT_HEAP) : 0;
        if (!node)
            continue;
        int64_t more = now - told->told[i];
        profile_count(empty->profile, node, thread, PROFILE_NO_CPU, empty->counter, more,
                      more > 0 ? (uint64_t)more / PAGE : 0);
        told->told[i] = now;
    }
    if (tree->process.level)
        profile_set_sampled(empty->profile, empty->counter);
    if (final && told->lost)
        profile_lose(empty->profile, WIRE_LOSS_AGENT_EMPTY_UNSEEN, told->lost);
    collect_agent_nodes_end(nodes);
    return BASE_OK;
}
