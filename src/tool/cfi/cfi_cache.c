/* Compiled rows on disk: one file an image, BUILDID.rows, which is the flat form as it is in memory; used by
 * mapping it (base_cache.c says what makes that safe). A file is believed only when its machine, size and
 * hash of the text are the image's (build-ids are chosen by whoever built the image) and unwind_rows_open has
 * proved its indices. A file that fails is replaced. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base_cache.h"
#include "cfi.h"

struct cfi_cache {
    struct base_cache *files;
};

int cfi_cache_open(const char *directory, uint64_t limit, struct cfi_cache **cache, struct base_error *error)
{
    const struct base_cache_kind kind = {".rows", "unwind rows", limit};
    *cache = calloc(1, sizeof **cache);
    if (*cache == NULL)
        return base_fail(error, BASE_ENOMEM, "out of memory for the cache of unwind rows");
    int code = base_cache_open(directory, &kind, &(*cache)->files, error);
    if (code != BASE_OK) {
        free(*cache);
        *cache = NULL;
    }
    return code;
}

void cfi_cache_close(struct cfi_cache *cache)
{
    if (cache == NULL)
        return;
    base_cache_close(cache->files);
    free(cache);
}

char *cfi_cache_default_directory(void)
{
    return base_cache_default_directory();
}

static bool is_of_image(const struct cfi_table *table, const struct elf_image *image)
{
    uint64_t size, hash;
    elf_image_text_check(image, &size, &hash);
    const struct wire_rows_header *header = table->rows.header;
    return header->machine == elf_image_machine(image) && header->text_size == size &&
           header->text_hash == hash;
}

static bool read_cached(const struct cfi_cache *cache, const struct elf_image *image, const char *name,
                        struct cfi_table *table)
{
    size_t size;
    void *bytes = base_cache_map(cache->files, name, &size);
    if (bytes == NULL)
        return false;
    *table = (struct cfi_table){.blob = bytes, .size = size, .mapped = true};
    if (size >= sizeof(struct wire_rows_header) && unwind_rows_open(&table->rows, table->blob, table->size) &&
        is_of_image(table, image))
        return true;
    cfi_table_close(table);
    return false;
}

int cfi_table_open(struct cfi_cache *cache, const struct elf_image *image, struct cfi_table *table,
                   struct base_error *error)
{
    char name[2 * ELF_BUILD_ID_MAX + 1];
    const struct elf_build_id *id = elf_image_build_id(image);
    bool cached = cache != NULL && base_cache_usable(cache->files) && id != NULL && id->size > 0;
    *table = (struct cfi_table){0};
    if (cached)
        elf_build_id_format(id, name);
    if (cached && read_cached(cache, image, name, table))
        return BASE_OK;
    int code = cfi_compile(image, NULL, &table->blob, &table->size, NULL, error);
    if (code != BASE_OK)
        return code;
    if (!unwind_rows_open(&table->rows, table->blob, table->size)) {
        cfi_table_close(table);
        return base_fail(error, BASE_EFORMAT, "%s: its unwind rows are corrupt", elf_image_name(image));
    }
    if (cached)
        base_cache_write(cache->files, name, table->blob, table->size);
    return BASE_OK;
}

void cfi_table_close(struct cfi_table *table)
{
    if (table->mapped)
        munmap(table->blob, table->size);
    else
        free(table->blob);
    *table = (struct cfi_table){0};
}
