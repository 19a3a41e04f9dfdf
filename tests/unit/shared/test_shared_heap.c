/* What the agent counted becomes figures of the profile: published at once or in parts, of several groups
 * of threads, sampled; and whatever the target may have written. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared_file.h"
#include "shared_heap.h"
#include "wire_loss.h"

static const struct shared_request REQUEST = {.memory = 8 << 20, .patience_ms = 1000};

struct scene {
    struct shared_file file;
    struct profile *profile;
    struct shared_heap heap;
    struct shared_heap_published published;
    struct shared_cookie cookies[2];
    uint32_t process, thread;
};

static void set(struct scene *scene, uint64_t sample_bytes)
{
    *scene = (struct scene){.profile = profile_new()};
    struct shared_request request = REQUEST;
    request.sample_bytes = sample_bytes;
    int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)shared_file_size(&request)), 0);
    assert_int_equal(shared_file_begin(&scene->file, file, &request, NULL), BASE_OK);
    shared_file_claim_region(&scene->file, 42, 7);
    scene->process = profile_process(scene->profile, 42, 0);
    scene->thread = profile_thread(scene->profile, scene->process, 0);
    assert_int_equal(shared_heap_init(&scene->heap, scene->profile, sample_bytes, NULL), BASE_OK);
    scene->cookies[0] =
        (struct shared_cookie){profile_image(scene->profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0), 0x10000};
    scene->cookies[1] = (struct shared_cookie){
        profile_image(scene->profile, PROFILE_IMAGE_FILE, "/lib/b", "02", 0), 0x700000};
    scene->heap.cookies = scene->cookies;
    scene->heap.cookie_count = 2;
}

static void clear(struct scene *scene)
{
    int file = scene->file.file;
    shared_file_end(&scene->file);
    close(file);
    shared_heap_published_free(&scene->published);
    profile_free(scene->profile);
}

static struct wire_agent_node *node_at(struct scene *scene, uint32_t number)
{
    struct wire_agent_process *process = shared_file_process(&scene->file, 0);
    if (process->node_count < number)
        process->node_count = number;
    uint8_t *region = scene->file.bytes + shared_file_region(&scene->file, 0);
    return (struct wire_agent_node *)(void *)(region + scene->file.layout.nodes) + number;
}

static struct wire_agent_cell *cell_at(struct scene *scene, uint32_t number)
{
    struct wire_agent_process *process = shared_file_process(&scene->file, 0);
    if (process->cell_count < number)
        process->cell_count = number;
    uint8_t *region = scene->file.bytes + shared_file_region(&scene->file, 0);
    return (struct wire_agent_cell *)(void *)(region + scene->file.layout.cells) + number;
}

static void make_node(struct scene *scene, uint32_t number, uint32_t parent, uint64_t pc, uint32_t cookie)
{
    *node_at(scene, number) =
        (struct wire_agent_node){.pc = pc, .parent = parent, .cookie = cookie, .ready = 1};
}

/* main (a+0x100) calls f (b+0x20), twice over: nodes 2, 3 of one group of threads, 5, 6 of another. */
static void make_tree(struct scene *scene)
{
    for (uint32_t group = 0; group < 2; group++) {
        make_node(scene, 1 + 3 * group, 0, WIRE_AGENT_HEAP, group + 1);
        make_node(scene, 2 + 3 * group, 1 + 3 * group, 0x10101, 1);
        make_node(scene, 3 + 3 * group, 2 + 3 * group, 0x700021, 2);
    }
}

static void publish(struct scene *scene, uint64_t now, bool final)
{
    struct shared_tree tree;
    assert_int_equal(shared_file_read(&scene->file, 0, &tree, NULL), BASE_OK);
    const struct shared_heap_of of = {scene->process, scene->thread, now, final};
    assert_int_equal(shared_heap_publish(&scene->heap, &tree, &scene->published, of, NULL), BASE_OK);
    shared_tree_free(&tree);
    assert_int_equal(profile_check(scene->profile, NULL), BASE_OK);
}

