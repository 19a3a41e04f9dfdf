#include "sample_image.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_array.h"
#include "proc_maps.h"
#include "wire_loss.h"

enum { CACHE_LIMIT = 1 << 30 };

int sample_images_init(struct sample_images *images, struct profile *profile, struct base_error *error)
{
    *images = (struct sample_images){.profile = profile};
    char *directory = cfi_cache_default_directory();
    struct base_error reason = {0};
    int result = cfi_cache_open(directory, CACHE_LIMIT, &images->cache, &reason);
    free(directory);
    if (reason.text[0])
        profile_set_meta(profile, "cache_refused", reason.text);
    return result < 0 ? base_fail(error, result, "%s", reason.text) : BASE_OK;
}

void sample_images_free(struct sample_images *images)
{
    for (size_t i = 0; i < images->count; i++) {
        if (images->items[i].has_rows)
            cfi_table_close(&images->items[i].table);
        if (images->items[i].elf)
            elf_image_close(images->items[i].elf);
        if (images->items[i].root >= 0)
            close(images->items[i].root);
        free(images->items[i].path);
    }
    free(images->items);
    base_map_free(&images->by_hash);
    if (images->cache)
        cfi_cache_close(images->cache);
    *images = (struct sample_images){0};
}

static uint64_t hash_key(const struct sample_image_key *key)
{
    if (key->build_id.size)
        return base_hash_bytes(key->build_id.bytes, key->build_id.size);
    uint64_t hash = base_hash_bytes(key->path, strlen(key->path));
    return base_hash(hash ^ key->inode ^ ((uint64_t)key->major << 48) ^ ((uint64_t)key->minor << 32));
}

static bool same_key(const struct sample_image_key *a, const struct sample_image_key *b)
{
    if (a->build_id.size || b->build_id.size)
        return elf_build_id_equal(&a->build_id, &b->build_id);
    return a->inode == b->inode && a->major == b->major && a->minor == b->minor && !strcmp(a->path, b->path);
}

/* UINT32_MAX: none. *first: of the same hash, as the map has it. */
static uint32_t find_image_by_key(const struct sample_images *images, const struct sample_image_key *key,
                                  uint32_t *first)
{
    *first = base_map_find(&images->by_hash, hash_key(key));
    for (uint32_t at = *first; at != BASE_MAP_NONE && at; at = images->items[at - 1].next_same_hash) {
        if (same_key(&images->items[at - 1].key, key))
            return at - 1;
    }
    return UINT32_MAX;
}

bool sample_images_knows(const struct sample_images *images, const struct sample_image_key *key)
{
    uint32_t first;
    return find_image_by_key(images, key, &first) != UINT32_MAX;
}

uint32_t sample_images_find(struct sample_images *images, const struct sample_image_key *key)
{
    uint64_t hash = hash_key(key);
    uint32_t first, known = find_image_by_key(images, key, &first);
    if (known != UINT32_MAX)
        return known;
    char *path = strdup(key->path);
    if (!path || !base_array_room(images->items, images->count, images->capacity) ||
        !base_map_set(&images->by_hash, hash, (uint32_t)images->count + 1)) {
        free(path);
        return UINT32_MAX;
    }
    struct sample_image *image = &images->items[images->count];
    *image = (struct sample_image){.path = path, .key = *key, .key_hash = hash, .root = -1};
    image->key.path = path;
    image->next_same_hash = first == BASE_MAP_NONE ? 0 : first;
    return (uint32_t)images->count++;
}

/* The vDSO is the same in every 64-bit process of this kernel, so Tally's own serves. */
static int open_vdso(struct sample_image *image)
{
    const uint8_t *start = (const uint8_t *)getauxval(AT_SYSINFO_EHDR); /* NOLINT: the kernel's own address */
    if (!start)
        return BASE_ENOTFOUND;
    const Elf64_Ehdr *header = (const void *)start;
    size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    return elf_image_open_memory(start, size, image->path, &image->elf, NULL);
}

static int open_file(struct sample_image *image, pid_t pid, uint64_t start, uint64_t end)
{
    struct proc_mapping mapping = {.start = start,
                                   .end = end,
                                   .device_major = image->key.major,
                                   .device_minor = image->key.minor,
                                   .inode = image->key.inode,
                                   .path = image->path,
                                   .deleted = image->key.deleted};
    int fd = proc_maps_open(pid, &mapping, NULL);
    return fd < 0 ? fd : elf_image_open_fd(fd, image->path, &image->elf, NULL);
}

/* STORE/.build-id/01/23.../elf */
static int open_stored(const struct sample_images *images, struct sample_image *image)
{
    char id[2 * ELF_BUILD_ID_MAX + 1], path[512];
    if (!image->key.build_id.size || !images->store[0])
        return BASE_ENOTFOUND;
    elf_build_id_format(&image->key.build_id, id);
    snprintf(path, sizeof path, "%s/.build-id/%.2s/%s/%s", images->store, id, id + 2,
             strcmp(image->path, "[vdso]") ? "elf" : "vdso");
    return elf_image_open(path, &image->elf, NULL);
}

