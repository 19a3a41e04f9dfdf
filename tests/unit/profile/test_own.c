/* What of the samples is Tally itself, and a profile without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "profile.h"
#include "profile_directory.h"
#include "profile_own.h"
#include "store.h"
#include "store_timeline.h"

struct scene {
    struct profile *profile;
    uint32_t thread;
    uint32_t program, library, agent, stub, kernel, vdso; /* one address of each */
    uint16_t time, heap;
};

static uint32_t address_in(struct profile *profile, uint32_t kind, const char *name)
{
    return profile_address(profile, profile_image(profile, kind, name, "", 0), 0x10);
}

static struct scene set_scene(void)
{
    struct scene scene = {.profile = profile_new()};
    struct profile *profile = scene.profile;
    scene.thread = profile_thread(profile, profile_process(profile, 7, 0), 7);
    scene.program = address_in(profile, PROFILE_IMAGE_FILE, "/bin/a");
    scene.library = address_in(profile, PROFILE_IMAGE_FILE, "/lib/libc.so.6");
    scene.agent = address_in(profile, PROFILE_IMAGE_FILE, PROFILE_AGENT_IMAGE);
    scene.stub = address_in(profile, PROFILE_IMAGE_SPECIAL, PROFILE_STUBS_IMAGE);
    scene.kernel = address_in(profile, PROFILE_IMAGE_KERNEL, "[kernel]");
    scene.vdso = address_in(profile, PROFILE_IMAGE_VDSO, "[vdso]");
    scene.time = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    scene.heap = (uint16_t)profile_counter(profile, "heap.total", "bytes", true, PROFILE_SUM);
    return scene;
}

/* The node of a stack, outermost first; 0 ends it. Frames of the kernel have its flag. */
static uint32_t stack_of(const struct scene *scene, const uint32_t *addresses)
{
    uint32_t node = 0;
    for (size_t i = 0; addresses[i]; i++)
        node = profile_node(scene->profile, node, addresses[i],
                            addresses[i] == scene->kernel ? PROFILE_NODE_KERNEL : 0);
    return node;
}

#define STACK(scene, ...) stack_of(scene, (const uint32_t[]){__VA_ARGS__, 0})

static void add(const struct scene *scene, uint32_t node, uint16_t counter, int64_t value, uint64_t samples)
{
    profile_count(scene->profile, (struct profile_key){node, scene->thread, 0, counter}, value, samples);
}

static void the_innermost_frame_decides(void **state)
{
    (void)state;
    struct scene s = set_scene();
    const struct profile *profile = s.profile;
    assert_false(profile_own_node(profile, 0));
    assert_false(profile_own_node(profile, STACK(&s, s.program)));
    assert_false(profile_own_node(profile, STACK(&s, s.program, s.kernel)));
    assert_false(profile_own_node(profile, STACK(&s, s.kernel)));
    assert_true(profile_own_node(profile, STACK(&s, s.program, s.agent)));
    assert_true(profile_own_node(profile, STACK(&s, s.program, s.stub)));
    assert_true(profile_own_node(profile, STACK(&s, s.program, s.stub, s.kernel, s.kernel)));
    assert_true(profile_own_node(profile, STACK(&s, s.program, s.agent, s.vdso, s.kernel)));
    /* what the agent calls in the program's name, and a handler that interrupted it */
    assert_false(profile_own_node(profile, STACK(&s, s.program, s.agent, s.library)));
    assert_false(profile_own_node(profile, STACK(&s, s.program, s.agent, s.library, s.kernel)));
    profile_free(s.profile);
}

static void only_sampled_counters_have_some(void **state)
{
    (void)state;
    struct scene s = set_scene();
    struct base_error error = {0};
    add(&s, STACK(&s, s.program), s.time, 700, 7);
    add(&s, STACK(&s, s.program, s.agent), s.time, 200, 2);
    add(&s, STACK(&s, s.program, s.stub, s.kernel), s.time, 100, 1);
    add(&s, STACK(&s, s.program, s.agent), s.heap, 64, 0);
    struct profile_own own = profile_own_sum(s.profile, s.time);
    assert_int_equal(own.samples, 3);
    assert_int_equal(own.stub_samples, 1);
    assert_int_equal(profile_own_left_out(s.profile, s.time).samples, 0);
    assert_int_equal(profile_own_all_samples(s.profile, s.time), 10);
    uint32_t node = STACK(&s, s.program, s.agent);
    assert_true(profile_own_program_node(s.profile, &node, s.time));
    assert_int_equal(node, STACK(&s, s.program, s.agent));

    assert_int_equal(profile_own_leave_out(s.profile, &error), BASE_OK);
    assert_int_equal(s.profile->cell_count, 2); /* the program's time, and all of its memory */
    for (size_t i = 0; i < s.profile->cell_count; i++)
        assert_int_equal(s.profile->cells[i].value, s.profile->cells[i].counter == s.time ? 700 : 64);
    assert_int_equal(profile_own_left_out(s.profile, s.time).samples, 3);
    assert_int_equal(profile_own_sum(s.profile, s.time).stub_samples, 1);
    assert_int_equal(profile_own_all_samples(s.profile, s.time), 10);
    assert_int_equal(profile_own_left_out(s.profile, s.heap).samples, 0);
    assert_false(profile_own_program_node(s.profile, &node, s.time));
    assert_true(profile_own_program_node(s.profile, &node, s.heap));
    assert_int_equal(node, STACK(&s, s.program));
    assert_int_equal(profile_own_leave_out(s.profile, &error), BASE_OK); /* twice is once */
    assert_int_equal(profile_own_left_out(s.profile, s.time).samples, 3);
    profile_free(s.profile);
}

