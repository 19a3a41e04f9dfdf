#include "report_coverage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_map.h"
#include "base_utf8.h"
#include "base_wrap.h"
#include "profile_extent.h"
#include "view_style.h"
#include "view_text.h"

enum { NARROW = 100, BEFORE_COUNT = 8, COUNT_TITLE = 5 };

struct part {
    uint64_t found, counted;
};

struct image {
    uint32_t image;
    struct part parts[PROFILE_COVERAGE_KINDS]; /* by enum profile_coverage_kind */
    size_t rows, shown;                        /* functions that are not covered */
};

/* What was left alone in an image for one reason, and the functions that are not covered because of it. */
struct reason {
    uint32_t image, code, text; /* text: string */
    uint64_t count;             /* 0: nothing was said but the functions */
    uint32_t first, last;       /* uncovered functions, a chain; 0: none */
    size_t order;
};

struct coverage {
    struct view_context *context;
    struct image *images; /* the most sites first */
    size_t image_count, image_capacity;
    struct reason *reasons; /* by image, the most first */
    size_t reason_count, reason_capacity;
    uint32_t *next;         /* by uncovered function: the next one for the same reason */
    struct base_map places; /* image -> its item */
    struct base_map known;  /* (image, text) -> reason */
    struct image all;
};

/* --- gathering --- */

static struct image *coverage_image_of(struct coverage *self, uint32_t image)
{
    uint32_t known = base_map_find(&self->places, image);
    if (known != BASE_MAP_NONE)
        return &self->images[known];
    if (!base_array_room(self->images, self->image_count, self->image_capacity) ||
        !base_map_set(&self->places, image, (uint32_t)self->image_count))
        return NULL;
    self->images[self->image_count] = (struct image){.image = image};
    return &self->images[self->image_count++];
}

static bool coverage_takes(const struct coverage *self, uint32_t image)
{
    const bool *images = self->context->selection.images;
    return !images || images[image];
}

static uint64_t coverage_add(uint64_t one, uint64_t two)
{
    uint64_t sum;
    return __builtin_add_overflow(one, two, &sum) ? UINT64_MAX : sum;
}

static bool gather_parts(struct coverage *self)
{
    const struct profile *profile = self->context->profile;
    for (size_t i = 1; i < profile->coverage_count; i++) {
        const struct profile_coverage *it = &profile->coverage[i];
        struct image *image = coverage_takes(self, it->image) ? coverage_image_of(self, it->image) : NULL;
        if (!image && coverage_takes(self, it->image))
            return false;
        if (!image)
            continue;
        image->parts[it->kind] = (struct part){it->found, it->counted};
        self->all.parts[it->kind].found = coverage_add(self->all.parts[it->kind].found, it->found);
        self->all.parts[it->kind].counted = coverage_add(self->all.parts[it->kind].counted, it->counted);
    }
    return true;
}

/* Two codes may have one sentence: functions go to the first. */
static struct reason *add_reason(struct coverage *self, const struct reason *reason)
{
    uint64_t key = (uint64_t)reason->image << 32 | reason->text;
    if (!coverage_image_of(self, reason->image) ||
        !base_array_room(self->reasons, self->reason_count, self->reason_capacity))
        return NULL;
    if (base_map_find(&self->known, key) == BASE_MAP_NONE &&
        !base_map_set(&self->known, key, (uint32_t)self->reason_count))
        return NULL;
    struct reason *added = &self->reasons[self->reason_count];
    *added = *reason;
    added->order = self->reason_count++;
    return added;
}

static bool gather_left(struct coverage *self)
{
    const struct profile *profile = self->context->profile;
    for (size_t i = 1; i < profile->left_count; i++) {
        const struct profile_left *it = &profile->left[i];
        struct reason reason = {.image = it->image, .code = it->code, .text = it->reason, .count = it->count};
        if (it->count && coverage_takes(self, it->image) && !add_reason(self, &reason))
            return false;
    }
    return true;
}

static size_t most_names(const struct view_options *options)
{
    if (options->json || (!options->limit_rows && options->limit_percent <= 0))
        return SIZE_MAX;
    return options->limit_rows ? options->limit_rows : REPORT_COVERAGE_NAMES;
}

static bool coverage_add_function(struct coverage *self, const struct profile_uncovered *it, uint32_t row)
{
    struct image *image = coverage_image_of(self, it->image);
    if (!image)
        return false;
    if (++image->rows > most_names(self->context->options))
        return true;
    image->shown++;
    uint32_t known = base_map_find(&self->known, (uint64_t)it->image << 32 | it->reason);
    struct reason *reason = known == BASE_MAP_NONE
                                ? add_reason(self, &(struct reason){.image = it->image, .text = it->reason})
                                : &self->reasons[known];
    if (!reason)
        return false;
    if (reason->first)
        self->next[reason->last] = row;
    else
        reason->first = row;
    reason->last = row;
    return true;
}

