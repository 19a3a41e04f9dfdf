/* slab.h - from a plan and the addresses in one process to bytes: the stubs and hooks, and what to write over
 * the text.
 *
 * The caller reserves memory near the image (regions[0], at least slab_size bytes; further ones in the
 * windows of hooks over endbr64, slab_hook_window), puts the counters somewhere, and gets back the regions'
 * bytes and a list of writes by ascending address. The regions must hold their bytes before the first write
 * is made. Nothing is written here: pure, and the same input gives the same bytes.
 *
 * How it is done:
 *   1. every wanted site gets its stub's place, and the stub as if nothing were hooked;
 *   2. every wanted hook is emitted, with sites that lie in its first bytes already rewritten, so that they
 *      move with them and still count (such a site has a stub, but no write of its own);
 *   3. stubs that go to a hooked function are emitted again, now past the hook - same place, not longer than
 *      was set aside: with the function's moved instructions in the stub where they are short, because most
 *      hooks of a library never run, and the second jump on every direct call cost more than all counting.
 * A stub is never changed after that: another form of the counters is a second slab, whose writes are made
 * over the first one's. Context: tool, any thread on its own data. */
#ifndef SLAB_H
#define SLAB_H

#include "plan.h"
#include "stub_x86_64_entry.h"

struct slab_region {
    uint64_t address; /* run-time */
    uint8_t *bytes;   /* `size` of them, the caller's: the code that is to lie there */
    size_t size, used;
};

struct slab_write {
    uint64_t address; /* run-time */
    uint8_t length;   /* bytes that change, at most 16 */
    uint8_t old[16], fresh[16];
    uint32_t site, hook; /* whose; the other one PLAN_NONE. An island names its site */
};

struct slab_piece { /* a stub, a hook or the recorder */
    uint64_t address;
    uint32_t site, hook; /* whose; both PLAN_NONE: the recorder */
};

/* Where calls through a linkage stub's slot (image address) end in this process: the function that ld.so has
 * bound it to, or the `body` of its hook when another slab has one. 0: not bound yet. Such a site then goes
 * there at once, past linkage stub and hook: faster than the program was, and counted once, not twice. Only
 * for slots that never change again. */
typedef uint64_t slab_resolve(void *context, uint64_t slot);

/* An indirect site whose stub is to try the function of a hook first (stub_x86_64_site.h). */
struct slab_guess {
    uint64_t site;
    uint32_t hook;
    uint32_t word; /* of the counter of such calls, as the plan's words are numbered, and behind them */
};
#define SLAB_GUESSES 64 /* at most; what slab_size has room for */

struct slab {
    /* in */
    const struct plan *plan;
    const uint8_t *wanted; /* a byte for each site, then for each hook: not 0 means do it. NULL: all */
    /* A byte for each site: not 0: it jumps through a slot to where no hooks are, so that its mark would be
     * found by another hook. NULL: none. */
    const uint8_t *quiet;
    const struct slab_guess *guesses; /* by site, one a site; those that cannot be done are left out */
    size_t guess_count;
    uint64_t bias;                      /* run-time address - image address */
    struct stub_x86_64_counter counter; /* index: of the image's word 0 in the block, >= STUB_BLOCK_WORDS */
    struct slab_region *regions;
    size_t region_count;
    slab_resolve *resolve; /* NULL: calls through linkage stubs stay calls through linkage stubs */
    void *context;

    /* out; freed by slab_free */
    struct slab_write *writes;
    size_t write_count, write_capacity;
    uint64_t *stubs;    /* of each site; 0: not done */
    uint64_t stubs_end; /* where the last one's room ends */
    /* Of each site: where its slot led to when its stub was made, or the hooked function; 0: not known. */
    uint64_t *ends;
    uint32_t *by_slot; /* sites whose stubs go through slots, ascending */
    size_t by_slot_count;
    uint32_t *inlined; /* of each site: the hook whose body its stub has too, or PLAN_NONE */
    uint8_t *bodies;   /* of each hook: bytes that its moved instructions need in such a stub; 0: too many */
    uint64_t *entries; /* of each hook: where its code lies; 0: not done */
    struct stub_x86_64_hook *hooks; /* of each hook */
    uint64_t recorder;
    struct slab_piece *pieces; /* all the code, ascending: slab_frame.h */
    size_t piece_count;
    uint64_t reasons[PLAN_REASONS]; /* wanted, but not done: OUT_OF_REACH, TOO_MANY */
};

/* Bytes that regions[0] must have for everything in the plan (of all forms the largest). */
size_t slab_size(const struct plan *plan);
/* Where the code of hook `hook` may begin; false: anywhere in reach. */
bool slab_hook_window(const struct plan *plan, uint32_t hook, uint64_t bias, uint64_t *low, uint64_t *high);

/* BASE_ENOMEM; BASE_EUNSUPPORTED when regions[0] is too small. What is out of reach is counted, not an
 * error. */
int slab_make(struct slab *slab, struct base_error *error);
void slab_free(struct slab *slab);

/* Calls `resolve` (again), now that other slabs have been made too, and aims stubs of linkage slots at its
 * answers. Only before the first write is made. */
void slab_stub_bind(struct slab *slab);

/* Site `site` as it is in this process. */
struct stub_x86_64_request slab_site(const struct slab *slab, uint32_t site);
/* The bytes that hook `hook` moves: those of the plan, with the sites among them rewritten, so that they move
 * with them. */
void slab_hook_bytes(const struct slab *slab, uint32_t hook, uint8_t bytes[20]);

/* The write whose bytes hold `pc` behind their first one; NULL: none. */
const struct slab_write *slab_write_around(const struct slab *slab, uint64_t pc);

/* May a thread be at `pc` while the writes are made? */
enum slab_place {
    SLAB_FREE,  /* yes */
    SLAB_MOVED, /* yes, if it goes on at *other, where the same instruction lies now */
    SLAB_STEP   /* no: it must first run on until it is somewhere else */
};
enum slab_place slab_place(const struct slab *slab, uint64_t pc, uint64_t *other);

#endif
