/* cfi_spans.h - which rows hold where: the layers of an image's call-frame information (private to the
 * module).
 *
 * A span is a piece of code with rows. A list in order holds spans that rise and do not overlap. Lists are
 * laid over one another: the upper one wins, the lower one keeps what is left, cut into pieces where need be.
 * Context: tool. */
#ifndef CFI_SPANS_H
#define CFI_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cfi_span {
    uint64_t start, end;
    uint64_t origin; /* what the rows' offsets count from; at or below start */
    uint32_t first_row, row_count;
};

struct cfi_span_list {
    struct cfi_span *items;
    size_t count, capacity;
};

void cfi_spans_free(struct cfi_span_list *list);
bool cfi_spans_add(struct cfi_span_list *list, const struct cfi_span *span); /* false: no memory */

/* Sorts, and where spans overlap lets the one that starts first keep the place; of two with one start, the
 * one that was added first. Spans that end up empty go. */
bool cfi_spans_order(struct cfi_span_list *list);

/* Puts an ordered list under an ordered list; both stay in order, `lower` is emptied. */
bool cfi_spans_put_under(struct cfi_span_list *upper, struct cfi_span_list *lower);

/* The first uncovered range at or after *start and before `end` of an ordered list; `hint` is where the
 * search goes on (0 first). False: no more. The range is [*start, *stop). */
bool cfi_spans_gap(const struct cfi_span_list *list, size_t *hint, uint64_t *start, uint64_t end,
                   uint64_t *stop);

#endif
