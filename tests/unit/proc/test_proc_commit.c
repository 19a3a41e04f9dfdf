/* Pages of memory files: those of a range are allocated, no others, and a refusal is an error. */
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

static uint64_t allocated_bytes(int file)
{
    struct stat facts;
    assert_int_equal(fstat(file, &facts), 0);
    return (uint64_t)facts.st_blocks * 512;
}

/* Known by touching it, which allocates it. */
static bool is_allocated(int file, uint64_t offset)
{
    uint64_t before = allocated_bytes(file);
    const volatile uint8_t *page =
        mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, (off_t)(offset / PAGE * PAGE));
    assert_ptr_not_equal(page, MAP_FAILED);
    (void)*page;
    munmap((void *)(uintptr_t)page, PAGE);
    return allocated_bytes(file) == before;
}

static void pages_of_a_range_are_allocated(void **state)
{
    (void)state;
    int file = memory_file();
    assert_int_equal(proc_commit_pages(file, 0, 0, NULL), BASE_OK);
    assert_int_equal(allocated_bytes(file), 0);
    const uint64_t from = PAGE + 100, size = 3 * (UINT64_C(1) << 20) + 5, end = from + size;
    assert_int_equal(proc_commit_pages(file, from, size, NULL), BASE_OK);
    assert_int_equal(allocated_bytes(file), (end + PAGE - 1) / PAGE * PAGE - from / PAGE * PAGE);
    assert_false(is_allocated(file, 0));
    for (uint64_t at = from; at < end; at += PAGE)
        assert_true(is_allocated(file, at));
    assert_true(is_allocated(file, end - 1));
    assert_false(is_allocated(file, end + PAGE));
    close(file);
}

static void allocated_pages_keep_their_contents(void **state)
{
    (void)state;
    int file = memory_file();
    char text[8] = "";
    assert_int_equal(pwrite(file, "content", 8, PAGE), 8);
    assert_int_equal(proc_commit_pages(file, 0, 4 * PAGE, NULL), BASE_OK);
    assert_int_equal(pread(file, text, 8, PAGE), 8);
    assert_string_equal(text, "content");
    assert_int_equal(allocated_bytes(file), 4 * PAGE);
    close(file);
}

static void a_bad_descriptor_is_an_error(void **state)
{
    (void)state;
    struct base_error error = {0};
    int file = memory_file();
    close(file);
    assert_true(proc_commit_pages(file, 0, PAGE, &error) < 0);
    assert_non_null(strstr(error.text, "shared memory"));
}

/* As the file of the kernel says. */
static void the_setting_is_read(void **state)
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
        cmocka_unit_test(pages_of_a_range_are_allocated),
        cmocka_unit_test(allocated_pages_keep_their_contents),
        cmocka_unit_test(a_bad_descriptor_is_an_error),
        cmocka_unit_test(the_setting_is_read),
    };
    return cmocka_run_group_tests_name("proc_commit", tests, NULL, NULL);
}
