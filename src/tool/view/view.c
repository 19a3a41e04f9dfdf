#include "view.h"

#include <string.h>

#include "base_utf8.h"
#include "base_wrap.h"
#include "view_text.h"

int view_memory(struct view_context *context)
{
    return base_fail(context->error, BASE_ENOMEM, "out of memory for the report");
}

bool view_below(const struct view_context *context, const struct view_figure *figure)
{
    double limit = context->options->limit_percent;
    return limit > 0 && 100 * view_select_share(&context->selection, figure).share < limit;
}

void view_below_text(const struct view_context *context, size_t count, const char *noun, const char *plural,
                     bool past, struct base_text *out)
{
    view_text_count(out, count);
    base_text_addf(out, " %s%s", past ? "more " : "", count == 1 ? noun : plural);
    if (past || context->options->limit_percent <= 0)
        return;
    base_text_add(out, " below ");
    view_text_percent(out, context->options->limit_percent);
    base_text_add(out, " %");
}

bool view_samples(const struct view_context *context)
{
    return !context->selection.exact;
}

void view_words(struct view_context *context, const struct base_text *words)
{
    struct base_text clean = {0};
    base_utf8_clean(&clean, base_text_string(words), context->options->ascii);
    base_wrap(context->out, base_text_string(&clean), 0, 0, context->width);
    base_text_add(context->out, "\n");
    context->out->failed |= words->failed | clean.failed;
    base_text_free(&clean);
}

struct view_table_form view_form(const struct view_context *context)
{
    return (struct view_table_form){.width = context->width,
                                    .indent = 2,
                                    .ascii = context->options->ascii,
                                    .color = context->options->color,
                                    .titles = true};
}

void view_share_cell(const struct view_context *context, struct view_table *table,
                     const struct view_figure *figure)
{
    struct base_text text = {0};
    view_text_share(&text, &context->selection, figure, context->options->ascii);
    table->failed |= text.failed;
    view_table_cell(table, base_text_string(&text), context->options->ascii);
    base_text_free(&text);
}

void view_count_cell(const struct view_context *context, struct view_table *table, uint64_t count)
{
    struct base_text text = {0};
    view_text_count(&text, count);
    table->failed |= text.failed;
    view_table_cell(table, base_text_string(&text), context->options->ascii);
    base_text_free(&text);
}

/* Bytes of a sentence that fit in `room` columns, up to a blank where there is one. Sentences here are
 * ASCII. */
static size_t line_of(const char *sentence, size_t room)
{
    size_t length = strlen(sentence);
    if (length <= room)
        return length;
    for (length = room; length > 0; length--)
        if (sentence[length] == ' ')
            return length;
    return room;
}

void view_sentence_rows(const struct view_context *context, struct view_table *table, unsigned before,
                        const char *first, const char *second, const char *sentence)
{
    size_t room = context->width ? context->width - before : SIZE_MAX;
    struct base_text clean = {0}, text = {0};
    base_utf8_clean(&clean, sentence, context->options->ascii);
    sentence = base_text_string(&clean);
    for (bool begun = false; !begun || *sentence; begun = true) {
        size_t length = line_of(sentence, room);
        base_text_clear(&text);
        base_text_add_bytes(&text, sentence, length);
        sentence += length;
        sentence += strspn(sentence, " ");
        view_table_cell(table, begun ? NULL : first, context->options->ascii);
        view_table_cell(table, begun ? NULL : second, context->options->ascii);
        view_table_cell(table, base_text_string(&text), context->options->ascii);
        view_table_row(table, VIEW_PLAIN);
    }
    table->failed |= text.failed | clean.failed;
    base_text_free(&clean);
    base_text_free(&text);
}

void view_name_cell(const struct view_context *context, struct view_table *table,
                    const struct view_entities *entities, uint32_t entity, bool mark_inlined)
{
    struct base_text text = {0};
    bool inlined = mark_inlined && view_entity_inlined(entities, entity);
    view_entity_name(entities, entity, &text);
    table->failed |= text.failed;
    view_table_cell_tail(table, base_text_string(&text), inlined ? " (inlined)" : "",
                         context->options->ascii);
    base_text_free(&text);
}

void view_image_cell(const struct view_context *context, struct view_table *table,
                     const struct view_entities *entities, uint32_t entity)
{
    view_table_cell(table, view_entity_image(entities, entity), context->options->ascii);
}

const char *view_unknown_caller(const struct view_entities *entities, uint32_t caller)
{
    return entities->items[caller].kind == VIEW_UNKNOWN ? "(unknown caller)" : NULL;
}

int view_compare_names(const struct view_entities *entities, uint32_t a, uint32_t b)
{
    const struct profile *profile = entities->profile;
    const struct view_entity *x = &entities->items[a], *y = &entities->items[b];
    int order = strcmp(profile_text(profile, x->name), profile_text(profile, y->name));
    if (!order)
        order = strcmp(view_entity_image(entities, a), view_entity_image(entities, b));
    if (!order)
        order = strcmp(profile_text(profile, x->file), profile_text(profile, y->file));
    if (!order)
        order = (x->line > y->line) - (x->line < y->line);
    if (!order) {
        uint64_t p = profile->addresses[x->address].address, q = profile->addresses[y->address].address;
        order = (p > q) - (p < q);
    }
    return order ? order : (a > b) - (a < b);
}
