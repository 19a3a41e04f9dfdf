/* Which bytes of code set the base of gs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan_gs.h"
#include "stub_bytes.h"

static bool is_set(const char *text)
{
    uint8_t code[256];
    return plan_gs_is_set_in(code, stub_bytes_read(text, code, sizeof code));
}

static void wrgsbase_sets_it(void **state)
{
    (void)state;
    assert_true(is_set("f3 48 0f ae d8       ; wrgsbase rax"));
    assert_true(is_set("90 90 f3 49 0f ae df ; wrgsbase r15"));
    assert_true(is_set("f3 0f ae d9          ; wrgsbase ecx"));
    assert_false(is_set("f3 48 0f ae d0      ; wrfsbase rax"));
    assert_false(is_set("f3 48 0f ae c8      ; rdgsbase rax"));
    assert_false(is_set("f3 48 0f ae         ; cut off"));
    assert_false(is_set("f3 0f ae 18         ; memory"));
    assert_false(is_set("0f ae d8            ; no prefix: invalid"));
}

static void arch_prctl_sets_it(void **state)
{
    (void)state;
    assert_true(
        is_set("bf 9e 00 00 00 31 c0 be 01 10 00 00 e8 00 00 00 00 ; syscall(158, ARCH_SET_GS, ...)"));
    assert_true(is_set("bf 01 10 00 00 48 89 de b8 9e 00 00 00 0f 05       ; syscall"));
    assert_false(is_set("be 01 10 00 00 e8 00 00 00 00                     ; another function's flags"));
    assert_false(is_set("bf 02 10 00 00 b8 9e 00 00 00 0f 05               ; ARCH_SET_FS"));
    assert_false(is_set(""));
}

static void numbers_far_apart_are_chance(void **state)
{
    (void)state;
    uint8_t code[300];
    for (size_t distance = 5; distance < 200; distance++) {
        memset(code, 0x90, sizeof code);
        memcpy(code + 20, "\xbf\x01\x10\x00\x00", 5);
        memcpy(code + 20 + distance, "\xb8\x9e\x00\x00\x00", 5);
        assert_int_equal(plan_gs_is_set_in(code, sizeof code), distance < 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrgsbase_sets_it),
        cmocka_unit_test(arch_prctl_sets_it),
        cmocka_unit_test(numbers_far_apart_are_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
