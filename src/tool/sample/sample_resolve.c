/* Addresses are worked through image by image and in order, so that each symbol table is opened once and
 * neighbours share what libdw has at hand: within an image functions first, then lines and inlined frames, as
 * long as the time lasts. */
#include "sample_resolve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base_clock.h"
#include "symbol.h"
#include "wire_loss.h"

enum { LEVELS_MAX = 64, CLOCK_EVERY = 16 };

struct resolver {
    struct profile *profile;
    const struct sample_resolve_options *options;
    uint32_t *order; /* addresses to look up, by image and address */
    size_t order_count;
    size_t done;
    uint64_t deadline;
    struct symbol_kernel *kernel;
    bool kernel_tried;
};

static void publish_progress(const struct resolver *resolver)
{
    if (resolver->options->progress)
        resolver->options->progress(resolver->options->context, resolver->done, 2 * resolver->order_count);
}

/* Also reports the progress to the caller. */
static bool out_of_time(struct resolver *resolver)
{
    if (++resolver->done % CLOCK_EVERY)
        return false;
    publish_progress(resolver);
    return resolver->deadline && base_clock_of(CLOCK_PROCESS_CPUTIME_ID) > resolver->deadline;
}

/* --- what is to be done --- */

static bool is_wanted_address(const struct profile *profile, const struct profile_address *address,
                              bool lines)
{
    uint32_t kind = profile->images[address->image].kind;
    return kind != PROFILE_IMAGE_JIT && kind != PROFILE_IMAGE_SPECIAL &&
           (address->resolution == PROFILE_UNRESOLVED || (lines && !address->lines_known));
}

static int by_image_and_address(const void *left, const void *right, void *context)
{
    const struct profile_address *addresses = context;
    const struct profile_address *a = &addresses[*(const uint32_t *)left],
                                 *b = &addresses[*(const uint32_t *)right];
    if (a->image != b->image)
        return a->image < b->image ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

static int resolve_work(struct resolver *resolver, struct base_error *error)
{
    struct profile *profile = resolver->profile;
    resolver->order = malloc((profile->address_count + 1) * sizeof *resolver->order);
    if (!resolver->order)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (uint32_t i = 1; i < profile->address_count; i++) {
        if (is_wanted_address(profile, &profile->addresses[i], resolver->options->lines))
            resolver->order[resolver->order_count++] = i;
    }
    qsort_r(resolver->order, resolver->order_count, sizeof *resolver->order, by_image_and_address,
            profile->addresses);
    return BASE_OK;
}

/* --- images --- */

struct source {
    const struct elf_image *image;
    struct elf_image *own; /* opened here */
    struct symbol_file *file;
};

static bool same_build(const struct profile *profile, const struct profile_image *wanted,
                       const struct elf_image *image)
{
    char build_id[2 * ELF_BUILD_ID_MAX + 1] = "";
    if (elf_image_build_id(image)->size)
        elf_build_id_format(elf_image_build_id(image), build_id);
    return !strcmp(build_id, profile_text(profile, wanted->build_id));
}

/* The file itself, as long as it is still the one that was profiled; else the debug file that carries its
 * build-id. */
static struct elf_image *open_image(const struct profile *profile, const struct profile_image *wanted)
{
    struct elf_image *image = NULL;
    if (elf_image_open(profile_text(profile, wanted->path), &image, NULL) == BASE_OK) {
        if (same_build(profile, wanted, image))
            return image;
        elf_image_close(image);
    }
    return NULL;
}

static void open_source(struct resolver *resolver, uint32_t index, struct source *source)
{
    const struct profile_image *wanted = &resolver->profile->images[index];
    const struct sample_resolve_options *options = resolver->options;
    *source = (struct source){0};
    if (wanted->kind != PROFILE_IMAGE_FILE && wanted->kind != PROFILE_IMAGE_VDSO)
        return;
    if (options->image)
        source->image = options->image(options->context, index);
    if (!source->image && wanted->kind == PROFILE_IMAGE_FILE)
        source->image = source->own = open_image(resolver->profile, wanted);
    char root[64] = "";
    if (options->root)
        options->root(options->context, index, root, sizeof root);
    struct symbol_options symbols = {.debuginfod = options->debuginfod, .root = root};
    if (source->image)
        symbol_file_open(source->image, &symbols, &source->file, NULL);
}

static void close_source(struct resolver *resolver, struct source *source)
{
    if (source->image && elf_image_is_cut(source->image))
        profile_lose(resolver->profile, WIRE_LOSS_IMAGE_CHANGED, 1);
    if (source->file)
        symbol_file_close(source->file);
    if (source->own)
        elf_image_close(source->own);
}

/* --- one address --- */

static bool name_in_kernel(struct resolver *resolver, struct profile_address *value)
{
    if (!resolver->kernel_tried) {
        resolver->kernel_tried = true;
        symbol_kernel_open(NULL, &resolver->kernel, NULL);
    }
    const char *name, *module;
    uint64_t start;
    if (!resolver->kernel || !symbol_kernel_find(resolver->kernel, value->address, &name, &module, &start))
        return false;
    value->function = profile_function(resolver->profile, value->image, name, start, start);
    value->lines_known = true;
    return value->function;
}

static void name_address(struct resolver *resolver, const struct source *source, uint32_t index)
{
    struct profile *profile = resolver->profile;
    struct profile_address value = profile->addresses[index];
    struct symbol_function function;
    bool named;
    if (value.resolution != PROFILE_UNRESOLVED)
        return;
    if (profile->images[value.image].kind == PROFILE_IMAGE_KERNEL) {
        named = name_in_kernel(resolver, &value);
    } else {
        named = source->file && symbol_file_function(source->file, value.address, &function);
        if (named)
            value.function =
                profile_function(profile, value.image, function.name, function.start, function.end);
    }
    value.resolution = named ? PROFILE_RESOLVED : PROFILE_NO_SYMBOL;
    if (!named && !source->file)
        value.lines_known = true;
    profile_set_address(profile, index, &value);
}

static void find_lines(struct resolver *resolver, const struct source *source, uint32_t index)
{
    struct profile *profile = resolver->profile;
    struct profile_address value = profile->addresses[index];
    struct symbol_line lines[LEVELS_MAX];
    if (value.lines_known)
        return;
    size_t count = source->file ? symbol_file_lines(source->file, value.address, lines, LEVELS_MAX) : 0;
    value.lines_known = true;
    if (count) {
        value.file = profile_string(profile, lines[count - 1].file);
        value.line = lines[count - 1].line;
    }
    for (size_t level = count; level-- > 0;) {
        if (level + 1 < count && lines[level].function)
            value.inlined = profile_inlined(profile, lines[level].function, lines[level].file,
                                            lines[level].line, value.inlined);
    }
    profile_set_address(profile, index, &value);
}

/* --- all of them --- */

typedef void work_on_address(struct resolver *resolver, const struct source *source, uint32_t index);

/* Addresses [first, end) of `order` are of one image. */
static bool work_on_image(struct resolver *resolver, const struct source *source, size_t first, size_t end,
                          work_on_address *work)
{
    for (size_t i = first; i < end; i++) {
        work(resolver, source, resolver->order[i]);
        if (out_of_time(resolver))
            return false;
    }
    return true;
}

/* The share of all samples that were interrupted in an image. */
static double share_of(const struct profile *profile, uint32_t image)
{
    uint64_t inside = 0, all = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        all += cell->samples;
        if (profile->addresses[profile->nodes[cell->node].address].image == image)
            inside += cell->samples;
    }
    return all ? (double)inside / (double)all : 0;
}

