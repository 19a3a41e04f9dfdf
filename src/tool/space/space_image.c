#include "space_image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_pool.h"
#include "base_search.h"
#include "base_stack.h"
#include "cfi.h"
#include "elf_export.h"
#include "plan_image.h"
#include "plan_select.h"
#include "slab.h"
#include "space_export.h"
#include "space_imports.h"
#include "space_prepared.h"
#include "wire_loss.h"

#define CACHE_LIMIT   (1u << 30)
#define SLOTS_LISTED  512          /* kept at a time */
#define WORTH_THREADS (256u << 10) /* bytes of files: to plan them takes longer than to begin a thread */

int space_images_init(struct space_images *set, struct sample_images *images,
                      const struct space_request *request, struct base_error *error)
{
    *set = (struct space_images){
        .images = images, .request = *request, .preparations = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    struct base_error reason = {0};
    set->found = calloc(request->name_count + 1, sizeof *set->found);
    if (!set->found)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    char *directory = cfi_cache_default_directory();
    int result = slab_cache_open(directory, CACHE_LIMIT, &set->cache, &reason);
    free(directory);
    return result < 0 ? base_fail(error, result, "%s", reason.text) : BASE_OK;
}

static void forget_plan(struct space_image *image)
{
    plan_free(&image->plan);
    plan_slots_free(&image->names);
}

static void free_image(struct space_image *image)
{
    if (!image)
        return;
    if (image->state == SPACE_PLANNED)
        forget_plan(image);
    free(image->wanted);
    free(image->named);
    free(image->slots);
    free(image->quiet);
    free(image->imports.hashes);
    free(image->offers.items);
    plan_creation_free(&image->creations);
    free(image);
}

/* --- inserting plans into the cache --- */

/* What the thread needs: tables of images may move meanwhile, images and their plans do not. */
struct insertion {
    struct slab_cache *cache;
    size_t count;
    struct {
        const struct elf_image *elf;
        const struct plan *plan;
    } items[];
};

static void *insert_plans(void *context)
{
    struct insertion *insertion = context;
    for (size_t i = 0; i < insertion->count; i++)
        slab_cache_keep(insertion->cache, insertion->items[i].elf, insertion->items[i].plan);
    free(insertion);
    return NULL;
}

static void end_insertion(struct space_images *set)
{
    if (set->insertion)
        pthread_join(set->inserter, NULL);
    set->insertion = false;
}

/* Writes fresh plans to the cache while the target goes on already: of a large library that takes longer than
 * counting what it has to wait for. */
static void begin_insertion(struct space_images *set)
{
    struct insertion *insertion = malloc(sizeof *insertion + set->capacity * sizeof insertion->items[0]);
    if (!insertion)
        return;
    insertion->cache = set->cache;
    insertion->count = 0;
    for (size_t i = 0; i < set->capacity; i++) {
        struct space_image *image = set->items[i];
        if (!image || !image->fresh)
            continue;
        image->fresh = false;
        insertion->items[insertion->count].elf = set->images->items[i].elf;
        insertion->items[insertion->count++].plan = &image->plan;
    }
    end_insertion(set);
    set->insertion = insertion->count && !base_stack_thread(&set->inserter, insert_plans, insertion);
    if (!set->insertion)
        insert_plans(insertion);
}

/* --- planning ahead --- */

static void end_early(struct space_early *early)
{
    if (early->begun)
        pthread_join(early->thread, NULL);
    if (early->planned)
        plan_free(&early->plan);
    elf_image_close(early->elf);
    *early = (struct space_early){0};
}

void space_images_free(struct space_images *set)
{
    end_insertion(set);
    end_early(&set->early);
    space_prepared_end(&set->preparations);
    for (size_t i = 0; i < set->capacity; i++)
        free_image(set->items[i]);
    free(set->items);
    free(set->found);
    if (set->cache)
        slab_cache_close(set->cache);
    *set = (struct space_images){0};
}

/* --- what is wanted --- */

static const char *slot_name(void *context, uint64_t slot)
{
    return plan_slots_name(context, slot);
}

static int choose_sites(const struct space_images *set, struct space_image *image)
{
    const struct plan_header *header = image->plan.header;
    struct plan_select_names names = {.globs = set->request.names,
                                      .glob_count = set->request.name_count,
                                      .found = set->found,
                                      .slot_name = slot_name,
                                      .context = &image->names};
    if (!set->request.name_count)
        return BASE_OK;
    image->wanted = calloc((size_t)header->site_count + header->hook_count + 1, 1);
    image->named = calloc(header->function_count + 1u, 1);
    if (!image->wanted || !image->named)
        return BASE_ENOMEM;
    plan_select_functions(&image->plan, &names, image->named);
    for (size_t i = 0; i < image->names.count; i++)
        plan_select_name(&names, image->names.items[i].name);
    names.found = NULL; /* of all, by now */
    plan_select_names(&image->plan, &names, image->named, image->wanted);
    return BASE_OK;
}

/* --- slots --- */

static int by_address(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* What of a plan's sites goes through slots. */
struct users {
    uint32_t *sites;
    size_t count;
};

/* Sites are visited once: of a large library there are more than the processor's cache has room for.
 * Thousands go through a few hundred slots: what was just listed is not listed again, so that little is left
 * to sort. */
static void list_users(struct space_image *image, struct users *users)
{
    const struct plan *plan = &image->plan;
    uint64_t listed[SLOTS_LISTED] = {0};
    for (uint32_t i = 0; i < plan->header->site_count; i++) {
        uint64_t slot = plan->sites[i].slot, *last = &listed[slot / sizeof slot % SLOTS_LISTED];
        if (!slot)
            continue;
        users->sites[users->count++] = i;
        if (slot != *last)
            image->slots[image->slot_count++] = *last = slot;
    }
}

static void order_slots(struct space_image *image)
{
    size_t count = image->slot_count, kept = 0;
    if (count)
        qsort(image->slots, count, sizeof *image->slots, by_address);
    for (size_t i = 0; i < count; i++)
        if (!kept || image->slots[kept - 1] != image->slots[i])
            image->slots[kept++] = image->slots[i];
    image->slot_count = kept;
}

/* Jumps that end in an image that is not counted, by the file their symbol's version is required of. If
 * another image's function is there instead (another malloc), its calls are still right: a jump's slot names
 * the callee. */
static void list_quiet(const struct space_images *set, struct space_image *image, const struct users *users)
{
    for (size_t i = 0; i < users->count; i++) {
        const struct plan_site *site = &image->plan.sites[users->sites[i]];
        if (!stub_x86_64_site_is_jump((enum stub_kind)site->kind))
            continue;
        const struct plan_slot *slot = plan_slots_at(&image->names, site->slot);
        image->quiet[users->sites[i]] =
            slot && slot->library[0] &&
            !plan_select_image(slot->library, set->request.images, set->request.image_count);
    }
}

static int list_slots(const struct space_images *set, struct space_image *image)
{
    size_t room = (size_t)image->plan.header->site_count + 1;
    struct users users = {.sites = malloc(room * sizeof *users.sites)};
    image->slots = calloc(room, sizeof *image->slots);
    image->quiet = calloc(room, 1);
    bool fine = users.sites && image->slots && image->quiet;
    if (fine) {
        list_users(image, &users);
        order_slots(image);
        list_quiet(set, image, &users);
    }
    free(users.sites);
    return fine ? BASE_OK : BASE_ENOMEM;
}

size_t space_image_slot(const struct space_image *image, uint64_t slot)
{
    size_t at = base_search_number(image->slots, image->slot_count, slot);
    return at < image->slot_count && image->slots[at] == slot ? at : SIZE_MAX;
}

/* An unbound slot leads back into its image: to the linkage stub's second half, or to the first stub. */
static void find_linkage(struct space_image *image, const struct elf_image *elf)
{
    static const char *const names[] = {".plt", ".plt.sec", ".plt.got"};
    image->linkage_low = UINT64_MAX;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct elf_section section;
        if (!elf_image_section(elf, names[i], &section))
            continue;
        if (section.address < image->linkage_low)
            image->linkage_low = section.address;
        if (section.address + section.memory_size > image->linkage_high)
            image->linkage_high = section.address + section.memory_size;
    }
}

/* --- planning --- */

/* What the cache has is found as quickly when it is needed. */
static void *plan_early(void *context)
{
    struct space_early *early = context;
    struct plan kept;
    if (slab_cache_find(early->cache, early->elf, &kept))
        plan_free(&kept);
    else
        early->planned = plan_make(early->elf, NULL, &early->plan, NULL) == BASE_OK;
    __atomic_store_n(&early->done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* Waits for it, if it is this image's. */
static bool use_early(struct space_early *early, uint32_t index, struct plan *plan)
{
    if (early->index != index || !early->begun)
        return false;
    pthread_join(early->thread, NULL);
    early->begun = false;
    bool taken = early->planned;
    if (taken)
        *plan = early->plan;
    early->planned = false;
    return taken;
}

static bool is_wanted_image(const struct space_images *set, const struct sample_image *image)
{
    const char *name = plan_select_image_name(image->elf, image->path);
    return strcmp(image->path, "[vdso]") &&
           plan_select_image(name, set->request.images, set->request.image_count);
}

static enum space_image_state plan_image(struct space_images *set, uint32_t index, struct space_image *image)
{
    const struct sample_image *from = &set->images->items[index];
    if (!from->elf)
        return SPACE_REFUSED;
    if (!is_wanted_image(set, from))
        return SPACE_UNWANTED;
    if (plan_image_has_calls_read(from->elf))
        return SPACE_REFUSED;
    if (!slab_cache_find(set->cache, from->elf, &image->plan)) {
        if (!use_early(&set->early, index, &image->plan) &&
            plan_make(from->elf, NULL, &image->plan, NULL) < 0)
            return SPACE_REFUSED;
        image->fresh = true;
    }
    if (plan_slots_make(from->elf, &image->names, NULL) < 0) {
        plan_free(&image->plan);
        return SPACE_REFUSED;
    }
    if (choose_sites(set, image) == BASE_OK && list_slots(set, image) == BASE_OK) {
        image->slab_size = slab_size(&image->plan);
        find_linkage(image, from->elf);
        return SPACE_PLANNED;
    }
    forget_plan(image);
    return SPACE_REFUSED;
}

/* What it takes and offers: space_export.h. */
static int list_names(struct space_image *image, const struct elf_image *elf)
{
    bool planned = image->state == SPACE_PLANNED;
    uint64_t address;
    image->checks_leaks = elf_export_find(elf, "__lsan_do_leak_check", &address);
    int result = space_imports_make(&image->imports, elf, planned, NULL);
    return result < 0 || !planned ? result : space_imports_offers(&image->offers, elf, &image->plan, NULL);
}

static bool reserve_index(struct space_images *set, uint32_t index)
{
    return index < set->capacity || base_array_extend(set->items, set->capacity, (index + 1u) * 2u);
}

/* NULL: out of memory. Changes nothing that the preparation of other images uses. */
static struct space_image *prepare_image(struct space_images *set, uint32_t index)
{
    struct space_image *image = calloc(1, sizeof *image);
    if (!image)
        return NULL;
    const struct sample_image *from = &set->images->items[index];
    image->cache = set->cache;
    image->elf = from->elf;
    image->state = plan_image(set, index, image);
    if (from->elf && list_names(image, from->elf) < 0) {
        free_image(image);
        return NULL;
    }
    return image;
}

static void add_image(struct space_images *set, uint32_t index, struct space_image *image)
{
    if (image->state == SPACE_REFUSED)
        profile_lose(set->images->profile, WIRE_LOSS_NOT_PLANNED, 1);
    set->items[index] = image;
}

struct space_image *space_images_get(struct space_images *set, uint32_t index)
{
    if (index < set->capacity && set->items[index])
        return set->items[index];
    if (!reserve_index(set, index))
        return NULL;
    struct space_image *image = prepare_image(set, index);
    if (!image)
        return NULL;
    add_image(set, index, image);
    if (image->fresh)
        begin_insertion(set);
    return image;
}

void space_images_early(struct space_images *set, uint32_t index)
{
    struct space_early *early = &set->early;
    const struct sample_image *from = &set->images->items[index];
    if ((index < set->capacity && set->items[index]) || !from->elf || !is_wanted_image(set, from) ||
        (early->begun && !__atomic_load_n(&early->done, __ATOMIC_ACQUIRE)))
        return;
    end_early(early);
    int file = fcntl(elf_image_fd(from->elf), F_DUPFD_CLOEXEC, 0);
    if (file < 0 || elf_image_open_fd(file, from->path, &early->elf, NULL) < 0)
        return;
    early->index = index;
    early->cache = set->cache;
    early->begun = !base_stack_thread(&early->thread, plan_early, early);
}

/* --- several at once --- */

struct candidate {
    uint32_t index;
    size_t size;
    struct space_image *image;
};

struct ahead {
    struct space_images *set;
    struct candidate *items;
    size_t count;
};

static void prepare_one(void *context, size_t number)
{
    struct ahead *ahead = context;
    ahead->items[number].image = prepare_image(ahead->set, ahead->items[number].index);
}

static int by_size(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    if (left->size != right->size)
        return left->size > right->size ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

static bool is_listed(const struct ahead *ahead, uint32_t index)
{
    for (size_t i = 0; i < ahead->count; i++)
        if (ahead->items[i].index == index)
            return true;
    return false;
}

/* Those that were not requested yet; those that need not be planned come last. Returns how many bytes of
 * files the others are, or 0 when there is but one. */
static size_t list_candidates(struct ahead *ahead, const uint32_t *indices, size_t count)
{
    const struct space_images *set = ahead->set;
    size_t wanted = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sample_image *from = &set->images->items[indices[i]];
        struct candidate candidate = {.index = indices[i]};
        if (set->items[indices[i]] || is_listed(ahead, indices[i]))
            continue;
        if (from->elf && is_wanted_image(set, from)) {
            elf_image_bytes(from->elf, &candidate.size);
            size += candidate.size;
            wanted++;
        }
        ahead->items[ahead->count++] = candidate;
    }
    if (ahead->count)
        qsort(ahead->items, ahead->count, sizeof *ahead->items, by_size);
    return wanted > 1 ? size : 0;
}

static void add_images(const struct ahead *ahead)
{
    bool fresh = false;
    for (size_t i = 0; i < ahead->count; i++) {
        struct space_image *image = ahead->items[i].image;
        if (image)
            add_image(ahead->set, ahead->items[i].index, image);
        fresh |= image && image->fresh;
    }
    if (fresh)
        begin_insertion(ahead->set);
}

/* The largest first. Where names are requested, one image comes after the other: demangling is not
 * thread-safe. */
void space_images_ahead(struct space_images *set, const uint32_t *indices, size_t count)
{
    uint32_t last = 0;
    for (size_t i = 0; i < count; i++)
        last = indices[i] > last ? indices[i] : last;
    if (set->request.name_count || !count || !reserve_index(set, last))
        return;
    struct ahead ahead = {.set = set, .items = calloc(count, sizeof *ahead.items)};
    if (ahead.items && list_candidates(&ahead, indices, count) > WORTH_THREADS) {
        base_pool(ahead.count, prepare_one, &ahead);
        add_images(&ahead);
    }
    free(ahead.items);
}
