/* What is written is what is read: a random model through flushes, folding and loading, against totals kept
 * by hand; and who may write where. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base_map.h"
#include "profile.h"
#include "profile_directory.h"
#include "profile_statistics.h"
#include "store.h"
#include "store_timeline.h"
#include "wire_loss.h"

struct world {
    struct profile *profile;
    uint32_t image, thread, addresses[400];
    uint16_t counter;
    uint64_t random, samples;
};

static struct world new_world(uint32_t max_nodes)
{
    struct world world = {.profile = profile_new(), .random = 1};
    if (max_nodes)
        world.profile->max_nodes = max_nodes;
    world.image = profile_image(world.profile, PROFILE_IMAGE_FILE, "/bin/x", "abcd", 0);
    world.counter = (uint16_t)profile_counter(world.profile, "time.cpu", "ns", false, PROFILE_SUM);
    world.thread = profile_thread(world.profile, profile_process(world.profile, 10, 0), 11);
    for (uint32_t i = 0; i < 400; i++)
        world.addresses[i] = profile_address(world.profile, world.image, 0x1000 + 16 * i);
    return world;
}

static void add_samples(struct world *world, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t stack[12];
        world->random = base_hash(world->random + 1);
        size_t depth = 1 + world->random % 12;
        for (size_t level = 0; level < depth; level++)
            stack[level] = world->addresses[base_hash(world->random + level * 7919) % (level < 3 ? 4 : 400)];
        uint32_t node = profile_stack(world->profile, stack, NULL, depth);
        profile_count(world->profile,
                      (struct profile_key){node, world->thread, (uint16_t)(i % 3), world->counter}, 1000, 1);
        world->samples++;
    }
}

static uint64_t total_samples(const struct profile *profile)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < profile->cell_count; i++)
        samples += profile->cells[i].samples;
    return samples;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct world world = new_world(0);
    struct store *store;
    struct profile *loaded;
    struct base_error error = {0};
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    for (int flush = 0; flush < 5; flush++) {
        add_samples(&world, 2000);
        profile_lose(world.profile, WIRE_LOSS_STACK_CUT, 3);
        profile_set_metaf(world.profile, "duration_ns", "%d", flush);
        assert_int_equal(store_flush(store, world.profile, &error), BASE_OK);
        assert_int_equal(store_load(path, &loaded, &error), BASE_OK); /* while it is being recorded */
        assert_int_equal(total_samples(loaded), world.samples);
        profile_free(loaded);
    }
    assert_int_equal(store_close(store, world.profile, false, &error), BASE_OK);
    assert_int_equal(store_load(path, &loaded, &error), BASE_OK);
    assert_int_equal(loaded->node_count, world.profile->node_count);
    for (size_t i = 1; i < loaded->node_count; i++) {
        assert_int_equal(loaded->nodes[i].parent, world.profile->nodes[i].parent);
        assert_int_equal(loaded->nodes[i].address, world.profile->nodes[i].address);
    }
    assert_int_equal(loaded->losses[WIRE_LOSS_STACK_CUT], 15);
    assert_string_equal(profile_meta(loaded, "duration_ns"), "4");
    assert_string_equal(profile_text(loaded, loaded->images[world.image].path), "/bin/x");
    profile_free(loaded);
    profile_free(world.profile);
}

static void folding_keeps_every_sample(void **state)
{
    (void)state;
    struct world world = new_world(2000);
    struct store *store;
    struct profile *loaded;
    struct base_error error = {0};
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    for (int round = 0; round < 20; round++) {
        add_samples(&world, 1000);
        assert_int_equal(profile_check(world.profile, &error), BASE_OK);
        assert_int_equal(total_samples(world.profile), world.samples);
        assert_true(world.profile->live_nodes <= 2001);
        assert_int_equal(store_flush(store, world.profile, &error), BASE_OK);
    }
    assert_true(profile_folds(world.profile) > 2);
    assert_true(world.profile->losses[WIRE_LOSS_FOLDED] > 0);
    assert_int_equal(store_close(store, world.profile, false, &error), BASE_OK);
    if (store_load(path, &loaded, &error) != BASE_OK)
        fail_msg("%s", error.text);
    assert_int_equal(total_samples(loaded), world.samples);
    profile_free(loaded);
    profile_free(world.profile);
}

