/* Perf maps and jitdump files, byte by byte, growing while they are read; and what must not be believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol.h"

static const char *name_at(const struct symbol_jit *jit, uint64_t address, uint64_t time)
{
    const char *name;
    uint64_t start, end;
    if (!symbol_jit_find(jit, address, time, &name, &start, &end))
        return NULL;
    assert_true(start <= address && address < end);
    return name;
}

static void write_map(const char *path, const char *mode, const char *text)
{
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void map_grows_line_by_line(void **state)
{
    (void)state;
    char path[64];
    struct symbol_jit *jit = symbol_jit_new();
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    unlink(path);
    assert_int_equal(symbol_jit_read_map(jit, getpid(), NULL), BASE_ENOTFOUND);
    write_map(path, "w", "1000 100 one\n2000 10 two words; here\nnonsense\n3000 20 half");
    assert_int_equal(symbol_jit_read_map(jit, getpid(), NULL), BASE_OK);
    assert_string_equal(name_at(jit, 0x1000, UINT64_MAX), "one");
    assert_string_equal(name_at(jit, 0x10ff, UINT64_MAX), "one");
    assert_null(name_at(jit, 0x1100, UINT64_MAX));
    assert_string_equal(name_at(jit, 0x2005, UINT64_MAX), "two words; here");
    assert_null(name_at(jit, 0x3000, UINT64_MAX)); /* the line is not complete */
    write_map(path, "a", "way\n1080 8 later\n");
    assert_int_equal(symbol_jit_read_map(jit, getpid(), NULL), BASE_OK);
    assert_string_equal(name_at(jit, 0x3000, UINT64_MAX), "halfway");
    assert_string_equal(name_at(jit, 0x1084, UINT64_MAX), "later"); /* overlaps: the later one holds */
    assert_string_equal(name_at(jit, 0x1088, UINT64_MAX), "one");
    unlink(path);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    struct symbol_jit *other = symbol_jit_new();
    assert_int_equal(symbol_jit_read_map(other, getpid(), NULL), BASE_ENOTFOUND); /* no link is followed */
    unlink(path);
    symbol_jit_free(other);
    symbol_jit_free(jit);
}

struct dump {
    uint8_t bytes[1024];
    size_t size;
};

static void put(struct dump *dump, uint64_t value, size_t size, bool swapped)
{
    for (size_t i = 0; i < size; i++)
        dump->bytes[dump->size++] = (uint8_t)(value >> 8 * (swapped ? size - 1 - i : i));
}

static void put_header(struct dump *dump, bool swapped)
{
    put(dump, 0x4A695444, 4, swapped); /* magic */
    put(dump, 1, 4, swapped);          /* version */
    put(dump, 40, 4, swapped);         /* size */
    put(dump, 62, 4, swapped);         /* machine */
    put(dump, 0, 4, swapped);
    put(dump, 1234, 4, swapped); /* pid */
    put(dump, 0, 8, swapped);
    put(dump, 0, 8, swapped);
}

static void put_load(struct dump *dump, uint64_t time, uint64_t address, uint64_t size, uint64_t index,
                     const char *name, bool swapped)
{
    size_t length = strlen(name) + 1;
    put(dump, 0, 4, swapped);
    put(dump, 56 + length + size, 4, swapped);
    put(dump, time, 8, swapped);
    put(dump, 1234, 4, swapped);
    put(dump, 1234, 4, swapped);
    put(dump, address, 8, swapped); /* vma */
    put(dump, address, 8, swapped);
    put(dump, size, 8, swapped);
    put(dump, index, 8, swapped);
    memcpy(dump->bytes + dump->size, name, length);
    dump->size += length;
    for (uint64_t i = 0; i < size; i++)
        put(dump, 0xc3, 1, swapped);
}

static void put_move(struct dump *dump, uint64_t time, uint64_t from, uint64_t to, uint64_t size,
                     uint64_t index)
{
    put(dump, 1, 4, false);
    put(dump, 64, 4, false);
    put(dump, time, 8, false);
    put(dump, 1234, 4, false);
    put(dump, 1234, 4, false);
    put(dump, from, 8, false);
    put(dump, from, 8, false);
    put(dump, to, 8, false);
    put(dump, size, 8, false);
    put(dump, index, 8, false);
}

