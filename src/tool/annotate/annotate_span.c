#include "annotate_span.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"

struct chain { /* levels of source, the outermost first */
    struct symbol_line levels[ANNOTATE_BINARY_LEVELS];
    size_t count;
};

static void chain_at(struct annotate_binary *binary, uint64_t address, struct chain *chain)
{
    struct symbol_line found[ANNOTATE_BINARY_LEVELS];
    chain->count = annotate_binary_lines(binary, address, found);
    for (size_t i = 0; i < chain->count; i++)
        chain->levels[i] = found[chain->count - 1 - i];
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

/* How many levels from the outermost lie in the same calls: all but the last of them agree in their lines as
 * well. */
static size_t shared_levels(const struct chain *a, const struct chain *b, size_t most)
{
    size_t level = 0;
    while (level < most && level < a->count && level < b->count) {
        const struct symbol_line *x = &a->levels[level], *y = &b->levels[level];
        if (!same_text(x->function, y->function) || !same_text(x->file, y->file))
            return level;
        level++;
        if (x->line != y->line)
            return level;
    }
    return level;
}

static uint64_t last_address(const struct annotate_code *code, uint32_t block)
{
    const struct code_block *item = &code->graph.blocks[block];
    return code->instructions.items[item->first + item->count - 1].address;
}

/* --- the lines --- */

struct lines { /* of all its instructions, at the level in question */
    uint32_t *items;
    size_t count, capacity;
};

static int by_number(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* From the first to the last line, as far as they hang together with the header's: where a small function was
 * inlined, debug information often has a line of its file, but no word of the function. */
static void choose_lines(struct lines *lines, uint32_t header, struct annotate_span *span)
{
    enum { APART = 200 };
    size_t at = 0;
    if (!lines->count)
        return;
    qsort(lines->items, lines->count, sizeof *lines->items, by_number);
    while (at + 1 < lines->count && lines->items[at] < header)
        at++;
    size_t first = at, last = at;
    while (first > 0 && lines->items[first] - lines->items[first - 1] <= APART)
        first--;
    while (last + 1 < lines->count && lines->items[last + 1] - lines->items[last] <= APART)
        last++;
    span->first = lines->items[first];
    span->last = lines->items[last];
}

static void add_block(struct annotate_binary *binary, const struct annotate_code *code, uint32_t block,
                      const struct chain *header, size_t level, struct lines *lines)
{
    const struct code_block *item = &code->graph.blocks[block];
    struct chain chain;
    for (uint32_t i = item->first; level && i < item->first + item->count; i++) {
        if (code->instructions.items[i].marks & CODE_PADDING)
            continue;
        chain_at(binary, code->instructions.items[i].address, &chain);
        if (shared_levels(header, &chain, level) != level || !chain.levels[level - 1].line)
            continue;
        if (base_array_room(lines->items, lines->count, lines->capacity)) /* else one line less is known */
            lines->items[lines->count++] = chain.levels[level - 1].line;
    }
}

struct annotate_span annotate_span_of(struct annotate_binary *binary, const struct annotate_code *code,
                                      uint32_t loop)
{
    const struct code_loops *loops = &code->loops;
    const struct code_loop *item = &loops->items[loop];
    struct chain header, back;
    chain_at(binary, code->graph.blocks[item->header].start, &header);
    size_t level = header.count;
    for (uint32_t i = 0; i < item->back_count; i++) {
        chain_at(binary, last_address(code, loops->backs[item->first_back + i]), &back);
        size_t shared = shared_levels(&header, &back, level);
        level = shared ? shared : level; /* an instruction without a line tells nothing */
    }
    struct annotate_span span = {.start = UINT64_MAX};
    if (level) {
        span.function = header.levels[level - 1].function;
        span.file = header.levels[level - 1].file;
    }
    struct lines lines = {0};
    for (uint32_t block = 0; block < code->graph.block_count; block++) {
        const struct code_block *in = &code->graph.blocks[block];
        if (!code_loops_within(loops, loops->of[block], loop))
            continue;
        span.start = in->start < span.start ? in->start : span.start;
        span.end = in->end > span.end ? in->end : span.end;
        add_block(binary, code, block, &header, level, &lines);
    }
    choose_lines(&lines, level ? header.levels[level - 1].line : 0, &span);
    free(lines.items);
    return span;
}

void annotate_span_text(const struct annotate_span *span, struct base_text *out)
{
    const char *slash = span->file ? strrchr(span->file, '/') : NULL;
    if (!span->file || !span->first) {
        base_text_addf(out, "0x%llx-0x%llx", (unsigned long long)span->start, (unsigned long long)span->end);
        return;
    }
    base_text_addf(out, "%s:%u", slash ? slash + 1 : span->file, span->first);
    if (span->last > span->first)
        base_text_addf(out, "-%u", span->last);
}
