/* test_slab_tails.c - tail jumps to functions with hooks: each arrival must be recorded for the jump it
 * came by, as the library itself counts it (fixture_tails.c).
 *
 *     test_slab slab_tails LIBRARY... */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

#include "slab_subject.h"

#define ROUNDS 20000
#define SEED   12345

/* As in fixture_tails.c. */
enum { CALLS = 5, QUIET = 7, EXPORTED, LINKED, RUN, MOST };

struct truth {
    uint64_t from;
    uint64_t pairs[MOST][MOST];
};

static char **libraries;

struct subject {
    struct slab_subject patched;
    uint64_t (*run)(struct truth *, uint64_t, uint64_t);
    uint32_t function[MOST]; /* indices in the plan */
    uint8_t *wanted;
};

static void load_guessing(struct subject *subject, const char *path, enum stub_form form, bool resolves,
                          bool guesses)
{
    struct slab_subject *patched = &subject->patched;
    slab_subject_load(patched, path);
    *(void **)&subject->run = slab_subject_symbol(patched, "tails_run");
    const uint64_t *functions = slab_subject_symbol(patched, "tails_functions");
    const struct plan_header *header = patched->plan.header;
    subject->wanted = malloc(header->site_count + (size_t)header->hook_count);
    assert_non_null(subject->wanted);
    memset(subject->wanted, 1, header->site_count + (size_t)header->hook_count);
    for (unsigned i = 0; i < MOST; i++) {
        subject->function[i] = plan_function_at(&patched->plan, functions[i] - patched->bias);
        assert_int_not_equal(subject->function[i], PLAN_NONE);
    }
    for (unsigned i = 0; i < RUN; i++)
        assert_int_not_equal(patched->plan.functions[subject->function[i]].hook, PLAN_NONE);
    subject->wanted[header->site_count + patched->plan.functions[subject->function[QUIET]].hook] = 0;
    patched->resolves = resolves;
    patched->guesses = guesses;
    patched->wanted = subject->wanted;
    slab_subject_prepare(patched, form, (uint64_t)(uintptr_t)subject->run);
}

static void load(struct subject *subject, const char *path, enum stub_form form, bool resolves)
{
    load_guessing(subject, path, form, resolves, false);
}

static void unload(struct subject *subject)
{
    slab_subject_unload(&subject->patched);
    free(subject->wanted);
}

/* What hook of function `to` recorded from the sites of function `from`: marks of its jumps, return addresses
 * of its calls. */
static uint64_t recorded(const struct subject *subject, const struct stub_block *block, unsigned from,
                         unsigned to)
{
    const struct plan *plan = &subject->patched.plan;
    uint32_t hook = plan->functions[subject->function[to]].hook;
    uint64_t calls = 0;
    for (uint32_t i = 0; i < plan->header->site_count; i++) {
        const struct plan_site *site = &plan->sites[i];
        uint64_t index = STUB_BLOCK_WORDS + (uint64_t)plan_site_word(i);
        bool is_jump = stub_x86_64_site_is_jump((enum stub_kind)site->kind);
        uint64_t key = is_jump ? ~index : site->address + site->length + subject->patched.bias;
        if (site->function == subject->function[from])
            calls += slab_subject_hook_calls_from(&subject->patched, block, hook, key) +
                     slab_subject_guessed(&subject->patched, block, i, hook);
    }
    return calls;
}

/* Calls of tails_exported by function `from`, counted at the sites when those go past its hook. */
static uint64_t counted_at_sites(const struct subject *subject, const struct stub_block *block, unsigned from)
{
    const struct plan *plan = &subject->patched.plan;
    uint64_t calls = 0;
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        if (plan->sites[i].function == subject->function[from] && plan->sites[i].slot != 0 &&
            stub_x86_64_site_is_direct((enum stub_kind)plan->sites[i].kind))
            calls += block->counters[plan_site_word(i)];
    return calls;
}

static uint64_t arrivals(const struct truth *truth, unsigned at)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < MOST; i++)
        sum += truth->pairs[i][at];
    return sum;
}

static void pairs_are_true(const struct subject *subject, const struct stub_block *block,
                           const struct truth *truth)
{
    for (unsigned to = 0; to < RUN; to++) {
        if (to == QUIET)
            continue;
        for (unsigned from = 0; from < MOST; from++) {
            uint64_t calls = recorded(subject, block, from, to);
            if (to == EXPORTED && subject->patched.resolves)
                calls += counted_at_sites(subject, block, from);
            if (calls != truth->pairs[from][to])
                fail_msg("from %u to %u: %lu, not %lu", from, to, calls, truth->pairs[from][to]);
        }
    }
}

