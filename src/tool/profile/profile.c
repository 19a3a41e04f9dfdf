/* profile.c - the arrays of the model and the interning of all but nodes and cells. Each function that adds
 * makes room first (in the array, in its table), then adds: when memory runs out nothing has changed. */
#include "profile.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "profile_model.h"
#include "wire_loss.h"

enum {
    LONGEST_META = 1024,
    BLOCK_BYTES = 65536 - sizeof(struct profile_text_block),
};

static const size_t HIGHEST_INDEX = INT32_MAX;

void profile_lose(struct profile *profile, unsigned reason, uint64_t count)
{
    if (reason < PROFILE_LOSSES &&
        __builtin_add_overflow(profile->losses[reason], count, &profile->losses[reason]))
        profile->losses[reason] = UINT64_MAX;
}

static uint32_t out_of_memory(struct profile *profile)
{
    profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    return 0;
}

/* Counts the loss and says so when one more would not fit into 31 bits of index. */
static bool is_full(struct profile *profile, size_t count, size_t limit)
{
    if (count < limit)
        return false;
    profile_lose(profile, WIRE_LOSS_OVER_LIMIT, 1);
    return true;
}

/* --- strings --- */

struct string_key {
    const char *text;
    size_t length;
};

static bool same_string(const struct profile *profile, uint32_t index, const void *key)
{
    const struct string_key *wanted = key;
    return !strcmp(profile->self->strings.texts[index], wanted->text);
}

/* A place for `length` bytes that never moves. */
static char *text_room(struct profile_strings *strings, size_t length)
{
    struct profile_text_block *block = strings->blocks;
    if (!block || block->size - block->used < length) {
        size_t size = length > BLOCK_BYTES / 4 ? length : BLOCK_BYTES;
        struct profile_text_block *fresh = malloc(sizeof *fresh + size);
        if (!fresh)
            return NULL;
        *fresh = (struct profile_text_block){.size = size};
        strings->bytes += sizeof *fresh + size;
        if (block && size == length) { /* filled at once: the open block stays first */
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            strings->blocks = fresh;
        }
        block = fresh;
    }
    char *room = block->bytes + block->used;
    block->used += length;
    return room;
}

uint32_t profile_string_append(struct profile *profile, const char *text, size_t length)
{
    struct profile_strings *strings = &profile->self->strings;
    if (is_full(profile, strings->count, HIGHEST_INDEX))
        return 0;
    if (!base_array_room(strings->texts, strings->count, strings->capacity))
        return out_of_memory(profile);
    char *room = text_room(strings, length + 1);
    if (!room)
        return out_of_memory(profile);
    memcpy(room, text, length);
    room[length] = '\0';
    strings->texts[strings->count] = room;
    return (uint32_t)strings->count++;
}

uint32_t profile_string(struct profile *profile, const char *text)
{
    if (!text || !*text)
        return 0;
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_STRINGS];
    if (!profile_table_room(profile, PROFILE_TABLE_STRINGS))
        return out_of_memory(profile);
    struct string_key key = {text, strlen(text)};
    uint32_t *slot = profile_table_slot(profile, table, base_hash_bytes(text, key.length), same_string, &key);
    if (*slot)
        return *slot - 1;
    uint32_t index = profile_string_append(profile, text, key.length);
    if (index)
        profile_table_put(table, slot, index);
    return index;
}

const char *profile_text(const struct profile *profile, uint32_t string)
{
    const struct profile_strings *strings = &profile->self->strings;
    return string < strings->count ? strings->texts[string] : "";
}

/* --- images --- */

static bool same_image(const struct profile *profile, uint32_t index, const void *key)
{
    const struct profile_image *image = &profile->images[index], *wanted = key;
    return image->path == wanted->path && image->build_id == wanted->build_id &&
           image->kind == wanted->kind && image->process == wanted->process;
}

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool profile_wants(const char *text, uint32_t string)
{
    return string || !text || !*text;
}

uint32_t profile_image(struct profile *profile, uint32_t kind, const char *path, const char *build_id,
                       uint32_t process)
{
    bool is_file = kind == PROFILE_IMAGE_FILE || kind == PROFILE_IMAGE_JIT;
    const char *name = path && is_file ? last_component(path) : path;
    struct profile_image image = {profile_string(profile, name), profile_string(profile, path),
                                  profile_string(profile, build_id), kind, process};
    if (!profile_wants(name, image.name) || !profile_wants(path, image.path) ||
        !profile_wants(build_id, image.build_id))
        return 0;
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_IMAGES];
    if (!profile_table_room(profile, PROFILE_TABLE_IMAGES) ||
        !base_array_room(profile->images, profile->image_count, profile->self->image_capacity))
        return out_of_memory(profile);
    uint32_t *slot = profile_table_slot(profile, table, base_hash(image.path), same_image, &image);
    if (*slot)
        return *slot - 1;
    if (is_full(profile, profile->image_count, HIGHEST_INDEX))
        return 0;
    profile->images[profile->image_count] = image;
    profile_table_put(table, slot, (uint32_t)profile->image_count);
    return (uint32_t)profile->image_count++;
}

