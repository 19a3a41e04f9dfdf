/* The agent in real programs: loaded at their first instruction and while they run, given what they load,
 * taken out again.
 *
 *     test_agent PROBE LIBRARY TARGET ...      TARGETs: dynamic ones first; those that end in "static" are
 *                                              static
 *
 * The probe (agent_probe.c) counts calls; the programs (agent_target.c) know how many they made. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_probe.h"
#include "agent_target.h"
#include "loader.h"
#include "loader_ledger.h"
#include "proc_maps.h"
#include "proc_target.h"
#include "trace_child.h"
#include "wire_agent_control.h"
#include "wire_agent_layout.h"
#include "wire_agent_process.h"
#include "wire_agent_thread.h"

enum { MEMORY = 1 << 20, FUNCTIONS = 16, OWN_SIZE = 8192, RECORDS = 2 };

static const char *library;
static char **targets;
static int target_count;
static struct loader_image *probe;

/* A recording, as far as the loader is concerned. */
struct tally {
    struct helper helper;
    struct loader_function functions[FUNCTIONS];
    size_t function_count;
    struct loader_plans *plans;
    struct target_truth *truth;
    int truth_file, go;
    pid_t pid;
    struct loader_agent *agent;
    uint8_t *region;
    uint64_t *words; /* in it, the probe's */
    uint32_t *inside;
    int status;
    bool (*constrain)(void); /* in the program, before it begins; NULL: nothing */
    bool refuses;            /* prepare fails */
    bool large;              /* its tables are, from the beginning */
};

static void must(int result, const struct base_error *error)
{
    if (result < 0)
        print_message("# %s\n", error->text);
    assert_true(result >= 0);
}

static void nap_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

/* The file: a control page, a region, thread records, and memory of the process's own. */
static uint64_t region_size(void)
{
    return 4096 + wire_agent_layout(MEMORY).size + RECORDS * WIRE_AGENT_THREAD_BYTES;
}

enum { PIECES = 4, LARGE = 256 << 20 };

/* Of the region its first page and the nodes are mapped. */
static const struct trace_inject_piece *pieces(void)
{
    static struct trace_inject_piece items[PIECES + 1];
    const struct wire_agent_layout layout = wire_agent_layout(MEMORY);
    items[0] = (struct trace_inject_piece){0, 0, 8192, 0};
    items[1] = (struct trace_inject_piece){4096 + layout.nodes, 4096 + layout.nodes, 4096, 0};
    items[2] = (struct trace_inject_piece){4096 + layout.size, 4096 + layout.size,
                                           RECORDS * WIRE_AGENT_THREAD_BYTES, 0};
    items[3] = (struct trace_inject_piece){4096 + wire_agent_part_offset(&layout, WIRE_AGENT_PART_OWN),
                                           region_size(), OWN_SIZE, 1};
    items[PIECES] = (struct trace_inject_piece){items[3].at + OWN_SIZE, region_size() + OWN_SIZE, LARGE, 0};
    return items;
}

static uint64_t offset_of(const char *symbol)
{
    uint64_t offset = 0;
    assert_true(loader_image_symbol(probe, symbol, &offset));
    return offset;
}

/* --- a recording --- */

static void want(struct tally *tally, const char *name, const char *image, const char *handler,
                 uint64_t cookie)
{
    assert_true(tally->function_count < FUNCTIONS);
    tally->functions[tally->function_count++] = (struct loader_function){
        .request = {.name = name, .image = image}, .handler = offset_of(handler), .cookie = cookie};
}

static struct tally begin_tally(const char *handler)
{
    struct base_error error = {0};
    struct tally tally = {.truth_file = memfd_create("truth", 0)};
    assert_int_equal(ftruncate(tally.truth_file, sizeof *tally.truth), 0);
    tally.truth = mmap(NULL, sizeof *tally.truth, PROT_READ | PROT_WRITE, MAP_SHARED, tally.truth_file, 0);
    assert_ptr_not_equal(tally.truth, MAP_FAILED);
    must(helper_begin(&tally.helper, &error), &error);
    want(&tally, "target_add", NULL, handler, TARGET_ADD);
    want(&tally, "target_alias", NULL, handler, TARGET_ADD);
    want(&tally, "target_mix*", NULL, handler, TARGET_MIXED);
    want(&tally, "target_sum", "*target*", "probe_count", TARGET_SUM); /* has arguments on the stack */
    want(&tally, "target_label", NULL, handler, TARGET_LABEL);
    want(&tally, "target_sleep", NULL, handler, TARGET_SLEEP);
    want(&tally, "fixture_exported", NULL, handler, TARGET_LOADED);
    want(&tally, "a64l", NULL, handler, TARGET_LIBC);
    return tally;
}

static void plan(struct tally *tally)
{
    tally->plans = loader_plans_new(tally->functions, tally->function_count);
    assert_non_null(tally->plans);
}

static void finish_tally(struct tally *tally)
{
    if (tally->region != NULL)
        munmap(tally->region, region_size());
    loader_free(tally->agent);
    loader_plans_free(tally->plans);
    helper_end(&tally->helper);
    munmap(tally->truth, sizeof *tally->truth);
    close(tally->truth_file);
}