static const struct profile_cell *find(const struct scene *scene, uint64_t address, enum profile_heap which)
{
    const struct profile *profile = scene->profile;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (cell->counter == scene->heap.counters[which] &&
            profile->addresses[profile->nodes[cell->node].address].address == address)
            return cell;
    }
    return NULL;
}

static int64_t value_of(const struct scene *scene, uint64_t address, enum profile_heap which)
{
    const struct profile_cell *cell = find(scene, address, which);
    return cell ? cell->value : -1;
}

static int64_t sum_of(const struct scene *scene, enum profile_heap which)
{
    int64_t sum = 0;
    for (size_t i = 0; i < scene->profile->cell_count; i++)
        if (scene->profile->cells[i].counter == scene->heap.counters[which])
            sum += scene->profile->cells[i].value;
    return sum;
}

static void figures(void **state)
{
    (void)state;
    struct scene scene;
    set(&scene, 0);
    make_tree(&scene);
    struct wire_agent_process *process = shared_file_process(&scene.file, 0);
    process->peak = 900;
    process->peak_ns = 55;
    process->peak_epoch = 4;
    *cell_at(&scene, 1) = (struct wire_agent_cell){.node = 3,
                                                   .total = 1000,
                                                   .count = 10,
                                                   .freed_own = 300,
                                                   .freed_own_count = 3,
                                                   .freed_other = 200,
                                                   .freed_other_count = 2,
                                                   .max = 800,
                                                   .peak = 700,
                                                   .peak_epoch = 4,
                                                   .largest = 400,
                                                   .temporary = 1,
                                                   .live_since_ns = 40};
    *cell_at(&scene, 2) = (struct wire_agent_cell){.node = 6,
                                                   .total = 60,
                                                   .count = 1,
                                                   .max = 60,
                                                   .peak = 5,
                                                   .peak_epoch = 3,
                                                   .largest = 60,
                                                   .live_since_ns = 90};
    publish(&scene, 100, true);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_TOTAL), 1060);
    assert_int_equal(find(&scene, 0x20, PROFILE_HEAP_TOTAL)->samples, 11);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_COUNT), 11);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_LIVE), 560);
    assert_int_equal(find(&scene, 0x20, PROFILE_HEAP_LIVE)->samples, 6);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_LIVE_COUNT), 6);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_PEAK), 760); /* 700 saved, 60 as it is now */
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_MAX), 860);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_LARGEST), 400);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_TEMPORARY), 1);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_AGE), 60);
    assert_int_equal(scene.profile->peaks[1].value, 900);
    assert_int_equal(scene.profile->peaks[1].time_ns, 55);
    uint32_t leaf = find(&scene, 0x20, PROFILE_HEAP_TOTAL)->node, outer = scene.profile->nodes[leaf].parent;
    assert_int_equal(scene.profile->addresses[scene.profile->nodes[outer].address].address, 0x100);
    assert_int_equal(scene.profile->nodes[outer].parent, 0);
    clear(&scene);
}

/* Published often or once, it is the same in the end. */
static void in_parts(void **state)
{
    (void)state;
    struct scene often, once;
    set(&often, 0);
    set(&once, 0);
    make_tree(&often);
    make_tree(&once);
    struct wire_agent_cell cell = {.node = 3};
    srand(1);
    for (int i = 0; i < 200; i++) {
        uint64_t size = (uint64_t)rand() % 1000;
        bool release = i % 3 == 1;
        cell.total += size;
        cell.count++;
        cell.freed_own += release ? size : 0;
        cell.freed_own_count += release;
        cell.largest = size > cell.largest ? size : cell.largest;
        cell.peak = cell.total - cell.freed_own;
        *cell_at(&often, 1) = *cell_at(&once, 1) = cell;
        shared_file_process(&often.file, 0)->losses[WIRE_AGENT_LOSS_NO_ROWS] = (uint64_t)i;
        if (i % 7 == 0)
            publish(&often, 10, false);
    }
    publish(&often, 10, true);
    publish(&once, 10, true);
    for (int i = 0; i < PROFILE_HEAP_COUNTERS; i++) {
        const struct profile_cell *a = find(&often, 0x20, (enum profile_heap)i),
                                  *b = find(&once, 0x20, (enum profile_heap)i);
        assert_int_equal(a ? a->value : -1, b ? b->value : -1);
        assert_int_equal(a ? a->samples : 0, b ? b->samples : 0);
    }
    assert_int_equal(often.profile->losses[WIRE_LOSS_AGENT_NO_ROWS], 199);
    clear(&often);
    clear(&once);
}

