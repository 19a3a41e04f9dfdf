/* Blocks of counters: where what lies in them, and that what is read is what is there. The oracle reads every
 * word of the memory in its place; blocks lie behind each other in a file with holes. Targets are not needed:
 * the words are written here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "slab_block.h"

#define ADDRESS 0x7f0000000000u
#define PAGE    4096u
#define ENTRIES 4096u /* of the first table */

struct fixture {
    int file;
    struct slab_block block, other; /* the second half of the file, and the first */
    struct slab_counts counts;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->file = memfd_create("blocks", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fixture->file, 2 * SLAB_BLOCK_SIZE), 0);
    fixture->other = (struct slab_block){.file = fixture->file, .address = ADDRESS};
    fixture->block = (struct slab_block){
        .file = fixture->file, .offset = SLAB_BLOCK_SIZE, .address = ADDRESS + SLAB_BLOCK_SIZE};
    assert_int_equal(slab_block_init(&fixture->other, 0, NULL), BASE_OK);
    assert_int_equal(slab_block_init(&fixture->block, 0, NULL), BASE_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    slab_counts_free(&fixture->counts);
    assert_null(fixture->counts.words);
    close(fixture->file);
    free(fixture);
    return 0;
}

/* --- the target's side --- */

static uint64_t word_at(const struct slab_block *block, uint64_t at)
{
    uint64_t value = 0;
    assert_int_equal(pread(block->file, &value, 8, (off_t)(block->offset + at)), 8);
    return value;
}

static void write_at(const struct slab_block *block, uint64_t at, const void *bytes, size_t size)
{
    assert_int_equal(pwrite(block->file, bytes, size, (off_t)(block->offset + at)), size);
}

static void set_word(const struct slab_block *block, uint32_t word, uint64_t value)
{
    write_at(block, 8ull * word, &value, sizeof value);
}

/* The table that stubs use, as they find it: through the header. */
static uint64_t table_of(const struct slab_block *block)
{
    return word_at(block, offsetof(struct stub_block, table)) - block->address;
}

static void set_entry_at(const struct slab_block *block, uint64_t table, uint64_t index,
                         struct stub_table_entry entry)
{
    write_at(block, table + sizeof(struct stub_table) + index * sizeof entry, &entry, sizeof entry);
}

static void set_entry(const struct slab_block *block, uint64_t index, uint64_t return_address, uint32_t word,
                      uint64_t calls)
{
    set_entry_at(block, table_of(block), index,
                 (struct stub_table_entry){return_address, 8ull * word, calls, 0});
}

static blkcnt_t real_memory(int file)
{
    struct stat facts;
    assert_int_equal(fstat(file, &facts), 0);
    return facts.st_blocks;
}

static void read_block(struct fixture *fixture, const struct slab_block *block, uint32_t word_end,
                       const struct slab_hook_range *hooks, size_t ranges)
{
    blkcnt_t before = real_memory(fixture->file);
    assert_int_equal(slab_counts_add(&fixture->counts, block, word_end, hooks, ranges, NULL), BASE_OK);
    assert_int_equal(real_memory(fixture->file), before);
}

static uint64_t calls_of(const struct slab_counts *counts, uint64_t return_address, uint32_t word)
{
    uint64_t calls = 0;
    for (size_t i = 0; i < counts->arrival_count; i++)
        if (counts->arrivals[i].return_address == return_address && counts->arrivals[i].word == word)
            calls += counts->arrivals[i].calls;
    return calls;
}

/* --- layout --- */

static void a_new_block_is_its_header_and_a_table(void **state)
{
    struct fixture *fixture = *state;
    const struct slab_block *block = &fixture->block;
    assert_int_equal(word_at(block, offsetof(struct stub_block, self)), block->address);
    assert_int_equal(table_of(block), SLAB_BLOCK_TABLES);
    assert_int_equal(word_at(block, SLAB_BLOCK_TABLES), ENTRIES - 1);
    for (unsigned i = 2; i < STUB_BLOCK_WORDS; i++)
        assert_int_equal(word_at(block, 8 * i), 0);
    assert_int_equal(real_memory(fixture->file), 4 * PAGE / 512); /* two pages each: nothing else is real */
    assert_int_equal(block->tables, 1);
}

