/* patch_subject.h - a library in this process that is planned from its file, and patched where it lies.
 *
 *     patch_subject_load(&subject, path);
 *     patch_subject_prepare(&subject, PATCH_PLAIN);      slab, regions and a block with a table; nothing is
 *                                                        written yet
 *     patch_subject_write(&subject, false); ... (true): undoes it
 *     patch_subject_unload(&subject); */
#ifndef PATCH_SUBJECT_H
#define PATCH_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "patch_slab.h"

#define PATCH_SUBJECT_WORD    0x30000000u /* gs offset of a thread's block */
#define PATCH_SUBJECT_BLOCK   0x40000     /* bytes of a block */
#define PATCH_SUBJECT_ENTRIES 4096        /* of a table */
#define PATCH_SUBJECT_REGIONS 16

struct patch_subject {
    void *handle;
    uint64_t bias;
    struct patch_plan plan;
    struct patch_slab slab;
    struct patch_slab_region
        regions[PATCH_SUBJECT_REGIONS]; /* the first: slab, then block; others: windows of endbr64 hooks */
    size_t region_count;
    bool resolves; /* set before prepare: calls through linkage stubs go straight to their ends */
    bool
        guesses; /* set before prepare: the stubs of indirect sites try one hook each, site by site another */
    const uint8_t *wanted; /* set before prepare; borrowed; NULL: all */
    struct patch_slab_guess tried[PATCH_SLAB_GUESSES];
    uint8_t *place;
};

void patch_subject_load(struct patch_subject *subject, const char *path);
void *patch_subject_symbol(const struct patch_subject *subject, const char *name);
/* `near` is some address in the library's text. */
void patch_subject_prepare(struct patch_subject *subject, enum patch_form form, uint64_t near);
void patch_subject_write(const struct patch_subject *subject, bool undo);
void patch_subject_unload(struct patch_subject *subject);

/* The process's block. Another thread's for form THREAD: patch_subject_new_block, freed with its table. */
struct patch_block *patch_subject_block(const struct patch_subject *subject);
struct patch_block *patch_subject_new_block(void);
void patch_subject_free_block(struct patch_block *block);
/* This thread's block; NULL: none (gs base 0). */
void patch_subject_use_block(const struct patch_block *block);

/* What ld.so bound the slot (image address) to. */
uint64_t patch_subject_slot(const struct patch_subject *subject, uint64_t slot);

/* What was guessed rightly, by site (PATCH_NONE: by any). */
uint64_t patch_subject_guessed(const struct patch_subject *subject, const struct patch_block *block,
                               uint32_t site, uint32_t hook);

/* What a block holds about the hook: its calls, whoever made them. */
uint64_t patch_subject_hook_calls(const struct patch_subject *subject, const struct patch_block *block,
                                  uint32_t hook);
/* ... from one return address or mark. */
uint64_t patch_subject_hook_calls_from(const struct patch_subject *subject, const struct patch_block *block,
                                       uint32_t hook, uint64_t return_address);

#endif