/* As the real agent's begins, with so much in it that leaving knows which threads are inside. */
static void fill_region(struct tally *tally, uint8_t *region, pid_t pid)
{
    const struct wire_agent_layout layout = wire_agent_layout(MEMORY);
    struct wire_agent_process *process = (void *)(region + 4096);
    struct wire_agent_thread *thread = (void *)(region + 4096 + layout.size);
    *(struct wire_agent_control *)(void *)region =
        (struct wire_agent_control){.magic = WIRE_AGENT_MAGIC,
                                    .version = WIRE_AGENT_VERSION,
                                    .regions_offset = 4096,
                                    .region_size = layout.size,
                                    .memory = MEMORY,
                                    .region_count = 1,
                                    .next_region = 1,
                                    .tally_pid = (uint32_t)getpid()};
    process->magic = WIRE_AGENT_MAGIC;
    process->pid = (uint32_t)pid;
    process->state = WIRE_AGENT_RUNNING;
    process->thread_count = 1;
    thread->key = 1;
    tally->inside = &thread->inside;
    tally->words = (void *)(region + 4096 + layout.nodes);
}

static int prepare(void *context, struct loader_agent *agent, struct base_error *error)
{
    struct tally *tally = context;
    const uint64_t *before = tally->words;
    if (tally->refuses)
        return base_fail(error, BASE_EFORMAT, "nothing doing");
    uint8_t *region =
        mmap(NULL, region_size(), PROT_READ | PROT_WRITE, MAP_SHARED, loader_region_file(agent), 0);
    assert_ptr_not_equal(region, MAP_FAILED);
    fill_region(tally, region, loader_pid(agent));
    if (tally->region != NULL) { /* of the image before an exec */
        memcpy(tally->words, before, PROBE_WORDS * sizeof *before);
        munmap(tally->region, region_size());
    }
    tally->region = region;
    const uint64_t there = loader_region(agent) - (uint64_t)(uintptr_t)region;
    const uint64_t parameters[3] = {there + (uint64_t)(uintptr_t)tally->words, loader_alive(agent),
                                    there + (uint64_t)(uintptr_t)tally->inside};
    return loader_write(agent, offset_of("agent_parameters") + offsetof(struct probe_parameters, words),
                        parameters, sizeof parameters, error);
}

static struct loader_options options_of(struct tally *tally)
{
    return (struct loader_options){.image = probe,
                                   .plans = tally->plans,
                                   .file_size = region_size() + OWN_SIZE + LARGE,
                                   .span = pieces()[PIECES].at + LARGE,
                                   .pieces = pieces(),
                                   .piece_count = tally->large ? PIECES + 1 : PIECES,
                                   .prepare = prepare,
                                   .context = tally};
}

static int load(struct tally *tally, pid_t pid, bool held, struct base_error *error)
{
    const struct loader_options options = options_of(tally);
    struct loader_agent *fresh = NULL;
    int result = loader_load(&tally->helper, pid, held, &options, &fresh, error);
    if (result == BASE_OK) {
        uint8_t own[OWN_SIZE], zeros[OWN_SIZE] = {0};
        uint64_t at = loader_region(fresh) + pieces()[PIECES - 1].at;
        assert_int_equal(proc_target_read(pid, at, own, sizeof own), sizeof own);
        assert_int_equal(proc_target_read(pid, at + OWN_SIZE, own, 1), 0); /* and nothing behind it */
        assert_memory_equal(own, zeros, sizeof own);
        loader_free(tally->agent);
        tally->agent = fresh;
    }
    return result;
}

static const struct loader_hook *hook_of(const struct tally *tally, const char *name)
{
    const struct loader_hook *hooks;
    size_t count = loader_hooks(tally->agent, &hooks);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(hooks[i].name, name) && hooks[i].state != LOADER_GONE)
            return &hooks[i];
    return NULL;
}

/* --- a program --- */

static void start(struct tally *tally, const char *target, const char *mode, const char *argument,
                  const char *number)
{
    int go[2];
    char file[16];
    snprintf(file, sizeof file, "%d", tally->truth_file);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    memset(tally->truth, 0, sizeof *tally->truth);
    tally->pid = fork();
    if (tally->pid == 0) {
        const char *const argv[] = {
            target, file, mode, argument ? argument : number, argument ? number : NULL, NULL};
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_PTRACER, (unsigned long)tally->helper.pid, 0ul, 0ul, 0ul);
        if (read(go[0], &byte, 1) == 1 && (!tally->constrain || tally->constrain()))
            execv(target, (char *const *)(uintptr_t)argv);
        _exit(99);
    }
    close(go[0]);
    tally->go = go[1];
}

static void let_it_begin(struct tally *tally)
{
    assert_int_equal(write(tally->go, "g", 1), 1);
    close(tally->go);
}

static bool has_ended(struct tally *tally)
{
    return waitpid(tally->pid, &tally->status, WNOHANG) == tally->pid;
}

