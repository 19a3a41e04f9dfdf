/* Parts of the agent's memory that grow (agent_memory.c): with no more mapped than at first, every figure is
 * the same; where the kernel refuses, that is a loss and nothing else; a fork's child has its own. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"
#include "wire_agent_call.h"

enum { BLOCKS = 20000, THREADS = 8, PAGE = 4096, LITTLE = 2 << 20, WAITS = 20 };

typedef void *malloc_function(size_t size);
typedef void free_function(void *block);

static struct agent_rig rig;
static malloc_function *hooked_malloc;
static free_function *hooked_free;
static void *blocks[THREADS][BLOCKS];

static int set_up(void **state)
{
    (void)state;
    agent_rig_begin(&rig, &(struct agent_rig_options){.flags = WIRE_AGENT_FOLLOW, .small = true});
    hooked_malloc = (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)malloc);
    hooked_free = (free_function *)agent_rig_hook(&rig, "agent_entry_free", (void *)free);
    rig.process->silent = 1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

static struct agent_rig_figures all(const struct wire_agent_process *process)
{
    return agent_rig_read(&rig, process, 0, 0);
}

static uint64_t loss(enum wire_agent_loss number)
{
    return rig.process->losses[number];
}

/* Of all parts but the rows, which are those of this program's libraries; as the agent knows it. */
static uint64_t mapped(void)
{
    uint64_t sum = 0;
    for (unsigned i = WIRE_AGENT_PART_HEAD; i < WIRE_AGENT_PARTS; i++)
        sum += rig.parameters->mapped[i];
    return sum;
}

static uint64_t place_of(enum wire_agent_part part)
{
    return rig.parameters->control + wire_agent_place(rig.control, &rig.layout, part, 0).address;
}

static void keep(void **kept, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        kept[i] = hooked_malloc(i % 100 + 1);
        assert_non_null(kept[i]);
    }
}

static void release(void **kept, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        hooked_free(kept[i]);
}

static void test_grows_as_it_is_used(void **state)
{
    (void)state;
    uint64_t before = mapped();
    assert_in_range(before, 1, LITTLE);
    keep(blocks[0], BLOCKS);
    assert_int_equal(all(rig.process).count, BLOCKS);
    assert_int_equal(all(rig.process).live_count, BLOCKS);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, NULL), BLOCKS);
    assert_in_range(mapped(), before + BLOCKS * sizeof(struct wire_agent_slot), before + BLOCKS * 1024);
    release(blocks[0], BLOCKS);
    assert_int_equal(all(rig.process).live_count, 0);
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        if (i != WIRE_AGENT_LOSS_FRAME_POINTER)
            assert_int_equal(loss(i), 0);
}

static pthread_barrier_t together;

static void *keep_and_release(void *kept)
{
    pthread_barrier_wait(&together);
    keep(kept, BLOCKS);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    release(kept, BLOCKS);
    return NULL;
}

/* Each needs records, nodes, cells and blocks at the same time as the others. */
static void test_grows_under_many_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS + 1);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_and_release, blocks[i]), 0);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    assert_int_equal(all(rig.process).live_count, THREADS * BLOCKS);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, NULL), THREADS * BLOCKS);
    pthread_barrier_wait(&together);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    assert_int_equal(all(rig.process).live_count, 0);
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ROOM), 0);
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_RECORD), 0);
    assert_int_equal(loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
    assert_int_equal(rig.parameters->mapped[WIRE_AGENT_PART_THREADS], THREADS * WIRE_AGENT_THREAD_BYTES);
}

/* Something else lies behind: the part is full, as if --agent-memory were used up; the program has its
 * memory. */
