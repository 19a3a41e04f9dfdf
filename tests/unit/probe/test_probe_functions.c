/* Which functions of which files the agent wraps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent_blob.h"
#include "probe_functions.h"
#include "wire_agent_descriptor.h"
#include "wire_agent_layer.h"

enum {
    FILTERS = 2,   /* what sees the program forbid itself something, beside exact calls */
    UNMAPPERS = 5, /* what takes memory away that may have been a stack */
    UNCOUNTED = 1, /* of them, beside those that are counted */
    REPORTERS = 2, /* what reports the agent to unwinders, where that stands on the stack */
    ALWAYS = FILTERS + UNMAPPERS
};

static struct loader_image *image;

/* How many requests mean the function in the image, without a condition; or with that. */
static size_t concerned_beside(const char *name, const char *path, bool shared, const char *beside)
{
    const struct probe_functions_request request = {
        .heap = true, .maps = true, .throws = true, .shared = shared};
    struct probe_functions functions;
    size_t found = 0;
    assert_int_equal(probe_functions_make(&functions, image, &request, NULL), BASE_OK);
    assert_true(functions.allocators + functions.throwers < functions.count || shared);
    for (size_t i = 0; i < functions.count; i++)
        found +=
            strcmp(functions.items[i].request.name, name) == 0 &&
            plan_function_concerns(&functions.items[i].request, path) &&
            (beside ? functions.items[i].request.beside && !strcmp(functions.items[i].request.beside, beside)
                    : !functions.items[i].request.beside);
    free(functions.items);
    return found;
}

static size_t concerned(const char *name, const char *path, bool shared)
{
    return concerned_beside(name, path, shared, NULL);
}

/* Only what was asked for is hooked, and what is needed for that. */
static void test_what_was_asked_for(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        const struct probe_functions_request request = {
            .heap = i & 1, .throws = i >> 1 & 1, .shared = true, .sizes = i >> 2 & 1};
        struct probe_functions functions;
        assert_int_equal(probe_functions_make(&functions, image, &request, NULL), BASE_OK);
        assert_int_equal(functions.allocators > 0, request.heap);
        assert_int_equal(functions.throwers, request.throws ? 3 : 0);
        size_t needed = functions.allocators + functions.throwers + ALWAYS + (request.heap ? REPORTERS : 0);
        for (size_t k = functions.allocators; k < functions.count; k++)
            assert_int_equal(functions.items[k].only_found, k >= needed);
        assert_true(functions.count >= needed + request.heap); /* what identifies allocators that remember */
        assert_int_equal(functions.count > needed + request.heap, request.sizes);
        free(functions.items);
    }
    const struct probe_functions_request maps = {.maps = true, .shared = true};
    struct probe_functions functions;
    assert_int_equal(probe_functions_make(&functions, image, &maps, NULL), BASE_OK);
    assert_int_equal(functions.count, 6 + UNCOUNTED + FILTERS + REPORTERS);
    assert_int_equal(functions.allocators + functions.throwers, 0);
    free(functions.items);
    const struct probe_functions_request ends = {.ends = true, .shared = true};
    assert_int_equal(probe_functions_make(&functions, image, &ends, NULL), BASE_OK);
    assert_int_equal(functions.count, 2 + ALWAYS);
    assert_string_equal(functions.items[ALWAYS].request.name, "_exit");
    free(functions.items);
}

/* Functions that are timed come behind all that unwinds and all that must not be touched, over which they do
 * not go, before what loads an unwinder: what they have of that is theirs. */
static void test_timed_functions(void **state)
{
    (void)state;
    static const struct plan_function_request timed[] = {
        {"work", "program", NULL, false, false, false, false}, {"*", NULL, NULL, false, false, false, false}};
    const struct probe_functions_request request = {.timed = timed, .timed_count = 2, .shared = true};
    struct probe_functions functions;
    size_t unwinders = 0, untouched = 0;
    assert_int_equal(probe_functions_make(&functions, image, &request, NULL), BASE_OK);
    assert_int_equal(functions.timed, functions.count - 4);
    assert_string_equal(functions.items[functions.timed + 2].request.name, "backtrace");
    assert_true(plan_function_concerns(&functions.items[functions.timed + 2].request, "/lib/libc.so.6"));
    assert_false(plan_function_concerns(&functions.items[functions.timed + 2].request, "/bin/program"));
    for (size_t i = ALWAYS; i < functions.timed; i++) {
        const struct loader_function *function = &functions.items[i];
        bool unwinds = !function->only_found && (function->cookie & 255) == WIRE_AGENT_ENTRY_UNWIND;
        assert_true(unwinds != function->only_found);
        assert_int_equal(function->whole, unwinds);
        assert_true(function->alone && !function->request.over);
        assert_true(!function->only_found || probe_functions_is_odd(function->request.name));
        unwinders += unwinds && strncmp(function->request.name, "_Unwind_", 8) == 0;
        untouched += function->only_found;
    }
    assert_int_equal(unwinders, 5);
    assert_true(untouched > 20);
    for (size_t i = 0; i < 2; i++) {
        const struct loader_function *function = &functions.items[functions.timed + i];
        assert_string_equal(function->request.name, timed[i].name);
        assert_int_equal(function->cookie & 255, WIRE_AGENT_ENTRY_FUNCTION);
        assert_true(function->whole && !function->only_found && function->request.over && !function->alone);
    }
    assert_true(probe_functions_is_odd("setjmp") && !probe_functions_is_odd("read"));
    free(functions.items);
}

