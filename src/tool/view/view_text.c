#include "view_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_utf8.h"

void view_text_exact(struct base_text *out, uint64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            base_text_add(out, ",");
        base_text_add_bytes(out, &digits[i], 1);
    }
}

void view_text_count(struct base_text *out, uint64_t count)
{
    if (count >= 10000000) {
        static const char scales[] = "MGTPE";
        double scaled = (double)count / 1e6;
        size_t scale = 0;
        for (; scaled >= 999.5 && scale + 2 < sizeof scales; scale++)
            scaled /= 1e3;
        base_text_addf(out, scaled < 99.95 ? "%.1f %c" : "%.0f %c", scaled, scales[scale]);
        return;
    }
    view_text_exact(out, count);
}

/* Three digits and a unit. */
static void add_scaled_number(struct base_text *out, double value, const char *unit)
{
    base_text_addf(out, value < 9.995 ? "%.2f %s" : value < 99.95 ? "%.1f %s" : "%.0f %s", value, unit);
}

void view_text_time(struct base_text *out, int64_t nanoseconds, bool ascii)
{
    double value = (double)nanoseconds;
    if (value < 0) {
        base_text_add(out, "-");
        value = -value;
    }
    long long seconds = (long long)(value / 1e9 + 0.5);
    if (value < 999.5)
        base_text_addf(out, "%.0f ns", value);
    else if (value < 999.5e3)
        add_scaled_number(out, value / 1e3, ascii ? "us" : "µs");
    else if (value < 999.5e6)
        add_scaled_number(out, value / 1e6, "ms");
    else if (value < 999.5e9)
        add_scaled_number(out, value / 1e9, "s");
    else if (seconds < 3600)
        base_text_addf(out, "%lld min %lld s", seconds / 60, seconds % 60);
    else
        base_text_addf(out, "%lld h %02lld min", seconds / 3600, seconds / 60 % 60);
}

static void add_byte_size(struct base_text *out, double value)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t scale = 0;
    for (; fabs(value) >= 1023.5 && scale + 1 < sizeof units / sizeof *units; scale++)
        value /= 1024;
    if (scale)
        add_scaled_number(out, value, units[scale]);
    else
        base_text_addf(out, "%.0f B", value);
}

void view_text_value(struct base_text *out, const char *unit, int64_t value, bool ascii)
{
    if (!strcmp(unit, "ns")) {
        view_text_time(out, value, ascii);
        return;
    }
    if (value < 0)
        base_text_add(out, "-");
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (!strcmp(unit, "bytes") || !strcmp(unit, "B"))
        add_byte_size(out, (double)size);
    else
        view_text_count(out, size);
}

void view_text_share(struct base_text *out, const struct view_selection *selection,
                     const struct view_figure *figure, bool ascii)
{
    if (selection->peak) {
        view_text_value(out, selection->unit, figure->value, ascii);
        return;
    }
    struct view_share share = view_select_share(selection, figure);
    if (selection->exact) {
        view_text_value(out, selection->unit, figure->value, ascii);
        base_text_addf(out, " %5.1f %%", 100 * share.share);
        return;
    }
    /* As wide as the widest that this many samples can give, so that the column stays straight. */
    int digits = selection->effective < 100 ? 4 : 3;
    base_text_addf(out, "%.1f %s%*.1f %%", 100 * share.share, ascii ? "+-" : "±", digits,
                   50 * (share.high - share.low));
}

void view_text_own(struct base_text *out, uint64_t own, uint64_t all, bool left_out)
{
    if (own)
        base_text_addf(out, "Tally itself: %.1f %% of all samples%s", 100 * (double)own / (double)all,
                       left_out ? ", left out" : "");
}

void view_text_percent(struct base_text *out, double percent)
{
    base_text_addf(out, "%.6g", percent);
}

static const char *dots_of(bool ascii)
{
    return ascii ? "..." : "…";
}

