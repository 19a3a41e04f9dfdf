#include "collect_calls_prepared.h"

#include <stdlib.h>
#include <string.h>

#include "base_stack.h"
#include "patch_prepared.h"

#define WORTH 200 /* sites: fewer are made sooner than read */

static struct patch_prepared_input input_of(const struct patch_slab *slab,
                                            const struct patch_prepared_way *ways, size_t count)
{
    struct patch_prepared_input input = {.plan = slab->plan,
                                         .wanted = slab->wanted,
                                         .quiet = slab->quiet,
                                         .form = slab->counter.form,
                                         .ways = ways,
                                         .way_count = count};
    input.key = patch_prepared_key(&input);
    return input;
}

static bool place(const struct collect_calls_object *object, const struct patch_prepared_input *input,
                  struct patch_slab *slab)
{
    const struct collect_calls_image *image = object->planned;
    struct patch_prepared prepared;
    if (!patch_cache_find_prepared(image->cache, image->elf, input, &prepared))
        return false;
    bool placed = patch_prepared_place(&prepared, input, slab);
    patch_prepared_free(&prepared);
    return placed;
}

bool collect_calls_prepared_place(const struct collect_calls_object *object, bool wished)
{
    const struct collect_calls_image *image = object->planned;
    struct patch_slab *slab = &object->next->slab;
    if (slab->plan->header->site_count < WORTH || slab->region_count != 1 || !image->elf ||
        !patch_cache_keeps(image->cache, image->elf))
        return false;
    struct patch_prepared_way *ways = calloc(image->slot_count + 1, sizeof *ways);
    bool known = ways && patch_prepared_ways(slab, image->slots, image->slot_count, ways);
    struct patch_prepared_input input = input_of(slab, ways, image->slot_count);
    bool placed = known && place(object, &input, slab);
    if (known && !placed && wished)
        object->next->ways = ways;
    else
        free(ways);
    return placed;
}

/* --- keeping --- */

/* One slab to prepare; all its own but for the plan and what the image knows, which stay as long as the
 * images do. */
struct collect_calls_preparing {
    struct collect_calls_preparing *next;
    const struct collect_calls_image *image;
    struct patch_prepared_input input;
    struct patch_prepared_way *ways;
    uint8_t *wanted;
};

static void free_preparing(struct collect_calls_preparing *one)
{
    free(one->ways);
    free(one->wanted);
    free(one);
}

static void prepare(const struct collect_calls_preparing *one)
{
    const struct collect_calls_image *image = one->image;
    struct patch_prepared prepared;
    if (patch_prepared_make(&one->input, &prepared, NULL) < 0)
        return;
    patch_cache_keep_prepared(image->cache, image->elf, &one->input, &prepared);
    patch_prepared_free(&prepared);
}

/* The next one; NULL: there is none, and whoever adds one must begin the work anew. */
static struct collect_calls_preparing *take(struct collect_calls_preparations *all)
{
    pthread_mutex_lock(&all->lock);
    struct collect_calls_preparing *one = all->first;
    if (one)
        all->first = one->next;
    else
        all->working = false;
    pthread_mutex_unlock(&all->lock);
    return one;
}

static void *work(void *context)
{
    struct collect_calls_preparing *one;
    while ((one = take(context))) {
        prepare(one);
        free_preparing(one);
    }
    return NULL;
}

void collect_calls_prepared_end(struct collect_calls_preparations *all)
{
    if (all->begun)
        pthread_join(all->thread, NULL);
    all->begun = false;
}

static void add(struct collect_calls_preparations *all, struct collect_calls_preparing *one)
{
    pthread_mutex_lock(&all->lock);
    bool working = all->working;
    one->next = all->first;
    all->first = one;
    all->working = true;
    pthread_mutex_unlock(&all->lock);
    if (working)
        return;
    collect_calls_prepared_end(all);
    all->begun = !base_stack_thread(&all->thread, work, all);
    while (!all->begun && (one = take(all)))
        free_preparing(one);
}

/* Takes the ways over. */
static struct collect_calls_preparing *note(struct collect_calls_object *object)
{
    const struct patch_slab *slab = &object->patch->slab;
    const struct patch_plan_header *header = slab->plan->header;
    size_t choices = (size_t)header->site_count + header->hook_count;
    struct collect_calls_preparing *one = calloc(1, sizeof *one);
    uint8_t *wanted = malloc(choices + 1);
    if (!one || !wanted) {
        free(wanted);
        free(one);
        return NULL;
    }
    memcpy(wanted, object->wanted, choices);
    *one = (struct collect_calls_preparing){
        .image = object->planned,
        .input = input_of(slab, object->patch->ways, object->planned->slot_count),
        .ways = object->patch->ways,
        .wanted = wanted};
    one->input.wanted = wanted;
    object->patch->ways = NULL;
    return one;
}

void collect_calls_prepared_begin(struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct collect_calls_object *object = &space->objects[i];
        struct collect_calls_preparing *one = object->patch && object->patch->ways ? note(object) : NULL;
        if (one)
            add(&rig->images.preparations, one);
    }
}
