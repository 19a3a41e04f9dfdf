/* The entry of functions that throw: counted by stack, and gone when the body begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent_rig.h"

#define AWAY __attribute__((noinline, noclone))

typedef int throw_function(void *object, void *type, void *destructor);

static struct agent_rig rig;
static throw_function *hooked;
static jmp_buf caught;
static void *seen[4];

static AWAY int body(void *object, void *type, void *destructor)
{
    seen[0] = object, seen[1] = type, seen[2] = destructor, seen[3] = __builtin_return_address(0);
    if (object == NULL)
        longjmp(caught, 1);
    return 77;
}

static int set_up(void **state)
{
    (void)state;
    agent_rig_begin(&rig, &(struct agent_rig_options){0});
    hooked = (throw_function *)agent_rig_hook(&rig, "agent_entry_throw", (void *)body);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

static AWAY int thrower(void *object)
{
    int volatile result = hooked(object, (void *)2, (void *)3);
    return result;
}

static uint64_t thrown(void)
{
    uint64_t low = (uint64_t)thrower;
    return agent_rig_read(&rig, rig.process, low, low + 256).count;
}

static void test_counts_and_passes(void **state)
{
    (void)state;
    int object;
    for (unsigned i = 1; i <= 5; i++) {
        assert_int_equal(thrower(&object), 77);
        assert_int_equal(thrown(), i);
    }
    assert_ptr_equal(seen[0], &object);
    assert_ptr_equal(seen[1], (void *)2);
    assert_ptr_equal(seen[2], (void *)3);
    assert_in_range((uint64_t)seen[3], (uint64_t)thrower, (uint64_t)thrower + 256); /* no frame in between */
    assert_int_equal(agent_rig_read(&rig, rig.process, 0, 0).total, 0);
    assert_int_equal(rig.process->live + rig.process->first_live, 0);
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        assert_int_equal(rig.process->losses[i], 0);
}

static void test_left_by_a_jump(void **state)
{
    (void)state;
    for (volatile unsigned i = 1; i <= 3; i++) {
        if (setjmp(caught) == 0)
            thrower(NULL);
        assert_int_equal(thrown(), i);
    }
}

/* When it is being taken out, and in a process that counts nothing. */
static void test_not_counting(void **state)
{
    (void)state;
    int object;
    rig.process->state = WIRE_AGENT_LEFT;
    assert_int_equal(thrower(&object), 77);
    rig.process->state = WIRE_AGENT_RUNNING;
    assert_int_equal(thrown(), 0);
    assert_in_range((uint64_t)seen[3], (uint64_t)thrower, (uint64_t)thrower + 256);
}

/* The figures are full: a loss, and the program goes on. */
static void test_no_room(void **state)
{
    (void)state;
    int object;
    rig.process->cell_count = (uint32_t)rig.layout.cell_count;
    assert_int_equal(thrower(&object), 77);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_CELL], 1);
    rig.process->cell_count = 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_counts_and_passes),
        TEST(test_left_by_a_jump),
        TEST(test_not_counting),
        TEST(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
