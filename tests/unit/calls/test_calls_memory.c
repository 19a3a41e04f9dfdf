/* Every allocation of the collector of calls fails once: the Nth for N = 1, 2, 3 ... until nothing fails any
 * more. Whatever happens, nothing crashes and nothing leaks (the sanitizers check that), what is published is
 * true, or what is missing is reported or counted, and a process that was attached to runs on with the text
 * that it had.
 *
 *     test_calls_memory FIXTURE TARGET */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "calls.h"
#include "calls_target.h"
#include "failing.h"
#include "remains_clean.h"
#include "space_made.h"
#include "space_read.h"
#include "wire_loss.h"

/* --- survey, build and read, of this process --- */

static const char *library;
static void *handle;

/* 5 calls of a function, 6 through a slot, 10 of any: 7 of these arrived; and 4 without a record. */
static int fill(const struct space_made *calls)
{
    const struct space_object *object = &calls->space->objects[0];
    uint32_t direct = space_made_site(object, "three", "leaf");
    uint32_t linked = space_made_site(object, "fixture_run", "*");
    uint32_t indirect = space_made_site(object, "through_object", NULL);
    uint32_t one = space_made_hook_word(object, "one");
    const uint64_t values[] = {5, 6, 10}, words[] = {direct, linked, indirect};
    const uint64_t hook[] = {space_made_return(object, indirect), 7, 4};
    for (unsigned i = 0; i < 3; i++)
        if (pwrite(calls->file, &values[i], 8,
                   (off_t)(8 * space_made_site_word(object, (uint32_t)words[i]))) != 8)
            return BASE_EIO;
    return pwrite(calls->file, hook, sizeof hook, 8 * (off_t)one) == sizeof hook ? BASE_OK : BASE_EIO;
}

static int read_all(struct space_made *calls)
{
    struct slab_counts counts = {0};
    struct base_error error = {0};
    struct space_reading reading = {
        .space = calls->space, .session = &calls->session, .final = true, .replace = true};
    int result = fill(calls);
    if (result == BASE_OK)
        result = space_read_block(calls->space, &calls->space->arenas[0].block, &counts, &error);
    if (result == BASE_OK)
        result = space_read(&reading, &counts, &error);
    if (result == BASE_OK) {
        space_read_coverage(calls->space, &calls->session);
        space_read_close(calls->space, 0);
    }
    slab_counts_free(&counts);
    return result;
}

/* Edges in the order of their calls: 3 (callee unknown), 4 (no record), 5, 6, 7. */
static bool is_whole(const struct profile *profile)
{
    unsigned seen = 0;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        const char *callee =
            profile_text(profile, profile->images[profile->addresses[edge->callee].image].name);
        bool known = strcmp(callee, "(unknown)") != 0;
        if (!edge->calls)
            continue;
        if (edge->calls < 3 || edge->calls > 7 || known != (edge->calls != 3) ||
            (edge->site != 0) != (edge->calls != 4))
            return false;
        seen |= 1u << edge->calls;
    }
    return seen == 0xf8;
}

static bool has_losses(const struct profile *profile)
{
    for (unsigned i = 0; i < PROFILE_LOSSES; i++)
        if (profile->losses[i])
            return true;
    return false;
}

/* BASE_OK: everything was published, or a loss. */
static int survey_build_and_read(void)
{
    static const char *const names[] = {"*", NULL};
    struct base_error error = {0};
    struct space_made *calls = space_made_new(names);
    if (!calls)
        return BASE_ENOMEM;
    int result = space_made_build(calls, &error);
    if (result == BASE_OK && calls->space->object_count)
        result = read_all(calls);
    failing_end();
    struct base_error check = {0};
    assert_int_equal(profile_check(calls->profile, &check), BASE_OK);
    if (result < 0)
        assert_true(result == BASE_ENOMEM);
    else if (!has_losses(calls->profile))
        assert_true(is_whole(calls->profile));
    space_made_free(calls);
    return result;
}

static void each_allocation_fails_once(void **state)
{
    uint64_t failed = 0, last;
    (void)state;
    assert_int_equal(survey_build_and_read(), BASE_OK); /* plans are in the cache now */
    uint64_t call = 0;
    do {
        failing_begin(++call);
        failed += survey_build_and_read() < 0;
        last = failing_end();
    } while (last >= call);
    assert_true(call > 100);
    assert_true(failed > 20);
    print_message("# %lu allocations, %lu of them made it fail\n", (unsigned long)call - 1,
                  (unsigned long)failed);
}

/* --- a process that is attached to --- */

static const char *target;
static struct calls_target *shared;

