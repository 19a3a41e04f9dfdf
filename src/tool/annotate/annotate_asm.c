/* annotate_asm.c - the instructions of a function in the order of their addresses, each run of them
 * under the line of source that it came from, with arrows for jumps and the number of the loop it lies in.
 *
 * Rows are made first: which instructions are shown (of a long function those near the ones that count), the
 * lines above them, the gaps; then arrows are laid over the rows. Without the file, the rows are the
 * addresses that have samples. */
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotate_arrows.h"
#include "annotate_columns.h"
#include "annotate_parts.h"
#include "base_array.h"
#include "code_disassembly.h"
#include "view_style.h"
#include "view_text.h"

enum { WHOLE_MOST = 120, AROUND_FACTOR = 2, LOOP = 5, CALLEES = 3, NAME_MOST = 120, NAME = 28 };

enum row_kind { ROW_INSTRUCTION, ROW_SOURCE, ROW_GAP, ROW_ADDRESS };

struct row {
    enum row_kind kind;
    uint32_t index; /* instruction; of ROW_ADDRESS: position in annotate->addresses */
    uint32_t count; /* of ROW_GAP: instructions left out from index on */
};

struct listing {
    struct annotate *annotate;
    struct code_disassembly *disassembly;
    struct row *rows;
    size_t row_count, row_capacity;
    struct annotate_arrow *arrows;
    size_t arrow_count, arrow_capacity;
    unsigned lanes, address_digits;
    bool failed;
};

/* --- names of targets --- */

/* The callee's name; inside of this function only the address: the arrow shows the rest. */
static void name_target(void *context, uint64_t target, char *text, size_t size)
{
    struct annotate *annotate = context;
    struct symbol_function function;
    bool own = target >= annotate->subject.start && target < annotate->subject.end;
    if (own || !annotate->binary.symbols ||
        !symbol_file_function(annotate->binary.symbols, target, &function)) {
        snprintf(text, size, "%" PRIx64, target);
        return;
    }
    struct base_text name = {0};
    annotate_name(annotate, function.name, NAME, &name);
    if (function.start == target)
        snprintf(text, size, "%s", base_text_string(&name));
    else
        snprintf(text, size, "%.*s+0x%" PRIx64, NAME_MOST, base_text_string(&name), target - function.start);
    base_text_free(&name);
}

/* What memory relative to the instruction is: its address, and whose: a slot's, or a function's. */
static void add_comment(struct annotate *annotate, const struct code_instruction *at, struct base_text *out)
{
    struct symbol_function function;
    if (!at->rip_relative)
        return;
    base_text_addf(out, "  # %" PRIx64, at->memory);
    const char *slot = annotate_binary_slot(&annotate->binary, at->memory);
    if (slot)
        base_text_addf(out, " %s", slot);
    else if (symbol_file_function(annotate->binary.symbols, at->memory, &function) &&
             function.start == at->memory) {
        base_text_add(out, " ");
        annotate_name(annotate, function.name, NAME, out);
    }
}

void annotate_instruction(struct annotate *annotate, struct code_disassembly *disassembly, size_t number,
                          struct base_text *out)
{
    const struct code_instruction *at = &annotate->code.instructions.items[number];
    char text[2 * CODE_DISASSEMBLY_MAX];
    size_t available;
    const uint8_t *bytes = code_text_at(&annotate->binary.memory, at->address, &available);
    if (!bytes)
        return;
    const struct code_disassembly_source source = {bytes, available < at->length ? available : at->length,
                                                   at->address, name_target, annotate};
    code_disassembly_text(disassembly, &source, text, sizeof text);
    base_text_add(out, text);
    add_comment(annotate, at, out);
}

/* --- exact calls at an instruction --- */

struct callee {
    const char *name;
    uint64_t calls;
};

static void note_callee(struct callee *callees, size_t *count, const char *name, uint64_t calls)
{
    size_t i = 0;
    while (i < *count && strcmp(callees[i].name, name))
        i++;
    if (i == *count && *count < CALLEES + 1)
        callees[(*count)++] = (struct callee){name, 0};
    if (i > CALLEES) /* the last stands for all further ones */
        i = CALLEES;
    callees[i].calls += calls;
    for (; i > 0 && i < CALLEES && callees[i].calls > callees[i - 1].calls; i--) {
        struct callee swap = callees[i];
        callees[i] = callees[i - 1];
        callees[i - 1] = swap;
    }
}

