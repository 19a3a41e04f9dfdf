/* symbol_spans.h - spans of addresses, each from a time on, of which later ones cover earlier ones: what
 * holds at an address, at a time.
 *
 * Spans come in any number and size, a few at a time, between look-ups. The newest are searched one by one
 * (SYMBOL_SPANS_TAIL at most); the others lie in sorted runs, each more than twice as long as the next, with
 * a tree over each that says of a stretch how far it reaches, since when, and how late. A look-up goes into
 * stretches that may hold a later span than the best one so far, the latest first: where one span covers
 * millions, or millions lie at one address, that are some dozen. Context: tool, one thread. */
#ifndef SYMBOL_SPANS_H
#define SYMBOL_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOL_SPANS_TAIL 256
#define SYMBOL_SPANS_RUNS 32

struct symbol_span {
    uint64_t start, end, time; /* end: the first address behind it */
    uint32_t value;            /* the caller's */
    uint32_t order;            /* of arrival: decides among those of one time */
};

struct symbol_spans_node { /* of a stretch */
    uint64_t reach, since; /* the largest end; the earliest time */
    uint64_t time;         /* of its latest one, with that one's order */
    uint32_t order;
};

struct symbol_spans_run {
    size_t begin, count;             /* in the items */
    struct symbol_spans_node *nodes; /* [1] the root; NULL: no memory, it is searched one by one */
    size_t leaves;
};

struct symbol_spans { /* {0}: none */
    struct symbol_span *items;
    size_t count, capacity;
    struct symbol_spans_run runs[SYMBOL_SPANS_RUNS];
    size_t run_count;
};

/* False: out of memory. start < end. */
bool symbol_spans_add(struct symbol_spans *spans, uint64_t start, uint64_t end, uint64_t time,
                      uint32_t value);

/* After some were added: puts them in order. Without memory the next look-ups take longer. */
void symbol_spans_settle(struct symbol_spans *spans);

/* The latest one with start <= address < end that is not later than `time`, until the next add; NULL: none.
 * *steps (may be NULL) grows by the spans and stretches looked at. */
const struct symbol_span *symbol_spans_find(const struct symbol_spans *spans, uint64_t address, uint64_t time,
                                            size_t *steps);

void symbol_spans_free(struct symbol_spans *spans);

#endif
