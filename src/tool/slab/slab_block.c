#include "slab_block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base_array.h"
#include "proc_commit.h"

#define FIRST_ENTRIES 4096u
#define TABLES_MOST   9 /* 1,048,576 entries the last */
#define CHUNK         65536u

static uint64_t table_entries(unsigned generation)
{
    return (uint64_t)FIRST_ENTRIES << generation;
}

/* Each table begins on a page of its own. */
static uint64_t table_at(unsigned generation)
{
    uint64_t before = (table_entries(generation) - FIRST_ENTRIES) * sizeof(struct stub_table_entry);
    return SLAB_BLOCK_TABLES + before + generation * 4096ull;
}

static int write_all(const struct slab_block *block, uint64_t at, const void *bytes, size_t size,
                     struct base_error *error)
{
    if (pwrite(block->file, bytes, size, (off_t)(block->offset + at)) == (ssize_t)size)
        return BASE_OK;
    return base_fail_errno(error, errno, "memory for counters");
}

static int commit_table(const struct slab_block *block, unsigned generation, struct base_error *error)
{
    uint64_t size = sizeof(struct stub_table) + table_entries(generation) * sizeof(struct stub_table_entry);
    return proc_commit_pages(block->file, block->offset + table_at(generation), size, error);
}

int slab_block_commit(struct slab_block *block, uint32_t word_end, struct base_error *error)
{
    int result = BASE_OK;
    if (word_end <= block->committed)
        return BASE_OK;
    for (unsigned i = block->first_table; !block->committed && i < block->tables && result == BASE_OK; i++)
        result = commit_table(block, i, error);
    if (result == BASE_OK)
        result = proc_commit_pages(block->file, block->offset + 8ull * block->committed,
                                   8ull * (word_end - block->committed), error);
    if (result == BASE_OK)
        block->committed = word_end;
    return result;
}

static int make_table(struct slab_block *block, struct base_error *error)
{
    struct stub_table table = {.mask = table_entries(block->tables) - 1};
    uint64_t at = table_at(block->tables), address = block->address + at;
    int result = block->committed ? commit_table(block, block->tables, error) : BASE_OK;
    if (result == BASE_OK)
        result = write_all(block, at, &table, sizeof table, error);
    if (result == BASE_OK)
        result = write_all(block, offsetof(struct stub_block, table), &address, sizeof address, error);
    if (result == BASE_OK)
        block->tables++;
    return result;
}

void slab_block_expect(struct slab_block *block, uint64_t pairs)
{
    block->first_table = 0;
    while (block->first_table + 1 < TABLES_MOST && table_entries(block->first_table) < 2 * pairs)
        block->first_table++;
}

int slab_block_init(struct slab_block *block, uint32_t made, struct base_error *error)
{
    block->tables = block->first_table;
    block->committed = 0;
    int result = write_all(block, 0, &block->address, sizeof block->address, error);
    if (result == BASE_OK)
        result = make_table(block, error);
    if (result == BASE_OK)
        result = slab_block_commit(block, made, error);
    if (result < 0)
        block->tables = 0;
    return result;
}

int slab_block_clear(struct slab_block *block, uint32_t made, struct base_error *error)
{
    if (fallocate(block->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)block->offset,
                  (off_t)SLAB_BLOCK_SIZE))
        return base_fail_errno(error, errno, "memory for counters");
    return slab_block_init(block, made, error);
}

/* --- reading --- */

typedef bool visit(void *context, uint64_t at, const uint64_t *words, size_t count);

/* Calls `seen` for the pieces of [from, end) of the block that are no holes; `at` counts from the block's
 * start. False when `seen` returned false. */
static bool visit_pieces(const struct slab_block *block, uint64_t from, uint64_t end, visit *seen,
                         void *context)
{
    uint64_t words[CHUNK / 8];
    off_t last = (off_t)(block->offset + end), data = (off_t)(block->offset + from);
    while (data < last && (data = lseek(block->file, data, SEEK_DATA)) >= 0 && data < last) {
        off_t hole = lseek(block->file, data, SEEK_HOLE);
        off_t stop = hole > data && hole < last ? hole : last;
        while (data < stop) {
            size_t size = (size_t)(stop - data) < sizeof words ? (size_t)(stop - data) : sizeof words;
            ssize_t got = pread(block->file, words, size, data);
            if (got < 8)
                return true;
            if (!seen(context, (uint64_t)data - block->offset, words, (size_t)got / 8))
                return false;
            data += got / 8 * 8;
        }
    }
    return true;
}

