#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_quote.h"
#include "import_perf.h"

/* Numbers of features, as perf has them. */
enum feature {
    FEATURE_BUILD_ID = 2,
    FEATURE_HOSTNAME,
    FEATURE_RELEASE,
    FEATURE_MACHINE = 6,
    FEATURE_COMMAND = 11,
    FEATURE_EVENTS,
};

enum { BUILD_ID_BYTES = 20, BUILD_ID_FIELD = 24, MISC_BUILD_ID_SIZE = 1 << 15, EVENTS_MOST = 1024 };

/* --- reading front to back; past the end everything is 0 --- */

struct cursor {
    const uint8_t *at, *end;
    bool past;
};

static const uint8_t *perf_header_take(struct cursor *cursor, uint64_t size)
{
    if (size > (uint64_t)(cursor->end - cursor->at)) {
        cursor->past = true;
        cursor->at = cursor->end;
        return NULL;
    }
    const uint8_t *bytes = cursor->at;
    cursor->at += size;
    return bytes;
}

static uint32_t take_u32(struct cursor *cursor)
{
    uint32_t value = 0;
    const uint8_t *bytes = perf_header_take(cursor, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return value;
}

/* A length and so many bytes, filled up with zeros; NULL: there is none. The caller frees. */
static char *take_string(struct cursor *cursor)
{
    uint32_t length = take_u32(cursor);
    const uint8_t *bytes = perf_header_take(cursor, length);
    return bytes ? strndup((const char *)bytes, length) : NULL;
}

/* --- events --- */

bool import_perf_add_event(struct import_perf *perf, const uint8_t *attr, size_t attr_size,
                           const uint8_t *ids, size_t id_count)
{
    if (perf->event_count == EVENTS_MOST ||
        !base_array_room(perf->events, perf->event_count, perf->event_capacity)) {
        perf->no_memory |= perf->event_count < EVENTS_MOST;
        return false;
    }
    struct import_perf_event *event = &perf->events[perf->event_count];
    *event = (struct import_perf_event){0};
    memcpy(&event->attr, attr, attr_size < sizeof event->attr ? attr_size : sizeof event->attr);
    for (size_t i = 0; i < id_count; i++) {
        uint64_t id;
        memcpy(&id, ids + i * sizeof id, sizeof id);
        perf->no_memory |= !base_map_set(&perf->event_of, id, (uint32_t)perf->event_count);
    }
    perf->event_count++;
    return !perf->no_memory;
}

static void set_name(struct import_perf_event *event, char *name)
{
    free(event->name);
    event->name = name;
}

void import_perf_name_event(struct import_perf *perf, uint64_t id, const char *name, size_t size)
{
    uint32_t index = base_map_find(&perf->event_of, id);
    if (index != BASE_MAP_NONE)
        set_name(&perf->events[index], strndup(name, size));
}

/* Names come in the order of the events. */
static void read_events(struct import_perf *perf, struct cursor cursor)
{
    uint32_t count = take_u32(&cursor), attr_size = take_u32(&cursor);
    for (uint32_t i = 0; i < count && i < perf->event_count && !cursor.past; i++) {
        perf_header_take(&cursor, attr_size);
        uint32_t ids = take_u32(&cursor);
        char *name = take_string(&cursor);
        perf_header_take(&cursor, (uint64_t)ids * 8);
        if (name)
            set_name(&perf->events[i], name);
    }
}

/* --- build-ids --- */

/* A record: process, build-id, path. It has its size where the flag says so; else it is the usual one. */
void import_perf_add_build_id(struct import_perf *perf, const struct perf_event_header *header)
{
    struct cursor cursor = {(const uint8_t *)(header + 1), (const uint8_t *)header + header->size, false};
    perf_header_take(&cursor, 4);
    const uint8_t *id = perf_header_take(&cursor, BUILD_ID_FIELD);
    size_t length = (size_t)(cursor.end - cursor.at);
    if (!id || !length)
        return;
    if (!base_array_room(perf->build_ids, perf->build_id_count, perf->build_id_capacity)) {
        perf->no_memory = true;
        return;
    }
    struct import_perf_build_id *item = &perf->build_ids[perf->build_id_count];
    size_t size = header->misc & MISC_BUILD_ID_SIZE ? id[BUILD_ID_BYTES] : BUILD_ID_BYTES;
    *item = (struct import_perf_build_id){.path = strndup((const char *)cursor.at, length)};
    item->id.size = (uint8_t)(size < BUILD_ID_BYTES ? size : BUILD_ID_BYTES);
    memcpy(item->id.bytes, id, item->id.size);
    perf->no_memory |= !item->path;
    perf->build_id_count += item->path != NULL;
}

static void read_build_ids(struct import_perf *perf, struct cursor cursor)
{
    struct perf_event_header header;
    while ((size_t)(cursor.end - cursor.at) >= sizeof header) {
        memcpy(&header, cursor.at, sizeof header);
        union {
            struct perf_event_header header;
            uint8_t bytes[UINT16_MAX + 1];
        } record;
        const uint8_t *bytes = header.size >= sizeof header ? perf_header_take(&cursor, header.size) : NULL;
        if (!bytes)
            return;
        memcpy(record.bytes, bytes, header.size);
        import_perf_add_build_id(perf, &record.header);
    }
}

const struct elf_build_id *import_perf_build_id(const struct import_perf *perf, const char *path)
{
    for (size_t i = 0; i < perf->build_id_count; i++)
        if (!strcmp(perf->build_ids[i].path, path))
            return &perf->build_ids[i].id;
    return NULL;
}

/* --- the rest --- */

static char *read_command(struct cursor cursor)
{
    struct base_text line = {0};
    uint32_t count = take_u32(&cursor);
    for (uint32_t i = 0; i < count && !cursor.past; i++) {
        char *word = take_string(&cursor);
        if (word)
            base_quote_word(&line, word);
        free(word);
    }
    return base_text_detach(&line);
}

static void set_text(char **text, char *value)
{
    free(*text);
    *text = value;
}

void import_perf_feature(struct import_perf *perf, unsigned number, const uint8_t *bytes, size_t size)
{
    struct cursor cursor = {bytes, bytes + size, false};
    switch ((enum feature)number) {
    case FEATURE_BUILD_ID:
        read_build_ids(perf, cursor);
        break;
    case FEATURE_HOSTNAME:
        set_text(&perf->hostname, take_string(&cursor));
        break;
    case FEATURE_RELEASE:
        set_text(&perf->release, take_string(&cursor));
        break;
    case FEATURE_MACHINE:
        set_text(&perf->machine, take_string(&cursor));
        break;
    case FEATURE_COMMAND:
        set_text(&perf->command, read_command(cursor));
        break;
    case FEATURE_EVENTS:
        read_events(perf, cursor);
        break;
    }
}
