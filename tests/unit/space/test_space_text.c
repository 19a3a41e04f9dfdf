/* What text shows of an agent's hooks: a jump of five bytes into its memory, and which bytes it covers. The
 * text is an array of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "loader.h"
#include "loader_x86_64_wrap.h"
#include "space_text.h"

enum { HOOK = 32, JUMP = LOADER_X86_64_WRAP_JUMP, DISTANCE = 0x100000 };

static uint8_t text[64];
static char agent_path[] = LOADER_PATH, other_path[] = "/usr/lib/libother.so";

static void hook(void)
{
    const int32_t displacement = DISTANCE;
    memset(text, 0x90, sizeof text);
    text[HOOK] = 0xe9;
    memcpy(text + HOOK + 1, &displacement, sizeof displacement);
}

static struct proc_mapping memory(char *path)
{
    uint64_t to = (uintptr_t)text + HOOK + JUMP + DISTANCE;
    return (struct proc_mapping){.start = to & ~UINT64_C(0xfff), .end = (to | 0xfff) + 1, .path = path};
}

static bool has_hook(const struct proc_maps *maps, size_t at, size_t length)
{
    return space_text_has_hook(getpid(), maps, (uintptr_t)text + at, length);
}

static void test_a_hook_is_known_by_where_it_leads(void **state)
{
    (void)state;
    struct proc_mapping agent = memory(agent_path), other = memory(other_path);
    const struct proc_maps maps = {.items = &agent, .count = 1}, others = {.items = &other, .count = 1};
    hook();
    assert_true(space_text_is_hooked(getpid(), &maps, (uintptr_t)text + HOOK));
    assert_false(space_text_is_hooked(getpid(), &maps, (uintptr_t)text + HOOK + 1));
    assert_false(space_text_is_hooked(getpid(), &others, (uintptr_t)text + HOOK));
    text[HOOK] = 0xe8;
    assert_false(space_text_is_hooked(getpid(), &maps, (uintptr_t)text + HOOK));
    assert_false(space_text_is_hooked(getpid(), &maps, 8)); /* nothing is there */
}

/* A site behind a function's first instruction is covered by the hook at its entry. */
static void test_a_hook_covers_five_bytes(void **state)
{
    (void)state;
    struct proc_mapping agent = memory(agent_path);
    const struct proc_maps maps = {.items = &agent, .count = 1};
    hook();
    for (size_t length = 1; length <= 8; length++)
        for (size_t at = HOOK - 12; at <= HOOK + 12; at++)
            assert_int_equal(has_hook(&maps, at, length), at < HOOK + JUMP && at + length > HOOK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hook_is_known_by_where_it_leads),
        cmocka_unit_test(test_a_hook_covers_five_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
