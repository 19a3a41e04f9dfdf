/* test_slab_live.c - a whole library, planned from its file and patched where it lies in this process: it
 * must compute what it computed before, every function's calls must add up to what it counted itself, and
 * undoing gives the text back.
 *
 *     test_slab slab_live LIBRARY...
 *
 * A function's calls: its direct sites' counters, and its hook's; a call through the linkage table or a moved
 * indirect one is seen by both, so slots and unknown callees are left to the hook. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "slab_subject.h"

#define FUNCTIONS 14
#define ROUNDS    200

static char **libraries;

struct subject {
    struct slab_subject patched;
    uint64_t (*run)(uint64_t);
    uint64_t *entered;
    const void *const *functions;
};

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static void load(struct subject *subject, const char *path)
{
    slab_subject_load(&subject->patched, path);
    *(void **)&subject->run = slab_subject_symbol(&subject->patched, "fixture_run");
    subject->entered = slab_subject_symbol(&subject->patched, "fixture_entered");
    subject->functions = slab_subject_symbol(&subject->patched, "fixture_functions");
}

static void prepare(struct subject *subject, enum stub_form form)
{
    slab_subject_prepare(&subject->patched, form, address_of(subject->run));
}

static bool is_resolved_to(const struct slab_subject *subject, const struct plan_site *site, uint64_t address)
{
    return subject->resolves && site->slot != 0 && stub_x86_64_site_is_direct((enum stub_kind)site->kind) &&
           slab_subject_slot(subject, site->slot) == address;
}

/* What a block holds about the function that starts at `address`. */
static uint64_t calls_of(const struct slab_subject *subject, const struct stub_block *block, uint64_t address)
{
    const struct plan *plan = &subject->plan;
    uint32_t function = plan_function_at(plan, address - subject->bias);
    uint64_t calls = 0;
    assert_int_not_equal(function, PLAN_NONE);
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        if (subject->slab.stubs[i] != 0 &&
            (plan->sites[i].callee == function || is_resolved_to(subject, &plan->sites[i], address)))
            calls += block->counters[plan_site_word(i)];
    uint32_t hook = plan->functions[function].hook;
    return calls + (hook != PLAN_NONE ? slab_subject_hook_calls(subject, block, hook) : 0);
}

static void counts_equal_the_truth(void **state)
{
    (void)state;
    for (char **library = libraries; *library != NULL; library++) {
        for (int turn = 0; turn < 6; turn++) {
            enum stub_form form = (enum stub_form)(turn / 2);
            struct subject subject;
            load(&subject, *library);
            subject.patched.resolves = turn % 2 == 1;
            uint64_t expected = subject.run(ROUNDS);
            prepare(&subject, form);
            memset(subject.entered, 0, 64 * sizeof *subject.entered);
            if (form == STUB_THREAD)
                slab_subject_use_block(slab_subject_block(&subject.patched));
            slab_subject_write(&subject.patched, false);
            uint64_t result = subject.run(ROUNDS);
            slab_subject_write(&subject.patched, true);
            slab_subject_use_block(NULL);
            assert_int_equal(result, expected);
            for (unsigned i = 0; i < FUNCTIONS; i++)
                assert_int_equal(calls_of(&subject.patched, slab_subject_block(&subject.patched),
                                          address_of(subject.functions[i])),
                                 subject.entered[i]);
            assert_int_equal(subject.run(ROUNDS), expected); /* undone */
            slab_subject_unload(&subject.patched);
        }
    }
}

/* Two threads at once: LOCK shares one block, THREAD has one each. */
struct worker {
    struct subject *subject;
    struct stub_block *block;
    uint64_t result;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    if (worker->block != NULL)
        slab_subject_use_block(worker->block);
    worker->result = worker->subject->run(20000);
    return NULL;
}

static void two_threads_lose_nothing(void **state)
{
    (void)state;
    struct subject subject;
    load(&subject, libraries[0]);
    memset(subject.entered, 0, 64 * sizeof *subject.entered);
    uint64_t expected = subject.run(20000), once[FUNCTIONS];
    memcpy(once, subject.entered, sizeof once);
    prepare(&subject, STUB_LOCK);
    pthread_t threads[2];
    struct worker workers[2] = {{.subject = &subject}, {.subject = &subject}};
    slab_subject_write(&subject.patched, false);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    slab_subject_write(&subject.patched, true);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(workers[i].result, expected);
    for (unsigned i = 0; i < FUNCTIONS; i++)
        assert_int_equal(calls_of(&subject.patched, slab_subject_block(&subject.patched),
                                  address_of(subject.functions[i])),
                         2 * once[i]);
    slab_subject_unload(&subject.patched);
}