static bool wants_lines(const struct resolver *resolver, const struct source *source, uint32_t image)
{
    struct elf_section section;
    const struct sample_resolve_options *options = resolver->options;
    if (!options->lines || !source->file)
        return options->lines;
    return elf_image_section(source->image, ".debug_line", &section) || options->debug_file_share <= 0 ||
           share_of(resolver->profile, image) >= options->debug_file_share;
}

static void resolve_all(struct resolver *resolver)
{
    const struct profile_address *addresses = resolver->profile->addresses;
    bool in_time = true;
    for (size_t first = 0, end; in_time && first < resolver->order_count; first = end) {
        uint32_t image = addresses[resolver->order[first]].image;
        for (end = first; end < resolver->order_count && addresses[resolver->order[end]].image == image;)
            end++;
        struct source source;
        open_source(resolver, image, &source);
        publish_progress(resolver); /* a large file's tables alone may take their time */
        in_time = work_on_image(resolver, &source, first, end, name_address);
        if (in_time && wants_lines(resolver, &source, image))
            in_time = work_on_image(resolver, &source, first, end, find_lines);
        close_source(resolver, &source);
    }
}

static void count_what_is_left(struct profile *profile)
{
    uint64_t unresolved = 0, unnamed = 0;
    for (uint32_t i = 1; i < profile->address_count; i++) {
        const struct profile_address *address = &profile->addresses[i];
        uint32_t kind = profile->images[address->image].kind;
        if (kind == PROFILE_IMAGE_JIT || kind == PROFILE_IMAGE_SPECIAL)
            continue;
        unresolved += address->resolution == PROFILE_UNRESOLVED;
        unnamed += address->resolution == PROFILE_NO_SYMBOL;
    }
    profile->losses[WIRE_LOSS_NOT_YET_RESOLVED] = 0;
    profile->losses[WIRE_LOSS_NO_SYMBOL] = 0;
    profile_lose(profile, WIRE_LOSS_NOT_YET_RESOLVED, unresolved);
    profile_lose(profile, WIRE_LOSS_NO_SYMBOL, unnamed);
}

int sample_resolve(struct profile *profile, const struct sample_resolve_options *options,
                   struct base_error *error)
{
    struct resolver resolver = {.profile = profile, .options = options};
    int result = resolve_work(&resolver, error);
    if (result < 0)
        return result;
    resolver.deadline = options->limit_ns ? base_clock_of(CLOCK_PROCESS_CPUTIME_ID) + options->limit_ns : 0;
    resolve_all(&resolver);
    count_what_is_left(profile);
    if (resolver.kernel)
        symbol_kernel_close(resolver.kernel);
    free(resolver.order);
    return BASE_OK;
}
