/* import_gperftools.c - CPU profiles of libprofiler. Source: docs/cpuprofile-fileformat of the gperftools
 * project.
 *
 * A file is a row of words, as wide as the program's pointers and in its byte order: a header (0, how many
 * words follow, 0, the period in us, ...), samples (how often, how many addresses, the addresses from the
 * leaf outwards), a trailer (0, 1, 0), and then, as text, what the program had mapped. Addresses of callers
 * are return addresses: one less lies inside the call. */
#include <stdlib.h>
#include <string.h>

#include "base_search.h"
#include "import_formats.h"
#include "import_images.h"
#include "import_stack.h"
#include "proc_maps.h"

enum { HEADER_WORDS = 3, DEEPEST = 1 << 16 };

struct words {
    const uint8_t *bytes;
    size_t size;
    unsigned width; /* 4 or 8 bytes */
    bool big_endian;
};

struct place {
    uint64_t start, end, offset;
    uint32_t image; /* index in the profile */
    size_t file;    /* of import_images; SIZE_MAX: no file */
};

struct gperftools {
    struct profile *profile;
    struct words words;
    uint64_t period_us;
    uint16_t counter;
    struct place *places; /* sorted by address */
    size_t place_count;
    struct import_images images;
    struct import_stack stack;
    uint32_t nowhere;
    size_t maps; /* where the text begins; 0: the file ends before it */
};

/* --- words --- */

static bool has_word(const struct words *words, size_t index)
{
    return index < words->size / words->width;
}

static uint64_t file_word(const struct words *words, size_t index)
{
    const uint8_t *bytes = words->bytes + index * words->width;
    uint64_t value = 0;
    for (unsigned i = 0; i < words->width; i++)
        value = value << 8 | bytes[words->big_endian ? i : words->width - 1 - i];
    return value;
}

static bool is_header(const struct words *words)
{
    return has_word(words, 4) && !file_word(words, 0) && file_word(words, 1) >= HEADER_WORDS &&
           file_word(words, 1) < 4096 && !file_word(words, 2) && file_word(words, 3) &&
           file_word(words, 3) <= UINT32_MAX;
}

/* Of the four ways to read the header at most one makes sense. */
static bool find_form(const uint8_t *bytes, size_t size, struct words *words)
{
    for (unsigned way = 0; way < 4; way++) {
        *words = (struct words){bytes, size, way & 1 ? 4 : 8, way & 2};
        if (is_header(words))
            return true;
    }
    return false;
}

bool import_gperftools_is(const uint8_t *bytes, size_t size)
{
    struct words words;
    return find_form(bytes, size, &words);
}

/* --- what was mapped --- */

static int gperftools_add_place(struct gperftools *gperftools, const struct proc_mapping *mapping)
{
    struct place *place = &gperftools->places[gperftools->place_count++];
    uint32_t kind = import_images_kind(mapping->path, mapping->start);
    *place = (struct place){mapping->start, mapping->end, mapping->offset, gperftools->nowhere, SIZE_MAX};
    if (kind == PROFILE_IMAGE_SPECIAL)
        return BASE_OK;
    if (kind != PROFILE_IMAGE_FILE || mapping->path[0] != '/') {
        place->image = profile_image(gperftools->profile, kind, mapping->path, "", 0);
        return place->image ? BASE_OK : BASE_ENOMEM;
    }
    place->file = import_images_find(&gperftools->images, mapping->path, "");
    if (place->file == SIZE_MAX)
        return BASE_ENOMEM;
    place->image = gperftools->images.items[place->file].image;
    return BASE_OK;
}

static int by_start(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

static int add_places(struct gperftools *gperftools, const struct proc_maps *maps)
{
    int result = BASE_OK;
    gperftools->places = calloc(maps->count + 1, sizeof *gperftools->places);
    if (!gperftools->places)
        return BASE_ENOMEM;
    for (size_t i = 0; i < maps->count && result == BASE_OK; i++)
        if (maps->items[i].executable && maps->items[i].end > maps->items[i].start)
            result = gperftools_add_place(gperftools, &maps->items[i]);
    qsort(gperftools->places, gperftools->place_count, sizeof *gperftools->places, by_start);
    return result;
}

static const char *program_path(const struct proc_maps *maps)
{
    for (size_t i = 0; i < maps->count; i++)
        if (maps->items[i].path[0] == '/')
            return maps->items[i].path;
    return NULL;
}

/* The text up to its end or a zero byte. A last line that is truncated tells nothing. */
static int read_maps(struct gperftools *gperftools, struct base_error *error)
{
    struct proc_maps maps = {0};
    const uint8_t *bytes = gperftools->words.bytes + gperftools->maps;
    char *text =
        strndup((const char *)bytes, gperftools->maps ? gperftools->words.size - gperftools->maps : 0);
    if (!text)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    char *last = strrchr(text, '\n');
    text[last ? last + 1 - text : 0] = '\0';
    int result = proc_maps_parse(text, &maps, error);
    if (result == BASE_OK && add_places(gperftools, &maps) < 0)
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK && program_path(&maps)) /* the first is the program's own */
        profile_set_meta(gperftools->profile, "command", program_path(&maps));
    proc_maps_free(&maps);
    free(text);
    return result;
}

