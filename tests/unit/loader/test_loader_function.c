/* Single functions: found by name, checked, and hooked in this very process, where they must answer as
 * before.
 *
 *     test_loader loader_function FIXTURE (fixture_wrap.S) STATIC (fixture_own.S) */
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "loader_image.h"
#include "loader_x86_64_wrap.h"
#include "plan_function.h"

static const char *fixture, *static_fixture;

static int plan_of(const char *path, const struct plan_function_request *requests, size_t count,
                   struct plan_functions *functions)
{
    struct base_error error = {0};
    struct elf_image *image;
    assert_int_equal(elf_image_open(path, &image, &error), BASE_OK);
    int result = plan_function_plan(image, path, requests, count, functions, &error);
    elf_image_close(image);
    if (result < 0)
        print_message("# %s\n", error.text);
    return result;
}

static int plan(const struct plan_function_request *requests, size_t count, struct plan_functions *functions)
{
    return plan_of(fixture, requests, count, functions);
}

static const struct plan_hookable *find_hookable(const struct plan_functions *functions, const char *name)
{
    for (size_t i = 0; i < functions->count; i++)
        if (!strcmp(functions->items[i].name, name))
            return &functions->items[i];
    return NULL;
}

/* --- names --- */

static void test_names_aliases_and_globs(void **state)
{
    (void)state;
    static const struct plan_function_request requests[] = {
        {"wrap_plain", NULL, NULL, false, false, false, false},
        {"wrap_alias", NULL, NULL, false, false, false, false},
        {"wrap_en?br", "*fixture_wrap*", NULL, false, false, false, false},
        {"wrap_branch", "/nowhere*", NULL, false, false, false, false},
        {"wrap::mang", NULL, NULL, false, true, false, false},
        {"wrap_missing", NULL, NULL, false, false, false, false},
        {"wrap_tail", "libother.so", NULL, false, false, false, false},
        {"wrap_calling[x]*", NULL, NULL, false, false, false, false},
        {"*", "no image has this name", NULL, false, false, false, false}};
    struct plan_functions found;
    assert_int_equal(plan(requests, sizeof requests / sizeof *requests, &found), BASE_OK);
    assert_int_equal(found.count, 3);
    assert_int_equal(find_hookable(&found, "wrap_plain") ? find_hookable(&found, "wrap_plain")->request : 99,
                     0);
    assert_null(find_hookable(&found, "wrap_alias")); /* one function, and it has the first request's name */
    assert_int_equal(find_hookable(&found, "wrap_endbr")->request, 2);
    assert_int_equal(find_hookable(&found, "_ZN4wrap4mangEl")->request, 4);
    for (size_t i = 1; i < found.count; i++)
        assert_true(found.items[i - 1].address < found.items[i].address);
    plan_functions_free(&found);
    assert_int_equal(plan(requests + 5, 1, &found), BASE_OK);
    assert_int_equal(found.count, 0);
    plan_functions_free(&found);
}

/* A function has its first request, and the first of those that go over others, under whatever name. */
static void test_over(void **state)
{
    (void)state;
    const struct plan_function_request requests[] = {{"wrap_plain", NULL, NULL, false, false, false, false},
                                                     {"wrap_endbr", NULL, NULL, false, false, false, false},
                                                     {"wrap_e*", NULL, NULL, false, false, false, false},
                                                     {"wrap_tail", NULL, NULL, true, false, false, false},
                                                     {"wrap_alias", NULL, NULL, true, false, false, false},
                                                     {"wrap_??d*", NULL, NULL, true, false, false, false},
                                                     {"wrap_[et]*", NULL, NULL, true, false, false, false}};
    struct plan_functions found;
    assert_int_equal(plan(requests, sizeof requests / sizeof *requests, &found), BASE_OK);
    assert_int_equal(find_hookable(&found, "wrap_plain")->request, 0);
    assert_int_equal(find_hookable(&found, "wrap_plain")->over, 4 + 1);
    assert_int_equal(find_hookable(&found, "wrap_endbr")->request, 1);
    assert_int_equal(find_hookable(&found, "wrap_endbr")->over, 5 + 1);
    assert_int_equal(find_hookable(&found, "wrap_empty")->request, 2);
    assert_int_equal(find_hookable(&found, "wrap_empty")->over, 6 + 1);
    assert_int_equal(find_hookable(&found, "wrap_tail")->request, 3);
    assert_int_equal(find_hookable(&found, "wrap_tail")->over, 0);
    plan_functions_free(&found);
}

