/* import_pprof.c - profile.proto, the format of pprof. Source: proto/profile.proto of the pprof project.
 *
 * 1. Everything but samples is read first: fields come in any order, and samples name the rest by number.
 * 2. Sample types become counters. One that counts samples ("samples", or "NAME.samples" for one counter of
 * several) is no counter
 *    but says how many samples stand behind the figures of another: of the type that the period is of, else
 *    of the next.
 *    Without it a counter has no intervals.
 * 3. Locations become addresses when a sample has them: of the image, if there is a mapping. Names are those
 * of the file; what
 *    has none is looked for in the image, as after recording.
 * 4. Samples become cells. Labels that tell of a process or a thread make those; others are left out, and
 * named in a notice.
 *
 * What tally export writes comes back as it was: marks, exact calls, losses. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_map.h"
#include "base_text.h"
#include "import_formats.h"
#include "import_images.h"
#include "import_proto.h"
#include "import_stack.h"
#include "profile_extent.h"
#include "profile_heap.h"
#include "profile_loss.h"
#include "wire_loss.h"

enum profile_field {
    SAMPLE_TYPE = 1,
    SAMPLE,
    MAPPING,
    LOCATION,
    FUNCTION,
    STRING,
    DROP_FRAMES,
    KEEP_FRAMES,
    TIME_NANOS,
    DURATION_NANOS,
    PERIOD_TYPE,
    PERIOD,
    COMMENT,
    DEFAULT_SAMPLE_TYPE,
    LAST_FIELD = 15, /* doc_url */
};

enum { TYPES_MOST = 64, LEVELS_MOST = 64, UNKNOWN_LABELS = 5, COMMENTS_MOST = 100 };

struct type {
    uint64_t name, unit; /* strings */
    uint16_t counter;    /* 0: it counts the samples of another one, or calls */
    int samples;         /* which type counts its samples; -1: none */
    int64_t scale;       /* what values are multiplied by */
    bool calls, counts;  /* exact calls; samples of another */
};

struct mapping {
    uint64_t start, offset, file, build_id;
    uint32_t kind;
    size_t image; /* of import_images, when kind is a file's */
    bool opened;
};

struct location {
    uint64_t mapping, address;
    struct import_proto message; /* for its lines */
    uint32_t made;               /* address of the profile; 0: not yet */
};

struct function {
    uint64_t name, file;
};

struct pprof {
    struct profile *profile;
    char *text;      /* all strings, each terminated */
    size_t *strings; /* where they begin */
    size_t string_count, string_capacity, text_length;
    struct type types[TYPES_MOST];
    size_t type_count;
    struct mapping *mappings;
    struct location *locations;
    struct function *functions;
    size_t mapping_count, mapping_capacity, location_count, location_capacity, function_count,
        function_capacity;
    struct base_map mapping_of, location_of, function_of; /* by their ids */
    struct type period_type;
    uint64_t default_type, drop, keep;
    int64_t time, duration, period;
    struct import_images images;
    struct import_stack stack;
    struct base_map processes, threads; /* hashes of what labels say */
    uint64_t unknown_labels[UNKNOWN_LABELS];
    size_t unknown_count;
    size_t comment_count; /* those that were put into notices */
    uint32_t nowhere;
    bool from_tally, no_memory;
};

/* --- 1. everything but samples --- */

static const char *string_of(const struct pprof *pprof, uint64_t index)
{
    return index < pprof->string_count ? pprof->text + pprof->strings[index] : "";
}

static void add_string(struct pprof *pprof, const struct import_proto *bytes)
{
    size_t length = (size_t)(bytes->end - bytes->at);
    if (!base_array_room(pprof->strings, pprof->string_count, pprof->string_capacity)) {
        pprof->no_memory = true;
        return;
    }
    pprof->strings[pprof->string_count++] = pprof->text_length;
    memcpy(pprof->text + pprof->text_length, bytes->at, length);
    pprof->text[pprof->text_length + length] = '\0';
    pprof->text_length += length + 1;
}

/* The numbers of a message, field by field up to `most`; those that are not there stay. */
static bool read_numbers(struct import_proto message, uint64_t *numbers, uint32_t most)
{
    struct import_proto_field field;
    while (import_proto_next(&message, &field))
        if (field.number <= most && !field.is_bytes)
            numbers[field.number] = field.value;
    return !message.damaged;
}

static bool read_type(struct import_proto message, struct type *type)
{
    uint64_t numbers[3] = {0};
    bool good = read_numbers(message, numbers, 2);
    *type = (struct type){.name = numbers[1], .unit = numbers[2], .samples = -1, .scale = 1};
    return good;
}

