/* The agent in real programs, launched and recorded: figures equal to what the program itself knows, to the
 * byte.
 *
 *     test_agent_live HEAP_SITES HEAP_SITES_STATIC PLUGIN
 *     test_agent_live --run COMMAND [ARGUMENT ...]     records anything and prints the figures */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_recording.h"
#include "heap_sites.h"

static char *dynamic_program, *static_program, *plugin;
static char directory[] = "/tmp/test-agent-XXXXXX";
static char truth_path[128];

static struct heap_sites read_truth(const char *ending)
{
    struct heap_sites truth;
    char path[160];
    snprintf(path, sizeof path, "%s%s", truth_path, ending);
    int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    assert_int_equal(read(file, &truth, sizeof truth), sizeof truth);
    close(file);
    unlink(path);
    assert_int_equal(truth.wrong, 0);
    return truth;
}

static void record(struct agent_recording *recording, char *program, const char *mode, uint32_t flags)
{
    char *const argv[] = {program, truth_path, (char *)(uintptr_t)mode, (char[]){"20000"}, plugin, NULL};
    memset(recording, 0, sizeof *recording);
    recording->request =
        (struct shared_request){.memory = 64 << 20, .flags = flags, .patience_ms = 1000, .parts = UINT32_MAX};
    if (!agent_recording_run(recording, argv))
        print_message("# %s: %s\n", recording->failed, recording->error.text);
    assert_null(recording->failed);
    assert_true(recording->hooks >= 10);
}

static struct agent_recording_figures whole(struct agent_recording *recording, unsigned load, uint32_t region)
{
    struct agent_recording_figures figures;
    assert_true(agent_recording_read(recording, load, region, 0, 0, &figures));
    return figures;
}

/* What is below the sites of the program, and nothing else. */
static void compare(struct agent_recording *recording, unsigned load, uint32_t region,
                    const struct heap_sites *truth)
{
    struct agent_recording_figures figures;
    uint64_t total = 0, count = 0, live = 0, live_count = 0;
    for (unsigned i = 0; i < HEAP_SITES_SITES; i++) {
        total += truth->sites[i].total;
        count += truth->sites[i].count;
        live += truth->sites[i].live;
        live_count += truth->sites[i].live_count;
    }
    assert_true(agent_recording_read(recording, load, region, truth->low, truth->high, &figures));
    assert_int_equal(figures.total, total);
    assert_int_equal(figures.count, count);
    assert_int_equal(figures.live, live);
    assert_int_equal(figures.live_count, live_count);
    assert_int_equal(figures.losses, 0);
    assert_true(total > 100000);
}

/* The whole program's figures: exactly the sites', but for what libc allocates before main and keeps. */
static void compare_whole(struct agent_recording *recording, const struct heap_sites *truth)
{
    struct agent_recording_figures all = whole(recording, 0, 0);
    uint64_t at_peak = 0, total = 0;
    for (unsigned i = 0; i < HEAP_SITES_SITES; i++) {
        at_peak += truth->sites[i].at_peak;
        total += truth->sites[i].total;
    }
    assert_int_equal(at_peak, truth->peak);
    assert_in_range(all.total, total, total + 4096);
    uint64_t kept = all.live - truth->live;
    assert_in_range(kept, 0, all.total - total);
    assert_int_equal(all.peak, truth->peak + kept);
    assert_int_equal(shared_file_process(&recording->loads[0]->file, 0)->peak, truth->peak + kept);
}

static void test_one_thread(void **state)
{
    (void)state;
    char *const programs[] = {dynamic_program, static_program};
    static const char *const modes[] = {"run", "exit", "kill", "handler"};
    for (unsigned i = 0; i < 8; i++) {
        struct agent_recording recording;
        record(&recording, programs[i / 4], modes[i % 4], 0);
        assert_int_equal(recording.status, i % 4 == 2 ? SIGKILL : 0);
        struct heap_sites truth = read_truth("");
        compare(&recording, 0, 0, &truth);
        compare_whole(&recording, &truth);
        int file =
            recording.loads[0]->file.file; /* a program that made it shorter would end whoever reads it */
        assert_int_equal(ftruncate(file, 4096), -1);
        assert_int_equal(errno, EPERM);
        agent_recording_free(&recording);
    }
}

static void test_threads(void **state)
{
    (void)state;
    char *const programs[] = {dynamic_program, static_program};
    for (unsigned i = 0; i < 2; i++) {
        struct agent_recording recording;
        record(&recording, programs[i], "threads", 0);
        assert_int_equal(recording.status, 0);
        struct heap_sites truth = read_truth("");
        compare(&recording, 0, 0, &truth);
        agent_recording_free(&recording);
    }
}

static void test_fork(void **state)
{
    (void)state;
    char *const programs[] = {dynamic_program, static_program};
    for (unsigned i = 0; i < 4; i++) {
        struct agent_recording recording;
        record(&recording, programs[i / 2], "fork", i % 2 ? WIRE_AGENT_FOLLOW : 0);
        assert_int_equal(recording.status, 0);
        struct heap_sites parent = read_truth(""), child = read_truth(".child");
        compare(&recording, 0, 0, &parent);
        struct agent_recording_figures figures;
        assert_int_equal(agent_recording_read(&recording, 0, 1, 0, 0, &figures), i % 2);
        if (i % 2)
            compare(&recording, 0, 1, &child);
        agent_recording_free(&recording);
    }
}

