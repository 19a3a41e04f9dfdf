/* annotate_subject.h - which function somebody means.
 *
 * Tried in this order, and the first way that fits anything is the one: IMAGE+0xADDRESS (any address inside
 * it), the name to the letter, the name without its arguments or without what qualifies it ("push" for
 * "ns::stack::push(int)"), a pattern, the beginning of the name. Functions without a sample in the selection
 * give way to those with some. Context: tool. */
#ifndef ANNOTATE_SUBJECT_H
#define ANNOTATE_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "view.h"

struct annotate_subject {
    uint32_t function; /* index; of generated code one of those with its name */
    uint32_t image;
    uint64_t start, end;
    bool generated; /* by name, as generated code moves */
    struct view_figure self, total;
    /* Pieces the compiler put elsewhere, with their shares: "f.cold (1.2 %)"; or nothing. */
    struct base_text apart;
};

/* BASE_EUSAGE with a message that lists what there is: none fits, or several do. annotate_subject_free is
 * right in any case. */
int annotate_subject_find(struct view_context *context, struct annotate_subject *subject);
void annotate_subject_free(struct annotate_subject *subject);

/* Does an address of the profile (an index) lie in it? */
bool annotate_subject_holds(const struct annotate_subject *subject, const struct profile *profile,
                            uint32_t address);

#endif
