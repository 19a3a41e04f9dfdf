/* The timeline of a profile file, read block by block: nodes that were folded after a block was written are
 * led to what they became. */
#include "store_timeline.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <zstd.h>

#include "store_open.h"

enum { LARGEST_BLOCK = 64 << 20 };

static bool get_number(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char byte = *(*at)++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return true;
    }
    return false;
}

struct timeline_reader {
    bool (*each)(void *context, const struct store_timeline_sample *sample);
    void *context;
    struct base_map folded;            /* node -> what it became by folds after the block at hand */
    uint64_t nodes, threads, counters; /* the highest numbers the file has */
};

static unsigned char *unpack_block(const void *bytes, int length, size_t *size)
{
    unsigned long long wanted = ZSTD_getFrameContentSize(bytes, (size_t)length);
    if (wanted > LARGEST_BLOCK)
        return NULL;
    unsigned char *text = malloc(wanted ? wanted : 1);
    size_t got = text ? ZSTD_decompress(text, wanted, bytes, (size_t)length) : 0;
    if (text && (ZSTD_isError(got) || got != wanted)) {
        free(text);
        text = NULL;
    }
    *size = got;
    return text;
}

static uint32_t final_node(const struct timeline_reader *reader, uint32_t node)
{
    uint32_t target = base_map_find(&reader->folded, node);
    return target == BASE_MAP_NONE ? node : target;
}

static bool read_samples(struct timeline_reader *reader, const unsigned char *at, const unsigned char *end,
                         bool *stop)
{
    uint64_t time = 0, step, values[4];
    while (at < end && !*stop) {
        if (!get_number(&at, end, &step))
            return false;
        for (int i = 0; i < 4; i++) {
            if (!get_number(&at, end, &values[i]))
                return false;
        }
        if (values[0] > reader->threads || final_node(reader, (uint32_t)values[1]) > reader->nodes ||
            values[1] > UINT32_MAX || values[2] > UINT16_MAX || values[3] > reader->counters)
            return false;
        time = step & 1 ? time - (step >> 1) : time + (step >> 1);
        struct store_timeline_sample sample = {.time_ns = time,
                                               .thread = (uint32_t)values[0],
                                               .node = final_node(reader, (uint32_t)values[1]),
                                               .cpu = values[2] ? (uint16_t)(values[2] - 1) : PROFILE_NO_CPU,
                                               .counter = (uint16_t)values[3]};
        *stop = !reader->each(reader->context, &sample);
    }
    return true;
}

/* A later fold may take up what an earlier one gave: folds are read from the last to the first. */
static bool read_fold(struct timeline_reader *reader, const unsigned char *at, const unsigned char *end)
{
    uint64_t node, target;
    while (at < end) {
        if (!get_number(&at, end, &node) || !get_number(&at, end, &target) ||
            !base_map_set(&reader->folded, (uint32_t)node, final_node(reader, (uint32_t)target)))
            return false;
    }
    return true;
}

/* How a query without further rows ended: a page that cannot be read is no end. */
static int ending_result(int code)
{
    return code == SQLITE_DONE ? BASE_OK : (code & 0xff) == SQLITE_NOMEM ? BASE_ENOMEM : BASE_EFORMAT;
}

static int read_rows(sqlite3 *db, const char *sql, int64_t after, struct timeline_reader *reader, bool fold,
                     bool *stop)
{
    sqlite3_stmt *query;
    int result = BASE_OK, code = SQLITE_ROW;
    if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) != SQLITE_OK)
        return BASE_EFORMAT;
    sqlite3_bind_int64(query, 1, after);
    while (result == BASE_OK && !*stop && (code = sqlite3_step(query)) == SQLITE_ROW) {
        size_t size;
        unsigned char *text =
            unpack_block(sqlite3_column_blob(query, 0), sqlite3_column_bytes(query, 0), &size);
        bool good = text && (fold ? read_fold(reader, text, text + size)
                                  : read_samples(reader, text, text + size, stop));
        free(text);
        result = good ? BASE_OK : BASE_EFORMAT;
    }
    sqlite3_finalize(query);
    return result == BASE_OK && !*stop ? ending_result(code) : result;
}

static int read_epoch(sqlite3 *db, int64_t epoch, struct timeline_reader *reader, bool *stop)
{
    base_map_clear(&reader->folded);
    int result =
        read_rows(db, "SELECT bytes FROM data_timeline WHERE fold = 1 AND epoch > ? ORDER BY id DESC", epoch,
                  reader, true, stop);
    if (result == BASE_OK)
        result = read_rows(db, "SELECT bytes FROM data_timeline WHERE fold = 0 AND epoch = ? ORDER BY id",
                           epoch, reader, false, stop);
    return result;
}

static uint64_t highest_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *query = NULL;
    uint64_t number = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK && sqlite3_step(query) == SQLITE_ROW)
        number = (uint64_t)sqlite3_column_int64(query, 0);
    sqlite3_finalize(query);
    return number < UINT32_MAX ? number : 0;
}

static void find_limits(sqlite3 *db, struct timeline_reader *reader)
{
    reader->nodes = highest_number(db, "SELECT max(id) FROM data_nodes");
    reader->threads = highest_number(db, "SELECT max(id) FROM data_threads");
    reader->counters = highest_number(db, "SELECT max(id) FROM data_counters");
}

int store_timeline_each(const char *path,
                        bool (*each)(void *context, const struct store_timeline_sample *sample),
                        void *context, struct base_error *error)
{
    struct timeline_reader reader = {.each = each, .context = context};
    sqlite3 *db;
    sqlite3_stmt *epochs = NULL;
    bool stop = false;
    int code = SQLITE_ROW, result = store_open_read(path, &db, error);
    if (result < 0)
        return result;
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL); /* one state of a file that is being recorded */
    find_limits(db, &reader);
    if (sqlite3_prepare_v2(db, "SELECT DISTINCT epoch FROM data_timeline WHERE fold = 0 ORDER BY epoch", -1,
                           &epochs, NULL))
        result = base_fail(error, BASE_EFORMAT, "%s: %s", path, sqlite3_errmsg(db));
    while (result == BASE_OK && !stop && (code = sqlite3_step(epochs)) == SQLITE_ROW)
        result = read_epoch(db, sqlite3_column_int64(epochs, 0), &reader, &stop);
    if (result == BASE_OK && !stop)
        result = ending_result(code);
    if (result == BASE_ENOMEM)
        base_fail(error, BASE_ENOMEM, "out of memory for the timeline");
    if (result == BASE_EFORMAT)
        base_fail(error, BASE_EFORMAT, "%s: its timeline is corrupt", path);
    sqlite3_finalize(epochs);
    sqlite3_close(db);
    base_map_free(&reader.folded);
    return result;
}
