#include "unwind_cache.h"

size_t unwind_cache_size(void)
{
    return sizeof(struct unwind_cache);
}

static uint16_t form_of(const struct arch *arch, const struct wire_rule *rule)
{
    unsigned fp_kind = wire_rule_fp_kind(rule);
    if (rule->cfa_kind != WIRE_CFA_REGISTER || wire_rule_ra_kind(rule) != WIRE_SAVE_CFA ||
        (rule->cfa_register != arch->sp && rule->cfa_register != arch->fp) ||
        (fp_kind != WIRE_SAVE_SAME && fp_kind != WIRE_SAVE_CFA) || (rule->save_kinds & WIRE_BASE_LOST))
        return 0;
    return (uint16_t)(UNWIND_FORM_FAST | (rule->cfa_register == arch->fp ? UNWIND_FORM_BY_FP : 0) |
                      (fp_kind == WIRE_SAVE_CFA ? UNWIND_FORM_FP_SAVED : 0) |
                      (rule->base_slot != 0 ? UNWIND_FORM_BASE_SAVED : 0));
}

void unwind_cache_fill(struct unwind_entry *entry, const struct unwind_space *space, uint64_t key)
{
    static const struct wire_rule none = {.cfa_kind = WIRE_CFA_NONE};
    struct unwind_place place = {NULL, 0, UNWIND_NO_COOKIE};
    bool mapped = space->find(space->context, key, &place);
    const struct unwind_rows *rows = mapped ? place.rows : NULL;
    entry->key = 0; /* a signal's handler may jump away at any of these lines: half an entry is none */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    entry->generation = space->generation;
    entry->cookie = mapped ? place.cookie : UNWIND_NO_COOKIE;
    entry->rule =
        rows != NULL && rows->arch == space->arch ? *unwind_rows_find(rows, key - place.bias) : none;
    entry->form = form_of(space->arch, &entry->rule);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    entry->key = key;
}
