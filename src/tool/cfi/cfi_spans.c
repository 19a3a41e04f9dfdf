#include "cfi_spans.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"

void cfi_spans_free(struct cfi_span_list *list)
{
    free(list->items);
    *list = (struct cfi_span_list){0};
}

bool cfi_spans_add(struct cfi_span_list *list, const struct cfi_span *span)
{
    if (!base_array_room(list->items, list->count, list->capacity))
        return false;
    list->items[list->count++] = *span;
    return true;
}

static bool is_sorted(const struct cfi_span_list *list)
{
    for (size_t i = 1; i < list->count; i++)
        if (list->items[i].start < list->items[i - 1].start)
            return false;
    return true;
}

/* Merges the sorted halves [0, middle) and [middle, count) of `from` into `to`; equal starts keep their
 * order. */
static void merge_halves(const struct cfi_span *from, size_t middle, size_t count, struct cfi_span *to)
{
    size_t left = 0, right = middle;
    for (size_t i = 0; i < count; i++) {
        bool take_left = right == count || (left < middle && from[left].start <= from[right].start);
        to[i] = take_left ? from[left++] : from[right++];
    }
}

/* A stable merge sort, bottom up; files are mostly sorted in long runs already, yet not quite. */
static bool sort_spans(struct cfi_span_list *list)
{
    struct cfi_span *other = malloc(list->count * sizeof *other);
    if (other == NULL)
        return false;
    for (size_t width = 1; width < list->count; width *= 2) {
        for (size_t at = 0; at < list->count; at += 2 * width) {
            size_t left = list->count - at, size = left < 2 * width ? left : 2 * width;
            merge_halves(list->items + at, size < width ? size : width, size, other + at);
        }
        memcpy(list->items, other, list->count * sizeof *other);
    }
    free(other);
    return true;
}

bool cfi_spans_order(struct cfi_span_list *list)
{
    if (!is_sorted(list) && !sort_spans(list))
        return false;
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct cfi_span span = list->items[i];
        if (kept > 0 && span.start < list->items[kept - 1].end)
            span.start = list->items[kept - 1].end;
        if (span.start < span.end)
            list->items[kept++] = span;
    }
    list->count = kept;
    return true;
}

bool cfi_spans_gap(const struct cfi_span_list *list, size_t *hint, uint64_t *start, uint64_t end,
                   uint64_t *stop)
{
    while (*start < end) {
        while (*hint < list->count && list->items[*hint].end <= *start)
            ++*hint;
        if (*hint == list->count || list->items[*hint].start >= end) {
            *stop = end;
            return true;
        }
        if (list->items[*hint].start > *start) {
            *stop = list->items[*hint].start;
            return true;
        }
        *start = list->items[*hint].end;
    }
    return false;
}

bool cfi_spans_put_under(struct cfi_span_list *upper, struct cfi_span_list *lower)
{
    struct cfi_span_list pieces = {0};
    size_t hint = 0;
    bool fine = true;
    for (size_t i = 0; fine && i < lower->count; i++) {
        struct cfi_span piece = lower->items[i];
        uint64_t end = piece.end;
        while (fine && cfi_spans_gap(upper, &hint, &piece.start, end, &piece.end)) {
            fine = cfi_spans_add(&pieces, &piece);
            piece.start = piece.end;
        }
    }
    for (size_t i = 0; fine && i < pieces.count; i++)
        fine = cfi_spans_add(upper, &pieces.items[i]);
    cfi_spans_free(&pieces);
    cfi_spans_free(lower);
    return fine && cfi_spans_order(upper);
}