/* Bytes of `text` that fill at most `columns`. */
static size_t head_bytes(const char *text, unsigned columns)
{
    size_t bytes = 0, length;
    for (unsigned used = 0; text[bytes]; bytes += length) {
        used += base_utf8_columns(base_utf8_next(text + bytes, &length));
        if (used > columns)
            break;
    }
    return bytes;
}

/* Where the last at most `columns` columns of a text that is `width` wide begin. */
static size_t tail_start(const char *text, unsigned width, unsigned columns)
{
    size_t start = 0, length;
    for (unsigned left = width; left > columns && text[start]; start += length)
        left -= base_utf8_columns(base_utf8_next(text + start, &length));
    /* A combining mark without its letter would land on the ellipsis. */
    while (text[start] && !base_utf8_columns(base_utf8_next(text + start, &length)))
        start += length;
    return start;
}

void view_text_fit(struct base_text *out, const char *text, unsigned columns, bool ascii)
{
    unsigned width = base_utf8_width(text), dots = ascii ? 3 : 1;
    if (!columns || width <= columns) {
        base_text_add(out, text);
        return;
    }
    if (columns <= dots + 1) {
        base_text_add_bytes(out, text, head_bytes(text, columns));
        return;
    }
    unsigned tail = (columns - dots) / 2;
    base_text_add_bytes(out, text, head_bytes(text, columns - dots - tail));
    base_text_add(out, dots_of(ascii));
    base_text_add(out, text + tail_start(text, width, tail));
}

/* The '(' that the ')' at `end` closes, or NULL. */
static const char *find_opening_bracket(const char *name, const char *end)
{
    int depth = 0;
    for (const char *at = end; at >= name; at--) {
        depth += *at == ')' ? 1 : *at == '(' ? -1 : 0;
        if (!depth)
            return at;
    }
    return NULL;
}

/* The name with the contents of its last parentheses left out; those of "(anonymous namespace)::" stay. */
static void without_arguments(struct base_text *out, const char *name, bool ascii)
{
    const char *end = strrchr(name, ')'), *begin = end ? find_opening_bracket(name, end) : NULL;
    if (!begin || begin == name || end - begin < 4 || end[1] == ':') {
        base_text_add(out, name);
        return;
    }
    base_text_add_bytes(out, name, (size_t)(begin - name) + 1);
    base_text_add(out, dots_of(ascii));
    base_text_add(out, end);
}

/* The '>' that closes the '<' at `begin`, or NULL: those of operator< and of -> are none. */
static const char *find_closing_angle(const char *name, const char *begin)
{
    static const char word[] = "operator";
    const size_t length = sizeof word - 1;
    int depth = 0;
    if ((size_t)(begin - name) >= length && !memcmp(begin - length, word, length))
        return NULL;
    if ((size_t)(begin - name) > length && begin[-1] == '<' && !memcmp(begin - length - 1, word, length))
        return NULL;
    for (const char *at = begin; *at; at++) {
        depth += *at == '<' ? 1 : *at == '>' && at[-1] != '-' ? -1 : 0;
        if (!depth)
            return at;
    }
    return NULL;
}

static void without_template_arguments(struct base_text *out, const char *name, bool ascii)
{
    for (const char *at = name; *at; at++) {
        const char *end = *at == '<' ? find_closing_angle(name, at) : NULL;
        base_text_add_bytes(out, at, 1);
        if (!end || end - at < 4)
            continue;
        base_text_add(out, dots_of(ascii));
        base_text_add_bytes(out, end, 1);
        at = end;
    }
}

void view_text_fit_name(struct base_text *out, const char *name, unsigned columns, bool ascii)
{
    struct base_text first = {0}, second = {0};
    if (columns && base_utf8_width(name) > columns) {
        without_arguments(&first, name, ascii);
        name = base_text_string(&first);
    }
    if (columns && base_utf8_width(name) > columns) {
        without_template_arguments(&second, name, ascii);
        name = base_text_string(&second);
    }
    view_text_fit(out, name, columns, ascii);
    out->failed |= first.failed | second.failed;
    base_text_free(&first);
    base_text_free(&second);
}