/* One round of what a recording does all the time. */
static void answer_doorbells(struct tally *tally)
{
    struct base_error error = {0};
    if (tally->words == NULL)
        return;
    uint64_t notified = __atomic_load_n(&tally->words[PROBE_NOTIFIED], __ATOMIC_ACQUIRE);
    uint64_t execs = __atomic_load_n(&tally->words[PROBE_NOTIFIED + 2], __ATOMIC_ACQUIRE);
    if (notified != tally->words[PROBE_ANSWERED]) {
        must(loader_update(tally->agent, &tally->helper, false, true, &error), &error);
        __atomic_store_n(&tally->words[PROBE_ANSWERED], notified, __ATOMIC_RELEASE);
    }
    if (execs != tally->words[PROBE_ANSWERED + 2]) {
        pid_t pid = (pid_t)tally->words[PROBE_PROCESS];
        int result = loader_expect_exec(&tally->helper, pid, &error);
        must(result, &error);
        __atomic_store_n(&tally->words[PROBE_ANSWERED + 2], execs, __ATOMIC_RELEASE);
    }
}

static unsigned handle_events(struct tally *tally)
{
    struct trace_event event;
    struct base_error error = {0};
    struct pollfd socket = {tally->helper.socket, POLLIN, 0};
    unsigned images = 0;
    if (!helper_trace_pending(&tally->helper))
        poll(&socket, 1, 1);
    while (helper_trace_next(&tally->helper, &event, &error) > 0)
        if (loader_take_event(&tally->helper, &event)) {
            int result = load(tally, event.pid, true, &error);
            loader_unfollow(&tally->helper, event.pid);
            must(result, &error);
            images++;
        }
    return images;
}

/* From before the first instruction to the end. */
static void record(struct tally *tally, const char *target, const char *mode, const char *argument,
                   const char *number)
{
    struct base_error error = {0};
    unsigned images = 0;
    start(tally, target, mode, argument, number);
    must(loader_expect_exec(&tally->helper, tally->pid, &error), &error);
    let_it_begin(tally);
    for (int i = 0; i < 60000 && !has_ended(tally); i++) {
        images += handle_events(tally);
        answer_doorbells(tally);
    }
    assert_true(images >= 1);
    assert_int_equal(tally->status, 0);
    assert_int_equal(tally->truth->wrong, 0);
    assert_int_equal(tally->words[PROBE_WRONG], 0);
}

static void check_counts(const struct tally *tally, unsigned from, unsigned to)
{
    for (unsigned i = from; i <= to; i++) {
        if (tally->words[i] != tally->truth->calls[i])
            print_message("# function %u: %llu counted, %llu made\n", i, (unsigned long long)tally->words[i],
                          (unsigned long long)tally->truth->calls[i]);
        assert_int_equal(tally->words[i], tally->truth->calls[i]);
    }
}

static void want_bells(struct tally *tally)
{
    want(tally, "_dl_debug_state", "*/ld*", "probe_notify", 0);
    want(tally, "execve", NULL, "probe_exec", 0);
}

/* --- tests --- */

static void test_every_program_counts_from_its_start(void **state)
{
    (void)state;
    static const char *const handlers[] = {"probe_count", "probe_wrap"};
    for (int i = 0; i < target_count; i++)
        for (int j = 0; j < 2; j++) {
            struct tally tally = begin_tally(handlers[j]);
            want_bells(&tally);
            plan(&tally);
            record(&tally, targets[i], "run", NULL, "2000");
            assert_int_equal(tally.truth->calls[TARGET_ADD], 4000);
            check_counts(&tally, TARGET_ADD, TARGET_LABEL);
            check_counts(&tally, TARGET_LIBC, TARGET_LIBC);
            assert_int_equal(*tally.inside, 0);
            assert_int_equal(hook_of(&tally, "target_add")->reason, STUB_FINE);
            finish_tally(&tally);
        }
}

static void test_forks_count_and_know_that_they_are_forks(void **state)
{
    (void)state;
    for (int i = 0; i < target_count; i++) {
        struct tally tally = begin_tally("probe_count");
        want_bells(&tally);
        plan(&tally);
        record(&tally, targets[i], "fork", NULL, "500");
        assert_int_equal(tally.truth->calls[TARGET_ADD], 3000);
        check_counts(&tally, TARGET_ADD, TARGET_LABEL);
        check_counts(&tally, TARGET_LIBC, TARGET_LIBC);
        assert_int_equal(tally.words[PROBE_CHILD], 500 * 7);
        finish_tally(&tally);
    }
}

static void test_execs_are_handed_over(void **state)
{
    (void)state;
    static const char *const modes[] = {"exec", "spawn"};
    for (int i = 0; i < 2 * target_count; i++) {
        struct tally tally = begin_tally("probe_count");
        want_bells(&tally);
        plan(&tally);
        record(&tally, targets[i / 2], modes[i % 2], NULL, "300");
        assert_int_equal(tally.truth->calls[TARGET_ADD], 600);
        check_counts(&tally, TARGET_ADD, TARGET_LABEL);
        check_counts(&tally, TARGET_LIBC, TARGET_LIBC);
        finish_tally(&tally);
    }
}