static void a_first_table_may_be_a_larger_one(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        uint64_t pairs, entries;
    } wanted[] = {{0, 4096},
                  {2048, 4096},
                  {2049, 8192},
                  {4096, 8192},
                  {524288, 1 << 20},
                  {524289, 1 << 20},
                  {UINT64_MAX / 4, 1 << 20}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct slab_block *block = &fixture->block;
        slab_block_expect(block, wanted[i].pairs);
        assert_int_equal(slab_block_clear(block, 0, NULL), BASE_OK);
        uint64_t table = table_of(block), entries = word_at(block, table) + 1;
        assert_int_equal(entries, wanted[i].entries);
        assert_int_equal(table % PAGE, 0);
        assert_true(table >= SLAB_BLOCK_TABLES);
        assert_true(table + sizeof(struct stub_table) + entries * sizeof(struct stub_table_entry) <=
                    SLAB_BLOCK_SIZE);
        struct slab_hook_range hooks = {100, 1};
        set_entry(block, 0, 0x401000, 100, 3);
        set_entry(block, entries - 1, 0x402000, 100, 4);
        read_block(fixture, block, 200, &hooks, 1);
        assert_int_equal(fixture->counts.arrival_count, 2);
        assert_int_equal(calls_of(&fixture->counts, 0x401000, 100), 3);
        assert_int_equal(calls_of(&fixture->counts, 0x402000, 100), 4);
        slab_counts_free(&fixture->counts);
    }
}

/* --- reading --- */

static void counters_are_added_up(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < 2; i++) {
        const struct slab_block *block = i ? &fixture->block : &fixture->other;
        set_word(block, STUB_BLOCK_WORDS, 5 + i);
        set_word(block, 100000, 7);
        set_word(block, SLAB_BLOCK_WORDS - 1, 1ull << 40);
        read_block(fixture, block, SLAB_BLOCK_WORDS, NULL, 0);
    }
    assert_int_equal(fixture->counts.word_count, SLAB_BLOCK_WORDS);
    assert_int_equal(fixture->counts.words[0], 0); /* the header's words are no counters */
    assert_int_equal(fixture->counts.words[1], 0);
    assert_int_equal(fixture->counts.words[STUB_BLOCK_WORDS], 11);
    assert_int_equal(fixture->counts.words[100000], 14);
    assert_int_equal(fixture->counts.words[SLAB_BLOCK_WORDS - 1], 2ull << 40);
    uint64_t sum = 0;
    for (size_t i = 0; i < fixture->counts.word_count; i++)
        sum += fixture->counts.words[i];
    assert_int_equal(sum, 25 + (2ull << 40));
    assert_int_equal(fixture->counts.arrival_count, 0);
}

static void what_has_no_number_yet_is_not_read(void **state)
{
    struct fixture *fixture = *state;
    struct slab_hook_range hooks = {50, 10};
    set_word(&fixture->block, 99, 1);
    set_word(&fixture->block, 100, 2);
    set_entry(&fixture->block, 0, 0x401000, 99, 3);
    set_entry(&fixture->block, 1, 0x401000, 100, 4);
    read_block(fixture, &fixture->block, 100, &hooks, 1);
    assert_int_equal(fixture->counts.word_count, 100);
    assert_int_equal(fixture->counts.words[99], 1);
    assert_int_equal(fixture->counts.arrival_count, 1);
    assert_int_equal(calls_of(&fixture->counts, 0x401000, 99), 3);
    read_block(fixture, &fixture->block, 101, &hooks, 1); /* the counts grow */
    assert_int_equal(fixture->counts.word_count, 101);
    assert_int_equal(fixture->counts.words[99], 2);
    assert_int_equal(fixture->counts.words[100], 2);
}

/* Hooks whose words lie across the end of a page that is alone (510, 511 | 512), and of what is read at once
 * (65,536 bytes). */
