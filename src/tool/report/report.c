#include "report.h"

#include "profile_extent.h"
#include "report_descriptors.h"
#include "report_header.h"
#include "report_views.h"

enum { NARROWEST_TERMINAL = 40 };

/* ORDER enum view_kind. Those of other modules are missing. */
static report_view *const report_views[] = {
    [VIEW_FLAT] = report_flat,
    [VIEW_GRAPH] = report_graph,
    [VIEW_TREE] = report_tree,
    [VIEW_PATHS] = report_paths,
    [VIEW_LOSSES] = report_losses,
    [VIEW_EDGES] = report_edges,
    [VIEW_CANDIDATES] = report_candidates,
    [VIEW_LEAKS] = report_held,
    [VIEW_PEAK] = report_held,
    [VIEW_LATENCY] = report_latency,
    [VIEW_FDS] = report_descriptors,
};

static int report_text(struct view_context *context, report_view *view_function)
{
    enum view_kind view = context->options->view;
    if (context->options->header == VIEW_HEADER_SHORT)
        report_head(context);
    else
        report_header_full(context);
    if (context->options->header == VIEW_HEADER_ALONE)
        return 0;
    base_text_add(context->out, "\n");
    bool of_samples = view != VIEW_LOSSES && view != VIEW_EDGES && view != VIEW_LATENCY &&
                      !(view == VIEW_ANNOTATE && profile_extent_has_calls(context->profile));
    if (of_samples && report_header_nothing(context))
        return view == VIEW_FDS ? report_descriptors_list(context) : 0;
    return view_function(context);
}

static int report_object(struct view_context *context, report_view *view_function)
{
    struct base_json json = {.out = context->out, .lines = 2};
    context->json = &json;
    base_json_begin(&json, NULL, '{');
    report_json_recording(context);
    int code = view_function(context);
    base_json_end(&json, '}');
    return code;
}

int report_print_view(const struct profile *profile, const struct view_options *options, report_view *view,
                      struct base_text *out, struct base_error *error)
{
    struct view_context context = {.profile = profile, .options = options, .out = out, .error = error};
    size_t before = out->length;
    context.width =
        options->width && options->width < NARROWEST_TERMINAL ? NARROWEST_TERMINAL : options->width;
    int code = view_select(profile, options, &context.selection, error);
    if (code)
        return code;
    code = view_walk_prepare(profile, &context.selection, &context.nodes, error);
    if (!code)
        code = options->json ? report_object(&context, view) : report_text(&context, view);
    if (!code && out->failed)
        code = view_memory(&context);
    view_walk_free(&context.nodes);
    view_select_free(&context.selection);
    if (code && out->length > before) {
        out->length = before;
        out->data[before] = '\0';
    }
    return code;
}

int report_print(const struct profile *profile, const struct view_options *options, struct base_text *out,
                 struct base_error *error)
{
    return report_print_view(profile, options, report_views[options->view], out, error);
}
