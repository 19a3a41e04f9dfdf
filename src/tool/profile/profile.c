/* profile.c - the arrays of the model and the interning of all but nodes and cells. Each function that adds
 * makes room first (in the array, in its table), then adds: when memory runs out nothing has changed. */
#include "profile.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "profile_private.h"
#include "wire_loss.h"

enum {
    DEFAULT_MAX_NODES = 1000000,
    LONGEST_META = 1024,
    BLOCK_BYTES = 65536 - sizeof(struct profile_text_block),
};

static const size_t HIGHEST_INDEX = INT32_MAX;

/* --- life cycle --- */

static bool add_none_entries(struct profile *profile)
{
    struct profile_private *self = profile->self;
    if (!base_array_room(profile->images, 0, self->image_capacity) ||
        !base_array_room(profile->processes, 0, self->process_capacity) ||
        !base_array_room(profile->threads, 0, self->thread_capacity) ||
        !base_array_room(profile->addresses, 0, self->address_capacity) ||
        !base_array_room(profile->inlined, 0, self->inlined_capacity) ||
        !base_array_room(profile->functions, 0, self->function_capacity) ||
        !base_array_room(profile->nodes, 0, self->node_capacity) ||
        !base_array_room(profile->counters, 0, self->counter_capacity) ||
        !base_array_room(profile->edges, 0, self->edge_capacity) ||
        !base_array_room(profile->coverage, 0, self->coverage_capacity) ||
        !base_array_room(profile->left, 0, self->left_capacity) ||
        !base_array_room(profile->uncovered, 0, self->uncovered_capacity) ||
        !base_array_room(profile->peaks, 0, self->peak_capacity) ||
        !base_array_room(profile->latencies, 0, self->latency_capacity) ||
        !base_array_room(profile->latency_buckets, 0, self->latency_bucket_capacity) ||
        !base_array_room(profile->descriptors, 0, self->descriptor_capacity) ||
        !base_array_room(self->strings.texts, 0, self->strings.capacity))
        return false;
    profile->images[0] = (struct profile_image){0};
    profile->processes[0] = (struct profile_process){0};
    profile->threads[0] = (struct profile_thread){0};
    profile->addresses[0] = (struct profile_address){0};
    profile->inlined[0] = (struct profile_inlined){0};
    profile->functions[0] = (struct profile_function){0};
    profile->nodes[0] = (struct profile_node){0};
    profile->counters[0] = (struct profile_counter){0};
    profile->edges[0] = (struct profile_edge){0};
    profile->coverage[0] = (struct profile_coverage){0};
    profile->left[0] = (struct profile_left){0};
    profile->uncovered[0] = (struct profile_uncovered){0};
    profile->peaks[0] = (struct profile_peak){0};
    profile->latencies[0] = (struct profile_latency){0};
    profile->latency_buckets[0] = (struct profile_latency_bucket){0};
    profile->descriptors[0] = (struct profile_descriptor){0};
    self->strings.texts[0] = "";
    profile->image_count = profile->process_count = profile->thread_count = profile->address_count = 1;
    profile->inlined_count = profile->function_count = profile->node_count = profile->counter_count = 1;
    profile->edge_count = profile->coverage_count = profile->left_count = profile->uncovered_count = 1;
    profile->peak_count = profile->descriptor_count = profile->latency_count = profile->latency_bucket_count =
        1;
    self->latency_index.rows = self->latency_index.bucket_rows = 1;
    self->strings.count = 1;
    return true;
}

#define MARKS(self)                                                                                          \
    {                                                                                                        \
        &(self)->images, &(self)->processes, &(self)->threads, &(self)->addresses, &(self)->inlined,         \
            &(self)->functions, &(self)->nodes, &(self)->counters, &(self)->edges, &(self)->coverage,        \
            &(self)->left, &(self)->uncovered, &(self)->peaks, &(self)->descriptors, &(self)->latencies,     \
            &(self)->latency_buckets                                                                         \
    }

static void mark_none_entries_written(struct profile_private *self)
{
    struct profile_marks *marks[] = MARKS(self);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        marks[i]->written = 1;
}

