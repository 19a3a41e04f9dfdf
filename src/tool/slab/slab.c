/* Making a slab: its room, its lists, and the order of the steps, whose numbers are those of the header. */
#include <stdlib.h>
#include <string.h>

#include "slab.h"
#include "slab_inside.h"

#define DIRECT_MOST 40 /* with a mark (36), or a body (23 and 16), and alignment */
#define STUB_MOST   64 /* of a group: 15 bytes, each instruction grown by at most four; counter, mark */
#define GUESS_MOST  64 /* more with a guess: two moves, comparison, counter, jump, constant, alignment */

static size_t stub_most(const struct plan *plan, const struct plan_site *site)
{
    enum stub_kind kind = (enum stub_kind)site->kind;
    if (stub_x86_64_site_is_group(kind) || !stub_x86_64_site_is_direct(kind))
        return STUB_MOST;
    bool hooked = site->callee != PLAN_NONE && plan->functions[site->callee].hook != PLAN_NONE;
    return site->slot != 0 || hooked ? DIRECT_MOST : 24;
}

size_t slab_size(const struct plan *plan)
{
    size_t size = STUB_X86_64_CODE_MAX + SLAB_HOOK_ALIGN; /* the recorder */
    size += SLAB_GUESSES * GUESS_MOST;
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        size += stub_most(plan, &plan->sites[i]);
    return size + plan->header->hook_count * (size_t)SLAB_HOOK_MOST;
}

/* Steps 1 to 3 of the header. */
static bool emit_code(struct slab *slab)
{
    const struct plan_header *header = slab->plan->header;
    slab_stub_emit(slab);
    if (header->hook_count > 0)
        slab_hook_emit_recorder(slab);
    for (uint32_t i = 0; i < header->hook_count; i++)
        if (slab_wants_hook(slab, i) && !slab_hook_emit(slab, i))
            return false;
    slab_stub_emit_past_hooks(slab);
    return true;
}

bool slab_begin(struct slab *slab)
{
    const struct plan_header *header = slab->plan->header;
    slab->writes = NULL;
    slab->write_count = slab->write_capacity = 0;
    slab->pieces = NULL;
    slab->piece_count = 0;
    slab->recorder = slab->stubs_end = 0;
    memset(slab->reasons, 0, sizeof slab->reasons);
    slab->stubs = slab_memory_zeroed(header->site_count, sizeof *slab->stubs);
    slab->ends = slab_memory_zeroed(header->site_count, sizeof *slab->ends);
    slab->by_slot = slab_memory_list(header->site_count, sizeof *slab->by_slot);
    slab->by_slot_count = 0;
    slab->inlined = slab_memory_list(header->site_count, sizeof *slab->inlined);
    slab->bodies = calloc(header->hook_count + 1u, 1);
    slab->entries = calloc(header->hook_count + 1u, sizeof *slab->entries);
    slab->hooks = calloc(header->hook_count + 1u, sizeof *slab->hooks);
    if (slab->inlined != NULL)
        memset(slab->inlined, 0xff, (header->site_count + 1u) * sizeof *slab->inlined); /* PLAN_NONE */
    return slab->stubs != NULL && slab->ends != NULL && slab->by_slot != NULL && slab->inlined != NULL &&
           slab->bodies != NULL && slab->entries != NULL && slab->hooks != NULL;
}

bool slab_finish(struct slab *slab)
{
    return slab_write_sites(slab) && slab_write_pieces(slab);
}

int slab_make(struct slab *slab, struct base_error *error)
{
    bool has_memory = slab_begin(slab);
    if (slab->region_count == 0 || slab->counter.index < STUB_BLOCK_WORDS)
        return base_fail(error, BASE_EUNSUPPORTED, "no place for stubs or counters");
    if (!has_memory || !emit_code(slab) || !slab_finish(slab))
        return base_fail(error, BASE_ENOMEM, "no memory for the stubs of a program's calls");
    return BASE_OK;
}

void slab_free(struct slab *slab)
{
    free(slab->writes);
    free(slab->stubs);
    free(slab->ends);
    free(slab->by_slot);
    free(slab->inlined);
    free(slab->bodies);
    free(slab->entries);
    free(slab->hooks);
    free(slab->pieces);
    slab->writes = NULL;
    slab->pieces = NULL;
    slab->stubs = slab->ends = slab->entries = NULL;
    slab->inlined = slab->by_slot = NULL;
    slab->by_slot_count = 0;
    slab->bodies = NULL;
    slab->hooks = NULL;
    slab->write_count = slab->write_capacity = slab->piece_count = 0;
}

enum slab_place slab_place(const struct slab *slab, uint64_t pc, uint64_t *other)
{
    const struct slab_write *write = slab_write_around(slab, pc);
    if (write == NULL)
        return SLAB_FREE;
    if (write->hook == PLAN_NONE)
        return SLAB_STEP;
    const struct plan_hook *planned = &slab->plan->hooks[write->hook];
    struct stub_x86_64_entry entry = {.kind = (enum stub_kind)planned->kind,
                                      .length = planned->length,
                                      .address = planned->address + slab->bias,
                                      .old = planned->old};
    *other = stub_x86_64_entry_body_of(&entry, &slab->hooks[write->hook], pc);
    return *other != 0 ? SLAB_MOVED : SLAB_STEP;
}