static void hooks_lie_across_borders(void **state)
{
    struct fixture *fixture = *state;
    const struct slab_hook_range hooks[] = {{509, 2}, {8191, 1}, {8194, 1}, {16382, 1}, {24575, 3}};
    static const uint32_t firsts[] = {509, 512, 8191, 8194, 16382, 24575, 24578, 24581};
    const struct slab_block *block = &fixture->block;
    for (uint32_t word = STUB_BLOCK_WORDS; word < 30000; word++)
        set_word(block, word, 1); /* no hole: chunks end where they end */
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        set_word(block, firsts[i], 0x400000 + i);
        set_word(block, firsts[i] + 1, 100 + i);
        set_word(block, firsts[i] + 2, 1000 + i);
    }
    read_block(fixture, block, 30000, hooks, 5);
    assert_int_equal(fixture->counts.arrival_count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(calls_of(&fixture->counts, 0x400000 + i, firsts[i]), 100 + i);
        assert_int_equal(fixture->counts.words[firsts[i]], 0);
        assert_int_equal(fixture->counts.words[firsts[i] + 1], 0);
        assert_int_equal(fixture->counts.words[firsts[i] + 2], 1000 + i);
        bool follows = i > 0 && firsts[i - 1] + STUB_HOOK_WORDS == firsts[i];
        assert_int_equal(fixture->counts.words[firsts[i] - 1], follows ? 999 + i : 1);
    }
}

/* The target counts on while it is read: a return address that was not there yet when its word was read,
 * behind the end of a page for one, is nobody's, and not the last hook's. */
static void half_a_hook_takes_no_other_hooks_name(void **state)
{
    struct fixture *fixture = *state;
    struct slab_hook_range hooks = {505, 400};
    set_word(&fixture->block, 505, 0x401000);
    set_word(&fixture->block, 506, 5);
    set_word(&fixture->block, 509, 7); /* the hook at 508 */
    set_word(&fixture->block, 511, 0x402000);
    set_word(&fixture->block, 1025, 9); /* 511 + 3 * 171 = 1024: named by nobody */
    read_block(fixture, &fixture->block, 2000, &hooks, 1);
    assert_int_equal(fixture->counts.arrival_count, 3);
    assert_int_equal(calls_of(&fixture->counts, 0x401000, 505), 5);
    assert_int_equal(calls_of(&fixture->counts, 0, 508), 7);
    assert_int_equal(calls_of(&fixture->counts, 0, 1024), 9);
}

static void entries_lie_across_borders(void **state)
{
    struct fixture *fixture = *state;
    struct slab_hook_range hooks = {100, 1000};
    for (uint64_t i = 0; i < ENTRIES; i++)
        if (i % 127 < 3 || i % 2047 < 4) /* pages end behind 127 of them, chunks behind 2047 */
            set_entry(&fixture->block, i, 0x400000 + i, (uint32_t)(100 + 3 * (i % 1000)), i + 1);
    read_block(fixture, &fixture->block, 5000, &hooks, 1);
    size_t expected = 0;
    for (uint64_t i = 0; i < ENTRIES; i++)
        if (i % 127 < 3 || i % 2047 < 4) {
            assert_int_equal(calls_of(&fixture->counts, 0x400000 + i, (uint32_t)(100 + 3 * (i % 1000))),
                             i + 1);
            expected++;
        }
    assert_int_equal(fixture->counts.arrival_count, expected);
    assert_true(expected > 90);
}

/* Claimed, not filled in: a hook was interrupted there. */
static void unfinished_entries_are_no_arrivals(void **state)
{
    struct fixture *fixture = *state;
    struct slab_hook_range hooks = {100, 10};
    const struct slab_block *block = &fixture->block;
    set_entry_at(block, table_of(block), 0, (struct stub_table_entry){.return_address = 0x401000});
    set_entry_at(block, table_of(block), 1, (struct stub_table_entry){0x401000, 800, 0, 0});
    set_entry_at(block, table_of(block), 2, (struct stub_table_entry){0, 800, 9, 0});
    read_block(fixture, block, 200, &hooks, 1);
    assert_int_equal(fixture->counts.arrival_count, 0);
}

static void equal_pairs_become_one(void **state)
{
    struct fixture *fixture = *state;
    struct slab_hook_range hooks = {100, 10};
    slab_counts_sort(&fixture->counts); /* of nothing */
    for (unsigned i = 0; i < 2; i++) {
        const struct slab_block *block = i ? &fixture->block : &fixture->other;
        set_word(block, 100, 0x401000 + i);
        set_word(block, 101, 1);
        set_entry(block, 0, 0x401000, 100, 10);
        set_entry(block, 4000, 0x401000, 100, 100); /* twice: a signal came between */
        set_entry(block, 7, 0x401000, 103, 1000);
        set_entry(block, 8, ~0x123ull, 103, 10000); /* a mark */
        read_block(fixture, block, 200, &hooks, 1);
    }
    slab_counts_sort(&fixture->counts);
    static const struct slab_arrival sorted[] = {
        {0x401000, 100, 221}, {0x401000, 103, 2000}, {0x401001, 100, 1}, {~0x123ull, 103, 20000}};
    assert_int_equal(fixture->counts.arrival_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(fixture->counts.arrivals[i].return_address, sorted[i].return_address);
        assert_int_equal(fixture->counts.arrivals[i].word, sorted[i].word);
        assert_int_equal(fixture->counts.arrivals[i].calls, sorted[i].calls);
    }
}

