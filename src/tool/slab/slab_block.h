/* slab_block.h - the counters of one thread (or of one process, or of images that lie near each other), as
 * Tally reads them.
 *
 * A block is a range of a memory file that is shared with the target: a header, counters, and at its end the
 * tables of the hooks (stub_block.h). All blocks have the same size and the same numbering of counters,
 * whatever the form of the stubs that use them, so one way of reading serves for all:
 *
 *   0        header                       SLAB_BLOCK_TABLES   table of 4,096 entries
 *   64       counters, 8 bytes each       ...                 tables of twice the one before, made
 *                                                             when that fills; the first may be larger
 *
 * The files have holes where nothing was counted; reading skips them, and allocates none of them. Only
 * Tally's own descriptors are used: counters can be read when the target is dead. Context: tool, one
 * thread. */
#ifndef SLAB_BLOCK_H
#define SLAB_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "stub_block.h"

#define SLAB_BLOCK_WORDS  (4u << 20) /* the header's among them */
#define SLAB_BLOCK_TABLES (8ull * SLAB_BLOCK_WORDS)
#define SLAB_BLOCK_SIZE   (100ull << 20)

struct slab_block {
    int file;                     /* borrowed */
    uint64_t offset;              /* in the file */
    uint64_t address;             /* in the target */
    unsigned first_table, tables; /* made so far: these numbers, the second one exclusive */
    uint32_t committed; /* words whose pages are made, as those of each table are; 0: holes are left */
};

/* One pair that a hook saw. `word` is the first one of the hook. */
struct slab_arrival {
    uint64_t return_address;
    uint32_t word;
    uint64_t calls;
};

/* What was counted in some blocks together. {0} is an empty one. */
struct slab_counts {
    uint64_t *words; /* counts of sites and overflows of hooks: sums */
    size_t word_count;
    struct slab_arrival *arrivals; /* a pair may be there more than once */
    size_t arrival_count, arrival_capacity;
};

/* Which words belong to hooks, by ascending first word and without overlap. */
struct slab_hook_range {
    uint32_t first, count; /* `count` hooks of STUB_HOOK_WORDS words each */
};

/* Makes the pages of the header, of counters below `word_end`, and of the tables, now and as they come
 * (proc_commit.h), in a block that has begun. On failure the block is not to be used by stubs of counters
 * that it has no pages for. */
int slab_block_commit(struct slab_block *block, uint32_t word_end, struct base_error *error);

/* Header and first table; the range must be zeros. `made`: the pages of counters below it are made, and those
 * of tables; 0: holes are left. On failure it is not begun: there are no tables. */
int slab_block_init(struct slab_block *block, uint32_t made, struct base_error *error);
/* Before slab_block_init: so many pairs are expected in its table. */
void slab_block_expect(struct slab_block *block, uint64_t pairs);

/* Gives the memory back and begins anew: for a block whose thread has ended. */
int slab_block_clear(struct slab_block *block, uint32_t made, struct base_error *error);

/* Makes a table twice as large when the last one is more than half full; later callers are recorded there. */
int slab_block_grow(struct slab_block *block, struct base_error *error);

/* Adds the block's counters below `word_end` to `counts`. */
int slab_counts_add(struct slab_counts *counts, const struct slab_block *block, uint32_t word_end,
                    const struct slab_hook_range *hooks, size_t hook_ranges, struct base_error *error);
/* Return addresses that lead into a range, low < address <= high, become first + (address - low). No stub may
 * record such an address meanwhile: nothing is mapped there. */
struct slab_renaming {
    uint64_t low, high, first;
};
int slab_block_rename(const struct slab_block *block, uint32_t word_end, const struct slab_hook_range *hooks,
                      size_t hook_ranges, const struct slab_renaming *renaming, struct base_error *error);
void slab_counts_free(struct slab_counts *counts);

/* Sorts the arrivals by return address and word, and makes one of equal ones. */
void slab_counts_sort(struct slab_counts *counts);

#endif