/* Whatever the pairs are: all arrivals are there. */
static void sums_are_true(const struct subject *subject, const struct stub_block *block,
                          const struct truth *truth)
{
    for (unsigned to = 0; to < RUN; to++) {
        uint32_t hook = subject->patched.plan.functions[subject->function[to]].hook;
        uint64_t calls = slab_subject_hook_calls(&subject->patched, block, hook) +
                         slab_subject_guessed(&subject->patched, block, PLAN_NONE, hook);
        for (unsigned from = 0; to == EXPORTED && subject->patched.resolves && from < MOST; from++)
            calls += counted_at_sites(subject, block, from);
        if (to != QUIET)
            assert_int_equal(calls, arrivals(truth, to));
    }
}

static bool has_marks(const struct subject *subject, const struct stub_block *block)
{
    const struct plan *plan = &subject->patched.plan;
    const struct stub_table *table = (const void *)(uintptr_t)block->table;
    for (uint64_t i = 0; i <= table->mask; i++)
        if (stub_block_is_mark(table->entries[i].return_address))
            return true;
    for (uint32_t i = 0; i < plan->header->hook_count; i++)
        if (stub_block_is_mark(block->counters[plan_hook_word(plan, i)]))
            return true;
    return false;
}

static void run_patched(struct subject *subject, struct truth *truth)
{
    struct truth plain = {0};
    uint64_t expected = subject->run(&plain, SEED, ROUNDS);
    if (subject->patched.slab.counter.form == STUB_THREAD)
        slab_subject_use_block(slab_subject_block(&subject->patched));
    slab_subject_write(&subject->patched, false);
    uint64_t result = subject->run(truth, SEED, ROUNDS);
    slab_subject_write(&subject->patched, true);
    slab_subject_use_block(NULL);
    assert_int_equal(result, expected);
    assert_memory_equal(truth->pairs, plain.pairs, sizeof plain.pairs);
}

/* Every pair of the truth occurs, or the test would say little. */
static void truth_is_rich(const struct truth *truth)
{
    for (unsigned from = 0; from <= RUN; from++)
        for (unsigned to = 0; to < EXPORTED && from < QUIET; to++)
            assert_true(truth->pairs[from][to] > 10);
    assert_true(truth->pairs[LINKED][EXPORTED] > 10);
    assert_true(truth->pairs[RUN][EXPORTED] > 10);
}

static void arrivals_have_their_jumps(void **state)
{
    (void)state;
    for (char **library = libraries; *library != NULL; library++)
        for (enum stub_form form = STUB_PLAIN; form <= STUB_THREAD; form++)
            for (int resolves = 0; resolves < 2; resolves++) {
                struct subject subject;
                struct truth truth = {0};
                load(&subject, *library, form, resolves != 0);
                run_patched(&subject, &truth);
                truth_is_rich(&truth);
                pairs_are_true(&subject, slab_subject_block(&subject.patched), &truth);
                sums_are_true(&subject, slab_subject_block(&subject.patched), &truth);
                unload(&subject);
            }
}

static uint64_t all_guessed(const struct subject *subject, const struct stub_block *block)
{
    uint64_t calls = 0;
    for (uint32_t i = 0; i < subject->patched.plan.header->hook_count; i++)
        calls += slab_subject_guessed(&subject->patched, block, PLAN_NONE, i);
    return calls;
}

/* Right ones and wrong ones, of calls and of jumps; one tries the function that has no hook. */
static void guesses_count_the_same_pairs(void **state)
{
    (void)state;
    for (char **library = libraries; *library != NULL; library++)
        for (enum stub_form form = STUB_PLAIN; form <= STUB_LOCK; form++) {
            struct subject subject;
            struct truth truth = {0};
            load_guessing(&subject, *library, form, true, true);
            const struct stub_block *block = slab_subject_block(&subject.patched);
            run_patched(&subject, &truth);
            if (form != STUB_LOCK)
                pairs_are_true(&subject, block, &truth);
            sums_are_true(&subject, block, &truth);
            assert_true(all_guessed(&subject, block) > 100);
            unload(&subject);
        }
}

/* Threads may share the block: no marks, all arrivals. */
static void the_locked_form_marks_nothing(void **state)
{
    (void)state;
    struct subject subject;
    struct truth truth = {0};
    load(&subject, libraries[0], STUB_LOCK, false);
    run_patched(&subject, &truth);
    assert_false(has_marks(&subject, slab_subject_block(&subject.patched)));
    sums_are_true(&subject, slab_subject_block(&subject.patched), &truth);
    unload(&subject);
}

/* Makes the slab again, with stubs for jumps alone. */
static void leave_calls_alone(struct subject *subject)
{
    struct slab_subject *patched = &subject->patched;
    const struct plan *plan = &patched->plan;
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        subject->wanted[i] = stub_x86_64_site_is_jump((enum stub_kind)plan->sites[i].kind);
    slab_free(&patched->slab);
    for (size_t i = 0; i < patched->region_count; i++)
        patched->regions[i].used = 0;
    assert_int_equal(slab_make(&patched->slab, NULL), BASE_OK);
}

/* The worst case: no call has a stub, so no call removes a mark that the function without a hook left. What
 * the header says: such a call may be recorded for a jump, but every arrival is there. */
