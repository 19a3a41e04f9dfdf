/* test_slab_cache.c - plans on disk: the second time they are mapped, and nothing damaged or foreign is
 * used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "slab_cache.h"

struct place {
    char root[64], directory[96], file[192];
    struct elf_image *image;
};

static const char *subject;

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    char id[2 * ELF_BUILD_ID_MAX + 1];
    strcpy(place->root, "/tmp/test_plans.XXXXXX");
    if (mkdtemp(place->root) == NULL || elf_image_open(subject, &place->image, NULL) != BASE_OK)
        return -1;
    snprintf(place->directory, sizeof place->directory, "%s/deep/tally", place->root);
    elf_build_id_format(elf_image_build_id(place->image), id);
    snprintf(place->file, sizeof place->file, "%s/%s.plan", place->directory, id);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", place->root);
    elf_image_close(place->image);
    int failed = system(command);
    free(place);
    return failed;
}

/* As space_image.c does: from the cache, or made now and kept. */
static int plan_by_cache(struct slab_cache *cache, const struct elf_image *image, struct plan *plan)
{
    if (slab_cache_find(cache, image, plan))
        return BASE_OK;
    int result = plan_make(image, NULL, plan, NULL);
    if (result == BASE_OK)
        slab_cache_keep(cache, image, plan);
    return result;
}

/* Gets the plan through the cache; was it mapped? Its bytes must be those of a plan made now. */
static bool comes_from_cache(const struct place *place)
{
    struct slab_cache *cache;
    struct plan plan, made;
    assert_int_equal(slab_cache_open(place->directory, 1 << 30, &cache, NULL), BASE_OK);
    assert_int_equal(plan_by_cache(cache, place->image, &plan), BASE_OK);
    assert_int_equal(plan_make(place->image, NULL, &made, NULL), BASE_OK);
    assert_true(plan.header->site_count > 10);
    assert_int_equal(plan.size, made.size);
    assert_memory_equal(plan.blob, made.blob, made.size);
    bool mapped = plan.mapped;
    plan_free(&plan);
    plan_free(&made);
    slab_cache_close(cache);
    return mapped;
}

static void the_second_time_it_is_mapped(void **state)
{
    const struct place *place = *state;
    assert_false(comes_from_cache(place));
    assert_true(comes_from_cache(place));
}

static void overwrite(const struct place *place, size_t offset, uint64_t value)
{
    FILE *file = fopen(place->file, "r+");
    assert_non_null(file);
    fseek(file, (long)offset, SEEK_SET);
    assert_int_equal(fwrite(&value, sizeof value, 1, file), 1);
    fclose(file);
}

static void damage_is_found_and_replaced(void **state)
{
    const struct place *place = *state;
    struct plan plan;
    assert_int_equal(plan_make(place->image, NULL, &plan, NULL), BASE_OK);
    size_t functions = sizeof *plan.header;
    size_t sites = functions + plan.header->function_count * sizeof *plan.functions;
    size_t hooks = sites + plan.header->site_count * sizeof *plan.sites;
    const size_t places[] = {offsetof(struct plan_header, magic),
                             offsetof(struct plan_header, version),
                             offsetof(struct plan_header, byte_count),
                             offsetof(struct plan_header, text_size),
                             offsetof(struct plan_header, text_hash), /* another file with this build-id */
                             offsetof(struct plan_header, function_count),
                             offsetof(struct plan_header, hook_count),
                             functions,
                             sites + offsetof(struct plan_site, address),
                             sites + offsetof(struct plan_site, function),
                             sites + offsetof(struct plan_site, kind),
                             hooks + offsetof(struct plan_hook, address),
                             hooks + offsetof(struct plan_hook, function)};
    plan_free(&plan);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        comes_from_cache(place);
        overwrite(place, places[i], 0xf7f7f7f7f7f7f7f7u);
        assert_false(comes_from_cache(place));
        assert_true(comes_from_cache(place));
    }
    assert_return_code(truncate(place->file, 1000), 0);
    assert_false(comes_from_cache(place));
    assert_return_code(truncate(place->file, 0), 0);
    assert_false(comes_from_cache(place));
    assert_true(comes_from_cache(place));
}

/* Every prefix, and every single byte changed: opened or refused, but read within its bounds. */
static void no_damage_leads_out_of_bounds(void **state)
{
    const struct place *place = *state;
    struct plan plan, other;
    uint64_t sum = 0;
    assert_int_equal(plan_make(place->image, NULL, &plan, NULL), BASE_OK);
    size_t size = plan.size, step = 1 + size / 20000;
    for (size_t i = 0; i < size; i += 37 * step) {
        uint8_t *copy = malloc(i + 1);
        memcpy(copy, plan.blob, i);
        assert_false(plan_open(&other, copy, i));
        free(copy);
    }
    uint8_t *copy = malloc(size);
    memcpy(copy, plan.blob, size);
    for (size_t i = 0; i < size; i += step) {
        copy[i] ^= (uint8_t)(1 + i % 255);
        if (plan_open(&other, copy, size)) {
            for (uint32_t j = 0; j < other.header->function_count; j++)
                sum += strlen(plan_function_name(&other, j));
            for (uint32_t j = 0; j < other.header->site_count; j++)
                sum += other.functions[other.sites[j].function].size;
        }
        copy[i] = ((uint8_t *)plan.blob)[i];
    }
    assert_true(sum > 0);
    free(copy);
    plan_free(&plan);
}