static bool remember(struct pprof *pprof, struct base_map *map, uint64_t id, size_t index)
{
    if (base_map_set(map, id, (uint32_t)index))
        return true;
    pprof->no_memory = true;
    return false;
}

static bool add_mapping(struct pprof *pprof, struct import_proto message)
{
    uint64_t numbers[7] = {0};
    if (!read_numbers(message, numbers, 6))
        return false;
    if (!base_array_room(pprof->mappings, pprof->mapping_count, pprof->mapping_capacity)) {
        pprof->no_memory = true;
        return false;
    }
    pprof->mappings[pprof->mapping_count] = (struct mapping){
        .start = numbers[2], .offset = numbers[4], .file = numbers[5], .build_id = numbers[6]};
    return remember(pprof, &pprof->mapping_of, numbers[1], pprof->mapping_count++);
}

static bool add_location(struct pprof *pprof, struct import_proto message)
{
    uint64_t numbers[4] = {0};
    if (!read_numbers(message, numbers, 3))
        return false;
    if (!base_array_room(pprof->locations, pprof->location_count, pprof->location_capacity)) {
        pprof->no_memory = true;
        return false;
    }
    pprof->locations[pprof->location_count] =
        (struct location){.mapping = numbers[2], .address = numbers[3], .message = message};
    return remember(pprof, &pprof->location_of, numbers[1], pprof->location_count++);
}

static bool add_function(struct pprof *pprof, struct import_proto message)
{
    uint64_t numbers[5] = {0};
    if (!read_numbers(message, numbers, 4))
        return false;
    if (!base_array_room(pprof->functions, pprof->function_count, pprof->function_capacity)) {
        pprof->no_memory = true;
        return false;
    }
    pprof->functions[pprof->function_count] =
        (struct function){.name = numbers[2] ? numbers[2] : numbers[3], .file = numbers[4]};
    return remember(pprof, &pprof->function_of, numbers[1], pprof->function_count++);
}

static bool add_message(struct pprof *pprof, const struct import_proto_field *field)
{
    switch ((enum profile_field)field->number) {
    case SAMPLE_TYPE:
        return pprof->type_count < TYPES_MOST && read_type(field->bytes, &pprof->types[pprof->type_count++]);
    case MAPPING:
        return add_mapping(pprof, field->bytes);
    case LOCATION:
        return add_location(pprof, field->bytes);
    case FUNCTION:
        return add_function(pprof, field->bytes);
    case STRING:
        add_string(pprof, &field->bytes);
        return !pprof->no_memory;
    case PERIOD_TYPE:
        return read_type(field->bytes, &pprof->period_type);
    default:
        return true;
    }
}

static void add_number(struct pprof *pprof, const struct import_proto_field *field)
{
    switch ((enum profile_field)field->number) {
    case DROP_FRAMES:
        pprof->drop = field->value;
        break;
    case KEEP_FRAMES:
        pprof->keep = field->value;
        break;
    case TIME_NANOS:
        pprof->time = (int64_t)field->value;
        break;
    case DURATION_NANOS:
        pprof->duration = (int64_t)field->value;
        break;
    case PERIOD:
        pprof->period = (int64_t)field->value;
        break;
    case DEFAULT_SAMPLE_TYPE:
        pprof->default_type = field->value;
        break;
    default:
        break;
    }
}

static int fail(const struct pprof *pprof, struct base_error *error)
{
    return pprof->no_memory ? base_fail(error, BASE_ENOMEM, "out of memory")
                            : base_fail(error, BASE_EFORMAT, "it is a damaged pprof file, or cut off");
}

static int read_tables(struct pprof *pprof, struct import_proto whole, struct base_error *error)
{
    struct import_proto_field field;
    while (import_proto_next(&whole, &field)) {
        if (!field.is_bytes)
            add_number(pprof, &field);
        else if (!add_message(pprof, &field))
            return fail(pprof, error);
    }
    if (whole.damaged)
        return fail(pprof, error);
    return pprof->type_count ? BASE_OK : base_fail(error, BASE_EFORMAT, "it has no type of samples");
}

/* Does every field fit, and is any of them a sample type? The first few will tell. */
bool import_pprof_is(const uint8_t *bytes, size_t size)
{
    struct import_proto whole = import_proto_of(bytes, size);
    struct import_proto_field field;
    bool types = false;
    for (int i = 0; i < 1000 && import_proto_next(&whole, &field); i++) {
        bool is_message = field.number <= STRING || field.number == PERIOD_TYPE;
        if (field.number > LAST_FIELD || (is_message && !field.is_bytes))
            return false;
        types |= field.number == SAMPLE_TYPE;
    }
    return types && !whole.damaged;
}