/* What unwinders ask reports the agent to them, and where return addresses are replaced as well they are
 * put back before that. */
static void test_what_unwinders_ask(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        const struct probe_functions_request request = {
            .heap = i & 1, .descriptors = i >> 1 & 1, .shared = true};
        struct probe_functions functions;
        size_t reporting = 0, over = 0, alone = 0;
        assert_int_equal(probe_functions_make(&functions, image, &request, NULL), BASE_OK);
        for (size_t k = 0; k < functions.count; k++) {
            const struct loader_function *function = &functions.items[k];
            if (strcmp(function->request.name, "_dl_find_object") &&
                strcmp(function->request.name, "dl_iterate_phdr"))
                continue;
            bool reports = probe_functions_reports(function);
            assert_int_equal(function->whole, !reports);
            assert_true(!reports ||
                        (over == 0 && !function->alone && !function->request.over)); /* it is the first */
            reporting += reports;
            over += function->request.over;
            alone += function->alone;
        }
        assert_int_equal(reporting, request.heap ? 2 : 0);
        assert_int_equal(alone, request.descriptors ? 2 : 0);
        assert_int_equal(over, request.heap && request.descriptors ? 2 : 0);
        free(functions.items);
    }
}

/* The user's come first, and are of a family of their own; without --heap they are not hooked. */
static void test_named(void **state)
{
    (void)state;
    struct probe_named_function items[2] = {
        {{"malloc", "libx*", NULL, false, false, false, false}, WIRE_AGENT_ENTRY_FREE, 1, "names"},
        {{"put", NULL, NULL, false, false, false, false}, WIRE_AGENT_ENTRY_POOL_FREE, 2, "names"}};
    const struct probe_named named = {items, 2, 2};
    for (unsigned heap = 0; heap < 2; heap++) {
        const struct probe_functions_request request = {
            .heap = heap, .named = &named, .shared = true, .sizes = true};
        struct probe_functions functions;
        assert_int_equal(probe_functions_make(&functions, image, &request, NULL), BASE_OK);
        assert_int_equal(functions.named, heap ? 2 : 0);
        for (size_t i = 0; i < functions.named; i++) {
            assert_string_equal(functions.items[i].request.name, items[i].request.name);
            assert_int_equal(functions.items[i].cookie, WIRE_AGENT_COOKIE(items[i].entry, WIRE_AGENT_NAMED));
            assert_int_not_equal(functions.items[i].handler, 0);
        }
        assert_int_equal(functions.allocators > 2, heap);
        for (size_t i = 0; i < functions.count; i++)
            assert_non_null(functions.items[i].request.name);
        free(functions.items);
    }
    assert_null(probe_functions_usable_size(WIRE_AGENT_NAMED));
}

/* What opens descriptors is entered with all registers, what closes them as a call; none of the loader's
 * is. */
static void test_descriptors(void **state)
{
    (void)state;
    const struct probe_functions_request request = {.descriptors = true, .shared = true};
    struct probe_functions functions;
    size_t opening = 0, closing = 0, unwinders = 0;
    assert_int_equal(probe_functions_make(&functions, image, &request, NULL), BASE_OK);
    assert_int_equal(functions.timed, functions.count - 2); /* what loads an unwinder */
    for (size_t i = ALWAYS; i < functions.count; i++) {
        const struct loader_function *function = &functions.items[i];
        uint32_t entry = function->cookie & 255, how = wire_agent_cookie_family(function->cookie);
        if (function->only_found)
            continue;
        assert_int_equal(function->whole,
                         entry == WIRE_AGENT_ENTRY_UNWIND || entry == WIRE_AGENT_ENTRY_DESCRIPTOR);
        unwinders += entry == WIRE_AGENT_ENTRY_UNWIND;
        opening += entry == WIRE_AGENT_ENTRY_DESCRIPTOR;
        closing += entry == WIRE_AGENT_ENTRY_CLOSE || entry == WIRE_AGENT_ENTRY_CLOSE_RANGE;
        assert_int_equal(entry == WIRE_AGENT_ENTRY_DESCRIPTOR,
                         how >= WIRE_AGENT_OPENED && how < WIRE_AGENT_HOWS);
        if (entry != WIRE_AGENT_ENTRY_UNWIND) {
            assert_false(plan_function_concerns(&function->request, "/lib64/ld-linux-x86-64.so.2"));
            assert_true(plan_function_concerns(&function->request, "/lib/x86_64-linux-gnu/libc.so.6"));
        }
    }
    assert_true(unwinders > 5 && opening > 40 && closing > 3);
    free(functions.items);
}

