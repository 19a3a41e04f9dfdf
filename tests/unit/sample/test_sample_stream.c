/* Records in, counters out: a stream of records as the kernel lays them out, replayed without any event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "perf_record.h"
#include "sample_stream.h"
#include "wire_loss.h"

enum { TARGET = 0x3ffffff0, CHILD, START = 1000, VALUE = 1001001 };
static const uint64_t TEXT = 0x7f0000000000;

struct fixture {
    struct perf_event_form form;
    struct sample_stream stream;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->form = (struct perf_event_form){.stacks = PERF_STACKS_ADDRESS, .fields = PERF_SAMPLE_FIELDS};
    fixture->stream = (struct sample_stream){.profile = profile_new(),
                                             .form = &fixture->form,
                                             .follow = true,
                                             .sample_value = VALUE,
                                             .start_ns = START};
    fixture->stream.counter =
        (uint16_t)profile_counter(fixture->stream.profile, "time.cpu", "ns", false, PROFILE_SUM);
    assert_int_equal(sample_stream_init(&fixture->stream, NULL), BASE_OK);
    sample_processes_expect(&fixture->stream.processes, TARGET, START);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    struct profile *profile = fixture->stream.profile;
    struct base_error error = {0};
    assert_int_equal(profile_check(profile, &error), BASE_OK);
    sample_stream_free(&fixture->stream);
    profile_free(profile);
    free(fixture);
    return 0;
}

/* --- records --- */

struct record {
    union {
        struct perf_event_header header;
        uint64_t words[64];
    };
};

static void put(struct record *record, uint64_t word)
{
    memcpy((uint8_t *)record + record->header.size, &word, sizeof word);
    record->header.size = (uint16_t)(record->header.size + sizeof word);
}

static void put_pair(struct record *record, uint32_t low, uint32_t high)
{
    put(record, (uint64_t)high << 32 | low);
}

static struct record begin(uint32_t type, uint16_t misc)
{
    return (struct record){.header = {.type = type, .misc = misc, .size = sizeof(struct perf_event_header)}};
}

static void send(struct fixture *fixture, struct record *record, uint64_t time)
{
    if (record->header.type != PERF_RECORD_SAMPLE) {
        put_pair(record, TARGET, TARGET);
        put(record, time);
        put_pair(record, 0, 0); /* cpu */
        put(record, 1);         /* identifier */
    }
    sample_stream_record(&fixture->stream, &record->header, time);
}

static void send_sample(struct fixture *fixture, uint32_t pid, uint32_t tid, uint64_t ip, uint32_t cpu,
                        uint64_t time)
{
    struct record record = begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    put(&record, 1);
    put(&record, ip);
    put_pair(&record, pid, tid);
    put(&record, time);
    put_pair(&record, cpu, 0);
    send(fixture, &record, time);
}

static void send_task(struct fixture *fixture, uint32_t type, uint32_t pid, uint32_t tid, uint32_t parent,
                      uint64_t time)
{
    struct record record = begin(type, 0);
    put_pair(&record, pid, parent);
    put_pair(&record, tid, parent);
    put(&record, time);
    send(fixture, &record, time);
}

static void send_mapping(struct fixture *fixture, uint32_t pid, uint64_t start, const char *path,
                         uint64_t time)
{
    struct record record = begin(PERF_RECORD_MMAP2, 0);
    put_pair(&record, pid, pid);
    put(&record, start);
    put(&record, 0x10000);
    put(&record, 0);
    put_pair(&record, 8, 1);
    put(&record, 4711);
    put(&record, 0);
    put_pair(&record, PROT_READ | PROT_EXEC, MAP_PRIVATE);
    char name[32] = {0};
    strncpy(name, path, sizeof name - 1);
    for (size_t i = 0; i < sizeof name; i += 8) {
        uint64_t word;
        memcpy(&word, name + i, sizeof word);
        put(&record, word);
    }
    send(fixture, &record, time);
}

static void send_comm(struct fixture *fixture, uint32_t pid, const char *name, uint16_t misc, uint64_t time)
{
    struct record record = begin(PERF_RECORD_COMM, misc);
    uint64_t words[2] = {0};
    strncpy((char *)words, name, sizeof words - 1);
    put_pair(&record, pid, pid);
    put(&record, words[0]);
    put(&record, words[1]);
    send(fixture, &record, time);
}

/* --- what came of it --- */

