#include "browse_screen.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_utf8.h"
#include "profile_extent.h"
#include "view_text.h"

/* Columns that figures and images take, and how wide a terminal must be for a second share, calls and
 * images. */
enum {
    WIDE_SHARE = 13,
    WIDE_EXACT = 18, /* with the value itself */
    WIDE_CALLS = 15,
    WIDE_IMAGE = 26,
    BOTH_FROM = 56,
    CALLS_FROM = 70,
    IMAGES_FROM = 100,
    DEEPEST = 24
};

/* --- lines --- */

static struct base_text *begin_line(struct browse_screen *screen, enum browse_style style)
{
    size_t old = screen->capacity;
    if (!base_array_room(screen->lines, screen->count, screen->capacity))
        return NULL;
    if (screen->capacity > old)
        memset(screen->lines + old, 0, (screen->capacity - old) * sizeof *screen->lines);
    struct browse_line *line = &screen->lines[screen->count++];
    base_text_clear(&line->text);
    line->text.failed = false; /* memory may be had again */
    line->style = style;
    return &line->text;
}

/* Cuts what is too wide and fills with blanks what is too narrow, so that styles reach from edge to edge. */
static bool screen_end_line(const struct browse_model *model, struct base_text *line)
{
    struct base_text fitted = {0};
    size_t length, kept = 0;
    unsigned used = 0;
    base_utf8_clean(&fitted, base_text_string(line), model->ascii);
    for (const char *at = base_text_string(&fitted); at[kept]; kept += length) {
        unsigned columns = base_utf8_columns(base_utf8_next(at + kept, &length));
        if (used + columns > model->columns)
            break;
        used += columns;
    }
    base_text_clear(line);
    base_text_add_bytes(line, base_text_string(&fitted), kept);
    base_text_add_repeated(line, ' ', model->columns - used);
    bool done = !fitted.failed && !line->failed;
    base_text_free(&fitted);
    return done;
}

static bool screen_add_line(struct browse_screen *screen, const struct browse_model *model,
                            enum browse_style style, const char *words)
{
    struct base_text *line = begin_line(screen, style);
    if (!line)
        return false;
    base_text_add(line, words);
    return screen_end_line(model, line);
}

/* --- above the rows --- */

static const char *view_name(const struct browse_model *model)
{
    static const char *const names[] = {"functions by self", "tree of calls", "callers and callees", "help"};
    return model->view == BROWSE_FLAT && model->by_total ? "functions by total" : names[model->view];
}

/* The view to the left, what the profile is of to the right, as much as there is room for. */
static bool add_title(struct browse_screen *screen, const struct browse_model *model)
{
    const char *command = profile_meta(model->profile, "command"),
               *of = command && *command ? command : model->file;
    struct base_text *line = begin_line(screen, BROWSE_TITLE), right = {0}, clean = {0};
    if (!line)
        return false;
    base_text_addf(line, " %s", view_name(model));
    unsigned used = base_utf8_width(base_text_string(line));
    base_utf8_clean(&clean, of, model->ascii);
    if (model->columns > used + 8)
        view_text_fit(&right, base_text_string(&clean), model->columns - used - 4, model->ascii);
    unsigned wide = base_utf8_width(base_text_string(&right));
    if (right.length && used + wide + 1 < model->columns)
        base_text_add_repeated(line, ' ', model->columns - used - wide - 1);
    base_text_add(line, base_text_string(&right));
    bool failed = right.failed || clean.failed;
    base_text_free(&right);
    base_text_free(&clean);
    return !failed && screen_end_line(model, line);
}

/* As reports have it: a sum of what was counted is not a sum of all. */
static void add_extent(struct base_text *line, const struct browse_model *model)
{
    const struct profile *profile = model->data.context.profile;
    const struct view_selection *selection = &model->data.context.selection;
    struct profile_extent extent = profile_extent_of(profile, selection->counter);
    bool imported = selection->exact && profile_meta(profile, "imported");
    if (extent.degree == PROFILE_EXTENT_NONE || selection->exact || selection->peak)
        base_text_addf(line, ", %s", imported ? "as imported" : profile_extent_words(&extent));
}

static bool add_counter(struct browse_screen *screen, const struct browse_model *model)
{
    const struct view_selection *selection = &model->data.context.selection;
    struct base_text *line = begin_line(screen, BROWSE_PLAIN);
    if (!line)
        return false;
    base_text_addf(line, " %s: ", selection->name);
    view_text_value(line, selection->unit, selection->taken.value, model->ascii);
    if (!selection->exact && !selection->peak) {
        base_text_add(line, ", ");
        view_text_count(line, selection->taken.samples);
        base_text_add(line, selection->taken.samples == 1 ? " sample" : " samples");
    }
    add_extent(line, model);
    struct profile_extent extent = profile_extent_named(model->data.context.profile, PROFILE_CALLS);
    if (model->data.calls.counted)
        base_text_addf(line, "; calls are %s", profile_extent_words(&extent));
    return screen_end_line(model, line);
}

