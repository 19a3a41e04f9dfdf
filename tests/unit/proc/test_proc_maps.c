/* proc_maps: the parser by a table and by this process's own file; opening what is mapped with awkward names,
 * deleted, replaced. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc_maps.h"

/* --- parsing --- */

static void lines_are_parsed(void **state)
{
    (void)state;
    static const char text[] =
        "55d0c0000000-55d0c0001000 r-xp 00002000 fd:01 131 /usr/bin/a program\n"
        "7f0000000000-7f0000001000 rw-s 00000000 00:05 77                         /dev/shm/x\\012y "
        "(deleted)\n"
        "7f0000002000-7f0000003000 ---p 00000000 00:00 0 \n"
        "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n"
        "7ffc000f0000-7ffc000f2000 r-xp 00000000 00:00 0                          [vdso]\n"
        "7ffc000f2000-7ffc000f3000 r--p 00000000 103:2 18446744073709551615 /a (deleted) b\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]";
    const struct proc_mapping expected[] = {
        {.start = 0x55d0c0000000,
         .end = 0x55d0c0001000,
         .offset = 0x2000,
         .readable = true,
         .executable = true,
         .device_major = 0xfd,
         .device_minor = 1,
         .inode = 131,
         .path = (char[]){"/usr/bin/a program"}},
        {.start = 0x7f0000000000,
         .end = 0x7f0000001000,
         .readable = true,
         .writable = true,
         .shared = true,
         .device_minor = 5,
         .inode = 77,
         .path = (char[]){"/dev/shm/x\ny"},
         .deleted = true},
        {.start = 0x7f0000002000, .end = 0x7f0000003000, .path = (char[]){""}},
        {.start = 0x7ffc00000000,
         .end = 0x7ffc00021000,
         .readable = true,
         .writable = true,
         .path = (char[]){"[stack]"}},
        {.start = 0x7ffc000f0000,
         .end = 0x7ffc000f2000,
         .readable = true,
         .executable = true,
         .path = (char[]){"[vdso]"}},
        {.start = 0x7ffc000f2000,
         .end = 0x7ffc000f3000,
         .readable = true,
         .device_major = 0x103,
         .device_minor = 2,
         .inode = UINT64_MAX,
         .path = (char[]){"/a (deleted) b"}},
        {.start = 0xffffffffff600000,
         .end = 0xffffffffff601000,
         .executable = true,
         .path = (char[]){"[vsyscall]"}},
    };
    struct proc_maps maps;
    assert_int_equal(proc_maps_parse(text, &maps, NULL), BASE_OK);
    assert_int_equal(maps.count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < maps.count; i++) {
        const struct proc_mapping *got = &maps.items[i], *want = &expected[i];
        assert_true(got->start == want->start && got->end == want->end);
        assert_int_equal(got->offset, want->offset);
        assert_int_equal(got->readable << 3 | got->writable << 2 | got->executable << 1 | got->shared,
                         want->readable << 3 | want->writable << 2 | want->executable << 1 | want->shared);
        assert_int_equal(got->device_major, want->device_major);
        assert_int_equal(got->device_minor, want->device_minor);
        assert_true(got->inode == want->inode);
        assert_string_equal(got->path, want->path);
        assert_int_equal(got->deleted, want->deleted);
    }
    proc_maps_free(&maps);
    assert_null(maps.items);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "hello\n",
        "1000-2000\n",
        "1000-2000 r-x 0 00:00 0 \n",
        "1000-2000 r-xp 0 00:00\n",
        "2000-1000 r-xp 00000000 00:00 0 \n",
        "1000-2000 r-xp 00000000 00:00 0 /fine\nand then not\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct proc_maps maps;
        struct base_error error = {""};
        assert_int_equal(proc_maps_parse(texts[i], &maps, &error), BASE_EFORMAT);
        assert_int_equal(maps.count, 0);
        assert_null(maps.items);
        assert_string_equal(error.text, "malformed line in /proc/PID/maps");
    }
    struct proc_maps maps;
    assert_int_equal(proc_maps_parse("", &maps, NULL), BASE_OK);
    assert_int_equal(maps.count, 0);
    proc_maps_free(&maps);
}

static void missing_processes_are_reported(void **state)
{
    (void)state;
    struct proc_maps maps;
    struct base_error error = {""};
    assert_int_equal(proc_maps_read(0x7ffffffe, &maps, &error), BASE_ENOTFOUND);
    assert_string_equal(error.text, "mappings of process 2147483646: No such file or directory");
}

/* --- files --- */

struct mapped {
    char directory[64], path[160];
    void *at;
    struct proc_mapping mapping; /* `path` is owned */
};

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_int_equal(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    close(fd);
}

static const struct proc_mapping *mapping_at(const struct proc_maps *maps, const void *at)
{
    for (size_t i = 0; i < maps->count; i++) {
        if (maps->items[i].start == (uint64_t)(uintptr_t)at)
            return &maps->items[i];
    }
    return NULL;
}

