/* view_text.h - figures and names as people read them. Everything appends to a text; names come from
 * untrusted sources' programs and leave here without control characters or broken UTF-8. Context: tool. */
#ifndef VIEW_TEXT_H
#define VIEW_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base_text.h"
#include "view_select.h"

/* "2,304", from ten million on "18.4 M". */
void view_text_count(struct base_text *out, uint64_t count);

/* All its digits: "18,400,000". */
void view_text_exact(struct base_text *out, uint64_t count);

/* "844 ns", "1.23 ms", "2.31 s", "16 min 40 s", "2 h 05 min". */
void view_text_time(struct base_text *out, int64_t nanoseconds, bool ascii);

/* A figure in its unit: times and bytes humanised, anything else counted; the unit follows a time or bytes
 * only. */
void view_text_value(struct base_text *out, const char *unit, int64_t value, bool ascii);

/* "31.2 ±1.9 %"; exact: "1.25 MiB  31.2 %"; of a peak counter the value itself. */
void view_text_share(struct base_text *out, const struct view_selection *selection,
                     const struct view_figure *figure, bool ascii);

/* "Tally itself: 28.1 % of all samples, left out": what profile_own.h tells apart; nothing if there is none. */
void view_text_own(struct base_text *out, uint64_t own, uint64_t all, bool left_out);

/* "0.5", "2", "12.25": a percentage that somebody typed. */
void view_text_percent(struct base_text *out, double percent);

/* A cleaned text in at most `columns` columns (0: whatever it takes): the middle goes, the beginning and the
 * end stay. */
void view_text_fit(struct base_text *out, const char *text, unsigned columns, bool ascii);

/* The same for the name of a function: what is between the parentheses and the angle brackets of a C++ name
 * goes first, so that "std::map<…>::operator[](…)" remains as long as it can. */
void view_text_fit_name(struct base_text *out, const char *name, unsigned columns, bool ascii);

#endif
