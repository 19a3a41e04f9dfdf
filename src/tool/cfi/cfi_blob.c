/* Writing the flat form.
 *
 * A *cursor* goes over the spans from low to high addresses and knows the rule that holds where it stands:
 *   1. the same rule again needs no row;
 *   2. on the way to a later page it opens every page in between, with a row for offset 0 where a rule other
 *      than NONE holds (a page without rows means NONE);
 *   3. the first row of a page is always for offset 0, so a later one is preceded by one that carries over
 *      what held before, NONE included;
 *   4. behind each span NONE is put down, unless the next span begins right there. */
#include "cfi_blob.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_SHIFT 16

struct cursor {
    uint64_t base;
    uint32_t *pages;
    struct wire_row *rows;
    uint32_t row_count;
    uint32_t page; /* whose pages[] entry was written last */
    uint16_t rule; /* what holds */
};

static void add_row(struct cursor *cursor, uint64_t address, uint16_t rule)
{
    cursor->rows[cursor->row_count++] = (struct wire_row){(uint16_t)(address & 0xffff), rule};
}

static void open_page(struct cursor *cursor, uint32_t page)
{
    while (cursor->page < page) {
        if (cursor->rule != CFI_RULE_NONE && cursor->pages[cursor->page] == cursor->row_count)
            add_row(cursor, 0, cursor->rule);
        cursor->pages[++cursor->page] = cursor->row_count;
    }
}

static void put_row(struct cursor *cursor, uint64_t address, uint16_t rule)
{
    if (rule == cursor->rule)
        return;
    open_page(cursor, (uint32_t)((address - cursor->base) >> PAGE_SHIFT));
    bool first = cursor->pages[cursor->page] == cursor->row_count;
    if (first && (address & 0xffff) != 0)
        add_row(cursor, 0, cursor->rule);
    add_row(cursor, address, rule);
    cursor->rule = rule;
}

/* The last row at or below the span's start: where a span that was cut begins. */
static uint32_t first_in_span(const struct cfi_span *span, const struct cfi_row *rows)
{
    uint32_t low = 0, high = span->row_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (span->origin + rows[middle].offset <= span->start)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void put_span(struct cursor *cursor, const struct cfi_span *span, const struct cfi_row *rows)
{
    for (uint32_t i = first_in_span(span, rows); i < span->row_count; i++) {
        uint64_t from = span->origin + rows[i].offset;
        if (from >= span->end)
            return;
        put_row(cursor, from > span->start ? from : span->start, rows[i].rule);
    }
}

static void put_spans(struct cursor *cursor, const struct cfi_span_list *spans, const struct cfi_row *rows)
{
    for (size_t i = 0; i < spans->count; i++) {
        const struct cfi_span *span = &spans->items[i];
        put_span(cursor, span, rows + span->first_row);
        if (i + 1 == spans->count || spans->items[i + 1].start > span->end)
            put_row(cursor, span->end, CFI_RULE_NONE);
    }
}

/* More than will be needed: each row once; for each span what its cut first row carries over, and one NONE;
 * two for each page. */
static size_t most_rows(const struct cfi_span_list *spans, const struct cfi_row_list *rows, size_t page_count)
{
    return rows->count + 2 * spans->count + 2 * page_count + 2;
}

void *cfi_blob_make(const struct cfi_span_list *spans, const struct cfi_row_list *rows,
                    const struct cfi_rules *rules, uint16_t machine, size_t *size)
{
    uint64_t base = spans->count > 0 ? spans->items[0].start >> PAGE_SHIFT << PAGE_SHIFT : 0;
    uint64_t end = spans->count > 0 ? spans->items[spans->count - 1].end : 0;
    size_t page_count = spans->count > 0 ? ((end - base) >> PAGE_SHIFT) + 1 : 0;
    size_t fixed = sizeof(struct wire_rows_header) + rules->count * sizeof(struct wire_rule) +
                   (page_count + 1) * sizeof(uint32_t);
    uint8_t *blob = malloc(fixed + most_rows(spans, rows, page_count) * sizeof(struct wire_row));
    if (blob == NULL)
        return NULL;
    struct wire_rule *blob_rules = (void *)(blob + sizeof(struct wire_rows_header));
    memcpy(blob_rules, rules->items, rules->count * sizeof *blob_rules);
    struct cursor cursor = {.base = base, .pages = (void *)(blob_rules + rules->count)};
    cursor.rows = (void *)(cursor.pages + page_count + 1);
    cursor.pages[0] = 0;
    put_spans(&cursor, spans, rows->items);
    open_page(&cursor, (uint32_t)page_count);
    *size = fixed + cursor.row_count * sizeof(struct wire_row);
    struct wire_rows_header header = {
        .magic = WIRE_ROWS_MAGIC,
        .version = WIRE_ROWS_VERSION,
        .machine = machine,
        .base = base,
        .page_count = (uint32_t)page_count,
        .row_count = cursor.row_count,
        .rule_count = (uint32_t)rules->count,
        .byte_count = (uint32_t)*size,
    };
    memcpy(blob, &header, sizeof header);
    uint8_t *smaller = realloc(blob, *size);
    return smaller != NULL ? smaller : blob;
}
