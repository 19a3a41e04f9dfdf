/* What is the same in two recordings: images by name, build, version, functions; functions by name without
 * what compilers append. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diff_match.h"

/* --- names --- */

static void plain_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"work", "work"},
        {"work.cold", "work"},
        {"work.part.0", "work"},
        {"work.constprop.12", "work"},
        {"work.isra.0.cold", "work"},
        {"work.part.3.lto_priv.7.cold", "work"},
        {"work.llvm.1234567890", "work"},
        {"parse(std::istream&) [clone .cold]", "parse(std::istream&)"},
        {"parse(int) [clone .isra.0] [clone .cold]", "parse(int)"},
        {"memcpy@@GLIBC_2.14", "memcpy"},
        {"memcpy@GLIBC_2.2.5", "memcpy"},
        {"puts@plt", "puts@plt"},
        {".cold", ".cold"},
        {"@odd", "@odd"},
        {"", ""},
        {"a.b", "a.b"},
        {"version.2", "version.2"},
        {"work.cold.", "work.cold."},
        {"f.0", "f.0"},
        {"operator delete(void*)", "operator delete(void*)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_text plain = {0};
        diff_match_plain(cases[i][0], &plain);
        assert_string_equal(base_text_string(&plain), cases[i][1]);
        base_text_free(&plain);
    }
}

/* --- images --- */

struct made {
    struct profile *profile;
    uint32_t counter, image;
};

static struct made make(void)
{
    struct made made = {.profile = profile_new()};
    assert_non_null(made.profile);
    made.counter = profile_counter(made.profile, "time.cpu", "ns", false, PROFILE_SUM);
    return made;
}

/* The address of a function, its image being made too; by name NULL: of nothing. */
static uint32_t place(struct made *made, const char *path, const char *build_id, const char *name,
                      uint64_t start)
{
    struct profile *profile = made->profile;
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, path, build_id, 0);
    uint32_t index = profile_address(profile, image, start + 4);
    struct profile_address address = profile->addresses[index];
    address.function = name ? profile_function(profile, image, name, start, start + 32) : 0;
    profile_set_address(profile, index, &address);
    return index;
}

static uint32_t item_at(struct diff_matcher *matcher, size_t at, uint32_t address)
{
    struct view_entities entities;
    size_t count;
    assert_true(view_entity_init(&entities, matcher->profiles[at], VIEW_DETAIL_FUNCTION));
    const uint32_t *chain = view_entity_chain(&entities, address, &count);
    assert_int_equal(count, 1);
    uint32_t item = diff_match_item(matcher, at, &entities, chain[0]);
    view_entity_free(&entities);
    assert_true(item);
    return item;
}

struct pair {
    struct made old, new;
    const struct profile *profiles[2];
    struct diff_matcher matcher;
};

static void begin(struct pair *pair)
{
    *pair = (struct pair){.old = make(), .new = make()};
    pair->profiles[0] = pair->old.profile;
    pair->profiles[1] = pair->new.profile;
}

static void match(struct pair *pair)
{
    assert_true(diff_match_init(&pair->matcher, pair->profiles, 2, 1));
}

static void end(struct pair *pair)
{
    diff_match_free(&pair->matcher);
    profile_free(pair->old.profile);
    profile_free(pair->new.profile);
}

static bool same(struct pair *pair, uint32_t old, uint32_t new)
{
    return item_at(&pair->matcher, 0, old) == item_at(&pair->matcher, 1, new);
}

static void addresses_move(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair);
    uint32_t old = place(&pair.old, "/bin/x", "aa", "work", 0x1000),
             new = place(&pair.new, "/opt/x", "bb", "work.cold", 0x77000),
             other = place(&pair.new, "/opt/x", "bb", "worker", 0x1000),
             library = place(&pair.new, "/opt/liby.so", "cc", "work", 0x1000);
    match(&pair);
    assert_true(same(&pair, old, new));
    assert_false(same(&pair, old, other));
    assert_false(same(&pair, old, library)); /* of one name, in another image */
    end(&pair);
}

static void functions_of_one_name(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair);
    uint32_t first = place(&pair.old, "/bin/x", "aa", "helper", 0x1000),
             second = place(&pair.old, "/bin/x", "aa", "helper", 0x2000),
             new = place(&pair.new, "/bin/x", "bb", "helper", 0x2000);
    match(&pair);
    assert_true(same(&pair, first, new));
    assert_true(same(&pair, second, new));
    end(&pair);
}