static void timeline_survives_folding(void **state);

struct timeline_totals {
    uint64_t samples, last;
    const struct profile *profile;
    bool good;
};

static bool add_to_totals(void *context, const struct store_timeline_sample *sample)
{
    struct timeline_totals *totals = context;
    totals->good &=
        sample->node < totals->profile->node_count && totals->profile->nodes[sample->node].address != 0;
    totals->last = sample->time_ns;
    totals->samples++;
    return true;
}

static void timeline_survives_folding(void **state)
{
    (void)state;
    struct world world = new_world(1000);
    struct store *store;
    struct profile *loaded;
    struct base_error error = {0};
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    for (uint64_t i = 0; i < 8000; i++) {
        world.random = base_hash(world.random + 1);
        uint32_t stack[3] = {world.addresses[0], world.addresses[world.random % 40],
                             world.addresses[world.random >> 32 & 255]};
        uint32_t node = profile_stack(world.profile, stack, NULL, 3);
        profile_count(world.profile, (struct profile_key){node, world.thread, 0, world.counter}, 1, 1);
        profile_timeline_add(world.profile, i * 1000, world.thread, node, 0, world.counter);
    }
    assert_true(profile_folds(world.profile) > 0);
    assert_int_equal(store_close(store, world.profile, false, &error), BASE_OK);
    assert_int_equal(store_load(path, &loaded, &error), BASE_OK);
    struct timeline_totals totals = {.profile = loaded, .good = true};
    assert_int_equal(store_timeline_each(path, add_to_totals, &totals, &error), BASE_OK);
    assert_int_equal(totals.samples, 8000);
    assert_int_equal(totals.last, 7999000);
    assert_true(totals.good);
    profile_free(loaded);
    profile_free(world.profile);
}

static void write_timeline(void)
{
    struct world world = new_world(0);
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    for (uint64_t i = 0; i < 8000; i++) {
        uint32_t node = profile_node(world.profile, 0, world.addresses[base_hash(i) % 40], 0);
        profile_count(world.profile, (struct profile_key){node, world.thread, 0, world.counter}, 1, 1);
        profile_timeline_add(world.profile, base_hash(i) >> 20, world.thread, node, 0, world.counter);
        if (i % 500 == 499)
            assert_int_equal(store_flush(store, world.profile, NULL), BASE_OK);
    }
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    profile_free(world.profile);
}

/* Whatever page cannot be read: an error, or all of the samples, and never some of them. */
static void a_corrupt_timeline_is_no_shorter_one(void **state)
{
    (void)state;
    struct profile *loaded;
    struct stat status;
    char page[4096], nothing[4096] = {0};
    int refused = 0;
    write_timeline();
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    assert_int_equal(stat(path, &status), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    for (off_t at = sizeof page; at < status.st_size; at += (off_t)sizeof page) {
        struct timeline_totals totals = {.profile = loaded, .good = true};
        struct base_error error = {0};
        assert_int_equal(pread(fd, page, sizeof page, at), sizeof page);
        assert_int_equal(pwrite(fd, nothing, sizeof nothing, at), sizeof nothing);
        int result = store_timeline_each(path, add_to_totals, &totals, &error);
        assert_int_equal(pwrite(fd, page, sizeof page, at), sizeof page);
        if (result == BASE_OK && totals.samples != 8000)
            fail_msg("page %lld: %llu samples", (long long)(at / 4096), (unsigned long long)totals.samples);
        assert_int_equal(result == BASE_OK, error.text[0] == '\0');
        refused += result != BASE_OK;
    }
    assert_true(refused > 10);
    close(fd);
    profile_free(loaded);
}

static void others_files_are_left_alone(void **state)
{
    (void)state;
    struct store *store;
    struct base_error error = {0};
    struct stat status;
    FILE *file = fopen(path, "w");
    fputs("precious", file);
    fclose(file);
    assert_int_equal(store_create(path, &store, &error), BASE_EUSAGE);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 8);
    unlink(path);
    umask(0);
    base_error_clear(&error);
    struct world world = new_world(0);
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    struct store *second;
    assert_int_equal(store_create(path, &second, &error), BASE_EBUSY);
    char pid[32];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    assert_non_null(strstr(error.text, pid));
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    base_error_clear(&error);
    assert_int_equal(store_create(path, &store, &error), BASE_OK); /* the first became .old ... */
    assert_int_equal(access(old_path, R_OK), 0);
    assert_int_equal(store_close(store, world.profile, true, NULL), BASE_OK); /* ... and comes back */
    assert_int_equal(access(path, R_OK), 0);
    assert_int_not_equal(access(old_path, R_OK), 0);
    profile_free(world.profile);
}