static void calls_without_stubs_keep_the_sums(void **state)
{
    (void)state;
    struct subject subject;
    struct truth truth = {0};
    load(&subject, libraries[0], STUB_PLAIN, false);
    leave_calls_alone(&subject);
    run_patched(&subject, &truth);
    sums_are_true(&subject, slab_subject_block(&subject.patched), &truth);
    unload(&subject);
}

/* And with a hook everywhere: each mark is taken, and then it is gone, so that nothing needs to remove it. */
static void a_mark_is_taken_once(void **state)
{
    (void)state;
    for (enum stub_form form = STUB_PLAIN; form <= STUB_THREAD; form++) {
        struct subject subject;
        struct truth truth = {0};
        load(&subject, libraries[0], form, false);
        const struct plan *plan = &subject.patched.plan;
        subject.wanted[plan->header->site_count + plan->functions[subject.function[QUIET]].hook] = 1;
        leave_calls_alone(&subject);
        run_patched(&subject, &truth);
        pairs_are_true(&subject, slab_subject_block(&subject.patched), &truth);
        unload(&subject);
    }
}

/* --- threads and signals --- */

struct worker {
    const struct subject *subject;
    struct stub_block *block;
    struct truth truth;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    slab_subject_use_block(worker->block);
    for (unsigned i = 0; i < 20; i++)
        worker->subject->run(&worker->truth, SEED + i, ROUNDS);
    slab_subject_use_block(NULL);
    return NULL;
}

static void threads_count_for_themselves(bool guesses)
{
    struct subject subject;
    pthread_t threads[3];
    static struct worker workers[3];
    load_guessing(&subject, libraries[0], STUB_THREAD, false, guesses);
    slab_subject_write(&subject.patched, false);
    for (unsigned i = 0; i < 3; i++) {
        workers[i] = (struct worker){.subject = &subject, .block = slab_subject_new_block()};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    slab_subject_write(&subject.patched, true);
    for (unsigned i = 0; i < 3; i++) {
        pairs_are_true(&subject, workers[i].block, &workers[i].truth);
        slab_subject_free_block(workers[i].block);
    }
    unload(&subject);
}

static void threads_have_marks_of_their_own(void **state)
{
    (void)state;
    threads_count_for_themselves(false);
}

static void threads_have_guesses_of_their_own(void **state)
{
    (void)state;
    threads_count_for_themselves(true);
}

static const struct subject *in_handler;
static struct truth of_handler;

static void on_signal(int number)
{
    (void)number;
    in_handler->run(&of_handler, of_handler.from + of_handler.pairs[RUN][0], 10);
}

/* Handlers that jump and call themselves, at any moment: they may take a mark away, which makes one arrival
 * of the older frame's, but no jump is given an arrival that is not its own. */
static void handlers_come(bool guesses)
{
    struct subject subject;
    struct truth truth = {0};
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal}, before;
    load_guessing(&subject, libraries[0], STUB_THREAD, false, guesses);
    memset(&of_handler, 0, sizeof of_handler);
    in_handler = &subject;
    slab_subject_use_block(slab_subject_block(&subject.patched));
    slab_subject_write(&subject.patched, false);
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned i = 0; i < 300; i++)
        subject.run(&truth, SEED + i, ROUNDS / 10);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    slab_subject_write(&subject.patched, true);
    slab_subject_use_block(NULL);
    assert_true(arrivals(&of_handler, 0) > 0);
    uint64_t lost = 0, made = 0;
    for (unsigned from = 0; from < MOST; from++)
        for (unsigned to = 0; to < MOST; to++)
            truth.pairs[from][to] += of_handler.pairs[from][to];
    const struct stub_block *block = slab_subject_block(&subject.patched);
    for (unsigned from = 0; from < CALLS; from++)
        for (unsigned to = 0; to < QUIET; to++) {
            uint64_t calls = recorded(&subject, block, from, to);
            assert_true(calls <= truth.pairs[from][to]);
            lost += truth.pairs[from][to] - calls;
            made += truth.pairs[from][to];
        }
    sums_are_true(&subject, block, &truth);
    print_message("# marks taken away by handlers: %lu of %lu\n", lost, made);
    unload(&subject);
}

static void handlers_invent_nothing(void **state)
{
    (void)state;
    handlers_come(false);
}

static void handlers_between_guess_and_jump_invent_nothing(void **state)
{
    (void)state;
    handlers_come(true);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrivals_have_their_jumps),
        cmocka_unit_test(a_mark_is_taken_once),
        cmocka_unit_test(the_locked_form_marks_nothing),
        cmocka_unit_test(calls_without_stubs_keep_the_sums),
        cmocka_unit_test(threads_have_marks_of_their_own),
        cmocka_unit_test(handlers_invent_nothing),
        cmocka_unit_test(guesses_count_the_same_pairs),
        cmocka_unit_test(threads_have_guesses_of_their_own),
        cmocka_unit_test(handlers_between_guess_and_jump_invent_nothing),
    };
    if (argument_count < 2)
        return 2;
    libraries = arguments + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
