#include "import_proto.h"

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct import_proto import_proto_of(const uint8_t *bytes, size_t size)
{
    return (struct import_proto){bytes, bytes + size, false};
}

static bool mark_corrupt(struct import_proto *proto)
{
    proto->corrupt = true;
    proto->at = proto->end;
    return false;
}

static bool take_varint(struct import_proto *proto, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70 && proto->at < proto->end; shift += 7) {
        uint8_t byte = *proto->at++;
        if (shift < 64)
            *value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return true;
    }
    return mark_corrupt(proto);
}

static bool take_fixed(struct import_proto *proto, unsigned size, uint64_t *value)
{
    *value = 0;
    if ((size_t)(proto->end - proto->at) < size)
        return mark_corrupt(proto);
    for (unsigned i = 0; i < size; i++)
        *value |= (uint64_t)*proto->at++ << (8 * i);
    return true;
}

static bool take_bytes(struct import_proto *proto, struct import_proto *bytes)
{
    uint64_t length;
    if (!take_varint(proto, &length))
        return false;
    if (length > (uint64_t)(proto->end - proto->at))
        return mark_corrupt(proto);
    *bytes = import_proto_of(proto->at, (size_t)length);
    proto->at += length;
    return true;
}

bool import_proto_next(struct import_proto *proto, struct import_proto_field *field)
{
    uint64_t tag;
    *field = (struct import_proto_field){0};
    if (proto->at == proto->end || !take_varint(proto, &tag))
        return false;
    if (!(tag >> 3) || tag >> 3 > UINT32_MAX >> 3)
        return mark_corrupt(proto);
    field->number = (uint32_t)(tag >> 3);
    switch ((enum wire)(tag & 7)) {
    case WIRE_VARINT:
        return take_varint(proto, &field->value);
    case WIRE_64:
        return take_fixed(proto, 8, &field->value);
    case WIRE_32:
        return take_fixed(proto, 4, &field->value);
    case WIRE_BYTES:
        field->is_bytes = true;
        return take_bytes(proto, &field->bytes);
    }
    return mark_corrupt(proto);
}

bool import_proto_number(struct import_proto_field *field, uint64_t *value)
{
    if (!field->is_bytes) { /* a lone one: it looks packed from now on, and used up */
        *value = field->value;
        *field = (struct import_proto_field){.number = field->number, .is_bytes = true};
        return true;
    }
    return field->bytes.at != field->bytes.end && take_varint(&field->bytes, value);
}