/* --- processes, threads, counters --- */

uint32_t profile_process(struct profile *profile, int32_t pid, uint64_t start_ns)
{
    if (is_full(profile, profile->process_count, HIGHEST_INDEX))
        return 0;
    if (!base_array_room(profile->processes, profile->process_count, profile->self->process_capacity))
        return out_of_memory(profile);
    profile->processes[profile->process_count] = (struct profile_process){.pid = pid, .start_ns = start_ns};
    return (uint32_t)profile->process_count++;
}

void profile_set_process(struct profile *profile, uint32_t process, const struct profile_process *value)
{
    if (!process || process >= profile->process_count)
        return;
    profile->processes[process] = *value;
    profile_marks_set(&profile->self->processes, process);
}

uint32_t profile_thread(struct profile *profile, uint32_t process, int32_t tid)
{
    if (is_full(profile, profile->thread_count, HIGHEST_INDEX))
        return 0;
    if (!base_array_room(profile->threads, profile->thread_count, profile->self->thread_capacity))
        return out_of_memory(profile);
    profile->threads[profile->thread_count] = (struct profile_thread){.process = process, .tid = tid};
    return (uint32_t)profile->thread_count++;
}

void profile_set_thread_name(struct profile *profile, uint32_t thread, const char *name)
{
    uint32_t string = profile_string(profile, name);
    if (!thread || thread >= profile->thread_count || profile->threads[thread].name == string)
        return;
    profile->threads[thread].name = string;
    profile_marks_set(&profile->self->threads, thread);
}

uint32_t profile_counter(struct profile *profile, const char *name, const char *unit, bool exact,
                         uint32_t combine)
{
    struct profile_counter counter = {profile_string(profile, name), profile_string(profile, unit), exact,
                                      combine};
    if (!counter.name || !profile_wants(unit, counter.unit))
        return 0;
    for (uint32_t i = 1; i < profile->counter_count; i++) {
        if (profile->counters[i].name == counter.name)
            return i;
    }
    if (is_full(profile, profile->counter_count, UINT16_MAX))
        return 0;
    if (!base_array_room(profile->counters, profile->counter_count, profile->self->counter_capacity))
        return out_of_memory(profile);
    profile->counters[profile->counter_count] = counter;
    return (uint32_t)profile->counter_count++;
}

uint32_t profile_counter_named(const struct profile *profile, const char *name)
{
    for (uint32_t i = 1; i < profile->counter_count; i++)
        if (!strcmp(profile_text(profile, profile->counters[i].name), name))
            return i;
    return 0;
}

void profile_set_sampled(struct profile *profile, uint32_t counter)
{
    if (!profile->counters[counter].exact)
        return;
    profile->counters[counter].exact = false;
    profile_marks_set(&profile->self->counters, counter);
}

/* --- addresses, functions, inlined levels --- */

static bool same_address(const struct profile *profile, uint32_t index, const void *key)
{
    const struct profile_address *address = &profile->addresses[index], *wanted = key;
    return address->address == wanted->address && address->image == wanted->image;
}

uint32_t profile_address(struct profile *profile, uint32_t image, uint64_t address)
{
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_ADDRESSES];
    if (!image || image >= profile->image_count)
        return 0;
    if (!profile_table_room(profile, PROFILE_TABLE_ADDRESSES) ||
        !base_array_room(profile->addresses, profile->address_count, profile->self->address_capacity))
        return out_of_memory(profile);
    struct profile_address wanted = {.address = address, .image = image};
    uint32_t *slot =
        profile_table_slot(profile, table, profile_hash_pair(address, image), same_address, &wanted);
    if (*slot)
        return *slot - 1;
    if (is_full(profile, profile->address_count, HIGHEST_INDEX))
        return 0;
    profile->addresses[profile->address_count] = wanted;
    profile_table_put(table, slot, (uint32_t)profile->address_count);
    return (uint32_t)profile->address_count++;
}