/* Only where something else is defined too; a use alone is not enough. */
static void test_beside(void **state)
{
    (void)state;
    const struct plan_function_request requests[] = {
        {"wrap_plain", NULL, "wrap_endbr", false, false, false, false},
        {"wrap_tail", NULL, "wrap_not_there", false, false, false, false},
        {"wrap_branch", NULL, "abort", false, false, false, false},
        {"wrap_next", "/nowhere*", "wrap_endbr", false, false, false, false},
        {"wrap_calling", NULL, "wrap_endbr", false, false, false, false}};
    struct plan_functions found;
    assert_int_equal(plan(requests, sizeof requests / sizeof *requests, &found), BASE_OK);
    assert_int_equal(found.count, 2);
    assert_int_equal(find_hookable(&found, "wrap_plain")->request, 0);
    assert_int_equal(find_hookable(&found, "wrap_calling")->request, 4);
    plan_functions_free(&found);
}

/* A request for the C library's own function: not what a program has under such a name. */
static void test_own(void **state)
{
    (void)state;
    const struct plan_function_request requests[] = {
        {"accept", NULL, NULL, false, false, true, true}, {"pipe", NULL, NULL, false, false, true, true},
        {"socket", NULL, NULL, false, false, true, true}, {"dup", NULL, NULL, false, false, true, true},
        {"creat", NULL, NULL, false, false, true, true},  {"pi*", NULL, NULL, true, false, false, false},
        {"s*t", NULL, NULL, true, false, false, false}};
    struct plan_functions found;
    assert_int_equal(plan_of(static_fixture, requests, sizeof requests / sizeof *requests, &found), BASE_OK);
    assert_int_equal(found.count, 4);
    assert_null(find_hookable(&found, "accept"));
    assert_int_equal(find_hookable(&found, "pipe")->request,
                     5); /* only the request that goes over it means the program's */
    assert_int_equal(find_hookable(&found, "pipe")->over, 0);
    assert_int_equal(find_hookable(&found, "socket")->request, 2);
    assert_int_equal(find_hookable(&found, "socket")->over, 6 + 1);
    assert_int_equal(find_hookable(&found, "dup")->request, 3);
    assert_int_equal(find_hookable(&found, "creat")->request, 4);
    for (size_t i = 0; i < found.count; i++)
        assert_int_equal(found.items[i].reason, STUB_FINE);
    plan_functions_free(&found);
    const struct plan_function_request shared[] = {{"wrap_plain", NULL, NULL, false, false, false, true},
                                                   {"wrap_tail", NULL, NULL, false, false, true, false}};
    assert_int_equal(plan(shared, sizeof shared / sizeof *shared, &found), BASE_OK);
    assert_int_equal(found.count, 1); /* a library that is not the C library */
    assert_non_null(find_hookable(&found, "wrap_tail"));
    plan_functions_free(&found);
}

