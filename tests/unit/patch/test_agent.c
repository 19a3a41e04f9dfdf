/* The agent in real programs: loaded at their first instruction and while they run, given what they load, taken out again.
 *
 *     test_agent PROBE LIBRARY TARGET ...      TARGETs: dynamic ones first; those that end in "static" are static
 *
 * The probe (agent_probe.c) counts calls; the programs (agent_target.c) know how many they made. */
#include <errno.h>
#include <fcntl.h>
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
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_probe.h"
#include "agent_target.h"
#include "elf_maps.h"
#include "patch_agent.h"
#include "patch_agent_ledger.h"
#include "patch_child.h"

enum { REGION = 1 << 20, FUNCTIONS = 16 };

static const char *library;
static char **targets;
static int target_count;
static struct patch_agent_image *probe;

/* A recording, as far as the loader is concerned. */
struct tally {
    struct patch_helper helper;
    struct patch_agent_function functions[FUNCTIONS];
    size_t function_count;
    struct patch_agent_plans *plans;
    struct target_truth *truth;
    int truth_file, go;
    pid_t pid;
    struct patch_agent *agent;
    uint64_t *words; /* of the region */
    uint64_t seen;   /* rings answered */
    int status;
};

static void must(int result, const struct base_error *error)
{
    if (result < 0)
        print_message("# %s\n", error->text);
    assert_true(result >= 0);
}

static uint64_t offset_of(const char *symbol)
{
    uint64_t offset = 0;
    assert_true(patch_agent_image_symbol(probe, symbol, &offset));
    return offset;
}

/* --- a recording --- */

static void want(struct tally *tally, const char *name, const char *image, const char *handler,
                 uint64_t cookie)
{
    assert_true(tally->function_count < FUNCTIONS);
    tally->functions[tally->function_count++] =
        (struct patch_agent_function){{name, image}, offset_of(handler), cookie};
}

static struct tally begin(const char *handler)
{
    struct base_error error = {0};
    struct tally tally = {.truth_file = memfd_create("truth", 0)};
    assert_int_equal(ftruncate(tally.truth_file, sizeof *tally.truth), 0);
    tally.truth = mmap(NULL, sizeof *tally.truth, PROT_READ | PROT_WRITE, MAP_SHARED, tally.truth_file, 0);
    assert_ptr_not_equal(tally.truth, MAP_FAILED);
    must(patch_helper_begin(&tally.helper, &error), &error);
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
    tally->plans = patch_agent_plans_new(tally->functions, tally->function_count);
    assert_non_null(tally->plans);
}

static void finish(struct tally *tally)
{
    if (tally->words != NULL)
        munmap(tally->words, REGION);
    patch_agent_free(tally->agent);
    patch_agent_plans_free(tally->plans);
    patch_helper_end(&tally->helper);
    munmap(tally->truth, sizeof *tally->truth);
    close(tally->truth_file);
}

static int prepare(void *context, struct patch_agent *agent, struct base_error *error)
{
    struct tally *tally = context;
    const uint64_t parameters[2] = {patch_agent_region(agent), patch_agent_alive(agent)};
    uint64_t *words =
        mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, patch_agent_region_file(agent), 0);
    assert_ptr_not_equal(words, MAP_FAILED);
    if (tally->words != NULL) { /* of the image before an exec */
        memcpy(words, tally->words, PROBE_WORDS * sizeof *words);
        munmap(tally->words, REGION);
    }
    tally->words = words;
    return patch_agent_write(agent, offset_of("agent_parameters") + offsetof(struct probe_parameters, words),
                             parameters, sizeof parameters, error);
}

static int load(struct tally *tally, pid_t pid, bool held, struct base_error *error)
{
    const struct patch_agent_options options = {
        .image = probe, .plans = tally->plans, .region_size = REGION, .prepare = prepare, .context = tally};
    struct patch_agent *fresh = NULL;
    int result = patch_agent_load(&tally->helper, pid, held, &options, &fresh, error);
    if (result == BASE_OK) {
        patch_agent_free(tally->agent);
        tally->agent = fresh;
    }
    return result;
}

static const struct patch_agent_hook *hook_of(const struct tally *tally, const char *name)
{
    const struct patch_agent_hook *hooks;
    size_t count = patch_agent_hooks(tally->agent, &hooks);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(hooks[i].name, name) && hooks[i].state != PATCH_AGENT_GONE)
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
        if (read(go[0], &byte, 1) == 1)
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
static void answer_bells(struct tally *tally)
{
    struct base_error error = {0};
    if (tally->words == NULL)
        return;
    uint64_t rung = __atomic_load_n(&tally->words[PROBE_RUNG], __ATOMIC_ACQUIRE);
    uint64_t execs = __atomic_load_n(&tally->words[PROBE_RUNG + 2], __ATOMIC_ACQUIRE);
    if (rung != tally->words[PROBE_ANSWERED]) {
        must(patch_agent_update(tally->agent, &tally->helper, false, true, &error), &error);
        __atomic_store_n(&tally->words[PROBE_ANSWERED], rung, __ATOMIC_RELEASE);
    }
    if (execs != tally->words[PROBE_ANSWERED + 2]) {
        int result = patch_agent_expect_exec(&tally->helper, tally->pid, &error);
        must(result, &error);
        __atomic_store_n(&tally->words[PROBE_ANSWERED + 2], execs, __ATOMIC_RELEASE);
    }
}

static unsigned take_events(struct tally *tally)
{
    struct patch_trace_event event;
    struct base_error error = {0};
    struct pollfd socket = {tally->helper.socket, POLLIN, 0};
    unsigned images = 0;
    if (!patch_trace_pending(&tally->helper))
        poll(&socket, 1, 1);
    while (patch_trace_next(&tally->helper, &event, &error) > 0)
        if (patch_agent_take_event(&tally->helper, &event)) {
            int result = load(tally, event.pid, true, &error);
            patch_agent_let_go(&tally->helper, event.pid);
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
    must(patch_agent_expect_exec(&tally->helper, tally->pid, &error), &error);
    let_it_begin(tally);
    for (int i = 0; i < 60000 && !has_ended(tally); i++) {
        images += take_events(tally);
        answer_bells(tally);
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
    want(tally, "_dl_debug_state", "*/ld*", "probe_bell", 0);
    want(tally, "execve", NULL, "probe_exec", 0);
}

/* --- tests --- */

static void test_every_program_counts_from_its_start(void **state)
{
    (void)state;
    static const char *const handlers[] = {"probe_count", "probe_wrap"};
    for (int i = 0; i < target_count; i++)
        for (int j = 0; j < 2; j++) {
            struct tally tally = begin(handlers[j]);
            want_bells(&tally);
            plan(&tally);
            record(&tally, targets[i], "run", NULL, "2000");
            assert_int_equal(tally.truth->calls[TARGET_ADD], 4000);
            check_counts(&tally, TARGET_ADD, TARGET_LABEL);
            check_counts(&tally, TARGET_LIBC, TARGET_LIBC);
            assert_int_equal(tally.words[PROBE_INSIDE], 0);
            assert_int_equal(hook_of(&tally, "target_add")->reason, PATCH_FINE);
            finish(&tally);
        }
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_program_counts_from_its_start),
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
    if (size > 0 && patch_agent_image_open(bytes, (size_t)size, &probe, &error) == BASE_OK)
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
    patch_agent_image_close(probe);
    return result;
}
