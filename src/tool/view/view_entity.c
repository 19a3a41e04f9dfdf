#include "view_entity.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"

bool view_entity_init(struct view_entities *entities, const struct profile *profile, enum view_detail detail)
{
    *entities = (struct view_entities){.profile = profile, .detail = detail};
    entities->chain_of = calloc(profile->address_count + 1, sizeof *entities->chain_of);
    if (!entities->chain_of || !base_array_room(entities->items, 0, entities->capacity) ||
        !base_array_room(entities->chains, 0, entities->chain_capacity))
        return false;
    entities->items[entities->count++] = (struct view_entity){0};
    entities->chains[entities->chain_count++] = 0;
    return true;
}

void view_entity_free(struct view_entities *entities)
{
    free(entities->items);
    free(entities->chains);
    free(entities->chain_of);
    for (size_t i = 0; i < VIEW_ENTITY_KINDS; i++)
        base_map_free(&entities->maps[i]);
    base_map_free(&entities->places);
    base_map_free(&entities->owners);
    *entities = (struct view_entities){0};
}

/* The entity of its kind under this key; made from `fresh` when new. 0 when memory ran out. */
static uint32_t intern_entity(struct view_entities *entities, uint64_t key, const struct view_entity *fresh)
{
    struct base_map *map = &entities->maps[fresh->kind];
    uint32_t known = base_map_find(map, key);
    if (known != BASE_MAP_NONE)
        return known;
    uint32_t index = (uint32_t)entities->count;
    if (!base_array_room(entities->items, entities->count, entities->capacity) ||
        !base_map_set(map, key, index))
        return 0;
    entities->items[entities->count++] = *fresh;
    return index;
}

static uint64_t entity_pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

uint32_t view_entity_mark(struct view_entities *entities, enum view_entity_kind kind)
{
    return intern_entity(entities, 0, &(struct view_entity){.kind = kind});
}

static uint32_t address_entity(struct view_entities *entities, uint32_t index)
{
    const struct profile *profile = entities->profile;
    const struct profile_address *address = &profile->addresses[index];
    struct view_entity fresh = {.kind = VIEW_ADDRESS, .image = address->image, .address = index};
    if (address->function)
        fresh.name = profile->functions[address->function].name;
    return intern_entity(entities, index, &fresh);
}

static uint32_t image_entity(struct view_entities *entities, uint32_t image)
{
    return intern_entity(entities, image, &(struct view_entity){.kind = VIEW_IMAGE, .image = image});
}

/* The ELF function at an address; names that are no code stand for their image. */
static uint32_t function_entity(struct view_entities *entities, uint32_t index)
{
    const struct profile *profile = entities->profile;
    const struct profile_address *address = &profile->addresses[index];
    const struct profile_image *image = &profile->images[address->image];
    if (!address->function)
        return image->kind == PROFILE_IMAGE_SPECIAL ? image_entity(entities, address->image)
                                                    : address_entity(entities, index);
    uint32_t name = profile->functions[address->function].name;
    struct view_entity fresh = {.kind = VIEW_FUNCTION, .image = address->image, .name = name};
    if (image->kind != PROFILE_IMAGE_JIT)
        return intern_entity(entities, address->function, &fresh);
    fresh.kind = VIEW_JIT_FUNCTION;
    return intern_entity(entities, entity_pair(image->name, name), &fresh);
}

static uint32_t inlined_entity(struct view_entities *entities, uint32_t image, uint32_t name)
{
    struct view_entity fresh = {.kind = VIEW_INLINED_FUNCTION, .image = image, .name = name};
    return intern_entity(entities, entity_pair(image, name), &fresh);
}

/* A number for each key; BASE_MAP_NONE when memory ran out. */
static uint32_t entity_number(struct base_map *map, uint64_t key)
{
    uint32_t known = base_map_find(map, key), fresh = (uint32_t)map->used;
    if (known != BASE_MAP_NONE)
        return known;
    return base_map_set(map, key, fresh) ? fresh : BASE_MAP_NONE;
}

/* One row a line and function: a line of a header belongs to whatever it was compiled into. */
static uint32_t line_entity(struct view_entities *entities, uint32_t image, uint32_t name, uint32_t file,
                            uint32_t line)
{
    struct view_entity fresh = {.kind = VIEW_LINE, .image = image, .name = name, .file = file, .line = line};
    uint32_t place = entity_number(&entities->places, entity_pair(file, line));
    uint32_t owner = entity_number(&entities->owners, entity_pair(image, name));
    if (place == BASE_MAP_NONE || owner == BASE_MAP_NONE)
        return 0;
    return intern_entity(entities, entity_pair(place, owner), &fresh);
}