/* An agent whose tables were full: what it estimates is as sure as its variance says, and no more called
 * exact. */
static void past_the_ceiling(void **state)
{
    (void)state;
    struct scene scene;
    const uint64_t unit = wire_agent_level_bytes(1);
    set(&scene, 0);
    make_tree(&scene);
    struct wire_agent_process *process = shared_file_process(&scene.file, 0);
    *cell_at(&scene, 1) = (struct wire_agent_cell){.node = 3, .total = 1000, .count = 100};
    publish(&scene, 1, false);
    for (int i = 0; i < PROFILE_HEAP_COUNTERS; i++)
        assert_true(scene.profile->counters[scene.heap.counters[i]].exact);
    /* 400 samples of 16 KiB in all that is live: their squares are 400 units */
    *cell_at(&scene, 1) = (struct wire_agent_cell){.node = 3,
                                                   .total = 500 * unit,
                                                   .count = 5000,
                                                   .freed_own = 100 * unit,
                                                   .freed_own_count = 1000,
                                                   .variance = 400 << 16};
    process->level = 1;
    publish(&scene, 2, true);
    for (int i = 0; i < PROFILE_HEAP_COUNTERS; i++) {
        bool estimate = i == PROFILE_HEAP_LIVE || i == PROFILE_HEAP_LIVE_COUNT || i == PROFILE_HEAP_PEAK ||
                        i == PROFILE_HEAP_MAX || i == PROFILE_HEAP_TEMPORARY;
        assert_int_equal(scene.profile->counters[scene.heap.counters[i]].exact, !estimate);
    }
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_LIVE), 400 * unit);
    assert_int_equal(find(&scene, 0x20, PROFILE_HEAP_LIVE)->samples, 400);
    assert_int_equal(find(&scene, 0x20, PROFILE_HEAP_TOTAL)->samples, 5000);
    /* what is thought to be left is more than there ever was */
    cell_at(&scene, 1)->freed_own = -(uint64_t)3;
    cell_at(&scene, 1)->freed_own_count = -(uint64_t)5;
    cell_at(&scene, 1)->freed_other = cell_at(&scene, 1)->freed_other_count = 2;
    publish(&scene, 3, true);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_LIVE), 500 * unit + 1);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_LIVE_COUNT), 5003);
    clear(&scene);
}

/* Losses of samples say how many stacks of samples are short: what allocations lost is not among them. */
static void no_loss_of_allocations_is_one_of_samples(void **state)
{
    (void)state;
    struct scene scene;
    set(&scene, 0);
    make_tree(&scene);
    struct wire_agent_process *process = shared_file_process(&scene.file, 0);
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        process->losses[i] = 100 + i;
    publish(&scene, 10, true);
    uint64_t sum = 0;
    for (unsigned i = 0; i < PROFILE_LOSSES; i++) {
        assert_true(i >= WIRE_LOSS_AGENT_INTERRUPTED || !scene.profile->losses[i]);
        sum += scene.profile->losses[i];
    }
    const uint64_t all = WIRE_AGENT_LOSSES * (200 + WIRE_AGENT_LOSSES - 1) / 2;
    assert_int_equal(sum, all - process->losses[WIRE_AGENT_LOSS_UNKNOWN_FREE]);
    assert_int_equal(scene.profile->losses[WIRE_LOSS_AGENT_TOO_DEEP], 100 + WIRE_AGENT_LOSS_TOO_DEEP);
    assert_int_equal(scene.profile->losses[WIRE_LOSS_AGENT_BAD_READ], 100 + WIRE_AGENT_LOSS_CUT);
    assert_int_equal(scene.profile->losses[WIRE_LOSS_AGENT_FRAME_POINTER],
                     100 + WIRE_AGENT_LOSS_FRAME_POINTER);
    clear(&scene);
}

