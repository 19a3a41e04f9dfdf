/* Mappings as events report them, beside an oracle that knows every page by itself; process creation,
 * execs and deaths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "sample_process.h"
#include "wire_loss.h"

enum { PAGE = 4096, PAGES = 64, NO_SUCH_PID = 0x3ffffff0 };
static const uint64_t BASE = 0x7f0000000000;

struct fixture {
    struct profile *profile;
    struct sample_images images;
    struct sample_processes processes;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->profile = profile_new();
    assert_int_equal(sample_images_init(&fixture->images, fixture->profile, NULL), BASE_OK);
    sample_processes_init(&fixture->processes, &fixture->images, 1000);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    sample_processes_free(&fixture->processes);
    sample_images_free(&fixture->images);
    profile_free(fixture->profile);
    free(fixture);
    return 0;
}

/* Anonymous executable memory: nothing is opened to look at it. */
static void map(struct fixture *fixture, pid_t pid, uint64_t start, uint64_t length, uint64_t offset)
{
    struct perf_mmap event = {.pid = (uint32_t)pid,
                              .tid = (uint32_t)pid,
                              .start = start,
                              .length = length,
                              .offset = offset,
                              .protection = PROT_READ | PROT_EXEC,
                              .path = "//anon"};
    sample_processes_on_mmap(&fixture->processes, &event, 2000);
}

static struct perf_task task(pid_t pid, pid_t parent)
{
    return (struct perf_task){.pid = (uint32_t)pid,
                              .tid = (uint32_t)pid,
                              .parent_pid = (uint32_t)parent,
                              .parent_tid = (uint32_t)parent,
                              .time = 5000};
}

/* --- an oracle: for each page the offset that it shows, or none --- */

static void check_pages(struct fixture *fixture, struct sample_process *process, const uint64_t *offsets)
{
    for (uint64_t page = 0; page < PAGES; page++) {
        uint64_t address = BASE + page * PAGE + page;
        const struct sample_mapping *found = sample_processes_mapping(&fixture->processes, process, address);
        if (!offsets[page]) {
            assert_null(found);
        } else {
            assert_non_null(found);
            assert_in_range(address, found->start, found->end - 1);
            assert_int_equal(found->offset + (address - found->start), offsets[page] + page);
        }
    }
    for (size_t i = 1; i < process->mapping_count; i++)
        assert_true(process->mappings[i - 1].end <= process->mappings[i].start);
}

static void cuts_agree_with_an_oracle(void **state)
{
    struct fixture *fixture = *state;
    uint64_t random = 1;
    for (pid_t round = 0; round < 50; round++) {
        uint64_t offsets[PAGES] = {0};
        struct sample_process *process =
            sample_processes_expect(&fixture->processes, NO_SUCH_PID + round, 1000);
        for (int step = 0; step < 40; step++) {
            random = base_hash(random + 1);
            uint64_t first = random % PAGES, count = 1 + (random >> 16) % (PAGES - first);
            uint64_t offset = (1 + (random >> 40) % 1000) * PAGE;
            map(fixture, NO_SUCH_PID + round, BASE + first * PAGE, count * PAGE, offset);
            for (uint64_t page = 0; page < count; page++)
                offsets[first + page] = offset + page * PAGE;
            check_pages(fixture, process, offsets);
        }
    }
    assert_int_equal(fixture->profile->losses[WIRE_LOSS_OUT_OF_MEMORY], 0);
}

static void every_change_is_a_new_generation(void **state)
{
    struct fixture *fixture = *state;
    struct sample_process *process = sample_processes_expect(&fixture->processes, NO_SUCH_PID, 1000);
    uint32_t before = process->generation;
    map(fixture, NO_SUCH_PID, BASE, PAGE, PAGE);
    assert_true(process->generation > before);
    before = process->generation;
    sample_processes_mapping(&fixture->processes, process, BASE);
    assert_int_equal(process->generation, before);
    map(fixture, NO_SUCH_PID, BASE, PAGE, PAGE); /* the same again: a library that came back */
    assert_true(process->generation > before);
}

static void data_and_empty_mappings_are_left_out(void **state)
{
    struct fixture *fixture = *state;
    struct sample_process *process = sample_processes_expect(&fixture->processes, NO_SUCH_PID, 1000);
    struct perf_mmap event = {.pid = NO_SUCH_PID,
                              .start = BASE,
                              .length = PAGE,
                              .protection = PROT_READ | PROT_WRITE,
                              .path = "//anon"};
    sample_processes_on_mmap(&fixture->processes, &event, 2000);
    event.protection = PROT_EXEC;
    event.length = 0;
    sample_processes_on_mmap(&fixture->processes, &event, 2000);
    event.start = UINT64_MAX - PAGE;
    event.length = 2 * PAGE; /* past the end of the address space */
    sample_processes_on_mmap(&fixture->processes, &event, 2000);
    assert_int_equal(process->mapping_count, 0);
}