static uint64_t samples_at(const struct fixture *fixture, const char *image, uint64_t address)
{
    const struct profile *profile = fixture->stream.profile;
    uint64_t samples = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        const struct profile_address *at = &profile->addresses[profile->nodes[cell->node].address];
        if (at->address == address &&
            !strcmp(profile_text(profile, profile->images[at->image].name), image)) {
            assert_int_equal(cell->value, (int64_t)cell->samples * VALUE);
            samples += cell->samples;
        }
    }
    return samples;
}

static void samples_become_cells(void **state)
{
    struct fixture *fixture = *state;
    send_mapping(fixture, TARGET, TEXT, "/no/such/file", 2000);
    for (uint64_t i = 0; i < 10; i++)
        send_sample(fixture, TARGET, TARGET, TEXT + 16, 0, 3000 + i);
    send_sample(fixture, TARGET, TARGET, TEXT + 16, 1, 3010); /* another CPU */
    send_sample(fixture, TARGET, TARGET + 9, TEXT + 32, 1, 3011);
    send_sample(fixture, TARGET, TARGET, 0x4000, 1, 3012); /* where nothing is mapped */
    assert_int_equal(samples_at(fixture, "file", 16), 11);
    assert_int_equal(samples_at(fixture, "file", 32), 1);
    assert_int_equal(samples_at(fixture, "(unknown)", 0), 1);
    assert_int_equal(fixture->stream.samples, 13);
    assert_int_equal(fixture->stream.profile->cell_count, 4);
    assert_int_equal(fixture->stream.profile->losses[WIRE_LOSS_IMAGE_UNREADABLE], 1);
}

/* Other code at an address that was used before: each sample belongs to what was there at its time. */
static void a_replaced_mapping_takes_the_samples_after_it(void **state)
{
    struct fixture *fixture = *state;
    send_mapping(fixture, TARGET, TEXT, "/no/first", 2000);
    send_sample(fixture, TARGET, TARGET, TEXT + 0x8010, 0, 2001);
    send_mapping(fixture, TARGET, TEXT + 0x8000, "/no/second", 2002);
    send_sample(fixture, TARGET, TARGET, TEXT + 0x8010, 0, 2003);
    send_sample(fixture, TARGET, TARGET, TEXT + 0x10, 0, 2004);
    assert_int_equal(samples_at(fixture, "first", 0x8010), 1);
    assert_int_equal(samples_at(fixture, "second", 0x10), 1);
    assert_int_equal(samples_at(fixture, "first", 0x10), 1);
}

static void children_are_followed_through_fork_and_exec(void **state)
{
    struct fixture *fixture = *state;
    const struct profile *profile = fixture->stream.profile;
    send_mapping(fixture, TARGET, TEXT, "/no/parent", 2000);
    send_task(fixture, PERF_RECORD_FORK, CHILD, CHILD, TARGET, 2001);
    send_sample(fixture, CHILD, CHILD, TEXT + 16, 0, 2002);
    send_comm(fixture, CHILD, "program", PERF_RECORD_MISC_COMM_EXEC, 2003);
    send_mapping(fixture, CHILD, TEXT, "/no/child", 2004);
    send_sample(fixture, CHILD, CHILD, TEXT + 16, 0, 2005);
    send_task(fixture, PERF_RECORD_EXIT, CHILD, CHILD, TARGET, 2006);
    assert_int_equal(samples_at(fixture, "parent", 16), 1);
    assert_int_equal(samples_at(fixture, "child", 16), 1);
    assert_int_equal(profile->process_count, 1 + 2);
    assert_string_equal(profile_text(profile, profile->processes[2].name), "program");
    assert_int_equal(profile->processes[2].start_ns, 2001 - START);
    assert_int_equal(profile->processes[2].end_ns, 2006 - START);
    assert_int_equal(profile->thread_count, 1 + 1);
}

static void threads_are_of_their_process(void **state)
{
    struct fixture *fixture = *state;
    const struct profile *profile = fixture->stream.profile;
    send_task(fixture, PERF_RECORD_FORK, TARGET, TARGET + 5, TARGET, 2001);
    send_sample(fixture, TARGET, TARGET + 5, 0x4000, 0, 2002);
    send_task(fixture, PERF_RECORD_EXIT, TARGET, TARGET + 5, TARGET, 2003);
    send_sample(fixture, TARGET, TARGET, 0x4000, 0, 2004);
    assert_int_equal(profile->process_count, 1 + 1);
    assert_int_equal(profile->thread_count, 1 + 2);
    assert_int_equal(profile->threads[1].tid, TARGET + 5);
    assert_int_equal(profile->processes[1].end_ns, 0); /* the thread is gone, the process is not */
}

