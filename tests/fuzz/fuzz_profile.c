/* fuzz_profile - damaged profiles: errors, or models that hold together; never a crash, a hang or an endless
 * allocation.
 *
 *   fuzz_profile FILE...                  reads each as it is
 *   fuzz_profile --seeds N FILE...        reads N damaged copies of each, and of one with a timeline and
 *                                         folds of its own: bytes changed anywhere, ends cut off, numbers in
 *                                         tables replaced (by SQL, so that SQLite itself has nothing to
 *                                         complain of); without TALLY_LONG a quarter of them, for `make check`
 *
 * What can be read is exported in every format, and merged with itself. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base_map.h"
#include "export.h"
#include "fuzz_file.h"
#include "merge.h"
#include "profile.h"
#include "store.h"
#include "store_period.h"
#include "store_timeline.h"

static char copy[] = "/tmp/tally-fuzz-XXXXXX";

static bool write_copy(const uint8_t *data, size_t size)
{
    FILE *file = fopen(copy, "wb");
    bool good = file && fwrite(data, 1, size, file) == size;
    return file && fclose(file) == 0 && good;
}

/* --- one file --- */

static bool count_samples(void *context, const struct store_timeline_sample *sample)
{
    (void)sample;
    return ++*(uint64_t *)context < 1000000;
}

static uint64_t walk_coverage(const struct profile *profile)
{
    uint64_t seen = 0;
    for (size_t i = 1; i < profile->coverage_count; i++)
        seen += profile->images[profile->coverage[i].image].name + profile->coverage[i].kind;
    for (size_t i = 1; i < profile->left_count; i++)
        seen += profile->images[profile->left[i].image].name +
                strlen(profile_text(profile, profile->left[i].reason));
    for (size_t i = 1; i < profile->uncovered_count; i++)
        seen += profile->images[profile->uncovered[i].image].name +
                strlen(profile_text(profile, profile->uncovered[i].name)) +
                strlen(profile_text(profile, profile->uncovered[i].reason));
    return seen;
}

/* Everything a report follows: texts, parents, inlined levels. */
static uint64_t walk(const struct profile *profile)
{
    uint64_t seen = 0;
    for (size_t i = 1; i < profile->node_count; i++) {
        const struct profile_address *address = &profile->addresses[profile->nodes[i].address];
        seen += strlen(profile_text(profile, profile->images[address->image].name));
        seen += strlen(profile_text(profile, profile->functions[address->function].name));
        for (uint32_t level = address->inlined; level; level = profile->inlined[level].outer)
            seen += strlen(profile_text(profile, profile->inlined[level].function_name));
    }
    for (size_t i = 0; i < profile->cell_count; i++)
        seen += profile->threads[profile->cells[i].thread].process < profile->process_count;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        seen += profile->addresses[edge->site].address + profile->addresses[edge->callee].address;
        seen += profile->threads[edge->thread].process + edge->calls;
    }
    return seen + walk_coverage(profile);
}

static bool swallow(void *context, const void *bytes, size_t length)
{
    uint64_t *sum = context;
    *sum += length ? ((const unsigned char *)bytes)[length - 1] : 0;
    return true;
}

static bool try_exports(const struct profile *profile)
{
    static const struct export_options forms[] = {
        {.format = EXPORT_PPROF, .preferred = 1},
        {.format = EXPORT_CALLGRIND},
        {.format = EXPORT_CALLGRIND, .inlines = true},
        {.format = EXPORT_FOLDED, .marks = true, .threads = true},
        {.format = EXPORT_SPEEDSCOPE},
        {.format = EXPORT_GPROF},
        {.format = EXPORT_FIREFOX},
        {.format = EXPORT_PERFETTO},
        {.format = EXPORT_CSV, .table = EXPORT_FLAT, .inlines = true},
        {.format = EXPORT_CSV, .table = EXPORT_TREE},
        {.format = EXPORT_CSV, .table = EXPORT_EDGES},
        {.format = EXPORT_CSV, .table = EXPORT_COUNTERS},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct export_options options = forms[i];
        uint64_t sum = 0;
        options.creator = options.file = "fuzz";
        good = export_profile(profile, &options, swallow, &sum, NULL) == BASE_OK && good;
    }
    return good;
}

