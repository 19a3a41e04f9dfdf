/* patch_prepared.h - a slab that was made before, and need only be moved to where it is to lie now.
 *
 * What patch_slab_make writes is the same for every process but for words, each of which changes by one of a
 * few amounts: displacements to the text by how far text and stubs have moved apart, operands of counters by
 * how far stubs and block have, indices by what the first one has become. A prepared slab is the code and,
 * sort by sort, where such words are. Stubs that go through a linkage slot to where ld.so has bound it are
 * the exception: they are aimed anew each time (patch_prepared_user).
 *
 * Nothing here knows how stubs look. Where the words are is found by making the slab at two places and
 * comparing; then it is made at a third one, and what would be moved there must be the same, byte for byte.
 * What fails that is not prepared.
 *
 * What else than places decides how a slab looks is the *key* (which sites and hooks are wanted, which sites
 * are quiet, the form, the plan itself, and how stubs of every kind are made) and the *ways* of its slots:
 * which were bound within reach, and which of those to a hook. Both are compared before a prepared slab is
 * used; all that words lead to must be within reach; and some stubs and hooks are made anew and compared.
 * Where anything differs patch_slab_make does the work. Context: tool, any thread on its own data. Source:
 * our own; the idea is a linker's, who relocates. */
#ifndef PATCH_PREPARED_H
#define PATCH_PREPARED_H

#include "patch_slab.h"

#define PATCH_PREPARED_MAGIC   0x424c53594c4c4154u /* "TALLYSLB" */
#define PATCH_PREPARED_VERSION 2

/* By what a word changes. */
enum patch_prepared_sort {
    PATCH_PREPARED_TEXT,         /* bias - address of the code */
    PATCH_PREPARED_BLOCK,        /* block - address of the code */
    PATCH_PREPARED_COUNTER,      /* block + 8 * index - address of the code */
    PATCH_PREPARED_COMPLEMENT,   /* -index: a mark's site */
    PATCH_PREPARED_WORD,         /* word: the block, by gs */
    PATCH_PREPARED_WORD_COUNTER, /* word + 8 * index */
    PATCH_PREPARED_OFFSET,       /* 8 * index: by a register that holds the block */
    PATCH_PREPARED_ADDRESS,      /* bias; of 64 bits: where a moved call returns to */
    PATCH_PREPARED_SORTS
};

/* How a slot is gone through: to the linkage stub (it is not bound, or out of reach), to where it leads, or
 * from PATCH_PREPARED_HOOKED on to the hook of that number. */
enum { PATCH_PREPARED_THROUGH, PATCH_PREPARED_STRAIGHT, PATCH_PREPARED_HOOKED };
struct patch_prepared_way {
    uint64_t slot; /* image address */
    uint32_t way, zero;
};

struct patch_prepared_user { /* of a slot */
    uint32_t site, way;      /* way: index */
};

struct patch_prepared_hook {
    uint32_t entry, body, slow; /* from the region's start; entry PATCH_NONE: not done */
    uint8_t copied, count, body_size, zero;
    uint8_t from[PATCH_X86_64_ENTRY_MOVED], to[PATCH_X86_64_ENTRY_MOVED];
};
_Static_assert(sizeof(struct patch_prepared_hook) == 32, "stored");

/* header | ways by slot | users by site | hooks | of each site its stub (from the region's start, or
 * PATCH_NONE) | of each site the hook whose body it has | sort by sort, where the words are (each a byte: so
 * far behind the one before; 0: 255 bytes on, no word) | code. Each part begins at a multiple of 8. */
struct patch_prepared_header {
    uint64_t magic;
    uint32_t version, way_count;
    uint64_t byte_count, checksum; /* of the whole block; of all that lies behind this word */
    uint64_t key, plan;            /* plan: its header's `content` */
    uint32_t site_count, hook_count;
    uint64_t code_size, stubs_end; /* bytes */
    uint32_t recorder;             /* from the region's start, or PATCH_NONE */
    uint32_t user_count;
    uint32_t index, word;          /* what the code was made for: counters, */
    uint64_t block, bias, address; /* and places */
    int64_t low, high;             /* what TEXT words lead to: image addresses */
    uint64_t word_bytes[PATCH_PREPARED_SORTS];
    uint64_t reasons[PATCH_PLAN_REASONS];
};

struct patch_prepared {
    const struct patch_prepared_header *header;
    const struct patch_prepared_way *ways;
    const struct patch_prepared_user *users;
    const struct patch_prepared_hook *hooks;
    const uint32_t *stubs, *inlined;
    const uint8_t *words[PATCH_PREPARED_SORTS], *code;
    void *blob;
    size_t size;
    bool mapped; /* blob is a mapping of a cache file, else malloc'd */
};

/* What a slab is prepared from; all borrowed. */
struct patch_prepared_input {
    const struct patch_plan *plan;
    const uint8_t *wanted, *quiet; /* as of patch_slab */
    enum patch_form form;
    const struct patch_prepared_way *ways; /* by slot; of every slot that a stub goes through straight */
    size_t way_count;
    uint64_t key; /* patch_prepared_key of all but the ways */
};

uint64_t patch_prepared_key(const struct patch_prepared_input *input);

/* The ways of `count` distinct slots, ascending, in the process that `slab` (its input, with `resolve`) is
 * for, into ways[count]. False: one leads to where only some stubs reach; then there is nothing to
 * prepare. */
bool patch_prepared_ways(const struct patch_slab *slab, const uint64_t *slots, size_t count,
                         struct patch_prepared_way *ways);

/* Makes the slab three times, elsewhere. BASE_EUNSUPPORTED: it cannot be prepared. */
int patch_prepared_make(const struct patch_prepared_input *input, struct patch_prepared *prepared,
                        struct base_error *error);
void patch_prepared_free(struct patch_prepared *prepared);

/* Checks the sum, and every number that is used to find something. False: it is none for this plan.
 * `prepared` borrows the block. */
bool patch_prepared_open(struct patch_prepared *prepared, const struct patch_plan *plan, const void *blob,
                         size_t size);

/* What header->checksum must be. */
uint64_t patch_prepared_sum(const void *blob, size_t size);

/* As patch_slab_make, with the same outcome; only `ends` is known of sites that go through slots alone.
 * `input` says what the slab's input does, and the ways of this process. False: it does not fit, or no
 * memory; then the slab has no outputs, and patch_slab_make is the way. */
bool patch_prepared_place(const struct patch_prepared *prepared, const struct patch_prepared_input *input,
                          struct patch_slab *slab);

#endif
