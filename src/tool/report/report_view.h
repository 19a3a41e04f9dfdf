/* report_view.h - what the views of this room share: the context they print from, the header above them, and
 * their parts in JSON. Private to src/tool/report, and to src/tool/browse, which shows the same figures.
 *
 * A view appends to context->out (context->json is NULL), or adds members to the object that context->json
 * has open. Context: tool. */
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include "base_error.h"
#include "base_json.h"
#include "base_text.h"
#include "profile.h"
#include "report.h"
#include "report_entity.h"
#include "report_select.h"
#include "report_table.h"
#include "report_walk.h"

struct report_context {
    const struct profile *profile;
    const struct report_options *options;
    struct report_selection selection;
    struct report_nodes nodes;
    unsigned width; /* 0: unlimited, else at least 40 */
    struct base_text *out;
    struct base_json *json; /* NULL: text */
    struct base_error *error;
};

/* The views; 0, or a negative code with a message. */
int report_flat(struct report_context *context);
int report_graph(struct report_context *context);
int report_tree(struct report_context *context);
int report_paths(struct report_context *context);
/* The same with further columns, in JSON members of each row: what other counters have at the nodes whose
 * figures a stack has itself. At most REPORT_BESIDE. */
struct report_beside; /* report_merge.h */
int report_paths_beside(struct report_context *context, const struct report_beside *beside, size_t count);
int report_losses(struct report_context *context);
int report_edges(struct report_context *context);
int report_candidates(struct report_context *context);
int report_loops(struct report_context *context);
int report_annotate(struct report_context *context);
int report_held(struct report_context *context); /* REPORT_LEAKS and REPORT_PEAK */
int report_latency(struct report_context *context);
int report_descriptors(struct report_context *context);

/* report_header.c: what was measured and how far to trust it. */
void report_header(struct report_context *context);
/* "No samples: ..." and true when there is nothing to show. */
bool report_header_nothing(struct report_context *context);

/* report_losses.c: "lost: ..." in one line (appended without a line break). */
void report_losses_line(struct report_context *context, struct base_text *out);
void report_losses_json(struct report_context *context);

/* report_json.c: everything about the recording that is not the view itself. */
void report_json_recording(struct report_context *context);
void report_json_figure(struct report_context *context, const char *key, const struct report_figure *figure);
/* "function", "image", "inlined" and, where it has them, "file", "line", "address" of an entity. */
void report_json_entity(struct report_context *context, const struct report_entities *entities,
                        uint32_t entity);
/* "tid", "thread", "pid", "process". */
void report_json_thread(struct report_context *context, uint32_t thread);
void report_json_below(struct report_context *context, const char *key, size_t rows,
                       const struct report_figure *sum);

/* report.c */
int report_view_memory(struct report_context *context); /* the out-of-memory error */
bool report_view_below(const struct report_context *context,
                       const struct report_figure *figure); /* --limit PERCENT */
/* Appends "functions below 0.5 %" or the like, `past` telling that --limit N hid some too. */
void report_view_below_text(const struct report_context *context, size_t count, const char *noun,
                            const char *plural, bool past, struct base_text *out);
/* Has a table a column of samples? Of exact counters the values themselves are shown. */
bool report_view_samples(const struct report_context *context);
struct report_table_form report_view_form(const struct report_context *context);
/* Words made harmless to a terminal, wrapped at its edge, and a line break. */
void report_view_words(struct report_context *context, const struct base_text *words);
/* One cell each, in the style that the options ask for. */
void report_view_share_cell(const struct report_context *context, struct report_table *table,
                            const struct report_figure *figure);
void report_view_count_cell(const struct report_context *context, struct report_table *table, uint64_t count);
/* Two cells and a sentence: it is not shortened as names are but goes on in further rows, `before` columns
 * being taken. */
void report_view_sentence_rows(const struct report_context *context, struct report_table *table,
                               unsigned before, const char *first, const char *second, const char *sentence);
void report_view_name_cell(const struct report_context *context, struct report_table *table,
                           const struct report_entities *entities, uint32_t entity, bool mark_inlined);
void report_view_image_cell(const struct report_context *context, struct report_table *table,
                            const struct report_entities *entities, uint32_t entity);
/* "(unknown caller)" when that is what calls came from; else NULL. */
const char *report_view_unknown_caller(const struct report_entities *entities, uint32_t caller);
/* Order of rows with equal figures: by name, image, place. */
int report_view_compare_names(const struct report_entities *entities, uint32_t a, uint32_t b);

#endif
