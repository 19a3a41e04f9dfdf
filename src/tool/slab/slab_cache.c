/* Plans on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base_cache.h"
#include "base_map.h"
#include "slab_cache.h"

#define VARIANT_SIZE 17 /* of its name: '-' and 16 digits */

struct slab_cache {
    struct base_cache *files, *slabs;
};

int slab_cache_open(const char *directory, uint64_t limit, struct slab_cache **cache,
                    struct base_error *error)
{
    const struct base_cache_kind plans = {".plan", "call plans", limit}, slabs = {".slab", "stubs", limit};
    *cache = calloc(1, sizeof **cache);
    if (*cache == NULL)
        return base_fail(error, BASE_ENOMEM, "no memory for the cache of call plans");
    int code = base_cache_open(directory, &plans, &(*cache)->files, error);
    if (code == BASE_OK) /* one warning about a directory that cannot be used is enough */
        code = base_cache_open(base_cache_usable((*cache)->files) ? directory : NULL, &slabs,
                               &(*cache)->slabs, error);
    if (code != BASE_OK) {
        slab_cache_close(*cache);
        *cache = NULL;
    }
    return code;
}

void slab_cache_close(struct slab_cache *cache)
{
    if (cache == NULL)
        return;
    base_cache_close(cache->files);
    base_cache_close(cache->slabs);
    free(cache);
}

static bool is_of_image(const struct plan *plan, const struct elf_image *image)
{
    uint64_t size, hash;
    elf_image_text_check(image, &size, &hash);
    return plan->header->machine == elf_image_machine(image) && plan->header->text_size == size &&
           plan->header->text_hash == hash;
}

/* All of it is read soon: mapped at once, without a fault for every few pages. */
static void *map_whole(const struct base_cache *files, const char *name, size_t *size)
{
    void *bytes = base_cache_map(files, name, size);
    if (bytes != NULL)
        madvise(bytes, *size, MADV_POPULATE_READ);
    return bytes;
}

static bool read_cached(const struct slab_cache *cache, const struct elf_image *image, const char *name,
                        struct plan *plan)
{
    size_t size;
    void *bytes = map_whole(cache->files, name, &size);
    if (bytes == NULL)
        return false;
    if (plan_open(plan, bytes, size) && is_of_image(plan, image)) {
        plan->blob = bytes;
        plan->mapped = true;
        return true;
    }
    munmap(bytes, size);
    return false;
}

/* The name of the image's file; false: it has none, or there is no directory. */
static bool name_of(const struct slab_cache *cache, const struct elf_image *image,
                    char name[2 * ELF_BUILD_ID_MAX + 1])
{
    const struct elf_build_id *id = elf_image_build_id(image);
    if (cache == NULL || !base_cache_usable(cache->files) || id == NULL || id->size == 0)
        return false;
    elf_build_id_format(id, name);
    return true;
}

bool slab_cache_keeps(const struct slab_cache *cache, const struct elf_image *image)
{
    char name[2 * ELF_BUILD_ID_MAX + 1];
    return name_of(cache, image, name);
}

bool slab_cache_find(const struct slab_cache *cache, const struct elf_image *image, struct plan *plan)
{
    char name[2 * ELF_BUILD_ID_MAX + 1];
    *plan = (struct plan){0};
    return name_of(cache, image, name) && read_cached(cache, image, name, plan);
}

void slab_cache_keep(struct slab_cache *cache, const struct elf_image *image, const struct plan *plan)
{
    char name[2 * ELF_BUILD_ID_MAX + 1];
    if (name_of(cache, image, name))
        base_cache_write(cache->files, name, plan->blob, plan->size);
}

/* --- slabs --- */

static bool variant_of(const struct slab_cache *cache, const struct elf_image *image,
                       const struct slab_prepared_input *input,
                       char name[2 * ELF_BUILD_ID_MAX + VARIANT_SIZE + 1])
{
    uint64_t ways =
        input->way_count > 0 ? base_hash_bytes(input->ways, input->way_count * sizeof *input->ways) : 0;
    if (!name_of(cache, image, name))
        return false;
    snprintf(name + 2 * elf_image_build_id(image)->size, VARIANT_SIZE + 1, "-%016llx",
             (unsigned long long)base_hash(input->key ^ ways));
    return true;
}

bool slab_cache_find_prepared(const struct slab_cache *cache, const struct elf_image *image,
                              const struct slab_prepared_input *input, struct slab_prepared *prepared)
{
    char name[2 * ELF_BUILD_ID_MAX + VARIANT_SIZE + 1];
    size_t size;
    void *bytes = variant_of(cache, image, input, name) ? map_whole(cache->slabs, name, &size) : NULL;
    if (bytes == NULL)
        return false;
    if (!slab_prepared_open(prepared, input->plan, bytes, size)) {
        munmap(bytes, size);
        return false;
    }
    prepared->blob = bytes;
    prepared->mapped = true;
    return true;
}

void slab_cache_keep_prepared(struct slab_cache *cache, const struct elf_image *image,
                              const struct slab_prepared_input *input, const struct slab_prepared *prepared)
{
    char name[2 * ELF_BUILD_ID_MAX + VARIANT_SIZE + 1];
    if (variant_of(cache, image, input, name))
        base_cache_write(cache->slabs, name, prepared->blob, prepared->size);
}
