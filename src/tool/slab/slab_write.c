/* What is written over the text, and which pieces of code a slab has: the last step, when stubs and hooks
 * have their places. Both lists ascend by address; they are made in nearly that order, without a sort of
 * all. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"
#include "slab.h"
#include "slab_inside.h"

bool slab_write_add(struct slab *slab, const struct slab_write *write)
{
    if (!base_array_room(slab->writes, slab->write_count, slab->write_capacity))
        return false;
    slab->writes[slab->write_count++] = *write;
    return true;
}

/* Does the site lie in the bytes that a hook replaced? Then it has moved with them. */
static bool is_inside_hook(const struct slab *slab, const struct plan_site *site)
{
    uint32_t hook = slab->plan->functions[site->function].hook;
    if (hook == PLAN_NONE || slab->entries[hook] == 0)
        return false;
    const struct plan_hook *planned = &slab->plan->hooks[hook];
    return planned->kind != STUB_ENTRY_ENDBR && site->address >= planned->address &&
           site->address < planned->address + planned->length;
}

static bool add_site_write(struct slab *slab, uint32_t index)
{
    const struct plan_site *planned = &slab->plan->sites[index];
    struct stub_x86_64_request site = slab_site(slab, index);
    struct slab_write write = {
        .site = index, .hook = PLAN_NONE, .address = site.address, .length = site.length};
    struct slab_write island = {.site = index, .hook = PLAN_NONE, .address = site.island, .length = 5};
    slab_site_redirect(&site, slab->stubs[index], write.fresh, island.fresh); /* emit_stub has tried it */
    memcpy(write.old, planned->old, sizeof write.old);
    memcpy(island.old, planned->island_old, sizeof planned->island_old);
    if (stub_x86_64_site_has_island(site.kind) && !slab_write_add(slab, &island))
        return false;
    return is_inside_hook(slab, planned) || slab_write_add(slab, &write);
}

/* Insertion sort: only islands are out of order, and not by far, because a two-byte jump reaches them. */
static void sort_nearly_sorted(struct slab_write *writes, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        size_t at = i;
        while (at > 0 && writes[at - 1].address > writes[i].address)
            at--;
        if (at == i)
            continue;
        struct slab_write moved = writes[i];
        memmove(&writes[at + 1], &writes[at], (i - at) * sizeof *writes);
        writes[at] = moved;
    }
}

/* Hooks' writes ascend, and so do those of sites, but for islands: one list of both. */
bool slab_write_sites(struct slab *slab)
{
    const struct plan_header *header = slab->plan->header;
    struct slab_write *hooks = slab->writes;
    size_t hook_count = slab->write_count, hook = 0;
    bool room = true;
    slab->write_count = 0;
    slab->write_capacity = hook_count + header->site_count + header->site_count / 16 + 1;
    slab->writes = slab_memory_list(slab->write_capacity, sizeof *slab->writes);
    if (slab->writes == NULL)
        slab->write_capacity = 0;
    for (uint32_t i = 0; room && i < header->site_count; i++) {
        uint64_t address = slab->plan->sites[i].address + slab->bias;
        while (room && hook < hook_count && hooks[hook].address <= address)
            room = slab_write_add(slab, &hooks[hook++]);
        room = room && (slab->stubs[i] == 0 || add_site_write(slab, i));
    }
    while (room && hook < hook_count)
        room = slab_write_add(slab, &hooks[hook++]);
    free(hooks);
    if (room)
        sort_nearly_sorted(slab->writes, slab->write_count);
    return room;
}

static int by_address(const void *a, const void *b)
{
    uint64_t left = ((const struct slab_piece *)a)->address, right = ((const struct slab_piece *)b)->address;
    return (left > right) - (left < right);
}

static bool add_piece(struct slab *slab, uint64_t address, uint32_t site, uint32_t hook)
{
    slab->pieces[slab->piece_count++] = (struct slab_piece){address, site, hook};
    return slab->piece_count < 2 || slab->pieces[slab->piece_count - 2].address < address;
}

/* Sites' stubs ascend already, and so do hooks, but where they lie in several regions. */
bool slab_write_pieces(struct slab *slab)
{
    const struct plan_header *header = slab->plan->header;
    bool ordered = true;
    slab->pieces = slab_memory_list(header->site_count + (size_t)header->hook_count, sizeof *slab->pieces);
    if (slab->pieces == NULL)
        return false;
    for (uint32_t i = 0; i < header->site_count; i++)
        if (slab->stubs[i] != 0)
            ordered &= add_piece(slab, slab->stubs[i], i, PLAN_NONE);
    if (slab->recorder != 0)
        ordered &= add_piece(slab, slab->recorder, PLAN_NONE, PLAN_NONE);
    for (uint32_t i = 0; i < header->hook_count; i++)
        if (slab->entries[i] != 0)
            ordered &= add_piece(slab, slab->entries[i], PLAN_NONE, i);
    if (!ordered)
        qsort(slab->pieces, slab->piece_count, sizeof *slab->pieces, by_address);
    return true;
}

const struct slab_write *slab_write_around(const struct slab *slab, uint64_t pc)
{
    size_t before = base_search_below(slab->writes, slab->write_count, address, pc);
    const struct slab_write *write = before > 0 ? &slab->writes[before - 1] : NULL;
    return write != NULL && pc - write->address < write->length ? write : NULL;
}