/* --- tables grow --- */

static void a_table_grows_when_more_than_half_is_used(void **state)
{
    struct fixture *fixture = *state;
    struct slab_block *block = &fixture->block;
    struct slab_hook_range hooks = {100, 10};
    uint64_t first = table_of(block);
    for (uint64_t i = 0; i < ENTRIES / 2; i++)
        set_entry(block, 2 * i, 0x400000 + i, 100, 1);
    assert_int_equal(slab_block_grow(block, NULL), BASE_OK);
    assert_int_equal(table_of(block), first);
    set_entry(block, 1, 0x500000, 100, 1);
    assert_int_equal(slab_block_grow(block, NULL), BASE_OK);
    uint64_t second = table_of(block);
    assert_true(second >= first + sizeof(struct stub_table) + ENTRIES * sizeof(struct stub_table_entry));
    assert_int_equal(second % PAGE, 0);
    assert_int_equal(word_at(block, second), 2 * ENTRIES - 1);
    assert_int_equal(word_at(block, first), ENTRIES - 1); /* a thread in the old one still finds its mask */
    assert_int_equal(slab_block_grow(block, NULL), BASE_OK);
    assert_int_equal(table_of(block), second);
    assert_int_equal(block->tables, 2);
    set_entry(block, 0, 0x400000, 100, 1);
    set_entry(block, 2 * ENTRIES - 1, 0x600000, 103, 1);
    read_block(fixture, block, 200, &hooks, 1);
    assert_int_equal(fixture->counts.arrival_count, ENTRIES / 2 + 3);
    assert_int_equal(calls_of(&fixture->counts, 0x400000, 100), 2);
    assert_int_equal(calls_of(&fixture->counts, 0x600000, 103), 1);
    assert_int_equal(fixture->other.tables, 1);
}

static void the_last_table_stays_the_last(void **state)
{
    struct fixture *fixture = *state;
    struct slab_block *block = &fixture->block;
    uint64_t at[16], entries = ENTRIES, end = SLAB_BLOCK_TABLES;
    for (unsigned made = 1; made <= 9; made++, entries *= 2) {
        at[made] = table_of(block);
        assert_int_equal(block->tables, made);
        assert_int_equal(word_at(block, at[made]), entries - 1);
        assert_true(at[made] >= end);
        end = at[made] + sizeof(struct stub_table) + entries * sizeof(struct stub_table_entry);
        assert_true(end <= SLAB_BLOCK_SIZE);
        uint8_t *full = malloc(entries * sizeof(struct stub_table_entry));
        memset(full, 1, entries * sizeof(struct stub_table_entry));
        write_at(block, at[made] + sizeof(struct stub_table), full,
                 entries * sizeof(struct stub_table_entry));
        free(full);
        assert_int_equal(slab_block_grow(block, NULL), BASE_OK);
    }
    assert_int_equal(block->tables, 9);
    assert_int_equal(table_of(block), at[9]);
}

/* --- clearing --- */