static void a_child_has_its_parents_mappings_until_it_execs(void **state)
{
    struct fixture *fixture = *state;
    uint64_t offsets[PAGES] = {[3] = 7 * PAGE, [4] = 8 * PAGE}, none[PAGES] = {0};
    sample_processes_expect(&fixture->processes, NO_SUCH_PID, 1000);
    map(fixture, NO_SUCH_PID, BASE + 3 * PAGE, 2 * PAGE, 7 * PAGE);
    struct perf_task creation = task(NO_SUCH_PID + 1, NO_SUCH_PID);
    sample_processes_on_fork(&fixture->processes, &creation);
    struct sample_process *child = sample_processes_get(&fixture->processes, NO_SUCH_PID + 1, 6000);
    check_pages(fixture, child, offsets);
    const struct profile_process *known = &fixture->profile->processes[child->profile_process];
    assert_int_equal(known->parent_pid, NO_SUCH_PID);
    assert_int_equal(known->start_ns, 4000);
    struct perf_comm exec = {.pid = NO_SUCH_PID + 1, .tid = NO_SUCH_PID + 1, .exec = true, .name = "other"};
    sample_processes_on_comm(&fixture->processes, &exec, 6000);
    check_pages(fixture, child, none);
    known = &fixture->profile->processes[child->profile_process];
    assert_string_equal(profile_text(fixture->profile, known->name), "other");
    check_pages(fixture, sample_processes_get(&fixture->processes, NO_SUCH_PID, 6000), offsets);
}

/* It was known before its creation was read: it is one process, and as old as the event says. */
static void a_creation_may_be_reported_late(void **state)
{
    struct fixture *fixture = *state;
    struct sample_process *child = sample_processes_expect(&fixture->processes, NO_SUCH_PID + 1, 7000);
    uint32_t process = child->profile_process;
    size_t count = fixture->profile->process_count;
    struct perf_task creation = task(NO_SUCH_PID + 1, NO_SUCH_PID);
    sample_processes_on_fork(&fixture->processes, &creation);
    assert_int_equal(fixture->profile->process_count, count);
    assert_int_equal(fixture->profile->processes[process].start_ns, 4000);
    assert_int_equal(fixture->profile->processes[process].parent_pid, NO_SUCH_PID);
    creation.time = 8000000; /* and another one, much later, is another one */
    sample_processes_on_fork(&fixture->processes, &creation);
    child = sample_processes_get(&fixture->processes, NO_SUCH_PID + 1, 8000000);
    assert_int_not_equal(child->profile_process, process);
}

/* The pid and the tids of ended processes come again for new ones. */
static void numbers_are_used_again(void **state)
{
    struct fixture *fixture = *state;
    struct perf_task creation = task(NO_SUCH_PID + 1, NO_SUCH_PID);
    sample_processes_expect(&fixture->processes, NO_SUCH_PID, 1000);
    sample_processes_on_fork(&fixture->processes, &creation);
    struct sample_process *first = sample_processes_get(&fixture->processes, NO_SUCH_PID + 1, 6000);
    uint32_t process = first->profile_process,
             thread = sample_processes_thread(&fixture->processes, first, NO_SUCH_PID + 1);
    assert_int_equal(sample_processes_thread(&fixture->processes, first, NO_SUCH_PID + 1), thread);
    sample_processes_on_exit(&fixture->processes, &creation);
    assert_int_equal(fixture->profile->processes[process].end_ns, 4000);
    sample_processes_on_fork(&fixture->processes, &creation);
    struct sample_process *second = sample_processes_get(&fixture->processes, NO_SUCH_PID + 1, 9000);
    assert_int_not_equal(second->profile_process, process);
    uint32_t again = sample_processes_thread(&fixture->processes, second, NO_SUCH_PID + 1);
    assert_int_not_equal(again, thread);
    assert_int_equal(fixture->profile->threads[again].process, second->profile_process);
}

static void living_ones_are_listed_once(void **state)
{
    struct fixture *fixture = *state;
    sample_processes_expect(&fixture->processes, NO_SUCH_PID, 1000);
    struct perf_task creation = task(NO_SUCH_PID + 1, NO_SUCH_PID);
    for (int round = 0; round < 3; round++)
        sample_processes_on_fork(&fixture->processes, &creation);
    pid_t *pids;
    assert_int_equal(sample_processes_living(&fixture->processes, &pids), 2);
    free(pids);
    sample_processes_on_exit(&fixture->processes, &creation);
    assert_int_equal(sample_processes_living(&fixture->processes, &pids), 1);
    assert_int_equal(pids[0], NO_SUCH_PID);
    free(pids);
}

