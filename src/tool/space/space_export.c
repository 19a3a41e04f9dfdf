#include "space_export.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_map.h"
#include "plan_select.h"

/* --- DT_NEEDED --- */

/* Notes the names in DT_NEEDED. */
static bool note_needed(const struct elf_image *image, struct base_map *needed)
{
    struct elf_section dynamic, strings;
    bool room = true;
    if (!elf_image_section(image, ".dynamic", &dynamic) || !dynamic.bytes ||
        !elf_image_section(image, ".dynstr", &strings) || !strings.bytes)
        return true;
    for (size_t at = 0; room && at + sizeof(Elf64_Dyn) <= dynamic.size; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, dynamic.bytes + at, sizeof entry);
        if (entry.d_tag != DT_NEEDED || entry.d_un.d_val >= strings.size)
            continue;
        const char *name = (const char *)strings.bytes + entry.d_un.d_val;
        size_t length = strnlen(name, strings.size - entry.d_un.d_val);
        room = base_map_set(needed, base_hash_bytes(name, length), 1);
    }
    return room;
}

/* Of libraries that dlopen has loaded the needed ones are marked too: they could have been there from the
 * start as well, and programs seldom use dlsym on them. */
static bool find_needed(const struct space *space, const struct sample_images *images,
                        struct base_map *needed)
{
    bool room = true;
    for (size_t i = 0; room && i < space->mapping_count; i++) {
        const struct sample_image *image = &images->items[space->mappings[i].image];
        room = !image->elf || note_needed(image->elf, needed);
    }
    return room;
}

static bool is_needed(const struct sample_image *image, const struct base_map *needed)
{
    const char *name = plan_select_image_name(image->elf, image->path);
    struct elf_section interpreter;
    return elf_image_section(image->elf, ".interp", &interpreter) ||
           base_map_find(needed, base_hash_bytes(name, strlen(name))) != BASE_MAP_NONE;
}

/* --- choosing --- */

static int gather_taken(const struct space *space, struct space_session *session, struct base_map *taken,
                        struct base_error *error)
{
    for (size_t i = 0; i < space->mapping_count; i++) {
        struct space_image *image = space_images_get(&session->images, space->mappings[i].image);
        bool room = image != NULL;
        for (size_t j = 0; room && j < image->imports.count; j++)
            room = base_map_set(taken, image->imports.hashes[j], 1);
        if (!room)
            return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    return BASE_OK;
}

/* 1: a hook is wanted that was not. A hook that is in force is never given up. */
static bool choose_hooks(struct space_object *object, bool needed, const struct base_map *taken)
{
    const struct space_image *image = object->planned;
    uint32_t sites = image->plan.header->site_count;
    bool more = false;
    for (size_t i = 0; i < image->offers.count; i++) {
        const struct space_offer *offer = &image->offers.items[i];
        uint8_t *wanted = &object->wanted[sites + offer->hook];
        bool use = !needed || base_map_find(taken, offer->hash) != BASE_MAP_NONE;
        if (!object->chosen && !use)
            *wanted = 0;
    }
    for (size_t i = 0; i < image->offers.count; i++) { /* a function of several names */
        const struct space_offer *offer = &image->offers.items[i];
        uint8_t *wanted = &object->wanted[sites + offer->hook];
        bool may = !image->wanted || image->wanted[sites + offer->hook];
        if (*wanted || !may || (needed && base_map_find(taken, offer->hash) == BASE_MAP_NONE))
            continue;
        *wanted = 1;
        more = true;
    }
    return more;
}

int space_export_choose(struct space *space, struct space_session *session, struct base_error *error)
{
    struct base_map taken = {0}, needed = {0};
    const struct sample_images *images = session->images.images;
    int result = gather_taken(space, session, &taken, error);
    if (result == BASE_OK && !find_needed(space, images, &needed))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++) {
        struct space_object *object = &space->objects[i];
        if (!object->live)
            continue;
        bool more = choose_hooks(object, is_needed(&images->items[object->image], &needed), &taken);
        object->stale |= more && object->chosen && object->patch;
        object->chosen = true;
    }
    base_map_free(&taken);
    base_map_free(&needed);
    return result;
}
