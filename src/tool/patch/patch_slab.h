/* patch_slab.h - from a plan and the addresses in one process to bytes: the stubs and hooks, and what to
 * write over the text.
 *
 * The caller reserves memory near the image (regions[0], at least patch_slab_size bytes; further ones in the
 * windows of hooks over endbr64, patch_slab_window), puts the counters somewhere, and gets back the regions'
 * bytes and a list of writes by ascending address. The regions must hold their bytes before the first write
 * is made. Nothing is written here: pure, and the same input gives the same bytes.
 *
 * How it is done: 1. every wanted site gets its stub's place, and the stub as if nothing were hooked; 2.
 * every wanted hook is emitted, with sites that lie in its first bytes already rewritten, so that they move
 * along and still count (such a site has a stub, but no write of its own); 3. stubs that go to a hooked
 * function are emitted again, now past the hook - same place, not longer than was set aside: with the
 * function's moved instructions in the stub where they are short, because most hooks of a library are never
 * gone through, and the second jump on every direct call cost more than all counting. A stub is never changed
 * after that: another form of the counters is a second slab, whose writes take the place of the first one's
 * (patch_slab_follow). Context: tool, any thread on its own data. */
#ifndef PATCH_SLAB_H
#define PATCH_SLAB_H

#include "patch_plan.h"
#include "patch_x86_64_entry.h"

struct patch_slab_region {
    uint64_t address; /* run-time */
    uint8_t *bytes;   /* `size` of them, the caller's: what is to lie there */
    size_t size, used;
};

struct patch_write {
    uint64_t address; /* run-time */
    uint8_t length;   /* bytes that change, at most 16 */
    uint8_t old[16], fresh[16];
    uint32_t site, hook; /* whose; the other one PATCH_NONE. An island names its site */
};

struct patch_slab_piece { /* a stub, a hook or the recorder */
    uint64_t address;
    uint32_t site, hook; /* whose; both PATCH_NONE: the recorder */
};

/* Where calls through a linkage stub's slot (image address) end in this process: the function that ld.so has
 * bound it to, or the `body` of its hook when another slab has one. 0: not bound yet. Such a site then goes
 * there at once, past linkage stub and hook: faster than the program was, and seen once, not twice. Only for
 * slots that never change again. */
typedef uint64_t patch_slab_resolve(void *context, uint64_t slot);

/* An indirect site whose stub is to try the function of a hook first (patch_x86_64_stub.h). */
struct patch_slab_guess {
    uint64_t site;
    uint32_t hook;
    uint32_t word; /* of the counter of such calls, as the plan's words are numbered, and behind them */
};
#define PATCH_SLAB_GUESSES 64 /* at most; what patch_slab_size has room for */

struct patch_slab {
    /* in */
    const struct patch_plan *plan;
    const uint8_t *wanted; /* a byte for each site, then for each hook: not 0 means do it. NULL: all */
    const uint8_t
        *quiet; /* a byte for each site: not 0: it jumps through a slot to where no hooks are, so that a mark
                             would wait for somebody else. NULL: none */
    const struct patch_slab_guess *guesses; /* by site, one a site; those that cannot be done are left out */
    size_t guess_count;
    uint64_t bias;                       /* run-time address - image address */
    struct patch_x86_64_counter counter; /* index: of the image's word 0 in the block, >= PATCH_BLOCK_WORDS */
    struct patch_slab_region *regions;
    size_t region_count;
    patch_slab_resolve *resolve; /* NULL: calls through linkage stubs stay calls through linkage stubs */
    void *context;

    /* out; freed by patch_slab_free */
    struct patch_write *writes;
    size_t write_count, write_capacity;
    uint64_t *stubs;    /* of each site; 0: not done */
    uint64_t stubs_end; /* where the last one's room ends */
    uint64_t *
        ends; /* of each site: where its slot led to when its stub was made, or the hooked function; 0: not known */
    uint32_t *by_slot; /* sites whose stubs go through slots, ascending */
    size_t by_slot_count;
    uint32_t *inlined; /* of each site: the hook whose body its stub has too, or PATCH_NONE */
    uint8_t *bodies;   /* of each hook: bytes that its moved instructions need in such a stub; 0: too many */
    uint64_t *entries; /* of each hook: where its code lies; 0: not done */
    struct patch_x86_64_hook *hooks; /* of each hook */
    uint64_t recorder;
    struct patch_slab_piece *pieces; /* all the code, ascending: patch_slab_frame.h */
    size_t piece_count;
    uint64_t reasons[PATCH_PLAN_REASONS]; /* wanted, but not done: OUT_OF_REACH, TOO_MANY */
};

/* Bytes that regions[0] must have for everything in the plan (of all forms the largest). */
size_t patch_slab_size(const struct patch_plan *plan);
/* Where the code of hook `hook` may begin; false: anywhere in reach. */
bool patch_slab_window(const struct patch_plan *plan, uint32_t hook, uint64_t bias, uint64_t *low,
                       uint64_t *high);

/* BASE_ENOMEM; BASE_EUNSUPPORTED when regions[0] is too small. What is out of reach is counted, not an
 * error. */
int patch_slab_make(struct patch_slab *slab, struct base_error *error);
void patch_slab_free(struct patch_slab *slab);

/* Asks `resolve` (again), now that other slabs have been made too, and aims stubs of linkage slots at what it
 * says. Only before the first write is made. */
void patch_slab_bind(struct patch_slab *slab);

/* The writes of `slab` come after those of `before` (same plan, same bias, still in place): their old bytes
 * become what `before` wrote. False: `before` has writes that `slab` has not, and those would have to be
 * undone. */
bool patch_slab_follow(struct patch_slab *slab, const struct patch_slab *before);

/* Site `site` as it is in this process. */
struct patch_x86_64_site patch_slab_site(const struct patch_slab *slab, uint32_t site);
/* The bytes that hook `hook` moves: those of the plan, with the sites among them rewritten, so that they move
 * along. */
void patch_slab_hook_bytes(const struct patch_slab *slab, uint32_t hook, uint8_t bytes[20]);

/* The write whose bytes hold `pc` behind their first one; NULL: none. */
const struct patch_write *patch_slab_write_around(const struct patch_slab *slab, uint64_t pc);

/* May a thread be at `pc` while the writes are made? */
enum patch_slab_place {
    PATCH_SLAB_FREE,  /* yes */
    PATCH_SLAB_MOVED, /* yes, if it goes on at *other, where the same instruction lies now */
    PATCH_SLAB_STEP   /* no: it must first run on until it is somewhere else */
};
enum patch_slab_place patch_slab_place(const struct patch_slab *slab, uint64_t pc, uint64_t *other);

#endif