static void test_refused_where_something_lies(void **state)
{
    (void)state;
    uint64_t room = rig.parameters->mapped[WIRE_AGENT_PART_BLOCKS];
    void *behind = (void *)(place_of(WIRE_AGENT_PART_BLOCKS) + room);
    assert_ptr_equal(mmap(behind, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                     behind);
    keep(blocks[0], BLOCKS);
    assert_int_equal(rig.parameters->mapped[WIRE_AGENT_PART_BLOCKS], room);
    assert_in_range(loss(WIRE_AGENT_LOSS_NO_ROOM), 1, BLOCKS / 256); /* not at each event */
    assert_int_equal(all(rig.process).count, BLOCKS);
    assert_true(loss(WIRE_AGENT_LOSS_SAMPLED) > 0);
    munmap(behind, PAGE);
    release(blocks[0], BLOCKS);
}

static long times_asleep(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw;
}

/* A part that each event needs is tried again now and then, without a wait for others; and grows when it
 * can. */
static void test_refused_again_and_again(void **state)
{
    (void)state;
    uint64_t room = rig.parameters->mapped[WIRE_AGENT_PART_NODES];
    void *behind = (void *)(place_of(WIRE_AGENT_PART_NODES) + room);
    assert_ptr_equal(mmap(behind, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                     behind);
    rig.process->node_count = (uint32_t)(room / sizeof(struct wire_agent_node)) - 2;
    long asleep = times_asleep();
    keep(blocks[0], BLOCKS);
    assert_in_range(loss(WIRE_AGENT_LOSS_NO_ROOM), 10, BLOCKS / 256);
    assert_in_range(times_asleep() - asleep, 0, 3 * WAITS);
    assert_int_equal(rig.parameters->mapped[WIRE_AGENT_PART_NODES], room);
    release(blocks[0], BLOCKS);
    munmap(behind, PAGE);
    keep(blocks[0], BLOCKS);
    assert_true(rig.parameters->mapped[WIRE_AGENT_PART_NODES] > room);
    assert_int_equal(rig.parameters->refusals[WIRE_AGENT_PART_NODES], 0);
    release(blocks[0], BLOCKS);
}

static uint64_t address_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return pages * PAGE;
}

static void test_refused_by_a_limit(void **state)
{
    (void)state;
    struct rlimit before;
    for (unsigned i = 0; i < BLOCKS; i++) /* the C library's own memory is there before the limit is */
        blocks[0][i] = malloc(i % 100 + 1);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[0][i]);
    uint64_t room = mapped();
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_AS, &(struct rlimit){address_bytes(), before.rlim_max}), 0);
    keep(blocks[0], BLOCKS / 2);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(mapped(), room);
    assert_true(loss(WIRE_AGENT_LOSS_NO_ROOM) > 0);
    release(blocks[0], BLOCKS / 2);
}

/* As if a thread had been left by a jump between the kernel's answer and its own note, twice. */
static void test_what_was_not_published_is_found(void **state)
{
    (void)state;
    uint64_t room = rig.parameters->mapped[WIRE_AGENT_PART_BLOCKS];
    void *at = (void *)place_of(WIRE_AGENT_PART_BLOCKS);
    assert_ptr_equal(mremap(at, room, 2 * room, 0), at);
    assert_ptr_equal(mremap(at, 2 * room, 4 * room, 0), at);
    keep(blocks[0], BLOCKS);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, NULL), BLOCKS);
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ROOM), 0);
    release(blocks[0], BLOCKS);
}

/* Are all pages made that the process may touch? */
static bool is_made(enum wire_agent_part part)
{
    static unsigned char there[1 << 20];
    uint64_t pages = rig.parameters->mapped[part] / PAGE;
    bool made = pages <= sizeof there && mincore((void *)place_of(part), pages * PAGE, there) == 0;
    for (uint64_t i = 0; i < pages && made; i++)
        made = there[i] & 1;
    return made;
}

/* Where the kernel may refuse a touch, nothing grows but by pages that are made: so are those that nobody has
 * used yet. */
