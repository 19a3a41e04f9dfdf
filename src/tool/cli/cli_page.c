#include "cli_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotate.h"
#include "base_array.h"
#include "base_json.h"
#include "base_text.h"
#include "diff.h"

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory for the page");
}

/* Takes the text over. */
static int page_add(struct cli_page *page, const char *name, struct base_text *text, struct base_error *error)
{
    size_t length = text->length;
    char *bytes = text->failed ? NULL : base_text_detach(text), *copy = strdup(name);
    if (!bytes || !copy || !base_array_room(page->documents, page->count, page->capacity)) {
        base_text_free(text);
        free(bytes);
        free(copy);
        return no_memory(error);
    }
    page->documents[page->count++] = (struct export_document){copy, bytes, length};
    return BASE_OK;
}

void cli_page_free(struct cli_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        free((char *)(uintptr_t)page->documents[i].name);
        free((char *)(uintptr_t)page->documents[i].bytes);
    }
    free(page->documents);
    view_select_free(&page->part);
    profile_free(page->against);
    export_timeline_free(&page->timeline);
    *page = (struct cli_page){0};
}

/* A positive result: the report is there. 0: it makes no sense for this profile, which is no failure of the
 * page. */
static int add_report(struct cli_page *page, const char *name, const struct profile *profile,
                      const struct view_options *options, struct base_error *error)
{
    struct base_text text = {0};
    struct base_error why = {0};
    bool files = options->view == VIEW_LOOPS || options->view == VIEW_ANNOTATE;
    int code = (files ? annotate_print : report_print)(profile, options, &text, &why);
    if (code == BASE_ENOMEM)
        code = no_memory(error);
    else if (code >= 0)
        code = page_add(page, name, &text, error) < 0 ? BASE_ENOMEM : 1;
    else
        code = 0;
    base_text_free(&text);
    return code;
}

/* --- the hottest functions --- */

struct hot {
    uint32_t function;
    struct view_figure self;
};

static int hottest_first(const void *left, const void *right)
{
    const struct hot *a = left, *b = right;
    if (a->self.value != b->self.value)
        return a->self.value > b->self.value ? -1 : 1;
    return (a->function > b->function) - (a->function < b->function);
}

/* What each function has of its own; those without anything are left out. NULL when memory ran out. */
static struct hot *find_hot(const struct profile *profile, const struct view_selection *selection,
                            size_t *count)
{
    struct hot *list = calloc(profile->function_count + 1, sizeof *list);
    *count = 0;
    for (uint32_t i = 0; list && i < profile->function_count; i++)
        list[i].function = i;
    for (size_t i = 0; list && i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        uint32_t function = profile->addresses[profile->nodes[cell->node].address].function;
        if (function && view_select_takes(selection, profile, cell))
            view_select_add(selection, &list[function].self,
                            &(struct view_figure){cell->value, cell->samples});
    }
    for (uint32_t i = 0; list && i < profile->function_count; i++)
        if (list[i].self.value > 0)
            list[(*count)++] = list[i];
    if (list)
        qsort(list, *count, sizeof *list, hottest_first);
    return list;
}

/* What a page is made of. */
struct page_source {
    const struct profile *profile;
    const struct view_options *options;
    const struct cli_page_request *request;
};

/* By its address: names may be those of several. */
static int add_annotated(struct cli_page *page, struct base_json *index, const struct page_source *source,
                         uint32_t function, struct base_error *error)
{
    const struct profile *profile = source->profile;
    const struct cli_page_request *request = source->request;
    const struct profile_function *item = &profile->functions[function];
    const char *image = profile_text(profile, profile->images[item->image].name);
    char part[32];
    char *place = NULL;
    if (asprintf(&place, "%s+0x%llx", image, (unsigned long long)item->start) < 0)
        return no_memory(error);
    struct view_annotation annotation = {
        .function = place, .assembly = true, .maps = request->maps.items, .map_count = request->maps.count};
    struct view_options view = *source->options;
    view.view = VIEW_ANNOTATE;
    view.part.image = NULL;
    view.annotation = &annotation;
    snprintf(part, sizeof part, "annotate-%zu", page->count);
    int code = add_report(page, part, profile, &view, error);
    free(place);
    if (code > 0) {
        base_json_begin(index, NULL, '{');
        base_json_string(index, "name", profile_text(profile, item->name));
        base_json_string(index, "image", image);
        base_json_string(index, "part", part);
        base_json_end(index, '}');
    }
    return code;
}

