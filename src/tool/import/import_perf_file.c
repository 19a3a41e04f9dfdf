/* import_perf_file.c - where in a perf.data file everything is.
 *
 * Two forms. A file begins with a header that names three parts: events, records, and behind them, features:
 * what is known of the machine and the recording. What is written to a pipe is records only: events and
 * features are records as well, of types from 64 on, which no kernel makes.
 *
 * Records are of many rings, one after the other, so that they are not in the order of time. perf itself
 * sorts piece by piece, for it may be reading a pipe that goes on; here all are known, and sorted at once.
 * Those without a time are where they are in the file.
 *
 * Packed records (-z) are one zstd stream, cut into records of their own: a record may lie across the
 * cuts. */
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base_array.h"
#include "import_file.h"
#include "import_perf.h"

enum {
    FILE_HEADER = 104,
    PIPE_HEADER = 16,
    SECTION = 16, /* offset and size */
    FEATURES = 256,
};

/* Types of records that perf itself writes. */
enum {
    USER_FIRST = 64,
    USER_ATTR = 64,
    USER_TRACING_DATA = 66,
    USER_BUILD_ID = 67,
    USER_AUXTRACE = 71,
    USER_EVENT_UPDATE = 78,
    USER_FEATURE = 80,
    USER_COMPRESSED = 81,
    USER_COMPRESSED2 = 83,
};
enum { UPDATE_NAME = 2 };

struct section {
    uint64_t offset, size;
};

