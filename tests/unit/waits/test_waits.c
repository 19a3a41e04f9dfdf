/* Threads that wait, looked at from outside: frames by their prologues, and a child that waits. */
#include "base_clock.h"
#include "waits.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc_target.h"
#include "waits_frame.h"
#include "wire_loss.h"

static void test_frames(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        size_t size;
        uint64_t frame;
    } cases[] = {
        {"\x48\x89\xe5\x48\x83\xec\x20", 7, 0x20},     /* mov %rsp,%rbp; sub $32,%rsp */
        {"\x48\x89\xe5\x53\x48\x83\xec\x18", 8, 0x20}, /* ... push %rbx */
        {"\x48\x89\xe5\x41\x57\x41\x56\x53\x48\x81\xec\x00\x10\x00\x00", 15, 0x1018},
        {"\x48\x8b\xec\x48\x83\xec\x08", 7, 8},                  /* the other form of mov */
        {"\x48\x89\xe5\x41\x54\x49\x89\xfc", 8, UINT64_MAX},     /* something else comes in between */
        {"\x48\x89\xe5\x53\x48\x81\xec\x00\x10", 9, UINT64_MAX}, /* cut */
        {"\x48\x89\xe5", 3, UINT64_MAX},
        {"\x48\x83\xec\x08", 4, UINT64_MAX},
        {NULL, 0, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(waits_frame_size((const uint8_t *)cases[i].code, cases[i].size), cases[i].frame);
}

/* --- a child --- */

struct fixture {
    struct profile *profile;
    struct sample_images images;
    struct sample_processes processes;
    struct sample_stacks sampler;
    struct waits *waits;
    uint16_t counter;
    pid_t child;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->profile = profile_new();
    sample_images_init(&fixture->images, fixture->profile, NULL);
    sample_processes_init(&fixture->processes, &fixture->images, base_clock_now());
    sample_stacks_init(&fixture->sampler, &fixture->processes, NULL);
    fixture->counter = (uint16_t)profile_counter(fixture->profile, "time.real", "ns", false, PROFILE_SUM);
    struct waits_options options = {
        .sampler = &fixture->sampler, .stacks = PERF_STACKS_FULL, .counter = fixture->counter};
    *state = fixture;
    if (waits_new(&options, &fixture->waits, NULL) < 0)
        return -1;
    fixture->child = fork();
    if (fixture->child == 0)
        for (;;)
            pause();
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    kill(fixture->child, SIGKILL);
    waitpid(fixture->child, NULL, 0);
    waits_free(fixture->waits);
    sample_stacks_free(&fixture->sampler);
    sample_processes_free(&fixture->processes);
    sample_images_free(&fixture->images);
    profile_free(fixture->profile);
    free(fixture);
    return 0;
}

/* Until the child waits. */
static void wait_for_child(const struct fixture *fixture)
{
    struct proc_target_call call;
    while (proc_target_call(fixture->child, fixture->child, &call) != BASE_OK)
        ;
}

static int64_t published(const struct fixture *fixture)
{
    int64_t sum = 0;
    for (size_t i = 0; i < fixture->profile->cell_count; i++)
        if (fixture->profile->cells[i].counter == fixture->counter)
            sum += fixture->profile->cells[i].value;
    return sum;
}

/* All that passes between two looks is published, once, and no more than that. */
static void test_child(void **state)
{
    struct fixture *fixture = *state;
    const struct timespec moment = {.tv_nsec = 20000000};
    wait_for_child(fixture);
    assert_non_null(sample_processes_get(&fixture->processes, fixture->child, base_clock_now()));
    uint64_t before = base_clock_now();
    waits_look(fixture->waits);
    uint64_t begun = base_clock_now();
    assert_int_equal(published(fixture), 0);
    for (int i = 0; i < 3; i++) {
        nanosleep(&moment, NULL);
        uint64_t least = base_clock_now() - begun;
        waits_look(fixture->waits);
        assert_in_range(published(fixture), least, base_clock_now() - before);
    }
    assert_int_equal(waits_samples(fixture->waits), 3);
    assert_true(waits_due(fixture->waits) > base_clock_now() - 1000000000);
}

/* What a child that ends did since the last look is a loss. */
static void test_end(void **state)
{
    struct fixture *fixture = *state;
    const struct timespec moment = {.tv_nsec = 5000000};
    wait_for_child(fixture);
    sample_processes_get(&fixture->processes, fixture->child, base_clock_now());
    waits_look(fixture->waits);
    nanosleep(&moment, NULL);
    kill(fixture->child, SIGKILL);
    waitpid(fixture->child, NULL, 0);
    waits_look(fixture->waits);
    waits_finish(fixture->waits);
    assert_true(fixture->profile->losses[WIRE_LOSS_WAIT_UNSEEN] >= 5);
    assert_int_equal(published(fixture), 0);
}

/* What a command waits between its release and the first look is a loss. */
static void test_begin(void **state)
{
    struct fixture *fixture = *state;
    wait_for_child(fixture);
    sample_processes_get(&fixture->processes, fixture->child, base_clock_now());
    waits_begin(fixture->waits, base_clock_now() - 1000000000);
    waits_look(fixture->waits);
    waits_finish(fixture->waits);
    assert_in_range(fixture->profile->losses[WIRE_LOSS_WAIT_UNSEEN], 100, 1000000);
}

static uint32_t warmest_node(const struct fixture *fixture)
{
    const struct profile_cell *warmest = NULL;
    for (size_t i = 0; i < fixture->profile->cell_count; i++) {
        const struct profile_cell *cell = &fixture->profile->cells[i];
        if (cell->counter == fixture->counter && (!warmest || cell->value > warmest->value))
            warmest = cell;
    }
    assert_non_null(warmest);
    return warmest->node;
}

/* Other stacks, hotter ones, until the tree has been folded and `node` is another's. */
static void flood(const struct fixture *fixture, uint32_t node)
{
    struct profile *profile = fixture->profile;
    uint16_t other = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint32_t image = profile_image(profile, PROFILE_IMAGE_SPECIAL, "flood", "", 0), address;
    uint32_t before = profile->nodes[node].address, flags = 0;
    for (uint64_t i = 1; !profile->nodes[node].address || profile->nodes[node].address == before; i++) {
        assert_in_range(i, 1, 10000);
        address = profile_address(profile, image, i);
        profile_count(
            profile,
            (struct profile_key){profile_stack(profile, &address, &flags, 1), 0, PROFILE_NO_CPU, other}, 1,
            100);
    }
    assert_true(profile_folds(profile) > 0);
}

/* Where a thread waits is looked up again when its node may be another's. */
static void test_folded(void **state)
{
    struct fixture *fixture = *state;
    const struct timespec moment = {.tv_nsec = 20000000};
    wait_for_child(fixture);
    fixture->profile->max_nodes = 100;
    sample_processes_get(&fixture->processes, fixture->child, base_clock_now());
    waits_look(fixture->waits);
    nanosleep(&moment, NULL);
    waits_look(fixture->waits);
    uint32_t node = warmest_node(fixture);
    flood(fixture, node);
    uint64_t begun = base_clock_now();
    int64_t before = published(fixture);
    nanosleep(&moment, NULL);
    uint64_t least = base_clock_now() - begun;
    waits_look(fixture->waits);
    assert_true(published(fixture) - before >= (int64_t)least);
    for (size_t i = 0; i < fixture->profile->cell_count; i++)
        if (fixture->profile->cells[i].counter == fixture->counter)
            assert_int_not_equal(fixture->profile->cells[i].node, node);
}

/* A thread that is created and ends between two looks may have waited its whole lifetime; one whose end is
 * not reported, until the look that did not find it. */
static void test_creation(void **state)
{
    struct fixture *fixture = *state;
    const struct timespec moment = {.tv_nsec = 5000000};
    enum { SHORT = 3000001, NOBODY = 1 << 22 }; /* no thread has such a number */
    wait_for_child(fixture);
    sample_processes_get(&fixture->processes, fixture->child, base_clock_now());
    waits_look(fixture->waits);
    uint64_t now = base_clock_now();
    for (int i = 0; i < 100; i++) {
        waits_created(fixture->waits, NOBODY + i, now - SHORT);
        waits_ended(fixture->waits, NOBODY + i, now);
    }
    waits_created(fixture->waits, fixture->child, now); /* it runs */
    waits_ended(fixture->waits, NOBODY - 1, now);       /* another process */
    waits_look(fixture->waits);
    waits_created(fixture->waits, NOBODY, now);
    nanosleep(&moment, NULL);
    waits_look(fixture->waits);
    uint64_t looked = base_clock_now();
    nanosleep(&moment, NULL);
    waits_look(fixture->waits);
    waits_finish(fixture->waits);
    uint64_t unseen = fixture->profile->losses[WIRE_LOSS_WAIT_UNSEEN];
    assert_in_range(unseen, 300 + 5, 300 + (looked - now) / 1000000 + 1);
}

/* Creations and ends that are reported before a look, and lie behind its beginning, are for the next one;
 * the last ones are for the end. */
static void test_late_creation(void **state)
{
    struct fixture *fixture = *state;
    enum { LATER = 20000000, LONG = 7000000, NOBODY = 1 << 22 };
    wait_for_child(fixture);
    sample_processes_get(&fixture->processes, fixture->child, base_clock_now());
    waits_look(fixture->waits);
    uint64_t later = base_clock_now() + LATER;
    waits_created(fixture->waits, NOBODY, later);
    waits_ended(fixture->waits, NOBODY, later + LONG);
    waits_created(fixture->waits, NOBODY + 1, later);
    waits_look(fixture->waits);
    waits_look(fixture->waits);
    while (base_clock_now() < later + LONG)
        ;
    waits_look(fixture->waits); /* did not find the other */
    uint64_t looked = base_clock_now();
    waits_look(fixture->waits);
    waits_created(fixture->waits, NOBODY + 2, looked);
    waits_ended(fixture->waits, NOBODY + 2, looked + LONG); /* no look follows */
    waits_finish(fixture->waits);
    uint64_t unseen = fixture->profile->losses[WIRE_LOSS_WAIT_UNSEEN], other = looked - later;
    assert_in_range(unseen, 3 * LONG / 1000000, (2 * LONG + other) / 1000000 + 1);
}

/* A thread created before the first look that found it is published once, though its creation is reported
 * late. */
static void test_late_end(void **state)
{
    struct fixture *fixture = *state;
    enum { BEFORE = 50000000 };
    wait_for_child(fixture);
    sample_processes_get(&fixture->processes, fixture->child, base_clock_now());
    uint64_t begun = base_clock_now();
    waits_look(fixture->waits);
    uint64_t looked = base_clock_now();
    waits_created(fixture->waits, fixture->child, begun - BEFORE);
    waits_ended(fixture->waits, fixture->child, looked + 1000000);
    kill(fixture->child, SIGKILL);
    waitpid(fixture->child, NULL, 0);
    while (base_clock_now() < looked + 2000000)
        ;
    waits_look(fixture->waits);
    waits_finish(fixture->waits);
    /* From the look to the end; with its time before the look it would be BEFORE more. */
    assert_in_range(fixture->profile->losses[WIRE_LOSS_WAIT_UNSEEN], 1,
                    (looked + 1000000 - begun) / 1000000 + 1);
}

/* The end of one that was looked at is when it was. */
static void test_ended(void **state)
{
    struct fixture *fixture = *state;
    const struct timespec moment = {.tv_nsec = 50000000};
    wait_for_child(fixture);
    sample_processes_get(&fixture->processes, fixture->child, base_clock_now());
    uint64_t begun = base_clock_now();
    waits_look(fixture->waits);
    uint64_t looked = base_clock_now();
    waits_ended(fixture->waits, fixture->child, looked + 2000000);
    kill(fixture->child, SIGKILL);
    waitpid(fixture->child, NULL, 0);
    nanosleep(&moment, NULL);
    waits_look(fixture->waits);
    waits_finish(fixture->waits);
    assert_in_range(fixture->profile->losses[WIRE_LOSS_WAIT_UNSEEN], 2, (looked - begun) / 1000000 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test_setup_teardown(test_child, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_begin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_creation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_creation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ended, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
