#include "annotate_arrows.h"

#include <stdlib.h>

static uint32_t first_row(const struct annotate_arrow *arrow)
{
    return arrow->from < arrow->to ? arrow->from : arrow->to;
}

static uint32_t last_row(const struct annotate_arrow *arrow)
{
    return arrow->from < arrow->to ? arrow->to : arrow->from;
}

static int by_length(const void *left, const void *right, void *context)
{
    const struct annotate_arrow *arrows = context, *a = &arrows[*(const uint32_t *)left],
                                *b = &arrows[*(const uint32_t *)right];
    uint32_t x = last_row(a) - first_row(a), y = last_row(b) - first_row(b);
    if (x != y)
        return x < y ? -1 : 1;
    return (a > b) - (a < b);
}

static int by_first_row(const void *left, const void *right)
{
    const struct annotate_arrow *a = left, *b = right;
    if (first_row(a) != first_row(b))
        return first_row(a) < first_row(b) ? -1 : 1;
    if (last_row(a) != last_row(b))
        return last_row(a) < last_row(b) ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* The first lane in which nothing placed so far overlaps. */
static uint32_t free_lane(const struct annotate_arrow *arrows, const uint32_t *order, size_t placed,
                          const struct annotate_arrow *arrow, unsigned most)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < placed; i++) {
        const struct annotate_arrow *other = &arrows[order[i]];
        bool overlap = first_row(other) <= last_row(arrow) && first_row(arrow) <= last_row(other);
        if (overlap && other->lane != ANNOTATE_ARROWS_NONE)
            taken |= UINT64_C(1) << other->lane;
    }
    for (uint32_t lane = 0; lane < most; lane++)
        if (!(taken >> lane & 1))
            return lane;
    return ANNOTATE_ARROWS_NONE;
}

unsigned annotate_arrows_place(struct annotate_arrow *arrows, size_t count, unsigned most, bool *ok)
{
    unsigned lanes = 0;
    uint32_t *order = calloc(count + 1, sizeof *order);
    *ok = order != NULL;
    if (!order || !count) {
        free(order);
        return 0;
    }
    qsort(arrows, count, sizeof *arrows, by_first_row);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof *order, by_length, arrows);
    for (size_t i = 0; i < count; i++) {
        struct annotate_arrow *arrow = &arrows[order[i]];
        arrow->lane = free_lane(arrows, order, i, arrow, most < 64 ? most : 64);
        if (arrow->lane != ANNOTATE_ARROWS_NONE && arrow->lane + 1 > lanes)
            lanes = arrow->lane + 1;
    }
    free(order);
    return lanes;
}

/* --- drawing --- */

enum piece { BLANK, DOWN, TOP, BOTTOM, ACROSS, CROSSING, HEAD, PIECES };

static const char *piece_text(enum piece piece, bool ascii)
{
    static const char *const pieces[2][PIECES] = {{" ", "│", "╭", "╰", "─", "┼", "▶"},
                                                  {" ", "|", ",", "`", "-", "+", ">"}};
    return pieces[ascii][piece];
}

void annotate_arrows_row(const struct annotate_arrow *arrows, size_t count, unsigned lanes, uint32_t row,
                         bool ascii, struct base_text *out)
{
    enum piece pieces[64] = {BLANK};
    unsigned reach = 0; /* lanes inside of this one are crossed */
    bool head = false;
    for (size_t i = 0; i < count && first_row(&arrows[i]) <= row; i++) {
        const struct annotate_arrow *arrow = &arrows[i];
        if (arrow->lane == ANNOTATE_ARROWS_NONE || last_row(arrow) < row)
            continue;
        bool end = row == first_row(arrow) || row == last_row(arrow);
        pieces[arrow->lane] = !end ? DOWN : row == first_row(arrow) ? TOP : BOTTOM;
        if (end && arrow->lane + 1 > reach)
            reach = arrow->lane + 1;
        head |= row == arrow->to;
    }
    for (unsigned lane = lanes; lane-- > 0;) {
        enum piece piece = pieces[lane];
        if (reach && lane + 1 < reach)
            piece = piece == BLANK ? ACROSS : piece == DOWN ? CROSSING : piece;
        base_text_add(out, piece_text(piece, ascii));
    }
    base_text_add(out, piece_text(!reach ? BLANK : head ? HEAD : ACROSS, ascii));
    base_text_add(out, " ");
}
