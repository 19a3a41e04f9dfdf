#include "code_text.h"

#include <stdlib.h>

static int piece_order(const void *left, const void *right)
{
    const struct code_piece *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* Loadable segments may overlap in hostile files: the one that begins first keeps the place. */
static void cut_overlaps(struct code_text *text)
{
    size_t kept = 0;
    uint64_t end = 0;
    for (size_t i = 0; i < text->count; i++) {
        struct code_piece piece = text->pieces[i];
        uint64_t hidden = piece.address < end ? end - piece.address : 0;
        if (hidden >= piece.size)
            continue;
        piece.address += hidden;
        piece.bytes += hidden;
        piece.size -= hidden;
        end = piece.address + piece.size;
        text->pieces[kept++] = piece;
    }
    text->count = kept;
}

static int text_of(const struct elf_image *image, bool executable_only, struct code_text *text,
                   struct base_error *error)
{
    const struct elf_segment *segments;
    size_t available, count = elf_image_segments(image, &segments);
    *text = (struct code_text){NULL, 0};
    struct code_piece *pieces = calloc(count + 1, sizeof *pieces);
    if (pieces == NULL)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    text->pieces = pieces;
    for (size_t i = 0; i < count; i++) {
        const struct elf_segment *segment = &segments[i];
        bool wanted = segment->executable || !executable_only;
        const uint8_t *bytes = wanted ? elf_image_at(image, segment->address, &available) : NULL;
        if (bytes == NULL)
            continue;
        uint64_t size = available < segment->file_size ? available : segment->file_size;
        if (size > UINT64_MAX - segment->address)
            size = UINT64_MAX - segment->address;
        pieces[text->count++] = (struct code_piece){segment->address, bytes, (size_t)size};
    }
    qsort(pieces, text->count, sizeof *pieces, piece_order);
    cut_overlaps(text);
    return BASE_OK;
}

int code_text_of_image(const struct elf_image *image, struct code_text *text, struct base_error *error)
{
    return text_of(image, true, text, error);
}

int code_text_of_loads(const struct elf_image *image, struct code_text *text, struct base_error *error)
{
    return text_of(image, false, text, error);
}

void code_text_free(struct code_text *text)
{
    free(text->pieces);
    *text = (struct code_text){NULL, 0};
}

const uint8_t *code_text_at(const struct code_text *text, uint64_t address, size_t *available)
{
    for (size_t i = 0; i < text->count; i++) {
        const struct code_piece *piece = &text->pieces[i];
        if (address >= piece->address && address - piece->address < piece->size) {
            *available = piece->size - (size_t)(address - piece->address);
            return piece->bytes + (address - piece->address);
        }
    }
    *available = 0;
    return NULL;
}