static bool chain_add(struct view_entities *entities, size_t run, uint32_t entity)
{
    if (!entity || !base_array_room(entities->chains, entities->chain_count, entities->chain_capacity))
        return false;
    entities->chains[entities->chain_count++] = entity;
    entities->chains[run]++;
    return true;
}

/* The levels that were inlined at an address, innermost first. */
static bool add_inlined(struct view_entities *entities, size_t run, const struct profile_address *address)
{
    const struct profile_inlined *levels = entities->profile->inlined;
    for (uint32_t i = address->inlined; i; i = levels[i].outer) {
        const struct profile_inlined *level = &levels[i];
        uint32_t entity =
            entities->detail == VIEW_DETAIL_LINE && level->line
                ? line_entity(entities, address->image, level->function_name, level->file, level->line)
                : inlined_entity(entities, address->image, level->function_name);
        if (!chain_add(entities, run, entity))
            return false;
    }
    return true;
}

static bool fill_chain(struct view_entities *entities, size_t run, uint32_t index)
{
    const struct profile_address *address = &entities->profile->addresses[index];
    if (!index || !address->image)
        return chain_add(entities, run, view_entity_mark(entities, VIEW_UNKNOWN));
    switch (entities->detail) {
    case VIEW_DETAIL_ADDRESS:
        return chain_add(entities, run, address_entity(entities, index));
    case VIEW_DETAIL_IMAGE:
        return chain_add(entities, run, image_entity(entities, address->image));
    case VIEW_DETAIL_FUNCTION:
        return chain_add(entities, run, function_entity(entities, index));
    case VIEW_DETAIL_INLINED:
        return add_inlined(entities, run, address) &&
               chain_add(entities, run, function_entity(entities, index));
    case VIEW_DETAIL_LINE:
        break;
    }
    if (!add_inlined(entities, run, address))
        return false;
    if (!address->line)
        return chain_add(entities, run, function_entity(entities, index));
    uint32_t name = address->function ? entities->profile->functions[address->function].name : 0;
    return chain_add(entities, run,
                     line_entity(entities, address->image, name, address->file, address->line));
}

const uint32_t *view_entity_chain(struct view_entities *entities, uint32_t address, size_t *count)
{
    size_t run = entities->chain_of[address];
    *count = 0;
    if (!run) {
        run = entities->chain_count;
        if (!base_array_room(entities->chains, run, entities->chain_capacity))
            return NULL;
        entities->chains[entities->chain_count++] = 0;
        if (!fill_chain(entities, run, address))
            return NULL;
        entities->chain_of[address] = (uint32_t)run;
    }
    *count = entities->chains[run];
    return entities->chains + run + 1;
}

void view_entity_name(const struct view_entities *entities, uint32_t entity, struct base_text *out)
{
    const struct profile *profile = entities->profile;
    const struct view_entity *item = &entities->items[entity];
    const char *image = view_entity_image(entities, entity);
    if (item->name)
        base_text_add(out, profile_text(profile, item->name));
    else if (item->kind == VIEW_SIGNAL)
        base_text_add(out, "<signal>");
    else if (item->kind == VIEW_CUT)
        base_text_add(out, "[stack cut]");
    else if (item->kind == VIEW_ADDRESS)
        base_text_addf(out, "%s+0x%llx", *image ? image : "[unknown]",
                       (unsigned long long)profile->addresses[item->address].address);
    else
        base_text_add(out, item->kind == VIEW_IMAGE && *image ? image : "[unknown]");
}

const char *view_entity_image(const struct view_entities *entities, uint32_t entity)
{
    const struct profile *profile = entities->profile;
    return profile_text(profile, profile->images[entities->items[entity].image].name);
}

void view_entity_line(const struct view_entities *entities, uint32_t entity, struct base_text *out)
{
    const struct view_entity *item = &entities->items[entity];
    const char *file = profile_text(entities->profile, item->file), *slash = strrchr(file, '/');
    if (item->kind == VIEW_LINE)
        base_text_addf(out, "%s:%u", *file ? slash ? slash + 1 : file : "?", item->line);
}

bool view_entity_inlined(const struct view_entities *entities, uint32_t entity)
{
    return entities->items[entity].kind == VIEW_INLINED_FUNCTION;
}
