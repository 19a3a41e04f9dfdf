#include "export_frames.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"

bool export_frames_init(struct export_frames *frames, const struct profile *profile, unsigned detail)
{
    *frames = (struct export_frames){.profile = profile, .detail = detail};
    frames->chain_of = calloc(profile->address_count + 1, sizeof *frames->chain_of);
    if (!frames->chain_of || !base_array_room(frames->functions, 0, frames->function_capacity) ||
        !base_array_room(frames->frames, 0, frames->frame_capacity) ||
        !base_array_room(frames->chains, 0, frames->chain_capacity))
        return false;
    frames->functions[frames->function_count++] = (struct export_function){0};
    frames->frames[frames->frame_count++] = (struct export_frame){0};
    frames->chains[frames->chain_count++] = 0;
    return true;
}

void export_frames_free(struct export_frames *frames)
{
    for (size_t i = 0; i < frames->name_count; i++)
        free(frames->names[i]);
    free(frames->names);
    free(frames->functions);
    free(frames->frames);
    free(frames->chains);
    free(frames->chain_of);
    for (size_t i = 0; i < EXPORT_KINDS; i++)
        base_map_free(&frames->kinds[i]);
    base_map_free(&frames->lines);
    base_map_free(&frames->places);
    *frames = (struct export_frames){0};
}

static uint64_t frames_pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* --- functions --- */

/* The function of its kind under this key, made from `fresh` when new; its file is the first that is
 * known. */
static uint32_t function_of(struct export_frames *frames, uint64_t key, const struct export_function *fresh)
{
    struct base_map *map = &frames->kinds[fresh->kind];
    uint32_t known = base_map_find(map, key), index = (uint32_t)frames->function_count;
    if (known != BASE_MAP_NONE) {
        if (!frames->functions[known].file)
            frames->functions[known].file = fresh->file;
        return known;
    }
    if (!base_array_room(frames->functions, frames->function_count, frames->function_capacity) ||
        !base_map_set(map, key, index))
        return 0;
    frames->functions[frames->function_count++] = *fresh;
    return index;
}

/* The ELF function at an address; names that are no code stand for their image. */
static uint32_t outermost_function(struct export_frames *frames, uint32_t index)
{
    const struct profile *profile = frames->profile;
    const struct profile_address *address = &profile->addresses[index];
    const struct profile_image *image = &profile->images[address->image];
    struct export_function fresh = {.kind = EXPORT_UNKNOWN, .image = address->image, .file = address->file};
    if (!index || !address->image) {
        fresh.file = 0;
        return function_of(frames, 0, &fresh);
    }
    if (!address->function && image->kind == PROFILE_IMAGE_SPECIAL) {
        fresh.kind = EXPORT_SPECIAL;
        return function_of(frames, address->image, &fresh);
    }
    if (!address->function) {
        fresh.kind = EXPORT_NAMELESS;
        fresh.address = index;
        return function_of(frames, index, &fresh);
    }
    fresh.name = profile->functions[address->function].name;
    fresh.kind = image->kind == PROFILE_IMAGE_JIT ? EXPORT_GENERATED : EXPORT_NAMED;
    return function_of(frames,
                       fresh.kind == EXPORT_NAMED ? address->function : frames_pair(image->name, fresh.name),
                       &fresh);
}

static uint32_t inlined_function(struct export_frames *frames, uint32_t image,
                                 const struct profile_inlined *level)
{
    struct export_function fresh = {
        .kind = EXPORT_INLINED, .image = image, .name = level->function_name, .file = level->file};
    return function_of(frames, frames_pair(image, level->function_name), &fresh);
}

/* --- frames --- */

/* A place is three numbers: line and file get one together. 0 when memory ran out. */
static uint32_t frame_of(struct export_frames *frames, uint32_t function, uint32_t file, uint32_t line)
{
    uint64_t place = frames_pair(file, line);
    uint32_t where = base_map_find(&frames->lines, place), index = (uint32_t)frames->frame_count;
    if (!function)
        return 0;
    if (where == BASE_MAP_NONE) {
        where = (uint32_t)frames->lines.used;
        if (!base_map_set(&frames->lines, place, where))
            return 0;
    }
    uint32_t known = base_map_find(&frames->places, frames_pair(where, function));
    if (known != BASE_MAP_NONE)
        return known;
    if (!base_array_room(frames->frames, frames->frame_count, frames->frame_capacity) ||
        !base_map_set(&frames->places, frames_pair(where, function), index))
        return 0;
    frames->frames[frames->frame_count++] = (struct export_frame){function, file, line};
    return index;
}

static bool chain_add(struct export_frames *frames, size_t run, uint32_t function, uint32_t file,
                      uint32_t line)
{
    bool lines = frames->detail & EXPORT_DETAIL_LINES;
    uint32_t frame = frame_of(frames, function, lines ? file : 0, lines ? line : 0);
    if (!frame || !base_array_room(frames->chains, frames->chain_count, frames->chain_capacity))
        return false;
    frames->chains[frames->chain_count++] = frame;
    frames->chains[run]++;
    return true;
}