static void a_profile_without_tally_stays_as_it_is(void **state)
{
    (void)state;
    struct scene s = {.profile = profile_new()};
    struct base_error error = {0};
    s.thread = profile_thread(s.profile, profile_process(s.profile, 7, 0), 7);
    s.time = (uint16_t)profile_counter(s.profile, "time.cpu", "ns", false, PROFILE_SUM);
    add(&s, profile_node(s.profile, 0, address_in(s.profile, PROFILE_IMAGE_FILE, "/bin/a"), 0), s.time, 5, 1);
    assert_int_equal(profile_own_leave_out(s.profile, &error), BASE_OK);
    assert_int_equal(s.profile->cell_count, 1);
    assert_int_equal(profile_own_sum(s.profile, s.time).samples, 0);
    profile_free(s.profile);
}

static int64_t value_at(const struct scene *scene, uint32_t node)
{
    for (size_t i = 0; i < scene->profile->cell_count; i++)
        if (scene->profile->cells[i].node == node)
            return scene->profile->cells[i].value;
    return 0;
}

/* The allocator behind a hook, called by the program and through Tally: one stack. */
static void frames_between_the_programs_go(void **state)
{
    (void)state;
    struct scene s = set_scene();
    struct base_error error = {0};
    uint32_t handler = address_in(s.profile, PROFILE_IMAGE_FILE, "/bin/handler");
    uint32_t through = STACK(&s, s.program, s.agent, s.agent, s.library, s.kernel);
    uint32_t agent = profile_node(s.profile, STACK(&s, s.program), s.agent, PROFILE_NODE_SIGNAL);
    uint32_t handled = profile_node(s.profile, agent, handler, 0);
    uint32_t cut =
        profile_node(s.profile, profile_node(s.profile, 0, s.agent, PROFILE_NODE_CUT), s.library, 0);
    add(&s, STACK(&s, s.program, s.library), s.time, 100, 1);
    add(&s, STACK(&s, s.program, s.agent, s.library), s.time, 200, 2);
    add(&s, through, s.time, 400, 4);
    add(&s, handled, s.time, 800, 8);
    add(&s, cut, s.time, 1600, 16);
    assert_int_equal(profile_own_leave_out(s.profile, &error), BASE_OK);
    assert_int_equal(profile_own_left_out(s.profile, s.time).samples, 0);
    assert_int_equal(s.profile->cell_count, 4);
    assert_int_equal(value_at(&s, STACK(&s, s.program, s.library)), 300);
    assert_int_equal(value_at(&s, STACK(&s, s.program, s.library, s.kernel)), 400);
    uint32_t interrupted = profile_node(s.profile, 0, s.program, PROFILE_NODE_SIGNAL);
    assert_int_equal(value_at(&s, profile_node(s.profile, interrupted, handler, 0)), 800);
    assert_int_equal(value_at(&s, profile_node(s.profile, 0, s.library, PROFILE_NODE_CUT)), 1600);
    assert_true(profile_own_program_node(s.profile, &through, s.time));
    assert_int_equal(through, STACK(&s, s.program, s.library, s.kernel));
    assert_int_equal(profile_check(s.profile, &error), BASE_OK);
    profile_free(s.profile);
}

/* The timeline of the file has all samples; what is read of it has the program's. */
static void the_timeline_has_none_either(void **state)
{
    (void)state;
    struct scene s = set_scene();
    struct base_error error = {0};
    struct store *store;
    struct store_timeline_list list;
    struct profile *loaded;
    const uint32_t nodes[] = {STACK(&s, s.program), STACK(&s, s.program, s.agent),
                              STACK(&s, s.program, s.stub), STACK(&s, s.program, s.library)};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        add(&s, nodes[i], s.time, 100, 1);
        profile_timeline_add(s.profile, 1000 * i, s.thread, nodes[i], 0, s.time);
    }
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    assert_int_equal(store_flush(store, s.profile, &error), BASE_OK);
    assert_int_equal(store_close(store, s.profile, false, &error), BASE_OK);
    assert_int_equal(store_load(path, &loaded, &error), BASE_OK);
    assert_int_equal(store_timeline_read(path, loaded, &list, &error), BASE_OK);
    assert_int_equal(list.count, 4);
    store_timeline_list_free(&list);
    assert_int_equal(profile_own_leave_out(loaded, &error), BASE_OK);
    assert_int_equal(store_timeline_read(path, loaded, &list, &error), BASE_OK);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[0].value, 100);
    assert_int_equal(list.items[1].time_ns, 3000);
    store_timeline_list_free(&list);
    profile_free(loaded);
    profile_free(s.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_innermost_frame_decides),
        cmocka_unit_test(only_sampled_counters_have_some),
        cmocka_unit_test(frames_between_the_programs_go),
        cmocka_unit_test(a_profile_without_tally_stays_as_it_is),
        cmocka_unit_test_teardown(the_timeline_has_none_either, profile_directory_clean),
    };
    return cmocka_run_group_tests(tests, profile_directory_make, profile_directory_remove);
}
