/* test_plan_creation.c - which functions create threads or processes: of an assembled library, of this
 * machine's libc, of others.
 *
 *     test_plan_creation FIXTURE ENTERED NAMELESS COMPATIBLE */
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "plan_creation.h"

enum { FIXTURE = 1, ENTERED, NAMELESS, COMPATIBLE, ARGUMENTS };

static char **paths;

struct found {
    struct elf_image *image;
    struct plan_creations creations;
};

static struct found find_in(const char *path)
{
    struct found found = {0};
    struct base_error error = {0};
    if (elf_image_open(path, &found.image, &error) < 0 ||
        plan_creation_find(found.image, &found.creations, &error) < 0)
        fail_msg("%s: %s", path, error.text);
    return found;
}

static void free_found(struct found *found)
{
    plan_creation_free(&found->creations);
    elf_image_close(found->image);
}

/* The one at a function's address; NULL: it leads to none. */
static const struct plan_creation *at(const struct found *found, uint64_t address)
{
    for (size_t i = 0; i < found->creations.count; i++)
        if (found->creations.items[i].start == address)
            return &found->creations.items[i];
    return NULL;
}

static uint64_t symbol(void *library, const char *name)
{
    Dl_info info;
    void *address = dlsym(library, name);
    if (!address || !dladdr(address, &info))
        return 0;
    return (uint64_t)((const char *)address - (const char *)info.dli_fbase);
}

static void every_form_is_understood(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int argument;  /* -1: harmless */
        unsigned past; /* from its start; 0: its end */
        unsigned length;
    } forms[] = {
        {"creation_plain", PLAN_CREATION_ALWAYS, 7, 5},
        {"creation_harmless", -1, 0, 0},
        {"creation_zero", -1, 0, 0},
        {"creation_hoisted", -1, 0, 0},
        {"creation_hoisted_clone", PLAN_CREATION_ALWAYS, 15, 6},
        {"creation_two_ways", PLAN_CREATION_ALWAYS, 18, 9},
        {"creation_by_first", PLAN_CREATION_BY_RDI, 11, 6},
        {"creation_by_second", PLAN_CREATION_BY_RSI, 8, 6},
        {"creation_from_memory", PLAN_CREATION_ALWAYS, 8, 6},
        {"creation_immediate", -1, 0, 0},
        {"creation_unwound", PLAN_CREATION_ALWAYS, 12, 5},
    };
    struct found found = find_in(paths[FIXTURE]);
    void *library = dlopen(paths[FIXTURE], RTLD_NOW);
    assert_non_null(library);
    assert_false(found.creations.is_raw);
    unsigned creations = 1; /* creation_loops */
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        uint64_t start = symbol(library, forms[i].name);
        const struct plan_creation *creation = at(&found, start);
        assert_true(start);
        if ((creation != NULL) != (forms[i].argument >= 0))
            fail_msg("%s: %s", forms[i].name, creation ? "it creates nothing" : "not found");
        if (!creation)
            continue;
        if (creation->argument != forms[i].argument || creation->past - start != forms[i].past ||
            creation->length != forms[i].length)
            fail_msg("%s: argument %u, past %llu, length %u", forms[i].name, creation->argument,
                     (unsigned long long)(creation->past - start), creation->length);
        creations++;
    }
    const struct plan_creation *loops = at(&found, symbol(library, "creation_loops"));
    assert_non_null(loops);
    assert_true(loops->past == loops->end && loops->end > loops->start);
    assert_int_equal(found.creations.count, creations);
    dlclose(library);
    free_found(&found);
}

static void what_no_doorbell_can_precede_is_raw(void **state)
{
    (void)state;
    for (int i = ENTERED; i < ARGUMENTS; i++) {
        struct found found = find_in(paths[i]);
        if (!found.creations.is_raw)
            fail_msg("%s has no raw syscall site", paths[i]);
        assert_true(found.creations.raw > 0);
        assert_true(found.creations.count >= 8); /* the others are found all the same */
        free_found(&found);
    }
}

static void the_libc_of_this_process_can_have_doorbells(void **state)
{
    (void)state;
    static const char *const creations[] = {"clone", "vfork", "execve", "execveat", "fexecve", "syscall"};
    static const char *const harmless[] = {
        "read",           "write", "getpid",    "nanosleep",          "sched_yield", "pthread_create",
        "posix_memalign", "kill",  "futimesat", "pthread_mutex_lock", "exit",        "malloc"};
    Dl_info info;
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (!libc || !dladdr((void *)(uintptr_t)dlsym(libc, "execve"), &info))
        skip();
    struct found found = find_in(info.dli_fname);
    if (found.creations.is_raw)
        fail_msg("%s has a raw syscall site at 0x%llx", info.dli_fname,
                 (unsigned long long)found.creations.raw);
    for (size_t i = 0; i < sizeof creations / sizeof *creations; i++) {
        const struct plan_creation *creation = at(&found, symbol(libc, creations[i]));
        if (!creation)
            fail_msg("%s is not among them", creations[i]);
        assert_int_equal(creation->argument,
                         strcmp(creations[i], "syscall") ? PLAN_CREATION_ALWAYS : PLAN_CREATION_BY_RDI);
        assert_true(creation->past > creation->start && creation->past <= creation->end &&
                    creation->length >= 5);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (at(&found, symbol(libc, harmless[i])))
            fail_msg("%s is among them", harmless[i]);
    assert_true(found.creations.count < 20);
    free_found(&found);
}

static void others_are_searched(void **state)
{
    (void)state;
    static const char musl[] = "/lib/ld-musl-x86_64.so.1";
    struct found own = find_in("/proc/self/exe"); /* has none, or is sanitised: then those of the sanitiser */
    free_found(&own);
    if (access(musl, R_OK) != 0)
        skip();
    struct found found = find_in(musl);
    assert_true(found.creations.count >= 4); /* some of its functions have no name */
    free_found(&found);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_understood),
        cmocka_unit_test(what_no_doorbell_can_precede_is_raw),
        cmocka_unit_test(the_libc_of_this_process_can_have_doorbells),
        cmocka_unit_test(others_are_searched),
    };
    if (argc != ARGUMENTS)
        return 2;
    paths = argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