static bool fill_chain(struct export_frames *frames, size_t run, uint32_t index)
{
    const struct profile_address *address = &frames->profile->addresses[index];
    const struct profile_inlined *levels = frames->profile->inlined;
    uint32_t first = index && address->image ? address->inlined : 0;
    if (first && !(frames->detail & EXPORT_DETAIL_INLINES))
        return chain_add(frames, run, outermost_function(frames, index), levels[first].file,
                         levels[first].line);
    for (uint32_t i = first; i; i = levels[i].outer)
        if (!chain_add(frames, run, inlined_function(frames, address->image, &levels[i]), levels[i].file,
                       levels[i].line))
            return false;
    return chain_add(frames, run, outermost_function(frames, index), address->file, address->line);
}

const uint32_t *export_frames_chain(struct export_frames *frames, uint32_t address, size_t *count)
{
    size_t run = frames->chain_of[address];
    *count = 0;
    if (!run) {
        run = frames->chain_count;
        if (!base_array_room(frames->chains, run, frames->chain_capacity))
            return NULL;
        frames->chains[frames->chain_count++] = 0;
        if (!fill_chain(frames, run, address))
            return NULL;
        frames->chain_of[address] = (uint32_t)run;
    }
    *count = frames->chains[run];
    return frames->chains + run + 1;
}

uint32_t export_frames_mark(struct export_frames *frames, enum export_kind kind)
{
    return frame_of(frames, function_of(frames, 0, &(struct export_function){.kind = kind}), 0, 0);
}

/* A process in a few numbers: what differs in any of them is another. */
uint32_t export_frames_process(struct export_frames *frames, uint32_t name, int64_t number, uint32_t origin)
{
    struct export_function fresh = {.kind = EXPORT_PROCESS, .name = name, .number = number, .origin = origin};
    uint64_t key = origin ? base_hash(frames_pair(origin, (uint32_t)number)) ^ name
                          : frames_pair(name, (uint32_t)number);
    return frame_of(frames, function_of(frames, key, &fresh), 0, 0);
}

/* --- names --- */

void export_frames_name(const struct export_frames *frames, uint32_t function, struct base_text *out)
{
    const struct export_function *item = &frames->functions[function];
    const char *image = export_frames_image(frames, function);
    if (item->name)
        base_text_add(out, profile_text(frames->profile, item->name));
    else if (item->kind == EXPORT_SIGNAL)
        base_text_add(out, "<signal>");
    else if (item->kind == EXPORT_CUT)
        base_text_add(out, "[stack cut]");
    else if (item->kind == EXPORT_NAMELESS)
        base_text_addf(out, "%s+0x%llx", *image ? image : "[unknown]",
                       (unsigned long long)frames->profile->addresses[item->address].address);
    else
        base_text_add(out, item->kind == EXPORT_SPECIAL && *image ? image : "[unknown]");
    if (item->kind == EXPORT_PROCESS && item->number >= 0)
        base_text_addf(out, " %lld", (long long)item->number);
    const char *origin = profile_origin(frames->profile, item->origin, "name");
    if (origin)
        base_text_addf(out, "@%s", origin);
}

const char *export_frames_image(const struct export_frames *frames, uint32_t function)
{
    const struct profile *profile = frames->profile;
    return profile_text(profile, profile->images[frames->functions[function].image].name);
}

/* What stackcollapse scripts append and flame graphs colour by. */
static const char *frames_mark_of(const struct export_frames *frames, uint32_t function)
{
    const struct export_function *item = &frames->functions[function];
    if (item->kind == EXPORT_INLINED)
        return "_[i]";
    if (item->kind == EXPORT_GENERATED)
        return "_[j]";
    return frames->profile->images[item->image].kind == PROFILE_IMAGE_KERNEL ? "_[k]" : "";
}

bool export_frames_write_names(struct export_frames *frames, enum export_escape escape, bool marks)
{
    struct base_text raw = {0}, text = {0};
    bool done = true;
    frames->names = calloc(frames->function_count, sizeof *frames->names);
    if (!frames->names)
        return false;
    for (frames->name_count = 0; done && frames->name_count < frames->function_count; frames->name_count++) {
        base_text_clear(&raw);
        if (frames->name_count)
            export_frames_name(frames, (uint32_t)frames->name_count, &raw);
        export_output_escape(&text, base_text_string(&raw), escape);
        if (frames->name_count && marks)
            base_text_add(&text, frames_mark_of(frames, (uint32_t)frames->name_count));
        frames->names[frames->name_count] = raw.failed ? NULL : base_text_detach(&text);
        done = frames->names[frames->name_count] != NULL;
    }
    base_text_free(&raw);
    base_text_free(&text);
    return done;
}