static void test_the_loaders_own_malloc_is_left_alone(void **state)
{
    (void)state;
    static const char *const loaders[] = {"/lib/x86_64-linux-gnu/ld-2.31.so", "/lib64/ld-linux-x86-64.so.2",
                                          "/nix/store/x-glibc/lib/ld-linux-x86-64.so.2"};
    static const char *const others[] = {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/ld-musl-x86_64.so.1",
                                         "/home/x/ld-linux/program", "/usr/bin/ld.bfd"};
    static const char *const names[] = {"malloc",         "calloc", "realloc", "free",
                                        "posix_memalign", "mmap",   "munmap",  "brk"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t j = 0; j < sizeof loaders / sizeof *loaders; j++)
            assert_int_equal(concerned(names[i], loaders[j], false), 0);
        const char *beside = i > 0 && i < 5 ? "malloc" : NULL; /* other allocators' only with that */
        for (size_t j = 0; j < sizeof others / sizeof *others; j++)
            assert_int_equal(concerned_beside(names[i], others[j], false, beside), 1);
    }
}

/* Allocators stand in for the C library's; what is hooked for its effects is nobody else's, but for
 * liburing's. */
static void test_whose_functions(void **state)
{
    (void)state;
    const struct probe_functions_request request = {
        .heap = true, .maps = true, .timers = true, .descriptors = true, .ends = true};
    struct probe_functions functions;
    assert_int_equal(probe_functions_make(&functions, image, &request, NULL), BASE_OK);
    size_t own = 0;
    for (size_t i = 0; i < functions.count; i++) {
        const struct plan_function_request *it = &functions.items[i].request;
        bool library = !strcmp(it->name, "mmap") || !strcmp(it->name, "brk") || !strcmp(it->name, "execve") ||
                       !strcmp(it->name, "prctl") || !strcmp(it->name, "sigaction") ||
                       !strcmp(it->name, "fork") || !strcmp(it->name, "accept") || !strcmp(it->name, "_exit");
        bool others = !strcmp(it->name, "malloc") || !strcmp(it->name, "memalign") ||
                      !strcmp(it->name, "io_uring_setup") || !strcmp(it->name, "_dl_debug_state");
        assert_true(!library || it->own);
        assert_true(!others || !it->own);
        own += library;
    }
    assert_true(own >= 8);
    free(functions.items);
}

static void test_objects_are_reported_by_the_loader_or_the_owner(void **state)
{
    (void)state;
    assert_int_equal(concerned("_dl_debug_state", "/lib/x86_64-linux-gnu/ld-2.31.so", false), 1);
    assert_int_equal(concerned("_dl_debug_state", "/lib/x86_64-linux-gnu/ld-2.31.so", true), 0);
    assert_int_equal(concerned("execve", "/lib/x86_64-linux-gnu/libc.so.6", false), 1);
    assert_int_equal(concerned("execve", "/lib/x86_64-linux-gnu/libc.so.6", true), 0);
}

static void test_operators_only_of_allocators(void **state)
{
    (void)state;
    static const char *const names[] = {"_Znwm", "_Znam", "_ZdlPv", "_ZdaPvm", "_ZnwmRKSt9nothrow_t"};
    static const char *const any[] = {"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
                                      "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/bin/program"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(concerned(names[i], "/usr/lib/libtcmalloc_minimal.so.4", false), 1);
        assert_int_equal(concerned(names[i], "/usr/lib/libmimalloc.so.2.0", false), 1);
        for (size_t j = 0; j < sizeof any / sizeof *any; j++) {
            assert_int_equal(concerned(names[i], any[j], false), 0);
            assert_int_equal(concerned_beside(names[i], any[j], false, "mallocx"), 1);
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    return loader_image_open(agent_blob, agent_blob_size, &image, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    loader_image_close(image);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_loaders_own_malloc_is_left_alone),
        cmocka_unit_test(test_whose_functions),
        cmocka_unit_test(test_objects_are_reported_by_the_loader_or_the_owner),
        cmocka_unit_test(test_operators_only_of_allocators),
        cmocka_unit_test(test_what_unwinders_ask),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_what_was_asked_for),
        cmocka_unit_test(test_timed_functions),
        cmocka_unit_test(test_descriptors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