/* The parts may be refused, with a reason, never what came of them. */
static bool try_merge(const struct profile *profile, const char *path)
{
    struct profile *into = profile_new();
    struct base_error error = {0};
    int result = BASE_OK;
    for (int i = 0; i < 2 && result == BASE_OK; i++)
        result = merge_add(into, profile, path, &error);
    if (result == BASE_OK)
        result = merge_finish(into, &error);
    bool good = result == BASE_OK ? profile_check(into, &error) == BASE_OK : error.text[0];
    profile_free(into);
    return good;
}

/* With the times of its samples, of which a damaged file may have any; then a part of them, which leaves a
 * model in order. */
static bool try_times(struct profile *profile, const char *path)
{
    const struct store_period period = {1000000, 1u << 30};
    struct store_timeline_list times;
    struct base_error error = {0};
    uint64_t sum = 0;
    if (store_timeline_read(path, profile, &times, &error) < 0)
        return error.text[0] != '\0';
    struct export_options options = {
        .counter = profile->counter_count > 1, .times = &times, .creator = "", .file = ""};
    bool good = true;
    for (options.format = EXPORT_FIREFOX; options.format <= EXPORT_PERFETTO; options.format++)
        good = export_profile(profile, &options, swallow, &sum, NULL) == BASE_OK && good;
    store_period_cut(&times, &period);
    good = store_period_keep(profile, &times, &error) == BASE_OK &&
           profile_check(profile, &error) == BASE_OK && try_exports(profile) && good;
    store_timeline_list_free(&times);
    return good;
}

static bool try_file(const char *path)
{
    struct profile *profile = NULL;
    struct base_error error = {0};
    uint64_t samples = 0;
    if (store_load(path, &profile, &error) < 0) {
        if (!error.text[0])
            return false;
    } else if (profile_check(profile, &error) < 0 || walk(profile) == UINT64_MAX || !try_exports(profile) ||
               !try_merge(profile, path) || !try_times(profile, path)) {
        return false;
    }
    profile_free(profile);
    base_error_clear(&error);
    int result = store_timeline_each(path, count_samples, &samples, &error);
    return result == BASE_OK || error.text[0];
}

/* --- damage --- */

static const char *const columns[][2] = {
    {"data_strings", "id"},        {"data_images", "name"},
    {"data_images", "process"},    {"data_threads", "process"},
    {"data_functions", "image"},   {"data_inlined", "outer_level"},
    {"data_addresses", "image"},   {"data_addresses", "function"},
    {"data_addresses", "inlined"}, {"data_addresses", "resolution"},
    {"data_nodes", "id"},          {"data_nodes", "parent"},
    {"data_nodes", "address"},     {"data_counters", "name"},
    {"data_cells", "node"},        {"data_cells", "thread"},
    {"data_cells", "counter"},     {"data_cells", "cpu"},
    {"data_timeline", "epoch"},    {"data_timeline", "bytes"},
    {"data_losses", "number"},     {"data_images", "kind"},
    {"data_edges", "site"},        {"data_edges", "callee"},
    {"data_edges", "thread"},      {"data_edges", "kind"},
    {"data_edges", "calls"},       {"data_edges", "id"},
    {"data_coverage", "image"},    {"data_coverage", "kind"},
    {"data_coverage", "found"},    {"data_coverage", "counted"},
    {"data_coverage", "id"},       {"data_left", "image"},
    {"data_left", "code"},         {"data_left", "reason"},
    {"data_left", "count"},        {"data_left", "id"},
    {"data_uncovered", "image"},   {"data_uncovered", "address"},
    {"data_uncovered", "name"},    {"data_uncovered", "reason"},
    {"data_uncovered", "id"},      {"data_processes", "origin"},
};
static const char *const values[] = {
    "-1", "0", "1", "2147483647", "4294967296", "9223372036854775807", "'text'", "NULL", "x'28b52ffd'"};