/* --- 2. types to counters --- */

static bool same(const struct pprof *pprof, uint64_t string, const char *text)
{
    return !strcmp(string_of(pprof, string), text);
}

/* The type that counts samples of `type` by its name: "NAME.samples", or "NAME_sample" beside
 * "NAME_event". */
static bool counts_samples_of(const struct pprof *pprof, const struct type *count, const struct type *type)
{
    const char *name = string_of(pprof, type->name), *other = string_of(pprof, count->name);
    size_t length = strlen(name);
    if (!strncmp(other, name, length) && !strcmp(other + length, ".samples"))
        return true;
    return length > 6 && !strcmp(name + length - 6, "_event") && !strncmp(other, name, length - 6) &&
           !strcmp(other + length - 6, "_sample");
}

static int find_type(const struct pprof *pprof, uint64_t name)
{
    for (size_t i = 0; i < pprof->type_count; i++)
        if (*string_of(pprof, name) && same(pprof, pprof->types[i].name, string_of(pprof, name)))
            return (int)i;
    return -1;
}

/* Which type's samples the plain "samples" are. */
static void pair_samples(struct pprof *pprof, size_t samples)
{
    int of = find_type(pprof, pprof->period_type.name);
    if (of < 0 || of == (int)samples)
        of = samples + 1 < pprof->type_count ? (int)samples + 1 : -1;
    if (of < 0)
        return;
    pprof->types[of].samples = (int)samples;
    pprof->types[samples].counts = true;
}

static void pair_types(struct pprof *pprof)
{
    for (size_t i = 0; i < pprof->type_count; i++) {
        struct type *type = &pprof->types[i];
        if (!same(pprof, type->unit, "count"))
            continue;
        if (same(pprof, type->name, "samples"))
            pair_samples(pprof, i);
        type->calls = pprof->from_tally && same(pprof, type->name, PROFILE_CALLS);
        for (size_t j = 0; j < pprof->type_count; j++) {
            if (j == i || !counts_samples_of(pprof, type, &pprof->types[j]))
                continue;
            pprof->types[j].samples = (int)i;
            type->counts = true;
        }
    }
    for (size_t i = 0; i < pprof->type_count; i++)
        if (same(pprof, pprof->types[i].name, "samples") && !pprof->types[i].counts)
            pprof->types[i].samples = (int)i; /* nothing but samples: they count themselves */
}

/* What is a time in ns is so here as well. */
static const char *unit_of(const struct pprof *pprof, struct type *type)
{
    static const struct {
        const char *unit;
        int64_t scale;
    } times[] = {
        {"nanoseconds", 1}, {"microseconds", 1000}, {"milliseconds", 1000000}, {"seconds", 1000000000}};
    const char *unit = string_of(pprof, type->unit);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (strcmp(unit, times[i].unit))
            continue;
        type->scale = times[i].scale;
        return "ns";
    }
    return unit;
}

static uint32_t combine_of(const struct pprof *pprof, const char *name)
{
    if (!pprof->from_tally)
        return PROFILE_SUM;
    static const char *const live[] = {"heap.peak", "heap.live", "heap.live.count", "map.live"};
    static const char *const peaks[] = {"heap.max", "heap.largest", "heap.live.age"};
    for (size_t i = 0; i < sizeof live / sizeof *live; i++)
        if (!strcmp(name, live[i]))
            return PROFILE_LIVE;
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        if (!strcmp(name, peaks[i]))
            return PROFILE_PEAK;
    return PROFILE_SUM;
}

/* "cpu" in nanoseconds is what Tally calls time.cpu. */
static bool make_counter(struct pprof *pprof, struct type *type)
{
    const char *unit = unit_of(pprof, type), *name = string_of(pprof, type->name);
    if (!strcmp(name, "cpu") && !strcmp(unit, "ns"))
        name = "time.cpu";
    type->counter = (uint16_t)profile_counter(pprof->profile, *name ? name : "value", unit, type->samples < 0,
                                              combine_of(pprof, name));
    return type->counter;
}