struct reading {
    struct slab_counts *counts;
    const struct slab_hook_range *hooks;
    size_t hook_ranges, range; /* the range that was met last */
    uint64_t return_address;   /* of the hook that is being read */
    uint64_t named;            /* its word; another hook's may not have been written yet */
};

static bool add_arrival(struct slab_counts *counts, uint64_t return_address, uint64_t word, uint64_t calls)
{
    if (!calls)
        return true;
    if (!base_array_room(counts->arrivals, counts->arrival_count, counts->arrival_capacity))
        return false;
    counts->arrivals[counts->arrival_count++] =
        (struct slab_arrival){.return_address = return_address, .word = (uint32_t)word, .calls = calls};
    return true;
}

/* Words come in ascending order, so the ranges are met in order. */
static const struct slab_hook_range *hooks_of(struct reading *reading, uint64_t word)
{
    while (reading->range < reading->hook_ranges) {
        const struct slab_hook_range *hooks = &reading->hooks[reading->range];
        if (word < hooks->first)
            return NULL;
        if (word - hooks->first < (uint64_t)hooks->count * STUB_HOOK_WORDS)
            return hooks;
        reading->range++;
    }
    return NULL;
}

static bool add_word(struct reading *reading, uint64_t word, uint64_t value)
{
    const struct slab_hook_range *hooks = hooks_of(reading, word);
    unsigned part = hooks ? (unsigned)((word - hooks->first) % STUB_HOOK_WORDS) : STUB_HOOK_WORDS - 1;
    if (part == 1)
        return add_arrival(reading->counts, reading->named == word - 1 ? reading->return_address : 0,
                           word - 1, value);
    if (part == 0) {
        reading->return_address = value;
        reading->named = word;
    } else {
        reading->counts->words[word] += value;
    }
    return true;
}

static bool add_words(void *context, uint64_t at, const uint64_t *words, size_t count)
{
    bool room = true;
    for (size_t i = 0; i < count && room; i++)
        room = at / 8 + i < STUB_BLOCK_WORDS || !words[i] || add_word(context, at / 8 + i, words[i]);
    return room;
}

/* Pieces begin on pages, and entries may lie across two of them: the entry's parts are known by their
 * place. */
struct table_reading {
    struct slab_counts *counts;
    uint64_t first; /* of the entries, in the block */
    struct stub_table_entry entry;
    uint32_t word_end;
};

static bool add_entries(void *context, uint64_t at, const uint64_t *words, size_t count)
{
    struct table_reading *reading = context;
    for (size_t i = 0; i < count; i++) {
        uint64_t place = at + 8 * i;
        if (place < reading->first)
            continue;
        switch ((place - reading->first) / 8 % 4) {
        case 0:
            reading->entry.return_address = words[i];
            break;
        case 1:
            reading->entry.callee = words[i];
            break;
        case 2:
            if (reading->entry.return_address && reading->entry.callee / 8 < reading->word_end &&
                !add_arrival(reading->counts, reading->entry.return_address, reading->entry.callee / 8,
                             words[i]))
                return false;
            break;
        default:
            reading->entry = (struct stub_table_entry){0};
        }
    }
    return true;
}