static void versions_differ(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair);
    uint32_t old = place(&pair.old, "/lib/libz.so.1.2.13", "aa", "inflate", 0x1000),
             new = place(&pair.new, "/lib/libz.so.1.3", "bb", "inflate", 0x2000),
             c = place(&pair.old, "/lib/libc-2.31.so", "cc", "memcpy@@GLIBC_2.14", 0x10),
             d = place(&pair.new, "/lib/libc-2.36.so", "dd", "memcpy", 0x20);
    match(&pair);
    assert_true(same(&pair, old, new));
    assert_true(same(&pair, c, d));
    end(&pair);
}

/* Two that only differ in digits on one side: nobody can tell which is which. */
static void versions_are_ambiguous(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair);
    uint32_t old = place(&pair.old, "/lib/plugin1.so", "aa", "run_1", 0x1000),
             one = place(&pair.new, "/lib/plugin2.so", "bb", "run_2", 0x2000);
    place(&pair.new, "/lib/plugin3.so", "cc", "run_3", 0x2000);
    match(&pair);
    assert_false(same(&pair, old, one));
    assert_int_equal(pair.matcher.images[1].same, 1);
    end(&pair);
}

static void images_are_renamed(void **state)
{
    (void)state;
    static const char *const names[] = {"_start", "main", "parse", "solve", "print"};
    struct pair pair;
    uint32_t old[5], new[5];
    begin(&pair);
    for (int i = 0; i < 5; i++) {
        old[i] = place(&pair.old, "/bin/before", "aa", names[i], 0x1000 + 64 * (uint64_t)i);
        new[i] =
            place(&pair.new, "/bin/after", "bb", i == 4 ? "print_all" : names[i], 0x2000 + 64 * (uint64_t)i);
    }
    match(&pair);
    for (int i = 0; i < 5; i++)
        assert_int_equal(same(&pair, old[i], new[i]), i < 4);
    assert_string_equal(diff_match_image_name(&pair.matcher, item_at(&pair.matcher, 1, new[0])), "before");
    end(&pair);
}

/* What every program has does not make two programs one. */
static void other_programs_stay_apart(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair);
    uint32_t old = place(&pair.old, "/bin/cat", "aa", "main", 0x1000),
             new = place(&pair.new, "/bin/dog", "bb", "main", 0x1000);
    place(&pair.old, "/bin/cat", "aa", "_start", 0x900);
    place(&pair.new, "/bin/dog", "bb", "_start", 0x900);
    place(&pair.old, "/bin/cat", "aa", "meow", 0x2000);
    place(&pair.new, "/bin/dog", "bb", "bark", 0x2000);
    match(&pair);
    assert_false(same(&pair, old, new));
    end(&pair);
}

/* A function without a symbol is named by its place: that says who it is in the same build only. */
static void nameless_functions(void **state)
{
    (void)state;
    for (int rebuilt = 0; rebuilt < 2; rebuilt++) {
        struct pair pair;
        begin(&pair);
        uint32_t old = place(&pair.old, "/bin/x", "aa", "x+0x1000", 0x1000),
                 twin = place(&pair.new, "/bin/x", rebuilt ? "bb" : "aa", "x+0x1000", 0x1000),
                 other = place(&pair.new, "/bin/x", rebuilt ? "bb" : "aa", "x+0x2000", 0x2000),
                 bare = place(&pair.new, "/bin/x", rebuilt ? "bb" : "aa", NULL, 0x3000),
                 old_bare = place(&pair.old, "/bin/x", "aa", NULL, 0x4000);
        match(&pair);
        assert_true(same(&pair, old, twin));
        assert_int_equal(same(&pair, old, other), rebuilt);
        assert_true(same(&pair, old_bare, bare));
        assert_false(same(&pair, old, bare));
        end(&pair);
    }
}

/* The same build under another name is the same, whatever it is called and whatever it has. */
static void same_build_other_name(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair);
    uint32_t old = place(&pair.old, "/bin/x", "aa", "x+0x1000", 0x1000),
             new = place(&pair.new, "/tmp/copy", "aa", "copy+0x1000", 0x1000);
    match(&pair);
    assert_true(same(&pair, old, new));
    assert_string_equal(diff_match_name(&pair.matcher, item_at(&pair.matcher, 1, new)), "x+0x1000");
    end(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_names),
        cmocka_unit_test(addresses_move),
        cmocka_unit_test(functions_of_one_name),
        cmocka_unit_test(versions_differ),
        cmocka_unit_test(versions_are_ambiguous),
        cmocka_unit_test(images_are_renamed),
        cmocka_unit_test(other_programs_stay_apart),
        cmocka_unit_test(nameless_functions),
        cmocka_unit_test(same_build_other_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