static bool make_counters(struct pprof *pprof)
{
    int first = find_type(pprof, pprof->default_type);
    pair_types(pprof);
    if (first >= 0 && !pprof->types[first].counts && !pprof->types[first].calls &&
        !make_counter(pprof, &pprof->types[first]))
        return false;
    for (size_t i = 0; i < pprof->type_count; i++) {
        struct type *type = &pprof->types[i];
        if (type->calls && !profile_calls_counter(pprof->profile))
            return false;
        if (!type->counter && !type->counts && !type->calls && !make_counter(pprof, type))
            return false;
    }
    return true;
}

/* --- 3. locations to addresses --- */

static struct mapping *mapping_of(struct pprof *pprof, uint64_t id)
{
    uint32_t index = id ? base_map_find(&pprof->mapping_of, id) : BASE_MAP_NONE;
    return index == BASE_MAP_NONE ? NULL : &pprof->mappings[index];
}

static bool open_mapping(struct pprof *pprof, struct mapping *mapping, uint64_t address)
{
    const char *path = string_of(pprof, mapping->file);
    if (mapping->opened)
        return true;
    mapping->kind = import_images_kind(path, address);
    mapping->image = mapping->kind == PROFILE_IMAGE_FILE
                         ? import_images_find(&pprof->images, path, string_of(pprof, mapping->build_id))
                         : 0;
    mapping->opened = mapping->image != SIZE_MAX;
    pprof->no_memory |= !mapping->opened;
    return mapping->opened;
}

static uint32_t image_of(struct pprof *pprof, const struct mapping *mapping)
{
    if (!mapping || mapping->kind == PROFILE_IMAGE_SPECIAL)
        return pprof->nowhere;
    if (mapping->kind == PROFILE_IMAGE_FILE)
        return pprof->images.items[mapping->image].image;
    const char *path = string_of(pprof, mapping->file);
    bool kernel = mapping->kind == PROFILE_IMAGE_KERNEL && !strncmp(path, "[kernel", 7);
    return profile_image(pprof->profile, mapping->kind, kernel ? "[kernel]" : path,
                         string_of(pprof, mapping->build_id), 0);
}

/* A mapping that begins at 0 is none that a kernel made: its addresses are the image's own, as in Tally's
 * exports. */
static uint64_t image_address(const struct pprof *pprof, const struct mapping *mapping, uint64_t address)
{
    if (mapping->kind != PROFILE_IMAGE_FILE || !mapping->start || address < mapping->start)
        return address;
    return import_images_address(&pprof->images, mapping->image, address - mapping->start + mapping->offset);
}

/* The lines of a location, innermost first; of too many, those just inside the outermost are left out. */
static size_t read_lines(const struct pprof *pprof, struct import_proto message,
                         struct import_stack_level *levels)
{
    struct import_proto_field field;
    size_t count = 0;
    while (import_proto_next(&message, &field)) {
        uint64_t numbers[3] = {0};
        if (field.number != 4 || !field.is_bytes || !read_numbers(field.bytes, numbers, 2))
            continue;
        uint32_t index = base_map_find(&pprof->function_of, numbers[1]);
        struct function function = {0};
        if (index != BASE_MAP_NONE)
            function = pprof->functions[index];
        const char *name = string_of(pprof, function.name);
        count -= count == LEVELS_MOST;
        levels[count++] =
            (struct import_stack_level){.name = *name ? name : "[unknown]",
                                        .file = string_of(pprof, function.file),
                                        .line = numbers[2] < UINT32_MAX ? (uint32_t)numbers[2] : 0};
    }
    return count;
}

/* Nobody will look for its name: an export of Tally's has found none, and this machine's kernel is another
 * one. */
static uint32_t without_name(struct profile *profile, uint32_t address)
{
    struct profile_address value = profile->addresses[address];
    if (address && value.resolution == PROFILE_UNRESOLVED) {
        value.resolution = PROFILE_NO_SYMBOL;
        value.lines_known = true;
        profile_set_address(profile, address, &value);
    }
    return address;
}

/* Without lines: the image is asked at the end, if it can be. */
static uint32_t nameless(struct pprof *pprof, const struct mapping *mapping, uint32_t image, uint64_t address)
{
    char name[32];
    if (image == pprof->nowhere) {
        snprintf(name, sizeof name, "0x%llx", (unsigned long long)address);
        return import_stack_named(pprof->profile, image, &(struct import_stack_level){.name = name}, NULL, 0);
    }
    uint32_t made = profile_address(pprof->profile, image, address);
    if (mapping->kind != PROFILE_IMAGE_FILE)
        return without_name(pprof->profile, made);
    import_images_need(&pprof->images, mapping->image);
    return made;
}