static void test_exec(void **state)
{
    (void)state;
    char *const programs[] = {dynamic_program, static_program};
    for (unsigned i = 0; i < 2; i++) {
        struct agent_recording recording;
        record(&recording, programs[i], "exec", 0);
        assert_int_equal(recording.status, 0);
        assert_int_equal(recording.load_count, 2);
        struct heap_sites before = read_truth(""), after = read_truth(".exec");
        compare(&recording, 0, 0, &before);
        compare(&recording, 1, 0, &after);
        agent_recording_free(&recording);
    }
}

/* What a plugin allocates is seen from its first call on, and its stacks are whole. */
static void test_plugin(void **state)
{
    (void)state;
    struct agent_recording recording;
    record(&recording, dynamic_program, "plugin", 0);
    assert_int_equal(recording.status, 0);
    struct heap_sites truth = read_truth("");
    compare(&recording, 0, 0, &truth);
    struct agent_recording_figures all = whole(&recording, 0, 0);
    uint64_t known = 0;
    for (unsigned i = 0; i < HEAP_SITES_SITES; i++)
        known += truth.sites[i].total;
    /* the plugin's 100 blocks each time; what is beyond is the loader's own */
    assert_in_range(all.total - known, 100 * (1000 + 1001 + 1002), 100 * 3003 + 60000);
    assert_int_equal(all.losses, 0);
    agent_recording_free(&recording);
}

static void test_shapes(void **state)
{
    (void)state;
    char *const programs[] = {dynamic_program, static_program};
    for (unsigned i = 0; i < 2; i++) {
        struct agent_recording recording;
        record(&recording, programs[i], "shapes", 0);
        assert_int_equal(recording.status, 0);
        read_truth("");
        struct agent_recording_figures all = whole(&recording, 0, 0);
        uint64_t known = 1 + 15 + 7 + 18 + 128 + 33 + 100 + 100 + 77 + 22 + 10000, loader = 4096;
        assert_in_range(all.total, known, known + loader);
        assert_in_range(all.live, 0, all.total - known);
        assert_in_range(all.count - all.live_count, 11, 11 + loader);
        agent_recording_free(&recording);
    }
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(truth_path, sizeof truth_path, "%s/truth", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(directory);
}

static int run_command(char **argv)
{
    static struct agent_recording recording;
    struct agent_recording_figures figures;
    recording.request = (struct shared_request){
        .memory = 256 << 20, .flags = WIRE_AGENT_FOLLOW, .patience_ms = 1000, .parts = UINT32_MAX};
    const char *sample = getenv("AGENT_SAMPLE");
    recording.request.sample_bytes = sample != NULL ? strtoull(sample, NULL, 10) : 0;
    bool good = agent_recording_run(&recording, argv);
    fprintf(stderr, "%s %s; user %.3f s, system %.3f s, %u hooks\n", good ? "recorded" : recording.failed,
            recording.error.text,
            (double)recording.usage.ru_utime.tv_sec + (double)recording.usage.ru_utime.tv_usec / 1e6,
            (double)recording.usage.ru_stime.tv_sec + (double)recording.usage.ru_stime.tv_usec / 1e6,
            recording.hooks);
    const struct loader_hook *hooks;
    for (unsigned load = 0; load < recording.load_count; load++) {
        size_t count = loader_hooks(recording.loads[load]->agents[0], &hooks);
        for (size_t i = 0; getenv("AGENT_HOOKS") != NULL && i < count; i++)
            fprintf(stderr, "hook %s of %s: %u %u\n", hooks[i].name, hooks[i].path, hooks[i].state,
                    hooks[i].reason);
    }
    for (unsigned load = 0; load < recording.load_count; load++)
        for (uint32_t region = 0; agent_recording_read(&recording, load, region, 0, 0, &figures); region++) {
            const struct wire_agent_process *process =
                shared_file_process(&recording.loads[load]->file, region);
            fprintf(stderr,
                    "%u.%u: total %lu in %lu, live %lu in %lu, peak %lu (%ld), temporary %lu, %lu nodes, %lu "
                    "cells, %u threads; losses",
                    load, region, figures.total, figures.count, figures.live, figures.live_count,
                    figures.peak, process->peak, figures.temporary, figures.nodes, figures.cells,
                    process->thread_count);
            for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
                fprintf(stderr, " %lu", process->losses[i]);
            fprintf(stderr, "\n");
        }
    agent_recording_free(&recording);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--run") == 0)
        return run_command(argv + 2);
    if (argc < 4)
        return 2;
    dynamic_program = argv[1], static_program = argv[2], plugin = argv[3];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread), cmocka_unit_test(test_threads), cmocka_unit_test(test_fork),
        cmocka_unit_test(test_exec),       cmocka_unit_test(test_plugin),  cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
