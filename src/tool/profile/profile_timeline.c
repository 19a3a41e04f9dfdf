/* The timeline: samples packed as variable-length numbers (differences of the times, the rest as they are),
 * in blocks that zstd compresses. When the tree is folded, a block of another kind tells which node became
 * which, so that blocks written before stay true.
 *
 * A limit ends it: thinning what is already in the file would mean writing it again, and dropping its
 * beginning would leave a report on a period that nobody asked for. Figures go on; only when they were is not
 * known any more. */
#include "profile_model.h"

#include <stdlib.h>
#include <zstd.h>

#include "base_array.h"
#include "base_text.h"
#include "wire_loss.h"

enum { BLOCK_ENTRIES = 16384, LEVEL = 3 };

static void put_number(struct base_text *text, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)(value & 127);
        value >>= 7;
        base_text_add_bytes(text, &(unsigned char){(unsigned char)(byte | (value ? 128 : 0))}, 1);
    } while (value);
}

static struct profile_block *compress_block(const struct base_text *text)
{
    size_t bound = ZSTD_compressBound(text->length);
    struct profile_block *block = text->failed ? NULL : malloc(sizeof *block + bound);
    if (!block)
        return NULL;
    *block = (struct profile_block){0};
    block->length = ZSTD_compress(block->bytes, bound, base_text_string(text), text->length, LEVEL);
    if (ZSTD_isError(block->length)) {
        free(block);
        return NULL;
    }
    struct profile_block *fitted = realloc(block, sizeof *block + block->length);
    return fitted ? fitted : block;
}

void profile_timeline_append(struct profile *profile, struct profile_block *block)
{
    struct profile_timeline *timeline = &profile->self->timeline;
    block->epoch = profile->self->folds;
    if (timeline->last)
        timeline->last->next = block;
    else
        timeline->first = block;
    timeline->last = block;
    timeline->bytes += sizeof *block + block->length;
}

void profile_timeline_seal(struct profile *profile)
{
    struct profile_timeline *timeline = &profile->self->timeline;
    struct base_text text = {0};
    uint64_t time = 0;
    if (!timeline->count)
        return;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct profile_timeline_entry *entry = &timeline->entries[i];
        uint64_t back =
            entry->time_ns < time; /* merged rings rarely step back; then the difference is negative */
        uint64_t step = back ? time - entry->time_ns : entry->time_ns - time;
        put_number(&text, step << 1 | back);
        put_number(&text, entry->thread);
        put_number(&text, entry->node);
        put_number(&text, (uint64_t)entry->cpu + 1 == 65536 ? 0 : (uint64_t)entry->cpu + 1);
        put_number(&text, entry->counter);
        time = entry->time_ns;
    }
    struct profile_block *block = compress_block(&text);
    base_text_free(&text);
    if (block) {
        block->first_ns = timeline->entries[0].time_ns;
        block->last_ns = time;
        block->entries = (uint32_t)timeline->count;
        timeline->packed_samples += timeline->count;
        timeline->packed_bytes += block->length;
        profile_timeline_append(profile, block);
    } else {
        profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, timeline->count);
    }
    timeline->count = 0;
}

void profile_timeline_add(struct profile *profile, uint64_t time_ns, uint32_t thread, uint32_t node,
                          uint16_t cpu, uint16_t counter)
{
    struct profile_timeline *timeline = &profile->self->timeline;
    timeline->used = true;
    if (timeline->limit && timeline->packed_bytes >= timeline->limit) {
        profile_lose(profile, WIRE_LOSS_TIMELINE_FULL, 1);
        return;
    }
    if (!base_array_room(timeline->entries, timeline->count, timeline->capacity)) {
        profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    timeline->entries[timeline->count++] =
        (struct profile_timeline_entry){time_ns, thread, node, cpu, counter};
    if (timeline->count == BLOCK_ENTRIES)
        profile_timeline_seal(profile);
}

void profile_timeline_limit(struct profile *profile, uint64_t bytes)
{
    profile->self->timeline.limit = bytes;
}

uint64_t profile_timeline_size(const struct profile *profile, uint64_t *bytes)
{
    *bytes = profile->self->timeline.packed_bytes;
    return profile->self->timeline.packed_samples;
}

struct profile_block *profile_timeline_pack_fold(const uint32_t *nodes, size_t count, const uint32_t *target)
{
    struct base_text text = {0};
    uint32_t entries = 0;
    for (size_t i = 0; i < count; i++) {
        if (target[nodes[i]] == nodes[i])
            continue;
        put_number(&text, nodes[i]);
        put_number(&text, target[nodes[i]]);
        entries++;
    }
    struct profile_block *block = compress_block(&text);
    base_text_free(&text);
    if (block) {
        block->fold = true;
        block->entries = entries;
    }
    return block;
}

void profile_timeline_free(struct profile *profile, bool written)
{
    struct profile_timeline *timeline = &profile->self->timeline;
    while (timeline->first) {
        struct profile_block *next = timeline->first->next;
        free(timeline->first);
        timeline->first = next;
    }
    timeline->last = NULL;
    timeline->bytes = 0;
    if (written)
        return;
    free(timeline->entries);
    timeline->entries = NULL;
    timeline->count = timeline->capacity = 0;
}
