/* What unwinders find of the agent: its own call-frame information, and only where it stands on the stack. */
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent_rig.h"

#define AWAY __attribute__((noinline, noclone))

enum { LISTED = 3, STOP = 7, TABLE_VERSION = 1, SHORT_INFO = offsetof(struct dl_phdr_info, dlpi_adds) };

/* glibc's, which only newer versions declare. */
struct found_object {
    uint64_t flags;
    void *start, *end, *link_map, *frames;
    uint64_t reserved[7];
};

typedef int find_function(void *address, struct found_object *found);
typedef int list_callback(struct dl_phdr_info *object, size_t size, void *data);
typedef int list_function(list_callback *callback, void *data);
typedef void *malloc_function(size_t size);

struct seen {
    unsigned all, own;
    unsigned stop_at; /* 0: never */
    const uint8_t *frames;
};

static struct agent_rig rig;
static find_function *find;
static list_function *list;
static malloc_function *allocate;
static struct seen inside;
static int found_inside;
static char block[64];

static AWAY int body_find(void *address, struct found_object *found)
{
    found->flags = (uint64_t)address;
    return -1;
}

static AWAY int body_list(list_callback *callback, void *data)
{
    struct dl_phdr_info object = {.dlpi_name = "an object"};
    int result = 0;
    for (unsigned i = 0; i < LISTED && result == 0; i++)
        result = callback(&object, sizeof object, data);
    return result;
}

static int look(struct dl_phdr_info *object, size_t size, void *data)
{
    struct seen *seen = data;
    seen->all++;
    if (object->dlpi_addr == (uint64_t)rig.image) {
        seen->own++;
        assert_int_equal(size, SHORT_INFO);
        for (unsigned i = 0; i < object->dlpi_phnum; i++)
            if (object->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
                seen->frames = rig.image + object->dlpi_phdr[i].p_vaddr;
    }
    return seen->all == seen->stop_at ? STOP : 0;
}

static AWAY void *body_malloc(size_t size)
{
    (void)size;
    found_inside = list(look, &inside);
    return block;
}

static int set_up(void **state)
{
    (void)state;
    agent_rig_begin(&rig, &(struct agent_rig_options){0});
    find = (find_function *)agent_rig_hook(&rig, "agent_entry_object", (void *)body_find);
    list = (list_function *)agent_rig_hook(&rig, "agent_entry_headers", (void *)body_list);
    allocate = (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)body_malloc);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

static void test_an_address_of_the_agent(void **state)
{
    (void)state;
    struct found_object found = {.flags = 1, .link_map = &found};
    uint8_t *code = agent_rig_symbol(&rig, "agent_entry_malloc");
    assert_int_equal(find(code, &found), 0);
    assert_int_equal(found.flags, 0);
    assert_null(found.link_map);
    assert_true((uint8_t *)found.start <= code && code < (uint8_t *)found.end);
    assert_int_equal(*(uint8_t *)found.frames, TABLE_VERSION);
}

static void test_another_address(void **state)
{
    (void)state;
    struct found_object found = {0};
    void *const others[] = {NULL,
                            &found,
                            (void *)body_find,
                            (void *)(rig.parameters->code - 1),
                            (void *)rig.parameters->code_end,
                            (void *)UINT64_MAX};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(find(others[i], &found), -1);
        assert_ptr_equal((void *)found.flags, others[i]);
        assert_null(found.frames);
    }
}

static void test_objects_outside(void **state)
{
    (void)state;
    struct seen seen = {0};
    assert_int_equal(list(look, &seen), 0);
    assert_int_equal(seen.all, LISTED);
    assert_int_equal(seen.own, 0);
}

static void test_objects_inside(void **state)
{
    (void)state;
    for (unsigned stop = 0; stop <= LISTED + 2; stop++) {
        inside = (struct seen){.stop_at = stop};
        assert_ptr_equal(allocate(10), block);
        bool stopped = stop > 0 && stop <= LISTED + 1;
        assert_int_equal(inside.all, stopped ? stop : LISTED + 1);
        assert_int_equal(inside.own, inside.all == LISTED + 1);
        assert_int_equal(found_inside, stopped ? STOP : 0);
        assert_true(inside.own == 0 || *inside.frames == TABLE_VERSION);
    }
    test_objects_outside(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_address_of_the_agent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_address, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_objects_outside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_objects_inside, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
