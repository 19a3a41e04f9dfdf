/* cfi_blob.h - spans and their rows, written out as the flat form of wire_rows.h (private to the module).
 * Context: tool. */
#ifndef CFI_BLOB_H
#define CFI_BLOB_H

#include "cfi_program.h"
#include "cfi_rules.h"
#include "cfi_spans.h"

#define CFI_BLOB_SPAN_MAX (UINT64_C(1) << 32) /* bytes of addresses that one image may reach over */

/* `spans` in order, reaching over at most CFI_BLOB_SPAN_MAX. The header's text check is left 0. Returns
 * malloc'd bytes, NULL when memory ran out. */
void *cfi_blob_make(const struct cfi_span_list *spans, const struct cfi_row_list *rows,
                    const struct cfi_rules *rules, uint16_t machine, size_t *size);

#endif