static int file_of(const struct dump *dump, size_t size)
{
    char path[] = "/tmp/tally-dump-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    assert_int_equal(write(fd, dump->bytes, size), (ssize_t)size);
    return fd;
}

static void dump_knows_since_when(void **state)
{
    (void)state;
    struct dump dump = {0};
    put_header(&dump, false);
    put_load(&dump, 100, 0x5000, 16, 1, "first", false);
    put_load(&dump, 200, 0x5000, 16, 2, "second", false); /* the same address, later */
    size_t before_move = dump.size;
    put_move(&dump, 300, 0x5000, 0x7000, 16, 2);
    struct symbol_jit *jit = symbol_jit_new();
    int fd = file_of(&dump, before_move - 5); /* the last record is not complete */
    assert_int_equal(symbol_jit_read_dump(jit, fd, NULL), BASE_OK);
    assert_null(name_at(jit, 0x5000, 99));
    assert_string_equal(name_at(jit, 0x5000, 150), "first");
    assert_string_equal(name_at(jit, 0x500f, 250), "first"); /* "second" is only half there */
    assert_int_equal(pwrite(fd, dump.bytes, dump.size, 0), (ssize_t)dump.size);
    assert_int_equal(symbol_jit_read_dump(jit, fd, NULL), BASE_OK);
    assert_string_equal(name_at(jit, 0x5000, 150), "first");
    assert_string_equal(name_at(jit, 0x500f, 250), "second");
    assert_null(name_at(jit, 0x7000, 250));
    assert_string_equal(name_at(jit, 0x7008, 300), "second");
    close(fd);
    symbol_jit_free(jit);
}

static void dump_of_the_other_byte_order(void **state)
{
    (void)state;
    struct dump dump = {0};
    put_header(&dump, true);
    put_load(&dump, 100, 0x5000, 16, 1, "swapped", true);
    struct symbol_jit *jit = symbol_jit_new();
    int fd = file_of(&dump, dump.size);
    assert_int_equal(symbol_jit_read_dump(jit, fd, NULL), BASE_OK);
    assert_string_equal(name_at(jit, 0x5001, 100), "swapped");
    close(fd);
    symbol_jit_free(jit);
}

/* Records that name nothing are passed over: debug information, unwind information, the end, unknown ones. */
static void put_other(struct dump *dump, uint32_t id, uint32_t size)
{
    put(dump, id, 4, false);
    put(dump, size, 4, false);
    put(dump, 150, 8, false);
    for (uint32_t i = 16; i < size; i++)
        put(dump, i, 1, false);
}

static void other_records_are_passed_over(void **state)
{
    (void)state;
    struct dump dump = {0};
    put_header(&dump, false);
    put_other(&dump, 2, 61); /* JIT_CODE_DEBUG_INFO */
    put_load(&dump, 100, 0x5000, 16, 1, "first", false);
    put_other(&dump, 4, 40); /* JIT_CODE_UNWINDING_INFO */
    put_other(&dump, 99, 17);
    put_load(&dump, 100, 0x6000, 16, 2, "second", false);
    put_other(&dump, 3, 16); /* JIT_CODE_CLOSE */
    struct symbol_jit *jit = symbol_jit_new();
    int fd = file_of(&dump, dump.size);
    assert_int_equal(symbol_jit_read_dump(jit, fd, NULL), BASE_OK);
    assert_string_equal(name_at(jit, 0x5000, 100), "first");
    assert_string_equal(name_at(jit, 0x600f, 100), "second");
    close(fd);
    symbol_jit_free(jit);
}

