/* Protocol buffers: every kind of field, numbers packed and not, and whatever does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "import_proto.h"

static struct import_proto_field only(const uint8_t *bytes, size_t size)
{
    struct import_proto proto = import_proto_of(bytes, size);
    struct import_proto_field field;
    assert_true(import_proto_next(&proto, &field));
    struct import_proto_field rest;
    assert_false(import_proto_next(&proto, &rest));
    assert_false(proto.corrupt);
    return field;
}

static void every_kind(void **state)
{
    (void)state;
    static const uint8_t varint[] = {0x08, 0x96, 0x01}, fixed64[] = {0x11, 1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t bytes[] = {0x1a, 2, 'a', 'b'}, fixed32[] = {0x25, 1, 2, 3, 4};
    static const uint8_t negative[] = {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    struct import_proto_field field = only(varint, sizeof varint);
    assert_true(field.number == 1 && !field.is_bytes && field.value == 150);
    field = only(fixed64, sizeof fixed64);
    assert_true(field.number == 2 && field.value == UINT64_C(0x0807060504030201));
    field = only(bytes, sizeof bytes);
    assert_true(field.number == 3 && field.is_bytes && field.bytes.end - field.bytes.at == 2);
    field = only(fixed32, sizeof fixed32);
    assert_true(field.number == 4 && field.value == 0x04030201);
    assert_true(only(negative, sizeof negative).value == UINT64_MAX);
}

static void numbers(void **state)
{
    (void)state;
    static const uint8_t packed[] = {0x0a, 4, 1, 0x80, 0x01, 3}, lone[] = {0x08, 7};
    struct import_proto_field field = only(packed, sizeof packed);
    uint64_t value, sum = 0;
    int count = 0;
    for (; import_proto_number(&field, &value); count++)
        sum += value;
    assert_true(count == 3 && sum == 132 && !field.bytes.corrupt);
    field = only(lone, sizeof lone);
    assert_true(import_proto_number(&field, &value) && value == 7);
    assert_false(import_proto_number(&field, &value));
}

static void assert_corrupt(const uint8_t *bytes, size_t size)
{
    struct import_proto proto = import_proto_of(bytes, size);
    struct import_proto_field field;
    while (import_proto_next(&proto, &field))
        ;
    assert_true(proto.corrupt);
}

static void what_does_not_fit(void **state)
{
    (void)state;
    static const uint8_t cut_tag[] = {0x80}, no_value[] = {0x08}, cut_value[] = {0x08, 0x80};
    static const uint8_t long_bytes[] = {0x0a, 3, 'a', 'b'},
                         huge[] = {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
    static const uint8_t cut_fixed[] = {0x11, 1, 2}, group[] = {0x0b, 0x0c}, field_0[] = {0x00, 0x00};
    static const uint8_t endless[] = {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 1};
    assert_corrupt(cut_tag, sizeof cut_tag);
    assert_corrupt(no_value, sizeof no_value);
    assert_corrupt(cut_value, sizeof cut_value);
    assert_corrupt(long_bytes, sizeof long_bytes);
    assert_corrupt(huge, sizeof huge);
    assert_corrupt(cut_fixed, sizeof cut_fixed);
    assert_corrupt(group, sizeof group);
    assert_corrupt(field_0, sizeof field_0);
    assert_corrupt(endless, sizeof endless);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind), cmocka_unit_test(numbers),
                                       cmocka_unit_test(what_does_not_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
