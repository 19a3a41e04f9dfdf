/* Empty pages of live blocks, found from outside by a table into which the target may have written
 * anything; and how they are published. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared_empty.h"
#include "wire_loss.h"

enum { PAGE = 4096, PAGES = 300, CELLS = 2 };

static const struct shared_request REQUEST = {.memory = 8 << 20, .patience_ms = 1000};

static struct shared_file file;
static struct profile *profile;
static struct shared_empty empty;
static struct shared_empty_published published;
static struct shared_cookie cookie;
static uint32_t thread, unknown;
static uint8_t *arena;

static struct wire_agent_slot *slot_at(unsigned bucket, unsigned slot)
{
    uint8_t *region = file.bytes + shared_file_region(&file, 0);
    return &((struct wire_agent_bucket *)(void *)(region + file.layout.blocks))[bucket].slots[slot];
}

static void put(unsigned bucket, unsigned slot, const void *block, uint64_t size, uint32_t cell)
{
    uint64_t address = (uint64_t)block;
    *slot_at(bucket, slot) =
        (struct wire_agent_slot){(address >> 3 & WIRE_AGENT_KEY_MASK) | size >> 28 << 44, size << 36 | cell};
}

/* A root, and below it nodes 2 and 3 with cells 1 and 2. */
static void fill_region(void)
{
    struct wire_agent_process *process = shared_file_process(&file, 0);
    uint8_t *region = file.bytes + shared_file_region(&file, 0);
    struct wire_agent_node *nodes = (void *)(region + file.layout.nodes);
    struct wire_agent_cell *cells = (void *)(region + file.layout.cells);
    nodes[1] = (struct wire_agent_node){.pc = WIRE_AGENT_HEAP, .ready = 1};
    for (uint32_t i = 1; i <= CELLS; i++) {
        nodes[i + 1] =
            (struct wire_agent_node){.pc = 0x10001 + i * 16, .parent = 1, .cookie = 1, .cell = i, .ready = 1};
        cells[i].node = i + 1;
    }
    process->node_count = CELLS + 1;
    process->cell_count = CELLS;
    process->block_tables = 2;
}

static int set_up(void **state)
{
    (void)state;
    int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(memory, (off_t)shared_file_size(&REQUEST)), 0);
    assert_int_equal(shared_file_begin(&file, memory, &REQUEST, NULL), BASE_OK);
    shared_file_claim_region(&file, getpid(), 7);
    fill_region();
    profile = profile_new();
    thread = profile_thread(profile, profile_process(profile, 7, 0), 0);
    unknown = profile_address(profile, profile_image(profile, PROFILE_IMAGE_SPECIAL, "(unknown)", "", 0), 0);
    cookie.image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    cookie.bias = 0x10000;
    assert_int_equal(shared_empty_init(&empty, profile, PROFILE_HEAP_EMPTY_ZERO, NULL), BASE_OK);
    arena =
        mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(arena, MAP_FAILED);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    int memory = file.file;
    shared_empty_published_free(&published);
    shared_file_end(&file);
    close(memory);
    munmap(arena, PAGES * PAGE);
    profile_free(profile);
    return 0;
}

static void publish(bool final)
{
    struct shared_tree tree;
    assert_int_equal(shared_file_read(&file, 0, &tree, NULL), BASE_OK);
    struct shared_nodes nodes = {
        .profile = profile, .tree = &tree, .cookies = &cookie, .cookie_count = 1, .special_unknown = unknown};
    assert_int_equal(shared_empty_publish(&empty, &nodes, &published, thread, final, NULL), BASE_OK);
    shared_tree_free(&tree);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
}

static int64_t sum(void)
{
    int64_t value = 0;
    for (size_t i = 0; i < profile->cell_count; i++)
        value += profile->cells[i].counter == empty.counter ? profile->cells[i].value : 0;
    return value;
}

static void look(pid_t pid)
{
    shared_empty_look(&empty, &file, 0, pid, &published);
}

/* Whole pages of each block, of both tables, past a page that may not be read; again, and what was before is
 * forgotten. */
static void test_live_blocks(void **state)
{
    (void)state;
    memset(arena, 1, PAGE + 1);
    assert_int_equal(mprotect(arena + 70 * PAGE, PAGE, PROT_NONE), 0);
    put(0, 0, arena, 200 * PAGE, 1);
    put(63, 6, arena + 200 * PAGE + 16, 3 * PAGE, 2);
    put(100, 3, arena + 210 * PAGE, PAGE - 1, 2);
    put(127, 0, arena + 220 * PAGE, PAGE, 2);
    put(128, 0, arena + 230 * PAGE, 10 * PAGE, 2); /* of a table that is not there */
    for (unsigned i = 0; i < 2; i++) {
        look(getpid());
        assert_int_equal(published.live[1], 197 * PAGE);
        assert_int_equal(published.live[2], 3 * PAGE);
    }
    publish(false);
    assert_int_equal(sum(), 0);
    publish(true);
    assert_int_equal(sum(), 200 * PAGE);
    assert_int_equal(profile->losses[WIRE_LOSS_AGENT_EMPTY_UNSEEN], 0);
}

