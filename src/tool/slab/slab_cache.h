/* slab_cache.h - plans on disk, so that the second time costs the writing alone.
 *
 * One file an image, BUILDID.plan, in the directory of the unwind rows; the plan's flat form, used by mapping
 * it. It is used only when its version, machine, size and hash of the text are the image's and plan_open has
 * checked its indices and order; else it is made anew and replaced. A plan made with extra options is not
 * kept.
 *
 * Beside it, BUILDID-VARIANT.slab, are prepared slabs; an image has several, by which sites are wanted and
 * what ld.so has bound. Context: tool, one thread. */
#ifndef SLAB_CACHE_H
#define SLAB_CACHE_H

#include "plan.h"
#include "slab_prepared.h"

struct slab_cache;

/* As base_cache_open: a directory that cannot be used is no error. `directory` NULL: nothing is kept. */
int slab_cache_open(const char *directory, uint64_t limit, struct slab_cache **cache,
                    struct base_error *error);
void slab_cache_close(struct slab_cache *cache);

/* The image's plan if the cache has it; false: it has not. Several threads may call it at once. */
bool slab_cache_find(const struct slab_cache *cache, const struct elf_image *image, struct plan *plan);
/* Keeps a plan that was made without options. By one thread at a time; others may read meanwhile. */
void slab_cache_keep(struct slab_cache *cache, const struct elf_image *image, const struct plan *plan);

/* Can anything be kept for the image? Else nothing is ever kept or found. */
bool slab_cache_keeps(const struct slab_cache *cache, const struct elf_image *image);

/* A slab that was prepared from such an input, if the cache has it; false: it has not. Several threads may
 * call it at once. */
bool slab_cache_find_prepared(const struct slab_cache *cache, const struct elf_image *image,
                              const struct slab_prepared_input *input, struct slab_prepared *prepared);
/* Keeps it. By one thread at a time; others may read meanwhile, and keep plans. */
void slab_cache_keep_prepared(struct slab_cache *cache, const struct elf_image *image,
                              const struct slab_prepared_input *input, const struct slab_prepared *prepared);

#endif
