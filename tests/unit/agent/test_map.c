/* Mapped memory: the wrappers are called with bodies that map nothing but say that they did, against a model
 * that knows each page. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"

#define AWAY  __attribute__((noinline, noclone))
#define PAGE  UINT64_C(4096)
#define ARENA UINT64_C(0x500000000000)
#define SITES 3

typedef uint64_t mmap_function(uint64_t address, uint64_t size, uint64_t protection, uint64_t flags,
                               uint64_t file, uint64_t offset);
typedef int munmap_function(uint64_t address, uint64_t size);
typedef uint64_t mremap_function(uint64_t old, uint64_t old_size, uint64_t size, uint64_t flags,
                                 uint64_t address);

static struct agent_rig rig;
static mmap_function *hooked_mmap;
static munmap_function *hooked_munmap;
static mremap_function *hooked_mremap;

/* The kernel's part: it does what is asked, and fails where it must. */
static uint64_t body_mmap(uint64_t address, uint64_t size, uint64_t protection, uint64_t flags, uint64_t file,
                          uint64_t offset)
{
    if (size == 0 || protection != 3 || file != 5 || offset != 6)
        return UINT64_MAX;
    return flags == 0x22 || (flags & 0x40000) ? address : UINT64_MAX;
}

static int body_munmap(uint64_t address, uint64_t size)
{
    return address % PAGE == 0 && size != 0 ? 0 : -1;
}

static uint64_t body_mremap(uint64_t old, uint64_t old_size, uint64_t size, uint64_t flags, uint64_t address)
{
    (void)old_size;
    if (size == 0)
        return UINT64_MAX;
    return flags & 2 ? address : old;
}

static void begin(uint64_t memory)
{
    agent_rig_begin(&rig, &(struct agent_rig_options){.memory = memory});
    hooked_mmap = (mmap_function *)agent_rig_hook(&rig, "agent_entry_mmap", (void *)body_mmap);
    hooked_munmap = (munmap_function *)agent_rig_hook(&rig, "agent_entry_munmap", (void *)body_munmap);
    hooked_mremap = (mremap_function *)agent_rig_hook(&rig, "agent_entry_mremap", (void *)body_mremap);
}

