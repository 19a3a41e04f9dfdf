/* test_cache.c - the cache of rows on disk: who may use it, what is believed, how large it grows. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cfi.h"

#define LIBRARY "/lib/x86_64-linux-gnu/libc.so.6"

struct place {
    char root[64], cache[96], file[192];
    struct elf_image *image;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    char id[2 * ELF_BUILD_ID_MAX + 1];
    strcpy(place->root, "/tmp/test_cache.XXXXXX");
    if (mkdtemp(place->root) == NULL || elf_image_open(LIBRARY, &place->image, NULL) != BASE_OK)
        return -1;
    snprintf(place->cache, sizeof place->cache, "%s/deep/tally", place->root);
    elf_build_id_format(elf_image_build_id(place->image), id);
    snprintf(place->file, sizeof place->file, "%s/%s.rows", place->cache, id);
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

/* Opens the library's table through the cache; was it mapped from a file? */
static bool comes_from_cache(const struct place *place, uint64_t limit)
{
    struct cfi_cache *cache;
    struct cfi_table table;
    assert_int_equal(cfi_cache_open(place->cache, limit, &cache, NULL), BASE_OK);
    assert_int_equal(cfi_table_open(cache, place->image, &table, NULL), BASE_OK);
    assert_true(table.rows.header->row_count > 10000);
    bool mapped = table.mapped;
    cfi_table_close(&table);
    cfi_cache_close(cache);
    return mapped;
}

