/* annotate_json.c - the same for machines: everything, nothing shortened or left out. */
#include <string.h>

#include "annotate_columns.h"
#include "annotate_parts.h"
#include "annotate_span.h"
#include "code_disassembly.h"
#include "view_json.h"

static void json_figures(const struct annotate *annotate, uint32_t place)
{
    struct view_figure self = annotate_self(annotate, place), total = annotate_total(annotate, place);
    view_json_figure(annotate->context, "self", &self);
    view_json_figure(annotate->context, "total", &total);
    if (annotate->has_calls)
        base_json_unsigned(annotate->context->json, "calls", annotate_calls(annotate, place));
}

static void json_function(const struct annotate *annotate)
{
    const struct view_context *context = annotate->context;
    const struct profile *profile = context->profile;
    const struct annotate_subject *subject = &annotate->subject;
    struct base_json *json = context->json;
    base_json_begin(json, "function", '{');
    base_json_string(json, "name", profile_text(profile, profile->functions[subject->function].name));
    base_json_string(json, "image", profile_text(profile, profile->images[subject->image].name));
    base_json_unsigned(json, "start", subject->start);
    base_json_unsigned(json, "end", subject->end);
    base_json_string(json, "file", annotate->file);
    base_json_unsigned(json, "first_line", annotate->first);
    base_json_unsigned(json, "last_line", annotate->last);
    view_json_figure(annotate->context, "self", &subject->self);
    view_json_figure(annotate->context, "total", &subject->total);
    if (annotate->has_calls)
        base_json_unsigned(json, "calls", annotate->called);
    base_json_end(json, '}');
}

static void json_notes(const struct annotate *annotate)
{
    struct base_json *json = annotate->context->json;
    base_json_begin(json, "notes", '[');
    for (const char *at = base_text_string(&annotate->notes); *at;) {
        size_t length = strcspn(at, "\n");
        struct base_text line = {0};
        base_text_add_bytes(&line, at, length);
        base_json_string(json, NULL, base_text_string(&line));
        annotate->context->out->failed |= line.failed;
        base_text_free(&line);
        at += length + (at[length] != '\0');
    }
    base_json_end(json, ']');
}

static void json_source(struct annotate *annotate, const char *path, uint32_t number)
{
    struct base_text line = {0};
    size_t length;
    const char *text = *path ? annotate_source_line(&annotate->source, path, number, &length) : NULL;
    if (!text)
        return;
    base_text_add_bytes(&line, text, length);
    base_json_string(annotate->context->json, "text", base_text_string(&line));
    annotate->context->out->failed |= line.failed;
    base_text_free(&line);
}

/* The text of the function itself, from its first line to its last; empty where there is none. */
static void json_text(struct annotate *annotate)
{
    struct base_json *json = annotate->context->json;
    uint32_t count = annotate->file ? annotate_source_count(&annotate->source, annotate->file) : 0,
             last = annotate->last < count ? annotate->last : count;
    base_json_begin(json, "source", '[');
    for (uint32_t i = annotate->first; i && i <= last; i++) {
        struct base_text line = {0};
        size_t length = 0;
        const char *text = annotate_source_line(&annotate->source, annotate->file, i, &length);
        base_text_add_bytes(&line, text ? text : "", length);
        base_json_string(json, NULL, base_text_string(&line));
        annotate->context->out->failed |= line.failed;
        base_text_free(&line);
    }
    base_json_end(json, ']');
}

