#include "collect_left.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base_array.h"
#include "collect_remains.h"

void collect_left_add(struct collect_left *left, pid_t pid, uint64_t bytes)
{
    for (size_t i = 0; i < left->count; i++)
        if (left->items[i].pid == pid) {
            left->items[i].bytes = left->items[i].bytes > bytes ? left->items[i].bytes : bytes;
            return;
        }
    if (base_array_room(left->items, left->count, left->capacity))
        left->items[left->count++] = (struct collect_left_process){pid, bytes};
}

static bool is_clean(struct collect_left_process *process)
{
    struct collect_calls_cleaned cleaned;
    int result = collect_remains_remove(process->pid, &cleaned, NULL);
    process->bytes = cleaned.bytes_left ? cleaned.bytes_left : process->bytes;
    return result == BASE_ENOTFOUND || (result == BASE_OK && !cleaned.bytes_left && !cleaned.unreadable);
}

void collect_left_retry(struct collect_left *left)
{
    for (size_t i = left->count; i-- > 0;)
        if (is_clean(&left->items[i]))
            left->items[i] = left->items[--left->count];
}

pid_t collect_left_first(const struct collect_left *left)
{
    return left->count ? left->items[0].pid : 0;
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