static void the_second_time_it_is_mapped(void **state)
{
    struct place *place = *state;
    struct stat status;
    assert_false(comes_from_cache(place, 1 << 30));
    assert_true(comes_from_cache(place, 1 << 30));
    assert_int_equal(stat(place->cache, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(stat(place->file, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void damage_is_found_and_mended(void **state)
{
    struct place *place = *state;
    static const struct {
        off_t offset;
        uint64_t value;
    } damages[] = {
        {0, 0},                                            /* magic */
        {offsetof(struct wire_rows_header, text_hash), 1}, /* another file with this build-id */
        {offsetof(struct wire_rows_header, text_size), 1},
        {sizeof(struct wire_rows_header), UINT64_MAX}, /* rule 0 */
        {offsetof(struct wire_rows_header, page_count), UINT64_MAX},
    };
    assert_false(comes_from_cache(place, 1 << 30));
    for (unsigned i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        int file = open(place->file, O_WRONLY);
        assert_int_equal(pwrite(file, &damages[i].value, 8, damages[i].offset + (i == 3 ? 8 : 0)), 8);
        close(file);
        assert_false(comes_from_cache(place, 1 << 30));
        assert_true(comes_from_cache(place, 1 << 30));
    }
    assert_int_equal(truncate(place->file, 100), 0);
    assert_false(comes_from_cache(place, 1 << 30));
    assert_int_equal(truncate(place->file, 10), 0);
    assert_false(comes_from_cache(place, 1 << 30));
    assert_true(comes_from_cache(place, 1 << 30));
}

static void what_others_may_write_is_not_used(void **state)
{
    struct place *place = *state;
    struct cfi_cache *cache;
    struct base_error error = {0};
    assert_false(comes_from_cache(place, 1 << 30));
    assert_int_equal(chmod(place->file, 0620), 0);
    assert_false(comes_from_cache(place, 1 << 30)); /* replaced */
    assert_true(comes_from_cache(place, 1 << 30));
    assert_int_equal(chmod(place->cache, 0770), 0);
    assert_false(comes_from_cache(place, 1 << 30));
    assert_int_equal(cfi_cache_open(place->cache, 1 << 30, &cache, &error), BASE_OK);
    assert_non_null(strstr(error.text, "others may write"));
    cfi_cache_close(cache);
    assert_int_equal(chmod(place->cache, 0700), 0);
    if (geteuid() != 0) {
        fprintf(stderr, "# a directory of another user: needs root to make one, not checked\n");
        return;
    }
    assert_int_equal(chown(place->cache, 12345, 12345), 0);
    assert_false(comes_from_cache(place, 1 << 30));
    assert_int_equal(chown(place->cache, 0, 0), 0);
    assert_int_equal(chown(place->file, 12345, 12345), 0);
    assert_false(comes_from_cache(place, 1 << 30));
}

static void links_are_not_followed(void **state)
{
    struct place *place = *state;
    char target[128];
    assert_false(comes_from_cache(place, 1 << 30));
    snprintf(target, sizeof target, "%s/elsewhere", place->root);
    assert_int_equal(rename(place->file, target), 0);
    assert_int_equal(symlink(target, place->file), 0);
    assert_false(comes_from_cache(place, 1 << 30));
    assert_true(comes_from_cache(place, 1 << 30)); /* the link was replaced */
}

static unsigned count_files(const struct place *place)
{
    unsigned count = 0;
    DIR *stream = opendir(place->cache);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(stream);
    return count;
}

static void write_old_file(const struct place *place, const char *name, size_t size, time_t age)
{
    char path[256];
    struct timespec times[2] = {{time(NULL) - age, 0}, {time(NULL) - age, 0}};
    snprintf(path, sizeof path, "%s/%s", place->cache, name);
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)size), 0);
    assert_int_equal(futimens(file, times), 0);
    close(file);
}

static void the_limit_holds_and_the_oldest_go(void **state)
{
    struct place *place = *state;
    struct stat status;
    char path[256];
    assert_false(comes_from_cache(place, 1 << 30));
    assert_int_equal(stat(place->file, &status), 0);
    write_old_file(place, "aa.rows", 100000, 500);
    write_old_file(place, "bb.rows", 100000, 900);
    write_old_file(place, "cc.rows.new-1-1", 100000, 9000); /* left by a tally that died */
    assert_true(comes_from_cache(place, (uint64_t)status.st_size + 150000));
    assert_int_equal(count_files(place), 2);
    snprintf(path, sizeof path, "%s/bb.rows", place->cache);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_false(comes_from_cache(place, 1000)); /* larger than the whole cache may be: not kept */
    assert_int_equal(count_files(place), 0);
}

static void no_build_id_no_file(void **state)
{
    struct place *place = *state;
    struct cfi_cache *cache;
    struct cfi_table table;
    struct elf_image *image;
    size_t size;
    const uint8_t *bytes = elf_image_bytes(place->image, &size);
    uint8_t *copy = malloc(size);
    memcpy(copy, bytes, size);
    for (uint8_t *at = copy; (at = memmem(at, size - (size_t)(at - copy), "GNU", 4)) != NULL; at++)
        at[0] = 'X'; /* no note is GNU's any more */
    assert_int_equal(elf_image_open_memory(copy, size, "anonymous", &image, NULL), BASE_OK);
    assert_int_equal(elf_image_build_id(image)->size, 0);
    assert_int_equal(cfi_cache_open(place->cache, 1 << 30, &cache, NULL), BASE_OK);
    assert_int_equal(cfi_table_open(cache, image, &table, NULL), BASE_OK);
    assert_false(table.mapped);
    assert_int_equal(count_files(place), 0);
    cfi_table_close(&table);
    cfi_cache_close(cache);
    elf_image_close(image);
    free(copy);
}

static void works_without_a_directory(void **state)
{
    struct place *place = *state;
    struct cfi_cache *cache;
    struct cfi_table table;
    assert_int_equal(cfi_cache_open(NULL, 0, &cache, NULL), BASE_OK);
    assert_int_equal(cfi_table_open(cache, place->image, &table, NULL), BASE_OK);
    assert_false(table.mapped);
    cfi_table_close(&table);
    cfi_cache_close(cache);
    assert_int_equal(cfi_table_open(NULL, place->image, &table, NULL), BASE_OK);
    cfi_table_close(&table);
    cfi_cache_close(NULL);
}

static void check_default(const char *cache, const char *home, const char *expected)
{
    if (cache != NULL)
        setenv("XDG_CACHE_HOME", cache, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    setenv("HOME", home, 1);
    char *directory = cfi_cache_default_directory();
    assert_non_null(directory);
    if (expected != NULL)
        assert_string_equal(directory, expected);
    else
        assert_null(strstr(directory, home));
    free(directory);
}

static void the_default_is_ones_own(void **state)
{
    struct place *place = *state;
    char expected[128];
    snprintf(expected, sizeof expected, "%s/tally", place->root);
    check_default(place->root, "/nowhere", expected);
    snprintf(expected, sizeof expected, "%s/.cache/tally", place->root);
    check_default(NULL, place->root, expected);
    check_default("relative", place->root, expected);
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(place->root, 12345, 12345), 0); /* sudo with another user's HOME */
    check_default(NULL, place->root, NULL);
    check_default(place->root, place->root, NULL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(the_second_time_it_is_mapped),      CASE(damage_is_found_and_mended),
        CASE(what_others_may_write_is_not_used), CASE(links_are_not_followed),
        CASE(the_limit_holds_and_the_oldest_go), CASE(no_build_id_no_file),
        CASE(works_without_a_directory),         CASE(the_default_is_ones_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
