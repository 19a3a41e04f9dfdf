/* report_tree.c - the calling-context tree, cold branches folded.
 *
 * A function with several callees branches: each callee stands behind a connector, one unit (two columns)
 * further right. The only callee stands straight below its caller instead, without a connector, so that
 * the long unbranched chains of real programs do not run off the right edge:
 *
 *     main                  main calls work, work calls sort and hash
 *     work
 *     ├ sort
 *     │ compare             sort calls only compare
 *     └ hash
 *
 * What is folded beside an only callee hangs off a connector just below the caller. Very deep branching
 * keeps its innermost units and says how many are left out: "…17 │ ├ name". A function that calls only
 * itself is one line: "name (37 deep)". The walk keeps its own stack: the depth of a tree is up to an
 * untrusted file. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_utf8.h"
#include "report_views.h"
#include "view_json.h"
#include "view_merge.h"
#include "view_style.h"
#include "view_text.h"

enum connector { NO_CONNECTOR, BRANCH, LAST };
enum { UNIT = 2, MARGIN = 2, GAP = 2, NARROWEST_NAME = 20 };

struct item {
    uint32_t branch;   /* of a fold: the parent */
    uint32_t units;    /* where the text begins */
    uint8_t connector; /* enum connector, in the unit before the text */
    bool fold;
};

struct tree {
    struct view_merge merge;
    bool *shown; /* by branch: within the limits */
    bool past;   /* --limit N hid some */
    struct item *items;
    size_t item_count, item_capacity;
    bool *open; /* by unit: a line goes on below */
    size_t open_count, open_capacity;
    unsigned figure_width,
        room; /* columns: of a share; from the tree's edge to the terminal's (0: unlimited) */
};

/* --- what is shown --- */

static int tree_by_total(const void *a, const void *b, void *context)
{
    const struct view_branch *branches = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (branches[i].total.value != branches[j].total.value)
        return branches[i].total.value > branches[j].total.value ? -1 : 1;
    if (branches[i].depth != branches[j].depth)
        return branches[i].depth < branches[j].depth ? -1 : 1;
    return (i > j) - (i < j);
}

/* The hottest; a parent is never colder than its child, nor later in this order. */
static int tree_choose(struct tree *tree)
{
    struct view_context *context = tree->merge.context;
    size_t count = tree->merge.count, limit = context->options->limit_rows;
    uint32_t *order = calloc(count + 1, sizeof *order);
    tree->shown = calloc(count + 1, sizeof *tree->shown);
    if (!order || !tree->shown) {
        free(order);
        return view_memory(context);
    }
    for (size_t i = 1; i < count; i++)
        order[i - 1] = (uint32_t)i;
    if (limit)
        qsort_r(order, count - 1, sizeof *order, tree_by_total, tree->merge.branches);
    for (size_t i = 0; i + 1 < count; i++) {
        bool below = view_below(context, &tree->merge.branches[order[i]].total);
        tree->shown[order[i]] = !below && (!limit || i < limit);
        tree->past |= !below && limit && i >= limit;
    }
    free(order);
    return 0;
}

struct children {
    size_t shown, folded;
    uint32_t only; /* the last one that is shown */
    struct view_figure cold;
};

static struct children tree_look(const struct tree *tree, uint32_t branch)
{
    const struct view_merge *merge = &tree->merge;
    struct children children = {0};
    for (uint32_t i = merge->first[branch]; i < merge->first[branch + 1]; i++) {
        uint32_t child = merge->children[i];
        if (tree->shown[child]) {
            children.shown++;
            children.only = child;
        } else {
            children.folded++;
            view_select_add(&merge->context->selection, &children.cold, &merge->branches[child].total);
        }
    }
    return children;
}

/* --- the stack --- */

static bool tree_push(struct tree *tree, struct item item)
{
    if (!base_array_room(tree->items, tree->item_count, tree->item_capacity))
        return false;
    tree->items[tree->item_count++] = item;
    return true;
}

/* Children of a branch whose text begins at `units`; the last pushed is printed first. */
static bool push_children(struct tree *tree, uint32_t branch, uint32_t units)
{
    const struct view_merge *merge = &tree->merge;
    struct children children = tree_look(tree, branch);
    struct item fold = {branch, units + 1, LAST, true};
    if (children.shown == 1) {
        fold.connector = BRANCH;
        return tree_push(tree, (struct item){children.only, units, NO_CONNECTOR, false}) &&
               (!children.folded || tree_push(tree, fold));
    }
    if (children.folded && !tree_push(tree, fold))
        return false;
    bool last = !children.folded;
    for (uint32_t i = merge->first[branch + 1]; i-- > merge->first[branch];) {
        uint32_t child = merge->children[i];
        if (!tree->shown[child])
            continue;
        if (!tree_push(tree, (struct item){child, units + 1, last ? LAST : BRANCH, false}))
            return false;
        last = false;
    }
    return true;
}