static bool gather_functions(struct coverage *self)
{
    const struct profile *profile = self->context->profile;
    self->next = calloc(profile->uncovered_count + 1, sizeof *self->next);
    for (size_t i = 1; self->next && i < profile->uncovered_count; i++) {
        const struct profile_uncovered *it = &profile->uncovered[i];
        if (coverage_takes(self, it->image) && !coverage_add_function(self, it, (uint32_t)i))
            return false;
    }
    return self->next != NULL;
}

static const char *coverage_name_of(const struct coverage *self, uint32_t image)
{
    const struct profile *profile = self->context->profile;
    return profile_text(profile, profile->images[image].name);
}

static int by_sites(const void *a, const void *b, void *context)
{
    const struct image *x = a, *y = b;
    uint64_t p = x->parts[PROFILE_COVERAGE_SITES].found, q = y->parts[PROFILE_COVERAGE_SITES].found;
    if (p != q)
        return p > q ? -1 : 1;
    int order = strcmp(coverage_name_of(context, x->image), coverage_name_of(context, y->image));
    return order ? order : (x->image > y->image) - (x->image < y->image);
}

static int by_image(const void *a, const void *b, void *context)
{
    const struct coverage *self = context;
    const struct reason *x = a, *y = b;
    uint32_t p = base_map_find(&self->places, x->image), q = base_map_find(&self->places, y->image);
    if (p != q)
        return p < q ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->code != y->code)
        return x->code < y->code ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static bool coverage_sort(struct coverage *self)
{
    if (self->image_count)
        qsort_r(self->images, self->image_count, sizeof *self->images, by_sites, self);
    for (size_t i = 0; i < self->image_count; i++)
        if (!base_map_set(&self->places, self->images[i].image, (uint32_t)i))
            return false;
    if (self->reason_count)
        qsort_r(self->reasons, self->reason_count, sizeof *self->reasons, by_image, self);
    return true;
}

/* The end of the reasons of the image that the one at `begin` is of. */
static size_t end_of_image(const struct coverage *self, size_t begin)
{
    size_t end = begin;
    while (end < self->reason_count && self->reasons[end].image == self->reasons[begin].image)
        end++;
    return end;
}

/* More may have been listed than are in the profile. */
static uint64_t uncovered_of(const struct image *image)
{
    uint64_t listed = image->parts[PROFILE_COVERAGE_LISTED].found;
    return listed > image->rows ? listed : image->rows;
}

static bool has_callee(const struct profile *profile, const struct profile_edge *edge)
{
    uint32_t image = profile->addresses[edge->callee].image;
    return profile->images[image].kind != PROFILE_IMAGE_SPECIAL;
}

/* Calls of all kinds, and of them indirect ones, and ones of which nobody can say whom they called. */
static void coverage_count_calls(const struct profile *profile, struct part *indirect, struct part *nameless)
{
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        indirect->found = nameless->found = coverage_add(indirect->found, edge->calls);
        if (edge->kind == PROFILE_CALL_INDIRECT)
            indirect->counted = coverage_add(indirect->counted, edge->calls);
        if (!has_callee(profile, edge))
            nameless->counted = coverage_add(nameless->counted, edge->calls);
    }
}

/* --- text --- */

void report_coverage_percent(struct base_text *out, uint64_t counted, uint64_t found)
{
    double permille = found ? floor(1000 * ((double)counted / (double)found)) : 0;
    if (counted < found && permille > 999)
        permille = 999;
    if (found)
        base_text_addf(out, "%.1f %%", permille / 10);
}

static void add_part(struct base_text *out, const struct part *part, const char *before, const char *between,
                     const char *noun)
{
    base_text_add(out, before);
    view_text_exact(out, part->counted);
    base_text_add(out, between);
    view_text_exact(out, part->found);
    base_text_addf(out, " %s (", noun);
    report_coverage_percent(out, part->counted, part->found);
    base_text_add(out, ")");
}

/* The profile has no coverage of any image. */
static void add_no_coverage(const struct view_context *context, struct base_text *words)
{
    struct profile_extent extent = profile_extent_named(context->profile, PROFILE_CALLS);
    struct base_text reason = {0};
    if (extent.degree == PROFILE_EXTENT_NONE) {
        profile_extent_not_counted(&extent, &reason);
        base_text_add(words, " ");
        base_utf8_clean(words, base_text_string(&reason), context->options->ascii);
        base_text_add(words, ".");
    } else {
        base_text_add(words, " of which images is not known.");
    }
    words->failed |= reason.failed;
    base_text_free(&reason);
}

