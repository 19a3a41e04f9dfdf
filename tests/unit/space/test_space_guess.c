/* Which sites guess, and which callees: by what a block says that they have called. The library is a real
 * one, planned from its file, and its stubs are made where nobody goes through them.
 *
 *     test_space space_guess FIXTURE TAILS */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "space_guess.h"
#include "space_made.h"

#define MANY 1000000

static char **libraries;

struct subject {
    void *handle;
    struct space_made *calls;
    struct space_object *object;
    unsigned entries;
};

static struct subject begin(const char *library)
{
    struct subject subject = {.handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL)};
    struct base_error error = {0};
    assert_non_null(subject.handle);
    subject.calls = space_made_new(NULL);
    assert_non_null(subject.calls);
    assert_int_equal(space_made_build(subject.calls, &error), BASE_OK);
    subject.object = &subject.calls->space->objects[0];
    return subject;
}

static void finish(struct subject *subject)
{
    space_made_free(subject->calls);
    dlclose(subject->handle);
}

static void put_word(const struct subject *subject, uint64_t at, uint64_t value)
{
    assert_int_equal(pwrite(subject->calls->file, &value, 8, (off_t)at), 8);
}

static void count(const struct subject *subject, uint32_t site, uint64_t calls)
{
    put_word(subject, 8ull * space_made_site_word(subject->object, site), calls);
}

static void arrival(struct subject *subject, const char *callee, uint64_t from, uint64_t calls)
{
    uint64_t at = SLAB_BLOCK_TABLES + 32 + 32ull * subject->entries++;
    put_word(subject, at, from);
    put_word(subject, at + 8, 8ull * space_made_hook_word(subject->object, callee));
    put_word(subject, at + 16, calls);
}

static bool marks(struct subject *subject)
{
    return space_guess_mark(subject->calls->space);
}

static void nothing_is_guessed(struct subject *subject)
{
    assert_false(marks(subject));
    assert_int_equal(subject->object->guess_count, 0);
    assert_false(subject->object->stale);
}

/* A stub that guesses is longer than the same stub in `before`. */
static size_t room(const struct slab *slab, uint32_t site)
{
    uint64_t end = slab->stubs_end;
    for (uint32_t i = slab->plan->header->site_count; i-- > site + 1;)
        end = slab->stubs[i] ? slab->stubs[i] : end;
    return (size_t)(end - slab->stubs[site]);
}

static void one_callee_is_guessed(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0]);
    struct space *space = subject.calls->space;
    uint32_t site = space_made_site(subject.object, "through_object", NULL), end = space->word_end;
    uint64_t from = space_made_return(subject.object, site);
    count(&subject, site, MANY);
    arrival(&subject, "one", from, MANY / 100 * 80);
    arrival(&subject, "two", from, MANY / 100 * 20);
    assert_true(marks(&subject));
    assert_int_equal(subject.object->guess_count, 1);
    assert_true(subject.object->stale);
    const struct slab_guess *guess = &subject.object->guesses[0];
    const struct plan *plan = &subject.object->planned->plan;
    assert_int_equal(guess->site, site);
    assert_int_equal(guess->hook, plan->functions[space_made_function(subject.object, "one")].hook);
    assert_int_equal(subject.object->base + guess->word, end);
    assert_int_equal(space->word_end, end + 1);
    struct space_patch *before = subject.object->patch;
    struct base_error error = {0};
    assert_int_equal(space_made_build(subject.calls, &error), BASE_OK);
    assert_true(room(&subject.object->patch->slab, site) > room(&before->slab, site) + 20);
    assert_null(subject.object->patch->slab.guesses);
    space_patch_release(before);
    subject.object->stale = false;
    assert_false(marks(&subject)); /* it has its guess */
    assert_int_equal(subject.object->guess_count, 1);
    finish(&subject);
}

static void a_jump_is_known_by_its_mark(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[1]);
    uint32_t jump = space_made_site(subject.object, "jumps_0", NULL);
    count(&subject, jump, MANY);
    arrival(&subject, "jumps_3", ~(uint64_t)space_made_site_word(subject.object, jump), MANY);
    assert_true(marks(&subject));
    assert_int_equal(subject.object->guess_count, 1);
    assert_int_equal(subject.object->guesses[0].site, jump);
    finish(&subject);
}

static void what_is_not_worth_it_is_left(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0]);
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    uint64_t from = space_made_return(subject.object, site);
    arrival(&subject, "one", from, MANY / 10); /* too few */
    nothing_is_guessed(&subject);
    arrival(&subject, "one", from, MANY);
    count(&subject, site, 10 * MANY); /* most went where no hook is */
    nothing_is_guessed(&subject);
    count(&subject, site, 2 * MANY);
    arrival(&subject, "two", from, MANY); /* half of them */
    nothing_is_guessed(&subject);
    finish(&subject);
}

/* Direct sites go past hooks anyway; return addresses of nobody's, hooks of nobody's. */
static void what_cannot_guess_is_left(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0]);
    uint32_t direct = space_made_site(subject.object, "three", "leaf");
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    arrival(&subject, "one", space_made_return(subject.object, direct), MANY);
    arrival(&subject, "one", 0x1234, MANY);
    arrival(&subject, "one", UINT64_C(1) << 63, MANY);
    arrival(&subject, "one", ~UINT64_C(0), MANY);
    nothing_is_guessed(&subject);
    arrival(&subject, "one", space_made_return(subject.object, site), MANY);
    count(&subject, site, MANY);
    subject.object->live = false;
    nothing_is_guessed(&subject);
    subject.object->live = true;
    subject.object->window_count = 1; /* no room for one more slab */
    nothing_is_guessed(&subject);
    subject.object->window_count = 0;
    subject.calls->space->arenas[0].code->top = subject.calls->space->arenas[0].code->used;
    nothing_is_guessed(&subject);
    finish(&subject);
}

static void numbers_may_run_out(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0]);
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    count(&subject, site, MANY);
    arrival(&subject, "one", space_made_return(subject.object, site), MANY);
    assert_true(marks(&subject));
    subject.calls->space->word_end = SLAB_BLOCK_WORDS; /* no number is left */
    subject.object->guess_count = 0;
    marks(&subject);
    assert_int_equal(subject.object->guess_count, 0);
    finish(&subject);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_callee_is_guessed),        cmocka_unit_test(a_jump_is_known_by_its_mark),
        cmocka_unit_test(what_is_not_worth_it_is_left), cmocka_unit_test(what_cannot_guess_is_left),
        cmocka_unit_test(numbers_may_run_out),
    };
    if (argument_count < 3)
        return 2;
    libraries = arguments + 1;
    return cmocka_run_group_tests(tests, space_made_begin_tests, space_made_end_tests);
}
