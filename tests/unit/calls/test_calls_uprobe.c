/* Hooks and doorbells whose places somebody else has changed: which are removed, what is reported of it, and
 * what stays for good. The text is an array of the test's, changed by a helper of the test's; the clock is
 * the test's too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "calls_detach.h"
#include "calls_remove.h"
#include "calls_uprobe.h"
#include "proc_target.h"
#include "space_apply.h"
#include "wire_loss.h"

#define SECOND UINT64_C(1000000000)
enum { HOOKS = 3, DOORBELL = HOOKS, LOADER, PLACES, JUMP = 5, OURS = 4096 };

static const uint8_t file[JUMP] = {0xf3, 0x0f, 0x1e, 0xfa, 0x55}, jump[JUMP] = {0xe9, 1, 2, 3, 4};
static uint8_t text[PLACES][JUMP];

/* --- the clock and the helper that the code under test sees --- */

static uint64_t now;
static unsigned holds;
static struct trace_memory_change staged[PLACES];
static size_t staged_count;

uint64_t __wrap_base_clock_now(void);
uint64_t __wrap_base_clock_now(void)
{
    return now;
}

int __wrap_helper_trace_hold(struct helper *helper, pid_t pid, struct helper_stopped *result,
                             struct base_error *error);
int __wrap_helper_trace_hold(struct helper *helper, pid_t pid, struct helper_stopped *result,
                             struct base_error *error)
{
    (void)helper;
    (void)pid;
    (void)result;
    (void)error;
    holds++;
    return BASE_OK;
}

int __wrap_helper_trace_release(struct helper *helper, pid_t pid, struct helper_stopped *result,
                                struct base_error *error);
int __wrap_helper_trace_release(struct helper *helper, pid_t pid, struct helper_stopped *result,
                                struct base_error *error)
{
    (void)helper;
    (void)pid;
    (void)result;
    (void)error;
    return BASE_OK;
}

int __wrap_helper_trace_threads(struct helper *helper, pid_t pid, struct trace_stop_thread **threads,
                                size_t *count, struct base_error *error);
int __wrap_helper_trace_threads(struct helper *helper, pid_t pid, struct trace_stop_thread **threads,
                                size_t *count, struct base_error *error)
{
    (void)helper;
    (void)pid;
    (void)error;
    *threads = NULL;
    *count = 0;
    return BASE_OK;
}

int __wrap_helper_trace_stage(struct helper *helper, pid_t pid, const struct trace_memory_change *changes,
                              size_t count, struct base_error *error);
int __wrap_helper_trace_stage(struct helper *helper, pid_t pid, const struct trace_memory_change *changes,
                              size_t count, struct base_error *error)
{
    (void)helper;
    (void)pid;
    (void)error;
    memcpy(staged, changes, count * sizeof *changes);
    staged_count = count;
    return BASE_OK;
}

int __wrap_helper_trace_stage_list(struct helper *helper, pid_t pid, struct trace_stage *list,
                                   struct base_error *error);
int __wrap_helper_trace_stage_list(struct helper *helper, pid_t pid, struct trace_stage *list,
                                   struct base_error *error)
{
    (void)helper;
    (void)pid;
    (void)error;
    staged_count = list->count;
    for (size_t i = 0; i < list->count; i++)
        staged[i] = list->buffer[i];
    return BASE_OK;
}

int __wrap_helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error);
int __wrap_helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error)
{
    (void)helper;
    (void)pid;
    return base_fail(error, BASE_EBUSY, "changed");
}

/* Every byte is checked before any is written. */
int __wrap_helper_trace_undo(struct helper *helper, pid_t pid, struct base_error *error);
int __wrap_helper_trace_undo(struct helper *helper, pid_t pid, struct base_error *error)
{
    (void)helper;
    (void)pid;
    for (size_t i = 0; i < staged_count; i++)
        if (memcmp((void *)(uintptr_t)staged[i].address, staged[i].after, staged[i].length) != 0)
            return base_fail(error, BASE_EBUSY, "changed");
    for (size_t i = 0; i < staged_count; i++)
        memcpy((void *)(uintptr_t)staged[i].address, staged[i].before, staged[i].length);
    return BASE_OK;
}

/* --- a process with hooks and doorbells --- */

struct hooked {
    struct space_session session;
    struct space space;
    struct space_object object;
    struct space_image planned;
    struct plan_header header;
    struct space_patch patch;
    struct space_memory memory;
    struct space_code code;
    struct stub_doorbell doorbell;
    uint8_t wanted[HOOKS];
    struct slab_write writes[HOOKS];
};

static struct slab_write write_of(uint32_t hook)
{
    struct slab_write write = {
        .address = (uint64_t)(uintptr_t)text[hook], .length = JUMP, .site = PLAN_NONE, .hook = hook};
    memcpy(write.old, file, JUMP);
    memcpy(write.fresh, jump, JUMP);
    return write;
}

