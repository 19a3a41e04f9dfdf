/* cfi_rules.h - the distinct rules of an image, numbered (private to the module).
 *
 * Images have a few hundred. Rule 0 is WIRE_CFA_NONE and rule 1 WIRE_CFA_ODD, always; the 65,535th and later
 * distinct ones become rule 1, since a row has 16 bits for the number.
 * Context: tool. */
#ifndef CFI_RULES_H
#define CFI_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire_rows.h"

enum { CFI_RULE_NONE = 0, CFI_RULE_ODD = 1, CFI_RULES_MAX = 65535 };

struct cfi_rules {
    struct wire_rule *items;
    size_t count, capacity;
    uint32_t *slots; /* open addressing; 0: free, else number + 1 */
    size_t slot_count;
    uint32_t last; /* the number given out last: usually the next one too */
};

bool cfi_rules_create(struct cfi_rules *rules);
void cfi_rules_free(struct cfi_rules *rules);

/* The rule's number; UINT32_MAX when memory ran out. */
uint32_t cfi_rules_number(struct cfi_rules *rules, const struct wire_rule *rule);

#endif
