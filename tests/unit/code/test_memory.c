/* Every allocation of a survey fails once (argv[1]: the fixture): an error says so, nothing is left behind,
 * and the same again without a failure works. Linked with --wrap, so that the module's own allocations come
 * here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "code_by_file.h"
#include "failing.h"

static const char *path;

static int survey(struct code_by_file *file, struct base_error *error)
{
    int code = code_bounds_add_symbols(&file->bounds, file->image, error);
    if (code == BASE_OK)
        code = code_functions_make(&file->bounds, file->image, &file->functions, error);
    if (code == BASE_OK)
        code = code_survey_make(file->image, &file->functions, NULL, &file->survey, error);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    unsigned failures = 0;
    int code = BASE_ENOMEM;
    (void)state;
    while (code != BASE_OK) {
        struct code_by_file file = {.image = NULL};
        struct base_error error = {""};
        assert_int_equal(elf_image_open(path, &file.image, NULL), BASE_OK);
        failing_begin(failures + 1);
        code = survey(&file, &error);
        bool all_done = failing_end() <= failures;
        if (code != BASE_OK) {
            assert_int_equal(code, BASE_ENOMEM);
            assert_non_null(strstr(error.text, "out of memory"));
            assert_null(file.survey);
        } else {
            assert_true(all_done);
            assert_true(file.survey->site_count > 50);
        }
        code_by_file_close(&file);
        failures += code != BASE_OK;
    }
    print_message("# %u allocations\n", failures);
    assert_true(failures > 20);
}

static void a_function_may_find_no_memory(void **state)
{
    static const uint8_t bytes[] = {0x90, 0xc3};
    struct code_piece piece = {0x1000, bytes, sizeof bytes};
    struct code_text text = {&piece, 1};
    struct code_instructions all = {NULL, 0, 0};
    uint64_t where;
    (void)state;
    failing_begin(1);
    assert_int_equal(code_instructions_decode(&text, 0x1000, 0x1002, &all, &where), BASE_ENOMEM);
    failing_end();
    assert_int_equal(code_instructions_decode(&text, 0x1000, 0x1002, &all, &where), CODE_VERDICT_FINE);
    assert_int_equal(all.count, 2);
    code_instructions_free(&all);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_function_may_find_no_memory),
    };
    if (argc < 2)
        return 2;
    path = argv[1];
    return cmocka_run_group_tests_name("code_memory", tests, NULL, NULL);
}
