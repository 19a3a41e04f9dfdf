/* slab_prepared.h - a slab that was made before, and need only be moved to where it is to lie now.
 *
 * What slab_make writes is the same for every process but for words, each of which changes by one of a few
 * amounts: displacements to the text by how far text and stubs have moved apart, operands of counters by how
 * far stubs and block have, indices by what the first one has become. A prepared slab is the code and, sort
 * by sort, where such words are. Stubs that go through a linkage slot to where ld.so has bound it are the
 * exception: they are aimed anew each time (slab_prepared_user).
 *
 * Nothing here knows what stubs consist of. Where the words are is found by making the slab at two places and
 * comparing; then it is made at a third one, and what would be moved there must be the same, byte for byte.
 * What fails that is not prepared.
 *
 * Apart from places, a slab is determined by the *key* (which sites and hooks are wanted, which sites are
 * quiet, the form, the plan itself, and how stubs of every kind are made) and the *ways* of its slots: which
 * were bound within reach, and which of those to a hook. Both are compared before a prepared slab is used;
 * all that words lead to must be within reach; and some stubs and hooks are made anew and compared. Where
 * anything differs slab_make does the work. Context: tool, any thread on its own data. Source: our own; the
 * idea is that of a linker's relocations. */
#ifndef SLAB_PREPARED_H
#define SLAB_PREPARED_H

#include "slab.h"

#define SLAB_PREPARED_MAGIC   0x424c53594c4c4154u /* "TALLYSLB" */
#define SLAB_PREPARED_VERSION 2

/* By what amount a word changes. */
enum slab_prepared_sort {
    SLAB_PREPARED_TEXT,         /* bias - address of the code */
    SLAB_PREPARED_BLOCK,        /* block - address of the code */
    SLAB_PREPARED_COUNTER,      /* block + 8 * index - address of the code */
    SLAB_PREPARED_COMPLEMENT,   /* -index: a mark's site */
    SLAB_PREPARED_WORD,         /* word: the block, by gs */
    SLAB_PREPARED_WORD_COUNTER, /* word + 8 * index */
    SLAB_PREPARED_OFFSET,       /* 8 * index: by a register that holds the block */
    SLAB_PREPARED_ADDRESS,      /* bias; of 64 bits: where a moved call returns to */
    SLAB_PREPARED_SORTS
};

/* Where calls through a slot go: to the linkage stub (it is not bound, or out of reach), to where it leads,
 * or from SLAB_PREPARED_HOOKED on to the hook of that number. */
enum { SLAB_PREPARED_THROUGH, SLAB_PREPARED_STRAIGHT, SLAB_PREPARED_HOOKED };
struct slab_prepared_way {
    uint64_t slot; /* image address */
    uint32_t way, zero;
};

struct slab_prepared_user { /* of a slot */
    uint32_t site, way;     /* way: index */
};

struct slab_prepared_hook {
    uint32_t entry, body, slow; /* from the region's start; entry PLAN_NONE: not done */
    uint8_t copied, count, body_size, zero;
    uint8_t from[STUB_X86_64_ENTRY_MOVED], to[STUB_X86_64_ENTRY_MOVED];
};
_Static_assert(sizeof(struct slab_prepared_hook) == 32, "stored");

/* header | ways by slot | users by site | hooks | of each site its stub (from the region's start, or
 * PLAN_NONE) | of each site the hook whose body it has | sort by sort, where the words are (each a byte: the
 * distance from the one before; 0: 255 bytes on, no word) | code. Each part begins at a multiple of 8. */
struct slab_prepared_header {
    uint64_t magic;
    uint32_t version, way_count;
    uint64_t byte_count, checksum; /* of the whole block; of all that lies behind this word */
    uint64_t key, plan;            /* plan: its header's `content` */
    uint32_t site_count, hook_count;
    uint64_t code_size, stubs_end; /* bytes */
    uint32_t recorder;             /* from the region's start, or PLAN_NONE */
    uint32_t user_count;
    uint32_t index, word;          /* what the code was made for: counters, */
    uint64_t block, bias, address; /* and places */
    int64_t low, high;             /* what TEXT words lead to: image addresses */
    uint64_t word_bytes[SLAB_PREPARED_SORTS];
    uint64_t reasons[PLAN_REASONS];
};

struct slab_prepared {
    const struct slab_prepared_header *header;
    const struct slab_prepared_way *ways;
    const struct slab_prepared_user *users;
    const struct slab_prepared_hook *hooks;
    const uint32_t *stubs, *inlined;
    const uint8_t *words[SLAB_PREPARED_SORTS], *code;
    void *blob;
    size_t size;
    bool mapped; /* blob is a mapping of a cache file, else malloc'd */
};

/* What a slab is prepared from; all borrowed. */
struct slab_prepared_input {
    const struct plan *plan;
    const uint8_t *wanted, *quiet; /* as of slab */
    enum stub_form form;
    /* By slot; of every slot that a stub goes past, straight to its end. */
    const struct slab_prepared_way *ways;
    size_t way_count;
    uint64_t key; /* slab_prepared_key of all but the ways */
};

uint64_t slab_prepared_key(const struct slab_prepared_input *input);

/* The ways of `count` distinct slots, ascending, in the process that `slab` (its input, with `resolve`) is
 * for, into ways[count]. False: one leads to where only some stubs reach; then there is nothing to
 * prepare. */
bool slab_prepared_ways(const struct slab *slab, const uint64_t *slots, size_t count,
                        struct slab_prepared_way *ways);

/* Makes the slab three times, elsewhere. BASE_EUNSUPPORTED: it cannot be prepared. */
int slab_prepared_make(const struct slab_prepared_input *input, struct slab_prepared *prepared,
                       struct base_error *error);
void slab_prepared_free(struct slab_prepared *prepared);

/* Checks the sum, and every number that is used as an index or offset. False: it is not one for this plan.
 * `prepared` borrows the block. */
bool slab_prepared_open(struct slab_prepared *prepared, const struct plan *plan, const void *blob,
                        size_t size);

/* What header->checksum must be. */
uint64_t slab_prepared_sum(const void *blob, size_t size);

/* As slab_make, with the same outcome; only `ends` is known of sites that go through slots alone. `input` has
 * what the slab's input has, and the ways of this process. False: it does not fit, or no memory; then the
 * slab has no outputs, and slab_make is to be used. */
bool slab_prepared_place(const struct slab_prepared *prepared, const struct slab_prepared_input *input,
                         struct slab *slab);

#endif
