#include "store_period.h"

#include <string.h>

#include "profile_model.h"
#include "wire_loss.h"

void store_period_cut(struct store_timeline_list *list, const struct store_period *period)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].time_ns >= period->from_ns && list->items[i].time_ns < period->to_ns)
            list->items[kept++] = list->items[i];
    list->count = kept;
}

int store_period_keep(struct profile *profile, const struct store_timeline_list *list,
                      struct base_error *error)
{
    uint64_t losses[PROFILE_LOSSES];
    memcpy(losses, profile->losses, sizeof losses);
    profile->cell_count = 0;
    profile->self->dirty_count = 0;
    profile->self->tables[PROFILE_TABLE_CELLS].stale = true;
    for (size_t i = 0; i < list->count; i++) {
        const struct store_timeline_item *item = &list->items[i];
        profile_count(profile, (struct profile_key){item->node, item->thread, item->cpu, item->counter},
                      item->value, 1);
    }
    bool lost = profile->losses[WIRE_LOSS_OUT_OF_MEMORY] != losses[WIRE_LOSS_OUT_OF_MEMORY];
    memcpy(profile->losses, losses, sizeof losses); /* folded samples are counted there already */
    return lost ? base_fail(error, BASE_ENOMEM, "out of memory for a part of the time") : BASE_OK;
}