static int set_up(void **state)
{
    (void)state;
    begin(0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

static AWAY uint64_t site_0(uint64_t address, uint64_t size)
{
    uint64_t volatile result = hooked_mmap(address, size, 3, 0x22, 5, 6);
    return result;
}
static AWAY uint64_t site_1(uint64_t address, uint64_t size)
{
    uint64_t volatile result = hooked_mmap(address, size, 3, 0x22, 5, 6);
    return result;
}
static AWAY uint64_t site_2(uint64_t old, uint64_t old_size, uint64_t size, uint64_t flags, uint64_t address)
{
    uint64_t volatile result = hooked_mremap(old, old_size, size, flags, address);
    return result;
}

static struct agent_rig_figures of_site(unsigned number)
{
    const uint64_t starts[SITES] = {(uint64_t)site_0, (uint64_t)site_1, (uint64_t)site_2};
    uint64_t low = starts[number], high = low + 512;
    for (unsigned i = 0; i < SITES; i++)
        if (starts[i] > low && starts[i] < high)
            high = starts[i];
    return agent_rig_read(&rig, rig.process, low, high);
}

static uint64_t lost(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        sum += rig.process->losses[i];
    return sum;
}

static void test_parts(void **state)
{
    (void)state;
    assert_int_equal(site_0(ARENA, 10 * PAGE - 5), ARENA);
    assert_int_equal(of_site(0).total, 10 * PAGE);
    assert_int_equal(hooked_munmap(ARENA + 3 * PAGE, 2 * PAGE - 1), 0); /* in the middle */
    assert_int_equal(of_site(0).live, 8 * PAGE);
    assert_int_equal(hooked_munmap(ARENA + 2 * PAGE, 4 * PAGE), 0); /* over the hole */
    assert_int_equal(of_site(0).live, 6 * PAGE);
    assert_int_equal(site_1(ARENA + PAGE, 6 * PAGE), ARENA + PAGE); /* MAP_FIXED over what there is */
    assert_int_equal(of_site(0).live, 4 * PAGE);
    assert_int_equal(of_site(1).live, 6 * PAGE);
    assert_int_equal(hooked_munmap(ARENA + 1, PAGE), -1); /* refused: nothing changes */
    assert_int_equal(site_0(ARENA, 0), UINT64_MAX);
    assert_int_equal(hooked_munmap(ARENA - 100 * PAGE, 1000 * PAGE), 0);
    assert_int_equal(of_site(0).live + of_site(1).live, 0);
    assert_int_equal(of_site(0).total + of_site(1).total, 16 * PAGE);
    assert_int_equal(rig.process->live + rig.process->first_live + rig.process->peak, 0); /* no block */
    assert_int_equal(lost(), 0);
}

static void test_remaps(void **state)
{
    (void)state;
    site_0(ARENA, 10 * PAGE);
    assert_int_equal(site_2(ARENA, 10 * PAGE, 0, 0, 0), UINT64_MAX);
    assert_int_equal(of_site(0).live, 10 * PAGE);
    assert_int_equal(site_2(ARENA, 10 * PAGE, 4 * PAGE, 0, 0), ARENA); /* shrinks */
    assert_int_equal(of_site(0).live, 0);
    assert_int_equal(of_site(2).live, 4 * PAGE);
    assert_int_equal(site_2(ARENA, 4 * PAGE, 20 * PAGE, 2, ARENA + 2 * PAGE), ARENA + 2 * PAGE);
    assert_int_equal(of_site(2).live, 20 * PAGE);
    assert_int_equal(site_2(ARENA + 2 * PAGE, 20 * PAGE, 20 * PAGE, 2 | 4, ARENA + 100 * PAGE),
                     ARENA + 100 * PAGE);
    assert_int_equal(of_site(2).live, 40 * PAGE); /* MREMAP_DONTUNMAP: the old one stays */
    assert_int_equal(site_2(ARENA + 100 * PAGE, 0, 20 * PAGE, 2, ARENA + 200 * PAGE), ARENA + 200 * PAGE);
    assert_int_equal(of_site(2).live, 60 * PAGE); /* a second view of shared memory */
    assert_int_equal(lost(), 0);
}

static void test_huge_pages(void **state)
{
    (void)state;
    uint64_t huge = UINT64_C(2) << 20;
    assert_int_equal(hooked_mmap(ARENA, 1, 3, 0x40022, 5, 6), ARENA);
    assert_int_equal(agent_rig_read(&rig, rig.process, 0, 0).total, huge);
    assert_int_equal(hooked_mmap(ARENA + 16 * huge, 1, 3, 0x40022 | 30u << 26, 5, 6), ARENA + 16 * huge);
    assert_int_equal(agent_rig_read(&rig, rig.process, 0, 0).total, huge + (UINT64_C(1) << 30));
}

/* The thread pointer is asked of the kernel where it cannot be read. */
static void test_old_processors(void **state)
{
    (void)state;
    site_0(ARENA, PAGE);
    rig.parameters->flags &= ~(uint32_t)WIRE_AGENT_FSGSBASE;
    site_0(ARENA + PAGE, PAGE);
    assert_int_equal(of_site(0).live, 2 * PAGE);
    assert_int_equal(rig.process->thread_count, 1);
    assert_int_equal(lost(), 0);
}

/* --- random --- */

enum { PAGES = 2000 };
static uint8_t owners[PAGES]; /* 0: nobody; site + 1 */
static uint32_t random_state = 4711;

static uint32_t draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static void test_random_calls(void **state)
{
    (void)state;
    uint64_t total[SITES] = {0};
    memset(owners, 0, sizeof owners);
    for (unsigned i = 0; i < 40000; i++) {
        unsigned first = draw() % (PAGES - 60), pages = 1 + draw() % 60, kind = draw() % 5;
        if (kind < 2) {
            kind ? site_1(ARENA + first * PAGE, pages * PAGE) : site_0(ARENA + first * PAGE, pages * PAGE);
            memset(owners + first, (int)kind + 1, pages);
            total[kind] += pages * PAGE;
        } else if (kind < 4) {
            hooked_munmap(ARENA + first * PAGE, pages * PAGE);
            memset(owners + first, 0, pages);
        } else {
            unsigned to = draw() % (PAGES - 60), more = 1 + draw() % 60;
            site_2(ARENA + first * PAGE, pages * PAGE, more * PAGE, 2, ARENA + to * PAGE);
            memset(owners + first, 0, pages);
            memset(owners + to, 3, more);
            total[2] += more * PAGE;
        }
        if (i % 4001 != 0 && i + 1 != 40000)
            continue;
        uint64_t live[SITES + 1] = {0};
        for (unsigned page = 0; page < PAGES; page++)
            live[owners[page]] += PAGE;
        for (unsigned site = 0; site < SITES; site++) {
            assert_int_equal(of_site(site).total, total[site]);
            assert_int_equal(of_site(site).live, live[site + 1]);
        }
    }
    assert_in_range(rig.process->range_count, 10, PAGES); /* they are used again */
    assert_int_equal(lost(), 0);
}

/* --- threads --- */

static void *worker(void *argument)
{
    uint64_t base = ARENA + (uint64_t)(uintptr_t)argument * PAGES * PAGE;
    for (unsigned i = 0; i < 5000; i++) {
        site_0(base + i % 50 * PAGE, 3 * PAGE);
        if (i % 3 == 0)
            hooked_munmap(base + i % 50 * PAGE, PAGE);
    }
    hooked_munmap(base, PAGES * PAGE);
    site_1(base, 7 * PAGE);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[6];
    for (uintptr_t i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)i), 0);
    for (unsigned i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(of_site(0).total, 6 * 5000 * 3 * PAGE);
    assert_int_equal(of_site(0).live, 0);
    assert_int_equal(of_site(1).live, 6 * 7 * PAGE);
    assert_int_equal(lost(), 0);
}

/* While one thread's munmap returns, another is given the same pages. */
static void *map_again(void *argument)
{
    site_1(*(uint64_t *)argument, 5 * PAGE);
    return NULL;
}

static int body_that_is_overtaken(uint64_t address, uint64_t size)
{
    pthread_t thread;
    (void)size;
    pthread_create(&thread, NULL, map_again, &address);
    pthread_join(thread, NULL);
    return 0;
}

static void test_order(void **state)
{
    (void)state;
    munmap_function *slow =
        (munmap_function *)agent_rig_hook(&rig, "agent_entry_munmap", (void *)body_that_is_overtaken);
    site_0(ARENA, 5 * PAGE);
    assert_int_equal(slow(ARENA, 5 * PAGE), 0);
    assert_int_equal(of_site(0).live, 0);
    assert_int_equal(of_site(1).live, 5 * PAGE);
    assert_int_equal(hooked_munmap(ARENA, 5 * PAGE), 0);
    assert_int_equal(of_site(1).live, 0);
    assert_int_equal(lost(), 0);
}

/* --- what is inside an allocator --- */

static void *body_that_maps(size_t size)
{
    site_0(ARENA, 4 * PAGE);
    return malloc(size);
}

static void test_inside_an_allocator(void **state)
{
    (void)state;
    void *(*hooked)(size_t) =
        (void *(*)(size_t))agent_rig_hook(&rig, "agent_entry_malloc", (void *)body_that_maps);
    free(hooked(100));
    assert_int_equal(of_site(0).total, 0);
    assert_int_equal(lost(), 0);
    site_0(ARENA, PAGE);
    assert_int_equal(of_site(0).total, PAGE);
}

/* --- no room, no lock --- */

static void test_a_full_table(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    begin(1 << 20);
    uint64_t most = rig.layout.range_bytes / WIRE_AGENT_RANGE_BYTES - 1;
    for (uint64_t i = 0; i < most + 10; i++)
        site_0(ARENA + 2 * i * PAGE, PAGE);
    assert_int_equal(of_site(0).total, (most + 10) * PAGE);
    assert_int_equal(of_site(0).live, most * PAGE);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RANGE], 10);
    hooked_munmap(ARENA, 4 * most * PAGE);
    assert_int_equal(of_site(0).live, 0);
    site_0(ARENA, 3 * PAGE);
    assert_int_equal(of_site(0).live, 3 * PAGE);
    assert_int_equal(lost(), 10);
}

