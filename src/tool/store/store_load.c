/* Reading a profile, which may come from an untrusted source: read only, trusted_schema off, only tables of
 * the kind that doc/format.md names, and every number checked before it becomes an index. A journal that a
 * killed recorder left is rolled back by SQLite when this user may write there; else loading fails with a
 * message: half a transaction is no profile. */
#include "store.h"

#include <sqlite3.h>
#include <string.h>

#include "base_array.h"
#include "profile_model.h"
#include "store_open.h"
#include "store_schema.h"
#include "wire_latency.h"

/* --- rows --- */

struct loader {
    struct profile *profile;
    sqlite3 *db;
    const char *path;
    bool no_memory, corrupt;
    size_t gaps; /* entries that no row has filled */
    store_watch *watch;
    void *context;
    size_t done, total; /* rows */
};

enum { ROWS_BETWEEN_TELLING = 4096 };

static void load_report(struct loader *loader)
{
    if (loader->watch && ++loader->done % ROWS_BETWEEN_TELLING == 0)
        loader->watch(loader->context, loader->done,
                      loader->done < loader->total ? loader->total : loader->done);
}

/* Slots that folding freed leave gaps among the nodes; a file cannot claim more than this many. */
enum { MOST_GAPS = 1 << 24 };

static uint32_t index_of(struct loader *loader, sqlite3_stmt *row, int column, size_t count)
{
    int64_t value = sqlite3_column_int64(row, column);
    if (value < 0 || (uint64_t)value >= count) {
        loader->corrupt = true;
        return 0;
    }
    return (uint32_t)value;
}

typedef void load_row(struct loader *loader, sqlite3_stmt *row, size_t index);

/* Makes `items` hold index `id` (rows come in order; gaps are empty entries). */
static bool extend_items(struct loader *loader, void **items, size_t *count, size_t *capacity, size_t size,
                         int64_t id)
{
    if (id < 1 || id > INT32_MAX || (size_t)id < *count || (size_t)id - *count > MOST_GAPS - loader->gaps) {
        loader->corrupt = true;
        return false;
    }
    loader->gaps += (size_t)id - *count;
    while (*count <= (size_t)id) {
        if (!base_array_reserve(items, capacity, *count, size)) {
            loader->no_memory = true;
            return false;
        }
        memset((char *)*items + *count * size, 0, size);
        ++*count;
    }
    return true;
}

static bool is_good(struct loader *loader, int code)
{
    if ((code & 0xff) == SQLITE_NOMEM)
        loader->no_memory = true;
    else if (code != SQLITE_OK)
        loader->corrupt = true;
    return code == SQLITE_OK;
}

/* Where the rows of a query go: an array that grows with their ids, or (items NULL) wherever `load` puts
 * them. */
struct rows {
    void **items;
    size_t *count, *capacity, size;
    load_row *load;
};