static pid_t start(void)
{
    char number[16];
    int file = memfd_create("shared", 0);
    assert_int_equal(ftruncate(file, sizeof *shared), 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    snprintf(number, sizeof number, "%d", file);
    pid_t pid = fork();
    if (pid == 0) {
        execl(target, target, library, number, (char *)NULL);
        _exit(127);
    }
    close(file);
    return pid;
}

static void nap(void)
{
    const struct timespec time = {.tv_nsec = 1000000};
    nanosleep(&time, NULL);
}

static bool runs_on(pid_t pid)
{
    unsigned long long before = atomic_load(&shared->rounds);
    for (int i = 0; i < 10000 && atomic_load(&shared->rounds) < before + 3 && !kill(pid, 0); i++)
        nap();
    return atomic_load(&shared->rounds) >= before + 3 && !atomic_load(&shared->wrong);
}

/* As it is here, where it is not changed. */
static bool has_its_text(pid_t pid)
{
    static uint8_t found[0x700];
    uintptr_t run = (uintptr_t)dlsym(handle, "fixture_run"), inside = run & 0xfff;
    const uint8_t *text = (const uint8_t *)(run - inside);
    struct iovec local = {found, sizeof found}, remote = {(void *)(shared->run - inside), sizeof found};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof found &&
           !memcmp(found, text, sizeof found);
}

static unsigned mappings_of_ours(pid_t pid)
{
    char path[64], line[512];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, "/memfd:tally") != NULL;
    fclose(file);
    return count;
}

/* Memory that nothing leads to: `tally detach` takes it away. */
static unsigned was_left(pid_t pid)
{
    struct remains_cleaned cleaned;
    if (!mappings_of_ours(pid))
        return 0;
    assert_int_equal(remains_clean_process(pid, &cleaned, NULL), BASE_OK);
    assert_int_equal(cleaned.places, 0);
    assert_int_equal(mappings_of_ours(pid), 0);
    return 1;
}

static int follow(struct sample_processes *processes, pid_t pid)
{
    static const char *const images[] = {"libfixture_*"};
    const struct calls_options options = {
        .request = {.images = images, .image_count = 1}, .follow = true, .unpublished = true};
    struct calls *calls;
    struct base_error error = {0};
    int result = calls_new(&options, processes, &calls, &error);
    if (result < 0) {
        assert_string_not_equal(error.text, "");
        return result;
    }
    result = calls_attach(calls, pid, &error);
    for (int i = 0; i < 3 && result == BASE_OK; i++) {
        nap();
        result = calls_step(calls, &error);
        calls_publish(calls);
    }
    if (result < 0)
        assert_string_not_equal(error.text, "");
    calls_leave(calls, NULL);
    calls_finish(calls);
    calls_free(calls);
    return result;
}

static int record(pid_t pid)
{
    struct sample_images images = {0};
    struct sample_processes processes;
    struct profile *profile = profile_new();
    int result = profile ? sample_images_init(&images, profile, NULL) : BASE_ENOMEM;
    if (result == BASE_OK) {
        sample_processes_init(&processes, &images, 0);
        result = follow(&processes, pid);
        failing_end();
        struct base_error check = {0};
        assert_int_equal(profile_check(profile, &check), BASE_OK);
        sample_processes_free(&processes);
        sample_images_free(&images);
    }
    failing_end();
    profile_free(profile);
    return result;
}

static void a_target_survives_each_failure(void **state)
{
    (void)state;
    pid_t pid = start();
    assert_true(runs_on(pid));
    failing_begin(UINT64_MAX);
    assert_int_equal(record(pid), BASE_OK);
    uint64_t most = failing_end(), failed = 0, left = 0;
    assert_int_equal(mappings_of_ours(pid), 0);
    for (uint64_t call = 1; call <= most; call++) {
        failing_begin(call);
        failed += record(pid) < 0;
        left += was_left(pid);
        assert_true(has_its_text(pid));
        assert_true(runs_on(pid));
    }
    assert_true(left <= 5); /* when there is no memory to list what is to go */
    assert_true(failed > 10);
    print_message("# %lu allocations: %lu made it fail, %lu left memory in the target\n", (unsigned long)most,
                  (unsigned long)failed, (unsigned long)left);
    atomic_store(&shared->stop, 1);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    assert_int_equal(status, 0);
    munmap(shared, sizeof *shared);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_fails_once),
        cmocka_unit_test(a_target_survives_each_failure),
    };
    if (argument_count < 3 || !(handle = dlopen(library = arguments[1], RTLD_NOW | RTLD_LOCAL)))
        return 2;
    target = arguments[2];
    return cmocka_run_group_tests(tests, space_made_begin_tests, space_made_end_tests);
}