static bool shows_calls(const struct browse_model *model)
{
    return model->data.calls.counted && model->columns >= CALLS_FROM && model->view != BROWSE_TREE;
}

static unsigned wide_figure(const struct browse_model *model)
{
    return model->data.context.selection.exact ? WIDE_EXACT : WIDE_SHARE;
}

static void add_padded(struct base_text *line, const char *text, unsigned width)
{
    unsigned taken = base_utf8_width(text);
    base_text_add_repeated(line, ' ', width > taken ? width - taken : 0);
    base_text_add(line, text);
}

static unsigned image_room(const struct browse_model *model)
{
    return model->columns >= IMAGES_FROM ? WIDE_IMAGE : 0;
}

/* A name, and its image at the right edge. */
static void screen_add_name(const struct browse_model *model, struct base_text *line, const char *name,
                            const char *image)
{
    unsigned used = base_utf8_width(base_text_string(line)), last = image_room(model);
    unsigned room = model->columns > used + last + 1 ? model->columns - used - last - 1 : 1;
    size_t before = line->length;
    struct base_text clean = {0};
    base_utf8_clean(&clean, name, model->ascii);
    view_text_fit_name(line, base_text_string(&clean), room, model->ascii);
    if (last && !line->failed) {
        unsigned taken = base_utf8_width(line->data + before);
        base_text_add_repeated(line, ' ', room > taken ? room - taken + 1 : 1);
        base_text_clear(&clean);
        base_utf8_clean(&clean, image, model->ascii);
        view_text_fit(line, base_text_string(&clean), last, model->ascii);
    }
    line->failed |= clean.failed;
    base_text_free(&clean);
}

static bool add_heads(struct browse_screen *screen, const struct browse_model *model)
{
    struct base_text *line = begin_line(screen, BROWSE_HEAD);
    bool total_first = model->view != BROWSE_FLAT;
    if (!line)
        return false;
    if (model->view != BROWSE_HELP) {
        add_padded(line, total_first ? "total" : "self", wide_figure(model));
        if (model->columns >= BOTH_FROM)
            add_padded(line, total_first ? "self" : "total", wide_figure(model) + 1);
        if (shows_calls(model))
            add_padded(line, "calls", WIDE_CALLS + 1);
        base_text_add(line, "  ");
        screen_add_name(model, line, "function", "image");
    }
    return screen_end_line(model, line);
}

/* --- rows --- */

static void add_share(const struct browse_model *model, struct base_text *line,
                      const struct view_figure *figure, unsigned width)
{
    struct base_text text = {0};
    if (figure)
        view_text_share(&text, &model->data.context.selection, figure, model->ascii);
    add_padded(line, base_text_string(&text), width);
    line->failed |= text.failed;
    base_text_free(&text);
}

/* At most six columns. */
static void add_short_count(struct base_text *out, uint64_t count)
{
    if (count < 100000)
        view_text_exact(out, count);
    else if (count < 999500)
        base_text_addf(out, "%.0f k", (double)count / 1e3);
    else if (count < 10000000)
        base_text_addf(out, "%.1f M", (double)count / 1e6);
    else
        view_text_count(out, count);
}

/* As in reports, where there is room for all digits; recursive calls stand behind a plus. */
static void add_called(struct base_text *out, const struct view_called *called, bool ascii)
{
    view_calls_text(out, called, ascii);
    uint64_t entering = view_calls_entering(called);
    if (base_utf8_width(base_text_string(out)) <= WIDE_CALLS)
        return;
    base_text_clear(out);
    view_calls_at_least(out, called, ascii);
    add_short_count(out, entering);
    base_text_add(out, "+");
    add_short_count(out, called->calls - entering);
}

static void screen_add_calls(const struct browse_model *model, struct base_text *line,
                             const struct browse_row *row)
{
    const struct browse_data *data = &model->data;
    struct base_text text = {0};
    if (!shows_calls(model))
        return;
    if (row->kind == BROWSE_ROW_CALLER || row->kind == BROWSE_ROW_CALLEE) {
        const struct browse_edge *edge = &data->edges[row->edge];
        const struct view_pair *pair = view_calls_between(&data->calls, edge->caller, edge->callee);
        if (pair)
            view_text_count(&text, pair->calls);
    } else {
        struct view_called called = view_calls_of(&data->calls, row->entity);
        add_called(&text, &called, model->ascii);
    }
    add_padded(line, base_text_string(&text), WIDE_CALLS + 1);
    line->failed |= text.failed;
    base_text_free(&text);
}

static void screen_add_figures(const struct browse_model *model, struct base_text *line,
                               const struct browse_row *row)
{
    const struct browse_data *data = &model->data;
    const struct view_figure *total = &data->functions[row->entity].total,
                             *self = &data->functions[row->entity].self;
    if (row->kind == BROWSE_ROW_BRANCH) {
        total = &data->merge.branches[row->branch].total;
        self = &data->merge.branches[row->branch].self;
    } else if (row->kind == BROWSE_ROW_CALLER || row->kind == BROWSE_ROW_CALLEE) {
        total = &data->edges[row->edge].total;
        self = NULL;
    }
    bool total_first = row->kind != BROWSE_ROW_FUNCTION;
    add_share(model, line, total_first ? total : self, wide_figure(model));
    if (model->columns >= BOTH_FROM)
        add_share(model, line, total_first ? self : total, wide_figure(model) + 1);
    screen_add_calls(model, line, row);
    base_text_add(line, "  ");
}