static void test_libraries_that_come_and_go_count(void **state)
{
    (void)state;
    struct tally tally = begin_tally("probe_wrap");
    want_bells(&tally);
    plan(&tally);
    record(&tally, targets[0], "load", library, "20");
    assert_int_equal(tally.truth->calls[TARGET_LOADED], 200);
    check_counts(&tally, TARGET_LOADED, TARGET_LOADED);
    finish_tally(&tally);
}

/* --- into running programs, and out of them --- */

static void wait_for(const atomic_uint *word)
{
    for (int i = 0; i < 10000 && !atomic_load(word); i++)
        nap_us(1000);
    assert_true(atomic_load(word));
}

static unsigned ours_in(pid_t pid, unsigned *all)
{
    struct proc_maps maps = {0};
    struct base_error error = {0};
    unsigned count = 0;
    must(proc_maps_read(pid, &maps, &error), &error);
    for (size_t i = 0; i < maps.count; i++)
        count += !strcmp(maps.items[i].path, LOADER_PATH);
    if (all != NULL)
        *all = (unsigned)maps.count;
    proc_maps_free(&maps);
    return count;
}

static void end(struct tally *tally)
{
    atomic_store(&tally->truth->stop, 1);
    assert_int_equal(waitpid(tally->pid, &tally->status, 0), tally->pid);
    assert_int_equal(tally->status, 0);
    assert_int_equal(tally->truth->wrong, 0);
}

static void begin_loop(struct tally *tally, const char *target, const char *mode, const char *number)
{
    start(tally, target, mode, NULL, number);
    let_it_begin(tally);
    wait_for(&tally->truth->ready);
}

static uint64_t sum(const uint64_t *words)
{
    uint64_t total = 0;
    for (int i = 0; i < TARGET_COUNT; i++)
        total += words[i];
    return total;
}

static void wait_for_more(const struct tally *tally)
{
    uint64_t before = sum(tally->words);
    for (int i = 0; i < 5000 && sum(tally->words) < before + 100; i++)
        nap_us(1000);
    assert_true(sum(tally->words) >= before + 100);
}

static void must_leave(struct tally *tally, pid_t pid, struct loader_left *left)
{
    struct base_error error = {0};
    must(loader_leave(&tally->helper, pid, false, left, &error), &error);
}

static void test_a_running_program_is_entered_and_left_many_times(void **state)
{
    (void)state;
    for (int i = 0; i < target_count; i++) {
        struct base_error error = {0};
        struct tally tally = begin_tally(i % 2 ? "probe_count" : "probe_wrap");
        unsigned before, after, descriptors;
        plan(&tally);
        begin_loop(&tally, targets[i], "loop", "6");
        nap_us(10000);
        ours_in(tally.pid, &before);
        descriptors = trace_child_descriptors(tally.pid);
        for (int round = 0; round < 8; round++) {
            struct loader_left left;
            must(load(&tally, tally.pid, false, &error), &error);
            assert_true(trace_child_is_free(tally.pid));
            assert_int_equal(trace_child_descriptors(tally.pid), descriptors);
            assert_true(ours_in(tally.pid, NULL) >= 3);
            wait_for_more(&tally);
            must_leave(&tally, tally.pid, &left);
            assert_true(left.places >= 6);
            assert_int_equal(left.skipped, 0);
            assert_int_equal(left.bytes_left, 0);
            assert_int_equal(ours_in(tally.pid, &after), 0);
            assert_int_equal(tally.words[PROBE_WRONG], 0);
        }
        assert_int_equal(after, before);
        end(&tally);
        finish_tally(&tally);
    }
}

static bool refuses_to_apply;

int __real_helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error);
int __wrap_helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error);

int __wrap_helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error)
{
    return refuses_to_apply ? base_fail(error, BASE_EIO, "not now")
                            : __real_helper_trace_apply(helper, pid, error);
}

/* A thread that gets no processor cannot stop, and does not leave what it stands in. */
static int load_at_last(struct tally *tally, struct base_error *error)
{
    int result = BASE_EBUSY;
    for (int i = 0; i < 50 && result == BASE_EBUSY; i++) {
        base_error_clear(error);
        result = load(tally, tally->pid, false, error);
    }
    return result;
}

/* Threads have been moved by then, some of them, into what was mapped for the hooks: one in some 1,500
 * times, so that 5,000 are not always enough. */
static void test_a_failed_load_does_no_harm(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct tally tally = begin_tally("probe_count");
    struct loader_left left;
    unsigned kept = 0;
    plan(&tally);
    begin_loop(&tally, targets[0], "loop", "8");
    refuses_to_apply = true;
    for (int i = 0; i < 20000 && kept < 2; i++) {
        int result = load_at_last(&tally, &error);
        assert_false(has_ended(&tally));
        assert_int_equal(result, BASE_EIO);
        kept += ours_in(tally.pid, NULL) > 0;
    }
    refuses_to_apply = false;
    must(load_at_last(&tally, &error), &error);
    wait_for_more(&tally);
    must_leave(&tally, tally.pid, &left);
    assert_int_equal(left.bytes_left, 0);
    assert_int_equal(ours_in(tally.pid, NULL), 0);
    end(&tally);
    assert_true(kept > 0);
    finish_tally(&tally);
}

