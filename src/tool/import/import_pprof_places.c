/* import_pprof_places.c - locations to addresses, when a sample has them. */
#include <stdio.h>
#include <string.h>

#include "base_map.h"
#include "import_images.h"
#include "import_pprof.h"
#include "import_proto.h"
#include "import_stack.h"

static struct import_pprof_mapping *mapping_of(struct import_pprof *pprof, uint64_t id)
{
    uint32_t index = id ? base_map_find(&pprof->mapping_of, id) : BASE_MAP_NONE;
    return index == BASE_MAP_NONE ? NULL : &pprof->mappings[index];
}

static bool open_mapping(struct import_pprof *pprof, struct import_pprof_mapping *mapping, uint64_t address)
{
    const char *path = import_pprof_string(pprof, mapping->file);
    if (mapping->opened)
        return true;
    mapping->kind = import_images_kind(path, address);
    mapping->image =
        mapping->kind == PROFILE_IMAGE_FILE
            ? import_images_find(&pprof->images, path, import_pprof_string(pprof, mapping->build_id))
            : 0;
    mapping->opened = mapping->image != SIZE_MAX;
    pprof->no_memory |= !mapping->opened;
    return mapping->opened;
}

static uint32_t pprof_places_image_of(struct import_pprof *pprof, const struct import_pprof_mapping *mapping)
{
    if (!mapping || mapping->kind == PROFILE_IMAGE_SPECIAL)
        return pprof->nowhere;
    if (mapping->kind == PROFILE_IMAGE_FILE)
        return pprof->images.items[mapping->image].image;
    const char *path = import_pprof_string(pprof, mapping->file);
    bool kernel = mapping->kind == PROFILE_IMAGE_KERNEL && !strncmp(path, "[kernel", 7);
    return profile_image(pprof->profile, mapping->kind, kernel ? "[kernel]" : path,
                         import_pprof_string(pprof, mapping->build_id), 0);
}

/* A mapping that begins at 0 is none that a kernel made: its addresses are the image's own, as in Tally's
 * exports. */
static uint64_t image_address(const struct import_pprof *pprof, const struct import_pprof_mapping *mapping,
                              uint64_t address)
{
    if (mapping->kind != PROFILE_IMAGE_FILE || !mapping->start || address < mapping->start)
        return address;
    return import_images_address(&pprof->images, mapping->image, address - mapping->start + mapping->offset);
}

/* The lines of a location, innermost first; of too many, those just inside the outermost are left out. */
static size_t read_lines(const struct import_pprof *pprof, struct import_proto message,
                         struct import_stack_level *levels)
{
    struct import_proto_field field;
    size_t count = 0;
    while (import_proto_next(&message, &field)) {
        uint64_t numbers[3] = {0};
        if (field.number != 4 || !field.is_bytes || !import_pprof_numbers(field.bytes, numbers, 2))
            continue;
        uint32_t index = base_map_find(&pprof->function_of, numbers[1]);
        struct import_pprof_function function = {0};
        if (index != BASE_MAP_NONE)
            function = pprof->functions[index];
        const char *name = import_pprof_string(pprof, function.name);
        count -= count == IMPORT_PPROF_LEVELS_MOST;
        levels[count++] =
            (struct import_stack_level){.name = *name ? name : "[unknown]",
                                        .file = import_pprof_string(pprof, function.file),
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
static uint32_t nameless_address(struct import_pprof *pprof, const struct import_pprof_mapping *mapping,
                                 uint32_t image, uint64_t address)
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
static bool is_nameless(const struct import_pprof *pprof, uint32_t image, uint64_t address, const char *name)
{
    const struct profile *profile = pprof->profile;
    const char *file = profile_text(profile, profile->images[image].name);
    char digits[32];
    size_t length = strlen(file);
    snprintf(digits, sizeof digits, "+0x%llx", (unsigned long long)address);
    return pprof->from_tally && !strncmp(name, file, length) && !strcmp(name + length, digits);
}

static uint32_t make_address(struct import_pprof *pprof, const struct import_pprof_location *location,
                             bool callee)
{
    struct import_pprof_mapping *mapping = mapping_of(pprof, location->mapping);
    struct import_stack_level levels[IMPORT_PPROF_LEVELS_MOST];
    uint64_t address = location->address, start = 0, end = 0;
    if (mapping && !open_mapping(pprof, mapping, address))
        return 0;
    size_t count = read_lines(pprof, location->message, levels);
    uint32_t image = pprof_places_image_of(pprof, mapping);
    if (!image)
        return 0;
    address = mapping ? image_address(pprof, mapping, address) : address;
    if (!count)
        return nameless_address(pprof, mapping, image, address);
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
    return import_stack_name(pprof->profile, made,
                             &(struct import_stack_naming){function, levels, count - 1, start, end});
}

uint32_t import_pprof_address(struct import_pprof *pprof, uint64_t id, bool callee)
{
    uint32_t index = base_map_find(&pprof->location_of, id);
    if (index == BASE_MAP_NONE)
        return import_stack_named(pprof->profile, pprof->nowhere,
                                  &(struct import_stack_level){.name = "[unknown]"}, NULL, 0);
    struct import_pprof_location *location = &pprof->locations[index];
    if (!location->made)
        location->made = make_address(pprof, location, callee);
    pprof->no_memory |= !location->made;
    return location->made;
}

/* Is a location one of the marks that Tally's exports have? */
const char *import_pprof_mark(const struct import_pprof *pprof, uint64_t id)
{
    struct import_stack_level levels[IMPORT_PPROF_LEVELS_MOST];
    uint32_t index = base_map_find(&pprof->location_of, id);
    if (index == BASE_MAP_NONE || pprof->locations[index].mapping || pprof->locations[index].address)
        return NULL;
    size_t count = read_lines(pprof, pprof->locations[index].message, levels);
    return count == 1 ? levels[0].name : NULL;
}
