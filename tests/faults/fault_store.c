/* Every allocation that SQLite makes, then every system call by which it changes a file, fails once: the Nth
 * for N = 1, 2, 3 ... until nothing fails any more; and then every one from the Nth on, as on a full disk.
 * Each failure must be reported, the file must open afterwards and hold what one of the flushes left, whole,
 * and not less than the last that went well.
 *
 *   fault_store [--all]    of the ten thousand allocations every 7th is tried, a minute less, unless all are
 *                          asked for */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base_map.h"
#include "profile.h"
#include "store.h"

/* --- the faults --- */

enum fault_kind { ALLOCATION, WRITING, KINDS };

static struct {
    enum fault_kind kind;
    uint64_t calls, fail_at; /* 0: none */
    int for_good;            /* all later ones too */
} faults;

static sqlite3_mem_methods usual;

static int fails(enum fault_kind kind)
{
    if (!faults.fail_at || kind != faults.kind)
        return 0;
    faults.calls++;
    return faults.calls == faults.fail_at || (faults.for_good && faults.calls > faults.fail_at);
}

static void *failing_malloc(int size)
{
    return fails(ALLOCATION) ? NULL : usual.xMalloc(size);
}

static void *failing_realloc(void *old, int size)
{
    return fails(ALLOCATION) ? NULL : usual.xRealloc(old, size);
}

static int no_space(void)
{
    errno = ENOSPC;
    return -1;
}

static ssize_t failing_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    return fails(WRITING) ? no_space() : pwrite(fd, bytes, size, offset);
}

static ssize_t failing_write(int fd, const void *bytes, size_t size)
{
    return fails(WRITING) ? no_space() : write(fd, bytes, size);
}

static int failing_truncate(int fd, off_t size)
{
    return fails(WRITING) ? no_space() : ftruncate(fd, size);
}

static int install(void)
{
    sqlite3_mem_methods methods;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual))
        return 0;
    methods = usual;
    methods.xMalloc = failing_malloc;
    methods.xRealloc = failing_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) || sqlite3_initialize())
        return 0;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    return !vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)failing_pwrite) &&
           !vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)failing_pwrite) &&
           !vfs->xSetSystemCall(vfs, "write", (sqlite3_syscall_ptr)failing_write) &&
           !vfs->xSetSystemCall(vfs, "ftruncate", (sqlite3_syscall_ptr)failing_truncate);
}

/* --- a small recording in three flushes --- */

enum { FLUSHES = 3, SAMPLES = 200 };

static char path[] = "/tmp/tally-faults-XXXXXX/p";

static void record_samples(struct profile *profile, unsigned seed)
{
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/x", "abcd", 0);
    uint32_t counter = profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint32_t thread = profile_thread(profile, profile_process(profile, 10, 0), 11);
    for (unsigned i = 0; i < SAMPLES; i++) {
        uint32_t stack[5];
        for (unsigned level = 0; level < 5; level++)
            stack[level] =
                profile_address(profile, image, base_hash(seed + i * 8 + level) % (level < 2 ? 2 : 90));
        profile_count(
            profile,
            (struct profile_key){profile_stack(profile, stack, NULL, 5), thread, 0, (uint16_t)counter}, 1000,
            1);
    }
}

struct outcome {
    int begun;    /* there was a profile to write to */
    int good;     /* flushes' samples that are certainly in the file */
    int failures; /* calls that said no */
};

static int is_reported(int result, const struct base_error *error)
{
    return result >= 0 || error->text[0];
}

/* 0: a failure came without a word. */
static int record(struct outcome *outcome)
{
    struct profile *profile = profile_new();
    struct store *store = NULL;
    struct base_error error = {0};
    int result = store_create(path, &store, &error), reported = is_reported(result, &error);
    outcome->begun = result == BASE_OK;
    outcome->failures = result < 0;
    for (int flush = 0; store && flush <= FLUSHES; flush++) {
        base_error_clear(&error);
        if (flush < FLUSHES)
            record_samples(profile, (unsigned)flush * 10000);
        result = flush < FLUSHES ? store_flush(store, profile, &error)
                                 : store_close(store, profile, false, &error);
        reported &= is_reported(result, &error);
        outcome->failures += result < 0;
        if (result == BASE_OK)
            outcome->good = flush < FLUSHES ? flush + 1 : FLUSHES;
    }
    profile_free(profile);
    return reported;
}