static void damage_by_sql(uint64_t *random)
{
    sqlite3 *db;
    if (sqlite3_open_v2(copy, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) {
        sqlite3_exec(db, "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF", NULL, NULL, NULL);
        for (uint64_t i = fuzz_random(random) % 3 + 1; i > 0; i--) {
            const char *const *column = columns[fuzz_random(random) % (sizeof columns / sizeof *columns)];
            const char *value = values[fuzz_random(random) % (sizeof values / sizeof *values)];
            char *sql = sqlite3_mprintf(
                "UPDATE OR REPLACE %s SET %s = %s WHERE rowid = (SELECT rowid FROM %s LIMIT 1 OFFSET %d)",
                column[0], column[1], value, column[0], (int)(fuzz_random(random) % 40));
            sqlite3_exec(db, sql, NULL, NULL, NULL);
            sqlite3_free(sql);
        }
    }
    sqlite3_close(db);
}

/* A profile with what the files may lack: a timeline, folds, slots used again. */
static bool make_profile(const char *path)
{
    struct profile *profile = profile_new();
    struct store *store;
    profile->max_nodes = 300;
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/x", "abcd", 0);
    uint32_t counter = profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint32_t thread = profile_thread(profile, profile_process(profile, 10, 0), 11);
    for (uint64_t i = 0; i < 3000; i++) {
        uint32_t stack[6];
        for (uint64_t level = 0; level < 6; level++)
            stack[level] = profile_address(profile, image, base_hash(i * 8 + level) % (level < 3 ? 3 : 90));
        uint32_t node = profile_stack(profile, stack, NULL, 6);
        profile_count(profile, (struct profile_key){node, thread, 0, (uint16_t)counter}, 1000, 1);
        profile_timeline_add(profile, i * 1000, thread, node, 0, (uint16_t)counter);
        profile_add_calls(profile, profile_edge(profile, stack[1], stack[5], thread, 1 + i % 4), i);
    }
    profile_set_coverage(profile, image, PROFILE_COVERAGE_SITES, 90, 80);
    for (uint32_t i = 0; i < 30; i++) {
        profile_set_left(profile, image, i, "left alone", i + 1);
        profile_set_uncovered(profile, image, i, i % 2 ? "f" : NULL, "left alone");
    }
    bool good = profile_folds(profile) > 3 && store_create(path, &store, NULL) == BASE_OK &&
                store_close(store, profile, false, NULL) == BASE_OK;
    profile_free(profile);
    return good;
}

static bool try_seed(const struct fuzz_file *bytes, uint64_t seed)
{
    uint64_t random = seed;
    bool by_sql = fuzz_random(&random) % 2;
    uint8_t *data = malloc(bytes->size + 1);
    memcpy(data, bytes->data, bytes->size);
    for (uint64_t i = by_sql ? 0 : fuzz_random(&random) % 32 + 1; i > 0; i--)
        data[100 + fuzz_random(&random) % (bytes->size - 100)] = (uint8_t)fuzz_random(&random);
    size_t left = !by_sql && fuzz_random(&random) % 8 == 0 ? fuzz_random(&random) % bytes->size : bytes->size;
    bool good = write_copy(data, left);
    free(data);
    if (by_sql)
        damage_by_sql(&random);
    good = good && try_file(copy);
    if (!good)
        fprintf(stderr, "fuzz_profile: seed %llu\n", (unsigned long long)seed);
    return good;
}

static bool try_seeds(const char *path, uint64_t seeds)
{
    struct fuzz_file bytes = fuzz_file_read(path);
    bool good = bytes.size > 100 && try_file(path);
    for (uint64_t seed = 1; bytes.size > 100 && seed <= seeds; seed++)
        good = try_seed(&bytes, seed) && good;
    free(bytes.data);
    return good;
}

int main(int argc, char **argv)
{
    bool damaged = argc > 3 && !strcmp(argv[1], "--seeds"), good = argc > 1;
    uint64_t seeds = damaged ? strtoull(argv[2], NULL, 10) / (getenv("TALLY_LONG") ? 1 : 4) : 0;
    int fd = mkstemp(copy);
    if (fd < 0)
        return 1;
    close(fd);
    for (int i = damaged ? 3 : 1; i < argc; i++)
        good = try_seeds(argv[i], seeds) && good;
    char made[sizeof copy + 8];
    snprintf(made, sizeof made, "%s.made", copy);
    if (damaged)
        good = make_profile(made) && try_seeds(made, seeds) && good;
    unlink(made);
    unlink(copy);
    return good ? 0 : 1;
}
