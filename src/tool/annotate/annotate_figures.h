/* annotate_figures.h - what the files that print one function share: its lines, instructions and loops
 * with their figures. Private to src/tool/annotate.
 *
 * Lines form a tree: the function's own lines, and under each the lines of what was inlined there, level
 * by level. A line's figures include those of the lines under it. Lines, instructions and loops are places
 * (annotate_places.h), in this order: lines 1 .. line_count - 1, then instructions, then loops. Context:
 * tool. */
#ifndef ANNOTATE_FIGURES_H
#define ANNOTATE_FIGURES_H

#include "annotate_binary.h"
#include "annotate_places.h"
#include "annotate_source.h"
#include "annotate_subject.h"
#include "view.h"

struct annotate_line {
    uint32_t file, line; /* string, number; 0: not known */
    uint32_t function;   /* string: the inlined function; 0: the function itself */
    uint32_t parent;     /* line that it was inlined at; 0: none */
    uint32_t depth;      /* of the function's own lines 0 */
};

struct annotate {
    struct view_context *context;
    const struct view_annotation *request;
    struct annotate_subject subject;
    struct annotate_binary binary;
    struct annotate_code code;
    struct annotate_source source;
    struct annotate_places places;
    uint64_t *calls; /* by place: exact ones made there */
    struct annotate_line *lines;
    size_t line_count, line_capacity; /* 0 is none */
    uint32_t *addresses;              /* of the profile that lie in the function, by address */
    size_t address_count;
    uint32_t *line_of;      /* by position in `addresses`: the innermost line */
    const char *file;       /* that the function begins in; NULL: no line is known */
    uint32_t first, last;   /* its lines there */
    bool lines_in_profile;  /* some address has a line */
    bool has_calls;         /* they were counted (profile_extent.h) */
    uint64_t called;        /* exact calls of the function */
    struct base_text notes; /* sentences, each ended by a line break */
};

static inline uint32_t annotate_instruction_place(const struct annotate *annotate, size_t number)
{
    return (uint32_t)(annotate->line_count + number);
}

static inline uint32_t annotate_loop_place(const struct annotate *annotate, uint32_t loop)
{
    return (uint32_t)(annotate->line_count + annotate->code.instructions.count + loop);
}

/* Figures of a place; nothing for those without samples. */
struct view_figure annotate_self(const struct annotate *annotate, uint32_t place);
struct view_figure annotate_total(const struct annotate *annotate, uint32_t place);
uint64_t annotate_calls(const struct annotate *annotate, uint32_t place);

/* Does it have enough of the function's cost to be shown with what is around it? To be marked? */
bool annotate_counts(const struct annotate *annotate, uint32_t place);
bool annotate_hot(const struct annotate *annotate, uint32_t place);

#endif
