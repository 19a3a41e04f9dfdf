/* Which function is named to somebody who named one that is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "symbol_near.h"

static void expect(const struct symbol_near *near, const char *pattern, const char *wanted)
{
    const char *found = symbol_near_find(near, pattern);
    if (wanted && found)
        assert_string_equal(found, wanted);
    else if (wanted || found)
        fail_msg("%s: found %s, wanted %s", pattern, found ? found : "nothing", wanted ? wanted : "nothing");
}

static void the_same_word_goes_before_few_differences(void **state)
{
    static const char *const names[] = {"_ZN4Shop5totalEl",
                                        "_ZNK4shop4Till5totalEv",
                                        "tota",
                                        "parse_line.isra.0",
                                        "_ZN4Shop5orderEv",
                                        "_RNvC5crate4work",
                                        "_ZN2ns3maxIiEET_S1_S1_",
                                        "_ZN4Shopixl",
                                        "main"};
    struct symbol_near near = {0};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        symbol_near_add(&near, names[i]);
    expect(&near, "total", "Shop::total");
    expect(&near, "Shop::total(int)", "Shop::total");
    expect(&near, "shop::Tills::total", "shop::Till::total");
    expect(&near, "Shop::oder", "Shop::order");
    expect(&near, "parse_lime", "parse_line");
    expect(&near, "max<char>", "ns::max");
    expect(&near, "work", "crate::work");
    expect(&near, "Shop::t*", NULL);
    expect(&near, "nothing_of_the_kind", NULL);
    expect(&near, "", NULL);
    symbol_near_free(&near);
    expect(&near, "total", NULL);
}

static void there_is_a_limit(void **state)
{
    struct symbol_near near = {0};
    char name[32];
    (void)state;
    for (unsigned i = 0; i < SYMBOL_NEAR_MOST + 2u; i++) {
        snprintf(name, sizeof name, "f_%u_f", i);
        symbol_near_add(&near, name);
    }
    assert_int_equal(near.count, SYMBOL_NEAR_MOST);
    symbol_near_free(&near);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_word_goes_before_few_differences),
        cmocka_unit_test(there_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