static void test_reasons(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum stub_reason reason;
    } wanted[] = {
        {"wrap_plain", STUB_FINE},
        {"wrap_endbr", STUB_FINE},
        {"wrap_relative", STUB_FINE},
        {"wrap_branch", STUB_FINE},
        {"wrap_counted", STUB_FINE},
        {"wrap_calling", STUB_FINE},
        {"wrap_empty", STUB_FINE},
        {"wrap_tail", STUB_FINE},
        {"wrap_next", STUB_FINE},
        {"_ZN4wrap4mangEl", STUB_FINE},
        {"wrap_loops", STUB_REASON_ENTRY_BRANCH},
        {"wrap_back", STUB_REASON_ENTRY_BRANCH},
        {"wrap_returns", STUB_REASON_ENTRY_IMMOVABLE},
        {"wrap_short", STUB_REASON_ENTRY_SHORT},
        {"wrap_chosen", STUB_REASON_ENTRY_RESOLVER},
    };
    const struct plan_function_request all[] = {{"*wrap*", NULL, NULL, false, false, false, false}};
    struct plan_functions found;
    assert_int_equal(plan(all, 1, &found), BASE_OK);
    assert_int_equal(found.count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const struct plan_hookable *function = find_hookable(&found, wanted[i].name);
        assert_non_null(function);
        if (function->reason != wanted[i].reason)
            print_message("# %s: %s\n", wanted[i].name, stub_reason_text(function->reason));
        assert_int_equal(function->reason, wanted[i].reason);
        assert_true(function->reason ? function->length == 0 : function->length >= 5);
    }
    plan_functions_free(&found);
}

/* --- hooks --- */

/* lock incq (counters of the hook's cookie); jmp body */
static volatile uint64_t counters[64];
void count_and_go(void);
__asm__(".text; count_and_go: push %rax; pushfq; mov 24(%r11), %rax; lock incq (%rax); popfq; pop %rax;"
        "jmp *8(%r11);");

struct hooked {
    struct loader_x86_64_wrap *slots; /* near the fixture */
    size_t used;
    uint64_t bias;
};