/* Where the agent's tables were full a block may stand for others, and the counter is no longer called
 * exact. */
static void test_samples(void **state)
{
    (void)state;
    put(0, 0, arena, 4 * PAGE, 1);
    publish(true);
    assert_true(profile->counters[empty.counter].exact);
    slot_at(0, 0)->value |= UINT64_C(1) << 32; /* level 1, and its size is the distance: 1 / (1 - 1/e) */
    shared_file_process(&file, 0)->level = 1;
    look(getpid());
    assert_int_equal(published.live[1], 25919);
    publish(true);
    assert_false(profile->counters[empty.counter].exact);
    slot_at(0, 0)->value |= UINT64_C(15) << 32;
    look(getpid());
    assert_in_range(published.live[1], UINT64_C(1) << 42, UINT64_C(1) << 43); /* about its distance */
}

/* What the agent found in released blocks, up and, where a release was none after all, down again. */
static void test_released(void **state)
{
    (void)state;
    uint8_t *region = file.bytes + shared_file_region(&file, 0);
    struct wire_agent_cell *cells = (void *)(region + file.layout.cells);
    static const uint64_t steps[] = {5 * PAGE, 5 * PAGE, 9 * PAGE, 7 * PAGE, 0};
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        cells[1].empty = steps[i];
        publish(false);
        assert_int_equal(sum(), steps[i]);
    }
    cells[2].empty = UINT64_MAX;
    publish(false);
    assert_int_equal(sum(), INT64_MAX);
}

/* A table may say what it likes: it ends, nothing is read that is not there, and what was not looked at is
 * counted. */
static void test_hostile(void **state)
{
    (void)state;
    uint64_t huge = (UINT64_C(1) << 48) - 1;
    for (unsigned i = 0; i < 128; i++)
        for (unsigned j = 0; j < WIRE_AGENT_SLOTS; j++)
            put(i, j, (void *)(uintptr_t)(8 + i * 4096), huge, 1 + j % 2);
    look(getpid());
    assert_int_equal(published.lost, 128 * WIRE_AGENT_SLOTS);
    for (unsigned i = 0; i < 128; i++)
        for (unsigned j = 0; j < WIRE_AGENT_SLOTS; j++)
            put(i, j, arena, 2 * PAGE, i % 2 ? 3 : UINT32_MAX); /* cells that there are not */
    shared_file_process(&file, 0)->block_tables = UINT32_MAX;
    look(getpid());
    assert_int_equal(published.live[1] + published.live[2] + published.lost, 0);
    shared_file_process(&file, 0)->cell_count = UINT32_MAX;
    look(getpid());
    publish(true);
    assert_int_equal(profile->losses[WIRE_LOSS_AGENT_EMPTY_UNSEEN], 0);
}

static void test_gone(void **state)
{
    (void)state;
    put(0, 0, arena, 200 * PAGE, 1);
    put(0, 1, arena + 200 * PAGE, PAGE / 2, 1);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0); /* a zombie has no memory */
    look(child);
    assert_int_equal(published.lost, 1);
    waitpid(child, NULL, 0);
    look(0);
    assert_int_equal(published.lost, 1);
    assert_int_equal(published.live[1], 0);
    publish(false);
    assert_int_equal(profile->losses[WIRE_LOSS_AGENT_EMPTY_UNSEEN], 0);
    publish(true);
    assert_int_equal(profile->losses[WIRE_LOSS_AGENT_EMPTY_UNSEEN], 1);
    assert_int_equal(sum(), 0);
}

static void test_nothing_asked_for(void **state)
{
    (void)state;
    put(0, 0, arena, 200 * PAGE, 1);
    assert_int_equal(shared_empty_init(&empty, profile, PROFILE_HEAP_EMPTY_NONE, NULL), BASE_OK);
    look(getpid());
    publish(true);
    assert_int_equal(sum(), 0);
    assert_int_equal(empty.flags, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_live_blocks), TEST(test_samples),
                                       TEST(test_released),    TEST(test_hostile),
                                       TEST(test_gone),        TEST(test_nothing_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