static void a_cleared_block_begins_anew(void **state)
{
    struct fixture *fixture = *state;
    struct slab_hook_range hooks = {100, 10};
    uint64_t ones[1024];
    memset(ones, 1, sizeof ones);
    for (uint64_t at = 0; at + sizeof ones <= SLAB_BLOCK_SIZE; at += 5 << 20)
        write_at(&fixture->block, at, ones, sizeof ones);
    set_word(&fixture->other, 100, 0x401000);
    set_word(&fixture->other, 101, 8);
    set_word(&fixture->other, SLAB_BLOCK_SIZE / 8 - 1, 77);
    fixture->block.tables = 5;
    assert_int_equal(slab_block_clear(&fixture->block, 0, NULL), BASE_OK);
    assert_int_equal(word_at(&fixture->block, 0), fixture->block.address);
    assert_int_equal(table_of(&fixture->block), SLAB_BLOCK_TABLES);
    assert_int_equal(fixture->block.tables, 1);
    assert_int_equal(real_memory(fixture->file), 5 * PAGE / 512); /* both headers, both tables, and the 77 */
    read_block(fixture, &fixture->block, SLAB_BLOCK_WORDS, &hooks, 1);
    for (size_t i = 0; i < fixture->counts.word_count; i++)
        assert_int_equal(fixture->counts.words[i], 0);
    assert_int_equal(fixture->counts.arrival_count, 0);
    read_block(fixture, &fixture->other, 200, &hooks, 1);
    assert_int_equal(calls_of(&fixture->counts, 0x401000, 100), 8);
    assert_int_equal(word_at(&fixture->other, SLAB_BLOCK_SIZE - 8), 77);
}

static void what_cannot_be_written_is_reported(void **state)
{
    struct fixture *fixture = *state;
    struct base_error error = {0};
    struct slab_block nowhere = {.file = -1, .address = ADDRESS};
    assert_true(slab_block_init(&nowhere, 0, &error) < 0);
    assert_int_equal(nowhere.tables, 0);
    assert_string_not_equal(error.text, "");
    assert_true(slab_block_clear(&nowhere, 0, &error) < 0);
    assert_int_equal(nowhere.tables, 0);
    assert_int_equal(slab_counts_add(&fixture->counts, &nowhere, 1000, NULL, 0, NULL), BASE_OK);
    for (size_t i = 0; i < fixture->counts.word_count; i++)
        assert_int_equal(fixture->counts.words[i], 0);
}

/* --- renaming --- */

static void return_addresses_of_a_range_get_names(void **state)
{
    struct fixture *fixture = *state;
    struct slab_block *block = &fixture->block;
    const struct slab_hook_range hooks[] = {{20, 4}, {511, 1}, {600, 100}};
    const struct slab_renaming how = {0x401000, 0x402000, 0x9000000001000};
    static const uint64_t addresses[] = {0x401000, 0x401001, 0x402000, 0x402001};
    static const uint64_t renamed[] = {0x401000, 0x9000000001001, 0x9000000002000, 0x402001};
    for (uint32_t i = 0; i < 4; i++) {
        set_word(block, 20 + 3 * i, addresses[i]);
        set_word(block, 21 + 3 * i, 0x401800); /* so many calls: not an address */
        set_word(block, 22 + 3 * i, 0x401800);
        set_word(block, 40 + i, 0x401800); /* a site's count */
        set_entry(block, 126 + i, addresses[i], 600 + 3 * i, 0x401800);
    }
    set_word(block, 511, 0x401234);
    set_word(block, 512, 6);
    set_entry_at(block, table_of(block), 9, (struct stub_table_entry){~0x401800ull, 0x401800, 0x401800, 0});
    for (uint64_t i = 0; i < ENTRIES / 2; i++)
        set_entry(block, ENTRIES / 2 + i, 0x700000 + i, 600, 1);
    assert_int_equal(slab_block_grow(block, NULL), BASE_OK); /* renamed in the older table too */
    set_entry(block, 5000, 0x401801, 603, 2);
    blkcnt_t before = real_memory(fixture->file);
    assert_int_equal(slab_block_rename(block, 2000, hooks, 3, &how, NULL), BASE_OK);
    assert_int_equal(real_memory(fixture->file), before);
    read_block(fixture, block, 1 << 20, hooks, 3);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(calls_of(&fixture->counts, renamed[i], 20 + 3 * i), 0x401800);
        assert_int_equal(calls_of(&fixture->counts, renamed[i], 600 + 3 * i), 0x401800);
        assert_int_equal(fixture->counts.words[22 + 3 * i], 0x401800);
        assert_int_equal(fixture->counts.words[40 + i], 0x401800);
    }
    assert_int_equal(calls_of(&fixture->counts, 0x9000000001234, 511), 6);
    assert_int_equal(calls_of(&fixture->counts, ~0x401800ull, 0x401800 / 8), 0x401800);
    assert_int_equal(calls_of(&fixture->counts, 0x9000000001801, 603), 2);
    assert_int_equal(fixture->counts.arrival_count, 4 + 4 + 1 + 1 + 1 + ENTRIES / 2);
    assert_int_equal(word_at(block, 0), block->address);
}

