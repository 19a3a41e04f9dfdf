/* import_pprof_tables.c - everything of a profile.proto but its samples. */
#include <string.h>

#include "base_array.h"
#include "base_map.h"
#include "import_pprof.h"
#include "import_proto.h"

const char *import_pprof_string(const struct import_pprof *pprof, uint64_t index)
{
    return index < pprof->string_count ? pprof->text + pprof->strings[index] : "";
}

static void add_string(struct import_pprof *pprof, const struct import_proto *bytes)
{
    size_t length = (size_t)(bytes->end - bytes->at);
    if (!base_array_room(pprof->strings, pprof->string_count, pprof->string_capacity)) {
        pprof->no_memory = true;
        return;
    }
    pprof->strings[pprof->string_count++] = pprof->text_length;
    memcpy(pprof->text + pprof->text_length, bytes->at, length);
    pprof->text[pprof->text_length + length] = '\0';
    pprof->text_length += length + 1;
}

bool import_pprof_numbers(struct import_proto message, uint64_t *numbers, uint32_t most)
{
    struct import_proto_field field;
    while (import_proto_next(&message, &field))
        if (field.number <= most && !field.is_bytes)
            numbers[field.number] = field.value;
    return !message.corrupt;
}

static bool read_type(struct import_proto message, struct import_pprof_type *type)
{
    uint64_t numbers[3] = {0};
    bool good = import_pprof_numbers(message, numbers, 2);
    *type = (struct import_pprof_type){.name = numbers[1], .unit = numbers[2], .samples = -1, .scale = 1};
    return good;
}

bool import_pprof_remember(struct import_pprof *pprof, struct base_map *map, uint64_t id, size_t index)
{
    if (base_map_set(map, id, (uint32_t)index))
        return true;
    pprof->no_memory = true;
    return false;
}

static bool add_mapping(struct import_pprof *pprof, struct import_proto message)
{
    uint64_t numbers[7] = {0};
    if (!import_pprof_numbers(message, numbers, 6))
        return false;
    if (!base_array_room(pprof->mappings, pprof->mapping_count, pprof->mapping_capacity)) {
        pprof->no_memory = true;
        return false;
    }
    pprof->mappings[pprof->mapping_count] = (struct import_pprof_mapping){
        .start = numbers[2], .offset = numbers[4], .file = numbers[5], .build_id = numbers[6]};
    return import_pprof_remember(pprof, &pprof->mapping_of, numbers[1], pprof->mapping_count++);
}

static bool add_location(struct import_pprof *pprof, struct import_proto message)
{
    uint64_t numbers[4] = {0};
    if (!import_pprof_numbers(message, numbers, 3))
        return false;
    if (!base_array_room(pprof->locations, pprof->location_count, pprof->location_capacity)) {
        pprof->no_memory = true;
        return false;
    }
    pprof->locations[pprof->location_count] =
        (struct import_pprof_location){.mapping = numbers[2], .address = numbers[3], .message = message};
    return import_pprof_remember(pprof, &pprof->location_of, numbers[1], pprof->location_count++);
}

static bool pprof_tables_add_function(struct import_pprof *pprof, struct import_proto message)
{
    uint64_t numbers[5] = {0};
    if (!import_pprof_numbers(message, numbers, 4))
        return false;
    if (!base_array_room(pprof->functions, pprof->function_count, pprof->function_capacity)) {
        pprof->no_memory = true;
        return false;
    }
    pprof->functions[pprof->function_count] =
        (struct import_pprof_function){.name = numbers[2] ? numbers[2] : numbers[3], .file = numbers[4]};
    return import_pprof_remember(pprof, &pprof->function_of, numbers[1], pprof->function_count++);
}

static bool add_message(struct import_pprof *pprof, const struct import_proto_field *field)
{
    switch ((enum import_pprof_field)field->number) {
    case IMPORT_PPROF_SAMPLE_TYPE:
        return pprof->type_count < IMPORT_PPROF_TYPES_MOST &&
               read_type(field->bytes, &pprof->types[pprof->type_count++]);
    case IMPORT_PPROF_MAPPING:
        return add_mapping(pprof, field->bytes);
    case IMPORT_PPROF_LOCATION:
        return add_location(pprof, field->bytes);
    case IMPORT_PPROF_FUNCTION:
        return pprof_tables_add_function(pprof, field->bytes);
    case IMPORT_PPROF_STRING:
        add_string(pprof, &field->bytes);
        return !pprof->no_memory;
    case IMPORT_PPROF_PERIOD_TYPE:
        return read_type(field->bytes, &pprof->period_type);
    default:
        return true;
    }
}

static void add_number(struct import_pprof *pprof, const struct import_proto_field *field)
{
    switch ((enum import_pprof_field)field->number) {
    case IMPORT_PPROF_DROP_FRAMES:
        pprof->drop = field->value;
        break;
    case IMPORT_PPROF_KEEP_FRAMES:
        pprof->keep = field->value;
        break;
    case IMPORT_PPROF_TIME_NANOS:
        pprof->time = (int64_t)field->value;
        break;
    case IMPORT_PPROF_DURATION_NANOS:
        pprof->duration = (int64_t)field->value;
        break;
    case IMPORT_PPROF_PERIOD:
        pprof->period = (int64_t)field->value;
        break;
    case IMPORT_PPROF_DEFAULT_SAMPLE_TYPE:
        pprof->default_type = field->value;
        break;
    default:
        break;
    }
}

int import_pprof_fail(const struct import_pprof *pprof, struct base_error *error)
{
    return pprof->no_memory ? base_fail(error, BASE_ENOMEM, "out of memory")
                            : base_fail(error, BASE_EFORMAT, "it is a pprof file, and corrupt or truncated");
}

int import_pprof_tables(struct import_pprof *pprof, struct import_proto whole, struct base_error *error)
{
    struct import_proto_field field;
    while (import_proto_next(&whole, &field)) {
        if (!field.is_bytes)
            add_number(pprof, &field);
        else if (!add_message(pprof, &field))
            return import_pprof_fail(pprof, error);
    }
    if (whole.corrupt)
        return import_pprof_fail(pprof, error);
    return pprof->type_count ? BASE_OK : base_fail(error, BASE_EFORMAT, "it has no type of samples");
}
