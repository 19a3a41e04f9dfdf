#include "remains_left.h"

#include <stdlib.h>

#include "base_array.h"
#include "base_clock.h"
#include "remains.h"

#define TRY_NS UINT64_C(1000000000) /* what one takes: remains_remove */
#define ALL_NS UINT64_C(5000000000)

static struct remains_left_process *find_process(const struct remains_left *left, pid_t pid)
{
    for (size_t i = 0; i < left->count; i++)
        if (left->items[i].pid == pid)
            return &left->items[i];
    return NULL;
}

void remains_left_add(struct remains_left *left, pid_t pid, uint64_t bytes, bool retry)
{
    struct remains_left_process *known = find_process(left, pid);
    if (known) {
        known->bytes = known->bytes > bytes ? known->bytes : bytes;
        known->retry &= retry;
    } else if (base_array_room(left->items, left->count, left->capacity)) {
        left->items[left->count++] = (struct remains_left_process){pid, bytes, retry};
    }
}

bool remains_left_knows(const struct remains_left *left, pid_t pid)
{
    return find_process(left, pid) != NULL;
}

/* `same` is the same process in the other list, or NULL: what stays is counted once. */
static bool is_clean(struct remains_left_process *process, struct remains_left_process *same)
{
    struct remains_cleaned cleaned;
    int result = remains_remove(process->pid, &cleaned, NULL);
    cleaned.bytes_left -= cleaned.bytes_kept < cleaned.bytes_left ? cleaned.bytes_kept : cleaned.bytes_left;
    if (cleaned.bytes_left && same)
        same->bytes = same->bytes < cleaned.bytes_left ? same->bytes : cleaned.bytes_left;
    if (cleaned.bytes_left)
        process->bytes = cleaned.bytes_left - (same ? same->bytes : 0);
    return result == BASE_ENOTFOUND || (result == BASE_OK && !cleaned.bytes_left && !cleaned.unreadable);
}

void remains_left_retry(struct remains_left *left, struct remains_left *other)
{
    struct remains_left *const lists[] = {left, other};
    uint64_t end = base_clock_now() + ALL_NS;
    for (size_t i = 0; i < 2; i++) {
        struct remains_left *list = lists[i], *others = lists[1 - i];
        for (size_t j = list->count; j-- > 0 && base_clock_now() + TRY_NS <= end;) {
            struct remains_left_process *same = find_process(others, list->items[j].pid);
            bool tried = same && i == 1; /* with the first list */
            if (tried || !list->items[j].retry || (same && !same->retry) || !is_clean(&list->items[j], same))
                continue;
            list->items[j] = list->items[--list->count];
            if (same)
                *same = others->items[--others->count];
        }
    }
}

const struct remains_left_process *remains_left_first(const struct remains_left *left)
{
    return left->count ? &left->items[0] : NULL;
}

void remains_left_describe(const struct remains_left *left, struct profile *profile, const char *key)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < left->count; i++)
        bytes += left->items[i].bytes;
    if (bytes)
        profile_set_metaf(profile, key, "%llu", (unsigned long long)bytes);
}

void remains_left_free(struct remains_left *left)
{
    free(left->items);
    *left = (struct remains_left){0};
}