static void test_grows_by_made_pages(void **state)
{
    (void)state;
    uint64_t room = rig.parameters->mapped[WIRE_AGENT_PART_BLOCKS];
    rig.control->flags |= WIRE_AGENT_COMMIT;
    rig.parameters->forbidden = WIRE_AGENT_CALL_COMMIT;
    keep(blocks[0], BLOCKS);
    assert_int_equal(rig.parameters->mapped[WIRE_AGENT_PART_BLOCKS], room);
    assert_true(loss(WIRE_AGENT_LOSS_NO_ROOM) > 0);
    rig.parameters->forbidden = 0;
    memset(rig.parameters->refusals, 0, sizeof rig.parameters->refusals);
    keep(blocks[1], BLOCKS);
    assert_true(rig.parameters->mapped[WIRE_AGENT_PART_BLOCKS] > room);
    assert_true(is_made(WIRE_AGENT_PART_BLOCKS));
    release(blocks[0], BLOCKS);
    release(blocks[1], BLOCKS);
}

static void test_grows_by_holes_elsewhere(void **state)
{
    (void)state;
    keep(blocks[0], BLOCKS);
    assert_false(is_made(WIRE_AGENT_PART_BLOCKS));
    release(blocks[0], BLOCKS);
}

static void test_made_pages_under_many_threads(void **state)
{
    rig.control->flags |= WIRE_AGENT_COMMIT;
    test_grows_under_many_threads(state);
    assert_true(is_made(WIRE_AGENT_PART_BLOCKS));
}

static bool in_child(bool (*check)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(check() ? 0 : 1);
    return waitpid(child, &status, 0) == child && status == 0;
}

/* It counts its own, and its parent's blocks are nothing to it. */
static bool counts_alone(void)
{
    /* by processes before it: each has its own copy of a block, and may free it once */
    static unsigned freed;
    hooked_free(blocks[0][freed++]);
    const struct wire_agent_process *shown = (void *)rig.parameters->process;
    bool good = shown->pid == (uint32_t)getpid() && shown->losses[WIRE_AGENT_LOSS_UNKNOWN_FREE] == 1;
    good &= mapped() < LITTLE; /* it has no use for what its parent grew */
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[1][i] = hooked_malloc(7);
    return good && rig.parameters->mapped[WIRE_AGENT_PART_BLOCKS] > BLOCKS * sizeof(struct wire_agent_slot);
}

static bool has_a_child_too(void)
{
    bool good = counts_alone();
    return in_child(counts_alone) && good;
}

static void test_a_child_has_its_own(void **state)
{
    (void)state;
    keep(blocks[0], BLOCKS);
    assert_true(in_child(has_a_child_too));
    for (unsigned i = 1; i <= 2; i++) {
        const struct wire_agent_process *child = agent_rig_process(&rig, i);
        assert_int_equal(child->state, WIRE_AGENT_RUNNING);
        assert_int_equal(child->parent, i);
        assert_int_equal(all(child).count, BLOCKS);
        assert_int_equal(agent_rig_blocks(&rig, child, NULL), BLOCKS);
        assert_int_equal(child->losses[WIRE_AGENT_LOSS_NO_ROOM], 0);
    }
    assert_int_equal(all(rig.process).count, BLOCKS);
    assert_int_equal(all(rig.process).live_count, BLOCKS);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, NULL), BLOCKS);
    release(blocks[0], BLOCKS);
    assert_int_equal(loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
}

static bool counts_nothing(void)
{
    hooked_free(hooked_malloc(7));
    return true;
}

static bool has_made_pages(void)
{
    bool made = counts_alone();
    for (unsigned part = WIRE_AGENT_PART_HEAD; part <= WIRE_AGENT_PART_THREADS; part++)
        made &= rig.parameters->mapped[part] == 0 || is_made(part);
    return made;
}

/* What it shows at first is made before it is shown. */
static void test_a_child_has_made_pages(void **state)
{
    (void)state;
    keep(blocks[0], BLOCKS);
    rig.control->flags |= WIRE_AGENT_COMMIT;
    assert_true(in_child(has_made_pages));
    assert_int_equal(all(agent_rig_process(&rig, 1)).count, BLOCKS);
    rig.parameters->forbidden = WIRE_AGENT_CALL_COMMIT;
    assert_true(in_child(counts_nothing));
    assert_int_equal(loss(WIRE_AGENT_LOSS_INERT), 1);
    rig.parameters->forbidden = 0;
    release(blocks[0], BLOCKS);
}

