#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "profile_model.h"

static bool bits_room(struct profile_marks *marks, uint32_t row)
{
    size_t needed = row / 8 + 1;
    if (needed <= marks->bytes)
        return true;
    size_t bytes = needed > marks->written / 8 + 1 ? needed : marks->written / 8 + 1;
    uint8_t *bits = realloc(marks->bits, bytes);
    if (!bits)
        return false;
    memset(bits + marks->bytes, 0, bytes - marks->bytes);
    marks->bits = bits;
    marks->bytes = bytes;
    return true;
}

void profile_marks_set(struct profile_marks *marks, uint32_t row)
{
    if (row >= marks->written || marks->all)
        return;
    if (!bits_room(marks, row) || !base_array_room(marks->changed, marks->count, marks->capacity)) {
        marks->all = true;
        return;
    }
    uint8_t bit = (uint8_t)(1u << row % 8);
    if (!(marks->bits[row / 8] & bit))
        marks->changed[marks->count++] = row;
    marks->bits[row / 8] |= bit;
}

void profile_marks_commit(struct profile_marks *marks, size_t rows)
{
    if (marks->all && marks->bits)
        memset(marks->bits, 0, marks->bytes);
    for (size_t i = 0; i < marks->count; i++)
        marks->bits[marks->changed[i] / 8] = 0;
    marks->count = 0;
    marks->all = false;
    marks->written = rows;
}

void profile_marks_free(struct profile_marks *marks)
{
    free(marks->changed);
    free(marks->bits);
    *marks = (struct profile_marks){0};
}
