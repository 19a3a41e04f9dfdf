#include "browse_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_utf8.h"

/* Title, counter, heads of columns; and the line below. */
enum { LINES_ABOVE = 3, LINES_BELOW = 1 };

static const char *const help_words[] = {
    "1         functions by the time in themselves; again: with all they call",
    "2         the tree of calls",
    "Enter     the function at the cursor: who calls it, what it calls",
    "Backspace back to where that was asked (also b)",
    "",
    "Up Down   one row (also k j)        PgUp PgDn  one page (also Space)",
    "Home End  first, last (also g G)",
    "Right     unfold a branch (also +)  Left       fold it; its parent (also -)",
    "*         unfold all below a branch",
    "",
    "/ n N     search for part of a name; the next match, the one before",
    "c         the next counter",
    "i         inlined functions: as functions of their own, or not",
    "a         annotate: the lines of the function",
    "?         this help, and back",
    "q         leave",
    "",
    "Shares are of all samples, with half of their 95 % interval; recursion counts",
    "once. Calls are counted, not sampled, where the recording counted them.",
};

void browse_model_say(struct browse_model *model, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(model->message, sizeof model->message, format, arguments);
    va_end(arguments);
}

/* --- rows --- */

static bool model_add_row(struct browse_model *model, struct browse_row row)
{
    if (!base_array_room(model->rows, model->row_count, model->row_capacity))
        return false;
    model->rows[model->row_count++] = row;
    return true;
}

static int model_by_total(const void *a, const void *b, void *context)
{
    const struct browse_data *data = context;
    uint32_t i = ((const struct browse_row *)a)->entity, j = ((const struct browse_row *)b)->entity;
    const struct browse_function *x = &data->functions[i], *y = &data->functions[j];
    if (x->total.value != y->total.value)
        return x->total.value > y->total.value ? -1 : 1;
    if (x->self.value != y->self.value)
        return x->self.value > y->self.value ? -1 : 1;
    return view_compare_names(&data->merge.entities, i, j);
}

static bool make_flat(struct browse_model *model)
{
    struct browse_data *data = &model->data;
    for (size_t i = 0; i < data->flat_count; i++)
        if (!model_add_row(model, (struct browse_row){.kind = BROWSE_ROW_FUNCTION, .entity = data->flat[i]}))
            return false;
    if (model->by_total && model->row_count)
        qsort_r(model->rows, model->row_count, sizeof *model->rows, model_by_total, data);
    return true;
}

bool browse_model_expandable(const struct browse_model *model, uint32_t branch)
{
    const struct view_merge *merge = &model->data.merge;
    return merge->first[branch + 1] > merge->first[branch];
}

/* In the order of the tree, without what lies below a folded branch. */
static bool make_tree(struct browse_model *model)
{
    const struct browse_data *data = &model->data;
    uint32_t folded = 0, depth = 0; /* the folded branch that we are below, if any */
    for (size_t i = 0; i < data->walk_count; i++) {
        uint32_t branch = data->walk[i];
        const struct view_branch *of = &data->merge.branches[branch];
        if (folded && of->depth > depth)
            continue;
        folded = model->expanded[branch] ? 0 : branch;
        depth = of->depth;
        if (!model_add_row(model, (struct browse_row){
                                      .kind = BROWSE_ROW_BRANCH, .entity = of->entity, .branch = branch}))
            return false;
    }
    return true;
}

static uint64_t model_calls_of(const struct browse_data *data, const struct browse_edge *edge)
{
    const struct view_pair *pair = view_calls_between(&data->calls, edge->caller, edge->callee);
    return pair ? pair->calls : 0;
}

static int by_heat(const void *a, const void *b, void *context)
{
    const struct browse_data *data = context;
    const struct browse_row *one = a, *two = b;
    const struct browse_edge *x = &data->edges[one->edge], *y = &data->edges[two->edge];
    if (x->total.value != y->total.value)
        return x->total.value > y->total.value ? -1 : 1;
    uint64_t p = model_calls_of(data, x), q = model_calls_of(data, y);
    if (p != q)
        return p > q ? -1 : 1;
    return view_compare_names(&data->merge.entities, one->entity, two->entity);
}

static bool model_add_words(struct browse_model *model, const char *words)
{
    return model_add_row(model, (struct browse_row){.kind = BROWSE_ROW_WORDS, .words = words});
}