static void test_who_never_gives_it_back(void **state)
{
    (void)state;
    sigset_t before, after;
    site_0(ARENA, PAGE);
    sigprocmask(SIG_SETMASK, NULL, &before);
    rig.process->range_lock = 1; /* as if its thread stood still */
    assert_int_equal(site_0(ARENA + PAGE, PAGE), ARENA + PAGE);
    assert_int_equal(hooked_munmap(ARENA, PAGE), 0);
    assert_int_equal(hooked_munmap(ARENA + PAGE, PAGE), 0);
    assert_int_equal(of_site(0).live, PAGE);
    assert_int_equal(rig.process->range_waiting, 3);
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_memory_equal(&before, &after, 8);
    rig.process->range_lock = 0;
    assert_int_equal(site_0(ARENA + 2 * PAGE, PAGE), ARENA + 2 * PAGE);
    assert_int_equal(of_site(0).live, PAGE);
    assert_int_equal(of_site(0).count, 3);
    assert_int_equal(rig.process->range_waiting, 0);
    assert_int_equal(lost(), 0);
}

/* More than can be written down are lost, and nobody waits long for that. */
static void test_too_many_wait(void **state)
{
    (void)state;
    rig.process->range_lock = 1;
    for (unsigned i = 0; i < WIRE_AGENT_CHANGES; i++)
        site_0(ARENA + i * PAGE, PAGE);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RANGE], 0);
    site_0(ARENA + WIRE_AGENT_CHANGES * PAGE, PAGE);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RANGE], 1);
    rig.process->range_lock = 0;
    hooked_munmap(ARENA, PAGE);
    assert_int_equal(of_site(0).live, (WIRE_AGENT_CHANGES - 1) * PAGE);
    assert_int_equal(lost(), 1);
}

