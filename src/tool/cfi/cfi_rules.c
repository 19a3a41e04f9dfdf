#include "cfi_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_map.h"

#define FIRST_SLOTS 1024

static uint64_t hash_rule(const struct wire_rule *rule)
{
    uint64_t half[2];
    memcpy(half, rule, sizeof half);
    return base_hash(half[0] ^ base_hash(half[1]));
}

static bool same_rule(const struct wire_rule *a, const struct wire_rule *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Where the rule is, or where it would go: there is always a free slot. */
static uint32_t *slot_of(uint32_t *slots, size_t slot_count, const struct cfi_rules *rules,
                         const struct wire_rule *rule)
{
    size_t at = hash_rule(rule) & (slot_count - 1);
    while (slots[at] != 0 && !same_rule(&rules->items[slots[at] - 1], rule))
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

static bool grow_table(struct cfi_rules *rules)
{
    size_t slot_count = rules->slot_count == 0 ? FIRST_SLOTS : 2 * rules->slot_count;
    uint32_t *slots = calloc(slot_count, sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < rules->count; i++)
        *slot_of(slots, slot_count, rules, &rules->items[i]) = (uint32_t)i + 1;
    free(rules->slots);
    rules->slots = slots;
    rules->slot_count = slot_count;
    return true;
}

uint32_t cfi_rules_number(struct cfi_rules *rules, const struct wire_rule *rule)
{
    if (rules->count > 0 && same_rule(&rules->items[rules->last], rule))
        return rules->last;
    if (2 * (rules->count + 1) > rules->slot_count && !grow_table(rules))
        return UINT32_MAX;
    uint32_t *slot = slot_of(rules->slots, rules->slot_count, rules, rule);
    if (*slot == 0) {
        if (rules->count == CFI_RULES_MAX)
            return CFI_RULE_ODD;
        if (!base_array_room(rules->items, rules->count, rules->capacity))
            return UINT32_MAX;
        rules->items[rules->count++] = *rule;
        *slot = (uint32_t)rules->count;
    }
    rules->last = *slot - 1;
    return rules->last;
}

bool cfi_rules_create(struct cfi_rules *rules)
{
    struct wire_rule none = {.cfa_kind = WIRE_CFA_NONE}, odd = {.cfa_kind = WIRE_CFA_ODD};
    *rules = (struct cfi_rules){0};
    if (cfi_rules_number(rules, &none) == CFI_RULE_NONE && cfi_rules_number(rules, &odd) == CFI_RULE_ODD)
        return true;
    cfi_rules_free(rules);
    return false;
}

void cfi_rules_free(struct cfi_rules *rules)
{
    free(rules->items);
    free(rules->slots);
    *rules = (struct cfi_rules){0};
}
