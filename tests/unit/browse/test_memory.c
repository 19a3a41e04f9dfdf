/* Every allocation of a visit fails once: the key says so and the model is still one that can be drawn and
 * left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "browse_screen.h"
#include "failing.h"
#include "sample_profile.h"

/* Some keys, one of whose allocations fails. True when it was reached. */
static bool visit(const struct profile *profile, uint64_t failing)
{
    static const uint32_t keys[] = {'1',
                                    '2',
                                    '*',
                                    BROWSE_KEY_ENTER,
                                    BROWSE_KEY_UP,
                                    BROWSE_KEY_ENTER,
                                    'b',
                                    '?',
                                    '?',
                                    '/',
                                    'f',
                                    BROWSE_KEY_ENTER,
                                    'n',
                                    'i',
                                    '2',
                                    '/',
                                    'h',
                                    BROWSE_KEY_ENTER,
                                    'c'};
    struct browse_model model;
    struct browse_screen screen = {0};
    struct base_error error = {0};
    failing_begin(failing + 1);
    int code = browse_model_open(&model, profile, "file", NULL, false, &error);
    for (size_t i = 0; !code && i < sizeof keys / sizeof *keys; i++) {
        error = (struct base_error){0};
        int answer = browse_model_key(&model, keys[i], &error);
        assert_true(answer == BROWSE_STAYS || (answer == BASE_ENOMEM && error.text[0]));
        browse_screen_draw(&screen, &model);
    }
    bool reached = failing_end() > failing;
    if (code) {
        assert_int_equal(code, BASE_ENOMEM);
        assert_true(error.text[0]);
    } else {
        assert_true(browse_screen_draw(&screen, &model));
        browse_model_close(&model);
    }
    browse_screen_free(&screen);
    return reached;
}

static void every_allocation(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    profile_counter(sample.profile, "other", "ns", false, PROFILE_SUM);
    uint64_t failing = 0;
    while (visit(sample.profile, failing))
        failing++;
    assert_true(failing > 200);
    profile_free(sample.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