/* "IMAGE+0xADDRESS": what Tally's exports call an address that has no name. */
static bool is_nameless(const struct pprof *pprof, uint32_t image, uint64_t address, const char *name)
{
    const struct profile *profile = pprof->profile;
    const char *file = profile_text(profile, profile->images[image].name);
    char digits[32];
    size_t length = strlen(file);
    snprintf(digits, sizeof digits, "+0x%llx", (unsigned long long)address);
    return pprof->from_tally && !strncmp(name, file, length) && !strcmp(name + length, digits);
}

static uint32_t make_address(struct pprof *pprof, const struct location *location, bool callee)
{
    struct mapping *mapping = mapping_of(pprof, location->mapping);
    struct import_stack_level levels[LEVELS_MOST];
    uint64_t address = location->address, start = 0, end = 0;
    if (mapping && !open_mapping(pprof, mapping, address))
        return 0;
    size_t count = read_lines(pprof, location->message, levels);
    uint32_t image = image_of(pprof, mapping);
    if (!image)
        return 0;
    address = mapping ? image_address(pprof, mapping, address) : address;
    if (!count)
        return nameless(pprof, mapping, image, address);
    const struct import_stack_level *function = &levels[count - 1];
    if (count == 1 && !function->line && is_nameless(pprof, image, address, function->name))
        return without_name(pprof->profile, profile_address(pprof->profile, image, address));
    if (image == pprof->nowhere || !address)
        return import_stack_named(pprof->profile, image, function, levels, count - 1);
    if (mapping->kind == PROFILE_IMAGE_FILE)
        import_images_bounds(&pprof->images, mapping->image, address, &start, &end);
    uint32_t made = profile_address(pprof->profile, image, address);
    if (!made || (callee && pprof->profile->addresses[made].function))
        return made; /* of a callee only the function is known, not what is inlined where it begins */
    return import_stack_name(pprof->profile, made, function, start, end, levels, count - 1);
}

static uint32_t address_of(struct pprof *pprof, uint64_t id, bool callee)
{
    uint32_t index = base_map_find(&pprof->location_of, id);
    if (index == BASE_MAP_NONE)
        return import_stack_named(pprof->profile, pprof->nowhere,
                                  &(struct import_stack_level){.name = "[unknown]"}, NULL, 0);
    struct location *location = &pprof->locations[index];
    if (!location->made)
        location->made = make_address(pprof, location, callee);
    pprof->no_memory |= !location->made;
    return location->made;
}

/* Is a location one of the marks that Tally's exports have? */
static const char *mark_of(const struct pprof *pprof, uint64_t id)
{
    struct import_stack_level levels[LEVELS_MOST];
    uint32_t index = base_map_find(&pprof->location_of, id);
    if (index == BASE_MAP_NONE || pprof->locations[index].mapping || pprof->locations[index].address)
        return NULL;
    size_t count = read_lines(pprof, pprof->locations[index].message, levels);
    return count == 1 ? levels[0].name : NULL;
}

/* --- 4. samples to cells --- */

struct labels {
    uint64_t process, thread, origin, call; /* strings */
    int64_t pid, tid;
};

struct sample {
    uint64_t *locations; /* the leaf first */
    size_t count, capacity;
    int64_t values[TYPES_MOST];
    struct labels labels;
};

static void note_label(struct pprof *pprof, uint64_t key)
{
    for (size_t i = 0; i < pprof->unknown_count; i++)
        if (pprof->unknown_labels[i] == key)
            return;
    if (pprof->unknown_count < UNKNOWN_LABELS)
        pprof->unknown_labels[pprof->unknown_count++] = key;
}

static bool read_label(struct pprof *pprof, struct import_proto message, struct labels *labels)
{
    uint64_t numbers[4] = {0};
    bool good = read_numbers(message, numbers, 3);
    const char *key = string_of(pprof, numbers[1]);
    if (!strcmp(key, "process") || !strcmp(key, "comm"))
        labels->process = numbers[2];
    else if (!strcmp(key, "pid"))
        labels->pid = (int64_t)numbers[3];
    else if (!strcmp(key, "thread"))
        labels->thread = numbers[2];
    else if (!strcmp(key, "tid"))
        labels->tid = (int64_t)numbers[3];
    else if (pprof->from_tally && !strcmp(key, "origin"))
        labels->origin = numbers[2];
    else if (pprof->from_tally && !strcmp(key, "call"))
        labels->call = numbers[2];
    else
        note_label(pprof, numbers[1]);
    return good;
}