/* --- against an oracle; hostile words --- */

static uint64_t random_word(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 16 ^ *seed << 20;
}

static bool is_hook_word(const struct slab_hook_range *hooks, size_t ranges, uint64_t word, unsigned *part)
{
    for (size_t i = 0; i < ranges; i++)
        if (word >= hooks[i].first && word < hooks[i].first + 3ull * hooks[i].count) {
            *part = (unsigned)(word - hooks[i].first) % 3;
            return true;
        }
    return false;
}

/* Any words at all in any places: the sums are those of the words, whatever they are. */
static void any_words_are_only_numbers(void **state)
{
    struct fixture *fixture = *state;
    const struct slab_hook_range hooks[] = {{8, 1}, {11, 3}, {1000, 2000}, {70000, 1}};
    enum { END = 80000 };
    uint64_t *expected = calloc(END, sizeof *expected), calls = 0, pages[512], seed = 0;
    for (unsigned round = 0; round < 12; round++) {
        for (unsigned i = 0; i < 60; i++) {
            uint64_t area = i % 2 ? SLAB_BLOCK_TABLES / PAGE : 0;
            for (unsigned j = 0; j < 512; j++)
                pages[j] = random_word(&seed) % 3 ? random_word(&seed) >> random_word(&seed) % 64 : 0;
            write_at(&fixture->block, (area + random_word(&seed) % 200) * PAGE, pages, sizeof pages);
        }
        for (uint32_t word = STUB_BLOCK_WORDS; word < END; word++) {
            unsigned part = 2;
            uint64_t value = word_at(&fixture->block, 8ull * word);
            is_hook_word(hooks, 4, word, &part);
            expected[word] += part == 2 ? value : 0;
            calls += part == 1 ? value : 0;
        }
        for (uint64_t i = 0; i < ENTRIES; i++) {
            uint64_t at = SLAB_BLOCK_TABLES + 32 + 32 * i;
            if (word_at(&fixture->block, at) && word_at(&fixture->block, at + 8) / 8 < END)
                calls += word_at(&fixture->block, at + 16);
        }
        read_block(fixture, &fixture->block, END, hooks, 4);
        assert_memory_equal(fixture->counts.words, expected, END * sizeof *expected);
        for (size_t i = 0; i < fixture->counts.arrival_count; i++)
            assert_true(fixture->counts.arrivals[i].word < END);
        if (round % 4 == 3)
            slab_counts_sort(&fixture->counts);
        uint64_t sum = 0;
        for (size_t i = 0; i < fixture->counts.arrival_count; i++)
            sum += fixture->counts.arrivals[i].calls;
        assert_int_equal(sum, calls);
    }
    free(expected);
}

/* What the header says is for stubs: Tally reads what it made itself. Tables full of it grow all the same. */
static void a_hostile_header_leads_nowhere(void **state)
{
    struct fixture *fixture = *state;
    struct slab_block *block = &fixture->block;
    const struct slab_hook_range hooks[] = {{8, UINT32_MAX}, {UINT32_MAX, UINT32_MAX}};
    uint8_t ones[16 * PAGE];
    memset(ones, 0xff, sizeof ones);
    set_entry(block, 4000, 0x401000, 11, 3);
    write_at(block, 0, ones, sizeof ones);
    write_at(block, SLAB_BLOCK_TABLES, ones, sizeof ones);
    write_at(&fixture->other, SLAB_BLOCK_SIZE - sizeof ones, ones, sizeof ones);
    read_block(fixture, block, 100000, hooks, 2);
    assert_int_equal(calls_of(&fixture->counts, 0x401000, 11), 3);
    assert_int_equal(fixture->counts.arrival_count, 1 + (16 * 512 - 8 + 1) / 3);
    struct slab_renaming all = {0, UINT64_MAX, 1};
    assert_int_equal(slab_block_rename(block, 100000, hooks, 2, &all, NULL), BASE_OK);
    assert_int_equal(word_at(&fixture->other, SLAB_BLOCK_SIZE - 8), UINT64_MAX);
    assert_int_equal(slab_block_grow(block, NULL), BASE_OK);
    assert_int_equal(block->tables, 1); /* 2,047 of 4,096 */
    assert_int_equal(slab_block_clear(block, 0, NULL), BASE_OK);
    assert_int_equal(word_at(block, 0), block->address);
}

