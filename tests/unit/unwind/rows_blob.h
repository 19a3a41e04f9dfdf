/* rows_blob.h - rows blobs made by hand, for tests. */
#ifndef ROWS_BLOB_H
#define ROWS_BLOB_H

#include <string.h>

#include "unwind.h"

struct rows_blob_row {
    uint64_t address;
    struct wire_rule rule;
};

#define ROWS_BLOB_PAGES 4
#define ROWS_BLOB_ROWS  64

/* Exactly the layout of wire_rows.h for fixed counts: rule i belongs to row i - 1. */
struct rows_blob {
    struct wire_rows_header header;
    uint8_t bytes[ROWS_BLOB_ROWS * 16 + (ROWS_BLOB_PAGES + 1) * 4 + ROWS_BLOB_ROWS * 8];
};

/* `rows` rise, the first at `base` (64 KiB aligned); every page's first row is given at its offset 0. */
static inline void rows_blob_make(struct rows_blob *blob, uint16_t machine, uint64_t base,
                                  unsigned page_count, const struct rows_blob_row *rows, unsigned count)
{
    struct wire_rule rules[ROWS_BLOB_ROWS + 1] = {{.cfa_kind = WIRE_CFA_NONE}};
    struct wire_row flat[ROWS_BLOB_ROWS];
    uint32_t pages[ROWS_BLOB_PAGES + 1];
    unsigned next = 0;
    for (unsigned page = 0; page <= page_count; page++) {
        while (next < count && (rows[next].address - base) >> 16 < page)
            next++;
        pages[page] = next;
    }
    for (unsigned i = 0; i < count; i++) {
        rules[i + 1] = rows[i].rule;
        flat[i] = (struct wire_row){(uint16_t)rows[i].address, (uint16_t)(i + 1)};
    }
    size_t rules_size = (count + 1) * sizeof rules[0], pages_size = (page_count + 1) * sizeof pages[0];
    memcpy(blob->bytes, rules, rules_size);
    memcpy(blob->bytes + rules_size, pages, pages_size);
    memcpy(blob->bytes + rules_size + pages_size, flat, count * sizeof flat[0]);
    blob->header = (struct wire_rows_header){
        .magic = WIRE_ROWS_MAGIC,
        .version = WIRE_ROWS_VERSION,
        .machine = machine,
        .base = base,
        .page_count = page_count,
        .row_count = count,
        .rule_count = count + 1,
        .byte_count = (uint32_t)(sizeof blob->header + rules_size + pages_size + count * sizeof flat[0]),
    };
}

#endif