static int annotate_hot(struct cli_page *page, const struct page_source *source, const struct hot *hot,
                        size_t count, struct base_error *error)
{
    struct base_text text = {0};
    struct base_json index = {.out = &text, .lines = 2};
    int code = 0;
    uint64_t wanted = source->request->annotated;
    size_t most = wanted == UINT64_MAX ? CLI_PAGE_ANNOTATED : (size_t)wanted;
    base_json_begin(&index, NULL, '{');
    base_json_begin(&index, "functions", '[');
    for (size_t i = 0, done = 0; code >= 0 && i < count && done < most; i++) {
        code = add_annotated(page, &index, source, hot[i].function, error);
        done += code > 0;
    }
    base_json_end(&index, ']');
    base_json_end(&index, '}');
    if (code >= 0)
        code = page_add(page, "annotated", &text, error);
    base_text_free(&text);
    return code < 0 ? code : BASE_OK;
}

static int add_hot(struct cli_page *page, const struct profile *profile, const struct view_options *options,
                   const struct cli_page_request *request, struct base_error *error)
{
    struct view_selection selection;
    struct base_error why = {0};
    if (view_select(profile, options, &selection, &why) < 0)
        return BASE_OK; /* no counter: nothing is hot */
    size_t count = 0;
    struct hot *hot = find_hot(profile, &selection, &count);
    int code = hot ? annotate_hot(page, &(struct page_source){profile, options, request}, hot, count, error)
                   : no_memory(error);
    free(hot);
    view_select_free(&selection);
    return code;
}

/* --- all of it --- */

static int add_difference(struct cli_page *page, const struct profile *profile,
                          const struct view_options *options, const struct cli_page_request *request,
                          struct base_error *error)
{
    const struct diff_run runs[] = {{page->against, request->against}, {profile, options->file}};
    struct diff_options view = {.view = DIFF_FUNCTIONS,
                                .counter = options->counter,
                                .part = options->part,
                                .fail_above = -1,
                                .json = true};
    struct base_text text = {0};
    int code = diff_print(&(struct diff_sides){runs, 2, 1}, &view, NULL, &text, error);
    if (code >= 0)
        code = page_add(page, "diff", &text, error);
    base_text_free(&text);
    return code;
}

/* The same part of the earlier profile, and what changed. */
static int add_against(struct cli_page *page, const struct profile *profile,
                       const struct view_options *options, const struct cli_page_request *request,
                       struct base_error *error)
{
    /* of all the time: the other profile has times of its own */
    const struct view_part part = {.overhead = options->part.overhead};
    const struct cli_profile_wanted wanted = {
        .lines = true, .debuginfod = options->debuginfod, .part = &part};
    int code = cli_profile_load(request->against, &wanted, &page->against, error);
    if (code < 0)
        return code;
    code = view_select(page->against, options, &page->part, error);
    if (code < 0)
        return base_fail_context(error, code, "%s", request->against);
    return add_difference(page, profile, options, request, error);
}

static int build_page(struct cli_page *page, const struct profile *profile,
                      const struct view_options *options, const struct cli_page_request *request,
                      struct base_error *error)
{
    struct view_options view = *options;
    view.json = true;
    view.view = VIEW_FLAT;
    int code = add_report(page, "flat", profile, &view, error);
    view.view = VIEW_LATENCY;
    if (code >= 0 && profile->latency_count > 1)
        code = add_report(page, "latency", profile, &view, error);
    view.view = VIEW_FDS;
    if (code >= 0 && profile->descriptor_count > 1)
        code = add_report(page, "fds", profile, &view, error);
    view.view = VIEW_LOSSES;
    if (code >= 0)
        code = add_report(page, "losses", profile, &view, error);
    if (code >= 0 && request->annotated)
        code = add_hot(page, profile, &view, request, error);
    return code >= 0 && request->against ? add_against(page, profile, options, request, error) : code;
}

int cli_page_build(struct cli_page *page, const struct profile *profile, const struct view_options *options,
                   const struct cli_page_request *request, struct export_options *export,
                   struct base_error *error)
{
    *page = (struct cli_page){0};
    int code = build_page(page, profile, options, request, error);
    if (code >= 0)
        code = export_timeline_read(&page->timeline, options->file, profile, export, EXPORT_TIMELINE_SLOTS,
                                    error);
    if (code < 0) {
        cli_page_free(page);
        return code;
    }
    export->documents = page->documents;
    export->document_count = page->count;
    export->against = page->against;
    export->against_file = request->against;
    export->against_part = (struct export_part){
        .threads = page->part.threads, .images = page->part.images, .cpus = page->part.cpus};
    export->against_counter = options->counter ? page->part.counter : 0;
    export->timeline = &page->timeline;
    return BASE_OK;
}
