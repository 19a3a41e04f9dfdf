#include "store_open.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile.h"
#include "store.h"
#include "store_schema.h"

static int check_header(const char *path, struct base_error *error)
{
    unsigned char header[100];
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return base_fail_errno(error, errno, "%s", path);
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
        close(fd);
        return base_fail(error, BASE_EFORMAT, "%s is no regular file", path);
    }
    ssize_t got = pread(fd, header, sizeof header, 0);
    close(fd);
    if (got < 0)
        return base_fail_errno(error, errno, "%s", path);
    if (got < (ssize_t)sizeof header || memcmp(header, "SQLite format 3", 16) ||
        memcmp(header + 68, (const unsigned char[]){'T', 'A', 'L', 'Y'}, 4))
        return base_fail(error, BASE_EFORMAT,
                         "%s is no Tally profile; tally import makes one of other profilers' files", path);
    uint32_t version =
        (uint32_t)header[60] << 24 | (uint32_t)header[61] << 16 | (uint32_t)header[62] << 8 | header[63];
    if (version > STORE_VERSION)
        return base_fail(error, BASE_EFORMAT,
                         "%s is of version %u; this tally reads up to %d: use a newer one", path, version,
                         STORE_VERSION);
    return BASE_OK;
}

/* The names that doc/format.md gives to tables must be tables: a view of that name could run for ever. */
static const char COUNT_TABLES[] =
    "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name IN ('data_strings',"
    " 'data_meta', 'data_images', 'data_processes', 'data_threads', 'data_functions', 'data_inlined',"
    " 'data_addresses', 'data_nodes', 'data_counters', 'data_cells', 'data_losses', 'data_timeline', "
    "'data_edges', 'data_coverage', 'data_left', 'data_uncovered', 'data_peaks', 'data_latency',"
    " 'data_latency_calls', 'data_descriptors')";

int store_open_number(sqlite3 *db, const char *sql, int *code)
{
    sqlite3_stmt *row = NULL;
    int value = -1;
    *code = sqlite3_prepare_v2(db, sql, -1, &row, NULL);
    if (*code == SQLITE_OK && (*code = sqlite3_step(row)) == SQLITE_ROW) {
        value = sqlite3_column_int(row, 0);
        *code = SQLITE_OK;
    }
    sqlite3_finalize(row);
    return value;
}

int store_open_version(sqlite3 *db, int *code)
{
    return store_open_number(db, "PRAGMA user_version", code);
}

/* A file has the tables of its version, and not by chance those of a later one. */
static int tables_of(int version)
{
    static const int counts[] = {0, 13, 14, 17, 18, 20, 21};
    return version < 1 ? counts[1] : version > STORE_VERSION ? 0 : counts[version];
}

static int probe_schema(sqlite3 *db)
{
    int code, version = store_open_version(db, &code);
    int tables = code == SQLITE_OK ? store_open_number(db, COUNT_TABLES, &code) : 0;
    if (code != SQLITE_OK)
        return code;
    return tables == tables_of(version) ? SQLITE_OK : SQLITE_CORRUPT;
}

static int open_database(const char *path, int flags, sqlite3 **db)
{
    int code = sqlite3_open_v2(path, db, flags | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_busy_timeout(*db, 5000);
    sqlite3_db_config(*db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(*db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    code = sqlite3_exec(*db, "PRAGMA query_only=1; PRAGMA cell_size_check=1", NULL, NULL, NULL);
    return code == SQLITE_OK ? probe_schema(*db) : code;
}

/* SQLite fills a page that ends early with zeros. Asked after a rollback, which removes what a full disk let
 * in. */
static bool ends_within_a_page(const char *path)
{
    struct stat status;
    unsigned char size[2];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool within = fd < 0 || pread(fd, size, 2, 16) != 2 || fstat(fd, &status);
    if (!within) {
        unsigned page = (unsigned)size[0] << 8 | size[1];
        within = page < 512 || status.st_size % page;
    }
    if (fd >= 0)
        close(fd);
    return within;
}

static int fail_open(const char *path, sqlite3 *db, int code, struct base_error *error)
{
    int kind = code & 0xff;
    if (kind == SQLITE_NOMEM || !db)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (kind == SQLITE_BUSY)
        return base_fail(error, BASE_EBUSY, "%s is being written to; try again", path);
    if (kind == SQLITE_READONLY || kind == SQLITE_CANTOPEN || kind == SQLITE_PERM)
        return base_fail(
            error, BASE_EPERMISSION,
            "%s was left unfinished by a recorder that was killed: copy it and %s-journal to where you "
            "may write, and open it there",
            path, path);
    return base_fail(error, BASE_EFORMAT, "%s is corrupt or truncated: %s", path,
                     code == SQLITE_CORRUPT ? sqlite3_errstr(code) : sqlite3_errmsg(db));
}

int store_open_read(const char *path, sqlite3 **opened, struct base_error *error)
{
    int result = check_header(path, error);
    if (result < 0)
        return result;
    sqlite3 *db = NULL;
    int code = open_database(path, SQLITE_OPEN_READONLY, &db);
    if (code == SQLITE_READONLY_ROLLBACK || code == SQLITE_READONLY_RECOVERY ||
        (code & 0xff) == SQLITE_CANTOPEN) {
        sqlite3_close(db); /* a writable connection rolls the killed recorder's last transaction back */
        db = NULL;
        code = open_database(path, SQLITE_OPEN_READWRITE, &db);
    }
    if (code == SQLITE_OK && ends_within_a_page(path))
        code = SQLITE_CORRUPT;
    if (code == SQLITE_OK) {
        *opened = db;
        return BASE_OK;
    }
    result = fail_open(path, db, code, error);
    sqlite3_close(db);
    return result;
}