static int begin(void **state)
{
    struct hooked *hooked = calloc(1, sizeof *hooked);
    if (!hooked)
        return -1;
    now = 1000 * SECOND;
    holds = 0;
    for (uint32_t i = 0; i < PLACES; i++)
        memcpy(text[i], jump, JUMP);
    for (uint32_t i = 0; i < HOOKS; i++) {
        hooked->writes[i] = write_of(i);
        hooked->wanted[i] = 1;
    }
    hooked->session.profile = profile_new();
    hooked->session.helper.socket = -1;
    hooked->header.hook_count = HOOKS;
    hooked->planned.plan.header = &hooked->header;
    hooked->patch =
        (struct space_patch){.owners = 1, .slab = {.writes = hooked->writes, .write_count = HOOKS}};
    hooked->object = (struct space_object){
        .planned = &hooked->planned, .live = true, .patch = &hooked->patch, .wanted = hooked->wanted};
    hooked->memory = (struct space_memory){.file = -1, .address = 0x10000, .size = OURS};
    hooked->space = (struct space){.pid = getpid(),
                                   .processes = 1,
                                   .created_ns = now,
                                   .objects = &hooked->object,
                                   .object_count = 1,
                                   .memories = &hooked->memory,
                                   .memory_count = 1,
                                   .doorbell = &hooked->doorbell,
                                   .doorbell_words = 0x20000,
                                   .doorbell_set = true};
    struct space_detached *detached = &hooked->space.detached;
    const struct slab_write doorbell = write_of(DOORBELL), loader = write_of(LOADER);
    detached->count = 1;
    detached->open = true;
    hooked->doorbell.creations = 1;
    detached->changes[0] = space_apply_change(&doorbell);
    hooked->space.doorbell_change = space_apply_change(&loader);
    *state = hooked;
    return hooked->session.profile ? 0 : -1;
}

static int end(void **state)
{
    struct hooked *hooked = *state;
    profile_free(hooked->session.profile);
    free(hooked->object.lifted);
    free(hooked);
    return 0;
}

static void look(struct hooked *hooked)
{
    now += SECOND;
    calls_uprobe_tend(&hooked->space, &hooked->session);
}

static uint64_t lost(const struct hooked *hooked, unsigned number)
{
    return hooked->session.profile->losses[number];
}

/* A breakpoint, and behind it the file's bytes. */
static void expect_way(unsigned place)
{
    assert_int_equal(text[place][0], TRACE_MEMORY_BREAKPOINT);
    assert_memory_equal(text[place] + 1, file + 1, JUMP - 1);
}

static void nothing_is_done_where_nothing_was_changed(void **state)
{
    struct hooked *hooked = *state;
    look(hooked);
    assert_int_equal(holds, 0);
    assert_int_equal(lost(hooked, WIRE_LOSS_TEXT_ALTERED), 0);
}

/* The breakpoint stays for hours, maybe: the process is not held for it again. */
static void a_hook_makes_way_once(void **state)
{
    struct hooked *hooked = *state;
    text[1][0] = TRACE_MEMORY_BREAKPOINT;
    for (int i = 0; i < 5; i++)
        look(hooked);
    expect_way(1);
    assert_int_equal(holds, 1);
    assert_int_equal(lost(hooked, WIRE_LOSS_TEXT_ALTERED), 1);
    assert_int_equal(hooked->wanted[1], 0);
    assert_memory_equal(text[0], jump, JUMP);
    assert_int_equal(hooked->doorbell.creations, 1);
    struct calls_remains remains;
    text[1][0] = file[0]; /* it goes */
    assert_int_equal(calls_remove(&hooked->space, &hooked->session, true, &remains, NULL), BASE_OK);
    assert_int_equal(remains.changes, 0);
    for (int i = 0; i < PLACES; i++)
        assert_memory_equal(text[i], file, JUMP);
}

/* Creation is not notified then: the doorbell is disabled, and the process traced (it is held). */
static void a_doorbell_of_creations_makes_way(void **state)
{
    struct hooked *hooked = *state;
    text[DOORBELL][0] = TRACE_MEMORY_BREAKPOINT;
    for (int i = 0; i < 5; i++)
        look(hooked);
    expect_way(DOORBELL);
    assert_int_equal(holds, 1);
    assert_int_equal(lost(hooked, WIRE_LOSS_TEXT_ALTERED), 1);
    assert_int_equal(hooked->space.detached.count, 0);
    assert_int_equal(hooked->doorbell.creations, 0);
    assert_false(hooked->space.detached.open);
    assert_true(hooked->space.doorbell_set);
}

/* Objects are loaded unnoticed from then on: tally never detaches again, and does not try to set the
 * doorbell. */