static void threads_have_blocks_of_their_own(void **state)
{
    (void)state;
    struct subject subject;
    load(&subject, libraries[0]);
    memset(subject.entered, 0, 64 * sizeof *subject.entered);
    uint64_t expected = subject.run(20000), once[FUNCTIONS];
    memcpy(once, subject.entered, sizeof once);
    prepare(&subject, STUB_THREAD);
    struct worker workers[2] = {{.subject = &subject}, {.subject = &subject}};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++)
        workers[i].block = slab_subject_new_block();
    slab_subject_write(&subject.patched, false);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    slab_subject_write(&subject.patched, true);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(workers[i].result, expected);
        for (unsigned j = 0; j < FUNCTIONS; j++)
            assert_int_equal(calls_of(&subject.patched, workers[i].block, address_of(subject.functions[j])),
                             once[j]);
        slab_subject_free_block(workers[i].block);
    }
    slab_subject_unload(&subject.patched);
}

/* Makes the writes of `slab` come after those of `before`, which stay in place: their old bytes become what
 * `before` wrote. Both lists are in order. False: `before` has writes that `slab` has not. */
static bool follow(struct slab *slab, const struct slab *before)
{
    size_t at = 0;
    bool all = true;
    for (size_t i = 0; i < before->write_count; i++) {
        const struct slab_write *earlier = &before->writes[i];
        while (at < slab->write_count && slab->writes[at].address < earlier->address)
            at++;
        if (at < slab->write_count && slab->writes[at].address == earlier->address &&
            slab->writes[at].length == earlier->length)
            memcpy(slab->writes[at].old, earlier->fresh, sizeof earlier->fresh);
        else
            all = false;
    }
    return all;
}

/* PLAIN first, then THREAD without going back: a second slab, whose writes follow the first one's. */
static void another_form_follows(void **state)
{
    (void)state;
    struct subject first, second;
    load(&first, libraries[0]);
    uint64_t expected = first.run(ROUNDS);
    prepare(&first, STUB_PLAIN);
    load(&second, libraries[0]);
    prepare(&second, STUB_THREAD);
    assert_true(follow(&second.patched.slab, &first.patched.slab));
    slab_subject_write(&first.patched, false);
    assert_int_equal(first.run(ROUNDS), expected);
    slab_subject_use_block(slab_subject_block(&second.patched));
    slab_subject_write(&second.patched, false);
    memset(first.entered, 0, 64 * sizeof *first.entered);
    assert_int_equal(first.run(ROUNDS), expected);
    for (unsigned i = 0; i < FUNCTIONS; i++)
        assert_int_equal(
            calls_of(&second.patched, slab_subject_block(&second.patched), address_of(second.functions[i])),
            first.entered[i]);
    slab_subject_write(&second.patched, true);
    slab_subject_write(&first.patched, true);
    slab_subject_use_block(NULL);
    assert_int_equal(first.run(ROUNDS), expected);
    slab_subject_unload(&second.patched);
    slab_subject_unload(&first.patched);
}

/* Every function of the fixture is covered; nothing else is required of a compiler. */
static void all_is_covered(void **state)
{
    (void)state;
    for (char **library = libraries; *library != NULL; library++) {
        struct subject subject;
        load(&subject, *library);
        const struct plan_header *header = subject.patched.plan.header;
        print_message("# %s: %lu of %lu sites, %lu of %lu hooks, %lu of %lu functions\n", *library,
                      header->planned, header->found, header->hooked, header->taken, header->covered,
                      header->callable);
        for (unsigned i = 0; i < FUNCTIONS; i++) {
            uint32_t function = plan_function_at(&subject.patched.plan,
                                                 address_of(subject.functions[i]) - subject.patched.bias);
            assert_int_not_equal(function, PLAN_NONE);
            assert_int_equal(subject.patched.plan.functions[function].reason, STUB_FINE);
        }
        plan_free(&subject.patched.plan);
        dlclose(subject.patched.handle);
    }
}

/* Where calls of an export go through a linkage stub, they are sites, and only others may need the hook. A
 * word that has the address (-fno-plt) may be read by anybody. */
static void exports_called_through_stubs_are_only_offered(void **state)
{
    (void)state;
    for (char **library = libraries; *library != NULL; library++) {
        struct subject subject;
        load(&subject, *library);
        const struct plan *plan = &subject.patched.plan;
        uint64_t offered = address_of(slab_subject_symbol(&subject.patched, "fixture_offered"));
        uint64_t exported = address_of(slab_subject_symbol(&subject.patched, "fixture_exported"));
        uint32_t function = plan_function_at(plan, offered - subject.patched.bias);
        bool by_stub = strstr(*library, "O3") == NULL && strstr(*library, "Os") == NULL;
        assert_int_not_equal(plan->functions[function].hook, PLAN_NONE);
        assert_int_equal((plan->functions[function].facts & PLAN_FUNCTION_OFFERED) != 0, by_stub);
        function = plan_function_at(plan, exported - subject.patched.bias);
        assert_int_equal(plan->functions[function].facts & PLAN_FUNCTION_OFFERED, 0); /* in a table too */
        plan_free(&subject.patched.plan);
        dlclose(subject.patched.handle);
    }
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_equal_the_truth),
        cmocka_unit_test(two_threads_lose_nothing),
        cmocka_unit_test(threads_have_blocks_of_their_own),
        cmocka_unit_test(another_form_follows),
        cmocka_unit_test(all_is_covered),
        cmocka_unit_test(exports_called_through_stubs_are_only_offered),
    };
    if (argument_count < 2)
        return 2;
    libraries = arguments + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