/* --- pages that are made beforehand --- */

/* Of [from, end) of the block, which are looked at by touching them: those that were not are made by that.
 * -1: some were, and some were not. */
static int are_made(const struct slab_block *block, uint64_t from, uint64_t end)
{
    uint64_t first = from / PAGE, count = (end + PAGE - 1) / PAGE - first;
    blkcnt_t before = real_memory(block->file);
    const volatile uint8_t *pages =
        mmap(NULL, count * PAGE, PROT_READ, MAP_SHARED, block->file, (off_t)(block->offset + first * PAGE));
    assert_ptr_not_equal(pages, MAP_FAILED);
    for (uint64_t i = 0; i < count; i++)
        (void)pages[i * PAGE];
    munmap((void *)(uintptr_t)pages, count * PAGE);
    uint64_t fresh = (uint64_t)(real_memory(block->file) - before) * 512 / PAGE;
    return fresh == 0 ? 1 : fresh == count ? 0 : -1;
}

static uint64_t table_end(uint64_t table, uint64_t entries)
{
    return table + sizeof(struct stub_table) + entries * sizeof(struct stub_table_entry);
}

static void pages_are_made_as_words_are_given(void **state)
{
    struct fixture *fixture = *state;
    struct slab_block *block = &fixture->block;
    const uint32_t first = 5000, second = 90001;
    uint64_t table = table_of(block);
    assert_int_equal(slab_block_commit(block, first, NULL), BASE_OK);
    assert_int_equal(are_made(block, 0, 8ull * first), 1);
    assert_int_equal(are_made(block, table, table_end(table, ENTRIES)), 1);
    assert_int_equal(slab_block_commit(block, second, NULL), BASE_OK);
    assert_int_equal(are_made(block, 0, 8ull * second), 1);
    assert_int_equal(are_made(block, 8ull * second + PAGE, 8ull * second + 9 * PAGE), 0);
    assert_int_equal(are_made(&fixture->other, PAGE, 8ull * first), 0);
    assert_int_equal(are_made(&fixture->other, table, table_end(table, ENTRIES)), -1);
    read_block(fixture, block, second, NULL, 0);
}

static void pages_of_the_next_table_are_made_first(void **state)
{
    struct fixture *fixture = *state;
    struct slab_block *block = &fixture->block;
    uint64_t old = table_of(block);
    assert_int_equal(slab_block_commit(block, 100, NULL), BASE_OK);
    for (uint64_t i = 0; i <= ENTRIES / 2; i++)
        set_entry(block, i, 0x1000 + i, 8, 1);
    struct slab_block closed = *block;
    closed.file = -1;
    assert_true(slab_block_commit(&closed, 200, NULL) < 0);
    assert_int_equal(closed.committed, 100);
    assert_int_equal(slab_block_grow(block, NULL), BASE_OK);
    assert_int_not_equal(table_of(block), old);
    assert_int_equal(are_made(block, table_of(block), table_end(table_of(block), 2 * ENTRIES)), 1);
}

static void pages_are_given_back_with_the_block(void **state)
{
    struct fixture *fixture = *state;
    struct slab_block *block = &fixture->block;
    assert_int_equal(slab_block_commit(block, 50000, NULL), BASE_OK);
    assert_int_equal(slab_block_clear(block, 0, NULL), BASE_OK);
    assert_int_equal(block->committed, 0);
    assert_int_equal(are_made(block, PAGE, 8ull * 50000), 0);
    assert_int_equal(slab_block_clear(block, 50000, NULL), BASE_OK);
    assert_int_equal(block->committed, 50000);
    assert_int_equal(are_made(block, 0, 8ull * 50000), 1);
    assert_int_equal(are_made(block, table_of(block), table_end(table_of(block), ENTRIES)), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_block_is_its_header_and_a_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_first_table_may_be_a_larger_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counters_are_added_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_no_number_yet_is_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hooks_lie_across_borders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_hook_takes_no_other_hooks_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(entries_lie_across_borders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unfinished_entries_are_no_arrivals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(equal_pairs_become_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_table_grows_when_more_than_half_is_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_table_stays_the_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cleared_block_begins_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(return_addresses_of_a_range_get_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_words_are_only_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hostile_header_leads_nowhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_are_made_as_words_are_given, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_of_the_next_table_are_made_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_are_given_back_with_the_block, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