static bool is_expected(const struct sample_image *image)
{
    return !image->key.build_id.size ||
           elf_build_id_equal(&image->key.build_id, elf_image_build_id(image->elf));
}

static int open_replayed(const struct sample_images *images, struct sample_image *image)
{
    if (image->path[0] == '/' && elf_image_open(image->path, &image->elf, NULL) == BASE_OK) {
        if (is_expected(image))
            return BASE_OK;
        elf_image_close(image->elf);
        image->elf = NULL;
    }
    return open_stored(images, image);
}

/* Held open, so that debug files can be looked for there when the process is gone. */
static int open_other_root(pid_t pid)
{
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (!fstat(fd, &other) && !stat("/", &own) && (other.st_dev != own.st_dev || other.st_ino != own.st_ino))
        return fd;
    close(fd);
    return -1;
}

static void open_elf(struct sample_images *images, struct sample_image *image, pid_t pid, uint64_t start,
                     uint64_t end)
{
    bool vdso = !strcmp(image->path, "[vdso]");
    int result = images->replayed ? open_replayed(images, image)
                 : vdso           ? open_vdso(image)
                                  : open_file(image, pid, start, end);
    image->state = SAMPLE_IMAGE_UNREADABLE;
    if (result < 0) {
        profile_lose(images->profile, WIRE_LOSS_IMAGE_UNREADABLE, 1);
        return;
    }
    if (!vdso && !is_expected(image)) {
        profile_lose(images->profile, WIRE_LOSS_IMAGE_CHANGED, 1);
        elf_image_close(image->elf);
        image->elf = NULL;
        return;
    }
    image->state = SAMPLE_IMAGE_OPEN;
    image->root = vdso || images->replayed ? -1 : open_other_root(pid);
}

/* The file of an image that is not open, as far as it is still at its path; the caller closes it. NULL: it is
 * not. */
static struct elf_image *reopen_file(const struct sample_image *image)
{
    struct sample_image own = *image;
    own.elf = NULL;
    if (own.path[0] != '/' || open_file(&own, 0, 0, 0) < 0)
        return NULL;
    if (is_expected(&own))
        return own.elf;
    elf_image_close(own.elf);
    return NULL;
}

void sample_image_visit(const struct sample_image *image,
                        void (*visit)(void *context, const struct elf_image *elf), void *context)
{
    struct elf_image *own = image->elf ? NULL : reopen_file(image);
    if (image->elf || own)
        visit(context, image->elf ? image->elf : own);
    if (own)
        elf_image_close(own);
}

const struct unwind_rows *sample_images_rows(struct sample_images *images, uint32_t index)
{
    struct sample_image *image = &images->items[index];
    if (!image->looked_for_rows && image->elf)
        image->has_rows = cfi_table_open(images->cache, image->elf, &image->table, NULL) == BASE_OK;
    image->looked_for_rows |= image->elf != NULL;
    return image->has_rows ? &image->table.rows : NULL;
}

static void give_number(struct sample_images *images, struct sample_image *image)
{
    const struct elf_build_id *id = image->elf ? elf_image_build_id(image->elf) : &image->key.build_id;
    char build_id[2 * ELF_BUILD_ID_MAX + 1] = "";
    if (id->size)
        elf_build_id_format(id, build_id);
    bool vdso = !strcmp(image->path, "[vdso]");
    image->profile_image = profile_image(images->profile, vdso ? PROFILE_IMAGE_VDSO : PROFILE_IMAGE_FILE,
                                         image->path, build_id, 0);
}

int sample_images_know(struct sample_images *images, const struct sample_image_key *key,
                       const struct sample_image_bytes *known, struct base_error *error)
{
    uint32_t index = sample_images_find(images, key);
    if (index == UINT32_MAX)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    struct sample_image *image = &images->items[index];
    if (image->state == SAMPLE_IMAGE_OPEN)
        return BASE_OK;
    int result = elf_image_open_memory(known->bytes, known->size, image->path, &image->elf, error);
    image->state = result < 0 ? SAMPLE_IMAGE_UNREADABLE : SAMPLE_IMAGE_OPEN;
    image->lead = known->lead;
    image->profile_image = profile_image(images->profile, PROFILE_IMAGE_FILE, known->name, "", 0);
    return result;
}

struct sample_image *sample_images_open(struct sample_images *images, uint32_t index, pid_t pid,
                                        uint64_t start, uint64_t end)
{
    struct sample_image *image = &images->items[index];
    if (image->state == SAMPLE_IMAGE_UNOPENED) {
        open_elf(images, image, pid, start, end);
        give_number(images, image);
    }
    return image;
}
