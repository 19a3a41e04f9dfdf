/* report_descriptors.c - what was open at the end: the stacks that opened it, the most first, then every
 * descriptor with what it is. Also those that nobody here opened, so that each number of /proc/PID/fd is
 * accounted for. */
#include "report_descriptors.h"
#include "report_views.h"
#include "view_json.h"

#include <stdlib.h>
#include <string.h>

#include "base_map.h"
#include "view_merge.h"
#include "view_text.h"

enum { ROWS_MOST = 40 }; /* shown where no --limit says otherwise */

struct list {
    struct view_context *context;
    struct view_entities entities;
    const struct profile_descriptor **items;
    size_t count;
};

/* --- which --- */

/* By its process, and by image when who opened it lies in one. */
static bool descriptors_is_taken(const struct view_context *context, const bool *processes,
                                 const struct profile_descriptor *it)
{
    const struct profile *profile = context->profile;
    const bool *images = context->selection.images;
    return it->origin && processes[it->process] &&
           (!images || images[profile->addresses[profile->nodes[it->node].address].image]);
}

static int descriptors_rank(const struct profile_descriptor *it)
{
    return it->origin == PROFILE_DESCRIPTOR_OPENED ? 0 : it->origin == PROFILE_DESCRIPTOR_UNSEEN ? 1 : 2;
}