static uint64_t total(const struct profile *profile)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < profile->cell_count; i++)
        samples += profile->cells[i].samples;
    return samples;
}

static int file_is_right(const struct outcome *outcome)
{
    struct profile *loaded;
    struct base_error error = {0};
    if (!outcome->begun)
        return access(path, F_OK) != 0; /* nothing half-made */
    if (store_load(path, &loaded, &error) < 0) {
        printf("# %s\n", error.text);
        return 0;
    }
    uint64_t samples = total(loaded), certain = (uint64_t)outcome->good * SAMPLES;
    profile_free(loaded);
    return samples >= certain && samples % SAMPLES == 0;
}

/* Loading under faults: right or refused, and the file is as good as before. */
static int load_is_right(uint64_t n, int *failed)
{
    struct profile *loaded = NULL;
    struct base_error error = {0};
    faults.calls = 0;
    faults.fail_at = n;
    int result = store_load(path, &loaded, &error);
    faults.fail_at = 0;
    *failed = result < 0;
    int right = result < 0 ? result == BASE_ENOMEM && error.text[0] : total(loaded) == FLUSHES * SAMPLES;
    if (!right)
        printf("# %d %s\n", result, error.text);
    profile_free(loaded);
    return right;
}

static void remove_files(void)
{
    char journal[sizeof path + 16];
    snprintf(journal, sizeof journal, "%s-journal", path);
    unlink(journal);
    unlink(path);
}

/* --- the rounds --- */

static int number;

static int say(int good, const char *what, uint64_t n, uint64_t failures)
{
    printf("%s %d - %s\n# %llu calls failed one by one, %llu were reported\n", good ? "ok" : "not ok",
           ++number, what, (unsigned long long)n, (unsigned long long)failures);
    fflush(stdout);
    return good;
}

static int try_recording(enum fault_kind kind, int for_good, uint64_t step, const char *what)
{
    uint64_t n = 0, rounds = 0, failures = 0;
    for (int reached = 1; reached;) {
        struct outcome outcome = {0};
        faults.kind = kind;
        faults.for_good = for_good;
        faults.calls = 0;
        faults.fail_at = n += step;
        rounds++;
        int reported = record(&outcome);
        reached = faults.calls >= n;
        faults.fail_at = 0;
        failures += (uint64_t)outcome.failures;
        if (!reported || !file_is_right(&outcome)) {
            printf("# call %llu: reported %d, begun %d, good %d\n", (unsigned long long)n, reported,
                   outcome.begun, outcome.good);
            return say(0, what, n, failures);
        }
        remove_files();
    }
    return say(failures > 10, what, rounds - 1, failures);
}

static int try_loading(const char *what)
{
    struct outcome outcome = {0};
    uint64_t n = 0, failures = 0;
    int right = record(&outcome) && !outcome.failures;
    faults.kind = ALLOCATION;
    for (int reached = 1, failed; right && reached;) {
        right = load_is_right(++n, &failed);
        reached = faults.calls >= n;
        failures += (uint64_t)failed;
    }
    remove_files();
    return say(right && failures > 10, what, n, failures);
}

int main(int argc, char **argv)
{
    uint64_t step = argc == 2 && !strcmp(argv[1], "--all") ? 1 : 7;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    if (!install() || !mkdtemp(path))
        return 1;
    *slash = '/';
    printf("1..5\n");
    int good = try_recording(ALLOCATION, 0, step, "each_allocation_of_sqlite_fails_once");
    good &= try_recording(ALLOCATION, 1, step, "memory_runs_out_for_good");
    good &= try_recording(WRITING, 0, 1, "each_write_fails_once");
    good &= try_recording(WRITING, 1, 1, "the_disk_is_full_for_good");
    good &= try_loading("each_allocation_fails_while_loading");
    *slash = '\0';
    rmdir(path);
    return !good;
}
