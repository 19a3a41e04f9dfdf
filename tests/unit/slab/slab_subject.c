/* Libraries that are patched in this process. */
#include <asm/prctl.h>
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "slab_subject.h"

#define WINDOW 0x4000

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

void slab_subject_load(struct slab_subject *subject, const char *path)
{
    struct elf_image *image;
    struct link_map *map;
    struct base_error error = {0};
    *subject = (struct slab_subject){0};
    subject->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(subject->handle);
    assert_int_equal(dlinfo(subject->handle, RTLD_DI_LINKMAP, &map), 0);
    subject->bias = map->l_addr;
    assert_int_equal(elf_image_open(path, &image, &error), BASE_OK);
    assert_int_equal(plan_make(image, NULL, &subject->plan, &error), BASE_OK);
    elf_image_close(image);
}

void *slab_subject_symbol(const struct slab_subject *subject, const char *name)
{
    void *symbol = dlsym(subject->handle, name);
    assert_non_null(symbol);
    return symbol;
}

/* A region in each window that a hook needs. */
static void map_windows(struct slab_subject *subject)
{
    for (uint32_t i = 0; i < subject->plan.header->hook_count; i++) {
        uint64_t low, high;
        bool there = !slab_hook_window(&subject->plan, i, subject->bias, &low, &high);
        for (size_t j = 1; j < subject->region_count; j++)
            there =
                there || (subject->regions[j].address >= low && subject->regions[j].address + WINDOW <= high);
        for (uint64_t at = (low + 0xfff) & ~UINT64_C(0xfff); !there && at + WINDOW <= high; at += WINDOW) {
            void *place = mmap((void *)(uintptr_t)at, WINDOW, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (place == MAP_FAILED)
                continue;
            assert_true(subject->region_count < SLAB_SUBJECT_REGIONS);
            subject->regions[subject->region_count++] =
                (struct slab_region){address_of(place), place, WINDOW, 0};
            there = true;
        }
    }
}

uint64_t slab_subject_slot(const struct slab_subject *subject, uint64_t slot)
{
    return *(const uint64_t *)(uintptr_t)(subject->bias + slot);
}

/* The library is bound at once (RTLD_NOW). */
static uint64_t resolve(void *context, uint64_t slot)
{
    return slab_subject_slot(context, slot);
}

static struct stub_table *new_table(void)
{
    struct stub_table *table =
        calloc(1, sizeof *table + SLAB_SUBJECT_ENTRIES * sizeof(struct stub_table_entry));
    assert_non_null(table);
    table->mask = SLAB_SUBJECT_ENTRIES - 1;
    return table;
}

static size_t guess_all(struct slab_subject *subject)
{
    const struct plan *plan = &subject->plan;
    size_t count = 0;
    for (uint32_t i = 0; i < plan->header->site_count && count < SLAB_GUESSES; i++) {
        bool direct = stub_x86_64_site_is_direct((enum stub_kind)plan->sites[i].kind);
        if (direct || plan->header->hook_count == 0)
            continue;
        uint32_t word = plan_words(plan) + (uint32_t)count;
        subject->tried[count] = (struct slab_guess){i, (uint32_t)count % plan->header->hook_count, word};
        count++;
    }
    return count;
}

uint64_t slab_subject_guessed(const struct slab_subject *subject, const struct stub_block *block,
                              uint32_t site, uint32_t hook)
{
    uint64_t calls = 0;
    for (size_t i = 0; i < subject->slab.guess_count; i++)
        if (subject->tried[i].hook == hook && (site == PLAN_NONE || subject->tried[i].site == site))
            calls += block->counters[subject->tried[i].word];
    return calls;
}

void slab_subject_prepare(struct slab_subject *subject, enum stub_form form, uint64_t near)
{
    size_t size = (slab_size(&subject->plan) + 0xfff) & ~(size_t)0xfff;
    subject->place = map_near(near, size + SLAB_SUBJECT_BLOCK);
    struct stub_block *block = (void *)(subject->place + size);
    block->self = address_of(block);
    block->table = address_of(new_table());
    assert_true(8 * (STUB_BLOCK_WORDS + (uint64_t)plan_words(&subject->plan) + SLAB_GUESSES) <=
                SLAB_SUBJECT_BLOCK);
    subject->regions[0] = (struct slab_region){address_of(subject->place), subject->place, size, 0};
    subject->region_count = 1;
    map_windows(subject);
    subject->slab = (struct slab){.plan = &subject->plan,
                                  .wanted = subject->wanted,
                                  .guesses = subject->tried,
                                  .guess_count = subject->guesses ? guess_all(subject) : 0,
                                  .bias = subject->bias,
                                  .counter = {form, address_of(block), SLAB_SUBJECT_WORD, STUB_BLOCK_WORDS},
                                  .regions = subject->regions,
                                  .region_count = subject->region_count,
                                  .resolve = subject->resolves ? resolve : NULL,
                                  .context = subject};
    assert_int_equal(slab_make(&subject->slab, NULL), BASE_OK);
    for (unsigned i = 0; i < PLAN_REASONS; i++)
        assert_int_equal(subject->slab.reasons[i], 0);
}

void slab_subject_write(const struct slab_subject *subject, bool undo)
{
    for (size_t i = 0; i < subject->slab.write_count; i++) {
        const struct slab_write *write = &subject->slab.writes[i];
        uint8_t *at = (uint8_t *)(uintptr_t)write->address;
        uint8_t *page = (uint8_t *)((uintptr_t)at & ~(uintptr_t)0xfff);
        assert_memory_equal(at, undo ? write->fresh : write->old, write->length);
        assert_return_code(mprotect(page, 0x2000, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
        memcpy(at, undo ? write->old : write->fresh, write->length);
        assert_return_code(mprotect(page, 0x1000, PROT_READ | PROT_EXEC), 0);
    }
}

struct stub_block *slab_subject_block(const struct slab_subject *subject)
{
    return (void *)(uintptr_t)subject->slab.counter.block;
}

struct stub_block *slab_subject_new_block(void)
{
    struct stub_block *block = calloc(1, SLAB_SUBJECT_BLOCK);
    assert_non_null(block);
    block->self = address_of(block);
    block->table = address_of(new_table());
    return block;
}

void slab_subject_free_block(struct stub_block *block)
{
    free((void *)(uintptr_t)block->table);
    free(block);
}

void slab_subject_use_block(const struct stub_block *block)
{
    uint64_t base = block != NULL ? address_of(block) - SLAB_SUBJECT_WORD : 0;
    assert_return_code(syscall(SYS_arch_prctl, ARCH_SET_GS, base), 0);
}

uint64_t slab_subject_hook_calls_from(const struct slab_subject *subject, const struct stub_block *block,
                                      uint32_t hook, uint64_t return_address)
{
    uint64_t word = plan_hook_word(&subject->plan, hook), calls = 0;
    const struct stub_table *table = (const void *)(uintptr_t)block->table;
    for (uint64_t i = 0; i <= table->mask; i++)
        if (table->entries[i].callee == 8 * (STUB_BLOCK_WORDS + word) &&
            table->entries[i].return_address == return_address)
            calls += table->entries[i].calls;
    return calls + (block->counters[word] == return_address ? block->counters[word + 1] : 0);
}

uint64_t slab_subject_hook_calls(const struct slab_subject *subject, const struct stub_block *block,
                                 uint32_t hook)
{
    uint64_t word = plan_hook_word(&subject->plan, hook), calls = 0;
    const struct stub_table *table = (const void *)(uintptr_t)block->table;
    for (uint64_t i = 0; i <= table->mask; i++)
        if (table->entries[i].callee == 8 * (STUB_BLOCK_WORDS + word))
            calls += table->entries[i].calls;
    return calls + block->counters[word + 1] + block->counters[word + 2];
}

void slab_subject_unload(struct slab_subject *subject)
{
    size_t size = subject->regions[0].size;
    for (size_t i = 1; i < subject->region_count; i++)
        munmap(subject->regions[i].bytes, WINDOW);
    free((void *)(uintptr_t)slab_subject_block(subject)->table);
    munmap(subject->place, size + SLAB_SUBJECT_BLOCK);
    slab_free(&subject->slab);
    plan_free(&subject->plan);
    dlclose(subject->handle);
}
