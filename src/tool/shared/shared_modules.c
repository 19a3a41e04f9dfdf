#include "shared_modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_blob.h"
#include "base_array.h"
#include "plan_image.h"
#include "proc_maps.h"

void shared_cookies_free(struct shared_cookies *cookies)
{
    free(cookies->items);
    base_map_free(&cookies->known);
    *cookies = (struct shared_cookies){0};
}

/* 0: memory ran out. */
static uint32_t cookie_of(struct shared_cookies *cookies, uint32_t image, uint64_t bias)
{
    uint64_t key = base_hash(bias) ^ image;
    uint32_t index = base_map_find(&cookies->known, key);
    if (index != BASE_MAP_NONE && cookies->items[index].image == image && cookies->items[index].bias == bias)
        return index + 1;
    if (!base_array_room(cookies->items, cookies->count, cookies->capacity) ||
        !base_map_set(&cookies->known, key, (uint32_t)cookies->count))
        return 0;
    cookies->items[cookies->count++] = (struct shared_cookie){image, bias};
    return (uint32_t)cookies->count;
}

/* Where the rows of an image are in the file; size 0: it has none. An image without a place was asked for in
 * vain. */
static void find_rows(struct shared_file *file, struct sample_images *images, uint32_t index,
                      struct base_map *rows, struct wire_agent_module *module)
{
    uint32_t known = base_map_find(rows, index);
    const uint64_t unit = SHARED_ROWS_UNIT;
    if (known == BASE_MAP_NONE) {
        uint64_t offset = 0;
        if (!sample_images_rows(images, index) ||
            shared_file_rows(file, images->items[index].table.blob, images->items[index].table.size, &offset,
                             NULL) < 0)
            offset = 0;
        known = (uint32_t)(offset / unit);
        base_map_set(rows, index, known);
    }
    if (!known)
        return;
    module->rows_offset = known * unit;
    module->rows_size = images->items[index].table.size;
}

static struct sample_image_key key_of(const struct proc_mapping *mapping)
{
    return (struct sample_image_key){.path = mapping->path,
                                     .major = mapping->device_major,
                                     .minor = mapping->device_minor,
                                     .inode = mapping->inode,
                                     .deleted = mapping->deleted};
}

/* Of what is laid out in memory, the agent's own code where time is sampled: then some of its frames have the
 * program's above and below. */
static bool is_image(const struct shared_file *file, const struct sample_images *images,
                     const struct proc_mapping *mapping)
{
    const struct sample_image_key key = key_of(mapping);
    if (!mapping->executable)
        return false;
    if (!strncmp(mapping->path, "/memfd:", 7))
        return shared_file_control(file)->timer_signal && sample_images_knows(images, &key);
    return mapping->path[0] == '/' || !strcmp(mapping->path, "[vdso]");
}

/* What is special about an image, where functions are timed. Its symbols and its code are searched once:
 * each object that a process loads asks for all of them again. */
static void look_at_stacks(struct sample_image *image, struct wire_agent_module *module,
                           struct shared_stacks *stacks)
{
    if (!stacks)
        return;
    if (!image->looked_at_stacks) {
        image->looked_at_stacks = true;
        image->owns_stacks = plan_image_owns_stacks(image->elf);
        image->unwinders = plan_image_unwinds(image->elf);
    }
    if (image->owns_stacks)
        module->flags |= WIRE_AGENT_MODULE_READS;
    if (!image->unwinders)
        return;
    module->flags |= WIRE_AGENT_MODULE_UNWINDS;
    stacks->unwinders |= image->unwinders;
    snprintf(stacks->unwinder, sizeof stacks->unwinder, "%s", elf_image_name(image->elf));
}

static bool add_module(struct shared_file *file, pid_t pid, const struct proc_mapping *mapping,
                       const struct shared_known *known)
{
    struct sample_images *images = known->images;
    const struct sample_image_key key = key_of(mapping);
    uint32_t index = sample_images_find(images, &key);
    if (index == UINT32_MAX)
        return false;
    struct sample_image *image = sample_images_open(images, index, pid, mapping->start, mapping->end);
    uint64_t address = mapping->offset - image->lead;
    if (image->elf && !image->lead)
        elf_image_address_of_offset(image->elf, mapping->offset, &address);
    struct wire_agent_module module = {
        .start = mapping->start, .end = mapping->end, .bias = mapping->start - address};
    if (image->elf)
        look_at_stacks(image, &module, known->stacks);
    module.cookie = cookie_of(known->cookies, image->profile_image, module.bias);
    if (image->elf)
        find_rows(file, images, index, known->rows, &module);
    return module.cookie && shared_file_module(file, &module);
}

int shared_modules(struct shared_file *file, uint32_t region, pid_t pid, const struct shared_known *known,
                   struct base_error *error)
{
    struct proc_maps maps = {0};
    int result = proc_maps_read(pid, &maps, error);
    if (result < 0)
        return result;
    shared_file_modules(file);
    for (size_t i = 0; i < maps.count && result == BASE_OK; i++)
        if (is_image(file, known->images, &maps.items[i]) && !add_module(file, pid, &maps.items[i], known))
            result = base_fail(error, BASE_ENOMEM, "too many objects are mapped for the agent");
    proc_maps_free(&maps);
    if (result == BASE_OK)
        shared_file_publish(file, region);
    return result;
}

void shared_modules_know(struct sample_images *images, pid_t pid, uint64_t base)
{
    struct proc_maps maps = {0};
    char path[128];
    if (proc_maps_read(pid, &maps, NULL) < 0)
        return;
    for (size_t i = 0; i < maps.count; i++) {
        const struct proc_mapping *mapping = &maps.items[i];
        struct sample_image_key key = {.path = mapping->path,
                                       .major = mapping->device_major,
                                       .minor = mapping->device_minor,
                                       .inode = mapping->inode,
                                       .deleted = mapping->deleted};
        if (!mapping->executable || base <= mapping->start || base >= mapping->end)
            continue;
        const struct sample_image_bytes agent = {.name = PROFILE_AGENT_IMAGE,
                                                 .bytes = agent_blob,
                                                 .size = agent_blob_size,
                                                 .lead = base - mapping->start + mapping->offset};
        sample_images_know(images, &key, &agent, NULL);
        snprintf(path, sizeof path, "%s (deleted)", mapping->path); /* as the kernel's events have it */
        key.path = path;
        sample_images_know(images, &key, &agent, NULL);
    }
    proc_maps_free(&maps);
}