static _Noreturn void write_for_ever(int pipe_end)
{
    struct world world = new_world(0);
    struct store *store;
    if (store_create(path, &store, NULL) < 0)
        _exit(1);
    for (uint64_t flushed = 0;;) {
        add_samples(&world, 300);
        if (store_flush(store, world.profile, NULL) < 0)
            _exit(2);
        flushed = world.samples;
        if (write(pipe_end, &flushed, sizeof flushed) != (ssize_t)sizeof flushed)
            _exit(3);
    }
}

static void killed_recorders_leave_a_profile(void **state)
{
    (void)state;
    for (int run = 0; run < 100; run++) {
        int pipe_end[2];
        uint64_t flushed = 0, next;
        profile_directory_clean(NULL);
        assert_int_equal(pipe(pipe_end), 0);
        pid_t pid = fork();
        if (pid == 0)
            write_for_ever(pipe_end[1]);
        close(pipe_end[1]);
        assert_int_equal(read(pipe_end[0], &flushed, sizeof flushed), (ssize_t)sizeof flushed);
        usleep((useconds_t)(base_hash((uint64_t)run) % 20000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while (read(pipe_end[0], &next, sizeof next) == (ssize_t)sizeof next)
            flushed = next;
        close(pipe_end[0]);
        struct profile *loaded;
        struct base_error error = {0};
        if (store_load(path, &loaded, &error) != BASE_OK)
            fail_msg("run %d: %s", run, error.text);
        assert_true(total_samples(loaded) >= flushed);
        profile_free(loaded);
    }
    char journal[160];
    snprintf(journal, sizeof journal, "%s-journal", path);
    unlink(journal);
}

static _Noreturn void write_one_large_flush(int pipe_end)
{
    struct world world = new_world(0);
    struct store *store;
    if (store_create(path, &store, NULL) < 0)
        _exit(1);
    add_samples(&world, 100);
    if (store_flush(store, world.profile, NULL) < 0)
        _exit(2);
    add_samples(&world, 60000); /* more than SQLite keeps in memory: pages go to the file before the commit */
    for (uint32_t i = 1; i < world.profile->address_count; i++)
        profile_set_address(world.profile, i, &world.profile->addresses[i]);
    if (write(pipe_end, "", 1) != 1)
        _exit(3);
    store_flush(store, world.profile, NULL);
    _exit(4);
}

/* Kills a recorder in the middle of a transaction that has begun to change the file; false: it was too late
 * or too early. */
static bool kill_in_the_middle(useconds_t after)
{
    int pipe_end[2];
    char byte, journal[160];
    struct stat status;
    assert_int_equal(pipe(pipe_end), 0);
    pid_t pid = fork();
    if (pid == 0)
        write_one_large_flush(pipe_end[1]);
    close(pipe_end[1]);
    assert_int_equal(read(pipe_end[0], &byte, 1), 1);
    close(pipe_end[0]);
    snprintf(journal, sizeof journal, "%s-journal", path);
    struct stat before;
    stat(path, &before);
    for (int i = 0; i < 2000 && !stat(path, &status) && status.st_size <= before.st_size + 65536; i++)
        usleep(200); /* until its pages arrive */
    usleep(after);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return !stat(journal, &status) && status.st_size > 0;
}

/* The journal of a killed recorder belongs to its name: recording again to that name must not lose the older
 * profile. */
static void recording_again_finishes_the_killed_one(void **state)
{
    (void)state;
    int caught = 0;
    for (int run = 0; run < 20 && caught < 3; run++) {
        profile_directory_clean(NULL);
        if (!kill_in_the_middle((useconds_t)(run * 700)))
            continue;
        caught++;
        struct world world = new_world(0);
        struct store *store;
        struct profile *loaded;
        struct base_error error = {0};
        assert_int_equal(store_create(path, &store, &error), BASE_OK);
        if (store_load(old_path, &loaded, &error) != BASE_OK)
            fail_msg("%s", error.text);
        assert_int_equal(total_samples(loaded), 100);
        profile_free(loaded);
        assert_int_equal(store_close(store, world.profile, false, &error), BASE_OK);
        assert_int_equal(store_load(path, &loaded, &error), BASE_OK);
        assert_int_equal(total_samples(loaded), 0);
        profile_free(loaded);
        profile_free(world.profile);
    }
    assert_true(caught > 0);
}

/* An empty file (mktemp's) is taken over without becoming .old, and is there again when the recording is
 * discarded. */
static void an_empty_file_may_be_named(void **state)
{
    (void)state;
    struct store *store;
    struct stat status;
    struct world world = new_world(0);
    for (int discard = 0; discard < 2; discard++) {
        profile_directory_clean(NULL);
        fclose(fopen(path, "w"));
        umask(077);
        assert_int_equal(store_create(path, &store, NULL), BASE_OK);
        umask(022);
        assert_int_not_equal(access(old_path, F_OK), 0);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        assert_int_equal(store_close(store, world.profile, discard, NULL), BASE_OK);
        assert_int_equal(stat(path, &status), 0);
        assert_true(discard == (status.st_size == 0));
    }
    profile_free(world.profile);
}

static void write_samples(int count)
{
    struct world world = new_world(0);
    struct store *store;
    add_samples(&world, count);
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    profile_free(world.profile);
}

static void assert_samples(const char *file, uint64_t count)
{
    struct profile *loaded;
    assert_int_equal(store_load(file, &loaded, NULL), BASE_OK);
    assert_int_equal(total_samples(loaded), count);
    profile_free(loaded);
}

/* Journals aside. */
static int files_in_directory(void)
{
    int count = 0;
    DIR *directory = opendir(profile_directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.' && !strstr(entry->d_name, "-journal");
    closedir(directory);
    return count;
}

/* Also of what was called .old before: it goes when the new profile is closed, and comes back when it is
 * discarded. */
static void discarding_takes_all_back(void **state)
{
    (void)state;
    struct store *store;
    struct world world = new_world(0);
    write_samples(10);
    write_samples(20);
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_samples(old_path, 20);
    assert_int_equal(files_in_directory(), 3);
    assert_int_equal(store_close(store, world.profile, true, NULL), BASE_OK);
    assert_samples(path, 20);
    assert_samples(old_path, 10);
    assert_int_equal(files_in_directory(), 2);
    write_samples(30);
    assert_samples(path, 30);
    assert_samples(old_path, 20);
    assert_int_equal(files_in_directory(), 2);
    profile_free(world.profile);
}

/* A recording to FILE.old has moved the older profile on: it is not taken back over that. */
static void discarding_leaves_a_later_old_alone(void **state)
{
    (void)state;
    struct store *store, *later;
    struct world world = new_world(0);
    write_samples(10);
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_create(old_path, &later, NULL), BASE_OK);
    assert_int_equal(store_close(store, world.profile, true, NULL), BASE_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(store_close(later, world.profile, true, NULL), BASE_OK);
    assert_samples(old_path, 10);
    assert_int_equal(files_in_directory(), 1);
    profile_free(world.profile);
}

/* What has the name that the older profile would get is no profile, or one that is being recorded. */
static void others_old_files_are_left_alone(void **state)
{
    (void)state;
    struct store *store, *busy;
    struct stat status;
    struct base_error error = {0};
    struct world world = new_world(0);
    write_samples(10);
    FILE *file = fopen(old_path, "w");
    fputs("my notes", file);
    fclose(file);
    assert_int_equal(store_create(path, &store, &error), BASE_EUSAGE);
    assert_non_null(strstr(error.text, old_path));
    assert_int_equal(stat(old_path, &status), 0);
    assert_int_equal(status.st_size, 8);
    unlink(old_path);
    base_error_clear(&error);
    assert_int_equal(store_create(old_path, &busy, NULL), BASE_OK);
    assert_int_equal(store_create(path, &store, &error), BASE_EBUSY);
    assert_int_equal(store_close(busy, world.profile, false, NULL), BASE_OK);
    assert_samples(path, 10);
    assert_samples(old_path, 0);
    assert_int_equal(files_in_directory(), 2);
    profile_free(world.profile);
}

/* Where no profile can be made the older one stays what it was. */
static void failing_to_begin_touches_nothing(void **state)
{
    (void)state;
    struct store *store;
    struct profile *loaded;
    struct base_error error = {0};
    struct world world = new_world(0);
    struct rlimit before, small;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    add_samples(&world, 10);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = 9000, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    int result = store_create(path, &store, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(result, BASE_EIO);
    assert_non_null(strstr(error.text, path));
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    assert_int_equal(total_samples(loaded), 10);
    assert_int_not_equal(access(old_path, F_OK), 0);
    profile_free(loaded);
    profile_free(world.profile);
}

/* A table's name must be a table: a view of that name would run for ever. */
static void tables_that_are_none_are_refused(void **state)
{
    (void)state;
    struct store *store;
    struct profile *loaded;
    sqlite3 *db;
    struct world world = new_world(0);
    struct base_error error = {0};
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    profile_free(world.profile);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(
            db,
            "DROP TABLE data_cells; CREATE VIEW data_cells AS WITH RECURSIVE a(id, node, thread, cpu,"
            " counter, value, samples) AS (SELECT 1, 0, 0, 0, 1, 0, 0 UNION ALL SELECT id + 1, 0, 0,"
            " 0, 1, 0, 0 FROM a) SELECT * FROM a",
            NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(store_load(path, &loaded, &error), BASE_EFORMAT);
    assert_int_equal(store_timeline_each(path, add_to_totals, NULL, NULL), BASE_EFORMAT);
    assert_non_null(strstr(error.text, path));
}

static void a_full_disk_keeps_the_last_state(void **state)
{
    (void)state;
    struct world world = new_world(0);
    struct store *store;
    struct base_error error = {0};
    struct rlimit before, small = {.rlim_cur = 300000};
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    add_samples(&world, 1000);
    assert_int_equal(store_flush(store, world.profile, &error), BASE_OK);
    uint64_t good = world.samples;
    setrlimit(RLIMIT_FSIZE, &small);
    int result = BASE_OK;
    for (int i = 0; result == BASE_OK && i < 100; i++) {
        add_samples(&world, 1000);
        result = store_flush(store, world.profile, &error);
        good = result == BASE_OK ? world.samples : good;
    }
    assert_int_equal(result, BASE_EIO);
    assert_non_null(strstr(error.text, path));
    setrlimit(RLIMIT_FSIZE, &before);
    struct profile *loaded;
    base_error_clear(&error);
    if (store_load(path, &loaded, &error) != BASE_OK)
        fail_msg("%s", error.text);
    assert_int_equal(total_samples(loaded), good);
    profile_free(loaded);
    store_close(store, world.profile, true, NULL);
    profile_free(world.profile);
}

static void hostile_files_give_errors_only(void **state)
{
    (void)state;
    struct world world = new_world(0);
    struct store *store;
    static uint8_t good[1 << 20], bad[1 << 20];
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    add_samples(&world, 500);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    profile_free(world.profile);
    FILE *file = fopen(path, "r");
    size_t size = fread(good, 1, sizeof good, file);
    fclose(file);
    uint64_t random = 3;
    size_t refused = 0;
    for (int i = 0; i < 600; i++) {
        memcpy(bad, good, size);
        for (int flips = 0; flips < 8; flips++) {
            random = base_hash(random + 1);
            bad[100 + random % (size - 100)] = (uint8_t)(random >> 40);
        }
        size_t kept = i % 4 ? size : (random >> 8) % size;
        file = fopen(path, "w");
        fwrite(bad, 1, kept, file);
        fclose(file);
        struct profile *loaded = NULL;
        struct base_error error = {0};
        if (store_load(path, &loaded, &error) == BASE_OK) {
            assert_int_equal(profile_check(loaded, &error), BASE_OK);
            profile_free(loaded);
        } else {
            refused++;
            assert_true(error.text[0] != '\0');
        }
    }
    assert_true(refused > 100);
}

/* SQLite fills a page that ends early with zeros: a missing end must be noticed all the same. */
static void a_missing_end_is_noticed(void **state)
{
    (void)state;
    struct world world = new_world(0);
    struct store *store;
    struct stat status;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    add_samples(&world, 500);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    profile_free(world.profile);
    assert_int_equal(stat(path, &status), 0);
    for (off_t missing = 1; missing < status.st_size; missing = missing * 3 + 1) {
        struct profile *loaded;
        struct base_error error = {0};
        assert_int_equal(truncate(path, status.st_size - missing), 0);
        assert_int_equal(store_load(path, &loaded, &error), BASE_EFORMAT);
        assert_non_null(strstr(error.text, path));
    }
}

/* A later version's losses are losses. */
static void losses_of_later_versions_count(void **state)
{
    (void)state;
    struct world world = new_world(0);
    struct store *store;
    struct profile *loaded;
    sqlite3 *db;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    profile_lose(world.profile, 3, 7);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    profile_free(world.profile);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "INSERT INTO data_losses VALUES(96, 'new', 2), (300, 'newer', 3),"
                                  " (9000000000, 'newest', 4)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    assert_int_equal(loaded->losses[3], 7);
    assert_int_equal(loaded->losses[PROFILE_LOSSES - 1], 9);
    profile_free(loaded);
}

static void query_gives_json_whatever_the_text(void **state)
{
    (void)state;
    struct world world = new_world(0);
    struct store *store;
    char *text = NULL;
    size_t size;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    profile_set_meta(world.profile, "odd", "a\"b\\c\n\xff\xc3\xa9");
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    profile_free(world.profile);
    FILE *out = open_memstream(&text, &size);
    const char *sql = "SELECT value AS v, 1 AS n FROM meta WHERE key = 'odd'";
    assert_int_equal(store_query(path, sql, STORE_QUERY_JSON, out, NULL), BASE_OK);
    fclose(out);
    assert_string_equal(text, "[\n  {\"v\": \"a\\\"b\\\\c\\u000a\xef\xbf\xbd\xc3\xa9\", \"n\": 1}\n]\n");
    free(text);
    struct base_error error = {0};
    static const char *const refused[] = {"DELETE FROM data_meta",
                                          "ATTACH '/tmp/x' AS y",
                                          "PRAGMA journal_mode=WAL",
                                          "SELECT 1; SELECT 2",
                                          "",
                                          "SELEKT"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        base_error_clear(&error);
        assert_int_equal(store_query(path, refused[i], STORE_QUERY_CSV, stdout, &error), BASE_EUSAGE);
        assert_true(error.text[0] != '\0');
    }
}

static void wilson_is_wilson(void **state)
{
    (void)state;
    struct profile_interval interval = profile_wilson(10, 100); /* Newcombe 1998 gives 0.0552, 0.1744 */
    assert_true(interval.low > 0.0551 && interval.low < 0.0553);
    assert_true(interval.high > 0.1743 && interval.high < 0.1745);
    interval = profile_wilson(0, 20);
    assert_true(interval.low == 0 && interval.high > 0.160 && interval.high < 0.162);
    interval = profile_wilson(0, 0);
    assert_true(interval.low == 0 && interval.high == 1);
    assert_true(profile_maximum_margin(2500) > 0.0195 && profile_maximum_margin(2500) < 0.0197);
}

struct watched {
    size_t calls, done, total;
};

static void watch(void *context, size_t done, size_t total)
{
    struct watched *watched = context;
    assert_true(done > watched->done && done <= total);
    *watched = (struct watched){watched->calls + 1, done, total};
}

/* Called every few thousand rows, with about as many as there are. */
static void loading_is_watched(void **state)
{
    (void)state;
    struct profile *profile = profile_new(), *loaded = NULL;
    struct store *store;
    struct watched watched = {0};
    enum { NODES = 20000 };
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/x", NULL, 0);
    for (uint32_t i = 0; i < NODES; i++)
        assert_true(profile_node(profile, 0, profile_address(profile, image, 16 * i), 0));
    assert_int_equal(store_create(path, &store, NULL), 0);
    assert_int_equal(store_close(store, profile, false, NULL), 0);
    assert_int_equal(store_load_watched(path, watch, &watched, &loaded, NULL), 0);
    assert_true(watched.calls >= 2 * NODES / 4096 - 1);
    assert_true(watched.done > 2 * NODES * 9 / 10 && watched.total < 2 * NODES * 11 / 10);
    assert_int_equal(loaded->live_nodes, NODES);
    profile_free(loaded);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_written_is_read, profile_directory_clean),
        cmocka_unit_test_teardown(folding_keeps_every_sample, profile_directory_clean),
        cmocka_unit_test_teardown(timeline_survives_folding, profile_directory_clean),
        cmocka_unit_test_teardown(a_corrupt_timeline_is_no_shorter_one, profile_directory_clean),
        cmocka_unit_test_teardown(others_files_are_left_alone, profile_directory_clean),
        cmocka_unit_test_teardown(killed_recorders_leave_a_profile, profile_directory_clean),
        cmocka_unit_test_teardown(recording_again_finishes_the_killed_one, profile_directory_clean),
        cmocka_unit_test_teardown(an_empty_file_may_be_named, profile_directory_clean),
        cmocka_unit_test_teardown(discarding_takes_all_back, profile_directory_clean),
        cmocka_unit_test_teardown(discarding_leaves_a_later_old_alone, profile_directory_clean),
        cmocka_unit_test_teardown(others_old_files_are_left_alone, profile_directory_clean),
        cmocka_unit_test_teardown(failing_to_begin_touches_nothing, profile_directory_clean),
        cmocka_unit_test_teardown(tables_that_are_none_are_refused, profile_directory_clean),
        cmocka_unit_test_teardown(a_full_disk_keeps_the_last_state, profile_directory_clean),
        cmocka_unit_test_teardown(hostile_files_give_errors_only, profile_directory_clean),
        cmocka_unit_test_teardown(a_missing_end_is_noticed, profile_directory_clean),
        cmocka_unit_test_teardown(losses_of_later_versions_count, profile_directory_clean),
        cmocka_unit_test_teardown(query_gives_json_whatever_the_text, profile_directory_clean),
        cmocka_unit_test(wilson_is_wilson),
        cmocka_unit_test_teardown(loading_is_watched, profile_directory_clean),
    };
    return cmocka_run_group_tests(tests, profile_directory_make, profile_directory_remove);
}
