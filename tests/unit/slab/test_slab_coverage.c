/* test_slab_coverage.c - plans of programs as Debian ships them: what is planned, what is left and why.
 * Programs that are not installed are left out. Demanded of each: 99 % of the callable functions covered,
 * 97 % of the direct sites planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "plan.h"
#include "slab.h"

static const char *const programs[] = {
    "/bin/bzip2",
    "/lib/x86_64-linux-gnu/libbz2.so.1.0",
    "/usr/bin/lua5.4",
    "/bin/gzip",
    "/usr/bin/sqlite3",
    "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
    "/usr/bin/xz",
    "/lib/x86_64-linux-gnu/liblzma.so.5",
    "/usr/bin/git",
    "/usr/bin/make",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
};

static void publish(const char *program, const struct plan_header *header)
{
    print_message(
        "# %s: %lu of %lu sites, of them %lu of %lu indirect; %lu of %lu functions by address; %lu of %lu "
        "functions covered\n",
        program, header->planned, header->found, header->indirect_planned, header->indirect_found,
        header->hooked, header->taken, header->covered, header->callable);
    for (unsigned i = 1; i < PLAN_REASONS; i++)
        if (header->reasons[i] != 0)
            print_message("#   %6lu %s\n", header->reasons[i], stub_reason_text(i));
}

static void programs_are_covered(void **state)
{
    (void)state;
    uint64_t tails = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct elf_image *image;
        struct plan plan;
        if (access(programs[i], R_OK) != 0)
            continue;
        assert_int_equal(elf_image_open(programs[i], &image, NULL), BASE_OK);
        assert_int_equal(plan_make(image, NULL, &plan, NULL), BASE_OK);
        const struct plan_header *header = plan.header;
        publish(programs[i], header);
        uint64_t direct = header->found - header->indirect_found,
                 planned = header->planned - header->indirect_planned;
        assert_true(100 * header->covered >= 99 * header->callable);
        assert_true(100 * planned >= 97 * direct);
        for (uint32_t j = 0; j < header->site_count; j++)
            tails += plan.sites[j].kind == STUB_JUMP && plan.sites[j].slot != 0;
        plan_free(&plan);
        elf_image_close(image);
    }
    assert_true(tails > 0); /* `jmp strlen@plt` */
}

#define TEXT 0x7f0000000000

/* Every linkage stub leads somewhere near. */
static uint64_t bound(void *context, uint64_t slot)
{
    (void)context;
    (void)slot;
    return TEXT - 0x2000000;
}

/* Bytes of a stub, on average. */
static double make_slab(const struct plan *plan, enum stub_form form, slab_resolve *resolve)
{
    struct slab_region region = {TEXT - 0x8000000, NULL, slab_size(plan), 0};
    region.bytes = test_malloc(region.size);
    struct slab slab = {.plan = plan,
                        .bias = TEXT,
                        .counter = {form, TEXT - 0x1000000, 0x20000000, STUB_BLOCK_WORDS},
                        .regions = &region,
                        .region_count = 1,
                        .resolve = resolve};
    assert_int_equal(slab_make(&slab, NULL), BASE_OK);
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        assert_int_not_equal(slab.stubs[i], 0);
    for (size_t i = 1; i < slab.write_count; i++)
        assert_true(slab.writes[i].address >= slab.writes[i - 1].address + slab.writes[i - 1].length);
    double each = (double)(slab.recorder - region.address) / plan->header->site_count;
    slab_free(&slab);
    test_free(region.bytes);
    return each;
}

/* Every plan turns into bytes: nothing is out of reach of a slab 128 MiB below, in any form, writes never
 * overlap, and stubs are small: those of calls through slots that are not bound yet have to remove marks,
 * those of calls to hooked functions begin with what the hook moved. */
static void plans_become_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct elf_image *image;
        struct plan plan;
        double unbound[STUB_LOCK + 1], all_bound[STUB_LOCK + 1];
        if (access(programs[i], R_OK) != 0)
            continue;
        assert_int_equal(elf_image_open(programs[i], &image, NULL), BASE_OK);
        assert_int_equal(plan_make(image, NULL, &plan, NULL), BASE_OK);
        for (enum stub_form form = STUB_PLAIN; form <= STUB_LOCK; form++) {
            unbound[form] = make_slab(&plan, form, NULL);
            all_bound[form] = make_slab(&plan, form, bound);
            assert_true(unbound[form] <= (form == STUB_THREAD ? 30 : 25));
            assert_true(all_bound[form] <= (form == STUB_THREAD ? 30 : 25));
        }
        print_message("# %s: bytes a stub: plain %.1f (bound %.1f), thread %.1f (%.1f), lock %.1f (%.1f)\n",
                      programs[i], unbound[0], all_bound[0], unbound[1], all_bound[1], unbound[2],
                      all_bound[2]);
        plan_free(&plan);
        elf_image_close(image);
    }
}

/* Somewhere else, as near. */
static uint64_t elsewhere(void *context, uint64_t slot)
{
    (void)context;
    return TEXT - 0x2100000 + (slot & 0xfff8);
}

static void begin_slab(struct slab *slab, struct slab_region *region, const struct plan *plan,
                       slab_resolve *resolve)
{
    *region = (struct slab_region){TEXT - 0x8000000, NULL, slab_size(plan), 0};
    region->bytes = test_calloc(region->size, 1);
    *slab = (struct slab){.plan = plan,
                          .bias = TEXT,
                          .counter = {STUB_PLAIN, TEXT - 0x1000000, 0, STUB_BLOCK_WORDS},
                          .regions = region,
                          .region_count = 1,
                          .resolve = resolve};
    assert_int_equal(slab_make(slab, NULL), BASE_OK);
}

static size_t sites_by_slot(const struct plan *plan)
{
    size_t count = 0;
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        count += plan->sites[i].slot != 0 && stub_x86_64_site_is_direct((enum stub_kind)plan->sites[i].kind);
    return count;
}

/* Binding a slab to where slots lead now gives what it would have been, had they led there when it was made,
 * and leaves everything alone where they still lead. */
static void bound_slabs_are_as_made_so(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct elf_image *image;
        struct plan plan;
        struct slab first, second;
        struct slab_region one, two;
        if (access(programs[i], R_OK) != 0)
            continue;
        assert_int_equal(elf_image_open(programs[i], &image, NULL), BASE_OK);
        assert_int_equal(plan_make(image, NULL, &plan, NULL), BASE_OK);
        begin_slab(&first, &one, &plan, bound);
        begin_slab(&second, &two, &plan, elsewhere);
        assert_int_equal(one.used, two.used);
        assert_int_equal(memcmp(one.bytes, two.bytes, one.size) == 0, sites_by_slot(&plan) == 0);
        first.resolve = elsewhere;
        slab_stub_bind(&first);
        assert_memory_equal(one.bytes, two.bytes, one.size);
        slab_stub_bind(&first);
        assert_memory_equal(one.bytes, two.bytes, one.size);
        assert_memory_equal(first.inlined, second.inlined, plan.header->site_count * sizeof *first.inlined);
        slab_free(&first);
        slab_free(&second);
        test_free(one.bytes);
        test_free(two.bytes);
        plan_free(&plan);
        elf_image_close(image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_covered),
        cmocka_unit_test(plans_become_bytes),
        cmocka_unit_test(bound_slabs_are_as_made_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
