/* test_live.c - a whole library, planned from its file and patched where it lies in this process: it must compute what
 * it computed before, every function's calls must add up to what it counted itself, and undoing gives the text back.
 *
 *     test_live LIBRARY...
 *
 * A function's calls: its direct sites' counters, and its hook's; a call through the linkage table or a moved indirect one
 * is seen by both, so slots and unknown callees are left to the hook. */
#include <asm/prctl.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "patch_slab.h"

#define WORD       0x30000000u
#define BLOCK_SIZE 0x40000
#define ENTRIES    4096
#define FUNCTIONS  14
#define ROUNDS     200
#define REGIONS    16
#define WINDOW     0x4000

static char **libraries;

struct subject {
    void *handle;
    uint64_t bias;
    uint64_t (*run)(uint64_t);
    uint64_t *entered;
    const void *const *functions;
    struct patch_plan plan;
    struct patch_slab slab;
    struct patch_slab_region
        regions[REGIONS]; /* the first: slab, then block; others: windows of endbr64 hooks */
    size_t region_count;
    bool resolves; /* calls through linkage stubs go straight to their ends */
    uint8_t *place;
};

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static void *map_near(uint64_t near, size_t size)
{
    for (uint64_t distance = 0x1000000; distance < 0x70000000; distance += 0x1000000) {
        uint64_t at = (near & ~UINT64_C(0xfff)) - distance;
        void *place = mmap((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE | PROT_EXEC,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (place != MAP_FAILED && address_of(place) == at)
            return place;
        if (place != MAP_FAILED)
            munmap(place, size);
    }
    fail_msg("no room near the library");
    return NULL;
}

static void load(struct subject *subject, const char *path)
{
    struct elf_image *image;
    struct link_map *map;
    struct base_error error = {0};
    *subject = (struct subject){0};
    subject->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(subject->handle);
    assert_int_equal(dlinfo(subject->handle, RTLD_DI_LINKMAP, &map), 0);
    subject->bias = map->l_addr;
    *(void **)&subject->run = dlsym(subject->handle, "fixture_run");
    subject->entered = dlsym(subject->handle, "fixture_entered");
    subject->functions = dlsym(subject->handle, "fixture_functions");
    assert_int_equal(elf_image_open(path, &image, &error), BASE_OK);
    assert_int_equal(patch_plan_make(image, NULL, &subject->plan, &error), BASE_OK);
    elf_image_close(image);
}

/* A region in each window that a hook needs. */
static void map_windows(struct subject *subject)
{
    for (uint32_t i = 0; i < subject->plan.header->hook_count; i++) {
        uint64_t low, high;
        bool there = !patch_slab_window(&subject->plan, i, subject->bias, &low, &high);
        for (size_t j = 1; j < subject->region_count; j++)
            there =
                there || (subject->regions[j].address >= low && subject->regions[j].address + WINDOW <= high);
        for (uint64_t at = (low + 0xfff) & ~UINT64_C(0xfff); !there && at + WINDOW <= high; at += WINDOW) {
            void *place = mmap((void *)(uintptr_t)at, WINDOW, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (place == MAP_FAILED)
                continue;
            assert_true(subject->region_count < REGIONS);
            subject->regions[subject->region_count++] =
                (struct patch_slab_region){address_of(place), place, WINDOW, 0};
            there = true;
        }
    }
}

/* The library is bound at once (RTLD_NOW). */
static uint64_t resolve(void *context, uint64_t slot)
{
    const struct subject *subject = context;
    return *(const uint64_t *)(uintptr_t)(subject->bias + slot);
}

static void prepare(struct subject *subject, enum patch_form form)
{
    size_t size = (patch_slab_size(&subject->plan) + 0xfff) & ~(size_t)0xfff;
    subject->place = map_near(address_of(subject->run), size + BLOCK_SIZE);
    struct patch_block *block = (void *)(subject->place + size);
    struct patch_table *table = calloc(1, sizeof *table + ENTRIES * sizeof(struct patch_table_entry));
    assert_non_null(table);
    table->mask = ENTRIES - 1;
    block->self = address_of(block);
    block->table = address_of(table);
    assert_true(8 * (PATCH_BLOCK_WORDS + (uint64_t)patch_plan_words(&subject->plan)) <= BLOCK_SIZE);
    subject->regions[0] = (struct patch_slab_region){address_of(subject->place), subject->place, size, 0};
    subject->region_count = 1;
    map_windows(subject);
    subject->slab = (struct patch_slab){.plan = &subject->plan,
                                        .bias = subject->bias,
                                        .counter = {form, address_of(block), WORD, PATCH_BLOCK_WORDS},
                                        .regions = subject->regions,
                                        .region_count = subject->region_count,
                                        .resolve = subject->resolves ? resolve : NULL,
                                        .context = subject};
    assert_int_equal(patch_slab_make(&subject->slab, NULL), BASE_OK);
    for (unsigned i = 0; i < PATCH_PLAN_REASONS; i++)
        assert_int_equal(subject->slab.reasons[i], 0);
}

static struct patch_block *block_of(const struct subject *subject)
{
    return (void *)(uintptr_t)subject->slab.counter.block;
}

static void write_text(const struct subject *subject, bool undo)
{
    for (size_t i = 0; i < subject->slab.write_count; i++) {
        const struct patch_write *write = &subject->slab.writes[i];
        uint8_t *at = (uint8_t *)(uintptr_t)write->address;
        uint8_t *page = (uint8_t *)((uintptr_t)at & ~(uintptr_t)0xfff);
        assert_memory_equal(at, undo ? write->fresh : write->old, write->length);
        assert_return_code(mprotect(page, 0x2000, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
        memcpy(at, undo ? write->old : write->fresh, write->length);
        assert_return_code(mprotect(page, 0x1000, PROT_READ | PROT_EXEC), 0);
    }
}

static bool is_resolved_to(const struct subject *subject, const struct patch_plan_site *site,
                           uint64_t address)
{
    return subject->resolves && site->slot != 0 && site->kind < PATCH_CALL_INDIRECT &&
           resolve((void *)(uintptr_t)subject, site->slot) == address;
}

/* What a block holds about the function that starts at `address`. */
static uint64_t calls_of(const struct subject *subject, const struct patch_block *block, uint64_t address)
{
    const struct patch_plan *plan = &subject->plan;
    uint32_t function = patch_plan_function_at(plan, address - subject->bias);
    uint64_t calls = 0;
    assert_int_not_equal(function, PATCH_NONE);
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        if (subject->slab.stubs[i] != 0 &&
            (plan->sites[i].callee == function || is_resolved_to(subject, &plan->sites[i], address)))
            calls += block->counters[patch_plan_site_word(i)];
    uint32_t hook = plan->functions[function].hook;
    if (hook == PATCH_NONE)
        return calls;
    uint64_t word = patch_plan_hook_word(plan, hook);
    const struct patch_table *table = (const void *)(uintptr_t)block->table;
    for (uint64_t i = 0; i <= table->mask; i++)
        if (table->entries[i].callee == 8 * (PATCH_BLOCK_WORDS + word))
            calls += table->entries[i].calls;
    return calls + block->counters[word + 1] + block->counters[word + 2];
}

static void set_gs(uint64_t base)
{
    assert_return_code(syscall(SYS_arch_prctl, ARCH_SET_GS, base), 0);
}

static void unload(struct subject *subject)
{
    size_t size = subject->regions[0].size;
    for (size_t i = 1; i < subject->region_count; i++)
        munmap(subject->regions[i].bytes, WINDOW);
    free((void *)(uintptr_t)block_of(subject)->table);
    munmap(subject->place, size + BLOCK_SIZE);
    patch_slab_free(&subject->slab);
    patch_plan_free(&subject->plan);
    dlclose(subject->handle);
}

static void counts_equal_the_truth(void **state)
{
    (void)state;
    for (char **library = libraries; *library != NULL; library++) {
        for (int turn = 0; turn < 6; turn++) {
            enum patch_form form = (enum patch_form)(turn / 2);
            struct subject subject;
            load(&subject, *library);
            subject.resolves = turn % 2 == 1;
            uint64_t expected = subject.run(ROUNDS);
            prepare(&subject, form);
            memset(subject.entered, 0, 64 * sizeof *subject.entered);
            if (form == PATCH_THREAD)
                set_gs(subject.slab.counter.block - WORD);
            write_text(&subject, false);
            uint64_t result = subject.run(ROUNDS);
            write_text(&subject, true);
            set_gs(0);
            assert_int_equal(result, expected);
            for (unsigned i = 0; i < FUNCTIONS; i++)
                assert_int_equal(calls_of(&subject, block_of(&subject), address_of(subject.functions[i])),
                                 subject.entered[i]);
            assert_int_equal(subject.run(ROUNDS), expected); /* undone */
            unload(&subject);
        }
    }
}

/* Two threads at once: LOCK shares one block, THREAD has one each. */
struct worker {
    struct subject *subject;
    uint64_t block, result;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    if (worker->subject->slab.counter.form == PATCH_THREAD)
        set_gs(worker->block - WORD);
    worker->result = worker->subject->run(20000);
    return NULL;
}

static void two_threads_lose_nothing(void **state)
{
    (void)state;
    struct subject subject;
    load(&subject, libraries[0]);
    memset(subject.entered, 0, 64 * sizeof *subject.entered);
    uint64_t expected = subject.run(20000), once[FUNCTIONS];
    memcpy(once, subject.entered, sizeof once);
    prepare(&subject, PATCH_LOCK);
    pthread_t threads[2];
    struct worker workers[2] = {{.subject = &subject}, {.subject = &subject}};
    write_text(&subject, false);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    write_text(&subject, true);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(workers[i].result, expected);
    for (unsigned i = 0; i < FUNCTIONS; i++)
        assert_int_equal(calls_of(&subject, block_of(&subject), address_of(subject.functions[i])),
                         2 * once[i]);
    unload(&subject);
}

static void threads_have_blocks_of_their_own(void **state)
{
    (void)state;
    struct subject subject;
    load(&subject, libraries[0]);
    memset(subject.entered, 0, 64 * sizeof *subject.entered);
    uint64_t expected = subject.run(20000), once[FUNCTIONS];
    memcpy(once, subject.entered, sizeof once);
    prepare(&subject, PATCH_THREAD);
    struct worker workers[2] = {{.subject = &subject}, {.subject = &subject}};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++) {
        struct patch_block *block = calloc(1, BLOCK_SIZE);
        struct patch_table *table = calloc(1, sizeof *table + ENTRIES * sizeof(struct patch_table_entry));
        table->mask = ENTRIES - 1;
        block->self = workers[i].block = address_of(block);
        block->table = address_of(table);
    }
    write_text(&subject, false);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    write_text(&subject, true);
    for (unsigned i = 0; i < 2; i++) {
        struct patch_block *block = (void *)(uintptr_t)workers[i].block;
        assert_int_equal(workers[i].result, expected);
        for (unsigned j = 0; j < FUNCTIONS; j++)
            assert_int_equal(calls_of(&subject, block, address_of(subject.functions[j])), once[j]);
        free((void *)(uintptr_t)block->table);
        free(block);
    }
    unload(&subject);
}

/* PLAIN first, then THREAD without going back: a second slab, whose writes follow the first one's. */
static void another_form_follows(void **state)
{
    (void)state;
    struct subject first, second;
    load(&first, libraries[0]);
    uint64_t expected = first.run(ROUNDS);
    prepare(&first, PATCH_PLAIN);
    load(&second, libraries[0]);
    prepare(&second, PATCH_THREAD);
    assert_true(patch_slab_follow(&second.slab, &first.slab));
    write_text(&first, false);
    assert_int_equal(first.run(ROUNDS), expected);
    set_gs(second.slab.counter.block - WORD);
    write_text(&second, false);
    memset(first.entered, 0, 64 * sizeof *first.entered);
    assert_int_equal(first.run(ROUNDS), expected);
    for (unsigned i = 0; i < FUNCTIONS; i++)
        assert_int_equal(calls_of(&second, block_of(&second), address_of(second.functions[i])),
                         first.entered[i]);
    write_text(&second, true);
    write_text(&first, true);
    set_gs(0);
    assert_int_equal(first.run(ROUNDS), expected);
    unload(&second);
    unload(&first);
}

/* Every function of the fixture is covered; nothing else is asked of a compiler. */
static void all_is_covered(void **state)
{
    (void)state;
    for (char **library = libraries; *library != NULL; library++) {
        struct subject subject;
        load(&subject, *library);
        const struct patch_plan_header *header = subject.plan.header;
        print_message("# %s: %lu of %lu sites, %lu of %lu hooks, %lu of %lu functions\n", *library,
                      header->planned, header->found, header->hooked, header->taken, header->covered,
                      header->callable);
        for (unsigned i = 0; i < FUNCTIONS; i++) {
            uint32_t function =
                patch_plan_function_at(&subject.plan, address_of(subject.functions[i]) - subject.bias);
            assert_int_not_equal(function, PATCH_NONE);
            assert_int_equal(subject.plan.functions[function].reason, PATCH_FINE);
        }
        patch_plan_free(&subject.plan);
        dlclose(subject.handle);
    }
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_equal_the_truth),
        cmocka_unit_test(two_threads_lose_nothing),
        cmocka_unit_test(threads_have_blocks_of_their_own),
        cmocka_unit_test(another_form_follows),
        cmocka_unit_test(all_is_covered),
    };
    if (argument_count < 2)
        return 2;
    libraries = arguments + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