/* Where whole CPUs are sampled, others' records come in too, and numbers of our ended processes come back
 * as theirs. */
static void other_processes_are_left_out(void **state)
{
    struct fixture *fixture = *state;
    enum { OTHER = 0x3fffff00 };
    const struct profile *profile = fixture->stream.profile;
    fixture->stream.others = true;
    send_mapping(fixture, OTHER, TEXT, "/no/other", 2000);
    send_comm(fixture, OTHER, "other", PERF_RECORD_MISC_COMM_EXEC, 2001);
    send_sample(fixture, OTHER, OTHER, TEXT + 16, 0, 2002);
    send_task(fixture, PERF_RECORD_FORK, OTHER + 1, OTHER + 1, OTHER, 2003);
    assert_int_equal(profile->process_count, 1 + 1);
    assert_int_equal(fixture->stream.samples, 0);
    assert_int_equal(fixture->stream.creations, 0);
    send_task(fixture, PERF_RECORD_FORK, CHILD, CHILD, TARGET, 2004);
    send_sample(fixture, CHILD, CHILD, TEXT + 16, 0, 2005);
    send_task(fixture, PERF_RECORD_EXIT, CHILD, CHILD, TARGET, 2006);
    assert_int_equal(fixture->stream.samples, 1);
    assert_int_equal(fixture->stream.creations, 1);
    send_task(fixture, PERF_RECORD_FORK, CHILD, CHILD, OTHER, 2007);
    send_sample(fixture, CHILD, CHILD, TEXT + 16, 0, 2008);
    assert_int_equal(fixture->stream.samples, 1);
}

static void children_are_left_alone_without_follow(void **state)
{
    struct fixture *fixture = *state;
    fixture->stream.follow = false;
    send_task(fixture, PERF_RECORD_FORK, CHILD, CHILD, TARGET, 2001);
    send_task(fixture, PERF_RECORD_FORK, TARGET, TARGET + 5, TARGET, 2002);
    assert_int_equal(fixture->stream.profile->process_count, 1 + 1);
    assert_int_equal(fixture->stream.creations, 1);
}

static void what_the_kernel_dropped_is_counted(void **state)
{
    struct fixture *fixture = *state;
    struct record lost = begin(PERF_RECORD_LOST, 0), throttled = begin(PERF_RECORD_THROTTLE, 0);
    put(&lost, 1);
    put(&lost, 17);
    send(fixture, &lost, 2000);
    for (int i = 0; i < 3; i++)
        put(&throttled, 1);
    send(fixture, &throttled, 2001);
    send_sample(fixture, TARGET, TARGET, 0x4000, 0, 1500); /* after a later one */
    const uint64_t *losses = fixture->stream.profile->losses;
    assert_int_equal(losses[WIRE_LOSS_RING_FULL], 17);
    assert_int_equal(fixture->stream.lost, 17);
    assert_int_equal(losses[WIRE_LOSS_THROTTLED], 1);
    assert_int_equal(losses[WIRE_LOSS_CLOCK_DISORDER], 1);
    assert_int_equal(fixture->stream.samples, 1);
}

/* Records of all kinds with lengths that are too short: none is read past its end (ASan looks), none
 * crashes. */
static void shortened_records_change_nothing(void **state)
{
    struct fixture *fixture = *state;
    static const uint32_t types[] = {PERF_RECORD_SAMPLE, PERF_RECORD_MMAP2, PERF_RECORD_COMM,
                                     PERF_RECORD_FORK,   PERF_RECORD_EXIT,  PERF_RECORD_LOST};
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        for (uint16_t size = sizeof(struct perf_event_header); size < 40; size = (uint16_t)(size + 8)) {
            struct perf_event_header *header = malloc(size);
            memset(header, 0x41, size);
            *header = (struct perf_event_header){.type = types[type], .size = size};
            sample_stream_record(&fixture->stream, header, 2000);
            free(header);
        }
    }
    assert_int_equal(fixture->stream.samples, 0);
    assert_int_equal(fixture->stream.profile->cell_count, 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(samples_become_cells),
        CASE(a_replaced_mapping_takes_the_samples_after_it),
        CASE(children_are_followed_through_fork_and_exec),
        CASE(threads_are_of_their_process),
        CASE(other_processes_are_left_out),
        CASE(children_are_left_alone_without_follow),
        CASE(what_the_kernel_dropped_is_counted),
        CASE(shortened_records_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