static uint64_t number_at(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* --- records that describe others --- */

static void add_attr(struct import_perf *perf, const struct perf_event_header *header)
{
    const uint8_t *bytes = (const uint8_t *)(header + 1);
    size_t size = header->size - sizeof *header;
    const size_t size_at = offsetof(struct perf_event_attr, size);
    uint32_t attr_size = 0;
    if (size >= PERF_ATTR_SIZE_VER0)
        memcpy(&attr_size, bytes + size_at, sizeof attr_size);
    attr_size = attr_size ? attr_size : PERF_ATTR_SIZE_VER0;
    if (attr_size > size || attr_size < PERF_ATTR_SIZE_VER0) {
        perf->corrupt = true;
        return;
    }
    import_perf_add_event(perf, bytes, attr_size, bytes + attr_size, (size - attr_size) / 8);
}

static void update_event(struct import_perf *perf, const struct perf_event_header *header)
{
    const uint8_t *bytes = (const uint8_t *)(header + 1);
    size_t size = header->size - sizeof *header;
    if (size > 16 && number_at(bytes) == UPDATE_NAME)
        import_perf_name_event(perf, number_at(bytes + 8), (const char *)bytes + 16, size - 16);
}

static void take_feature(struct import_perf *perf, const struct perf_event_header *header)
{
    const uint8_t *bytes = (const uint8_t *)(header + 1);
    size_t size = header->size - sizeof *header;
    if (size >= 8 && number_at(bytes) < FEATURES)
        import_perf_feature(perf, (unsigned)number_at(bytes), bytes + 8, size - 8);
}

/* Bytes that follow a record without being of it. */
static uint64_t trailing_size(const struct perf_event_header *header)
{
    uint32_t size = 0;
    if (header->type == USER_AUXTRACE && header->size >= sizeof *header + 8)
        return number_at((const uint8_t *)(header + 1));
    if (header->type == USER_TRACING_DATA && header->size >= sizeof *header + sizeof size) {
        memcpy(&size, header + 1, sizeof size);
        return ((uint64_t)size + 7) & ~UINT64_C(7);
    }
    return 0;
}

/* --- unpacking --- */

struct unpacking {
    ZSTD_DStream *stream;
    size_t walked; /* bytes of what was unpacked whose records are known */
};

static bool unpack_bytes(struct import_perf *perf, struct unpacking *unpacking, const uint8_t *bytes,
                         size_t size)
{
    char piece[65536];
    ZSTD_inBuffer in = {bytes, size, 0};
    if (!unpacking->stream && !(unpacking->stream = ZSTD_createDStream())) {
        perf->no_memory = true;
        return false;
    }
    for (size_t before = 1, written = 1; in.pos < in.size || written == sizeof piece;) {
        ZSTD_outBuffer out = {piece, sizeof piece, 0};
        size_t state = ZSTD_decompressStream(unpacking->stream, &out, &in);
        bool stuck = !out.pos && in.pos == before;
        if (ZSTD_isError(state) || stuck) {
            perf->corrupt = in.pos < in.size || ZSTD_isError(state);
            return !perf->corrupt;
        }
        base_text_add_bytes(&perf->unpacked, piece, out.pos);
        before = in.pos;
        written = out.pos;
        perf->too_large = perf->unpacked.length > IMPORT_FILE_UNPACKED_MOST;
        if (perf->too_large || perf->unpacked.failed)
            return false;
    }
    return true;
}

/* --- all records --- */

static bool perf_file_add_place(struct import_perf *perf, size_t offset, bool unpacked)
{
    if (!base_array_room(perf->places, perf->place_count, perf->place_capacity)) {
        perf->no_memory = true;
        return false;
    }
    perf->places[perf->place_count++] = (struct import_perf_place){.offset = offset, .unpacked = unpacked};
    return true;
}

/* The kernel's records of what has been unpacked since the last time; the rest of one stays for the next. */
static bool walk_unpacked(struct import_perf *perf, struct unpacking *unpacking)
{
    struct perf_event_header header;
    while (perf->unpacked.length - unpacking->walked >= sizeof header) {
        memcpy(&header, perf->unpacked.data + unpacking->walked, sizeof header);
        perf->corrupt |= header.size < sizeof header;
        if (perf->corrupt || perf->unpacked.length - unpacking->walked < header.size)
            break;
        if (header.type < USER_FIRST && !perf_file_add_place(perf, unpacking->walked, true))
            return false;
        unpacking->walked += header.size;
    }
    return !perf->corrupt;
}

/* A later form says how many of the bytes are meant: records are filled up to multiples of 8. */
static bool take_packed(struct import_perf *perf, struct unpacking *unpacking,
                        const struct perf_event_header *header)
{
    const uint8_t *bytes = (const uint8_t *)(header + 1);
    size_t size = header->size - sizeof *header;
    if (header->type == USER_COMPRESSED2) {
        if (size < 8 || number_at(bytes) > size - 8) {
            perf->corrupt = true;
            return false;
        }
        size = (size_t)number_at(bytes);
        bytes += 8;
    }
    return unpack_bytes(perf, unpacking, bytes, size) && walk_unpacked(perf, unpacking);
}

static bool take_record(struct import_perf *perf, struct unpacking *unpacking, size_t at,
                        const struct perf_event_header *header)
{
    switch (header->type) {
    case USER_ATTR:
        add_attr(perf, header);
        break;
    case USER_BUILD_ID:
        import_perf_add_build_id(perf, header);
        break;
    case USER_EVENT_UPDATE:
        update_event(perf, header);
        break;
    case USER_FEATURE:
        take_feature(perf, header);
        break;
    case USER_COMPRESSED:
    case USER_COMPRESSED2:
        return take_packed(perf, unpacking, header);
    default:
        return header->type >= USER_FIRST || perf_file_add_place(perf, at, false);
    }
    return !perf->corrupt && !perf->no_memory;
}

/* The record at `at`, if all of it is there, with what follows it. */
static const struct perf_event_header *next_record(struct import_perf *perf, size_t at, size_t end)
{
    const struct perf_event_header *header;
    if (end - at < sizeof *header) {
        perf->cut |= end != at;
        return NULL;
    }
    memcpy(&perf->record.header, perf->bytes + at, sizeof *header);
    perf->corrupt = perf->record.header.size < sizeof *header;
    perf->cut |= !perf->corrupt && perf->record.header.size > end - at;
    if (perf->corrupt || perf->cut)
        return NULL;
    header = import_perf_record(perf, &(struct import_perf_place){.offset = at});
    perf->cut = trailing_size(header) > end - at - header->size;
    return perf->cut ? NULL : header;
}

static void walk_records(struct import_perf *perf, size_t at, size_t end)
{
    struct unpacking unpacking = {0};
    const struct perf_event_header *header;
    bool cut = perf->cut; /* already, since the file has no end */
    perf->cut = false;
    while ((header = next_record(perf, at, end)) && take_record(perf, &unpacking, at, header))
        at += header->size + (size_t)trailing_size(header);
    perf->cut |= cut || (perf->unpacked.length != unpacking.walked && !perf->corrupt && !perf->too_large);
    perf->no_memory |= perf->unpacked.failed;
    ZSTD_freeDStream(unpacking.stream);
}

/* --- a file --- */

static bool is_section_inside(const struct import_perf *perf, const struct section *section)
{
    return section->offset <= perf->size && section->size <= perf->size - section->offset;
}

static struct section section_at(const struct import_perf *perf, size_t offset)
{
    return (struct section){number_at(perf->bytes + offset), number_at(perf->bytes + offset + 8)};
}

/* Events, and where the identifiers of each are. No two share any, so all together fit into the file: events
 * that point at the same place again and again would be work without end. */
static bool read_attrs(struct import_perf *perf, const struct section *attrs, uint64_t each)
{
    if (each < PERF_ATTR_SIZE_VER0 + SECTION || each > 4096 || !is_section_inside(perf, attrs))
        return false;
    uint64_t left = perf->size;
    for (uint64_t at = 0; attrs->size - at >= each; at += each) {
        const uint8_t *attr = perf->bytes + attrs->offset + at;
        struct section ids = {number_at(attr + each - SECTION), number_at(attr + each - 8)};
        if (!is_section_inside(perf, &ids) || ids.size > left ||
            !import_perf_add_event(perf, attr, (size_t)each - SECTION, perf->bytes + ids.offset,
                                   (size_t)ids.size / 8))
            return false;
        left -= ids.size;
    }
    return perf->event_count > 0;
}

/* A table of sections, one for each bit that is set, behind the records. */
static void read_features(struct import_perf *perf, const uint8_t *bits, uint64_t table)
{
    for (unsigned number = 0; number < FEATURES; number++) {
        if (!(bits[number / 8] >> (number % 8) & 1))
            continue;
        struct section entry = {table, SECTION};
        if (!is_section_inside(perf, &entry)) {
            perf->cut = true;
            return;
        }
        struct section section = section_at(perf, (size_t)table);
        if (is_section_inside(perf, &section))
            import_perf_feature(perf, number, perf->bytes + section.offset, (size_t)section.size);
        else
            perf->cut = true;
        table += SECTION;
    }
}

/* perf writes the size of the records at its end: without one they go on to the end of the file. */
static int open_file(struct import_perf *perf, struct base_error *error)
{
    if (perf->size < FILE_HEADER)
        return base_fail(error, BASE_EFORMAT, "it is truncated in its header");
    struct section attrs = section_at(perf, 24), data = section_at(perf, 40);
    const uint8_t *bits = perf->bytes + 72;
    if (!read_attrs(perf, &attrs, number_at(perf->bytes + 16)) || data.offset > perf->size)
        return perf->no_memory ? base_fail(error, BASE_ENOMEM, "out of memory")
                               : base_fail(error, BASE_EFORMAT, "it is a corrupt perf.data file");
    bool unended = !data.size;
    perf->cut = unended || !is_section_inside(perf, &data);
    uint64_t end = perf->cut ? perf->size : data.offset + data.size;
    if (!perf->cut)
        read_features(perf, bits, end);
    walk_records(perf, (size_t)data.offset, (size_t)end);
    return BASE_OK;
}

/* --- the order of time --- */

static int perf_file_by_time(const void *left, const void *right)
{
    const struct import_perf_place *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->unpacked != b->unpacked)
        return a->unpacked ? 1 : -1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void sort_places(struct import_perf *perf)
{
    uint64_t last = 0;
    for (size_t i = 0; i < perf->place_count; i++) {
        last = import_perf_time(perf, import_perf_record(perf, &perf->places[i]), last);
        perf->places[i].time = last;
    }
    if (perf->place_count) /* else there may be no array */
        qsort(perf->places, perf->place_count, sizeof *perf->places, perf_file_by_time);
}

int import_perf_open(const uint8_t *bytes, size_t size, struct import_perf *perf, struct base_error *error)
{
    *perf = (struct import_perf){.bytes = bytes, .size = size};
    int result = BASE_OK;
    if (size < PIPE_HEADER)
        return base_fail(error, BASE_EFORMAT, "it is truncated in its header");
    if (!memcmp(bytes, "2ELIFREP", 8))
        return base_fail(error, BASE_EUNSUPPORTED, "it was recorded on a machine of the other byte order");
    if (number_at(bytes + 8) == PIPE_HEADER)
        walk_records(perf, PIPE_HEADER, size);
    else
        result = open_file(perf, error);
    if (result < 0)
        return result;
    if (perf->no_memory)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (!perf->event_count)
        return base_fail(error, BASE_EFORMAT, "it is a perf.data file without events");
    sort_places(perf);
    return BASE_OK;
}

void import_perf_close(struct import_perf *perf)
{
    for (size_t i = 0; i < perf->event_count; i++)
        free(perf->events[i].name);
    for (size_t i = 0; i < perf->build_id_count; i++)
        free(perf->build_ids[i].path);
    free(perf->events);
    free(perf->build_ids);
    free(perf->places);
    free(perf->hostname);
    free(perf->release);
    free(perf->machine);
    free(perf->command);
    base_map_free(&perf->event_of);
    base_text_free(&perf->unpacked);
    *perf = (struct import_perf){0};
}