/* What moved away is not where it was; what never came does not move. */
static void moves_leave_nothing_behind(void **state)
{
    (void)state;
    struct dump dump = {0};
    put_header(&dump, false);
    put_load(&dump, 100, 0x5000, 16, 1, "mover", false);
    put_move(&dump, 300, 0x5000, 0x7000, 16, 1);
    put_move(&dump, 400, 0x7000, 0x8000, 16, 1);
    put_move(&dump, 400, 0x9000, 0xa000, 16, 77);
    struct symbol_jit *jit = symbol_jit_new();
    int fd = file_of(&dump, dump.size);
    assert_int_equal(symbol_jit_read_dump(jit, fd, NULL), BASE_OK);
    assert_string_equal(name_at(jit, 0x5000, 299), "mover");
    assert_null(name_at(jit, 0x5000, 300));
    assert_string_equal(name_at(jit, 0x7000, 350), "mover");
    assert_null(name_at(jit, 0x7000, UINT64_MAX));
    assert_string_equal(name_at(jit, 0x8000, UINT64_MAX), "mover");
    assert_null(name_at(jit, 0xa000, UINT64_MAX));
    close(fd);
    symbol_jit_free(jit);
}

/* Timestamps of the processor's counter cannot be compared with ours: the order of the file decides. */
static void times_of_another_clock_are_not_used(void **state)
{
    (void)state;
    struct dump dump = {0};
    put_header(&dump, false);
    dump.bytes[32] = 1; /* JITDUMP_FLAGS_ARCH_TIMESTAMP */
    put_load(&dump, UINT64_MAX - 1, 0x5000, 16, 1, "first", false);
    put_load(&dump, 5, 0x5000, 8, 2, "second", false);
    struct symbol_jit *jit = symbol_jit_new();
    int fd = file_of(&dump, dump.size);
    assert_int_equal(symbol_jit_read_dump(jit, fd, NULL), BASE_OK);
    assert_string_equal(name_at(jit, 0x5000, 100), "second");
    assert_string_equal(name_at(jit, 0x5008, 100), "first");
    close(fd);
    symbol_jit_free(jit);
}

static void others_are_no_dumps(void **state)
{
    (void)state;
    struct base_error error = {""};
    struct dump dump = {0};
    put_header(&dump, false);
    dump.bytes[0] ^= 1;
    struct symbol_jit *jit = symbol_jit_new();
    int fd = file_of(&dump, dump.size);
    assert_int_equal(symbol_jit_read_dump(jit, fd, &error), BASE_EFORMAT);
    assert_string_equal(error.text, "not a jitdump file");
    dump.bytes[0] ^= 1;
    put_other(&dump, 0, 16);
    dump.bytes[44] = 15; /* a record smaller than its prefix */
    assert_int_equal(pwrite(fd, dump.bytes, dump.size, 0), (ssize_t)dump.size);
    error.text[0] = '\0';
    assert_int_equal(symbol_jit_read_dump(jit, fd, &error), BASE_EFORMAT);
    assert_string_equal(error.text, "jitdump record of 15 bytes");
    close(fd);
    symbol_jit_free(jit);
}

/* --- many entries, against a list that is searched from its end --- */

enum { MANY = 4000, BATCHES = 80, SPAN = 200000 };
struct known {
    uint32_t start, size;
};

static void compare_with_list(const struct symbol_jit *jit, const struct known *list, size_t count,
                              uint64_t *random)
{
    for (int i = 0; i < 50; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        uint64_t address = 0x1000 + (*random >> 33) % (SPAN + 2000);
        char expected[32] = "";
        for (size_t j = count; j-- > 0 && !*expected;) {
            if (address - list[j].start < list[j].size)
                snprintf(expected, sizeof expected, "f%zu", j);
        }
        const char *name = name_at(jit, address, UINT64_MAX);
        assert_string_equal(name ? name : "", expected);
    }
}

