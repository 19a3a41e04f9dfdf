/* view.h - what all views of a profile share: the context they print from, and the cells of their tables.
 *
 * A view appends to context->out (context->json is NULL), or adds members to the object that context->json
 * has open. The modules report, annotate, diff and browse use this one. Context: tool. */
#ifndef VIEW_H
#define VIEW_H

#include "base_error.h"
#include "base_json.h"
#include "base_text.h"
#include "profile.h"
#include "view_entity.h"
#include "view_options.h"
#include "view_select.h"
#include "view_table.h"
#include "view_walk.h"

struct view_context {
    const struct profile *profile;
    const struct view_options *options;
    struct view_selection selection;
    struct view_nodes nodes;
    unsigned width; /* 0: unlimited, else at least 40 */
    struct base_text *out;
    struct base_json *json; /* NULL: text */
    struct base_error *error;
};

int view_memory(struct view_context *context); /* the out-of-memory error */
bool view_below(const struct view_context *context, const struct view_figure *figure); /* --limit PERCENT */
/* Appends "functions below 0.5 %" or the like, `past` telling that --limit N hid some too. */
void view_below_text(const struct view_context *context, size_t count, const char *noun, const char *plural,
                     bool past, struct base_text *out);
/* Has a table a column of samples? Of exact counters the values themselves are shown. */
bool view_samples(const struct view_context *context);
struct view_table_form view_form(const struct view_context *context);
/* Words made harmless to a terminal, wrapped at its edge, and a line break. */
void view_words(struct view_context *context, const struct base_text *words);
/* One cell each, in the style that the options ask for. */
void view_share_cell(const struct view_context *context, struct view_table *table,
                     const struct view_figure *figure);
void view_count_cell(const struct view_context *context, struct view_table *table, uint64_t count);
/* Two cells and a sentence: it is not shortened as names are but goes on in further rows, `before` columns
 * being taken. */
void view_sentence_rows(const struct view_context *context, struct view_table *table, unsigned before,
                        const char *first, const char *second, const char *sentence);
void view_name_cell(const struct view_context *context, struct view_table *table,
                    const struct view_entities *entities, uint32_t entity, bool mark_inlined);
void view_image_cell(const struct view_context *context, struct view_table *table,
                     const struct view_entities *entities, uint32_t entity);
/* "(unknown caller)" when that is what calls came from; else NULL. */
const char *view_unknown_caller(const struct view_entities *entities, uint32_t caller);
/* Order of rows with equal figures: by name, image, place. */
int view_compare_names(const struct view_entities *entities, uint32_t a, uint32_t b);

#endif