static bool read_locations(struct pprof *pprof, struct import_proto_field *field, struct sample *sample)
{
    uint64_t id;
    while (import_proto_number(field, &id)) {
        if (!base_array_room(sample->locations, sample->count, sample->capacity)) {
            pprof->no_memory = true;
            return false;
        }
        sample->locations[sample->count++] = id;
    }
    return !field->bytes.damaged;
}

static bool read_sample(struct pprof *pprof, struct import_proto message, struct sample *sample)
{
    struct import_proto_field field;
    size_t values = 0;
    uint64_t value;
    sample->count = 0;
    sample->labels = (struct labels){0};
    memset(sample->values, 0, sizeof sample->values);
    while (import_proto_next(&message, &field)) {
        if (field.number == 1 && !read_locations(pprof, &field, sample))
            return false;
        while (field.number == 2 && values < pprof->type_count && import_proto_number(&field, &value))
            sample->values[values++] = (int64_t)value;
        if (field.number == 3 && field.is_bytes && !read_label(pprof, field.bytes, &sample->labels))
            return false;
    }
    return !message.damaged && values == pprof->type_count;
}

static uint64_t hash_text(const struct pprof *pprof, uint64_t hash, uint64_t string)
{
    const char *text = string_of(pprof, string);
    return base_hash(hash ^ base_hash_bytes(text, strlen(text)));
}

static uint32_t process_of(struct pprof *pprof, const struct labels *labels)
{
    uint64_t key = hash_text(pprof, hash_text(pprof, (uint64_t)labels->pid, labels->process), labels->origin);
    uint32_t process = base_map_find(&pprof->processes, key);
    if (process != BASE_MAP_NONE)
        return process;
    process = profile_process(pprof->profile, (int32_t)labels->pid, 0);
    if (!process || !remember(pprof, &pprof->processes, key, process))
        return 0;
    struct profile_process value = pprof->profile->processes[process];
    value.name = profile_string(pprof->profile, string_of(pprof, labels->process));
    profile_set_process(pprof->profile, process, &value);
    return process;
}

/* 0: labels say nothing of it. */
static uint32_t thread_of(struct pprof *pprof, const struct labels *labels)
{
    if (!labels->process && !labels->pid && !labels->thread && !labels->tid)
        return 0;
    uint32_t process = process_of(pprof, labels);
    uint64_t key = hash_text(pprof, (uint64_t)labels->tid << 32 | process, labels->thread);
    uint32_t thread = base_map_find(&pprof->threads, key);
    if (thread != BASE_MAP_NONE)
        return thread;
    thread = process ? profile_thread(pprof->profile, process, (int32_t)labels->tid) : 0;
    if (!thread || !remember(pprof, &pprof->threads, key, thread)) {
        pprof->no_memory = true;
        return 0;
    }
    profile_set_thread_name(pprof->profile, thread,
                            string_of(pprof, labels->thread ? labels->thread : labels->process));
    return thread;
}

static uint32_t node_of(struct pprof *pprof, const struct sample *sample)
{
    import_stack_begin(&pprof->stack);
    for (size_t i = sample->count; i-- > 0;) {
        const char *mark = mark_of(pprof, sample->locations[i]);
        if (mark && import_stack_mark(&pprof->stack, mark))
            continue;
        uint32_t address = address_of(pprof, sample->locations[i], false);
        uint32_t image = address ? pprof->profile->addresses[address].image : 0;
        bool kernel = pprof->profile->images[image].kind == PROFILE_IMAGE_KERNEL;
        import_stack_add(&pprof->stack, address, kernel ? PROFILE_NODE_KERNEL : 0);
    }
    uint32_t node = import_stack_node(&pprof->stack);
    pprof->no_memory |= pprof->stack.failed;
    return node;
}

static int64_t scaled(int64_t value, int64_t scale)
{
    int64_t product;
    if (__builtin_mul_overflow(value, scale, &product))
        return value < 0 ? INT64_MIN : INT64_MAX;
    return product;
}

static void count_sample(struct pprof *pprof, const struct sample *sample)
{
    uint32_t thread = thread_of(pprof, &sample->labels);
    uint32_t node = node_of(pprof, sample);
    for (size_t i = 0; i < pprof->type_count && !pprof->no_memory; i++) {
        const struct type *type = &pprof->types[i];
        int64_t samples = type->samples >= 0 ? sample->values[type->samples] : 0;
        if (type->counter && (sample->values[i] || samples > 0))
            profile_count(pprof->profile, node, thread, PROFILE_NO_CPU, type->counter,
                          scaled(sample->values[i], type->scale), samples > 0 ? (uint64_t)samples : 0);
    }
}