/* Of a direct call the instruction says as much. */
static void add_callees(const struct annotate *annotate, uint32_t place, bool direct, struct base_text *out)
{
    const struct profile *profile = annotate->context->profile;
    struct callee callees[CALLEES + 1];
    size_t count = 0;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        size_t places;
        const uint32_t *run = annotate_places_of(&annotate->places, edge->site, &places);
        if (annotate->context->selection.threads && !annotate->context->selection.threads[edge->thread])
            continue;
        for (size_t k = 0; k < places; k++) {
            const struct profile_address *callee = &profile->addresses[edge->callee];
            if (run[k] == place)
                note_callee(callees, &count, profile_text(profile, profile->functions[callee->function].name),
                            edge->calls);
        }
    }
    for (size_t i = 0; i < count && (!direct || count > 1); i++) {
        base_text_add(out, i ? ", " : "  ; ");
        base_text_add(out, i == CALLEES ? "others" : *callees[i].name ? callees[i].name : "[unknown]");
        base_text_add(out, " ");
        view_text_count(out, callees[i].calls);
    }
}

/* --- rows --- */

static void asm_add_row(struct listing *listing, enum row_kind kind, uint32_t index, uint32_t count)
{
    if (base_array_room(listing->rows, listing->row_count, listing->row_capacity))
        listing->rows[listing->row_count++] = (struct row){kind, index, count};
    else
        listing->failed = true;
}

/* Marks what is shown: everything of a short function, else what counts and some on both sides. */
static bool *asm_choose(const struct annotate *annotate)
{
    size_t count = annotate->code.instructions.count;
    uint64_t around = AROUND_FACTOR * annotate->request->around;
    bool *shown = calloc(count + 1, sizeof *shown);
    bool all = annotate->request->whole || count <= WHOLE_MOST;
    for (size_t i = 0; shown && i < count; i++) {
        if (!all && !annotate_counts(annotate, annotate_instruction_place(annotate, i)))
            continue;
        size_t from = i > around ? i - (size_t)around : 0;
        for (size_t k = all ? i : from; k < count && k <= i + (all ? 0 : around); k++)
            shown[k] = true;
    }
    return shown;
}

/* Is the innermost line of an instruction another than that of the one before it? */
static bool begins_line(const struct symbol_line *line, const struct symbol_line *last)
{
    bool same_file =
        line->file == last->file || (line->file && last->file && !strcmp(line->file, last->file));
    bool same_function = line->function == last->function ||
                         (line->function && last->function && !strcmp(line->function, last->function));
    return line->line && (line->line != last->line || !same_file || !same_function);
}

static void make_rows(struct listing *listing)
{
    struct annotate *annotate = listing->annotate;
    const struct code_instructions *all = &annotate->code.instructions;
    struct symbol_line levels[ANNOTATE_BINARY_LEVELS], last = {0};
    bool *shown = asm_choose(annotate);
    uint32_t hidden = 0;
    listing->failed |= !shown;
    for (uint32_t i = 0; shown && i < all->count; i++) {
        if (!shown[i]) {
            hidden++;
            continue;
        }
        if (hidden)
            asm_add_row(listing, ROW_GAP, i - hidden, hidden);
        size_t count = annotate_binary_lines(&annotate->binary, all->items[i].address, levels);
        if (count && begins_line(&levels[0], &last))
            asm_add_row(listing, ROW_SOURCE, i, 0);
        if (count)
            last = levels[0];
        hidden = 0;
        asm_add_row(listing, ROW_INSTRUCTION, i, 0);
    }
    if (hidden)
        asm_add_row(listing, ROW_GAP, (uint32_t)all->count - hidden, hidden);
    free(shown);
}

/* Without code: each address that has samples, once. */
static void make_address_rows(struct listing *listing)
{
    const struct annotate *annotate = listing->annotate;
    for (uint32_t i = 0; i < annotate->address_count; i++)
        asm_add_row(listing, ROW_ADDRESS, i, 0);
}

/* --- arrows --- */

static void add_arrow(struct listing *listing, uint32_t from, uint32_t to)
{
    if (base_array_room(listing->arrows, listing->arrow_count, listing->arrow_capacity))
        listing->arrows[listing->arrow_count++] = (struct annotate_arrow){from, to, 0};
    else
        listing->failed = true;
}