static void *map_near(uint64_t near, size_t size)
{
    for (uint64_t at = (near & ~UINT64_C(0xfff)) - (64 << 20); at > near - (1u << 30); at -= 16 << 20) {
        void *place = mmap((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE | PROT_EXEC,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (place == (void *)(uintptr_t)at)
            return place;
    }
    fail_msg("no room near the fixture");
    return NULL;
}

/* `old`: the bytes there now. */
static void hook(struct hooked *hooked, uint64_t address, unsigned length, volatile uint64_t *counter)
{
    struct loader_x86_64_wrap *slot = &hooked->slots[hooked->used++];
    uint8_t *text = (uint8_t *)(uintptr_t)address, *page = (void *)(address & ~UINT64_C(0xfff));
    assert_int_equal(
        loader_x86_64_wrap_make(slot, (uint64_t)(uintptr_t)slot,
                                &(struct loader_x86_64_wrapped){address, text, (uint8_t)length, false}, NULL),
        STUB_FINE);
    slot->hook.handler = (uint64_t)(uintptr_t)count_and_go;
    slot->hook.cookie = (uint64_t)(uintptr_t)counter;
    assert_int_equal(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    loader_x86_64_wrap_jump(address, (uint64_t)(uintptr_t)slot, text);
}

/* Over the last one. */
static void hook_over(struct hooked *hooked, volatile uint64_t *counter)
{
    struct loader_x86_64_wrap *slot = &hooked->slots[hooked->used++], *last = slot - 1;
    uint64_t below = (uint64_t)(uintptr_t)last, address = last->hook.function;
    assert_int_equal(loader_x86_64_wrap_over(slot, (uint64_t)(uintptr_t)slot, last, below, false), STUB_FINE);
    slot->hook.handler = (uint64_t)(uintptr_t)count_and_go;
    slot->hook.cookie = (uint64_t)(uintptr_t)counter;
    loader_x86_64_wrap_jump(address, (uint64_t)(uintptr_t)slot, (uint8_t *)(uintptr_t)address);
}

static void unhook_all(struct hooked *hooked)
{
    while (hooked->used-- > 0)
        memcpy((void *)(uintptr_t)hooked->slots[hooked->used].hook.function, hooked->slots[hooked->used].old,
               5);
}

static uint64_t next_of(uint64_t x)
{
    return x + 7;
}

static const struct {
    const char *name;
    uint64_t argument, answer;
} calls[] = {
    {"wrap_plain", 5, 6},       {"wrap_alias", 6, 7},   {"wrap_endbr", 5, 7},
    {"wrap_relative", 1, 1001}, {"wrap_branch", 1, 5},  {"wrap_branch", (uint64_t)-1, (uint64_t)-4},
    {"wrap_counted", 3, 8},     {"wrap_counted", 0, 5}, {"wrap_calling", 10, 16},
    {"wrap_tail", 7, 8},        {"wrap_next", 1, 8},    {"wrap_loops", 3, (uint64_t)-1},
    {"wrap_back", 3, 4},        {"wrap_short", 12, 12}, {"_ZN4wrap4mangEl", 1, 10},
};

static void call_all(void *handle)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        uint64_t (*function)(uint64_t);
        *(void **)&function = dlsym(handle, calls[i].name);
        assert_non_null(function);
        assert_int_equal(function(calls[i].argument), calls[i].answer);
    }
    uint64_t (*returns)(uint64_t(*)(uint64_t), uint64_t);
    *(void **)&returns = dlsym(handle, "wrap_returns");
    returns(next_of, 0);
    void (*empty)(void);
    *(void **)&empty = dlsym(handle, "wrap_empty");
    empty();
}

static void test_hooked_functions_answer_as_before(void **state)
{
    (void)state;
    const struct plan_function_request all[] = {{"*wrap*", NULL, NULL, false, false, false, false}};
    struct plan_functions found;
    struct link_map *map;
    void *handle = dlopen(fixture, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    assert_int_equal(plan(all, 1, &found), BASE_OK);
    struct hooked hooked = {.bias = map->l_addr};
    hooked.slots = map_near(map->l_addr, 65536);
    call_all(handle);
    for (size_t i = 0; i < found.count; i++)
        if (found.items[i].reason == STUB_FINE)
            hook(&hooked, map->l_addr + found.items[i].address, found.items[i].length, &counters[i]);
    call_all(handle);
    call_all(handle);
    for (size_t i = 0; i < found.count; i++) {
        const char *name = found.items[i].name;
        uint64_t wanted = found.items[i].reason ? 0 : 2;
        if (!strcmp(name, "wrap_plain")) /* under its alias, and by the tail jump, too */
            wanted = 6;
        if (!strcmp(name, "wrap_branch") || !strcmp(name, "wrap_counted"))
            wanted = 4;
        assert_int_equal(counters[i], wanted);
    }
    unhook_all(&hooked);
    call_all(handle);
    munmap(hooked.slots, 65536);
    plan_functions_free(&found);
    dlclose(handle);
}

/* As when exact calls have hooked it already: their jump moves like any instruction. */
static void test_two_collectors_on_one_entry(void **state)
{
    (void)state;
    const struct plan_function_request one[] = {{"wrap_calling", NULL, NULL, false, false, false, false}};
    volatile uint64_t first = 0, second = 0;
    struct plan_functions found;
    struct link_map *map;
    void *handle = dlopen(fixture, RTLD_NOW | RTLD_LOCAL);
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    assert_int_equal(plan(one, 1, &found), BASE_OK);
    struct hooked hooked = {.bias = map->l_addr};
    hooked.slots = map_near(map->l_addr, 65536);
    hook(&hooked, map->l_addr + found.items[0].address, found.items[0].length, &first);
    hook(&hooked, map->l_addr + found.items[0].address, 5, &second);
    call_all(handle);
    assert_int_equal(first, 1);
    assert_int_equal(second, 1);
    unhook_all(&hooked);
    call_all(handle);
    assert_int_equal(first + second, 2);
    munmap(hooked.slots, 65536);
    plan_functions_free(&found);
    dlclose(handle);
}

/* As two collectors of the agent's: the outer slot alone undoes both. */
static void test_two_hooks_on_one_entry(void **state)
{
    (void)state;
    const struct plan_function_request one[] = {{"wrap_calling", NULL, NULL, false, false, false, false}};
    volatile uint64_t beneath = 0, over = 0;
    struct plan_functions found;
    struct link_map *map;
    void *handle = dlopen(fixture, RTLD_NOW | RTLD_LOCAL);
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    assert_int_equal(plan(one, 1, &found), BASE_OK);
    struct hooked hooked = {.bias = map->l_addr};
    hooked.slots = map_near(map->l_addr, 65536);
    hook(&hooked, map->l_addr + found.items[0].address, found.items[0].length, &beneath);
    hook_over(&hooked, &over);
    const struct loader_x86_64_wrap *slots = hooked.slots;
    assert_int_equal(slots[1].hook.body, (uint64_t)(uintptr_t)slots[0].code);
    assert_int_equal(slots[1].hook.function, slots[0].hook.function);
    assert_memory_equal(slots[1].old, slots[0].old, slots[0].length);
    assert_true(slots[0].beneath && !slots[1].beneath);
    call_all(handle);
    assert_int_equal(beneath, 1);
    assert_int_equal(over, 1);
    hooked.slots++;
    hooked.used = 1;
    unhook_all(&hooked);
    call_all(handle);
    assert_int_equal(beneath + over, 2);
    munmap(hooked.slots - 1, 65536);
    plan_functions_free(&found);
    dlclose(handle);
}

static void test_out_of_reach_and_too_short(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x90, 0x90};
    const struct loader_x86_64_wrapped far = {0x100010000, code, 5, false}, small = {0x20000, code, 4, false},
                                       right = {0x20000, code, 5, false};
    struct loader_x86_64_wrap wrap;
    assert_int_equal(loader_x86_64_wrap_make(&wrap, 0x10000, &far, NULL), STUB_REASON_OUT_OF_REACH);
    assert_int_equal(loader_x86_64_wrap_make(&wrap, 0x10000, &small, NULL), STUB_REASON_ENTRY_SHORT);
    assert_int_equal(loader_x86_64_wrap_make(&wrap, 0x10000, &right, NULL), STUB_FINE);
    assert_int_equal(wrap.hook.body, loader_x86_64_wrap_code(0x10000) + 10);
    assert_memory_equal(wrap.old, code, 5);
    struct loader_x86_64_wrap over;
    assert_int_equal(loader_x86_64_wrap_over(&over, 0x100010000, &wrap, 0x10000, true),
                     STUB_REASON_OUT_OF_REACH);
    assert_false(wrap.beneath);
}

/* --- invalid images --- */

static void test_no_image_is_refused_and_none_crashes(void **state)
{
    (void)state;
    static uint8_t bytes[1 << 20], copy[1 << 20];
    struct loader_image *image;
    struct base_error error = {0};
    FILE *file = fopen(fixture, "re");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size > 1000 && size < sizeof bytes);
    assert_true(loader_image_open(bytes, 100, &image, &error) < 0);
    srand(11);
    unsigned opened = 0;
    for (int i = 0; i < 3000; i++) {
        memcpy(copy, bytes, size);
        for (int j = 0; j < 3; j++)
            copy[(unsigned)rand() % (j ? 600u : (unsigned)size)] = (uint8_t)rand();
        if (loader_image_open(copy, i % 5 ? size : (size_t)rand() % size, &image, NULL) < 0)
            continue;
        uint64_t span = loader_image_span(image), offset;
        uint8_t *made = malloc(span);
        loader_image_make(image, 0x7000000, made, NULL);
        if (loader_image_symbol(image, "wrap_plain", &offset))
            assert_true(offset < span);
        free(made);
        loader_image_close(image);
        opened++;
    }
    print_message("# %u of 3000 were images still\n", opened);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_aliases_and_globs),
        cmocka_unit_test(test_over),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_hooked_functions_answer_as_before),
        cmocka_unit_test(test_two_collectors_on_one_entry),
        cmocka_unit_test(test_two_hooks_on_one_entry),
        cmocka_unit_test(test_out_of_reach_and_too_short),
        cmocka_unit_test(test_no_image_is_refused_and_none_crashes),
    };
    if (argc != 3)
        return 2;
    fixture = argv[1];
    static_fixture = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
