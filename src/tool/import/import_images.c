#include "import_images.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "import_stack.h"
#include "wire_loss.h"

void import_images_free(struct import_images *images)
{
    for (size_t i = 0; i < images->count; i++) {
        if (images->items[i].symbols)
            symbol_file_close(images->items[i].symbols);
        if (images->items[i].elf)
            elf_image_close(images->items[i].elf);
    }
    free(images->items);
    *images = (struct import_images){0};
}

uint32_t import_images_kind(const char *path, uint64_t address)
{
    if (!strcmp(path, "[vdso]") || !strcmp(path, "linux-vdso.so.1"))
        return PROFILE_IMAGE_VDSO;
    if (!strncmp(path, "[jit", 4))
        return PROFILE_IMAGE_JIT;
    if (!strncmp(path, "[kernel", 7) || (path[0] == '[' && address >> 63))
        return PROFILE_IMAGE_KERNEL;
    return *path ? PROFILE_IMAGE_FILE : PROFILE_IMAGE_SPECIAL;
}

static void build_id_of(const struct elf_image *elf, char *text)
{
    text[0] = '\0';
    if (elf_image_build_id(elf)->size)
        elf_build_id_format(elf_image_build_id(elf), text);
}

static struct elf_image *open_file(const char *path, const char *build_id)
{
    char found[2 * ELF_BUILD_ID_MAX + 1];
    struct elf_image *elf = NULL;
    if (path[0] != '/' || elf_image_open(path, &elf, NULL) < 0)
        return NULL;
    build_id_of(elf, found);
    if (!*build_id || !strcmp(found, build_id))
        return elf;
    elf_image_close(elf);
    return NULL;
}

static bool open_image(struct import_images *images, struct import_image *item, const char *path,
                       const char *build_id)
{
    char found[2 * ELF_BUILD_ID_MAX + 1] = "";
    item->elf = open_file(path, build_id);
    if (item->elf && !*build_id) {
        build_id_of(item->elf, found);
        images->unverified++;
    }
    item->image = profile_image(images->profile, PROFILE_IMAGE_FILE, path, *build_id ? build_id : found, 0);
    if (!item->image)
        return false;
    item->path = profile_text(images->profile, images->profile->images[item->image].path);
    return true;
}

size_t import_images_find(struct import_images *images, const char *path, const char *build_id)
{
    const struct profile *profile = images->profile;
    for (size_t i = 0; i < images->count; i++) {
        const struct import_image *item = &images->items[i];
        const char *known = profile_text(profile, profile->images[item->image].build_id);
        if (!strcmp(item->path, path) && (!*build_id || !strcmp(known, build_id)))
            return i;
    }
    struct import_image item = {0};
    if (!base_array_room(images->items, images->count, images->capacity) ||
        !open_image(images, &item, path, build_id)) {
        if (item.elf)
            elf_image_close(item.elf);
        return SIZE_MAX;
    }
    images->items[images->count] = item;
    return images->count++;
}

uint64_t import_images_address(const struct import_images *images, size_t index, uint64_t offset)
{
    uint64_t address = offset;
    if (images->items[index].elf)
        elf_image_address_of_offset(images->items[index].elf, offset, &address);
    return address;
}

void import_images_need(struct import_images *images, size_t index)
{
    if (!images->items[index].needed && !images->items[index].elf)
        profile_lose(images->profile, WIRE_LOSS_IMAGE_UNREADABLE, 1);
    images->items[index].needed = true;
}

void import_images_bounds(struct import_images *images, size_t index, uint64_t address, uint64_t *start,
                          uint64_t *end)
{
    struct import_image *item = &images->items[index];
    struct symbol_options options = {.root = ""};
    struct symbol_function function;
    *start = *end = 0;
    if (item->elf && !item->symbols)
        symbol_file_open(item->elf, &options, &item->symbols, NULL);
    if (!item->symbols || !symbol_file_function(item->symbols, address, &function))
        return;
    *start = function.start;
    *end = function.end;
}

void import_images_report(const struct import_images *images)
{
    if (images->unverified)
        import_stack_notice(images->profile,
                            "images are found by path, nothing in the file says whether they are what ran");
}
