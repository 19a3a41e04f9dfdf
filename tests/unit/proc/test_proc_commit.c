/* Pages of memory files: those of a range are made, no others, and what cannot be made is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc_commit.h"

#define PAGE UINT64_C(4096)
#define SIZE (UINT64_C(16) << 20)

static int memory_file(void)
{
    int file = memfd_create("pages", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)SIZE), 0);
    return file;
}

static uint64_t made_bytes(int file)
{
    struct stat facts;
    assert_int_equal(fstat(file, &facts), 0);
    return (uint64_t)facts.st_blocks * 512;
}

/* Told by touching it, which makes it. */
static bool is_made(int file, uint64_t offset)
{
    uint64_t before = made_bytes(file);
    const volatile uint8_t *page =
        mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, (off_t)(offset / PAGE * PAGE));
    assert_ptr_not_equal(page, MAP_FAILED);
    (void)*page;
    munmap((void *)(uintptr_t)page, PAGE);
    return made_bytes(file) == before;
}

static void those_of_a_range(void **state)
{
    (void)state;
    int file = memory_file();
    assert_int_equal(proc_commit_pages(file, 0, 0, NULL), BASE_OK);
    assert_int_equal(made_bytes(file), 0);
    const uint64_t from = PAGE + 100, size = 3 * (UINT64_C(1) << 20) + 5, end = from + size;
    assert_int_equal(proc_commit_pages(file, from, size, NULL), BASE_OK);
    assert_int_equal(made_bytes(file), (end + PAGE - 1) / PAGE * PAGE - from / PAGE * PAGE);
    assert_false(is_made(file, 0));
    for (uint64_t at = from; at < end; at += PAGE)
        assert_true(is_made(file, at));
    assert_true(is_made(file, end - 1));
    assert_false(is_made(file, end + PAGE));
    close(file);
}

static void what_is_there_stays(void **state)
{
    (void)state;
    int file = memory_file();
    char text[8] = "";
    assert_int_equal(pwrite(file, "content", 8, PAGE), 8);
    assert_int_equal(proc_commit_pages(file, 0, 4 * PAGE, NULL), BASE_OK);
    assert_int_equal(pread(file, text, 8, PAGE), 8);
    assert_string_equal(text, "content");
    assert_int_equal(made_bytes(file), 4 * PAGE);
    close(file);
}

static void what_cannot_be_made(void **state)
{
    (void)state;
    struct base_error error = {0};
    int file = memory_file();
    close(file);
    assert_true(proc_commit_pages(file, 0, PAGE, &error) < 0);
    assert_non_null(strstr(error.text, "shared memory"));
}

/* As the kernel's own file says it. */
static void the_setting(void **state)
{
    (void)state;
    int mode = -1;
    FILE *setting = fopen("/proc/sys/vm/overcommit_memory", "re");
    assert_non_null(setting);
    assert_int_equal(fscanf(setting, "%d", &mode), 1);
    fclose(setting);
    assert_int_equal(proc_commit_is_strict(), mode == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_of_a_range),
        cmocka_unit_test(what_is_there_stays),
        cmocka_unit_test(what_cannot_be_made),
        cmocka_unit_test(the_setting),
    };
    return cmocka_run_group_tests_name("proc_commit", tests, NULL, NULL);
}