/* Coverage is of the code that was planned: what was lost beside it is reported here. */
static void add_functions(const struct coverage *self, struct base_text *words)
{
    struct profile_extent extent = profile_extent_named(self->context->profile, PROFILE_CALLS);
    struct base_text reason = {0};
    add_part(words, &self->all.parts[PROFILE_COVERAGE_FUNCTIONS], " Every call is counted of ", " of ",
             "functions");
    if (extent.anywhere || extent.unfinished) {
        base_text_add(words, " in what was counted, which is not all (");
        profile_extent_reason(&extent, &reason);
        base_utf8_clean(words, base_text_string(&reason), self->context->options->ascii);
        base_text_add(words, ")");
    }
    base_text_add(words, ".");
    words->failed |= reason.failed;
    base_text_free(&reason);
}

static void add_sums(struct coverage *self, struct base_text *words)
{
    const struct part *parts = self->all.parts;
    struct part indirect = {0, 0}, nameless = {0, 0};
    coverage_count_calls(self->context->profile, &indirect, &nameless);
    base_text_add(words, "Calls:");
    if (!parts[PROFILE_COVERAGE_SITES].found && !parts[PROFILE_COVERAGE_FUNCTIONS].found)
        add_no_coverage(self->context, words);
    if (parts[PROFILE_COVERAGE_SITES].found)
        add_part(words, &parts[PROFILE_COVERAGE_SITES], " ", " of ", "sites are counted");
    if (parts[PROFILE_COVERAGE_INDIRECT].found)
        add_part(words, &parts[PROFILE_COVERAGE_INDIRECT], ", ", " of ", "indirect ones");
    base_text_add(words, parts[PROFILE_COVERAGE_SITES].found ? "." : "");
    if (parts[PROFILE_COVERAGE_FUNCTIONS].found)
        add_functions(self, words);
    const char *names = profile_meta(self->context->profile, "calls_names");
    if (names && *names) {
        base_text_add(words, " Only calls from or to ");
        base_utf8_clean(words, names, self->context->options->ascii);
        base_text_add(words, " were asked for.");
    }
    if (indirect.found)
        base_text_addf(words, " Of all calls that were counted, %.1f %% were indirect.",
                       100 * (double)indirect.counted / (double)indirect.found);
    if (nameless.counted) {
        add_part(words, &nameless, " Not known is whom ", " of ", "calls went to");
        base_text_add(words, ": the table of edges has them as (unknown).");
    }
}

/* What there is to say without figures. */
static const char *words_of(const struct coverage *self)
{
    const struct profile *profile = self->context->profile;
    if (profile->coverage_count + profile->left_count + profile->uncovered_count == 3)
        return profile_extent_has_calls(profile)
                   ? "Calls: this profile does not say which ones were not counted."
                   : NULL;
    return self->image_count ? NULL : "Calls: none were counted in the files that the filters leave.";
}

static void print_summary(struct coverage *self)
{
    struct base_text text = {0};
    struct base_text *out = self->context->out;
    const char *words = words_of(self);
    if (words)
        base_text_add(&text, words);
    else
        add_sums(self, &text);
    base_text_add(out, "\n");
    base_wrap(out, base_text_string(&text), 0, 0, self->context->width);
    base_text_add(out, "\n");
    out->failed |= text.failed;
    base_text_free(&text);
}