static void make_arrows(struct listing *listing)
{
    const struct code_instructions *all = &listing->annotate->code.instructions;
    uint32_t *row_of = calloc(all->count + 1, sizeof *row_of); /* by instruction: its row + 1 */
    bool ok = row_of != NULL;
    for (uint32_t i = 0; row_of && i < listing->row_count; i++)
        if (listing->rows[i].kind == ROW_INSTRUCTION)
            row_of[listing->rows[i].index] = i + 1;
    for (uint32_t i = 0; row_of && i < all->count; i++) {
        const struct code_instruction *at = &all->items[i];
        bool jumps = at->flow == CODE_JUMP || at->flow == CODE_BRANCH || at->flow == CODE_LOOP ||
                     at->flow == CODE_XBEGIN;
        size_t target = jumps ? code_instructions_find(all, at->target) : SIZE_MAX;
        if (target != SIZE_MAX && target != i && row_of[i] && row_of[target])
            add_arrow(listing, row_of[i] - 1, row_of[target] - 1);
    }
    if (ok)
        listing->lanes =
            annotate_arrows_place(listing->arrows, listing->arrow_count, ANNOTATE_ARROWS_LANES, &ok);
    listing->failed |= !ok;
    free(row_of);
}

/* --- printing --- */

static void print_arrows(const struct listing *listing, uint32_t row)
{
    const struct view_context *context = listing->annotate->context;
    annotate_arrows_row(listing->arrows, listing->arrow_count, listing->lanes, row, context->options->ascii,
                        context->out);
}

static unsigned used_width(const struct listing *listing)
{
    return annotate_width(listing->annotate) + LOOP + 1 + listing->lanes + 2;
}

static void print_loop_number(const struct listing *listing, uint32_t instruction)
{
    const struct annotate *annotate = listing->annotate;
    const struct annotate_code *code = &annotate->code;
    uint32_t block = code_graph_find(&code->graph, code->instructions.items[instruction].address);
    uint32_t loop = block == CODE_NONE ? CODE_NONE : code->loops.of[block];
    if (loop == CODE_NONE)
        base_text_addf(annotate->context->out, "%*s ", LOOP, "");
    else
        base_text_addf(annotate->context->out, "%*u ", LOOP, loop + 1);
}

static void print_instruction(struct listing *listing, uint32_t row)
{
    struct annotate *annotate = listing->annotate;
    struct base_text *out = annotate->context->out, text = {0};
    uint32_t number = listing->rows[row].index, place = annotate_instruction_place(annotate, number);
    bool hot = annotate_hot(annotate, place), color = annotate->context->options->color;
    view_style_begin(out, hot ? VIEW_BOLD : VIEW_PLAIN, color);
    annotate_columns(annotate, place, out);
    print_loop_number(listing, number);
    print_arrows(listing, row);
    base_text_addf(out, "%*" PRIx64 "  ", listing->address_digits,
                   annotate->code.instructions.items[number].address);
    annotate_instruction(annotate, listing->disassembly, number, &text);
    if (annotate_calls(annotate, place))
        add_callees(annotate, place, annotate->code.instructions.items[number].flow == CODE_CALL, &text);
    annotate_cut(annotate, base_text_string(&text), text.length,
                 used_width(listing) + listing->address_digits + 2, out);
    view_style_end(out, hot ? VIEW_BOLD : VIEW_PLAIN, color);
    base_text_add(out, "\n");
    out->failed |= text.failed;
    base_text_free(&text);
}

/* "stack.h:33 (push)  text" */
static void add_source(struct annotate *annotate, uint32_t instruction, struct base_text *text)
{
    struct symbol_line levels[ANNOTATE_BINARY_LEVELS];
    size_t count = annotate_binary_lines(&annotate->binary,
                                         annotate->code.instructions.items[instruction].address, levels);
    size_t length = 0;
    const char *source = NULL;
    if (!count)
        return;
    if (levels[0].file)
        source = annotate_source_line(&annotate->source, levels[0].file, levels[0].line, &length);
    base_text_addf(text, "%s:%u", levels[0].file ? annotate_base(levels[0].file) : "?", levels[0].line);
    if (levels[0].function) {
        base_text_add(text, " (");
        annotate_name(annotate, levels[0].function, NAME, text);
        base_text_add(text, ")");
    }
    while (length && (*source == ' ' || *source == '\t')) {
        source++;
        length--;
    }
    base_text_add(text, length ? "  " : "");
    base_text_add_bytes(text, source ? source : "", length);
}

