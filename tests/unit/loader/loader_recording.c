#include "loader_recording.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "agent_probe.h"
#include "proc_maps.h"
#include "proc_target.h"
#include "trace_child.h"
#include "wire_agent_control.h"
#include "wire_agent_layout.h"
#include "wire_agent_process.h"
#include "wire_agent_thread.h"

const char *loader_test_library;
char **loader_test_targets;
int loader_test_target_count;
struct loader_image *loader_test_probe;

void loader_test_must(int result, const struct base_error *error)
{
    if (result < 0)
        print_message("# %s\n", error->text);
    assert_true(result >= 0);
}

void loader_test_nap_us(long us)
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
    assert_true(loader_image_symbol(loader_test_probe, symbol, &offset));
    return offset;
}

void loader_test_want(struct tally *tally, const char *name, const char *image, const char *handler,
                      uint64_t cookie)
{
    assert_true(tally->function_count < FUNCTIONS);
    tally->functions[tally->function_count++] = (struct loader_function){
        .request = {.name = name, .image = image}, .handler = offset_of(handler), .cookie = cookie};
}

struct tally loader_test_begin_tally(const char *handler)
{
    struct base_error error = {0};
    struct tally tally = {.truth_file = memfd_create("truth", 0)};
    assert_int_equal(ftruncate(tally.truth_file, sizeof *tally.truth), 0);
    tally.truth = mmap(NULL, sizeof *tally.truth, PROT_READ | PROT_WRITE, MAP_SHARED, tally.truth_file, 0);
    assert_ptr_not_equal(tally.truth, MAP_FAILED);
    loader_test_must(helper_begin(&tally.helper, &error), &error);
    loader_test_want(&tally, "target_add", NULL, handler, TARGET_ADD);
    loader_test_want(&tally, "target_alias", NULL, handler, TARGET_ADD);
    loader_test_want(&tally, "target_mix*", NULL, handler, TARGET_MIXED);
    loader_test_want(&tally, "target_sum", "*target*", "probe_count",
                     TARGET_SUM); /* has arguments on the stack */
    loader_test_want(&tally, "target_label", NULL, handler, TARGET_LABEL);
    loader_test_want(&tally, "target_sleep", NULL, handler, TARGET_SLEEP);
    loader_test_want(&tally, "fixture_exported", NULL, handler, TARGET_LOADED);
    loader_test_want(&tally, "a64l", NULL, handler, TARGET_LIBC);
    return tally;
}

void loader_test_plan(struct tally *tally)
{
    tally->plans = loader_plans_new(tally->functions, tally->function_count);
    assert_non_null(tally->plans);
}

void loader_test_finish_tally(struct tally *tally)
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

struct loader_options loader_test_options_of(struct tally *tally)
{
    return (struct loader_options){.image = loader_test_probe,
                                   .plans = tally->plans,
                                   .file_size = region_size() + OWN_SIZE + LARGE,
                                   .span = pieces()[PIECES].at + LARGE,
                                   .pieces = pieces(),
                                   .piece_count = tally->large ? PIECES + 1 : PIECES,
                                   .prepare = prepare,
                                   .context = tally};
}

int loader_test_load(struct tally *tally, pid_t pid, bool held, struct base_error *error)
{
    const struct loader_options options = loader_test_options_of(tally);
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

const struct loader_hook *loader_test_hook_of(const struct tally *tally, const char *name)
{
    const struct loader_hook *hooks;
    size_t count = loader_hooks(tally->agent, &hooks);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(hooks[i].name, name) && hooks[i].state != LOADER_GONE)
            return &hooks[i];
    return NULL;
}

void loader_test_start(struct tally *tally, const char *target, const char *mode, const char *argument,
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

void loader_test_let_it_begin(struct tally *tally)
{
    assert_int_equal(write(tally->go, "g", 1), 1);
    close(tally->go);
}

static void wait_for(const atomic_uint *word)
{
    for (int i = 0; i < 10000 && !atomic_load(word); i++)
        loader_test_nap_us(1000);
    assert_true(atomic_load(word));
}

unsigned loader_test_ours_in(pid_t pid, unsigned *all)
{
    struct proc_maps maps = {0};
    struct base_error error = {0};
    unsigned count = 0;
    loader_test_must(proc_maps_read(pid, &maps, &error), &error);
    for (size_t i = 0; i < maps.count; i++)
        count += !strcmp(maps.items[i].path, LOADER_PATH);
    if (all != NULL)
        *all = (unsigned)maps.count;
    proc_maps_free(&maps);
    return count;
}

void loader_test_end(struct tally *tally)
{
    atomic_store(&tally->truth->stop, 1);
    assert_int_equal(waitpid(tally->pid, &tally->status, 0), tally->pid);
    assert_int_equal(tally->status, 0);
    assert_int_equal(tally->truth->wrong, 0);
}

void loader_test_begin_loop(struct tally *tally, const char *target, const char *mode, const char *number)
{
    loader_test_start(tally, target, mode, NULL, number);
    loader_test_let_it_begin(tally);
    wait_for(&tally->truth->ready);
}

static uint64_t sum(const uint64_t *words)
{
    uint64_t total = 0;
    for (int i = 0; i < TARGET_COUNT; i++)
        total += words[i];
    return total;
}

void loader_test_wait_for_more(const struct tally *tally)
{
    uint64_t before = sum(tally->words);
    for (int i = 0; i < 5000 && sum(tally->words) < before + 100; i++)
        loader_test_nap_us(1000);
    assert_true(sum(tally->words) >= before + 100);
}

void loader_test_must_leave(struct tally *tally, pid_t pid, struct loader_left *left)
{
    struct base_error error = {0};
    loader_test_must(loader_leave(&tally->helper, pid, false, left, &error), &error);
}

bool loader_test_open_probe(const char *path)
{
    struct base_error error = {0};
    static uint8_t bytes[1 << 20];
    int file = open(path, O_RDONLY);
    ssize_t size = file < 0 ? -1 : read(file, bytes, sizeof bytes);
    close(file);
    if (size > 0 && loader_image_open(bytes, (size_t)size, &loader_test_probe, &error) == BASE_OK)
        return true;
    fprintf(stderr, "%s: %s\n", path, error.text);
    return false;
}
