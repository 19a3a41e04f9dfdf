/* code_landing.c - landing pads: the places inside functions at which the unwinder of exceptions makes
 * threads go on.
 *
 * .eh_frame's FDEs name, in functions that catch or clean up, a table of .gcc_except_table; its call-site
 * records hold the landing pads. Only that is read here: no unwind rules (the cfi module compiles those).
 * What does not parse is passed over. Source: LSB 5 core, chapter 10.6; Itanium C++ ABI, exception handling,
 * 7; DWARF 5 7.7.3. */
#include <string.h>

#include "code_scan.h"

/* DW_EH_PE_: how a pointer is written. */
enum {
    POINTER_ABSOLUTE = 0x00,
    POINTER_ULEB = 0x01,
    POINTER_U2 = 0x02,
    POINTER_U4 = 0x03,
    POINTER_U8 = 0x04,
    POINTER_SIGNED = 0x08,
    POINTER_RELATIVE = 0x10, /* to its own address */
    POINTER_INDIRECT = 0x80,
    POINTER_OMITTED = 0xff
};

enum { PADS_MAX = 1 << 24 }; /* hostile files: every function with one and the same endless table */

struct reader { /* bytes at an address; `bad` once something was not there */
    const uint8_t *bytes;
    size_t size, at;
    uint64_t address; /* of bytes[0] */
    bool bad;
};

struct common { /* of a CIE */
    uint8_t pointer_encoding, table_encoding;
    bool sized; /* augmentation begins with z */
    bool known;
    size_t offset;
};

static uint64_t read_fixed(struct reader *reader, unsigned size)
{
    uint64_t value = 0;
    if (reader->bad || reader->size - reader->at < size) {
        reader->bad = true;
        return 0;
    }
    memcpy(&value, reader->bytes + reader->at, size);
    reader->at += size;
    return value;
}

static uint64_t read_uleb(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !reader->bad; shift += 7) {
        uint64_t byte = read_fixed(reader, 1);
        value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    reader->bad = true;
    return 0;
}

static uint64_t sign_extend(uint64_t value, unsigned bytes)
{
    unsigned unused = 64 - 8 * bytes;
    return (uint64_t)((int64_t)(value << unused) >> unused);
}

static uint64_t read_value(struct reader *reader, uint8_t encoding)
{
    bool is_signed = (encoding & POINTER_SIGNED) != 0;
    switch (encoding & 7) {
    case POINTER_ABSOLUTE:
    case POINTER_U8:
        return read_fixed(reader, 8);
    case POINTER_ULEB: /* the signed form is not used for addresses */
        return read_uleb(reader);
    case POINTER_U2:
        return is_signed ? sign_extend(read_fixed(reader, 2), 2) : read_fixed(reader, 2);
    case POINTER_U4:
        return is_signed ? sign_extend(read_fixed(reader, 4), 4) : read_fixed(reader, 4);
    default:
        reader->bad = true;
        return 0;
    }
}

/* An address; 0 when it is null or of a kind that is not supported. */
static uint64_t read_pointer(struct reader *reader, uint8_t encoding)
{
    uint64_t place = reader->address + reader->at;
    uint64_t value = read_value(reader, encoding);
    if (value == 0 || (encoding & POINTER_INDIRECT))
        return 0;
    switch (encoding & 0x70) {
    case 0:
        return value;
    case POINTER_RELATIVE:
        return value + place;
    default:
        reader->bad = true;
        return 0;
    }
}

/* --- the table of one function --- */

static void mark_pads(struct code_scan *scan, struct reader *reader, uint8_t encoding, uint64_t base)
{
    uint64_t length = read_uleb(reader);
    size_t end = length < reader->size - reader->at ? reader->at + (size_t)length : reader->size;
    while (!reader->bad && reader->at < end && scan->pads_left > 0) {
        scan->pads_left--;
        read_value(reader, encoding); /* start */
        read_value(reader, encoding); /* length */
        uint64_t pad = read_value(reader, encoding);
        read_uleb(reader); /* action */
        if (pad && !reader->bad)
            code_scan_mark(scan, CODE_MAP_LANDING, base + pad);
    }
}