/* --- lines --- */

static bool set_open(struct tree *tree, uint32_t unit, bool open)
{
    while (tree->open_count <= unit) {
        if (!base_array_room(tree->open, tree->open_count, tree->open_capacity))
            return false;
        tree->open[tree->open_count++] = false;
    }
    tree->open[unit] = open;
    return true;
}

/* The lines and the connector before a text; appends and returns their columns. */
static unsigned add_prefix(struct tree *tree, const struct item *item, struct base_text *out)
{
    static const char *const drawn[] = {"  ", "│ ", "├ ", "└ "}, *const plain[] = {"  ", "| ", "+ ", "` "};
    const char *const *parts = tree->merge.context->options->ascii ? plain : drawn;
    uint32_t first = 0, last = item->units - (item->connector ? 1 : 0);
    size_t before = out->length;
    unsigned most = tree->room / 2 / UNIT;
    if (tree->room && item->units > most) {
        first = item->units - (most > 4 ? most - 3 : 1);
        base_text_addf(out, "%s%u ", tree->merge.context->options->ascii ? ".." : "…", first);
    }
    for (uint32_t unit = first; unit < last; unit++)
        base_text_add(out, parts[tree->open_count > unit && tree->open[unit]]);
    if (item->connector)
        base_text_add(out, parts[item->connector == BRANCH ? 2 : 3]);
    return out->failed ? 0 : base_utf8_width(out->data + before);
}

static void tree_add_figure(const struct tree *tree, const struct view_figure *figure, struct base_text *out)
{
    struct base_text text = {0};
    view_text_share(&text, &tree->merge.context->selection, figure, tree->merge.context->options->ascii);
    unsigned width = base_utf8_width(base_text_string(&text));
    base_text_add_repeated(out, ' ', tree->figure_width > width ? tree->figure_width - width : 0);
    base_text_add(out, base_text_string(&text));
    base_text_add_repeated(out, ' ', GAP);
    out->failed |= text.failed;
    base_text_free(&text);
}

/* `tail` stays whole, the name gives way. */
static void tree_add_line(struct tree *tree, const struct item *item, const struct view_figure *self,
                          const struct view_figure *total, const char *name, const char *tail)
{
    struct view_context *context = tree->merge.context;
    struct base_text *out = context->out;
    enum view_style style = item->fold ? VIEW_DIM : VIEW_PLAIN;
    view_style_begin(out, style, context->options->color);
    base_text_add_repeated(out, ' ', MARGIN);
    tree_add_figure(tree, total, out);
    if (self)
        tree_add_figure(tree, self, out);
    else
        base_text_add_repeated(out, ' ', tree->figure_width + GAP);
    unsigned taken = add_prefix(tree, item, out) + base_utf8_width(tail), limit = 0;
    if (tree->room)
        limit = tree->room > taken + NARROWEST_NAME ? tree->room - taken : NARROWEST_NAME;
    view_text_fit_name(out, name, limit, context->options->ascii);
    base_text_add(out, tail);
    view_style_end(out, style, context->options->color);
    base_text_add(out, "\n");
}

/* A function and, as long as it calls nothing but itself, its recursion. Returns the innermost branch of
 * it. */
static uint32_t gather_recursion(const struct tree *tree, uint32_t branch, struct view_figure *self,
                                 uint32_t *deep)
{
    const struct view_branch *branches = tree->merge.branches;
    *self = branches[branch].self;
    for (*deep = 1;; ++*deep) {
        struct children children = tree_look(tree, branch);
        if (children.shown != 1 || children.folded ||
            branches[children.only].entity != branches[branch].entity)
            return branch;
        branch = children.only;
        view_select_add(&tree->merge.context->selection, self, &branches[branch].self);
    }
}

static void name_branch(const struct tree *tree, uint32_t branch, struct base_text *name)
{
    struct base_text raw = {0};
    view_entity_name(&tree->merge.entities, tree->merge.branches[branch].entity, &raw);
    base_utf8_clean(name, base_text_string(&raw), tree->merge.context->options->ascii);
    name->failed |= raw.failed;
    base_text_free(&raw);
}