struct profile *profile_new(void)
{
    struct profile *profile = calloc(1, sizeof *profile);
    if (!profile)
        return NULL;
    profile->self = calloc(1, sizeof *profile->self);
    if (!profile->self || !add_none_entries(profile)) {
        profile_free(profile);
        return NULL;
    }
    mark_none_entries_written(profile->self);
    profile->max_nodes = DEFAULT_MAX_NODES;
    return profile;
}

static void free_private(struct profile *profile)
{
    struct profile_private *self = profile->self;
    while (self->strings.blocks) {
        struct profile_text_block *next = self->strings.blocks->next;
        free(self->strings.blocks);
        self->strings.blocks = next;
    }
    free(self->strings.texts);
    for (int i = 0; i < PROFILE_TABLES; i++)
        free(self->tables[i].slots);
    struct profile_marks *marks[] = MARKS(self);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        profile_marks_free(marks[i]);
    free(self->free_nodes);
    free(self->dirty_cells);
    profile_timeline_free(profile, false);
    profile_coverage_free(profile);
    profile_latency_free(profile);
    base_map_free(&self->peak_rows);
    free(self);
}

void profile_free(struct profile *profile)
{
    if (!profile)
        return;
    if (profile->self)
        free_private(profile);
    free(profile->images);
    free(profile->processes);
    free(profile->threads);
    free(profile->addresses);
    free(profile->inlined);
    free(profile->functions);
    free(profile->nodes);
    free(profile->counters);
    free(profile->cells);
    free(profile->edges);
    free(profile->coverage);
    free(profile->left);
    free(profile->uncovered);
    free(profile->peaks);
    free(profile->latencies);
    free(profile->latency_buckets);
    free(profile->descriptors);
    free(profile->meta);
    free(profile);
}

static size_t marks_memory(const struct profile_private *self)
{
    const struct profile_marks *marks[] = MARKS(self);
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        bytes += marks[i]->capacity * sizeof *marks[i]->changed + marks[i]->bytes;
    return bytes;
}

size_t profile_memory(const struct profile *profile)
{
    const struct profile_private *self = profile->self;
    size_t bytes = sizeof *profile + sizeof *self + marks_memory(self);
    bytes += self->image_capacity * sizeof *profile->images;
    bytes += self->process_capacity * sizeof *profile->processes;
    bytes += self->thread_capacity * sizeof *profile->threads;
    bytes += self->address_capacity * sizeof *profile->addresses;
    bytes += self->inlined_capacity * sizeof *profile->inlined;
    bytes += self->function_capacity * sizeof *profile->functions;
    bytes += self->node_capacity * sizeof *profile->nodes;
    bytes += self->counter_capacity * sizeof *profile->counters;
    bytes += self->cell_capacity * sizeof *profile->cells;
    bytes += self->meta_capacity * sizeof *profile->meta;
    bytes += self->edge_capacity * sizeof *profile->edges;
    bytes += self->coverage_capacity * sizeof *profile->coverage;
    bytes += self->left_capacity * sizeof *profile->left;
    bytes += self->uncovered_capacity * sizeof *profile->uncovered + profile_coverage_memory(profile);
    bytes += self->descriptor_capacity * sizeof *profile->descriptors;
    bytes += self->peak_capacity * sizeof *profile->peaks +
             self->peak_rows.capacity * sizeof *self->peak_rows.entries;
    bytes += profile_latency_memory(profile);
    bytes += self->strings.capacity * sizeof *self->strings.texts + self->strings.bytes;
    bytes += (self->free_capacity + self->dirty_capacity) * sizeof(uint32_t);
    bytes += self->timeline.capacity * sizeof *self->timeline.entries + self->timeline.bytes;
    for (int i = 0; i < PROFILE_TABLES; i++)
        bytes += self->tables[i].capacity * sizeof *self->tables[i].slots;
    return bytes;
}

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

static bool wants(const char *text, uint32_t string)
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
    if (!wants(name, image.name) || !wants(path, image.path) || !wants(build_id, image.build_id))
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

bool profile_image_is_agent(const struct profile *profile, uint32_t image)
{
    return !strcmp(profile_text(profile, profile->images[image].name), PROFILE_AGENT_IMAGE);
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
    if (!counter.name || !wants(unit, counter.unit))
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
    if (!wants(name, wanted.name) || !image || image >= profile->image_count)
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
    if (!wants(function, wanted.function_name) || !wants(file, wanted.file) ||
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
    if (!meta.key || !wants(value, meta.value))
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
