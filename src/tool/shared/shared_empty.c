#include "shared_empty.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base_array.h"
#include "proc_target.h"
#include "wire_agent_empty.h"
#include "wire_loss.h"

enum { PAGE = 4096, WINDOW = 64 * PAGE, BUCKETS = 256 };

int shared_empty_init(struct shared_empty *empty, struct profile *profile, enum profile_heap_empty which,
                      struct base_error *error)
{
    static const uint32_t flags[] = {[PROFILE_HEAP_EMPTY_ZERO] = WIRE_AGENT_EMPTY,
                                     [PROFILE_HEAP_EMPTY_INIT] = WIRE_AGENT_EMPTY | WIRE_AGENT_FILL,
                                     [PROFILE_HEAP_EMPTY_UNUSED] =
                                         WIRE_AGENT_EMPTY | WIRE_AGENT_FILL | WIRE_AGENT_UNUSED};
    *empty = (struct shared_empty){.profile = profile};
    if (which == PROFILE_HEAP_EMPTY_NONE)
        return BASE_OK;
    empty->flags = flags[which];
    empty->counter = (uint16_t)profile_counter(profile, "empty.bytes", "bytes", true, PROFILE_SUM);
    profile_set_meta(profile, "empty_pages", profile_heap_empty_name(which));
    return empty->counter ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

void shared_empty_published_free(struct shared_empty_published *published)
{
    free(published->published);
    free(published->live);
    *published = (struct shared_empty_published){0};
}

/* --- live blocks --- */

struct walk {
    pid_t pid; /* 0: it has ended */
    uint64_t word;
    uint64_t budget; /* bytes that may still be looked at */
    struct shared_empty_published *published;
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
        uint64_t got = proc_target_read(walk->pid, from, walk->window, wanted) / PAGE * PAGE;
        if (got < wanted && !memory_of(walk->pid))
            return false;
        *empty += empty_in(walk, got);
        from += got < wanted ? got + PAGE : got; /* past a page that may not be read */
    }
    return true;
}

/* A block past the agent's memory is a sample, and stands for others of its size. */
static uint64_t weighted_empty(const struct wire_agent_slot *slot, uint64_t empty)
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
    if (!slot->key || !slot->value || from >= to || cell >= walk->published->live_count)
        return;
    bool looked = walk->pid && to - from <= walk->budget && look_at_pages(walk, from, to, &empty);
    if (looked) {
        walk->budget -= to - from;
        walk->published->live[cell] += weighted_empty(slot, empty);
    } else {
        walk->lost++;
    }
}

static void walk_tables(struct walk *walk, const struct shared_file *file, uint32_t region)
{
    const struct wire_agent_process *process = shared_file_process(file, region);
    struct wire_agent_bucket buckets[BUCKETS];
    uint64_t most = file->layout.block_bytes / sizeof *buckets;
    uint32_t tables = __atomic_load_n(&process->block_tables, __ATOMIC_ACQUIRE);
    uint64_t count = tables < 48 ? wire_agent_table_before(tables) : most;
    uint64_t start = shared_file_region(file, region) + file->layout.blocks;
    count = count < most ? count : most;
    for (uint64_t at = 0; at < count; at += BUCKETS) {
        uint64_t wanted = (count - at < BUCKETS ? count - at : BUCKETS) * sizeof *buckets;
        ssize_t got = pread(file->file, buckets, wanted, (off_t)(start + at * sizeof *buckets));
        for (uint64_t i = 0; got > 0 && i < (uint64_t)got / sizeof *buckets; i++)
            for (unsigned j = 0; j < WIRE_AGENT_SLOTS; j++)
                look_at_block(walk, &buckets[i].slots[j]);
    }
}

void shared_empty_look(const struct shared_empty *empty, const struct shared_file *file, uint32_t region,
                       pid_t pid, struct shared_empty_published *published)
{
    if (!empty->counter)
        return;
    uint64_t cells = shared_file_process(file, region)->cell_count;
    published->live_count = (cells < file->layout.cell_count ? cells : file->layout.cell_count - 1) + 1;
    free(published->live);
    published->live = calloc(published->live_count, sizeof *published->live);
    struct walk walk = {.pid = pid,
                        .word = wire_agent_empty_word(empty->flags),
                        .budget = pid ? memory_of(pid) : 0,
                        .published = published,
                        .window = malloc(WINDOW)};
    if (published->live && walk.window)
        walk_tables(&walk, file, region);
    else
        profile_lose(empty->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    published->live_count = published->live ? published->live_count : 0;
    published->lost = walk.lost;
    published->looked = true;
    free(walk.window);
}

/* --- publication --- */

static int64_t empty_figure(const struct wire_agent_cell *cell, uint64_t live)
{
    uint64_t sum;
    bool over = __builtin_add_overflow(cell->empty, live, &sum);
    return over || sum > INT64_MAX ? INT64_MAX : (int64_t)sum;
}

int shared_empty_publish(const struct shared_empty *empty, struct shared_nodes *nodes,
                         struct shared_empty_published *published, uint32_t thread, bool final,
                         struct base_error *error)
{
    const struct shared_tree *tree = nodes->tree;
    if (!empty->counter)
        return BASE_OK;
    if (!base_array_extend(published->published, published->count, (size_t)tree->cell_count + 1) ||
        !shared_nodes_begin(nodes))
        return base_fail(error, BASE_ENOMEM, "out of memory for what the agent counted");
    for (uint32_t i = 1; i <= tree->cell_count; i++) {
        int64_t now =
            empty_figure(&tree->cells[i], final && i < published->live_count ? published->live[i] : 0);
        uint32_t node = now != published->published[i]
                            ? shared_nodes_find(nodes, tree->cells[i].node, WIRE_AGENT_HEAP)
                            : 0;
        if (!node)
            continue;
        int64_t more = now - published->published[i];
        profile_count(empty->profile, (struct profile_key){node, thread, PROFILE_NO_CPU, empty->counter},
                      more, more > 0 ? (uint64_t)more / PAGE : 0);
        published->published[i] = now;
    }
    if (tree->process.level)
        profile_set_sampled(empty->profile, empty->counter);
    if (final && published->lost)
        profile_lose(empty->profile, WIRE_LOSS_AGENT_EMPTY_UNSEEN, published->lost);
    shared_nodes_end(nodes);
    return BASE_OK;
}