/* What was opened while it was recorded first, then what nobody saw; by process and number. */
static int by_rank(const void *a, const void *b)
{
    const struct profile_descriptor *x = *(const struct profile_descriptor *const *)a,
                                    *y = *(const struct profile_descriptor *const *)b;
    if (descriptors_rank(x) != descriptors_rank(y))
        return descriptors_rank(x) - descriptors_rank(y);
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int descriptors_gather(struct list *list)
{
    const struct profile *profile = list->context->profile;
    bool *processes = view_select_processes(&list->context->selection, profile);
    list->items = calloc(profile->descriptor_count + 1, sizeof *list->items);
    if (!processes || !list->items || !view_entity_init(&list->entities, profile, VIEW_DETAIL_FUNCTION)) {
        free(processes);
        return view_memory(list->context);
    }
    for (size_t i = 1; i < profile->descriptor_count; i++) {
        const struct profile_descriptor *it = &profile->descriptors[i];
        if (descriptors_is_taken(list->context, processes, it))
            list->items[list->count++] = it;
    }
    qsort(list->items, list->count, sizeof *list->items, by_rank);
    free(processes);
    return 0;
}

/* How many rows --limit leaves; `most` where it says nothing. */
static size_t shown_rows(const struct list *list, size_t most)
{
    const struct view_options *options = list->context->options;
    most = options->limit_rows ? options->limit_rows : options->limit_percent > 0 ? most : list->count;
    return most < list->count ? most : list->count;
}

/* --- text --- */

static bool is_runtime(const struct list *list, uint32_t entity)
{
    const char *image = view_entity_image(&list->entities, entity);
    return !strncmp(image, "libc.", 5) || !strncmp(image, "libc-", 5) || !strncmp(image, "ld-", 3);
}

/* Appends the function that opened it: the innermost that is not of the C library. */
static void add_opener(struct list *list, const struct profile_descriptor *it, struct base_text *out)
{
    const struct profile *profile = list->context->profile;
    uint32_t found = 0;
    for (uint32_t node = it->node; node; node = profile->nodes[node].parent) {
        size_t count;
        const uint32_t *chain = view_entity_chain(&list->entities, profile->nodes[node].address, &count);
        if (!count)
            break;
        if (!found || is_runtime(list, found))
            found = chain[0];
    }
    if (it->origin != PROFILE_DESCRIPTOR_OPENED)
        base_text_addf(out, "(%s)", profile_descriptor_origin_name(it->origin));
    else if (found)
        view_entity_name(&list->entities, found, out);
    else
        base_text_add(out, "(unknown)");
}

static void add_cell(struct view_table *table, struct base_text *text, bool ascii)
{
    table->failed |= text->failed;
    view_table_cell(table, base_text_string(text), ascii);
    base_text_clear(text);
}

static void descriptors_add_row(struct list *list, struct view_table *table,
                                const struct profile_descriptor *it)
{
    const struct profile *profile = list->context->profile;
    bool ascii = list->context->options->ascii;
    struct base_text text = {0};
    base_text_addf(&text, "%d", profile->processes[it->process].pid);
    add_cell(table, &text, ascii);
    base_text_addf(&text, "%u", it->number);
    add_cell(table, &text, ascii);
    view_table_cell(table, it->kind ? profile_text(profile, it->kind) : "?", ascii);
    if (it->origin == PROFILE_DESCRIPTOR_OPENED)
        view_text_time(&text, it->age_ns < INT64_MAX ? (int64_t)it->age_ns : INT64_MAX, ascii);
    add_cell(table, &text, ascii);
    add_opener(list, it, &text);
    add_cell(table, &text, ascii);
    view_table_cell(table, profile_text(profile, it->name), ascii);
    view_table_row(table, it->origin == PROFILE_DESCRIPTOR_OPENED ? VIEW_PLAIN : VIEW_DIM);
    base_text_free(&text);
}

/* "(12 more: 3 opened, 7 open before, 2 inherited)" */
static void descriptors_add_hidden(const struct list *list, size_t rows)
{
    static const char *const names[PROFILE_DESCRIPTOR_ORIGINS] = {"", "opened", "open before", "inherited",
                                                                  "opened unseen"};
    struct base_text *out = list->context->out;
    size_t counts[PROFILE_DESCRIPTOR_ORIGINS] = {0};
    const char *between = ":";
    for (size_t i = rows; i < list->count; i++)
        counts[list->items[i]->origin]++;
    if (rows == list->count)
        return;
    base_text_addf(out, "  (%zu more", list->count - rows);
    for (int i = 1; i < PROFILE_DESCRIPTOR_ORIGINS; i++)
        if (counts[i]) {
            base_text_addf(out, "%s %zu %s", between, counts[i], names[i]);
            between = ",";
        }
    base_text_add(out, ")\n");
}

static void descriptors_print_text(struct list *list)
{
    struct view_table table = {0};
    struct view_table_form form = view_form(list->context);
    size_t ours = 0;
    while (ours < list->count && descriptors_rank(list->items[ours]) < 2)
        ours++;
    size_t rows = shown_rows(list, ours < ROWS_MOST ? ours : ROWS_MOST);
    view_table_add_column(&table, "pid", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "fd", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "kind", VIEW_LEFT, VIEW_FIXED);
    view_table_add_column(&table, "age", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "opened by", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    view_table_add_column(&table, "what it is", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    for (size_t i = 0; i < rows; i++)
        descriptors_add_row(list, &table, list->items[i]);
    if (list->count)
        base_text_add(list->context->out, "\n");
    if (rows)
        view_table_print(&table, &form, list->context->out);
    descriptors_add_hidden(list, rows);
    view_table_free(&table);
}

/* --- JSON --- */

static void json_stack(struct list *list, uint32_t node)
{
    const struct profile *profile = list->context->profile;
    struct base_json *json = list->context->json;
    base_json_begin(json, NULL, '[');
    for (; node; node = profile->nodes[node].parent) {
        size_t count;
        const uint32_t *chain = view_entity_chain(&list->entities, profile->nodes[node].address, &count);
        base_json_begin(json, NULL, '{');
        if (count)
            view_json_entity(list->context, &list->entities, chain[0]);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
}

static void json_row(struct list *list, const struct profile_descriptor *it, uint32_t stack)
{
    const struct profile *profile = list->context->profile;
    const struct profile_process *process = &profile->processes[it->process];
    struct base_json *json = list->context->json;
    base_json_begin(json, NULL, '{');
    base_json_integer(json, "pid", process->pid);
    base_json_string(json, "process", profile_text(profile, process->name));
    base_json_unsigned(json, "number", it->number);
    base_json_string(json, "origin", profile_descriptor_origin_name(it->origin));
    base_json_string(json, "kind", it->kind ? profile_text(profile, it->kind) : NULL);
    base_json_string(json, "name", it->name ? profile_text(profile, it->name) : NULL);
    if (it->origin == PROFILE_DESCRIPTOR_OPENED) {
        base_json_unsigned(json, "opened_ns", it->opened_ns);
        base_json_unsigned(json, "age_ns", it->age_ns);
        base_json_unsigned(json, "stack", stack);
    }
    base_json_end(json, '}');
}

/* "stack" of a row is an index into "stacks", whose frames are innermost first. */
static int descriptors_print_json(struct list *list)
{
    struct base_json *json = list->context->json;
    size_t rows = shown_rows(list, list->count), stacks = 0;
    uint32_t *nodes = calloc(rows + 1, sizeof *nodes);
    struct base_map known = {0};
    bool room = nodes != NULL;
    base_json_begin(json, "descriptors", '[');
    for (size_t i = 0; room && i < rows; i++) {
        uint32_t node = list->items[i]->node, stack = base_map_find(&known, node);
        if (stack == BASE_MAP_NONE) {
            stack = (uint32_t)stacks;
            room = base_map_set(&known, node, stack);
            nodes[stacks++] = node;
        }
        json_row(list, list->items[i], stack);
    }
    base_json_end(json, ']');
    base_json_unsigned(json, "descriptors_hidden", list->count - rows);
    base_json_begin(json, "stacks", '[');
    for (size_t i = 0; room && i < stacks; i++)
        json_stack(list, nodes[i]);
    base_json_end(json, ']');
    base_map_free(&known);
    free(nodes);
    return room ? 0 : view_memory(list->context);
}

/* --- all --- */

int report_descriptors_list(struct view_context *context)
{
    struct list list = {.context = context};
    int code = descriptors_gather(&list);
    if (!code && context->json)
        code = descriptors_print_json(&list);
    else if (!code)
        descriptors_print_text(&list);
    view_entity_free(&list.entities);
    free(list.items);
    return code;
}

/* By node, how many were opened there; NULL: memory ran out. */
static struct view_figure *count_opened_descriptors(const struct view_context *context)
{
    const struct profile *profile = context->profile;
    struct view_selection selection = context->selection;
    struct view_figure *figures = calloc(profile->node_count + 1, sizeof *figures);
    selection.counter = (uint16_t)profile_counter_named(profile, "fd.used");
    for (size_t i = 0; figures && i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (view_select_takes(&selection, profile, cell))
            view_select_add(&selection, &figures[cell->node],
                            &(struct view_figure){cell->value, cell->samples});
    }
    return figures;
}

int report_descriptors(struct view_context *context)
{
    struct view_figure *figures = count_opened_descriptors(context);
    const struct view_beside beside[VIEW_BESIDE] = {{"opened", "opened", "descriptors", false, figures}};
    int code = figures ? report_paths_beside(context, beside, 1) : view_memory(context);
    free(figures);
    if (code)
        return code;
    return report_descriptors_list(context);
}