/* Of Tally's exports: a callee and a site. */
static bool count_calls(struct pprof *pprof, const struct sample *sample, int64_t calls)
{
    static const char *const kinds[PROFILE_CALL_KINDS] = {"", "direct", "indirect", "tail", "entry"};
    uint32_t kind = PROFILE_CALL_KINDS;
    while (--kind && !same(pprof, sample->labels.call, kinds[kind]))
        ;
    if (sample->count != 2 || !kind || calls < 0)
        return false;
    const char *unknown = mark_of(pprof, sample->locations[1]);
    uint32_t callee = address_of(pprof, sample->locations[0], true);
    uint32_t site =
        unknown && !strcmp(unknown, "[unknown]") ? 0 : address_of(pprof, sample->locations[1], false);
    uint32_t edge = profile_edge(pprof->profile, site, callee, thread_of(pprof, &sample->labels), kind);
    pprof->no_memory |= !edge;
    profile_add_calls(pprof->profile, edge, (uint64_t)calls);
    return true;
}

static bool add_sample(struct pprof *pprof, const struct sample *sample)
{
    for (size_t i = 0; i < pprof->type_count; i++)
        if (pprof->types[i].calls && sample->values[i])
            return count_calls(pprof, sample, sample->values[i]);
    count_sample(pprof, sample);
    return true;
}

static int read_samples(struct pprof *pprof, struct import_proto whole, struct base_error *error)
{
    struct import_proto_field field;
    struct sample sample = {0};
    bool good = true;
    while (good && !pprof->no_memory && import_proto_next(&whole, &field))
        if (field.number == SAMPLE && field.is_bytes)
            good = read_sample(pprof, field.bytes, &sample) && add_sample(pprof, &sample);
    free(sample.locations);
    return good && !pprof->no_memory ? BASE_OK : fail(pprof, error);
}

/* --- what was recorded --- */

/* Some are for people; so many that the notice would be most of the profile are not. */
static void note_comment(struct pprof *pprof, const char *what, const char *comment)
{
    if (pprof->comment_count < COMMENTS_MOST)
        import_stack_notice(pprof->profile, "%s: %s", what, comment);
    else if (pprof->comment_count == COMMENTS_MOST)
        import_stack_notice(pprof->profile, "further comments are left out");
    pprof->comment_count++;
}

/* "NUMBER SENTENCE" of a loss, or "NUMBER loss NUMBER" of one that had no sentence where it was exported */
static void take_loss(struct pprof *pprof, const char *text)
{
    char *end, later[32];
    uint64_t count = strtoull(text, &end, 10);
    for (unsigned i = 0; i < PROFILE_LOSSES; i++) {
        const char *known = profile_loss_text(i);
        snprintf(later, sizeof later, "loss %u", i);
        if (*end != ' ' || (strcmp(end + 1, later) != 0 && (!known || strcmp(end + 1, known) != 0)))
            continue;
        if (i == WIRE_LOSS_OUT_OF_MEMORY) /* here that would say that the import failed */
            note_comment(pprof, "lost when it was recorded", text);
        else
            profile_lose(pprof->profile, i, count);
    }
}

/* Of counters that are there: a file may have any number of others. */
static void take_partial(struct pprof *pprof, const char *comment, const char *colon)
{
    struct base_text key = {0};
    base_text_add_bytes(&key, comment, (size_t)(colon - comment));
    if (key.failed)
        profile_lose(pprof->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    else if (profile_counter_named(pprof->profile, base_text_string(&key) + strlen(PROFILE_EXTENT_PARTIAL)))
        profile_set_meta(pprof->profile, base_text_string(&key), colon + 2);
    base_text_free(&key);
}

/* "KEY: VALUE", as Tally's exports have it */
static void take_comment(struct pprof *pprof, const char *comment)
{
    static const char *const keys[] = {
        "command",           "hostname",     "kernel", "target_cpu_ns", "overhead_tool_cpu_ns",
        "no_samples_reason", "throws_absent"};
    const char *colon = strstr(comment, ": ");
    if (!colon)
        return;
    if (!strncmp(comment, "lost: ", 6))
        take_loss(pprof, colon + 2);
    if (!strncmp(comment, "unfinished: ", 12))
        import_stack_partial(pprof->profile, colon + 2);
    if (!strncmp(comment, PROFILE_EXTENT_PARTIAL, strlen(PROFILE_EXTENT_PARTIAL)))
        take_partial(pprof, comment, colon);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i]) == (size_t)(colon - comment) && !strncmp(comment, keys[i], strlen(keys[i])))
            profile_set_meta(pprof->profile, keys[i], colon + 2);
}