static bool model_add_edges(struct browse_model *model, enum browse_row_kind kind)
{
    struct browse_data *data = &model->data;
    size_t begin = model->row_count;
    for (uint32_t i = 0; i < data->edge_count; i++) {
        const struct browse_edge *edge = &data->edges[i];
        bool caller = kind == BROWSE_ROW_CALLER;
        if ((caller ? edge->callee : edge->caller) != model->entity)
            continue;
        uint32_t other = caller ? edge->caller : edge->callee;
        if (!model_add_row(model, (struct browse_row){.kind = kind, .entity = other, .edge = i}))
            return false;
    }
    if (model->row_count > begin)
        qsort_r(model->rows + begin, model->row_count - begin, sizeof *model->rows, by_heat, data);
    return true;
}

static bool make_function(struct browse_model *model)
{
    struct browse_row itself = {.kind = BROWSE_ROW_ITSELF, .entity = model->entity};
    if (!model_add_words(model, "called by"))
        return false;
    size_t before = model->row_count;
    if (!model_add_edges(model, BROWSE_ROW_CALLER) ||
        (model->row_count == before && !model_add_words(model, "  (nothing that was seen)")) ||
        !model_add_row(model, itself) || !model_add_words(model, "calls"))
        return false;
    before = model->row_count;
    return model_add_edges(model, BROWSE_ROW_CALLEE) &&
           (model->row_count > before || model_add_words(model, "  (nothing that was seen)"));
}

static bool make_help(struct browse_model *model)
{
    for (size_t i = 0; i < sizeof help_words / sizeof *help_words; i++)
        if (!model_add_words(model, help_words[i]))
            return false;
    return true;
}