static void the_loaders_doorbell_makes_way(void **state)
{
    struct hooked *hooked = *state;
    text[LOADER][0] = TRACE_MEMORY_BREAKPOINT;
    for (int i = 0; i < 5; i++)
        look(hooked);
    expect_way(LOADER);
    assert_int_equal(holds, 1);
    assert_int_equal(lost(hooked, WIRE_LOSS_TEXT_ALTERED), 1);
    assert_int_equal(lost(hooked, WIRE_LOSS_NOT_PLANNED), 1);
    assert_false(hooked->space.doorbell_set);
    assert_int_equal(hooked->space.doorbell_change.length, 0);
    assert_int_equal(hooked->doorbell.creations, 0);
    assert_non_null(profile_meta(hooked->session.profile, "calls_held"));
    hooked->space.doorbell_code = &hooked->code;
    now += 1000 * SECOND;
    calls_detach_tend(&hooked->space, &hooked->session);
    assert_false(hooked->space.detached.open);
}

/* Others who wrote all of it may have kept our jump elsewhere. It was reported when it was found, and the
 * place is in no list any more when the object has got other stubs. */
static void what_others_overwrote_is_reported_once_and_keeps_memory(void **state)
{
    static const uint8_t theirs[JUMP] = {TRACE_MEMORY_BREAKPOINT, 0x90, 0x90, 0x90, 0x90};
    static const unsigned taken[] = {0, DOORBELL, LOADER};
    struct hooked *hooked = *state;
    struct calls_remains remains;
    for (size_t i = 0; i < 3; i++)
        memcpy(text[taken[i]], theirs, JUMP);
    for (int i = 0; i < 5; i++)
        look(hooked);
    assert_int_equal(holds, 1);
    assert_int_equal(lost(hooked, WIRE_LOSS_TEXT_ALTERED), 3);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(calls_remove(&hooked->space, &hooked->session, true, &remains, NULL), BASE_OK);
        assert_int_equal(remains.changes, 3);
        assert_int_equal(remains.published, 3);
        assert_int_equal(remains.probed, 0);
        assert_int_equal(remains.memory_bytes, OURS);
        for (size_t i = 0; i < 3; i++)
            assert_memory_equal(text[taken[i]], theirs, JUMP);
        for (unsigned i = 1; i < HOOKS; i++)
            assert_memory_equal(text[i], file, JUMP);
        hooked->object.lifted_count = 0; /* another patch, without the place */
        hooked->patch.slab.writes++;
        hooked->patch.slab.write_count--;
    }
}

/* What was lifted is the file's, but for the breakpoint: a fresh write of another hook there finds something
 * else, as anywhere. */
static void fresh_writes_leave_lifted_places(void **state)
{
    struct hooked *hooked = *state;
    struct base_error error = {0};
    text[1][0] = TRACE_MEMORY_BREAKPOINT;
    look(hooked);
    struct space_patch *next = calloc(1, sizeof *next);
    struct slab_write *writes = calloc(2, sizeof *writes);
    assert_non_null(next);
    assert_non_null(writes);
    writes[0] = hooked->writes[0];
    writes[1] = hooked->writes[1];
    writes[1].hook = 2;
    *next = (struct space_patch){.owners = 1, .slab = {.writes = writes, .write_count = 2}};
    hooked->object.next = next;
    assert_int_equal(space_apply(&hooked->space, &hooked->session, &error), BASE_EBUSY);
    assert_int_equal(hooked->wanted[0], 1);
    assert_int_equal(hooked->wanted[2], 0);
    assert_null(hooked->object.next);
}

/* What a fork child has where its parent's memory of ours is listed may be its own: nothing of it goes or is
 * reported. */
static void a_copy_has_only_what_is_mapped_there(void **state)
{
    struct hooked *hooked = *state;
    struct calls_remains remains;
    text[0][1] ^= 1; /* somebody else's: memory stays */
    assert_int_equal(calls_remove(&hooked->space, &hooked->session, true, &remains, NULL), BASE_OK);
    assert_int_equal(remains.memory_bytes, OURS);
    hooked->space.copied = true;
    assert_int_equal(calls_remove(&hooked->space, &hooked->session, true, &remains, NULL), BASE_OK);
    assert_int_equal(remains.changes, 1);
    assert_int_equal(remains.memory_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_done_where_nothing_was_changed, begin, end),
        cmocka_unit_test_setup_teardown(a_hook_makes_way_once, begin, end),
        cmocka_unit_test_setup_teardown(a_doorbell_of_creations_makes_way, begin, end),
        cmocka_unit_test_setup_teardown(the_loaders_doorbell_makes_way, begin, end),
        cmocka_unit_test_setup_teardown(what_others_overwrote_is_reported_once_and_keeps_memory, begin, end),
        cmocka_unit_test_setup_teardown(fresh_writes_leave_lifted_places, begin, end),
        cmocka_unit_test_setup_teardown(a_copy_has_only_what_is_mapped_there, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