/* Blank columns, the arrows that pass, and words. */
static void print_between(struct listing *listing, uint32_t row, const struct base_text *text)
{
    struct annotate *annotate = listing->annotate;
    struct base_text *out = annotate->context->out;
    base_text_add_repeated(out, ' ', annotate_width(annotate) + LOOP + 1);
    print_arrows(listing, row);
    view_style_begin(out, VIEW_DIM, annotate->context->options->color);
    annotate_cut(annotate, base_text_string(text), text->length, used_width(listing), out);
    view_style_end(out, VIEW_DIM, annotate->context->options->color);
    base_text_add(out, "\n");
    out->failed |= text->failed;
}

static void add_gap(const struct annotate *annotate, const struct row *row, struct base_text *text)
{
    const struct view_context *context = annotate->context;
    struct view_figure sum = {0, 0};
    for (uint32_t i = row->index; i < row->index + row->count; i++) {
        struct view_figure self = annotate_self(annotate, annotate_instruction_place(annotate, i));
        view_select_add(&context->selection, &sum, &self);
    }
    base_text_addf(text, "%s%u instruction%s", context->options->ascii ? "... " : "⋮ ", row->count,
                   row->count == 1 ? "" : "s");
    if (!sum.samples && !sum.value)
        return;
    base_text_add(text, " with ");
    view_text_share(text, &context->selection, &sum, context->options->ascii);
}

/* Of one address there is no place among the instructions: its figures are its nodes'. */
static void print_address(struct listing *listing, const struct row *row)
{
    struct annotate *annotate = listing->annotate;
    struct view_context *context = annotate->context;
    const struct profile *profile = context->profile;
    uint32_t index = annotate->addresses[row->index], line = annotate->line_of[row->index];
    uint32_t place = annotate_instruction_place(annotate, row->index);
    annotate_columns(annotate, place, context->out);
    base_text_addf(context->out, "  %*" PRIx64, listing->address_digits, profile->addresses[index].address);
    if (line)
        base_text_addf(context->out, "  %s:%u",
                       annotate_base(profile_text(profile, annotate->lines[line].file)),
                       annotate->lines[line].line);
    base_text_add(context->out, "\n");
}

static void print_rows(struct listing *listing)
{
    for (uint32_t i = 0; i < listing->row_count; i++) {
        const struct row *row = &listing->rows[i];
        struct base_text text = {0};
        switch (row->kind) {
        case ROW_INSTRUCTION:
            print_instruction(listing, i);
            break;
        case ROW_SOURCE:
            add_source(listing->annotate, row->index, &text);
            print_between(listing, i, &text);
            break;
        case ROW_GAP:
            add_gap(listing->annotate, row, &text);
            print_between(listing, i, &text);
            break;
        case ROW_ADDRESS:
            print_address(listing, row);
            break;
        }
        base_text_free(&text);
    }
}

static unsigned digits_of(uint64_t address)
{
    unsigned digits = 1;
    while (address >>= 4)
        digits++;
    return digits;
}

static void print_titles(const struct listing *listing)
{
    const struct annotate *annotate = listing->annotate;
    struct base_text *out = annotate->context->out;
    annotate_titles(annotate, out);
    if (annotate->code.instructions.count)
        base_text_addf(out, "%*s %*s%-*s  instruction\n", LOOP, "loop", (int)listing->lanes + 2, "",
                       listing->address_digits, "at");
    else
        base_text_addf(out, "  %s\n", "address");
}

int annotate_asm(struct annotate *annotate)
{
    struct view_context *context = annotate->context;
    struct listing listing = {.annotate = annotate, .address_digits = digits_of(annotate->subject.end)};
    const struct view_annotation *request = annotate->request;
    int code = 0;
    if (annotate->code.instructions.count) {
        code = code_disassembly_new(elf_image_machine(annotate->binary.elf),
                                    request->intel ? CODE_INTEL : CODE_ATT, &listing.disassembly,
                                    context->error);
        make_rows(&listing);
        make_arrows(&listing);
    } else {
        make_address_rows(&listing);
    }
    if (listing.failed)
        code = view_memory(context);
    if (!code) {
        print_titles(&listing);
        print_rows(&listing);
    }
    code_disassembly_free(listing.disassembly);
    free(listing.rows);
    free(listing.arrows);
    return code;
}