static void test_a_child_is_left_by_itself(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct tally tally = begin_tally("probe_count");
    struct loader_left left;
    struct loader_agent *child_agent;
    char path[64], text[32] = "";
    want_bells(&tally);
    plan(&tally);
    start(&tally, targets[0], "twice", NULL, "2");
    must(loader_expect_exec(&tally.helper, tally.pid, &error), &error);
    let_it_begin(&tally);
    for (int i = 0; i < 5000 && !atomic_load(&tally.truth->ready); i++) {
        handle_events(&tally);
        answer_doorbells(&tally);
    }
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", tally.pid, tally.pid);
    int file = open(path, O_RDONLY);
    assert_true(read(file, text, sizeof text - 1) > 0);
    close(file);
    pid_t child = (pid_t)strtol(text, NULL, 10);
    must(loader_adopt(tally.agent, child, &child_agent, &error), &error);
    assert_int_equal(loader_update(child_agent, &tally.helper, false, false, &error), 0);
    loader_free(child_agent);
    struct wire_agent_process *shown = (void *)(tally.region + 4096);
    shown->pid = (uint32_t)child; /* as if it had a region of its own */
    must_leave(&tally, child, &left);
    assert_int_equal(shown->state, WIRE_AGENT_LEFT);
    shown->pid = (uint32_t)tally.pid;
    shown->state = WIRE_AGENT_RUNNING;
    assert_true(left.places >= 7);
    assert_int_equal(left.bytes_left, 0);
    assert_int_equal(ours_in(child, NULL), 0);
    wait_for_more(&tally);
    must_leave(&tally, tally.pid, &left);
    assert_int_equal(left.bytes_left, 0);
    end(&tally);
    finish_tally(&tally);
}

static void test_who_sleeps_inside_is_waited_for(void **state)
{
    (void)state;
    static const char *const lengths[] = {"150", "3000"};
    for (int i = 0; i < 2; i++) {
        struct base_error error = {0};
        struct loader_left left;
        struct tally tally = begin_tally("probe_wrap");
        plan(&tally);
        begin_loop(&tally, targets[i], "sleep", lengths[i]);
        must(load(&tally, tally.pid, false, &error), &error);
        for (int j = 0; j < 5000 && __atomic_load_n(tally.inside, __ATOMIC_ACQUIRE) == 0; j++)
            nap_us(1000);
        assert_int_equal(*tally.inside, 1);
        must_leave(&tally, tally.pid, &left);
        assert_true(left.places >= 6);
        assert_int_equal(left.bytes_left != 0, i == 1); /* the long sleep: it stays, inert */
        for (int j = 0; j < 5000 && __atomic_load_n(tally.inside, __ATOMIC_ACQUIRE) != 0; j++)
            nap_us(1000);
        nap_us(20000);
        must_leave(&tally, tally.pid, &left);
        assert_int_equal(left.places, 0);
        assert_int_equal(left.mappings != 0, i == 1);
        assert_int_equal(left.bytes_left, 0);
        assert_int_equal(ours_in(tally.pid, NULL), 0);
        end(&tally);
        finish_tally(&tally);
    }
}

/* --- text that others change --- */

enum meanwhile { TEXT_IS_READ, TEXT_IS_WRITTEN, TEXT_IS_RUN, DATA_CAME, MEANWHILES };

struct changed {
    struct tally *tally;
    enum meanwhile how;
    uint64_t page;
};

static int change_mapping(void *context, struct loader_agent *agent, struct base_error *error)
{
    static const uint64_t protections[] = {PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC};
    const struct changed *changed = context;
    uint64_t file = (uint64_t)changed->tally->truth_file;
    struct helper_trace_call map = {
        SYS_mmap, {changed->page, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0}, 0, "mmap"};
    struct helper_trace_call protect = {SYS_mprotect, {changed->page, 4096, 0}, 0, "mprotect"};
    bool maps = changed->how == DATA_CAME;
    protect.arguments[2] = protections[maps ? 0 : changed->how];
    struct helper_trace_call *call = maps ? &map : &protect;
    int result = loader_call(agent, call, 1, error);
    assert_int_equal(call->answer, maps ? (int64_t)changed->page : 0);
    return result;
}

/* The program sleeps all the while: of its own text nothing runs. Its file is read-only, and no data of it
 * is there. */