static void part_cells(const struct view_context *context, struct view_table *table, const struct part *part)
{
    struct base_text text = {0};
    view_count_cell(context, table, part->found);
    report_coverage_percent(&text, part->counted, part->found);
    view_table_cell(table, base_text_string(&text), false);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void print_images(struct coverage *self)
{
    struct view_context *context = self->context;
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    bool wide = !context->width || context->width >= NARROW;
    static const char *const titles[][2] = {
        {"sites", "counted"}, {"indirect", "counted"}, {"functions", "covered"}, {"by address", "hooked"}};
    view_table_add_column(&table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
    for (int i = 0; i < (wide ? 4 : 3); i++) {
        view_table_add_column(&table, titles[i][0], VIEW_RIGHT, VIEW_FIXED);
        view_table_add_column(&table, titles[i][1], VIEW_RIGHT, VIEW_FIXED);
    }
    for (size_t i = 0; i < self->image_count; i++) {
        const struct image *image = &self->images[i];
        view_table_cell(&table, coverage_name_of(self, image->image), context->options->ascii);
        part_cells(context, &table, &image->parts[PROFILE_COVERAGE_SITES]);
        part_cells(context, &table, &image->parts[PROFILE_COVERAGE_INDIRECT]);
        part_cells(context, &table, &image->parts[PROFILE_COVERAGE_FUNCTIONS]);
        if (wide)
            part_cells(context, &table, &image->parts[PROFILE_COVERAGE_TAKEN]);
        view_table_row(&table, VIEW_PLAIN);
    }
    base_text_add(context->out, "\n");
    view_table_print(&table, &form, context->out);
    view_table_free(&table);
}

static void coverage_add_name(struct coverage *self, struct view_table *table,
                              const struct profile_uncovered *it)
{
    const struct profile *profile = self->context->profile;
    struct base_text text = {0};
    base_text_add(&text, "  ");
    if (it->name)
        base_text_add(&text, profile_text(profile, it->name));
    else
        base_text_addf(&text, "%s+0x%llx", coverage_name_of(self, it->image),
                       (unsigned long long)it->address);
    view_table_cell(table, NULL, false);
    view_table_cell(table, NULL, false);
    view_table_cell(table, base_text_string(&text), self->context->options->ascii);
    view_table_row(table, VIEW_PLAIN);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void add_reason_rows(struct coverage *self, struct view_table *table, const struct reason *reason,
                            unsigned before)
{
    const struct profile *profile = self->context->profile;
    struct base_text code = {0}, count = {0};
    if (reason->count) {
        base_text_addf(&code, "%u", reason->code);
        view_text_count(&count, reason->count);
    }
    view_sentence_rows(self->context, table, before, base_text_string(&code), base_text_string(&count),
                       profile_text(profile, reason->text));
    for (uint32_t row = reason->first; row; row = self->next[row])
        coverage_add_name(self, table, &profile->uncovered[row]);
    table->failed |= code.failed | count.failed;
    base_text_free(&code);
    base_text_free(&count);
}

static void coverage_add_hidden(struct coverage *self, struct view_table *table, const struct image *image)
{
    struct base_text text = {0};
    uint64_t hidden = uncovered_of(image) - image->shown;
    if (!hidden)
        return;
    base_text_add(&text, "(");
    view_text_exact(&text, hidden);
    base_text_addf(&text, " more %s)", hidden == 1 ? "function" : "functions");
    view_table_cell(table, NULL, false);
    view_table_cell(table, NULL, false);
    view_table_cell(table, base_text_string(&text), self->context->options->ascii);
    view_table_row(table, VIEW_DIM);
    table->failed |= text.failed;
    base_text_free(&text);
}

/* Columns that a code and the largest count, which is the first one, leave no sentence. */
static unsigned columns_before(const struct view_context *context, const struct reason *first)
{
    struct base_text text = {0};
    view_text_count(&text, first->count);
    unsigned width = text.length > COUNT_TITLE ? (unsigned)text.length : COUNT_TITLE;
    context->out->failed |= text.failed;
    base_text_free(&text);
    return BEFORE_COUNT + width + 2;
}

/* Reasons `begin` to `end`, which are of one image. */
static void print_reasons(struct coverage *self, size_t begin, size_t end)
{
    struct view_context *context = self->context;
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    uint32_t image = self->reasons[begin].image;
    unsigned before = columns_before(context, &self->reasons[begin]);
    struct base_text name = {0}, fitted = {0};
    base_utf8_clean(&name, coverage_name_of(self, image), context->options->ascii);
    view_text_fit(&fitted, base_text_string(&name), context->width, context->options->ascii);
    base_text_add(context->out, "\n");
    view_style_begin(context->out, VIEW_BOLD, context->options->color);
    base_text_add(context->out, base_text_string(&fitted));
    view_style_end(context->out, VIEW_BOLD, context->options->color);
    base_text_add(context->out, "\n");
    view_table_add_column(&table, "code", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "count", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "left alone; below, functions not covered", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    for (size_t i = begin; i < end; i++)
        add_reason_rows(self, &table, &self->reasons[i], before);
    coverage_add_hidden(self, &table, &self->images[base_map_find(&self->places, image)]);
    view_table_print(&table, &form, context->out);
    view_table_free(&table);
    context->out->failed |= name.failed | fitted.failed;
    base_text_free(&name);
    base_text_free(&fitted);
}

static void coverage_print_text(struct coverage *self)
{
    const struct profile *profile = self->context->profile;
    bool said = profile->coverage_count + profile->left_count + profile->uncovered_count > 3;
    if (!said && !profile_counts_calls(profile))
        return;
    print_summary(self);
    if (self->image_count)
        print_images(self);
    for (size_t i = 0, end; i < self->reason_count; i = end) {
        end = end_of_image(self, i);
        print_reasons(self, i, end);
    }
}

/* --- JSON --- */

static void json_parts(struct base_json *json, const struct image *image)
{
    static const char *const names[] = {NULL, "sites", "indirect", "functions", "taken"};
    for (int kind = PROFILE_COVERAGE_SITES; kind < PROFILE_COVERAGE_LISTED; kind++) {
        base_json_begin(json, names[kind], '{');
        base_json_unsigned(json, "found", image->parts[kind].found);
        base_json_unsigned(json, "counted", image->parts[kind].counted);
        base_json_end(json, '}');
    }
}

static void json_function(struct coverage *self, const struct profile_uncovered *it)
{
    const struct profile *profile = self->context->profile;
    struct base_json *json = self->context->json;
    base_json_begin(json, NULL, '{');
    base_json_string(json, "function", it->name ? profile_text(profile, it->name) : NULL);
    base_json_unsigned(json, "address", it->address);
    base_json_string(json, "reason", profile_text(profile, it->reason));
    base_json_end(json, '}');
}

static void json_reasons(struct coverage *self, size_t begin, size_t end)
{
    const struct profile *profile = self->context->profile;
    struct base_json *json = self->context->json;
    base_json_begin(json, "left", '[');
    for (size_t i = begin; i < end; i++) {
        if (!self->reasons[i].count)
            continue;
        base_json_begin(json, NULL, '{');
        base_json_unsigned(json, "code", self->reasons[i].code);
        base_json_string(json, "reason", profile_text(profile, self->reasons[i].text));
        base_json_unsigned(json, "count", self->reasons[i].count);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
    base_json_begin(json, "uncovered", '[');
    for (size_t i = begin; i < end; i++)
        for (uint32_t row = self->reasons[i].first; row; row = self->next[row])
            json_function(self, &profile->uncovered[row]);
    base_json_end(json, ']');
}

/* Reasons are in the order of images. */
static void json_images(struct coverage *self)
{
    const struct profile *profile = self->context->profile;
    struct base_json *json = self->context->json;
    size_t begin = 0;
    base_json_begin(json, "images", '[');
    for (size_t i = 0; i < self->image_count; i++) {
        const struct image *image = &self->images[i];
        const struct profile_image *it = &profile->images[image->image];
        base_json_begin(json, NULL, '{');
        base_json_string(json, "image", coverage_name_of(self, image->image));
        base_json_string(json, "path", profile_text(profile, it->path));
        base_json_string(json, "build_id", it->build_id ? profile_text(profile, it->build_id) : NULL);
        json_parts(json, image);
        bool has = begin < self->reason_count && self->reasons[begin].image == image->image;
        size_t end = has ? end_of_image(self, begin) : begin;
        json_reasons(self, begin, end);
        base_json_unsigned(json, "uncovered_functions", uncovered_of(image));
        base_json_end(json, '}');
        begin = end;
    }
    base_json_end(json, ']');
}

static void coverage_print_json(struct coverage *self)
{
    struct base_json *json = self->context->json;
    struct part indirect = {0, 0}, nameless = {0, 0};
    coverage_count_calls(self->context->profile, &indirect, &nameless);
    base_json_bool(json, "calls_counted", profile_extent_has_calls(self->context->profile));
    base_json_unsigned(json, "calls", indirect.found);
    base_json_unsigned(json, "indirect_calls", indirect.counted);
    base_json_unsigned(json, "calls_without_callee", nameless.counted);
    base_json_begin(json, "coverage", '{');
    json_parts(json, &self->all);
    json_images(self);
    base_json_end(json, '}');
}

/* --- */

int report_coverage(struct view_context *context)
{
    struct coverage self = {.context = context};
    bool done = gather_parts(&self) && gather_left(&self) && gather_functions(&self) && coverage_sort(&self);
    if (done && context->json)
        coverage_print_json(&self);
    else if (done)
        coverage_print_text(&self);
    free(self.images);
    free(self.reasons);
    free(self.next);
    base_map_free(&self.places);
    base_map_free(&self.known);
    return done ? 0 : view_memory(context);
}

bool report_coverage_functions(const struct profile *profile, uint64_t *found, uint64_t *counted)
{
    *found = *counted = 0;
    for (size_t i = 1; i < profile->coverage_count; i++) {
        const struct profile_coverage *it = &profile->coverage[i];
        if (it->kind != PROFILE_COVERAGE_FUNCTIONS)
            continue;
        *found = coverage_add(*found, it->found);
        *counted = coverage_add(*counted, it->counted);
    }
    return *found != 0;
}
