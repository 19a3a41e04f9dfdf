/* test_plan_select.c - which images and calls are wanted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "plan_elf.h"
#include "plan_select.h"
#include "stub_bytes.h"

static void runtimes_are_left_out(void **state)
{
    (void)state;
    static const char *const runtimes[] = {
        "libc.so.6",     "ld-linux-x86-64.so.2", "libm.so.6", "libpthread.so.0",      "libstdc++.so.6",
        "libgcc_s.so.1", "linux-vdso.so.1",      "[vdso]",    "libc.musl-x86_64.so.1"};
    static const char *const others[] = {
        "lua5.4", "libsqlite3.so.0", "libcrypto.so.3", "libmagic.so.1", "libcurl.so.4", "s", "d"};
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++)
        assert_false(plan_select_image(runtimes[i], NULL, 0));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(plan_select_image(others[i], NULL, 0));
}

static void globs_choose_images(void **state)
{
    (void)state;
    const char *const globs[] = {"libpng*", "libc.so.6"}, *const all[] = {"all"};
    assert_true(plan_select_image("libpng16.so.16", globs, 2));
    assert_true(plan_select_image("libc.so.6", globs, 2));
    assert_false(plan_select_image("libz.so.1", globs, 2));
    assert_true(plan_select_image("libm.so.6", all, 1));
}

static void globs_leave_images_out(void **state)
{
    (void)state;
    const char *const out[] = {"!libcrypto.so*", "!libssl.so*"}, *const mixed[] = {"all", "!libc.so.6"},
                      *const both[] = {"!libpng16*", "libpng*"};
    assert_false(plan_select_image("libcrypto.so.3", out, 2));
    assert_false(plan_select_image("libssl.so.3", out, 2));
    assert_true(plan_select_image("libz.so.1", out, 2));
    assert_false(plan_select_image("libc.so.6", out, 2)); /* by default */
    assert_false(plan_select_image("libc.so.6", mixed, 2));
    assert_true(plan_select_image("libm.so.6", mixed, 2));
    assert_false(plan_select_image("libpng16.so.16", both, 2));
    assert_true(plan_select_image("libpng12.so.0", both, 2));
    assert_false(plan_select_image("libz.so.1", both, 2));
    assert_true(plan_select_leaves_out("libpng16.so.16", both, 2));
    assert_false(plan_select_leaves_out("libz.so.1", both, 2));
    assert_false(plan_select_leaves_out("libz.so.1", NULL, 0));
}

/* gamma calls alpha and beta, alpha calls beta; alpha's address is taken. */
static void expect(const char *glob, const char *wanted)
{
    struct plan_elf elf = {0};
    struct plan plan;
    uint8_t bytes[64], got[8], named[3];
    static const char *const names[] = {"alpha", "_ZN2ns4betaEv", "gamma"};
    static const char *const texts[] = {"e8 0b 00 00 00 c3    ; 0x1000: call beta",
                                        "48 8d 05 e9 ff ff ff c3 ; 0x1010: lea rax, alpha",
                                        "e8 db ff ff ff e8 e6 ff ff ff c3 ; 0x1020: call alpha, call beta"};
    for (unsigned i = 0; i < 3; i++) {
        size_t size = stub_bytes_read(texts[i], bytes, sizeof bytes);
        plan_elf_function(&elf, names[i], bytes, size, 1);
        plan_elf_fill(&elf, 0xcc, 16 - size);
    }
    struct elf_image *image = plan_elf_image(&elf);
    assert_int_equal(plan_make(image, NULL, &plan, NULL), BASE_OK);
    assert_int_equal(plan.header->site_count, 3);
    assert_int_equal(plan.header->hook_count, 1);
    bool found = false;
    struct plan_select_names select = {.globs = &glob, .glob_count = 1, .found = &found};
    plan_select_functions(&plan, &select, named);
    plan_select_names(&plan, &select, named, got);
    assert_int_equal(found, strcmp(glob, "nothing") != 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(got[i], wanted[i] - '0');
    plan_free(&plan);
    elf_image_close(image);
    plan_elf_free(&elf);
}

static void names_choose_callers_and_callees(void **state)
{
    (void)state;
    expect("*", "1111");
    expect("gamma", "0111");
    expect("alpha", "1101");
    expect("ns::beta", "1011"); /* as written */
    expect("ns::b*()", "1011");
    expect("nothing", "0000");
}

/* Each glob that matches is marked, though the first has already decided. */
static void names_that_some_function_has(void **state)
{
    (void)state;
    static const char *const globs[] = {"ns::*", "ns::beta", "gamma"};
    bool found[3] = {false};
    struct plan_select_names select = {.globs = globs, .glob_count = 3, .found = found};
    assert_true(plan_select_name(&select, "_ZN2ns4betaEv"));
    assert_false(plan_select_name(&select, ""));
    assert_false(plan_select_name(&select, NULL));
    assert_true(found[0] && found[1] && !found[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runtimes_are_left_out),        cmocka_unit_test(globs_choose_images),
        cmocka_unit_test(globs_leave_images_out),       cmocka_unit_test(names_choose_callers_and_callees),
        cmocka_unit_test(names_that_some_function_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