static void test_what_others_made_of_a_hook_keeps_our_memory(void **state)
{
    (void)state;
    for (int how = 0; how < MEANWHILES; how++) {
        struct base_error error = {0};
        struct loader_left left;
        struct trace_memory memory;
        uint8_t byte;
        struct tally tally = begin_tally("probe_wrap");
        plan(&tally);
        begin_loop(&tally, targets[0], "sleep", "3600000");
        must(load(&tally, tally.pid, false, &error), &error);
        uint64_t address = hook_of(&tally, "target_label")->address;
        struct changed changed = {&tally, (enum meanwhile)how, address & ~UINT64_C(4095)};
        must(loader_visit(tally.agent, &tally.helper, false, change_mapping, &changed, &error), &error);
        must(trace_memory_open(&memory, tally.pid, &error), &error);
        must(trace_memory_read(&memory, address + 1, &byte, 1, &error), &error);
        byte ^= 0x55; /* where our jump leads */
        must(trace_memory_write(&memory, address + 1, &byte, 1, &error), &error);
        trace_memory_close(&memory);
        must_leave(&tally, tally.pid, &left);
        assert_int_equal(left.skipped, how != DATA_CAME);
        assert_int_equal(kill(tally.pid, SIGKILL), 0);
        assert_int_equal(waitpid(tally.pid, &tally.status, 0), tally.pid);
        finish_tally(&tally);
    }
}

static void change_text(const struct tally *tally, uint64_t address, uint8_t *bytes, size_t size, bool writes)
{
    struct base_error error = {0};
    struct trace_memory memory;
    must(trace_memory_open(&memory, tally->pid, &error), &error);
    must(writes ? trace_memory_write(&memory, address, bytes, size, &error)
                : trace_memory_read(&memory, address, bytes, size, &error),
         &error);
    trace_memory_close(&memory);
}

/* Behind a breakpoint the bytes are the file's again, and of other functions none change; a hook that must
 * stay, stays. */
static void test_hooks_make_way_for_breakpoints(void **state)
{
    (void)state;
    for (int stays = 0; stays < 2; stays++) {
        struct base_error error = {0};
        struct loader_left left;
        uint8_t before[5], hooked[5], live[5], breakpoint = 0xcc;
        struct tally tally = begin_tally("probe_wrap");
        for (size_t i = 0; i < tally.function_count; i++)
            tally.functions[i].stays = stays;
        plan(&tally);
        begin_loop(&tally, targets[0], "sleep", "3600000");
        must(load(&tally, tally.pid, false, &error), &error);
        const struct loader_hook *hook = hook_of(&tally, "target_label");
        must_leave(&tally, tally.pid, &left);
        change_text(&tally, hook->address, before, sizeof before, false);
        must(load(&tally, tally.pid, false, &error), &error);
        hook = hook_of(&tally, "target_label");
        change_text(&tally, hook->address, hooked, sizeof hooked, false);
        assert_int_equal(hooked[0], 0xe9);
        assert_false(loader_is_probed(tally.agent));
        assert_int_equal(loader_lift(tally.agent, &tally.helper, false, &error), 0);
        change_text(&tally, hook->address, &breakpoint, 1, true);
        assert_int_equal(loader_is_probed(tally.agent), !stays);
        assert_int_equal(loader_lift(tally.agent, &tally.helper, false, &error), !stays);
        change_text(&tally, hook->address, live, sizeof live, false);
        assert_int_equal(live[0], 0xcc);
        assert_memory_equal(live + 1, stays ? hooked + 1 : before + 1, sizeof live - 1);
        assert_int_equal(hook->state, stays ? LOADER_HOOKED : LOADER_LIFTED);
        assert_int_equal(hook_of(&tally, "target_sum")->state, LOADER_HOOKED);
        assert_false(loader_is_probed(tally.agent) && !stays);
        change_text(&tally, hook->address, before, 1, true); /* as the kernel does */
        must_leave(&tally, tally.pid, &left);
        assert_int_equal(left.skipped, 0);
        change_text(&tally, hook->address, live, sizeof live, false);
        assert_memory_equal(live, before, sizeof live);
        assert_int_equal(kill(tally.pid, SIGKILL), 0);
        assert_int_equal(waitpid(tally.pid, &tally.status, 0), tally.pid);
        finish_tally(&tally);
    }
}

/* --- a tally that is killed --- */

/* In another process; `rounds` is shared. */
static _Noreturn void load_and_leave_for_ever(struct tally *tally, atomic_uint *rounds)
{
    struct base_error error = {0};
    struct loader_left left;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    must(helper_begin(&tally->helper, &error), &error);
    for (;;) {
        struct loader_agent *agent = NULL;
        const struct loader_options options = options_of(tally);
        loader_load(&tally->helper, tally->pid, false, &options, &agent, NULL);
        loader_free(agent);
        loader_leave(&tally->helper, tally->pid, false, &left, NULL);
        atomic_fetch_add(rounds, 1);
    }
}

