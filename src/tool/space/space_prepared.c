#include "space_prepared.h"

#include <stdlib.h>
#include <string.h>

#include "base_stack.h"
#include "slab_prepared.h"

#define WORTH 200 /* sites: fewer are made sooner than read */

static struct slab_prepared_input input_of(const struct slab *slab, const struct slab_prepared_way *ways,
                                           size_t count)
{
    struct slab_prepared_input input = {.plan = slab->plan,
                                        .wanted = slab->wanted,
                                        .quiet = slab->quiet,
                                        .form = slab->counter.form,
                                        .ways = ways,
                                        .way_count = count};
    input.key = slab_prepared_key(&input);
    return input;
}

static bool place_cached(const struct space_object *object, const struct slab_prepared_input *input,
                         struct slab *slab)
{
    const struct space_image *image = object->planned;
    struct slab_prepared prepared;
    if (!slab_cache_find_prepared(image->cache, image->elf, input, &prepared))
        return false;
    bool placed = slab_prepared_place(&prepared, input, slab);
    slab_prepared_free(&prepared);
    return placed;
}

bool space_prepared_place(const struct space_object *object, bool requested)
{
    const struct space_image *image = object->planned;
    struct slab *slab = &object->next->slab;
    if (slab->plan->header->site_count < WORTH || slab->region_count != 1 || !image->elf ||
        !slab_cache_keeps(image->cache, image->elf))
        return false;
    struct slab_prepared_way *ways = calloc(image->slot_count + 1, sizeof *ways);
    bool known = ways && slab_prepared_ways(slab, image->slots, image->slot_count, ways);
    struct slab_prepared_input input = input_of(slab, ways, image->slot_count);
    bool placed = known && place_cached(object, &input, slab);
    if (known && !placed && requested)
        object->next->ways = ways;
    else
        free(ways);
    return placed;
}

/* --- preparing for the next time --- */

/* One slab to prepare; all its own but for the plan and what the image knows, which stay as long as the
 * images do. */
struct space_preparing {
    struct space_preparing *next;
    const struct space_image *image;
    struct slab_prepared_input input;
    struct slab_prepared_way *ways;
    uint8_t *wanted;
};

static void free_preparing(struct space_preparing *one)
{
    free(one->ways);
    free(one->wanted);
    free(one);
}

static void prepare_one(const struct space_preparing *one)
{
    const struct space_image *image = one->image;
    struct slab_prepared prepared;
    if (slab_prepared_make(&one->input, &prepared, NULL) < 0)
        return;
    slab_cache_keep_prepared(image->cache, image->elf, &one->input, &prepared);
    slab_prepared_free(&prepared);
}

/* The next one; NULL: there is none, and adding one must begin the work anew. */
static struct space_preparing *next_to_prepare(struct space_preparations *all)
{
    pthread_mutex_lock(&all->lock);
    struct space_preparing *one = all->first;
    if (one)
        all->first = one->next;
    else
        all->working = false;
    pthread_mutex_unlock(&all->lock);
    return one;
}

static void *prepare_all(void *context)
{
    struct space_preparing *one;
    while ((one = next_to_prepare(context))) {
        prepare_one(one);
        free_preparing(one);
    }
    return NULL;
}

void space_prepared_end(struct space_preparations *all)
{
    if (all->begun)
        pthread_join(all->thread, NULL);
    all->begun = false;
}

static void add_to_prepare(struct space_preparations *all, struct space_preparing *one)
{
    pthread_mutex_lock(&all->lock);
    bool working = all->working;
    one->next = all->first;
    all->first = one;
    all->working = true;
    pthread_mutex_unlock(&all->lock);
    if (working)
        return;
    space_prepared_end(all);
    all->begun = !base_stack_thread(&all->thread, prepare_all, all);
    while (!all->begun && (one = next_to_prepare(all)))
        free_preparing(one);
}

/* Takes the ways over. */
static struct space_preparing *record_inputs(struct space_object *object)
{
    const struct slab *slab = &object->patch->slab;
    const struct plan_header *header = slab->plan->header;
    size_t choices = (size_t)header->site_count + header->hook_count;
    struct space_preparing *one = calloc(1, sizeof *one);
    uint8_t *wanted = malloc(choices + 1);
    if (!one || !wanted) {
        free(wanted);
        free(one);
        return NULL;
    }
    memcpy(wanted, object->wanted, choices);
    *one = (struct space_preparing){.image = object->planned,
                                    .input = input_of(slab, object->patch->ways, object->planned->slot_count),
                                    .ways = object->patch->ways,
                                    .wanted = wanted};
    one->input.wanted = wanted;
    object->patch->ways = NULL;
    return one;
}

void space_prepared_begin(struct space *space, struct space_session *session)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        struct space_preparing *one = object->patch && object->patch->ways ? record_inputs(object) : NULL;
        if (one)
            add_to_prepare(&session->images.preparations, one);
    }
}
