/* annotate_columns.h - the columns before a line or an instruction, and texts cut to what is left of the
 * terminal. Private to src/tool/annotate. Context: tool. */
#ifndef ANNOTATE_COLUMNS_H
#define ANNOTATE_COLUMNS_H

#include "annotate_figures.h"

/* The columns before a line or an instruction: a mark, self, its time where there is room, total, samples
 * unless room is short, calls. 0 leaves them blank. */
void annotate_columns(const struct annotate *annotate, uint32_t place, struct base_text *out);
/* Their titles, and how many columns they take. */
void annotate_titles(const struct annotate *annotate, struct base_text *out);
unsigned annotate_width(const struct annotate *annotate);

/* What view_text_share says has the value in it. */
bool annotate_has_value(const struct annotate *annotate);

/* Appends cleaned text with tabs as blanks, cut where the terminal ends when `used` columns are behind it. */
void annotate_cut(const struct annotate *annotate, const char *text, size_t length, unsigned used,
                  struct base_text *out);

/* A function's name, cleaned, in at most `columns` columns on a terminal, and whole elsewhere. */
void annotate_name(const struct annotate *annotate, const char *name, unsigned columns,
                   struct base_text *out);

/* "file.c" of "/a/b/file.c". */
const char *annotate_base(const char *path);

#endif