static long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Some time after its first round, at any point of a round. */
static void kill_somewhere(pid_t other, const atomic_uint *rounds)
{
    long began = now_us();
    while (atomic_load(rounds) == 0 && now_us() < began + 20000000)
        nap_us(200);
    assert_true(atomic_load(rounds) > 0);
    nap_us(rand() % (now_us() - began + 1));
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

static void test_tally_may_die_at_any_moment(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct tally tally = begin_tally("probe_count");
    struct loader_left left;
    unsigned found = 0;
    atomic_uint *rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    plan(&tally);
    begin_loop(&tally, targets[0], "loop", "3");
    must(load(&tally, tally.pid, false, &error), &error); /* so that all is planned */
    must_leave(&tally, tally.pid, &left);
    srand(7);
    for (int i = 0; i < 30; i++) {
        atomic_store(rounds, 0);
        pid_t other = fork();
        if (other == 0)
            load_and_leave_for_ever(&tally, rounds);
        kill_somewhere(other, rounds);
        assert_true(trace_child_is_free(tally.pid));
        must_leave(&tally, tally.pid, &left);
        found += left.mappings != 0;
        assert_int_equal(left.bytes_left, 0);
        assert_int_equal(ours_in(tally.pid, NULL), 0);
    }
    print_message("# left behind, and removed: %u of 30\n", found);
    assert_true(found > 0);
    munmap(rounds, 4096);
    end(&tally);
    finish_tally(&tally);
}

/* --- refusals: a message, and a program as it was --- */

static void begin_constrained(struct tally *tally, const char *target, bool (*constrain)(void))
{
    *tally = begin_tally("probe_count");
    tally->constrain = constrain;
    plan(tally);
    begin_loop(tally, target, "loop", "2");
}

static void must_be_refused(struct tally *tally, int code, const char *words)
{
    struct base_error error = {0};
    unsigned before, after;
    nap_us(30000); /* what it maps itself at its start */
    ours_in(tally->pid, &before);
    int result = load(tally, tally->pid, false, &error);
    if (result != code || !strstr(error.text, words))
        print_message("# %d: %s\n", result, error.text);
    assert_int_equal(result, code);
    assert_non_null(strstr(error.text, words));
    ours_in(tally->pid, &after);
    assert_int_equal(after, before);
    assert_true(trace_child_is_free(tally->pid));
}

static bool forbid(unsigned call, uint32_t answer, unsigned argument, uint32_t bits)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * argument)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static bool without_memory_files(void)
{
    return forbid(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS, 1, ~0u);
}

static bool without_new_code(void)
{
    return forbid(SYS_mmap, SECCOMP_RET_ERRNO | EPERM, 2, PROT_EXEC);
}

static bool with_little_space(void)
{
    return !setrlimit(RLIMIT_AS, &(struct rlimit){128 << 20, 128 << 20});
}

static bool with_no_writable_code(void)
{
    prctl(65 /* PR_SET_MDWE, Linux 6.3; elsewhere a program like any other */, 1, 0, 0, 0);
    return true;
}

static const char *static_target(void)
{
    for (int i = 0; i < target_count; i++)
        if (strlen(targets[i]) > 7 && !strcmp(targets[i] + strlen(targets[i]) - 7, "_static"))
            return targets[i];
    return targets[0];
}

static void test_what_a_program_forbids_is_said(void **state)
{
    (void)state;
    struct tally tally;
    begin_constrained(&tally, targets[0], without_memory_files);
    must_be_refused(&tally, BASE_EPERMISSION, "memfd_create");
    end(&tally);
    finish_tally(&tally);
    begin_constrained(&tally, static_target(), without_new_code);
    must_be_refused(&tally, BASE_EUNSUPPORTED, "may not execute new memory");
    end(&tally);
    finish_tally(&tally);
    begin_constrained(&tally, static_target(), with_little_space);
    tally.large = true;
    must_be_refused(&tally, BASE_ENOMEM, "ulimit -v");
    end(&tally);
    finish_tally(&tally);
}

static void test_forbidding_writable_code_is_no_hindrance(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct loader_left left;
    struct tally tally;
    begin_constrained(&tally, targets[0], with_no_writable_code);
    must(load(&tally, tally.pid, false, &error), &error);
    wait_for_more(&tally);
    must_leave(&tally, tally.pid, &left);
    assert_int_equal(left.bytes_left, 0);
    end(&tally);
    finish_tally(&tally);
}

/* Addresses that tables may need later are not mapped. */
static void test_a_limit_of_addresses_is_no_hindrance(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct loader_left left;
    struct tally tally;
    begin_constrained(&tally, static_target(), with_little_space);
    must(load(&tally, tally.pid, false, &error), &error);
    wait_for_more(&tally);
    must_leave(&tally, tally.pid, &left);
    assert_int_equal(left.bytes_left, 0);
    assert_int_equal(ours_in(tally.pid, NULL), 0);
    end(&tally);
    finish_tally(&tally);
}

