#include "collect_left.h"

#include <stdlib.h>

#include "base_array.h"
#include "collect_remains.h"
#include "patch_target.h"

#define TRY_NS      UINT64_C(1000000000) /* what one takes: collect_remains_remove */
#define PATIENCE_NS UINT64_C(5000000000)

static struct collect_left_process *find(const struct collect_left *left, pid_t pid)
{
    for (size_t i = 0; i < left->count; i++)
        if (left->items[i].pid == pid)
            return &left->items[i];
    return NULL;
}

void collect_left_add(struct collect_left *left, pid_t pid, uint64_t bytes, bool retry)
{
    struct collect_left_process *known = find(left, pid);
    if (known) {
        known->bytes = known->bytes > bytes ? known->bytes : bytes;
        known->retry &= retry;
    } else if (base_array_room(left->items, left->count, left->capacity)) {
        left->items[left->count++] = (struct collect_left_process){pid, bytes, retry};
    }
}

bool collect_left_knows(const struct collect_left *left, pid_t pid)
{
    return find(left, pid) != NULL;
}

/* `twin` is the same process in the other list, or NULL: what stays is told once. */
static bool is_clean(struct collect_left_process *process, struct collect_left_process *twin)
{
    struct collect_calls_cleaned cleaned;
    int result = collect_remains_remove(process->pid, &cleaned, NULL);
    cleaned.bytes_left -= cleaned.bytes_kept < cleaned.bytes_left ? cleaned.bytes_kept : cleaned.bytes_left;
    if (cleaned.bytes_left && twin)
        twin->bytes = twin->bytes < cleaned.bytes_left ? twin->bytes : cleaned.bytes_left;
    if (cleaned.bytes_left)
        process->bytes = cleaned.bytes_left - (twin ? twin->bytes : 0);
    return result == BASE_ENOTFOUND || (result == BASE_OK && !cleaned.bytes_left && !cleaned.unreadable);
}

void collect_left_retry(struct collect_left *left, struct collect_left *other)
{
    struct collect_left *const lists[] = {left, other};
    uint64_t end = patch_target_now() + PATIENCE_NS;
    for (size_t i = 0; i < 2; i++) {
        struct collect_left *list = lists[i], *others = lists[1 - i];
        for (size_t j = list->count; j-- > 0 && patch_target_now() + TRY_NS <= end;) {
            struct collect_left_process *twin = find(others, list->items[j].pid);
            bool tried = twin && i == 1; /* with the first list */
            if (tried || !list->items[j].retry || (twin && !twin->retry) || !is_clean(&list->items[j], twin))
                continue;
            list->items[j] = list->items[--list->count];
            if (twin)
                *twin = others->items[--others->count];
        }
    }
}

const struct collect_left_process *collect_left_first(const struct collect_left *left)
{
    return left->count ? &left->items[0] : NULL;
}

void collect_left_describe(const struct collect_left *left, struct profile *profile, const char *key)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < left->count; i++)
        bytes += left->items[i].bytes;
    if (bytes)
        profile_set_metaf(profile, key, "%llu", (unsigned long long)bytes);
}

void collect_left_free(struct collect_left *left)
{
    free(left->items);
    *left = (struct collect_left){0};
}