/* The first hook of a child that gets no region is one that tells of memory which goes. */
static void test_a_child_that_is_not_counted(void **state)
{
    (void)state;
    uint32_t before = rig.process->unmapped;
    munmap_function *reported_munmap =
        (munmap_function *)agent_rig_hook(&rig, "agent_entry_unmap", (void *)body_munmap);
    for (int way = 0; way < 4; way++) {
        pid_t child = fork();
        if (child == 0) {
            if (way == 0)
                _exit(hooked_munmap(ARENA, PAGE));
            if (way == 3) /* not the first one: the region was missed before */
                _exit(hooked_munmap(ARENA, PAGE) != 0 || reported_munmap(ARENA, PAGE) != 0);
            if (way == 1)
                _exit(hooked_mremap(ARENA, PAGE, PAGE, 0, 0) != ARENA);
            _exit(hooked_mmap(ARENA, PAGE, 0, 0x22, 5, 6) != UINT64_MAX);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_int_equal(rig.process->unmapped, before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_parts),         TEST(test_remaps),
        TEST(test_huge_pages),    TEST(test_old_processors),
        TEST(test_random_calls),  TEST(test_threads),
        TEST(test_order),         TEST(test_inside_an_allocator),
        TEST(test_a_full_table),  TEST(test_who_never_gives_it_back),
        TEST(test_too_many_wait), TEST(test_a_child_that_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