static void test_others_who_are_there_are_named(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct loader_left left;
    struct tally tally;
    begin_constrained(&tally, targets[0], NULL);
    assert_int_equal(ptrace(PTRACE_SEIZE, tally.pid, 0, 0), 0);
    assert_int_equal(load(&tally, tally.pid, false, &error), BASE_EBUSY);
    assert_int_equal(ptrace(PTRACE_INTERRUPT, tally.pid, 0, 0), 0);
    assert_int_equal(waitpid(tally.pid, &tally.status, __WALL), tally.pid);
    assert_int_equal(ptrace(PTRACE_DETACH, tally.pid, 0, 0), 0);
    base_error_clear(&error);
    tally.refuses = true;
    must_be_refused(&tally, BASE_EFORMAT, "nothing doing");
    tally.refuses = false;
    must(load(&tally, tally.pid, false, &error), &error);
    must_be_refused(&tally, BASE_EBUSY, "is being recorded by tally");
    wait_for_more(&tally);
    ((struct wire_agent_control *)(void *)tally.region)->tally_pid =
        0; /* as if no tally had loaded it: it is removed */
    must(load(&tally, tally.pid, false, &error), &error);
    wait_for_more(&tally);
    must_leave(&tally, tally.pid, &left);
    assert_true(left.mappings > 0);
    assert_int_equal(left.bytes_left, 0);
    must_leave(&tally, tally.pid, &left); /* nothing is there, nothing happens */
    assert_int_equal(left.mappings + left.places, 0);
    end(&tally);
    assert_int_equal(load(&tally, tally.pid, false, NULL), BASE_ENOTFOUND);
    finish_tally(&tally);
}

/* --- a process whose memory says something wrong --- */

static uint8_t *lie(uint64_t magic)
{
    int file = memfd_create(LOADER_NAME, MFD_CLOEXEC);
    if (ftruncate(file, 65536))
        return NULL;
    uint64_t *words = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (int i = 0; i < 65536 / 8; i++)
        words[i] = (uint64_t)rand() << 33 ^ (uint64_t)rand() << 12 ^ (uint64_t)rand();
    words[0] = magic;
    words[1] = LOADER_VERSION | 0xffffff00ull << 32;
    uint8_t *there = mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    struct loader_home *home = (void *)words;
    if (magic == LOADER_HOME) {
        home->version = LOADER_VERSION;
        home->count = 3;
        home->ranges[0] = (struct loader_own_range){(uint64_t)(uintptr_t)there, 4096, 1, 0};
        home->ranges[1] = (struct loader_own_range){0x10000, ~0ull << 12, 0, 0};
        home->ranges[2] = (struct loader_own_range){(uint64_t)(uintptr_t)words, ~0ull, 0, 0};
    }
    close(file);
    munmap(words, 65536);
    return there;
}

static int run_liar(struct trace_child_shared *shared)
{
    volatile uint64_t kept[512];
    srand((unsigned)getpid());
    for (int i = 0; i < 3; i++)
        if (!lie(LOADER_SLAB) || !lie(LOADER_HOME) || !lie((uint64_t)rand()))
            return 3;
    for (unsigned i = 0; i < 512; i++)
        kept[i] = i;
    trace_child_ready(shared);
    while (!atomic_load(&shared->stop))
        nap_us(1000);
    for (unsigned i = 0; i < 512; i++)
        if (kept[i] != i)
            trace_child_wrong(shared, "memory", (long)i);
    return 0;
}

static void test_wrong_memory_does_no_harm(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct helper helper;
    must(helper_begin(&helper, &error), &error);
    for (int i = 0; i < 5; i++) {
        struct loader_left left;
        struct trace_child child = trace_child_start(run_liar, 0);
        must(loader_leave(&helper, child.pid, false, &left, &error), &error);
        assert_true(left.mappings >= 9);
        assert_int_equal(left.places, 0);
        assert_int_equal(trace_child_finish(&child), 0);
    }
    helper_end(&helper);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_program_counts_from_its_start),
        cmocka_unit_test(test_forks_count_and_know_that_they_are_forks),
        cmocka_unit_test(test_execs_are_handed_over),
        cmocka_unit_test(test_libraries_that_come_and_go_count),
        cmocka_unit_test(test_a_running_program_is_entered_and_left_many_times),
        cmocka_unit_test(test_a_failed_load_does_no_harm),
        cmocka_unit_test(test_a_child_is_left_by_itself),
        cmocka_unit_test(test_who_sleeps_inside_is_waited_for),
        cmocka_unit_test(test_what_others_made_of_a_hook_keeps_our_memory),
        cmocka_unit_test(test_hooks_make_way_for_breakpoints),
        cmocka_unit_test(test_tally_may_die_at_any_moment),
        cmocka_unit_test(test_what_a_program_forbids_is_said),
        cmocka_unit_test(test_forbidding_writable_code_is_no_hindrance),
        cmocka_unit_test(test_a_limit_of_addresses_is_no_hindrance),
        cmocka_unit_test(test_others_who_are_there_are_named),
        cmocka_unit_test(test_wrong_memory_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static bool open_probe(const char *path)
{
    struct base_error error = {0};
    static uint8_t bytes[1 << 20];
    int file = open(path, O_RDONLY);
    ssize_t size = file < 0 ? -1 : read(file, bytes, sizeof bytes);
    close(file);
    if (size > 0 && loader_image_open(bytes, (size_t)size, &probe, &error) == BASE_OK)
        return true;
    fprintf(stderr, "%s: %s\n", path, error.text);
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 4 || !open_probe(argv[1]))
        return 2;
    library = argv[2];
    targets = argv + 3;
    target_count = argc - 3;
    int result = run_all();
    loader_image_close(probe);
    return result;
}
