/* import_proto.h - messages of protocol buffers, read field by field.
 *
 * Source: "Encoding" of the protocol buffers documentation. Groups, which have been deprecated for long, are
 * refused. Context: tool; private to this module. */
#ifndef IMPORT_PROTO_H
#define IMPORT_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import_proto {
    const uint8_t *at, *end;
    bool corrupt; /* something does not fit: nothing more comes */
};

struct import_proto_field {
    uint32_t number;
    bool is_bytes;             /* a string, a message, or packed numbers */
    uint64_t value;            /* else */
    struct import_proto bytes; /* if is_bytes */
};

struct import_proto import_proto_of(const uint8_t *bytes, size_t size);

/* The next field; false at the end, and where the message is corrupt. */
bool import_proto_next(struct import_proto *proto, struct import_proto_field *field);

/* Repeated numbers may be packed into one field, or be a field each: hands out those of this field, one a
 * call, then false (field->bytes may be corrupt). */
bool import_proto_number(struct import_proto_field *field, uint64_t *value);

#endif