static void many_overlapping_entries_agree_with_a_list(void **state)
{
    (void)state;
    static struct known list[MANY];
    char path[64];
    uint64_t random = 3;
    struct symbol_jit *jit = symbol_jit_new();
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    unlink(path);
    for (size_t batch = 0, i = 0; batch < BATCHES; batch++) {
        FILE *file = fopen(path, "a");
        assert_non_null(file);
        for (; i < MANY * (batch + 1) / BATCHES; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            list[i].start = 0x1000 + (uint32_t)(random >> 33) % SPAN;
            list[i].size = 1 + (uint32_t)(random >> 20) % (i % 100 ? 64 : 5000);
            fprintf(file, "%x %x f%zu\n", list[i].start, list[i].size, i);
        }
        fclose(file);
        assert_int_equal(symbol_jit_read_map(jit, getpid(), NULL), BASE_OK);
        compare_with_list(jit, list, i, &random);
    }
    unlink(path);
    symbol_jit_free(jit);
}

static void maps_of_others_are_not_believed(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    unlink(path);
    write_map(path, "w", "1000 100 one\n");
    if (chown(path, 12345, 12345)) {
        unlink(path);
        skip(); /* only root can give a file away */
    }
    struct symbol_jit *jit = symbol_jit_new();
    assert_int_equal(symbol_jit_read_map(jit, getpid(), NULL), BASE_ENOTFOUND);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(symbol_jit_read_map(jit, getpid(), NULL), BASE_ENOTFOUND); /* and does not hang */
    unlink(path);
    symbol_jit_free(jit);
}

/* A line longer than any may be is passed over whole; a map that begins anew is read from its beginning. */
static void odd_maps_are_read(void **state)
{
    (void)state;
    char path[64];
    struct symbol_jit *jit = symbol_jit_new();
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    unlink(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "1000 10 before\n2000 10 ");
    for (int i = 0; i < 300000; i++)
        fputc('x', file);
    fprintf(
        file,
        "\n3000 10 behind\n-4000 10 minus\n5000 0 empty\nffffffffffffffff 10 around\n6000 10\n 7000 10 x\n");
    fclose(file);
    assert_int_equal(symbol_jit_read_map(jit, getpid(), NULL), BASE_OK);
    assert_string_equal(name_at(jit, 0x1000, 0), "before");
    assert_null(name_at(jit, 0x2000, 0));
    assert_string_equal(name_at(jit, 0x3000, 0), "behind");
    static const uint64_t nothing[] = {0x4000, 0x5000, 0x6000, 0x7000, UINT64_MAX, 0, 5};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
        assert_null(name_at(jit, nothing[i], 0));
    write_map(path, "w", "1000 10 anew\n");
    assert_int_equal(symbol_jit_read_map(jit, getpid(), NULL), BASE_OK);
    assert_string_equal(name_at(jit, 0x1000, 0), "anew");
    unlink(path);
    symbol_jit_free(jit);
}

static void hostile_dumps_do_no_harm(void **state)
{
    (void)state;
    struct dump good = {0};
    put_header(&good, false);
    put_load(&good, 100, 0x5000, 16, 1, "first", false);
    put_move(&good, 300, 0x5000, 0x7000, 16, 1);
    uint32_t random = 1;
    for (int i = 0; i < 3000; i++) {
        struct dump bad = good;
        for (int flips = 0; flips < 4; flips++) {
            random = random * 1664525 + 1013904223;
            bad.bytes[(random >> 8) % bad.size] = (uint8_t)(random >> 24);
        }
        struct symbol_jit *jit = symbol_jit_new();
        int fd = file_of(&bad, 1 + (random >> 4) % bad.size);
        int result = symbol_jit_read_dump(jit, fd, NULL);
        assert_true(result == BASE_OK || result == BASE_EFORMAT);
        name_at(jit, 0x5000, UINT64_MAX);
        close(fd);
        symbol_jit_free(jit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_grows_line_by_line),
        cmocka_unit_test(dump_knows_since_when),
        cmocka_unit_test(dump_of_the_other_byte_order),
        cmocka_unit_test(other_records_are_passed_over),
        cmocka_unit_test(moves_leave_nothing_behind),
        cmocka_unit_test(times_of_another_clock_are_not_used),
        cmocka_unit_test(others_are_no_dumps),
        cmocka_unit_test(many_overlapping_entries_agree_with_a_list),
        cmocka_unit_test(maps_of_others_are_not_believed),
        cmocka_unit_test(odd_maps_are_read),
        cmocka_unit_test(hostile_dumps_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