/* Changes of mapped memory that wait are no loss until they cannot be made any more; and no more than
 * there is space for. */
static void changes_that_wait_at_the_end(void **state)
{
    (void)state;
    struct scene scene;
    const uint32_t waiting[] = {3, UINT32_MAX};
    for (size_t i = 0; i < 2; i++) {
        set(&scene, 0);
        struct wire_agent_process *process = shared_file_process(&scene.file, 0);
        process->losses[WIRE_AGENT_LOSS_NO_RANGE] = 5;
        process->range_waiting = waiting[i];
        publish(&scene, 1, false);
        assert_int_equal(scene.profile->losses[WIRE_LOSS_AGENT_MAPPINGS], 5);
        publish(&scene, 2, true);
        assert_int_equal(scene.profile->losses[WIRE_LOSS_AGENT_MAPPINGS],
                         5 + (i == 0 ? 3 : WIRE_AGENT_CHANGES));
        clear(&scene);
    }
}

/* What the tables of a region took is given back; what says whose it is stays, and so do other regions. */
static void a_region_may_be_forgotten(void **state)
{
    (void)state;
    struct scene scene;
    set(&scene, 0);
    make_tree(&scene);
    *cell_at(&scene, 1) = (struct wire_agent_cell){.node = 3, .total = 500, .count = 5};
    uint64_t next = shared_file_region(&scene.file, 1), before;
    uint8_t *all = scene.file.bytes;
    all[next + scene.file.layout.cells] = all[next - 1] = 1; /* the next region's; and the very last byte */
    memset(all + next - (1 << 20), 1, 1 << 20);
    before = shared_file_used(&scene.file);
    shared_file_forget(&scene.file, 0);
    assert_true(shared_file_used(&scene.file) <= before - (1 << 20));
    assert_int_equal(cell_at(&scene, 1)->total, 0);
    assert_int_equal(all[next - 1], 0);
    assert_int_equal(all[next + scene.file.layout.cells], 1);
    assert_int_equal(shared_file_process(&scene.file, 0)->pid, 42);
    assert_int_equal(shared_file_process(&scene.file, 0)->state, WIRE_AGENT_RUNNING);
    clear(&scene);
}

/* As long as another process has the file mapped; what is in it stays as it was. */
static void a_file_may_be_outlived(void **state)
{
    (void)state;
    struct scene scene;
    pid_t *users;
    set(&scene, 0);
    make_tree(&scene);
    *cell_at(&scene, 1) = (struct wire_agent_cell){.node = 3, .total = 500, .count = 5};
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(shared_file_outlives(&scene.file, NULL), 1);
        assert_int_equal(shared_file_users(&scene.file, &users), 1);
        assert_int_equal(users[0], pid);
        free(users);
        shared_file_control(&scene.file)->now_ns = (uint64_t)i; /* it is ours to write */
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    /* a process that reads its /proc/PID/maps at this moment keeps its memory a little longer */
    for (int i = 0; i < 2000 && shared_file_outlives(&scene.file, NULL) == 1; i++)
        usleep(10000);
    assert_int_equal(shared_file_outlives(&scene.file, NULL), 0);
    assert_int_equal(shared_file_users(&scene.file, &users), 0);
    free(users);
    assert_int_equal(shared_file_control(&scene.file)->now_ns, 2);
    publish(&scene, 10, true);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_TOTAL), 500);
    assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, scene.file.file, 0) == MAP_FAILED);
    clear(&scene);
}