/* What stands before a name: how deep it is, and whether something is folded away below it. */
static void add_indent(const struct browse_model *model, struct base_text *line, const struct browse_row *row)
{
    if (row->kind == BROWSE_ROW_BRANCH) {
        uint32_t depth = model->data.merge.branches[row->branch].depth - 1;
        base_text_add_repeated(line, ' ', 2 * (depth < DEEPEST / 2 ? depth : DEEPEST / 2));
        base_text_add(line, !browse_model_expandable(model, row->branch) ? "  "
                            : model->expanded[row->branch]               ? "- "
                                                                         : "+ ");
    } else if (row->kind != BROWSE_ROW_FUNCTION) {
        base_text_add_repeated(line, ' ', row->kind == BROWSE_ROW_ITSELF ? 0 : 2);
    }
}

static bool screen_add_row(struct browse_screen *screen, const struct browse_model *model, size_t index)
{
    const struct browse_row *row = &model->rows[index];
    bool chosen = index == model->cursor && model->view != BROWSE_HELP;
    if (row->kind == BROWSE_ROW_WORDS) {
        struct base_text *line = begin_line(screen, model->view == BROWSE_HELP ? BROWSE_PLAIN : BROWSE_DIM);
        if (!line)
            return false;
        base_text_add_repeated(line, ' ', model->view == BROWSE_HELP ? 1 : 4);
        base_text_add(line, row->words);
        return screen_end_line(model, line);
    }
    enum browse_style style = row->kind == BROWSE_ROW_ITSELF ? BROWSE_STRONG : BROWSE_PLAIN;
    struct base_text *line = begin_line(screen, chosen ? BROWSE_CURSOR : style), name = {0};
    if (!line)
        return false;
    const struct view_entities *entities = &model->data.merge.entities;
    view_entity_name(entities, row->entity, &name);
    if (view_entity_inlined(entities, row->entity))
        base_text_add(&name, " (inlined)");
    screen_add_figures(model, line, row);
    add_indent(model, line, row);
    screen_add_name(model, line, base_text_string(&name), view_entity_image(entities, row->entity));
    line->failed |= name.failed;
    base_text_free(&name);
    return screen_end_line(model, line);
}

static bool screen_add_rows(struct browse_screen *screen, const struct browse_model *model)
{
    size_t page = browse_model_page(model);
    if (!model->row_count && page) {
        page--;
        if (!screen_add_line(screen, model, BROWSE_PLAIN, " No samples in this profile."))
            return false;
    }
    for (size_t i = 0; i < page; i++) {
        size_t row = model->top + i;
        if (row < model->row_count ? !screen_add_row(screen, model, row)
                                   : !screen_add_line(screen, model, BROWSE_PLAIN, ""))
            return false;
    }
    return true;
}

/* --- below --- */

static bool add_foot(struct browse_screen *screen, const struct browse_model *model)
{
    struct base_text *line = begin_line(screen, BROWSE_TITLE);
    if (!line)
        return false;
    screen->typing = model->typing;
    if (model->typing) {
        base_text_addf(line, "/%s", base_text_string(&model->typed));
        screen->caret = base_utf8_width(base_text_string(line));
        if (screen->caret >= model->columns)
            screen->caret = model->columns - 1;
    } else if (model->message[0]) {
        base_text_addf(line, " %s", model->message);
    } else {
        base_text_add(line, " q quit  ? help  1 flat  2 tree  Enter into  / search  c counter  a annotate");
    }
    return screen_end_line(model, line);
}

static bool add_too_small(struct browse_screen *screen, const struct browse_model *model)
{
    struct base_text words = {0};
    base_text_addf(&words, "too small: %ux%u, needs %dx%d", model->columns, model->lines, BROWSE_NARROWEST,
                   BROWSE_LOWEST);
    bool done = model->lines == 0 || screen_add_line(screen, model, BROWSE_PLAIN, base_text_string(&words));
    while (done && screen->count < model->lines)
        done = screen_add_line(screen, model, BROWSE_PLAIN, "");
    base_text_free(&words);
    return done;
}

bool browse_screen_draw(struct browse_screen *screen, const struct browse_model *model)
{
    screen->count = 0;
    screen->typing = false;
    if (browse_model_too_small(model))
        return add_too_small(screen, model);
    return add_title(screen, model) && add_counter(screen, model) && add_heads(screen, model) &&
           screen_add_rows(screen, model) && add_foot(screen, model);
}

void browse_screen_free(struct browse_screen *screen)
{
    for (size_t i = 0; i < screen->capacity; i++)
        base_text_free(&screen->lines[i].text);
    free(screen->lines);
    *screen = (struct browse_screen){0};
}
