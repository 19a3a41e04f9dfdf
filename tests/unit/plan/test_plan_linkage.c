/* Stubs of linkage tables: found in programs that are linked in four ways, by what they jump through; and
 * none where there are none.
 *
 *     test_plan plan_linkage LAZY NOW IBT NOPLT (tests/programs/calls_linkage.c) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_linkage.h"
#include "plan_slots.h"

static char **programs;

static struct elf_image *opened(const char *path)
{
    struct base_error error = {0};
    struct elf_image *image;
    assert_int_equal(elf_image_open(path, &image, &error), BASE_OK);
    return image;
}

/* The slot's name, by the last bytes of the stub: jmp [rip+disp32]. */
static const char *slot_of(const struct plan_hookable *stub, const struct plan_slots *slots)
{
    int32_t displacement;
    assert_true(stub->length >= 6 && stub->length < sizeof stub->old);
    assert_int_equal(stub->old[stub->length - 6], 0xff);
    assert_int_equal(stub->old[stub->length - 5], 0x25);
    memcpy(&displacement, stub->old + stub->length - 4, sizeof displacement);
    const char *name = plan_slots_name(slots, stub->address + stub->length + (uint64_t)(int64_t)displacement);
    return name != NULL ? name : "";
}

static const struct plan_function_request requests[] = {{.name = "linkage_plain@plt"},
                                                        {.name = "linkage_caller@plt"},
                                                        {.name = "linkage_plain"},
                                                        {.name = "linkage_nobody@plt"},
                                                        {.name = "linkage_ifunc@plt", .image = "/nowhere*"}};
enum { REQUESTS = sizeof requests / sizeof *requests };

static void check(const char *path, size_t wanted)
{
    struct elf_image *image = opened(path);
    struct plan_functions found = {0};
    struct plan_slots slots;
    struct base_error error = {0};
    assert_int_equal(plan_slots_make(image, &slots, &error), BASE_OK);
    assert_int_equal(plan_linkage_add(image, path, requests, REQUESTS, &found, &error), BASE_OK);
    assert_int_equal(found.count, wanted);
    for (size_t i = 0; i < found.count; i++) {
        const struct plan_hookable *stub = &found.items[i];
        size_t available;
        const uint8_t *bytes = elf_image_at(image, stub->address, &available);
        assert_true(bytes != NULL && available >= stub->length && !memcmp(bytes, stub->old, stub->length));
        assert_int_equal(stub->reason, STUB_FINE);
        assert_true(stub->request < 2);
        assert_string_equal(stub->name, requests[stub->request].name);
        const char *name = slot_of(stub, &slots);
        assert_int_equal(strncmp(name, stub->name, strlen(name)), 0);
        assert_string_equal(stub->name + strlen(name), "@plt");
        assert_true(i == 0 || found.items[i - 1].address < stub->address);
    }
    plan_functions_free(&found);
    plan_slots_free(&slots);
    elf_image_close(image);
}

static void test_programs(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        check(programs[i], 2);
    check(programs[3], 0);
}

/* Nothing is looked for, and what is there stays, when no request is one for a stub. */
static void test_no_request(void **state)
{
    (void)state;
    struct elf_image *image = opened(programs[0]);
    struct plan_functions found = {0};
    struct base_error error = {0};
    assert_int_equal(plan_linkage_add(image, programs[0], requests + 2, 1, &found, &error), BASE_OK);
    assert_int_equal(found.count, 0);
    assert_int_equal(plan_linkage_add(image, programs[0], requests, 1, &found, &error), BASE_OK);
    assert_int_equal(found.count, 1);
    assert_int_equal(plan_linkage_add(image, programs[0], requests + 1, 1, &found, &error), BASE_OK);
    assert_int_equal(found.count, 2);
    plan_functions_free(&found);
    elf_image_close(image);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs), cmocka_unit_test(test_no_request)};
    if (argc != 5)
        return 2;
    programs = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