static void sampled(void **state)
{
    (void)state;
    struct scene scene;
    set(&scene, 1000);
    make_tree(&scene);
    /* 100 samples of one byte blocks: each stands for 1000 bytes. */
    *cell_at(&scene, 1) = (struct wire_agent_cell){.node = 3,
                                                   .total = 100000,
                                                   .count = UINT64_C(100000) * WIRE_AGENT_SCALE,
                                                   .variance = UINT64_C(100) * 65536,
                                                   .freed_own = 75000,
                                                   .freed_own_count = UINT64_C(75000) * WIRE_AGENT_SCALE,
                                                   .freed_variance = UINT64_C(75) * 65536};
    publish(&scene, 1, true);
    assert_false(scene.profile->counters[scene.heap.counters[PROFILE_HEAP_TOTAL]].exact);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_COUNT), 100000);
    assert_int_equal(find(&scene, 0x20, PROFILE_HEAP_TOTAL)->samples, 100);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_LIVE), 25000);
    assert_int_equal(find(&scene, 0x20, PROFILE_HEAP_LIVE)->samples, 25);
    clear(&scene);
}

/* Whatever stands in the memory: no index leaves its array, no climb is endless. */
static void hostile(void **state)
{
    (void)state;
    struct scene scene;
    set(&scene, 0);
    make_tree(&scene);
    make_node(&scene, 7, 8, 1, 1); /* a cycle */
    make_node(&scene, 8, 7, 1, 1);
    make_node(&scene, 9, 4000000000u, 1, 1);
    make_node(&scene, 10, 1, 1, 99); /* no such module */
    make_node(&scene, 11, 0, WIRE_AGENT_FDS, 0);
    make_node(&scene, 12, 11, 0x10101, 1); /* another collector's */
    make_node(&scene, 13, 1, 0x10101, 1);
    node_at(&scene, 13)->ready = 0;
    const uint64_t nodes[] = {0, 7, 8, 9, 10, 12, 13, 14, UINT32_MAX, UINT64_MAX};
    for (uint32_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        *cell_at(&scene, i + 1) = (struct wire_agent_cell){.node = nodes[i], .total = 5, .count = 1};
    *cell_at(&scene, 20) =
        (struct wire_agent_cell){.node = 3, .total = UINT64_MAX, .count = UINT64_MAX, .max = UINT64_MAX};
    *cell_at(&scene, 21) = (struct wire_agent_cell){
        .node = 6, .total = 1, .count = 1, .freed_own = UINT64_MAX, .freed_other = 2};
    struct wire_agent_process *process = shared_file_process(&scene.file, 0);
    memset(process->losses, 0xff, sizeof process->losses);
    process->peak = INT64_MIN;
    process->scale = 0;
    publish(&scene, 3, false);
    process->cell_count = process->node_count = UINT32_MAX;
    publish(&scene, 3, true);
    assert_int_equal(value_of(&scene, 0x20, PROFILE_HEAP_TOTAL), INT64_MAX); /* cut at one stack, */
    assert_int_equal(value_of(&scene, 0, PROFILE_HEAP_TOTAL), 5);            /* and the one in no module */
    assert_int_equal(scene.profile->peak_count, 1);
    clear(&scene);
}

/* More stacks than the profile may have: folded, nothing lost. */
static void folded(void **state)
{
    (void)state;
    struct scene scene;
    set(&scene, 0);
    scene.profile->max_nodes = 200;
    make_node(&scene, 1, 0, WIRE_AGENT_HEAP, 1);
    for (uint32_t i = 0; i < 1000; i++) {
        make_node(&scene, 2 + i, 1, 0x10001 + i, 1);
        *cell_at(&scene, 1 + i) = (struct wire_agent_cell){.node = 2 + i, .total = 10, .count = 2};
    }
    publish(&scene, 1, true);
    assert_true(profile_folds(scene.profile) > 0);
    assert_int_equal(sum_of(&scene, PROFILE_HEAP_TOTAL), 10000);
    assert_int_equal(sum_of(&scene, PROFILE_HEAP_COUNT), 2000);
    clear(&scene);
}

static void modules_and_requests(void **state)
{
    (void)state;
    struct scene scene;
    set(&scene, 0);
    struct shared_file *file = &scene.file;
    struct wire_agent_process *process = shared_file_process(file, 0);
    uint64_t offset;
    char *rows = calloc(1, 100);
    assert_non_null(rows);
    memset(rows, 'r', 100);
    assert_int_equal(shared_file_rows(file, rows, 100, &offset, NULL), BASE_OK);
    assert_memory_equal(file->bytes + file->rows_offset + offset, rows, 100);
    assert_int_equal(shared_file_rows(file, rows, UINT64_MAX, &offset, NULL), BASE_ENOMEM);
    free(rows);
    for (uint32_t round = 0; round < 3; round++) {
        shared_file_modules(file);
        for (uint32_t i = 0; i <= round; i++)
            assert_true(shared_file_module(file, &(struct wire_agent_module){.start = 1000 - i}));
        shared_file_publish(file, 0);
        const struct wire_agent_module *table = (const void *)(file->bytes + shared_file_region(file, 0) +
                                                               file->layout.modules[process->generation & 1]);
        assert_int_equal(process->generation, 2 + round);
        assert_int_equal(process->module_count[process->generation & 1], round + 1);
        assert_int_equal(table[0].start, 1000 - round); /* sorted */
    }
    uint32_t sequence, asked;
    struct shared_asks asks;
    assert_false(shared_file_request(file, 0, &asked, &sequence, &asks));
    process->request = WIRE_AGENT_OBJECTS | WIRE_AGENT_EXEC;
    process->asks[0] = UINT64_C(43) << 32 | WIRE_AGENT_EXEC;
    process->asks[9] = UINT64_C(44) << 32 | WIRE_AGENT_EXEC;
    process->asks[WIRE_AGENT_ASKS - 1] = UINT64_C(43) << 32 | WIRE_AGENT_EXEC_FAILED;
    process->request_sequence = 5;
    assert_true(shared_file_request(file, 0, &asked, &sequence, &asks));
    assert_int_equal(asked, WIRE_AGENT_OBJECTS | WIRE_AGENT_EXEC);
    assert_int_equal(asks.count, 3);
    assert_int_equal(asks.items[0].tid, 43);
    assert_int_equal(asks.items[0].what, WIRE_AGENT_EXEC_FAILED);
    assert_int_equal(asks.items[1].tid + asks.items[2].tid, 43 + 44);
    shared_file_answer(file, 0, sequence);
    assert_false(shared_file_request(file, 0, &asked, &sequence, &asks));
    assert_int_equal(process->asks[9], 0);
    /* A thread that asks has said what, and not yet counted itself, as another one is answered: its own
     * answer is due. */
    process->request = WIRE_AGENT_EXEC;
    process->request_sequence = 6;
    process->asks[0] = UINT64_C(43) << 32 | WIRE_AGENT_EXEC;
    assert_true(shared_file_request(file, 0, &asked, &sequence, &asks));
    assert_int_equal(asked, WIRE_AGENT_EXEC);
    shared_file_answer(file, 0, sequence);
    process->request_sequence = 7;
    assert_true(shared_file_request(file, 0, &asked, &sequence, &asks));
    assert_int_equal(asked, 0);
    assert_int_equal(asks.count, 0);
    assert_int_equal(sequence, 7);
    shared_file_answer(file, 0, sequence);
    assert_false(shared_file_request(file, 0, &asked, &sequence, &asks));
    shared_file_control(file)->next_region = UINT32_MAX;
    assert_int_equal(shared_file_regions(file), file->region_count);
    assert_int_equal(ftruncate(file->file, 4096), -1); /* sealed */
    clear(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),
        cmocka_unit_test(in_parts),
        cmocka_unit_test(changes_that_wait_at_the_end),
        cmocka_unit_test(a_region_may_be_forgotten),
        cmocka_unit_test(a_file_may_be_outlived),
        cmocka_unit_test(sampled),
        cmocka_unit_test(past_the_ceiling),
        cmocka_unit_test(no_loss_of_allocations_is_one_of_samples),
        cmocka_unit_test(hostile),
        cmocka_unit_test(folded),
        cmocka_unit_test(modules_and_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