static int make_rows(struct browse_model *model, struct base_error *error)
{
    bool (*const make[])(struct browse_model *) = {make_flat, make_tree, make_function, make_help};
    model->row_count = 0;
    return make[model->view](model) ? 0 : base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- the cursor --- */

size_t browse_model_page(const struct browse_model *model)
{
    return model->lines > LINES_ABOVE + LINES_BELOW ? model->lines - LINES_ABOVE - LINES_BELOW : 1;
}

static bool is_stop(const struct browse_model *model, size_t row)
{
    return model->rows[row].kind != BROWSE_ROW_WORDS || model->view == BROWSE_HELP;
}

/* The nearest row from `row` on that the cursor can be at, in the direction given, else in the other. */
static size_t stop_near(const struct browse_model *model, size_t row, bool down)
{
    for (int turn = 0; turn < 2; turn++, down = !down)
        for (size_t at = row; at < model->row_count; at += down ? 1 : (size_t)-1)
            if (is_stop(model, at))
                return at;
    return 0;
}

/* Puts the cursor at a row and that on the screen; of the rows around it as many as there is room for. */
static void move_cursor(struct browse_model *model, size_t row, bool down)
{
    size_t page = browse_model_page(model);
    if (row >= model->row_count)
        row = model->row_count ? model->row_count - 1 : 0;
    model->cursor = stop_near(model, row, down);
    if (model->cursor < model->top)
        model->top = model->cursor;
    if (model->cursor >= model->top + page)
        model->top = model->cursor - page + 1;
    if (model->cursor && model->top == model->cursor && !is_stop(model, model->cursor - 1))
        model->top--; /* its heading */
    if (model->top + page > model->row_count)
        model->top = model->row_count > page ? model->row_count - page : 0;
}

static void move_by(struct browse_model *model, size_t rows, bool down)
{
    if (down)
        move_cursor(model, model->cursor + rows, true);
    else
        move_cursor(model, model->cursor > rows ? model->cursor - rows : 0, false);
}

/* The row at the cursor; NULL when there is none. */
static const struct browse_row *current_row(const struct browse_model *model)
{
    if (model->cursor >= model->row_count || model->rows[model->cursor].kind == BROWSE_ROW_WORDS)
        return NULL;
    return &model->rows[model->cursor];
}

bool browse_model_function(const struct browse_model *model, struct base_text *name)
{
    const struct browse_row *row = current_row(model);
    if (!row)
        return false;
    view_entity_name(&model->data.merge.entities, row->entity, name);
    return !name->failed;
}

const char *browse_model_image(const struct browse_model *model)
{
    const struct browse_row *row = current_row(model);
    return row ? view_entity_image(&model->data.merge.entities, row->entity) : "";
}

void browse_model_resize(struct browse_model *model, unsigned columns, unsigned lines)
{
    model->columns = columns;
    model->lines = lines;
    move_cursor(model, model->cursor, true);
}

bool browse_model_too_small(const struct browse_model *model)
{
    return model->columns < BROWSE_NARROWEST || model->lines < BROWSE_LOWEST;
}

/* --- views --- */

static struct browse_place current_place(const struct browse_model *model)
{
    return (struct browse_place){model->view, model->entity, model->cursor, model->top};
}

static int model_go(struct browse_model *model, struct browse_place place, struct base_error *error)
{
    struct browse_place old = current_place(model);
    model->left[model->view] = old;
    model->view = place.view;
    model->entity = place.entity;
    int code = make_rows(model, error);
    if (code) {
        model->view = old.view;
        model->entity = old.entity;
        make_rows(model, NULL); /* these had room before */
        return code;
    }
    model->top = place.top;
    move_cursor(model, place.cursor, true);
    return 0;
}

static int show_view(struct browse_model *model, enum browse_view view, struct base_error *error)
{
    struct browse_place place = model->left[view];
    place.view = view;
    model->history_count = 0;
    return model_go(model, place, error);
}

static int show_flat(struct browse_model *model, struct base_error *error)
{
    if (model->view == BROWSE_FLAT) {
        model->by_total = !model->by_total;
        model->left[BROWSE_FLAT] = (struct browse_place){0};
        return model_go(model, (struct browse_place){.view = BROWSE_FLAT}, error);
    }
    return show_view(model, BROWSE_FLAT, error);
}

static int model_enter(struct browse_model *model, struct base_error *error)
{
    const struct browse_row *row = current_row(model);
    if (!row)
        return 0;
    if (model->view == BROWSE_FUNCTION && row->kind == BROWSE_ROW_ITSELF) {
        browse_model_say(model, "This is the function itself");
        return 0;
    }
    if (!base_array_room(model->history, model->history_count, model->history_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    uint32_t entity = row->entity;
    model->history[model->history_count++] = current_place(model);
    int code = model_go(model, (struct browse_place){.view = BROWSE_FUNCTION, .entity = entity}, error);
    for (size_t i = 0; !code && i < model->row_count; i++)
        if (model->rows[i].kind == BROWSE_ROW_ITSELF)
            move_cursor(model, i, true);
    return code;
}

static int open_previous_place(struct browse_model *model, struct base_error *error)
{
    if (!model->history_count) {
        browse_model_say(model, "This is where it began; q leaves");
        return 0;
    }
    return model_go(model, model->history[--model->history_count], error);
}

static int toggle_help(struct browse_model *model, struct base_error *error)
{
    if (model->view == BROWSE_HELP)
        return open_previous_place(model, error);
    if (!base_array_room(model->history, model->history_count, model->history_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    model->history[model->history_count++] = current_place(model);
    return model_go(model, (struct browse_place){.view = BROWSE_HELP}, error);
}

/* --- the tree --- */

static size_t row_of_branch(const struct browse_model *model, uint32_t branch)
{
    for (size_t i = 0; i < model->row_count; i++)
        if (model->rows[i].branch == branch)
            return i;
    return 0;
}

static int model_fold(struct browse_model *model, bool unfold, struct base_error *error)
{
    const struct browse_row *row = current_row(model);
    if (model->view != BROWSE_TREE || !row) {
        browse_model_say(model, "Only the tree (2) unfolds");
        return 0;
    }
    uint32_t branch = row->branch, parent = model->data.merge.branches[branch].parent;
    if (unfold && (!browse_model_expandable(model, branch) || model->expanded[branch])) {
        move_by(model, 1, true);
        return 0;
    }
    if (!unfold && !model->expanded[branch]) {
        if (parent)
            move_cursor(model, row_of_branch(model, parent), false);
        return 0;
    }
    model->expanded[branch] = unfold;
    return model_go(model, current_place(model), error);
}

/* Everything below: those that follow in the tree and are deeper. */
static int unfold_all(struct browse_model *model, struct base_error *error)
{
    const struct browse_row *row = current_row(model);
    const struct browse_data *data = &model->data;
    if (model->view != BROWSE_TREE || !row)
        return model_fold(model, true, error);
    uint32_t depth = data->merge.branches[row->branch].depth;
    model->expanded[row->branch] = browse_model_expandable(model, row->branch);
    for (size_t i = data->at[row->branch] + 1; i < data->walk_count; i++) {
        uint32_t branch = data->walk[i];
        if (data->merge.branches[branch].depth <= depth)
            break;
        model->expanded[branch] = browse_model_expandable(model, branch);
    }
    return model_go(model, current_place(model), error);
}

/* The tree begins unfolded along what has at least half of it. */
static void unfold_hottest(struct browse_model *model)
{
    const struct view_merge *merge = &model->data.merge;
    for (uint32_t branch = 0; browse_model_expandable(model, branch);) {
        uint32_t child = merge->children[merge->first[branch]];
        model->expanded[branch] = true;
        if (2 * merge->branches[child].total.value < model->data.context.selection.taken.value)
            break;
        branch = child;
    }
}

/* --- searching --- */

static bool model_matches(const struct browse_model *model, uint32_t entity)
{
    struct base_text name = {0};
    view_entity_name(&model->data.merge.entities, entity, &name);
    bool found = strcasestr(base_text_string(&name), base_text_string(&model->wanted)) != NULL;
    base_text_free(&name);
    return found;
}

/* All of the tree is searched, what is folded away too: it is unfolded then. */
static int search_tree(struct browse_model *model, bool forward, bool *found, struct base_error *error)
{
    const struct browse_data *data = &model->data;
    const struct browse_row *row = current_row(model);
    size_t from = row ? data->at[row->branch] : 0, count = data->walk_count;
    for (size_t step = 1; step <= count; step++) {
        size_t at = (forward ? from + step : from + count - step) % count;
        uint32_t branch = data->walk[at];
        if (!model_matches(model, data->merge.branches[branch].entity))
            continue;
        *found = true;
        for (uint32_t i = data->merge.branches[branch].parent; i; i = data->merge.branches[i].parent)
            model->expanded[i] = true;
        int code = model_go(model, current_place(model), error);
        move_cursor(model, row_of_branch(model, branch), true);
        return code;
    }
    return 0;
}

static void search_rows(struct browse_model *model, bool forward, bool *found)
{
    size_t count = model->row_count;
    for (size_t step = 1; step <= count && !*found; step++) {
        size_t at = (forward ? model->cursor + step : model->cursor + count - step) % count;
        if (model->rows[at].kind == BROWSE_ROW_WORDS || !model_matches(model, model->rows[at].entity))
            continue;
        *found = true;
        move_cursor(model, at, true);
    }
}

static int search_view(struct browse_model *model, bool forward, struct base_error *error)
{
    bool found = false;
    int code = 0;
    if (!model->wanted.length) {
        browse_model_say(model, "Nothing was searched for yet: / asks");
        return 0;
    }
    if (model->view == BROWSE_TREE)
        code = search_tree(model, forward, &found, error);
    else
        search_rows(model, forward, &found);
    if (!code && !found)
        browse_model_say(model, "No function here matches %s", base_text_string(&model->wanted));
    return code;
}

static void add_character(struct base_text *text, uint32_t character)
{
    char bytes[4];
    size_t length = 1;
    if (character < 0x80) {
        bytes[0] = (char)character;
    } else if (character < 0x800) {
        length = 2;
        bytes[0] = (char)(0xc0 | character >> 6);
    } else {
        length = character < 0x10000 ? 3 : 4;
        bytes[0] = (char)(length == 3 ? 0xe0 | character >> 12 : 0xf0 | character >> 18);
    }
    for (size_t i = 1; i < length; i++)
        bytes[i] = (char)(0x80 | (character >> (6 * (length - 1 - i)) & 0x3f));
    base_text_add_bytes(text, bytes, length);
}

static void drop_character(struct base_text *text)
{
    while (text->length && ((unsigned char)text->data[text->length - 1] & 0xc0) == 0x80)
        text->length--;
    if (text->length)
        text->data[--text->length] = '\0';
}

static int handle_typed_key(struct browse_model *model, uint32_t key, struct base_error *error)
{
    if (key == BROWSE_KEY_ESCAPE || (key == BROWSE_KEY_BACKSPACE && !model->typed.length)) {
        model->typing = false;
    } else if (key == BROWSE_KEY_BACKSPACE) {
        drop_character(&model->typed);
    } else if (key == BROWSE_KEY_ENTER) {
        model->typing = false;
        if (model->typed.length) {
            base_text_clear(&model->wanted);
            base_text_add(&model->wanted, base_text_string(&model->typed));
        }
        return search_view(model, true, error);
    } else if (key < BROWSE_KEY_UP && base_utf8_printable(key)) {
        add_character(&model->typed, key);
    }
    return 0;
}

/* --- counters --- */

static int open_data(struct browse_model *model, const char *counter, bool inlines, struct base_error *error)
{
    struct browse_data old = model->data;
    int code = browse_data_open(&model->data, model->profile, counter, inlines, error);
    bool *expanded = code ? NULL : calloc(model->data.merge.count + 1, sizeof *expanded);
    if (!code && !expanded) {
        browse_data_close(&model->data);
        code = base_fail(error, BASE_ENOMEM, "out of memory");
    }
    if (code) {
        model->data = old;
        /* It points into itself. */
        model->data.context.options = &model->data.options;
        model->data.merge.context = &model->data.context;
        return code;
    }
    browse_data_close(&old);
    free(model->expanded);
    model->expanded = expanded;
    model->inlines = inlines;
    memset(model->left, 0, sizeof model->left);
    model->history_count = 0;
    unfold_hottest(model);
    return 0;
}

/* From the start: what was selected has other numbers now. */
static int reopen_data(struct browse_model *model, const char *counter, bool inlines,
                       struct base_error *error)
{
    enum browse_view view = model->view == BROWSE_TREE ? BROWSE_TREE : BROWSE_FLAT;
    int code = open_data(model, counter, inlines, error);
    model->cursor = model->top = 0;
    return code ? code : model_go(model, (struct browse_place){.view = view}, error);
}

static int next_counter(struct browse_model *model, struct base_error *error)
{
    const struct profile *profile = model->profile;
    size_t count = profile->counter_count, now = model->data.context.selection.counter;
    for (size_t step = 1; step < count; step++) {
        size_t next = (now + step) % count;
        if (!next || next == profile_counts_calls(profile) || next == now)
            continue;
        return reopen_data(model, profile_text(profile, profile->counters[next].name), model->inlines, error);
    }
    browse_model_say(model, "There is no other counter in this profile");
    return 0;
}

static int toggle_inlines(struct browse_model *model, struct base_error *error)
{
    int code = reopen_data(model, model->data.options.counter, !model->inlines, error);
    if (!code)
        browse_model_say(model, model->inlines ? "Inlined functions are functions of their own"
                                               : "Inlined functions belong to what they are inlined in");
    return code;
}

/* --- keys --- */

static int model_move(struct browse_model *model, uint32_t key)
{
    size_t page = browse_model_page(model);
    switch (key) {
    case BROWSE_KEY_UP:
    case 'k':
        move_by(model, 1, false);
        break;
    case BROWSE_KEY_DOWN:
    case 'j':
        move_by(model, 1, true);
        break;
    case BROWSE_KEY_PAGE_UP:
        move_by(model, page, false);
        break;
    case BROWSE_KEY_PAGE_DOWN:
    case ' ':
        move_by(model, page, true);
        break;
    case BROWSE_KEY_HOME:
    case 'g':
        move_cursor(model, 0, true);
        break;
    case BROWSE_KEY_END:
    case 'G':
        move_cursor(model, SIZE_MAX, false);
        break;
    }
    return BROWSE_STAYS;
}

static int model_look(struct browse_model *model, uint32_t key, struct base_error *error)
{
    switch (key) {
    case '1':
        return show_flat(model, error);
    case '2':
        return show_view(model, BROWSE_TREE, error);
    case BROWSE_KEY_ENTER:
        return model->view == BROWSE_HELP ? open_previous_place(model, error) : model_enter(model, error);
    case BROWSE_KEY_BACKSPACE:
    case BROWSE_KEY_ESCAPE:
    case 'b':
        return open_previous_place(model, error);
    case BROWSE_KEY_RIGHT:
    case '+':
        return model_fold(model, true, error);
    case BROWSE_KEY_LEFT:
    case '-':
        return model_fold(model, false, error);
    case '*':
        return unfold_all(model, error);
    case 'n':
    case 'N':
        return search_view(model, key == 'n', error);
    case 'c':
        return next_counter(model, error);
    case 'i':
        return toggle_inlines(model, error);
    case '?':
        return toggle_help(model, error);
    default:
        return model_move(model, key);
    }
}

int browse_model_key(struct browse_model *model, uint32_t key, struct base_error *error)
{
    model->message[0] = '\0';
    if (model->typing)
        return handle_typed_key(model, key, error);
    if (key == 'q')
        return BROWSE_QUITS;
    if (key == 'a' && current_row(model))
        return BROWSE_ANNOTATES;
    if (key == '/') {
        model->typing = true;
        base_text_clear(&model->typed);
        model->typed.failed = false;
        return BROWSE_STAYS;
    }
    return model_look(model, key, error);
}

/* --- life --- */

int browse_model_open(struct browse_model *model, const struct profile *profile, const char *file,
                      const char *counter, bool ascii, struct base_error *error)
{
    *model =
        (struct browse_model){.profile = profile, .file = file, .ascii = ascii, .columns = 80, .lines = 24};
    int code = open_data(model, counter, false, error);
    if (!code)
        code = make_rows(model, error);
    if (code)
        browse_model_close(model);
    return code;
}

void browse_model_close(struct browse_model *model)
{
    browse_data_close(&model->data);
    free(model->rows);
    free(model->expanded);
    free(model->history);
    base_text_free(&model->typed);
    base_text_free(&model->wanted);
    *model = (struct browse_model){0};
}
