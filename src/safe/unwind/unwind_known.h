/* unwind_known.h - stacks that were met before, recognised by comparing words.
 *
 * A program allocates again and again from the same places, in turn: each time some inner frames differ from
 * the walk before, and are walked. Here a stack that was walked once is known again without a walk. What a
 * walk finds is a function of where it begins (pc, sp, fp) and of the words it reads. So where it begins at
 * the same pc and sp, and all words that it read then are what they were, it would end as it did.
 *
 * The words lie where they lay: these places are the stack's *shape*, kept once for all stacks that share pc,
 * sp and places. A search compares the words of a shape with the stack that was found by it last; where they
 * differ, it hashes them to another stack that is kept, and compares every one. fp, and words that hold a
 * caller's fp, are among them only where a frame outwards is found by it: elsewhere it is a register like
 * others and holds anything.
 *
 * What is kept serves one thread, under one generation (unwind_space). Older stacks are overwritten by newer
 * ones. A search or an insertion that a signal's handler leaves by a jump leaves nothing that is half of
 * another: a stack's first word is written last. Context: anywhere, signal handlers included; not by two at
 * once. */
#ifndef UNWIND_KNOWN_H
#define UNWIND_KNOWN_H

#include "unwind_trail.h"

#define UNWIND_SHAPES      128
#define UNWIND_SHAPE_WAYS  4 /* of one pc and sp */
#define UNWIND_SHAPE_WORDS 96
/* Words that are compared at a time: the last is repeated until the unit is full. */
#define UNWIND_SHAPE_UNIT  8
#define UNWIND_KNOWN_SLOTS 1024
#define UNWIND_KNOWN_WORDS 8192

/* Where a walk begins, and for whom. */
struct unwind_known_start {
    uint64_t pc, sp, fp; /* of the caller; pc is a return address. 0 is none */
    uint64_t scope;      /* unwind_known_scope */
};

/* `root`: what values are of: a stack may be kept for several. One word: two that are written apart and read at
 * once would be waited for. */
static inline uint64_t unwind_known_scope(uint32_t root, uint32_t generation)
{
    return (uint64_t)root << 32 | generation;
}
static inline uint32_t unwind_known_root(uint64_t scope)
{
    return (uint32_t)(scope >> 32);
}

struct unwind_shape {
    uint64_t pc, sp; /* pc 0: free */
    uint64_t high;   /* behind the highest word */
    uint64_t scope;
    uint64_t last;                       /* the stack that was found by it: as slot.at */
    uint32_t serial;                     /* of this shape and no other */
    uint32_t found;                      /* a stack was, since a place was last looked for */
    uint16_t count;                      /* whole units */
    uint16_t by_fp;                      /* 1: fp is the word behind the last */
    uint16_t offset[UNWIND_SHAPE_WORDS]; /* from sp, in words */
    uint16_t zero[6];
};
_Static_assert(sizeof(struct unwind_shape) == 256, "four cache lines");

struct unwind_known_slot {
    uint64_t hash;
    uint64_t at; /* ring[at % UNWIND_KNOWN_WORDS] */
};

struct unwind_known {
    uint64_t head; /* the ring's, counted on and on */
    uint32_t serial;
    struct unwind_shape shapes[UNWIND_SHAPES];
    struct unwind_known_slot slots[UNWIND_KNOWN_SLOTS];
    uint64_t ring[UNWIND_KNOWN_WORDS]; /* of each stack: serial and value, the words, fp */
    struct unwind_shape fresh;         /* of the stack that is being kept: here, for stacks are small */
    uint64_t fresh_words[UNWIND_SHAPE_WORDS + 1];
};

/* The value that the stack was kept with; 0: it is not known. [sp, high) must be readable. */
uint32_t unwind_known_find(struct unwind_known *known, const struct unwind_known_start *start, uint64_t high);

/* Inserts the stack that the trail holds, walked from `start`, if comparing can recognise it. `mask`:
 * arch.code_mask. */
void unwind_known_insert(struct unwind_known *known, const struct unwind_known_start *start,
                         const struct unwind_trail *trail, uint64_t mask, uint32_t value);

#endif