static bool print_branch(struct tree *tree, const struct item *item)
{
    const struct view_branch *branch = &tree->merge.branches[item->branch];
    struct base_text name = {0}, tail = {0};
    struct view_figure self;
    uint32_t deep, innermost = gather_recursion(tree, item->branch, &self, &deep);
    name_branch(tree, item->branch, &name);
    if (deep > 1)
        base_text_addf(&tail, " (%u deep)", deep);
    if (view_entity_inlined(&tree->merge.entities, branch->entity))
        base_text_add(&tail, " (inlined)");
    tree_add_line(tree, item, &self, &branch->total, base_text_string(&name), base_text_string(&tail));
    bool done = !name.failed && !tail.failed && push_children(tree, innermost, item->units);
    base_text_free(&name);
    base_text_free(&tail);
    return done;
}

static bool print_fold(struct tree *tree, const struct item *item)
{
    struct view_context *context = tree->merge.context;
    struct children children = tree_look(tree, item->branch);
    struct base_text text = {0};
    base_text_add(&text, "(");
    view_below_text(context, children.folded, "branch", "branches", tree->past, &text);
    base_text_add(&text, ")");
    tree_add_line(tree, item, NULL, &children.cold, "", base_text_string(&text));
    bool done = !text.failed;
    base_text_free(&text);
    return done;
}

static void print_titles(struct tree *tree)
{
    struct view_context *context = tree->merge.context;
    bool color = context->options->color;
    view_style_begin(context->out, VIEW_BOLD, color);
    base_text_addf(context->out, "%*s%-*s%-*sfunction", MARGIN, "", (int)tree->figure_width + GAP, "total",
                   (int)tree->figure_width + GAP, "self");
    view_style_end(context->out, VIEW_BOLD, color);
    base_text_add(context->out, "\n");
}

/* As wide as any share gets; of a peak, as any value; of an exact counter, as both. */
static void tree_measure(struct tree *tree)
{
    const struct view_context *context = tree->merge.context;
    struct base_text text = {0};
    view_text_share(&text, &context->selection, &context->selection.taken, context->options->ascii);
    unsigned width = base_utf8_width(base_text_string(&text));
    unsigned least = context->selection.peak ? 8 : context->selection.exact ? 16 : 0;
    tree->figure_width = width < least ? least : width;
    unsigned left = MARGIN + 2 * (tree->figure_width + GAP);
    if (context->width)
        tree->room = context->width > left + NARROWEST_NAME ? context->width - left : NARROWEST_NAME;
    context->out->failed |= text.failed;
    base_text_free(&text);
}

static int tree_print_text(struct tree *tree)
{
    tree_measure(tree);
    print_titles(tree);
    bool going = push_children(tree, 0, 0);
    while (going && tree->item_count) {
        struct item item = tree->items[--tree->item_count];
        if (item.connector)
            going = set_open(tree, item.units - 1, item.connector == BRANCH);
        if (going)
            going = item.fold ? print_fold(tree, &item) : print_branch(tree, &item);
    }
    return going ? 0 : view_memory(tree->merge.context);
}

/* --- JSON: one flat list, parents first, since nesting as deep as a stack breaks readers --- */

static void json_branch(struct tree *tree, uint32_t index)
{
    struct view_context *context = tree->merge.context;
    const struct view_branch *branch = &tree->merge.branches[index];
    struct children children = tree_look(tree, index);
    base_json_begin(context->json, NULL, '{');
    base_json_unsigned(context->json, "id", index);
    base_json_unsigned(context->json, "parent", branch->parent);
    base_json_unsigned(context->json, "depth", branch->depth);
    view_json_entity(context, &tree->merge.entities, branch->entity);
    view_json_figure(context, "self", &branch->self);
    view_json_figure(context, "total", &branch->total);
    if (children.folded) {
        base_json_unsigned(context->json, "folded_branches", children.folded);
        view_json_figure(context, "folded", &children.cold);
    }
    base_json_end(context->json, '}');
}

static int tree_print_json(struct tree *tree)
{
    bool going = push_children(tree, 0, 0);
    base_json_begin(tree->merge.context->json, "rows", '[');
    while (going && tree->item_count) {
        struct item item = tree->items[--tree->item_count];
        if (item.fold)
            continue;
        json_branch(tree, item.branch);
        going = push_children(tree, item.branch, 0);
    }
    base_json_end(tree->merge.context->json, ']');
    return going ? 0 : view_memory(tree->merge.context);
}

int report_tree(struct view_context *context)
{
    struct tree tree = {0};
    int code = view_merge_build(context, &tree.merge);
    if (!code)
        code = tree_choose(&tree);
    if (!code)
        code = context->json ? tree_print_json(&tree) : tree_print_text(&tree);
    view_merge_free(&tree.merge);
    free(tree.shown);
    free(tree.items);
    free(tree.open);
    return code;
}