static void json_lines(struct annotate *annotate)
{
    const struct profile *profile = annotate->context->profile;
    struct base_json *json = annotate->context->json;
    base_json_begin(json, "lines", '[');
    for (uint32_t i = 1; i < annotate->line_count; i++) {
        const struct annotate_line *line = &annotate->lines[i];
        base_json_begin(json, NULL, '{');
        base_json_unsigned(json, "id", i);
        base_json_unsigned(json, "parent", line->parent);
        if (line->function)
            base_json_string(json, "inlined", profile_text(profile, line->function));
        base_json_string(json, "file", line->file ? profile_text(profile, line->file) : NULL);
        base_json_unsigned(json, "line", line->line);
        json_source(annotate, profile_text(profile, line->file), line->line);
        base_json_bool(json, "hot", annotate_hot(annotate, i));
        json_figures(annotate, i);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
}

static void json_loops(struct annotate *annotate)
{
    const struct code_loops *loops = &annotate->code.loops;
    struct base_json *json = annotate->context->json;
    base_json_begin(json, "loops", '[');
    for (uint32_t i = 0; i < loops->count; i++) {
        const struct code_loop *loop = &loops->items[i];
        struct annotate_span span = annotate_span_of(&annotate->binary, &annotate->code, i);
        base_json_begin(json, NULL, '{');
        base_json_unsigned(json, "id", i + 1);
        base_json_unsigned(json, "parent", loop->parent == CODE_NONE ? 0 : loop->parent + 1);
        base_json_unsigned(json, "depth", loop->depth);
        base_json_unsigned(json, "header", annotate->code.graph.blocks[loop->header].start);
        base_json_unsigned(json, "start", span.start);
        base_json_unsigned(json, "end", span.end);
        base_json_bool(json, "irreducible", loop->irreducible);
        if (span.function)
            base_json_string(json, "inlined", span.function);
        if (span.file && span.first) {
            base_json_string(json, "file", span.file);
            base_json_unsigned(json, "first_line", span.first);
            base_json_unsigned(json, "last_line", span.last);
        }
        json_figures(annotate, annotate_loop_place(annotate, i));
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
}

static void json_instruction(struct annotate *annotate, struct code_disassembly *disassembly, uint32_t number)
{
    const struct annotate_code *code = &annotate->code;
    const struct code_instruction *at = &code->instructions.items[number];
    struct base_json *json = annotate->context->json;
    uint32_t block = code_graph_find(&code->graph, at->address);
    uint32_t loop = block == CODE_NONE ? CODE_NONE : code->loops.of[block];
    struct symbol_line levels[ANNOTATE_BINARY_LEVELS];
    size_t count = annotate_binary_lines(&annotate->binary, at->address, levels);
    struct base_text text = {0};
    annotate_instruction(annotate, disassembly, number, &text);
    base_json_begin(json, NULL, '{');
    base_json_unsigned(json, "address", at->address);
    base_json_string(json, "text", base_text_string(&text));
    base_json_unsigned(json, "loop", loop == CODE_NONE ? 0 : loop + 1);
    if (count) {
        base_json_string(json, "file", levels[0].file);
        base_json_unsigned(json, "line", levels[0].line);
    }
    if (count && levels[0].function)
        base_json_string(json, "inlined", levels[0].function);
    json_figures(annotate, annotate_instruction_place(annotate, number));
    base_json_end(json, '}');
    annotate->context->out->failed |= text.failed;
    base_text_free(&text);
}

static int json_instructions(struct annotate *annotate)
{
    struct code_disassembly *disassembly = NULL;
    struct base_json *json = annotate->context->json;
    int code = 0;
    if (annotate->code.instructions.count)
        code = code_disassembly_new(elf_image_machine(annotate->binary.elf),
                                    annotate->request->intel ? CODE_INTEL : CODE_ATT, &disassembly,
                                    annotate->context->error);
    base_json_begin(json, "instructions", '[');
    for (uint32_t i = 0; !code && i < annotate->code.instructions.count; i++)
        json_instruction(annotate, disassembly, i);
    base_json_end(json, ']');
    code_disassembly_free(disassembly);
    return code;
}

int annotate_json(struct annotate *annotate)
{
    struct base_json *json = annotate->context->json;
    base_json_begin(json, "annotated", '{');
    json_function(annotate);
    json_notes(annotate);
    json_text(annotate);
    json_lines(annotate);
    json_loops(annotate);
    int code = annotate->request->assembly ? json_instructions(annotate) : 0;
    base_json_end(json, '}');
    return code;
}
