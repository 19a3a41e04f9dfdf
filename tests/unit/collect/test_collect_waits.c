/* Threads that wait, looked at from outside: lines of /proc, frames by their prologues, and a child that
 * waits. */
#include "collect_waits.h"

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

#include "collect_waits_frame.h"
#include "patch_target.h"
#include "wire_loss.h"

static void test_lines(void **state)
{
    (void)state;
    uint64_t pc = 0, sp = 0;
    assert_true(collect_waits_read_line(
        "230 0x0 0x0 0x7ffc51e7c6b0 0x7ffc51e7c6f0 0x0 0x0 0x7ffc51e7c698 0x7f5e6574f503\n", &pc, &sp));
    assert_int_equal(sp, 0x7ffc51e7c698);
    assert_int_equal(pc, 0x7f5e6574f503);
    assert_true(collect_waits_read_line("-1 0x7ffdb0ce5d00 0x55d0c12a1189\n", &pc, &sp));
    assert_int_equal(sp, 0x7ffdb0ce5d00);
    assert_int_equal(pc, 0x55d0c12a1189);
    assert_false(collect_waits_read_line("running\n", &pc, &sp));
    assert_false(collect_waits_read_line("0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0\n", &pc, &sp)); /* has ended */
    assert_false(collect_waits_read_line("", &pc, &sp));
    assert_false(collect_waits_read_line(" ", &pc, &sp));
}

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
        assert_int_equal(collect_waits_frame_size((const uint8_t *)cases[i].code, cases[i].size),
                         cases[i].frame);
}

/* --- a child --- */

struct fixture {
    struct profile *profile;
    struct collect_images images;
    struct collect_processes processes;
    struct collect_sampler sampler;
    struct collect_waits *waits;
    uint16_t counter;
    pid_t child;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->profile = profile_new();
    collect_images_init(&fixture->images, fixture->profile, NULL);
    collect_processes_init(&fixture->processes, &fixture->images, patch_target_now());
    collect_sampler_init(&fixture->sampler, &fixture->processes, NULL);
    fixture->counter = (uint16_t)profile_counter(fixture->profile, "time.real", "ns", false, PROFILE_SUM);
    struct collect_waits_options options = {
        .sampler = &fixture->sampler, .stacks = COLLECT_STACKS_FULL, .counter = fixture->counter};
    *state = fixture;
    if (collect_waits_new(&options, &fixture->waits, NULL) < 0)
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
    collect_waits_free(fixture->waits);
    collect_sampler_free(&fixture->sampler);
    collect_processes_free(&fixture->processes);
    collect_images_free(&fixture->images);
    profile_free(fixture->profile);
    free(fixture);
    return 0;
}

/* Until the child waits. */
static void wait_for_child(const struct fixture *fixture)
{
    char path[64], line[256] = "";
    uint64_t pc, sp;
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)fixture->child);
    while (!collect_waits_read_line(line, &pc, &sp)) {
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_non_null(fgets(line, sizeof line, file));
        fclose(file);
    }
}

static int64_t told(const struct fixture *fixture)
{
    int64_t sum = 0;
    for (size_t i = 0; i < fixture->profile->cell_count; i++)
        if (fixture->profile->cells[i].counter == fixture->counter)
            sum += fixture->profile->cells[i].value;
    return sum;
}

/* All that passes between two looks is told, once, and no more than that. */
static void test_child(void **state)
{
    struct fixture *fixture = *state;
    const struct timespec moment = {.tv_nsec = 20000000};
    wait_for_child(fixture);
    assert_non_null(collect_processes_get(&fixture->processes, fixture->child, patch_target_now()));
    uint64_t before = patch_target_now();
    collect_waits_look(fixture->waits, 0);
    uint64_t begun = patch_target_now();
    assert_int_equal(told(fixture), 0);
    for (int i = 0; i < 3; i++) {
        nanosleep(&moment, NULL);
        uint64_t least = patch_target_now() - begun;
        collect_waits_look(fixture->waits, 0);
        assert_in_range(told(fixture), least, patch_target_now() - before);
    }
    assert_int_equal(collect_waits_samples(fixture->waits), 3);
    assert_true(collect_waits_due(fixture->waits) > patch_target_now() - 1000000000);
}

/* What a child that ends did since the last look is a loss. */
static void test_end(void **state)
{
    struct fixture *fixture = *state;
    const struct timespec moment = {.tv_nsec = 5000000};
    wait_for_child(fixture);
    collect_processes_get(&fixture->processes, fixture->child, patch_target_now());
    collect_waits_look(fixture->waits, 0);
    nanosleep(&moment, NULL);
    kill(fixture->child, SIGKILL);
    waitpid(fixture->child, NULL, 0);
    collect_waits_look(fixture->waits, 0);
    collect_waits_finish(fixture->waits);
    assert_true(fixture->profile->losses[WIRE_LOSS_WAIT_UNSEEN] >= 5);
    assert_int_equal(told(fixture), 0);
}

/* Births of which nothing was found. */
static void test_births(void **state)
{
    struct fixture *fixture = *state;
    const struct timespec moment = {.tv_nsec = 5000000};
    wait_for_child(fixture);
    collect_processes_get(&fixture->processes, fixture->child, patch_target_now());
    collect_waits_look(fixture->waits, 7);
    nanosleep(&moment, NULL);
    collect_waits_look(fixture->waits, 9);
    collect_waits_finish(fixture->waits);
    assert_true(fixture->profile->losses[WIRE_LOSS_WAIT_UNSEEN] >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_frames),
        cmocka_unit_test_setup_teardown(test_child, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_births, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