/* Has the mapping of the address this among its VmFlags? */
static bool is_flagged(uint64_t address, const char *flag)
{
    char line[256];
    bool within = false, flagged = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            within = address >= start && address < end;
        if (within && strncmp(line, "VmFlags:", 8) == 0)
            flagged = strstr(line, flag) != NULL;
    }
    if (file != NULL)
        fclose(file);
    return flagged;
}

static bool is_in_no_dump(void)
{
    hooked_free(hooked_malloc(7));
    bool good = ((const struct wire_agent_process *)rig.parameters->process)->pid == (uint32_t)getpid();
    for (unsigned part = WIRE_AGENT_PART_HEAD; part <= WIRE_AGENT_PART_THREADS; part++)
        good &= is_flagged(place_of(part), " dd");
    return good;
}

/* What a child shows is left out of its core dumps as what its parent has. */
static void test_a_child_dumps_as_little(void **state)
{
    (void)state;
    assert_true(is_flagged(place_of(WIRE_AGENT_PART_HEAD), " dd"));
    assert_true(in_child(is_in_no_dump));
}

/* A filter forbids to show another region: the child is not counted, and its parent not disturbed. */
static void test_a_child_that_may_not(void **state)
{
    (void)state;
    keep(blocks[0], 10);
    rig.parameters->forbidden = WIRE_AGENT_CALL_SHOW;
    assert_true(in_child(counts_nothing));
    rig.parameters->forbidden = 0;
    assert_int_equal(agent_rig_process(&rig, 1)->state, WIRE_AGENT_FREE);
    assert_int_equal(loss(WIRE_AGENT_LOSS_INERT), 1);
    assert_int_equal(all(rig.process).count, 10);
    release(blocks[0], 10);
}

static bool has_no_addresses(void)
{
    struct rlimit before;
    return getrlimit(RLIMIT_AS, &before) == 0 &&
           setrlimit(RLIMIT_AS, &(struct rlimit){address_bytes(), before.rlim_max}) == 0 && counts_nothing();
}

static bool has_a_hole(void)
{
    return munmap((void *)place_of(WIRE_AGENT_PART_NODES), rig.parameters->mapped[WIRE_AGENT_PART_NODES]) ==
               0 &&
           counts_nothing();
}

/* It gets no region, for lack of addresses or because it cannot be shown: others still get that one. */
static void test_a_child_that_cannot(void **state)
{
    (void)state;
    keep(blocks[0], BLOCKS);
    assert_true(in_child(has_no_addresses));
    assert_int_equal(rig.control->next_region, 1);
    assert_true(in_child(has_a_hole));
    assert_int_equal(rig.control->next_region, 1);
    assert_int_equal(loss(WIRE_AGENT_LOSS_INERT), 2);
    assert_true(in_child(counts_alone));
    assert_int_equal(all(agent_rig_process(&rig, 1)).count, BLOCKS);
    release(blocks[0], BLOCKS);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_grows_as_it_is_used),          TEST(test_grows_under_many_threads),
        TEST(test_refused_where_something_lies), TEST(test_refused_by_a_limit),
        TEST(test_refused_again_and_again),      TEST(test_what_was_not_published_is_found),
        TEST(test_a_child_has_its_own),          TEST(test_a_child_that_may_not),
        TEST(test_a_child_that_cannot),          TEST(test_a_child_dumps_as_little),
        TEST(test_grows_by_made_pages),          TEST(test_made_pages_under_many_threads),
        TEST(test_a_child_has_made_pages),       TEST(test_grows_by_holes_elsewhere),
    };
    return cmocka_run_group_tests_name("agent_room", tests, NULL, NULL);
}
