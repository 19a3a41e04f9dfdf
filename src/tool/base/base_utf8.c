#include "base_utf8.h"

struct range {
    uint32_t first, last;
};

static bool is_character_in_ranges(const struct range *ranges, size_t count, uint32_t character)
{
    for (size_t i = 0; i < count; i++)
        if (character >= ranges[i].first && character <= ranges[i].last)
            return true;
    return false;
}

/* Bytes that follow a lead byte, and the lead's own bits; 0 for no lead byte. */
static unsigned decode_lead_byte(unsigned char byte, uint32_t *bits)
{
    if (byte >= 0xc2 && byte <= 0xdf)
        return *bits = byte & 0x1f, 1;
    if (byte >= 0xe0 && byte <= 0xef)
        return *bits = byte & 0x0f, 2;
    if (byte >= 0xf0 && byte <= 0xf4)
        return *bits = byte & 0x07, 3;
    return 0;
}

uint32_t base_utf8_next(const char *text, size_t *length)
{
    static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text[0];
    uint32_t character;
    *length = 1;
    if (first < 0x80)
        return first;
    unsigned more = decode_lead_byte(first, &character);
    if (!more)
        return BASE_UTF8_INVALID;
    for (unsigned i = 1; i <= more; i++) {
        unsigned char byte = (unsigned char)text[i]; /* the terminator ends this too */
        if ((byte & 0xc0) != 0x80)
            return BASE_UTF8_INVALID;
        character = character << 6 | (byte & 0x3f);
    }
    if (character < smallest[more] || character > 0x10ffff || (character >= 0xd800 && character <= 0xdfff))
        return BASE_UTF8_INVALID;
    *length = more + 1;
    return character;
}

unsigned base_utf8_columns(uint32_t character)
{
    static const struct range none[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},
                                        {0x610, 0x61a},   {0x64b, 0x65f},   {0x1ab0, 0x1aff},
                                        {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x20d0, 0x20ff},
                                        {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};
    static const struct range two[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0xa4cf},
                                       {0xa960, 0xa97f},   {0xac00, 0xd7a3},  {0xf900, 0xfaff},
                                       {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6},
                                       {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
    if (character < 0x300 || character == BASE_UTF8_INVALID)
        return 1;
    if (is_character_in_ranges(none, sizeof none / sizeof *none, character))
        return 0;
    return is_character_in_ranges(two, sizeof two / sizeof *two, character) ? 2 : 1;
}

bool base_utf8_printable(uint32_t character)
{
    static const struct range odd[] = {{0, 0x1f},         {0x7f, 0x9f},     {0x200e, 0x200f},
                                       {0x2028, 0x202e},  {0x2066, 0x2069}, {0xfff9, 0xfffb},
                                       {0xe0000, 0xe007f}};
    return !is_character_in_ranges(odd, sizeof odd / sizeof *odd, character);
}

unsigned base_utf8_width(const char *text)
{
    unsigned width = 0;
    size_t length;
    for (; *text; text += length) {
        bool is_ascii = (unsigned char)*text < 0x80; /* most names are nothing else */
        length = 1;
        width += is_ascii ? 1 : base_utf8_columns(base_utf8_next(text, &length));
    }
    return width;
}

void base_utf8_escape(struct base_text *out, uint32_t character)
{
    base_text_addf(out, character < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)character);
}

/* How many printable ASCII characters a text begins with: most names are nothing else. */
static size_t count_ascii(const char *text)
{
    size_t length = 0;
    while (text[length] >= ' ' && text[length] <= '~')
        length++;
    return length;
}

void base_utf8_clean(struct base_text *out, const char *text, bool ascii)
{
    for (size_t length; *text; text += length) {
        length = count_ascii(text);
        if (length) {
            base_text_add_bytes(out, text, length);
            continue;
        }
        uint32_t character = base_utf8_next(text, &length);
        if (character == BASE_UTF8_INVALID || (character >= 0x80 && ascii))
            base_text_add(out, "?");
        else if (base_utf8_printable(character))
            base_text_add_bytes(out, text, length);
        else
            base_utf8_escape(out, character);
    }
}