/* --- samples --- */

static uint32_t address_of(struct gperftools *gperftools, uint64_t pc)
{
    size_t at = base_search_up_to(gperftools->places, gperftools->place_count, end, pc);
    if (at == gperftools->place_count || gperftools->places[at].start > pc ||
        gperftools->places[at].image == gperftools->nowhere)
        return import_stack_named(gperftools->profile, gperftools->nowhere,
                                  &(struct import_stack_level){.name = "[unknown]"}, NULL, 0);
    const struct place *place = &gperftools->places[at];
    uint64_t address = pc - place->start + place->offset;
    if (place->file != SIZE_MAX) {
        address = import_images_address(&gperftools->images, place->file, address);
        import_images_need(&gperftools->images, place->file);
    }
    return profile_address(gperftools->profile, place->image, address);
}

static bool add_sample(struct gperftools *gperftools, size_t first, size_t depth, uint64_t count)
{
    int64_t value;
    import_stack_begin(&gperftools->stack);
    for (size_t i = depth; i-- > 0;) {
        uint64_t pc = file_word(&gperftools->words, first + i);
        import_stack_add(&gperftools->stack, address_of(gperftools, i ? pc - 1 : pc), 0);
    }
    uint32_t node = import_stack_node(&gperftools->stack);
    if (__builtin_mul_overflow(count, gperftools->period_us * 1000, &value))
        value = INT64_MAX;
    profile_count(gperftools->profile, (struct profile_key){node, 0, PROFILE_NO_CPU, gperftools->counter},
                  value, count);
    return !gperftools->stack.failed;
}

/* Goes through the samples; with `add`, they are counted. Sets where the text begins. False: memory ran
 * out. */
static bool gperftools_walk(struct gperftools *gperftools, bool add, bool *corrupt)
{
    const struct words *words = &gperftools->words;
    size_t at = 2 + (size_t)file_word(words, 1);
    gperftools->maps = 0;
    while (has_word(words, at + 2)) {
        uint64_t count = file_word(words, at), depth = file_word(words, at + 1);
        if (!count && depth == 1 && !file_word(words, at + 2)) {
            gperftools->maps = (at + 3) * words->width;
            return true;
        }
        *corrupt = !count || count > INT32_MAX || !depth || depth > DEEPEST;
        if (*corrupt || !has_word(words, at + 1 + (size_t)depth))
            return true;
        if (add && !add_sample(gperftools, at + 2, (size_t)depth, count))
            return false;
        at += 2 + (size_t)depth;
    }
    return true;
}

static int import_all(struct gperftools *gperftools, struct base_error *error)
{
    bool corrupt = false;
    gperftools_walk(gperftools, false, &corrupt);
    if (corrupt)
        return base_fail(error, BASE_EFORMAT, "it is a corrupt profile of gperftools");
    int result = read_maps(gperftools, error);
    if (result < 0)
        return result;
    if (!gperftools_walk(gperftools, true, &corrupt))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    profile_set_metaf(gperftools->profile, "rate_hz", "%.6g", 1e6 / (double)gperftools->period_us);
    import_images_report(&gperftools->images);
    if (!gperftools->maps) {
        import_stack_notice(gperftools->profile,
                            "the file is truncated: there are the samples before, and no "
                            "mappings that say what they are in");
        import_stack_partial(gperftools->profile, "the file is not whole");
    }
    return BASE_OK;
}

int import_gperftools(const uint8_t *bytes, size_t size, const struct import_options *options,
                      struct profile *profile, struct base_error *error)
{
    struct gperftools gperftools = {.profile = profile, .images.profile = profile, .stack.profile = profile};
    (void)options;
    if (!find_form(bytes, size, &gperftools.words))
        return base_fail(error, BASE_EFORMAT, "it does not begin as a profile of gperftools does");
    gperftools.period_us = file_word(&gperftools.words, 3);
    gperftools.nowhere = import_stack_nowhere(profile);
    gperftools.counter = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    if (!gperftools.nowhere || !gperftools.counter)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = import_all(&gperftools, error);
    free(gperftools.places);
    import_images_free(&gperftools.images);
    return result;
}
