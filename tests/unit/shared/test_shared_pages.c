/* Pages of a table that a process has begun, made from outside; the process may have written any number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared_pages.h"
#include "wire_agent_block.h"

enum { PAGE = 4096, TABLES = 10, MOST_PIECES = 100 };

static const struct shared_request REQUEST = {.memory = 32 << 20, .patience_ms = 1000};

static struct shared_file file;

static void write_tables(uint32_t tables)
{
    __atomic_store_n(&shared_file_process(&file, 0)->block_tables, tables, __ATOMIC_RELEASE);
}

static int set_up(void **state)
{
    (void)state;
    int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(memory, (off_t)shared_file_size(&REQUEST)), 0);
    assert_int_equal(shared_file_begin(&file, memory, &REQUEST, NULL), BASE_OK);
    shared_file_claim_region(&file, getpid(), 7);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    int memory = file.file;
    shared_file_end(&file);
    return close(memory);
}

/* Pages of the file that are there, of those that [start, end) of the blocks touches. */
static uint64_t pages_there(uint64_t start, uint64_t end)
{
    uint64_t blocks = shared_file_region(&file, 0) + file.layout.blocks, count = 0;
    for (uint64_t at = (blocks + start) / PAGE * PAGE; at < blocks + end; at += PAGE) {
        off_t data = lseek(file.file, (off_t)at, SEEK_DATA);
        count += data >= 0 && (uint64_t)data < at + PAGE;
    }
    return count;
}

static unsigned make_all(uint64_t *made)
{
    unsigned pieces = 1;
    while (shared_pages_make(&file, 0, made) && pieces < MOST_PIECES)
        pieces++;
    return pieces;
}

static void the_newest_table_is_made(void **state)
{
    (void)state;
    uint64_t made = 0, start = wire_agent_table_start(TABLES - 1), end = wire_agent_table_end(TABLES - 1);
    write_tables(TABLES);
    assert_int_equal(pages_there(start, end), 0);
    unsigned pieces = make_all(&made);
    assert_int_equal(pieces, (end - start + (1 << 20) - 1) >> 20);
    assert_int_equal(made, end);
    assert_int_equal(pages_there(start, end), (end - start) / PAGE);
    assert_int_equal(pages_there(0, start), 0); /* the process has those by now */
    assert_int_equal(pages_there(end, file.layout.block_bytes), 0);
    assert_false(shared_pages_make(&file, 0, &made));
    assert_int_equal(made, end);
}

/* What is there stays as it is; the next table is begun while this one is being made. */
static void what_is_there_stays(void **state)
{
    (void)state;
    uint64_t made = 0, end = wire_agent_table_end(TABLES);
    write_tables(TABLES);
    uint8_t *blocks = file.bytes + shared_file_region(&file, 0) + file.layout.blocks;
    memset(blocks + end - PAGE, 0x5a, PAGE);
    shared_pages_make(&file, 0, &made);
    write_tables(TABLES + 1);
    assert_true(make_all(&made) < MOST_PIECES);
    assert_int_equal(made, end);
    assert_int_equal(pages_there(wire_agent_table_start(TABLES), end),
                     (end - wire_agent_table_start(TABLES)) / PAGE);
    for (unsigned i = 0; i < PAGE; i++)
        assert_int_equal(blocks[end - PAGE + i], 0x5a);
}

static void any_number_is_survived(void **state)
{
    (void)state;
    const uint32_t numbers[] = {0, 28, 31, 32, 33, 64, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t made = 0;
        write_tables(numbers[i]);
        assert_false(shared_pages_make(&file, 0, &made));
        assert_int_equal(made, 0);
    }
    assert_int_equal(pages_there(0, file.layout.block_bytes), 0);
}

/* Where they are made before they are mapped, the process has them. */
static void committed_memory_needs_none(void **state)
{
    (void)state;
    uint64_t made = 0;
    file.committed = true;
    write_tables(TABLES);
    assert_false(shared_pages_make(&file, 0, &made));
    assert_int_equal(pages_there(0, file.layout.block_bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_table_is_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_there_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_number_is_survived, set_up, tear_down),
        cmocka_unit_test_setup_teardown(committed_memory_needs_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
