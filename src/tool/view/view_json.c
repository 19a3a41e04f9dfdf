#include "view_json.h"

void view_json_figure(struct view_context *context, const char *key, const struct view_figure *figure)
{
    struct base_json *json = context->json;
    base_json_begin(json, key, '{');
    base_json_integer(json, "value", figure->value);
    base_json_unsigned(json, "samples", figure->samples);
    if (!context->selection.peak) {
        struct view_share share = view_select_share(&context->selection, figure);
        base_json_number(json, "share", share.share);
        if (!context->selection.exact) {
            base_json_number(json, "low", share.low);
            base_json_number(json, "high", share.high);
        }
    }
    base_json_end(json, '}');
}

void view_json_entity(struct view_context *context, const struct view_entities *entities, uint32_t entity)
{
    const struct profile *profile = context->profile;
    const struct view_entity *item = &entities->items[entity];
    struct base_text name = {0};
    view_entity_name(entities, entity, &name);
    context->out->failed |= name.failed;
    base_json_string(context->json, "function", base_text_string(&name));
    base_text_free(&name);
    base_json_string(context->json, "image", item->image ? view_entity_image(entities, entity) : NULL);
    if (item->kind == VIEW_INLINED_FUNCTION)
        base_json_bool(context->json, "inlined", true);
    if (item->kind == VIEW_LINE) {
        base_json_string(context->json, "file", profile_text(profile, item->file));
        base_json_unsigned(context->json, "line", item->line);
    }
    if (item->kind == VIEW_ADDRESS)
        base_json_unsigned(context->json, "address", profile->addresses[item->address].address);
}

void view_json_thread(struct view_context *context, uint32_t index)
{
    const struct profile *profile = context->profile;
    const struct profile_thread *thread = &profile->threads[index];
    const struct profile_process *process = &profile->processes[thread->process];
    base_json_integer(context->json, "tid", thread->tid);
    base_json_string(context->json, "thread", profile_text(profile, thread->name));
    base_json_integer(context->json, "pid", process->pid);
    base_json_string(context->json, "process", profile_text(profile, process->name));
}

void view_json_below(struct view_context *context, const char *key, size_t rows,
                     const struct view_figure *sum)
{
    base_json_begin(context->json, key, '{');
    base_json_unsigned(context->json, "rows", rows);
    view_json_figure(context, "self", sum);
    base_json_end(context->json, '}');
}
