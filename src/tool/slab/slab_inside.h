/* slab_inside.h - what the files that make a slab share.
 *
 * slab.c makes one by slab_stub.c (the stubs of sites), slab_hook.c (hooks) and slab_write.c (the list of
 * writes); slab_prepared_place.c fills one with code that was made before, and needs the steps after that.
 * Each file needs only those below it: stub, hook, write, site. Context: tool, any thread on its own data. */
#ifndef SLAB_INSIDE_H
#define SLAB_INSIDE_H

#include <string.h>

#include "slab.h"

#define SLAB_HOOK_ALIGN 16
#define SLAB_HOOK_MOST  256 /* all that one piece of code may hold */

static inline bool slab_wants_hook(const struct slab *slab, uint32_t hook)
{
    return slab->wanted == NULL || slab->wanted[slab->plan->header->site_count + hook] != 0;
}

static inline void slab_refuse(struct slab *slab, enum stub_reason reason)
{
    slab->reasons[reason]++;
}

static inline size_t slab_aligned(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

/* Copies code into a region. False: it does not fit. */
static inline bool slab_region_put(struct slab_region *region, size_t at, const struct stub_x86_64_code *code)
{
    if (at + code->size > region->size)
        return false;
    memcpy(region->bytes + at, code->bytes, code->size);
    return true;
}

static inline struct stub_x86_64_counter slab_counter_at(const struct slab *slab, uint32_t word)
{
    struct stub_x86_64_counter counter = slab->counter;
    counter.index += word;
    return counter;
}

/* slab_memory.c: room for `count` items of `size` bytes and one more; NULL: no memory. */
void *slab_memory_list(size_t count, size_t size);
void *slab_memory_zeroed(size_t count, size_t size);

/* slab.c: the outputs, empty; false: no memory (slab_free frees what there is). */
bool slab_begin(struct slab *slab);
/* Lists writes and pieces, now that stubs and hooks have their places. False: no memory. */
bool slab_finish(struct slab *slab);

/* slab_site.c: the bytes that make the site lead to `stub`, and its island's; not STUB_FINE: it cannot. */
enum stub_reason slab_site_redirect(const struct stub_x86_64_request *site, uint64_t stub, uint8_t fresh[16],
                                    uint8_t island[5]);

/* slab_write.c. False: no memory. */
bool slab_write_add(struct slab *slab, const struct slab_write *write);
bool slab_write_sites(struct slab *slab); /* the list of all, from that of hooks */
bool slab_write_pieces(struct slab *slab);

/* slab_hook.c: the wanted hook over function `function` that begins at `address` (of the image); PLAN_NONE:
 * it has none here. */
uint32_t slab_hook_over(const struct slab *slab, uint32_t function, uint64_t address);
/* The wanted hook over the function of this image that is at a run-time address; PLAN_NONE: there is none. */
uint32_t slab_hook_at(const struct slab *slab, uint64_t end);
/* Emits the recorder; without it no hook is in reach of one. */
void slab_hook_emit_recorder(struct slab *slab);
/* Emits a hook and adds its writes. A hook that is out of reach is counted. False: no memory. */
bool slab_hook_emit(struct slab *slab, uint32_t hook);
/* Adds what leads to hook `hook`, whose code lies at slab->entries[hook]; in the order of hooks. False: it is
 * out of reach, or no memory. */
bool slab_hook_lead(struct slab *slab, uint32_t hook);
/* Is the code of a hook that has an entry what would be made now? */
bool slab_hook_holds(const struct slab *slab, uint32_t hook);

/* slab_stub.c: step 1, the stubs of all wanted sites. */
void slab_stub_emit(struct slab *slab);
/* Step 3: again, now that all hooks have their places. */
void slab_stub_emit_past_hooks(struct slab *slab);
/* Aims the stub of a site through a slot, which went straight to somewhere when it was made, at `end`, which
 * it reaches. */
void slab_stub_aim(struct slab *slab, uint32_t site, uint64_t end);
/* Is the code of a site that has a stub what would be made now? */
bool slab_stub_holds(const struct slab *slab, uint32_t site);

#endif