void profile_set_address(struct profile *profile, uint32_t address, const struct profile_address *value)
{
    if (!address || address >= profile->address_count)
        return;
    uint64_t key = profile->addresses[address].address;
    uint32_t image = profile->addresses[address].image;
    profile->addresses[address] = *value;
    profile->addresses[address].address = key; /* what it is interned by stays */
    profile->addresses[address].image = image;
    profile_marks_set(&profile->self->addresses, address);
}

static bool same_function(const struct profile *profile, uint32_t index, const void *key)
{
    const struct profile_function *function = &profile->functions[index], *wanted = key;
    return function->name == wanted->name && function->image == wanted->image &&
           function->start == wanted->start && function->end == wanted->end;
}

uint32_t profile_function(struct profile *profile, uint32_t image, const char *name, uint64_t start,
                          uint64_t end)
{
    struct profile_function wanted = {profile_string(profile, name), image, start, end};
    if (!profile_wants(name, wanted.name) || !image || image >= profile->image_count)
        return 0;
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_FUNCTIONS];
    if (!profile_table_room(profile, PROFILE_TABLE_FUNCTIONS) ||
        !base_array_room(profile->functions, profile->function_count, profile->self->function_capacity))
        return out_of_memory(profile);
    uint32_t *slot =
        profile_table_slot(profile, table, profile_hash_pair(start, wanted.name), same_function, &wanted);
    if (*slot)
        return *slot - 1;
    if (is_full(profile, profile->function_count, HIGHEST_INDEX))
        return 0;
    profile->functions[profile->function_count] = wanted;
    profile_table_put(table, slot, (uint32_t)profile->function_count);
    return (uint32_t)profile->function_count++;
}

static bool same_inlined(const struct profile *profile, uint32_t index, const void *key)
{
    const struct profile_inlined *inlined = &profile->inlined[index], *wanted = key;
    return inlined->function_name == wanted->function_name && inlined->file == wanted->file &&
           inlined->line == wanted->line && inlined->outer == wanted->outer;
}

uint32_t profile_inlined(struct profile *profile, const char *function, const char *file, uint32_t line,
                         uint32_t outer)
{
    struct profile_inlined wanted = {profile_string(profile, function), profile_string(profile, file), line,
                                     outer};
    if (!profile_wants(function, wanted.function_name) || !profile_wants(file, wanted.file) ||
        outer >= profile->inlined_count)
        return 0;
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_INLINED];
    if (!profile_table_room(profile, PROFILE_TABLE_INLINED) ||
        !base_array_room(profile->inlined, profile->inlined_count, profile->self->inlined_capacity))
        return out_of_memory(profile);
    uint64_t hash = profile_hash_pair((uint64_t)wanted.function_name << 32 | line, outer);
    uint32_t *slot = profile_table_slot(profile, table, hash, same_inlined, &wanted);
    if (*slot)
        return *slot - 1;
    if (is_full(profile, profile->inlined_count, HIGHEST_INDEX))
        return 0;
    profile->inlined[profile->inlined_count] = wanted;
    profile_table_put(table, slot, (uint32_t)profile->inlined_count);
    return (uint32_t)profile->inlined_count++;
}

/* --- meta --- */

void profile_set_meta(struct profile *profile, const char *key, const char *value)
{
    struct profile_meta meta = {profile_string(profile, key), profile_string(profile, value)};
    if (!meta.key || !profile_wants(value, meta.value))
        return;
    for (size_t i = 0; i < profile->meta_count; i++) {
        if (profile->meta[i].key == meta.key) {
            profile->self->meta_changed |= profile->meta[i].value != meta.value;
            profile->meta[i].value = meta.value;
            return;
        }
    }
    if (!base_array_room(profile->meta, profile->meta_count, profile->self->meta_capacity)) {
        out_of_memory(profile);
        return;
    }
    profile->meta[profile->meta_count++] = meta;
    profile->self->meta_changed = true;
}

void profile_set_metaf(struct profile *profile, const char *key, const char *format, ...)
{
    char text[LONGEST_META];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    profile_set_meta(profile, key, text);
}

const char *profile_meta(const struct profile *profile, const char *key)
{
    for (size_t i = 0; i < profile->meta_count; i++) {
        if (!strcmp(profile_text(profile, profile->meta[i].key), key))
            return profile_text(profile, profile->meta[i].value);
    }
    return NULL;
}

const char *profile_origin(const struct profile *profile, uint32_t origin, const char *key)
{
    char name[256];
    if (!origin)
        return NULL;
    snprintf(name, sizeof name, "origin.%u.%s", origin, key);
    return profile_meta(profile, name);
}
