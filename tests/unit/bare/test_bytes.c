#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bare_bytes.h"

/* Every alignment, with the bytes written out: little endian whatever the host would like. */
static void loads_at_any_alignment(void **state)
{
    static const uint8_t bytes[24] = {0,    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
                                      0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17};
    (void)state;
    assert_int_equal(bare_load32(bytes + 1), 0x04030201);
    assert_true(bare_load64(bytes + 1) == UINT64_C(0x0807060504030201));
    for (unsigned i = 0; i < 16; i++)
        assert_true(bare_load64(bytes + i) ==
                    UINT64_C(0x0706050403020100) + i * UINT64_C(0x0101010101010101));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loads_at_any_alignment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