static void read_table(struct code_scan *scan, uint64_t table, uint64_t function)
{
    struct reader reader = {.address = table};
    uint64_t base = function;
    if (table == 0)
        return;
    reader.bytes = elf_image_at(scan->image, table, &reader.size);
    if (reader.bytes == NULL)
        return;
    uint8_t start_encoding = (uint8_t)read_fixed(&reader, 1);
    if (start_encoding != POINTER_OMITTED)
        base = read_pointer(&reader, start_encoding);
    if (read_fixed(&reader, 1) != POINTER_OMITTED) /* the types, behind the call sites */
        read_uleb(&reader);
    uint8_t encoding = (uint8_t)read_fixed(&reader, 1);
    if (!reader.bad)
        mark_pads(scan, &reader, encoding, base);
}

/* --- .eh_frame --- */

static void read_augmentation(struct code_scan *scan, struct reader *reader, const char *letters,
                              struct common *common)
{
    read_uleb(reader); /* length */
    for (; *letters && !reader->bad; letters++) {
        if (*letters == 'R')
            common->pointer_encoding = (uint8_t)read_fixed(reader, 1);
        else if (*letters == 'L')
            common->table_encoding = (uint8_t)read_fixed(reader, 1);
        else if (*letters == 'P')
            code_scan_take(scan, read_pointer(reader, (uint8_t)read_fixed(reader, 1)), CODE_TAKEN_LOADER);
        else if (*letters != 'S' && *letters != 'B')
            reader->bad = true;
    }
}

static void read_common(struct code_scan *scan, const struct elf_section *frames, size_t offset,
                        struct common *common)
{
    enum { LETTERS = 16 };
    if (common->known && common->offset == offset)
        return;
    *common = (struct common){.table_encoding = POINTER_OMITTED, .offset = offset};
    struct reader reader = {frames->bytes, frames->size, offset, frames->address, offset >= frames->size};
    uint64_t length = read_fixed(&reader, 4), id = read_fixed(&reader, 4), version = read_fixed(&reader, 1);
    if (reader.bad || length == 0 || length == UINT32_MAX || id != 0 || (version != 1 && version != 3))
        return;
    const char *letters = (const char *)reader.bytes + reader.at;
    const void *end =
        memchr(letters, '\0', reader.size - reader.at < LETTERS ? reader.size - reader.at : LETTERS);
    if (end == NULL)
        return;
    reader.at += (size_t)((const char *)end - letters) + 1;
    read_uleb(&reader); /* code alignment */
    read_uleb(&reader); /* data alignment: signed, of the same length */
    if (version == 1)
        read_fixed(&reader, 1); /* return address column */
    else
        read_uleb(&reader);
    common->sized = *letters == 'z';
    if (common->sized)
        read_augmentation(scan, &reader, letters + 1, common);
    common->known = !reader.bad;
}

static void read_description(struct code_scan *scan, struct reader *reader, const struct common *common)
{
    if (!common->known || !common->sized || common->table_encoding == POINTER_OMITTED)
        return;
    uint64_t function = read_pointer(reader, common->pointer_encoding);
    read_value(reader, common->pointer_encoding & 0x0f); /* length of the function */
    read_uleb(reader);                                   /* length of the augmentation */
    uint64_t table = read_pointer(reader, common->table_encoding);
    if (!reader->bad)
        read_table(scan, table, function);
}

void code_landing_all(struct code_scan *scan)
{
    struct elf_section frames;
    struct common common = {.known = false};
    scan->pads_left = PADS_MAX;
    if (!elf_image_section(scan->image, ".eh_frame", &frames) || frames.bytes == NULL)
        return;
    struct reader reader = {frames.bytes, frames.size, 0, frames.address, false};
    while (!reader.bad && frames.size - reader.at >= 8) {
        uint64_t length = read_fixed(&reader, 4);
        size_t body = reader.at;
        if (length == 0 || length >= 0xfffffff0u || length > frames.size - body) /* terminator; 64-bit form */
            return;
        uint64_t id = read_fixed(&reader, 4);
        if (id != 0 && id <= body) {
            struct reader inner = {frames.bytes, body + (size_t)length, reader.at, frames.address, false};
            read_common(scan, &frames, body - (size_t)id, &common);
            read_description(scan, &inner, &common);
        }
        reader.at = body + (size_t)length;
    }
}
