/* annotate_span.h - the lines of source that a loop stands for.
 *
 * Inlining puts a loop of one function into another. The level of source that is shown is the innermost that
 * the loop's header and the instructions that lead back to it share: there lies the loop as somebody wrote
 * it. The range is of the lines of that level over all its instructions. Context: tool. */
#ifndef ANNOTATE_SPAN_H
#define ANNOTATE_SPAN_H

#include "annotate_binary.h"

struct annotate_span {
    const char *function; /* the inlined function that it was written in; NULL: the function itself */
    const char *file;     /* NULL: not known. Both belong to the binary's symbols */
    uint32_t first, last; /* lines */
    uint64_t start, end;  /* addresses: of its first instruction, and behind its last one */
};

struct annotate_span annotate_span_of(struct annotate_binary *binary, const struct annotate_code *code,
                                      uint32_t loop);

/* "loops.c:12-15", "loops.c:12"; where no line is known "0x1a20-0x1a3c". */
void annotate_span_text(const struct annotate_span *span, struct base_text *out);

#endif
