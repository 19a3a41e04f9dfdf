/* slab_subject.h - a library in this process that is planned from its file, and patched where it lies.
 *
 *     slab_subject_load(&subject, path);
 *     slab_subject_prepare(&subject, STUB_PLAIN);      slab, regions and a block with a table; nothing is
 *                                                        written yet
 *     slab_subject_write(&subject, false); ... (true): undoes it
 *     slab_subject_unload(&subject); */
#ifndef SLAB_SUBJECT_H
#define SLAB_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "slab.h"

#define SLAB_SUBJECT_WORD    0x30000000u /* gs offset of a thread's block */
#define SLAB_SUBJECT_BLOCK   0x40000     /* bytes of a block */
#define SLAB_SUBJECT_ENTRIES 4096        /* of a table */
#define SLAB_SUBJECT_REGIONS 16

struct slab_subject {
    void *handle;
    uint64_t bias;
    struct plan plan;
    struct slab slab;
    /* The first: slab, then block; others: windows of endbr64 hooks. */
    struct slab_region regions[SLAB_SUBJECT_REGIONS];
    size_t region_count;
    bool resolves; /* set before prepare: calls through linkage stubs go straight to their ends */
    /* Set before prepare: the stubs of indirect sites try one hook each, site by site another. */
    bool guesses;
    const uint8_t *wanted; /* set before prepare; borrowed; NULL: all */
    struct slab_guess tried[SLAB_GUESSES];
    uint8_t *place;
};

void slab_subject_load(struct slab_subject *subject, const char *path);
void *slab_subject_symbol(const struct slab_subject *subject, const char *name);
/* `near` is some address in the library's text. */
void slab_subject_prepare(struct slab_subject *subject, enum stub_form form, uint64_t near);
void slab_subject_write(const struct slab_subject *subject, bool undo);
void slab_subject_unload(struct slab_subject *subject);

/* The process's block. Another thread's for form THREAD: slab_subject_new_block, freed with its table. */
struct stub_block *slab_subject_block(const struct slab_subject *subject);
struct stub_block *slab_subject_new_block(void);
void slab_subject_free_block(struct stub_block *block);
/* This thread's block; NULL: none (gs base 0). */
void slab_subject_use_block(const struct stub_block *block);

/* What ld.so bound the slot (image address) to. */
uint64_t slab_subject_slot(const struct slab_subject *subject, uint64_t slot);

/* What was guessed rightly, by site (PLAN_NONE: by any). */
uint64_t slab_subject_guessed(const struct slab_subject *subject, const struct stub_block *block,
                              uint32_t site, uint32_t hook);

/* What a block holds about the hook: its calls, whoever made them. */
uint64_t slab_subject_hook_calls(const struct slab_subject *subject, const struct stub_block *block,
                                 uint32_t hook);
/* ... from one return address or mark. */
uint64_t slab_subject_hook_calls_from(const struct slab_subject *subject, const struct stub_block *block,
                                      uint32_t hook, uint64_t return_address);

#endif
