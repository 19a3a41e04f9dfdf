#include "unwind_cache.h"

size_t unwind_cache_size(void)
{
    return sizeof(struct unwind_cache);
}

void unwind_cache_fill(struct unwind_entry *entry, const struct unwind_space *space, uint64_t key)
{
    static const struct wire_rule none = {.cfa_kind = WIRE_CFA_NONE};
    struct unwind_place place = {NULL, 0, UNWIND_NO_COOKIE};
    bool mapped = space->find(space->context, key, &place);
    const struct unwind_rows *rows = mapped ? place.rows : NULL;
    entry->key = key;
    entry->generation = space->generation;
    entry->cookie = mapped ? place.cookie : UNWIND_NO_COOKIE;
    entry->rule =
        rows != NULL && rows->arch == space->arch ? *unwind_rows_find(rows, key - place.bias) : none;
}
