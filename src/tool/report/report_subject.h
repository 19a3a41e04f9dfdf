/* report_subject.h - which function somebody means.
 *
 * Tried in this order, and the first way that fits anything is the one: IMAGE+0xADDRESS (any address inside
 * it), the name to the letter, the name without its arguments or without what qualifies it ("push" for
 * "ns::stack::push(int)"), a pattern, the beginning of the name. Functions without a sample in the selection
 * give way to those with some. Context: tool. */
#ifndef REPORT_SUBJECT_H
#define REPORT_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "report_view.h"

struct report_subject {
    uint32_t function; /* index; of generated code one of those with its name */
    uint32_t image;
    uint64_t start, end;
    bool generated; /* by name, as generated code moves */
    struct report_figure self, total;
    struct base_text
        apart; /* pieces the compiler put elsewhere, with their shares: "f.cold (1.2 %)"; or nothing */
};

/* BASE_EUSAGE with a message that lists what there is: none fits, or several do. report_subject_free is right
 * in any case. */
int report_subject_find(struct report_context *context, struct report_subject *subject);
void report_subject_free(struct report_subject *subject);

/* Does an address of the profile (an index) lie in it? */
bool report_subject_holds(const struct report_subject *subject, const struct profile *profile,
                          uint32_t address);

#endif