/* Comments of others are for people: they go where notes are. */
static void read_comments(struct pprof *pprof, struct import_proto whole, bool take)
{
    struct import_proto_field field;
    uint64_t string;
    while (import_proto_next(&whole, &field)) {
        while (field.number == COMMENT && import_proto_number(&field, &string)) {
            const char *comment = string_of(pprof, string);
            pprof->from_tally |= !strncmp(comment, "exported by: tally ", 19);
            if (take && pprof->from_tally)
                take_comment(pprof, comment);
            else if (take && *comment)
                note_comment(pprof, "comment", comment);
        }
    }
}

static void tell_left_out(struct pprof *pprof)
{
    struct base_text text = {0};
    for (size_t i = 0; i < pprof->unknown_count; i++)
        base_text_addf(&text, "%s%s", i ? ", " : "", string_of(pprof, pprof->unknown_labels[i]));
    if (text.length)
        import_stack_notice(pprof->profile, "labels that were left out: %s", base_text_string(&text));
    base_text_clear(&text);
    for (size_t i = 1; i < pprof->profile->counter_count && !pprof->from_tally; i++) {
        const struct profile_counter *counter = &pprof->profile->counters[i];
        if (counter->exact)
            base_text_addf(&text, "%s%s", text.length ? ", " : "",
                           profile_text(pprof->profile, counter->name));
    }
    if (text.length)
        import_stack_notice(pprof->profile,
                            "the file does not say how many samples are behind %s: no intervals",
                            base_text_string(&text));
    if (profile_counts_calls(pprof->profile)) {
        import_stack_notice(pprof->profile,
                            "the file does not say of which functions all calls were counted");
        profile_set_meta(pprof->profile, "calls_partial", "1");
    }
    if (*string_of(pprof, pprof->drop) || *string_of(pprof, pprof->keep))
        import_stack_notice(pprof->profile, "drop_frames and keep_frames were not applied");
    base_text_free(&text);
}

static void describe(struct pprof *pprof)
{
    struct profile *profile = pprof->profile;
    const char *path = pprof->mapping_count ? string_of(pprof, pprof->mappings[0].file) : "";
    struct type period = pprof->period_type;
    bool time = !strcmp(unit_of(pprof, &period), "ns");
    if (*path && *path != '[' && !profile_meta(profile, "command"))
        profile_set_meta(profile, "command", path); /* by convention the first is the program */
    if (pprof->time > 0)
        profile_set_metaf(profile, "start_time", "%lld", (long long)(pprof->time / 1000000000));
    if (pprof->duration > 0)
        profile_set_metaf(profile, "duration_ns", "%lld", (long long)pprof->duration);
    if (time && pprof->period > 0 && profile_counter_named(profile, "time.cpu"))
        profile_set_metaf(profile, "rate_hz", "%.6g", 1e9 / ((double)pprof->period * (double)period.scale));
    import_images_tell(&pprof->images);
    tell_left_out(pprof);
}

/* --- all of it --- */

static int import_all(struct pprof *pprof, const uint8_t *bytes, size_t size, struct base_error *error)
{
    struct import_proto whole = import_proto_of(bytes, size);
    pprof->text = malloc(size + 1); /* a string has its terminator in place of its tag and length */
    pprof->nowhere = import_stack_nowhere(pprof->profile);
    if (!pprof->text || !pprof->nowhere)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = read_tables(pprof, whole, error);
    if (result < 0)
        return result;
    read_comments(pprof, whole, false);
    if (!make_counters(pprof))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    result = read_samples(pprof, whole, error);
    if (result < 0)
        return result;
    read_comments(pprof, whole, true);
    describe(pprof);
    return BASE_OK;
}

int import_pprof(const uint8_t *bytes, size_t size, const struct import_options *options,
                 struct profile *profile, struct base_error *error)
{
    struct pprof pprof = {.profile = profile, .images.profile = profile, .stack.profile = profile};
    (void)options;
    int result = import_all(&pprof, bytes, size, error);
    free(pprof.text);
    free(pprof.strings);
    free(pprof.mappings);
    free(pprof.locations);
    free(pprof.functions);
    base_map_free(&pprof.mapping_of);
    base_map_free(&pprof.location_of);
    base_map_free(&pprof.function_of);
    base_map_free(&pprof.processes);
    base_map_free(&pprof.threads);
    import_images_free(&pprof.images);
    return result;
}