static void load_table(struct loader *loader, const char *sql, struct rows rows)
{
    sqlite3_stmt *row;
    if (loader->corrupt || loader->no_memory)
        return;
    if (!is_good(loader, sqlite3_prepare_v2(loader->db, sql, -1, &row, NULL)))
        return;
    int code;
    while (!loader->corrupt && !loader->no_memory && (code = sqlite3_step(row)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(row, 0);
        load_report(loader);
        if (!rows.items || extend_items(loader, rows.items, rows.count, rows.capacity, rows.size, id))
            rows.load(loader, row, (size_t)id);
    }
    is_good(loader, sqlite3_finalize(row));
}

static void load_string(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    struct profile_strings *strings = &loader->profile->self->strings;
    const char *text = (const char *)sqlite3_column_text(row, 1);
    if (id != strings->count) {
        loader->corrupt = true; /* strings are never removed */
        return;
    }
    size_t length = text ? strlen(text) : 0;
    if (!profile_string_append(loader->profile, text ? text : "", length))
        loader->no_memory = true;
}

#define STRING(column) index_of(loader, row, column, loader->profile->self->strings.count)

static void load_image(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    loader->profile->images[id] =
        (struct profile_image){.name = STRING(1),
                               .path = STRING(2),
                               .build_id = STRING(3),
                               .kind = index_of(loader, row, 4, 256),
                               .process = index_of(loader, row, 5, loader->profile->process_count)};
}

static void load_process(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    loader->profile->processes[id] =
        (struct profile_process){.pid = sqlite3_column_int(row, 1),
                                 .parent_pid = sqlite3_column_int(row, 2),
                                 .name = STRING(3),
                                 .command = STRING(4),
                                 .start_ns = (uint64_t)sqlite3_column_int64(row, 5),
                                 .end_ns = (uint64_t)sqlite3_column_int64(row, 6),
                                 .origin = index_of(loader, row, 7, INT32_MAX),
                                 .cgroup = STRING(8)};
}

static void load_thread(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    loader->profile->threads[id] =
        (struct profile_thread){.process = index_of(loader, row, 1, loader->profile->process_count),
                                .tid = sqlite3_column_int(row, 2),
                                .name = STRING(3)};
}

static void load_function(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    loader->profile->functions[id] =
        (struct profile_function){.name = STRING(1),
                                  .image = index_of(loader, row, 2, loader->profile->image_count),
                                  .start = (uint64_t)sqlite3_column_int64(row, 3),
                                  .end = (uint64_t)sqlite3_column_int64(row, 4)};
}

/* A level's outer one was made before it: chains cannot be cycles. */
static void load_inlined(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    loader->profile->inlined[id] = (struct profile_inlined){.function_name = STRING(1),
                                                            .file = STRING(2),
                                                            .line = (uint32_t)sqlite3_column_int64(row, 3),
                                                            .outer = index_of(loader, row, 4, id)};
}

static void load_address(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    const struct profile *profile = loader->profile;
    profile->addresses[id] =
        (struct profile_address){.address = (uint64_t)sqlite3_column_int64(row, 1),
                                 .image = index_of(loader, row, 2, profile->image_count),
                                 .function = index_of(loader, row, 3, profile->function_count),
                                 .file = STRING(4),
                                 .line = (uint32_t)sqlite3_column_int64(row, 5),
                                 .inlined = index_of(loader, row, 6, profile->inlined_count),
                                 .resolution = (uint8_t)index_of(loader, row, 7, 3),
                                 .lines_known = sqlite3_column_int(row, 8) != 0};
}

static void load_node(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    loader->profile->nodes[id] =
        (struct profile_node){.parent = index_of(loader, row, 1, INT32_MAX),
                              .address = index_of(loader, row, 2, loader->profile->address_count),
                              .flags = (uint32_t)sqlite3_column_int64(row, 3)};
    loader->profile->live_nodes++;
}

static void load_counter(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    loader->profile->counters[id] = (struct profile_counter){.name = STRING(1),
                                                             .unit = STRING(2),
                                                             .exact = sqlite3_column_int(row, 3) != 0,
                                                             .combine = index_of(loader, row, 4, 16)};
}

static void load_cell(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    struct profile *profile = loader->profile;
    struct profile_model *self = profile->self;
    (void)id;
    if (!base_array_room(profile->cells, profile->cell_count, self->cell_capacity)) {
        loader->no_memory = true;
        return;
    }
    int cpu = sqlite3_column_int(row, 3);
    profile->cells[profile->cell_count++] =
        (struct profile_cell){.node = index_of(loader, row, 1, profile->node_count),
                              .thread = index_of(loader, row, 2, profile->thread_count),
                              .cpu = cpu < 0 || cpu > PROFILE_NO_CPU ? PROFILE_NO_CPU : (uint16_t)cpu,
                              .counter = (uint16_t)index_of(loader, row, 4, profile->counter_count),
                              .value = sqlite3_column_int64(row, 5),
                              .samples = (uint64_t)sqlite3_column_int64(row, 6)};
}

static void load_meta(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    (void)id;
    const char *key = (const char *)sqlite3_column_text(row, 0),
               *value = (const char *)sqlite3_column_text(row, 1);
    if (key && value)
        profile_set_meta(loader->profile, key, value);
}

/* Numbers that a later version gave are no reason to say that nothing was lost: those past the end share the
 * last one, which nobody has. */
static void load_loss(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    uint64_t *loss = &loader->profile->losses[id < PROFILE_LOSSES ? id : PROFILE_LOSSES - 1];
    if (__builtin_add_overflow(*loss, (uint64_t)sqlite3_column_int64(row, 1), loss))
        *loss = UINT64_MAX;
}

static void load_edge(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    const struct profile *profile = loader->profile;
    int64_t calls = sqlite3_column_int64(row, 5);
    loader->corrupt |= calls < 0;
    profile->edges[id] = (struct profile_edge){.site = index_of(loader, row, 1, profile->address_count),
                                               .callee = index_of(loader, row, 2, profile->address_count),
                                               .thread = index_of(loader, row, 3, profile->thread_count),
                                               .kind = index_of(loader, row, 4, PROFILE_CALL_KINDS),
                                               .calls = (uint64_t)calls};
}

static void load_coverage(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    const struct profile *profile = loader->profile;
    profile->coverage[id] =
        (struct profile_coverage){.image = index_of(loader, row, 1, profile->image_count),
                                  .kind = index_of(loader, row, 2, PROFILE_COVERAGE_KINDS),
                                  .found = (uint64_t)sqlite3_column_int64(row, 3),
                                  .counted = (uint64_t)sqlite3_column_int64(row, 4)};
}

static void load_left(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    const struct profile *profile = loader->profile;
    profile->left[id] = (struct profile_left){.image = index_of(loader, row, 1, profile->image_count),
                                              .code = index_of(loader, row, 2, UINT32_MAX),
                                              .reason = STRING(3),
                                              .count = (uint64_t)sqlite3_column_int64(row, 4)};
}

static void load_uncovered(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    const struct profile *profile = loader->profile;
    profile->uncovered[id] =
        (struct profile_uncovered){.image = index_of(loader, row, 1, profile->image_count),
                                   .address = (uint64_t)sqlite3_column_int64(row, 2),
                                   .name = STRING(3),
                                   .reason = STRING(4)};
}

static void load_peak(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    const struct profile *profile = loader->profile;
    profile->peaks[id] = (struct profile_peak){.process = index_of(loader, row, 1, profile->process_count),
                                               .counter = index_of(loader, row, 2, profile->counter_count),
                                               .value = sqlite3_column_int64(row, 3),
                                               .time_ns = (uint64_t)sqlite3_column_int64(row, 4)};
}

static void load_latency(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    const struct profile *profile = loader->profile;
    profile->latencies[id] =
        (struct profile_latency){.process = index_of(loader, row, 1, profile->process_count),
                                 .address = index_of(loader, row, 2, profile->address_count),
                                 .sum_ns = (uint64_t)sqlite3_column_int64(row, 3),
                                 .min_ns = (uint64_t)sqlite3_column_int64(row, 4),
                                 .max_ns = (uint64_t)sqlite3_column_int64(row, 5)};
}

static void load_latency_calls(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    const struct profile *profile = loader->profile;
    profile->latency_buckets[id] =
        (struct profile_latency_bucket){.latency = index_of(loader, row, 1, profile->latency_count),
                                        .bucket = index_of(loader, row, 2, WIRE_LATENCY_BUCKETS),
                                        .calls = (uint64_t)sqlite3_column_int64(row, 3)};
}

static void load_descriptor(struct loader *loader, sqlite3_stmt *row, size_t id)
{
    const struct profile *profile = loader->profile;
    int64_t origin = sqlite3_column_int64(row, 4);
    profile->descriptors[id] = (struct profile_descriptor){
        .process = index_of(loader, row, 1, profile->process_count),
        .node = index_of(loader, row, 2, profile->node_count),
        .number = (uint32_t)sqlite3_column_int64(row, 3),
        .origin = origin >= 0 && origin < PROFILE_DESCRIPTOR_ORIGINS ? (uint32_t)origin
                                                                     : PROFILE_DESCRIPTOR_ORIGINS,
        .kind = STRING(5),
        .name = STRING(6),
        .opened_ns = (uint64_t)sqlite3_column_int64(row, 7),
        .age_ns = (uint64_t)sqlite3_column_int64(row, 8)};
    profile->self->free_descriptors += origin == 0;
}

/* What a later version than `since` brought is in the file. */
static bool is_since(struct loader *loader, int since)
{
    int code, version = store_open_version(loader->db, &code);
    return is_good(loader, code) && version >= since;
}

/* `origin` came within version 3, `cgroup` within version 6: 0 where the file has no such column. */
static const char *process_rows(struct loader *loader)
{
    int code, columns = store_open_number(loader->db,
                                          "SELECT count(*) FROM pragma_table_info('data_processes') "
                                          "WHERE name IN ('origin', 'cgroup')",
                                          &code);
    is_good(loader, code);
    return columns > 1 ? "SELECT id, pid, parent_pid, name, command, start_ns, end_ns, origin, cgroup"
                         " FROM data_processes ORDER BY id"
           : columns   ? "SELECT id, pid, parent_pid, name, command, start_ns, end_ns, origin, 0"
                         " FROM data_processes ORDER BY id"
                       : "SELECT id, pid, parent_pid, name, command, start_ns, end_ns, 0, 0"
                         " FROM data_processes ORDER BY id";
}

#define TABLE(sql, array, one)                                                                               \
    load_table(loader, sql,                                                                                  \
               (struct rows){(void **)&loader->profile->array##s, &loader->profile->one##_count,             \
                             &loader->profile->self->one##_capacity, sizeof *loader->profile->array##s,      \
                             load_##one})

static void load_all_coverage(struct loader *loader)
{
    struct profile *profile = loader->profile;
    struct profile_model *self = profile->self;
    load_table(loader, "SELECT id, image, kind, found, counted FROM data_coverage ORDER BY id",
               (struct rows){(void **)&profile->coverage, &profile->coverage_count, &self->coverage_capacity,
                             sizeof *profile->coverage, load_coverage});
    load_table(loader, "SELECT id, image, code, reason, count FROM data_left ORDER BY id",
               (struct rows){(void **)&profile->left, &profile->left_count, &self->left_capacity,
                             sizeof *profile->left, load_left});
    load_table(loader, "SELECT id, image, address, name, reason FROM data_uncovered ORDER BY id",
               (struct rows){(void **)&profile->uncovered, &profile->uncovered_count,
                             &self->uncovered_capacity, sizeof *profile->uncovered, load_uncovered});
}

static void load_all_latencies(struct loader *loader)
{
    struct profile *profile = loader->profile;
    struct profile_model *self = profile->self;
    load_table(loader, "SELECT id, process, address, sum_ns, min_ns, max_ns FROM data_latency ORDER BY id",
               (struct rows){(void **)&profile->latencies, &profile->latency_count, &self->latency_capacity,
                             sizeof *profile->latencies, load_latency});
    load_table(loader, "SELECT id, latency, bucket, calls FROM data_latency_calls ORDER BY id",
               (struct rows){(void **)&profile->latency_buckets, &profile->latency_bucket_count,
                             &self->latency_bucket_capacity, sizeof *profile->latency_buckets,
                             load_latency_calls});
}

/* About how many rows there are to come, by the last numbers of the long tables: no table is read for it. */
static size_t count_rows(struct loader *loader)
{
    static const char *const tables[] = {"data_strings", "data_functions", "data_addresses", "data_nodes",
                                         "data_cells"};
    size_t sum = 0;
    for (size_t i = 0; loader->watch && i < sizeof tables / sizeof *tables; i++) {
        char sql[64];
        int code;
        snprintf(sql, sizeof sql, "SELECT max(id) FROM %s", tables[i]);
        int last = store_open_number(loader->db, sql, &code);
        sum += code == SQLITE_OK && last > 0 ? (size_t)last : 0;
    }
    return sum;
}

static void load_all(struct loader *loader)
{
    struct profile *profile = loader->profile;
    load_table(loader, "SELECT id, text FROM data_strings ORDER BY id", (struct rows){.load = load_string});
    load_table(loader, process_rows(loader),
               (struct rows){(void **)&profile->processes, &profile->process_count,
                             &profile->self->process_capacity, sizeof *profile->processes, load_process});
    TABLE("SELECT id, name, path, build_id, kind, process FROM data_images ORDER BY id", image, image);
    TABLE("SELECT id, process, tid, name FROM data_threads ORDER BY id", thread, thread);
    TABLE("SELECT id, name, image, start, end FROM data_functions ORDER BY id", function, function);
    load_table(loader, "SELECT id, function, file, line, outer_level FROM data_inlined ORDER BY id",
               (struct rows){(void **)&profile->inlined, &profile->inlined_count,
                             &profile->self->inlined_capacity, sizeof *profile->inlined, load_inlined});
    load_table(loader,
               "SELECT id, address, image, function, file, line, inlined, resolution, lines_known FROM "
               "data_addresses ORDER BY id",
               (struct rows){(void **)&profile->addresses, &profile->address_count,
                             &profile->self->address_capacity, sizeof *profile->addresses, load_address});
    TABLE("SELECT id, parent, address, flags FROM data_nodes ORDER BY id", node, node);
    TABLE("SELECT id, name, unit, exact, combine FROM data_counters ORDER BY id", counter, counter);
    load_table(loader, "SELECT id, node, thread, cpu, counter, value, samples FROM data_cells",
               (struct rows){.load = load_cell});
    if (is_since(loader, 2))
        TABLE("SELECT id, site, callee, thread, kind, calls FROM data_edges ORDER BY id", edge, edge);
    if (is_since(loader, 3))
        load_all_coverage(loader);
    if (is_since(loader, 4))
        TABLE("SELECT id, process, counter, value, time_ns FROM data_peaks ORDER BY id", peak, peak);
    if (is_since(loader, 5))
        load_all_latencies(loader);
    if (is_since(loader, 6))
        TABLE("SELECT id, process, node, number, origin, kind, name, opened_ns, age_ns FROM data_descriptors "
              "ORDER BY id",
              descriptor, descriptor);
    load_table(loader, "SELECT key, value FROM data_meta", (struct rows){.load = load_meta});
    load_table(loader, "SELECT number, count FROM data_losses", (struct rows){.load = load_loss});
}

/* The special address has no column of its own: it is what "(folded)" is at. */
static void find_folded_address(struct profile *profile)
{
    for (uint32_t i = 1; i < profile->address_count; i++) {
        const struct profile_image *image = &profile->images[profile->addresses[i].image];
        if (image->kind == PROFILE_IMAGE_SPECIAL && !strcmp(profile_text(profile, image->name), "(folded)"))
            profile->folded_address = i;
    }
}

static void mark_tables_stale(struct profile *profile)
{
    for (int i = 0; i < PROFILE_TABLES; i++)
        profile->self->tables[i].stale = true;
}

int store_load(const char *path, struct profile **loaded, struct base_error *error)
{
    return store_load_watched(path, NULL, NULL, loaded, error);
}

int store_load_watched(const char *path, store_watch *watch, void *context, struct profile **loaded,
                       struct base_error *error)
{
    struct loader loader = {.path = path, .profile = profile_new(), .watch = watch, .context = context};
    if (!loader.profile)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = store_open_read(path, &loader.db, error);
    if (result < 0) {
        profile_free(loader.profile);
        return result;
    }
    sqlite3_exec(loader.db, "BEGIN", NULL, NULL, NULL); /* one state of a file that is being recorded */
    mark_tables_stale(loader.profile);
    loader.total = count_rows(&loader);
    load_all(&loader);
    sqlite3_close(loader.db);
    find_folded_address(loader.profile);
    struct base_error reason = {0};
    if (loader.no_memory)
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    else if (loader.corrupt || profile_check(loader.profile, &reason) < 0)
        result = base_fail(error, BASE_EFORMAT, "%s is corrupt or truncated%s%s", path,
                           reason.text[0] ? ": " : "", reason.text);
    if (result < 0)
        profile_free(loader.profile);
    else
        *loaded = loader.profile;
    return result;
}