static void the_forgotten_hold_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct sample_process *process = sample_processes_expect(&fixture->processes, NO_SUCH_PID, 1000);
    map(fixture, NO_SUCH_PID, BASE, PAGE, PAGE);
    assert_true(sample_processes_knows(&fixture->processes, NO_SUCH_PID));
    sample_processes_forget(&fixture->processes, NO_SUCH_PID);
    sample_processes_forget(&fixture->processes, NO_SUCH_PID);
    assert_false(sample_processes_knows(&fixture->processes, NO_SUCH_PID));
    assert_null(process->mappings);
    assert_ptr_equal(sample_processes_latest(&fixture->processes, NO_SUCH_PID, 2000), process);
    assert_int_equal(fixture->profile->losses[WIRE_LOSS_PROCESS_GONE], 0);
    struct perf_task creation = task(NO_SUCH_PID, NO_SUCH_PID + 7);
    sample_processes_on_fork(&fixture->processes, &creation);
    assert_true(sample_processes_knows(&fixture->processes, NO_SUCH_PID)); /* another process */
    assert_ptr_equal(sample_processes_latest(&fixture->processes, NO_SUCH_PID, 3000),
                     sample_processes_get(&fixture->processes, NO_SUCH_PID, 3000));
}

/* While events are replaced, two of them report one process creation. */
static void a_creation_reported_twice_is_one(void **state)
{
    struct fixture *fixture = *state;
    sample_processes_expect(&fixture->processes, NO_SUCH_PID, 1000);
    struct perf_task creation = task(NO_SUCH_PID + 1, NO_SUCH_PID);
    sample_processes_on_fork(&fixture->processes, &creation);
    creation.time += 50;
    sample_processes_on_fork(&fixture->processes, &creation);
    assert_int_equal(fixture->processes.count, 2);
    creation.time += 1000000000; /* the number came round */
    sample_processes_on_fork(&fixture->processes, &creation);
    assert_int_equal(fixture->processes.count, 3);
}

/* A process that ran before: what /proc says of this very test. */
static void the_running_are_read_from_proc(void **state)
{
    struct fixture *fixture = *state;
    struct sample_process *self = sample_processes_get(&fixture->processes, getpid(), 2000);
    uint64_t here = (uint64_t)(uintptr_t)&the_running_are_read_from_proc;
    const struct sample_mapping *mapping = sample_processes_mapping(&fixture->processes, self, here);
    assert_non_null(mapping);
    const char *path = fixture->images.items[mapping->image].path;
    assert_non_null(strstr(path, "test_sample"));
    assert_int_equal(fixture->images.items[mapping->image].state, SAMPLE_IMAGE_OPEN);
    const struct profile_process *known = &fixture->profile->processes[self->profile_process];
    assert_non_null(strstr(profile_text(fixture->profile, known->command), "test_sample"));
}

static const char *command_of(const struct fixture *fixture, const struct sample_process *process)
{
    return profile_text(fixture->profile, fixture->profile->processes[process->profile_process].command);
}

/* A child has the words of its parent until it runs another program, though its own can no longer be read. */
static void an_exec_ends_the_words_of_the_parent(void **state)
{
    struct fixture *fixture = *state;
    sample_processes_get(&fixture->processes, getpid(), 2000);
    struct perf_task creation = task(NO_SUCH_PID, getpid());
    sample_processes_on_fork(&fixture->processes, &creation);
    struct sample_process *child = sample_processes_get(&fixture->processes, NO_SUCH_PID, 5000);
    assert_non_null(strstr(command_of(fixture, child), "test_sample"));
    const struct perf_comm comm = {.pid = NO_SUCH_PID, .tid = NO_SUCH_PID, .exec = true, .name = "sort"};
    sample_processes_on_comm(&fixture->processes, &comm, 6000);
    assert_string_equal(command_of(fixture, child), "");
}

/* Right after an exec there are none yet; when the next file is mapped there are. */
static void words_are_read_later(void **state)
{
    struct fixture *fixture = *state;
    struct sample_process *self = sample_processes_expect(&fixture->processes, getpid(), 1000);
    assert_string_equal(command_of(fixture, self), "");
    map(fixture, getpid(), BASE, PAGE, 0);
    assert_non_null(strstr(command_of(fixture, self), "test_sample"));
}

static void the_vanished_are_a_loss(void **state)
{
    struct fixture *fixture = *state;
    struct sample_process *gone = sample_processes_get(&fixture->processes, NO_SUCH_PID, 2000);
    assert_non_null(gone);
    assert_int_equal(gone->mapping_count, 0);
    assert_int_equal(fixture->profile->losses[WIRE_LOSS_PROCESS_GONE], 1);
    assert_ptr_equal(sample_processes_get(&fixture->processes, NO_SUCH_PID, 2000), gone);
    assert_int_equal(fixture->profile->losses[WIRE_LOSS_PROCESS_GONE], 1);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(cuts_agree_with_an_oracle),
        CASE(every_change_is_a_new_generation),
        CASE(data_and_empty_mappings_are_left_out),
        CASE(a_creation_may_be_reported_late),
        CASE(a_child_has_its_parents_mappings_until_it_execs),
        CASE(numbers_are_used_again),
        CASE(living_ones_are_listed_once),
        CASE(the_forgotten_hold_nothing),
        CASE(a_creation_reported_twice_is_one),
        CASE(the_running_are_read_from_proc),
        CASE(an_exec_ends_the_words_of_the_parent),
        CASE(words_are_read_later),
        CASE(the_vanished_are_a_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