static void what_others_may_write_is_not_used(void **state)
{
    const struct place *place = *state;
    comes_from_cache(place);
    assert_return_code(chmod(place->file, 0666), 0);
    assert_false(comes_from_cache(place)); /* and is replaced */
    assert_true(comes_from_cache(place));
    assert_return_code(chmod(place->directory, 0777), 0);
    assert_false(comes_from_cache(place));
}

static void it_works_without_a_directory(void **state)
{
    const struct place *place = *state;
    struct slab_cache *cache;
    struct plan plan;
    assert_int_equal(slab_cache_open(NULL, 0, &cache, NULL), BASE_OK);
    assert_int_equal(plan_by_cache(cache, place->image, &plan), BASE_OK);
    assert_false(plan.mapped);
    plan_free(&plan);
    assert_false(slab_cache_keeps(cache, place->image));
    assert_false(slab_cache_keeps(NULL, place->image));
    slab_cache_close(cache);
    assert_int_equal(plan_by_cache(NULL, place->image, &plan), BASE_OK);
    plan_free(&plan);
}

/* --- prepared slabs --- */

/* Is the slab for `wanted` in the cache? Then its bytes must be those that were prepared. */
static bool is_kept(const struct place *place, const struct slab_prepared_input *input,
                    const struct slab_prepared *made)
{
    struct slab_cache *cache;
    struct slab_prepared found;
    assert_int_equal(slab_cache_open(place->directory, 1 << 30, &cache, NULL), BASE_OK);
    bool kept = slab_cache_find_prepared(cache, place->image, input, &found);
    if (kept) {
        assert_true(found.mapped);
        assert_int_equal(found.size, made->size);
        assert_memory_equal(found.blob, made->blob, made->size);
        slab_prepared_free(&found);
    }
    slab_cache_close(cache);
    return kept;
}

static void keep(const struct place *place, const struct slab_prepared_input *input,
                 const struct slab_prepared *made)
{
    struct slab_cache *cache;
    assert_int_equal(slab_cache_open(place->directory, 1 << 30, &cache, NULL), BASE_OK);
    assert_true(slab_cache_keeps(cache, place->image));
    slab_cache_keep_prepared(cache, place->image, input, made);
    slab_cache_close(cache);
    assert_true(is_kept(place, input, made));
}

static void find_file(const struct place *place, char path[256])
{
    char command[256];
    snprintf(command, sizeof command, "ls '%s'/*.slab", place->directory);
    FILE *list = popen(command, "r");
    assert_non_null(list);
    assert_non_null(fgets(path, 256, list));
    path[strcspn(path, "\n")] = '\0';
    pclose(list);
}

static void slabs_are_kept_beside_plans(void **state)
{
    const struct place *place = *state;
    struct plan plan;
    struct slab_prepared made;
    char path[256];
    assert_int_equal(plan_make(place->image, NULL, &plan, NULL), BASE_OK);
    uint8_t *wanted = malloc(plan.header->site_count + (size_t)plan.header->hook_count);
    memset(wanted, 1, plan.header->site_count + (size_t)plan.header->hook_count);
    struct slab_prepared_input input = {.plan = &plan, .wanted = wanted}, other = input;
    input.key = slab_prepared_key(&input);
    assert_int_equal(slab_prepared_make(&input, &made, NULL), BASE_OK);
    assert_false(is_kept(place, &input, &made));
    keep(place, &input, &made);
    other.form = STUB_LOCK; /* another form, other sites: another file */
    other.key = slab_prepared_key(&other);
    assert_false(is_kept(place, &other, &made));
    wanted[0] = 0;
    other = input;
    other.key = slab_prepared_key(&input);
    assert_false(is_kept(place, &other, &made));
    wanted[0] = 1;
    assert_int_equal(slab_prepared_key(&input), input.key);
    assert_true(is_kept(place, &input, &made));
    find_file(place, path);
    assert_return_code(chmod(path, 0666), 0);
    assert_false(is_kept(place, &input, &made));
    keep(place, &input, &made); /* in its place */
    assert_return_code(truncate(path, (off_t)made.size - 1), 0);
    assert_false(is_kept(place, &input, &made));
    keep(place, &input, &made);
    assert_return_code(chmod(place->directory, 0777), 0);
    assert_false(is_kept(place, &input, &made));
    slab_prepared_free(&made);
    plan_free(&plan);
    free(wanted);
}

int main(int argument_count, char **arguments)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(the_second_time_it_is_mapped),  CASE(damage_is_found_and_replaced),
        CASE(no_damage_leads_out_of_bounds), CASE(what_others_may_write_is_not_used),
        CASE(it_works_without_a_directory),  CASE(slabs_are_kept_beside_plans),
    };
    if (argument_count != 2)
        return 2;
    subject = arguments[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