static void look(struct mapped *mapped)
{
    struct proc_maps maps;
    assert_int_equal(proc_maps_read(getpid(), &maps, NULL), BASE_OK);
    const struct proc_mapping *found = mapping_at(&maps, mapped->at);
    assert_non_null(found);
    free(mapped->mapping.path);
    mapped->mapping = *found;
    mapped->mapping.path = strdup(found->path);
    proc_maps_free(&maps);
}

/* Makes a file, maps its second page, looks it up in our own maps. */
static void map_file(struct mapped *mapped, const char *name)
{
    *mapped = (struct mapped){.directory = "/tmp/tally-maps-XXXXXX"};
    assert_non_null(mkdtemp(mapped->directory));
    snprintf(mapped->path, sizeof mapped->path, "%s/%s", mapped->directory, name);
    write_file(mapped->path, "original");
    int fd = open(mapped->path, O_RDONLY | O_CLOEXEC);
    mapped->at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 4096);
    close(fd);
    assert_true(mapped->at != MAP_FAILED);
    look(mapped);
}

static void unmap_file(struct mapped *mapped)
{
    munmap(mapped->at, 4096);
    unlink(mapped->path);
    rmdir(mapped->directory);
    free(mapped->mapping.path);
}

/* Opens the mapping and compares what the file begins with. */
static void assert_opens(const struct proc_mapping *mapping, const char *text)
{
    char start[16] = "";
    struct base_error error = {""};
    int fd = proc_maps_open(getpid(), mapping, &error);
    if (fd < 0)
        fail_msg("%s", error.text);
    assert_int_equal(pread(fd, start, strlen(text), 0), (ssize_t)strlen(text));
    assert_string_equal(start, text);
    close(fd);
}

static bool may_follow_mappings(const struct proc_mapping *mapping)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", mapping->start, mapping->end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void awkward_names_are_opened(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "with space", "with\nnewline", "trailing ",
                                        "ends so (deleted)"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct mapped mapped;
        map_file(&mapped, names[i]);
        assert_int_equal(mapped.mapping.offset, 4096);
        assert_true(mapped.mapping.readable && !mapped.mapping.executable);
        if (i < 4)
            assert_string_equal(mapped.mapping.path, mapped.path);
        assert_opens(&mapped.mapping, "original");
        mapped.mapping.start = mapped.mapping.end = 0; /* by its path alone */
        assert_opens(&mapped.mapping, "original");
        unmap_file(&mapped);
    }
}

static void deleted_and_replaced_files_are_opened(void **state)
{
    (void)state;
    struct mapped mapped;
    struct base_error error = {""};
    map_file(&mapped, "library");
    bool may = may_follow_mappings(&mapped.mapping);
    unlink(mapped.path);
    look(&mapped);
    assert_true(mapped.mapping.deleted);
    assert_string_equal(mapped.mapping.path, mapped.path);
    for (int replaced = 0; replaced < 2; replaced++) {
        if (may) {
            assert_opens(&mapped.mapping, "original");
        } else {
            assert_int_equal(proc_maps_open(getpid(), &mapped.mapping, &error), BASE_ENOTFOUND);
            assert_non_null(strstr(error.text, mapped.path));
        }
        write_file(mapped.path, "replaced"); /* another file under the same path is not taken for it */
    }
    unmap_file(&mapped);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    struct mapped mapped;
    struct statfs system;
    map_file(&mapped, "library");
    mapped.mapping.inode++;
    assert_int_equal(proc_maps_open(getpid(), &mapped.mapping, NULL), BASE_ENOTFOUND);
    mapped.mapping.inode--;
    mapped.mapping.device_minor ^= 1;
    assert_int_equal(statfs(mapped.path, &system), 0);
    bool tells_device = system.f_type != 0x794c7630 && (unsigned)system.f_type != 0x9123683e;
    if (tells_device)
        assert_int_equal(proc_maps_open(getpid(), &mapped.mapping, NULL), BASE_ENOTFOUND);
    mapped.mapping.inode = 0; /* nothing known: any regular file */
    assert_opens(&mapped.mapping, "original");
    unmap_file(&mapped);
    assert_int_equal(proc_maps_open(getpid(), &(struct proc_mapping){.path = (char[]){"/dev/null"}}, NULL),
                     BASE_ENOTFOUND);
    assert_int_equal(proc_maps_open(getpid(), &(struct proc_mapping){.path = (char[]){"[heap]"}}, NULL),
                     BASE_ENOTFOUND);
}

/* The range holds another file now than the mapping that is asked about. */
static void reused_ranges_are_noticed(void **state)
{
    (void)state;
    struct mapped mapped, other;
    map_file(&mapped, "first");
    map_file(&other, "second");
    write_file(other.path, "another");
    mapped.mapping.start = other.mapping.start;
    mapped.mapping.end = other.mapping.end;
    assert_opens(&mapped.mapping, "original");
    unmap_file(&mapped);
    unmap_file(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_parsed),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(missing_processes_are_reported),
        cmocka_unit_test(awkward_names_are_opened),
        cmocka_unit_test(deleted_and_replaced_files_are_opened),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(reused_ranges_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