int slab_counts_add(struct slab_counts *counts, const struct slab_block *block, uint32_t word_end,
                    const struct slab_hook_range *hooks, size_t hook_ranges, struct base_error *error)
{
    struct reading reading = {.counts = counts, .hooks = hooks, .hook_ranges = hook_ranges};
    bool room = base_array_extend(counts->words, counts->word_count, word_end) &&
                visit_pieces(block, 0, 8ull * word_end, add_words, &reading);
    for (unsigned i = block->first_table; i < block->tables && room && hook_ranges; i++) {
        uint64_t entries = table_at(i) + sizeof(struct stub_table);
        struct table_reading table = {.counts = counts, .first = entries, .word_end = word_end};
        room = visit_pieces(block, table_at(i), entries + table_entries(i) * sizeof(struct stub_table_entry),
                            add_entries, &table);
    }
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- renaming --- */

struct renaming {
    const struct slab_block *block;
    const struct slab_renaming *how;
    struct reading reading; /* of the hooks' own words */
    uint64_t first;         /* of a table's entries; 0: these are not a table's words */
};

static bool is_return_address(struct renaming *renaming, uint64_t at)
{
    if (renaming->first)
        return at >= renaming->first && (at - renaming->first) / 8 % 4 == 0;
    const struct slab_hook_range *hooks = hooks_of(&renaming->reading, at / 8);
    return hooks && (at / 8 - hooks->first) % STUB_HOOK_WORDS == 0;
}

static bool rename_words(void *context, uint64_t at, const uint64_t *words, size_t count)
{
    struct renaming *renaming = context;
    const struct slab_renaming *how = renaming->how;
    bool written = true;
    for (size_t i = 0; i < count && written; i++) {
        uint64_t place = at + 8 * i, name = how->first + (words[i] - how->low);
        if (words[i] > how->low && words[i] <= how->high && is_return_address(renaming, place))
            written = write_all(renaming->block, place, &name, sizeof name, NULL) == BASE_OK;
    }
    return written;
}

int slab_block_rename(const struct slab_block *block, uint32_t word_end, const struct slab_hook_range *hooks,
                      size_t hook_ranges, const struct slab_renaming *how, struct base_error *error)
{
    struct renaming renaming = {
        .block = block, .how = how, .reading = {.hooks = hooks, .hook_ranges = hook_ranges}};
    bool written = visit_pieces(block, 0, 8ull * word_end, rename_words, &renaming);
    for (unsigned i = block->first_table; i < block->tables && written; i++) {
        renaming.first = table_at(i) + sizeof(struct stub_table);
        written = visit_pieces(block, table_at(i),
                               renaming.first + table_entries(i) * sizeof(struct stub_table_entry),
                               rename_words, &renaming);
    }
    return written ? BASE_OK : base_fail(error, BASE_EIO, "memory for counters");
}

void slab_counts_free(struct slab_counts *counts)
{
    free(counts->words);
    free(counts->arrivals);
    *counts = (struct slab_counts){0};
}

static int by_pair(const void *a, const void *b)
{
    const struct slab_arrival *left = a, *right = b;
    if (left->return_address != right->return_address)
        return left->return_address < right->return_address ? -1 : 1;
    return (left->word > right->word) - (left->word < right->word);
}

void slab_counts_sort(struct slab_counts *counts)
{
    size_t kept = 0;
    if (!counts->arrival_count)
        return;
    qsort(counts->arrivals, counts->arrival_count, sizeof *counts->arrivals, by_pair);
    for (size_t i = 1; i < counts->arrival_count; i++) {
        if (by_pair(&counts->arrivals[kept], &counts->arrivals[i]))
            counts->arrivals[++kept] = counts->arrivals[i];
        else
            counts->arrivals[kept].calls += counts->arrivals[i].calls;
    }
    counts->arrival_count = kept + 1;
}

/* --- growing tables --- */

static bool count_entries(void *context, uint64_t at, const uint64_t *words, size_t count)
{
    uint64_t *used = context; /* used[0]: entries, used[1]: where the first one is */
    for (size_t i = 0; i < count; i++)
        used[0] += at + 8 * i >= used[1] && (at + 8 * i - used[1]) / 8 % 4 == 0 && words[i];
    return true;
}

int slab_block_grow(struct slab_block *block, struct base_error *error)
{
    unsigned last = block->tables ? block->tables - 1 : 0;
    uint64_t used[2] = {0, table_at(last) + sizeof(struct stub_table)};
    uint64_t entries = table_entries(last);
    if (block->tables == TABLES_MOST || !block->tables) /* full, or not begun */
        return BASE_OK;
    visit_pieces(block, table_at(last), used[1] + entries * sizeof(struct stub_table_entry), count_entries,
                 used);
    return used[0] * 2 > entries ? make_table(block, error) : BASE_OK;
}
