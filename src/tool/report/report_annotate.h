/* report_annotate.h - what the views of one function share: its lines, instructions and loops with their
 * figures. Private to report_annotate*.c.
 *
 * Lines form a tree: the function's own lines, and under each the lines of what was inlined there, level by
 * level. A line's figures include those of the lines under it. Lines, instructions and loops are places
 * (report_places.h), in this order: lines 1 .. line_count - 1, then instructions, then loops. Context:
 * tool. */
#ifndef REPORT_ANNOTATE_H
#define REPORT_ANNOTATE_H

#include "report_binary.h"
#include "report_places.h"
#include "report_source.h"
#include "report_subject.h"
#include "report_view.h"

struct report_annotate_line {
    uint32_t file, line; /* string, number; 0: not known */
    uint32_t function;   /* string: the inlined function; 0: the function itself */
    uint32_t parent;     /* line that it was inlined at; 0: none */
    uint32_t depth;      /* of the function's own lines 0 */
};

struct report_annotate {
    struct report_context *context;
    const struct report_annotation *wish;
    struct report_subject subject;
    struct report_binary binary;
    struct report_code code;
    struct report_source source;
    struct report_places places;
    uint64_t *calls; /* by place: exact ones made there */
    struct report_annotate_line *lines;
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

static inline uint32_t report_annotate_instruction_place(const struct report_annotate *annotate,
                                                         size_t number)
{
    return (uint32_t)(annotate->line_count + number);
}

static inline uint32_t report_annotate_loop_place(const struct report_annotate *annotate, uint32_t loop)
{
    return (uint32_t)(annotate->line_count + annotate->code.instructions.count + loop);
}

/* Figures of a place; nothing for those without samples. */
struct report_figure report_annotate_self(const struct report_annotate *annotate, uint32_t place);
struct report_figure report_annotate_total(const struct report_annotate *annotate, uint32_t place);
uint64_t report_annotate_calls(const struct report_annotate *annotate, uint32_t place);

/* Does it have enough of the function's cost to be shown with what is around it? To be marked? */
bool report_annotate_counts(const struct report_annotate *annotate, uint32_t place);
bool report_annotate_hot(const struct report_annotate *annotate, uint32_t place);

/* The columns before a line or an instruction: a mark, self, its time where there is room, total, samples
 * unless room is short, calls. 0 leaves them blank. */
void report_annotate_columns(const struct report_annotate *annotate, uint32_t place, struct base_text *out);
/* Their titles, and how many columns they take. */
void report_annotate_titles(const struct report_annotate *annotate, struct base_text *out);
unsigned report_annotate_width(const struct report_annotate *annotate);

/* Appends cleaned text with tabs as blanks, cut where the terminal ends when `used` columns are behind it. */
void report_annotate_cut(const struct report_annotate *annotate, const char *text, size_t length,
                         unsigned used, struct base_text *out);

/* A function's name, cleaned, in at most `columns` columns on a terminal, and whole elsewhere. */
void report_annotate_name(const struct report_annotate *annotate, const char *name, unsigned columns,
                          struct base_text *out);

/* "file.c" of "/a/b/file.c". */
const char *report_annotate_base(const char *path);

/* The parts. */
void report_annotate_head(
    struct report_annotate *annotate); /* report_annotate_head.c: what it is, notes, loops */
void report_annotate_text(struct report_annotate *annotate); /* report_annotate_text.c: lines */
int report_annotate_asm(struct report_annotate *annotate);   /* report_annotate_asm.c: instructions */
int report_annotate_json(struct report_annotate *annotate);  /* report_annotate_json.c: everything */
/* The instruction as text, in the syntax that was asked for. report_annotate_asm.c */
struct code_disassembly;
void report_annotate_instruction(struct report_annotate *annotate, struct code_disassembly *disassembly,
                                 size_t number, struct base_text *out);

#endif
