/* store_create.c - making the file of a profile, and room for it: what has the name already is
 * moved aside, and comes back when the recording fails. store.c begins with the rules. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_path.h"
#include "store_inside.h"
#include "store_open.h"
#include "store_schema.h"

static const char *const statement_texts[STORE_STATEMENTS] = {
    [STORE_PUT_STRING] = "INSERT OR REPLACE INTO data_strings VALUES(?,?)",
    [STORE_PUT_META] = "INSERT OR REPLACE INTO data_meta VALUES(?,?)",
    [STORE_PUT_IMAGE] = "INSERT OR REPLACE INTO data_images VALUES(?,?,?,?,?,?)",
    [STORE_PUT_PROCESS] = "INSERT OR REPLACE INTO data_processes VALUES(?,?,?,?,?,?,?,?,?)",
    [STORE_PUT_THREAD] = "INSERT OR REPLACE INTO data_threads VALUES(?,?,?,?)",
    [STORE_PUT_FUNCTION] = "INSERT OR REPLACE INTO data_functions VALUES(?,?,?,?,?)",
    [STORE_PUT_INLINED] = "INSERT OR REPLACE INTO data_inlined VALUES(?,?,?,?,?)",
    [STORE_PUT_ADDRESS] = "INSERT OR REPLACE INTO data_addresses VALUES(?,?,?,?,?,?,?,?,?)",
    [STORE_PUT_NODE] = "INSERT OR REPLACE INTO data_nodes VALUES(?,?,?,?)",
    [STORE_DROP_NODE] = "DELETE FROM data_nodes WHERE id = ?",
    [STORE_PUT_COUNTER] = "INSERT OR REPLACE INTO data_counters VALUES(?,?,?,?,?)",
    [STORE_PUT_CELL] = "INSERT OR REPLACE INTO data_cells VALUES(?,?,?,?,?,?,?)",
    [STORE_DROP_CELLS] = "DELETE FROM data_cells WHERE id > ?",
    [STORE_PUT_LOSS] = "INSERT OR REPLACE INTO data_losses VALUES(?,?,?)",
    [STORE_PUT_BLOCK] =
        "INSERT INTO data_timeline(epoch, fold, first_ns, last_ns, entries, bytes) VALUES(?,?,?,?,?,?)",
    [STORE_PUT_EDGE] = "INSERT OR REPLACE INTO data_edges VALUES(?,?,?,?,?,?)",
    [STORE_PUT_COVERAGE] = "INSERT OR REPLACE INTO data_coverage VALUES(?,?,?,?,?)",
    [STORE_PUT_LEFT] = "INSERT OR REPLACE INTO data_left VALUES(?,?,?,?,?)",
    [STORE_PUT_UNCOVERED] = "INSERT OR REPLACE INTO data_uncovered VALUES(?,?,?,?,?)",
    [STORE_PUT_PEAK] = "INSERT OR REPLACE INTO data_peaks VALUES(?,?,?,?,?)",
    [STORE_PUT_LATENCY] = "INSERT OR REPLACE INTO data_latency VALUES(?,?,?,?,?,?)",
    [STORE_PUT_LATENCY_CALLS] = "INSERT OR REPLACE INTO data_latency_calls VALUES(?,?,?,?)",
    [STORE_PUT_DESCRIPTOR] = "INSERT OR REPLACE INTO data_descriptors VALUES(?,?,?,?,?,?,?,?,?)",
};

int store_fail(struct store *store, const char *what, struct base_error *error)
{
    int code = sqlite3_errcode(store->db) & 0xff, system = sqlite3_system_errno(store->db);
    const char *reason = code == SQLITE_FULL ? "no space left on the disk" : sqlite3_errmsg(store->db);
    if (code == SQLITE_IOERR && (system == EFBIG || system == ENOSPC || system == EDQUOT))
        reason = strerror(system);
    return base_fail(error, BASE_EIO, "%s: %s: %s", store->path, what, reason);
}

static bool is_profile(int fd)
{
    unsigned char header[100];
    if (pread(fd, header, sizeof header, 0) != (ssize_t)sizeof header ||
        memcmp(header, "SQLite format 3", 16))
        return false;
    uint32_t id =
        (uint32_t)header[68] << 24 | (uint32_t)header[69] << 16 | (uint32_t)header[70] << 8 | header[71];
    return id == STORE_APPLICATION_ID;
}

static int pid_of_recorder(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *query = NULL;
    int pid = 0;
    if (store_open_read(path, &db, NULL) < 0)
        return 0;
    if (sqlite3_prepare_v2(db, "SELECT value FROM data_meta WHERE key = 'recorder_pid'", -1, &query, NULL) ==
            SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW)
        pid = sqlite3_column_int(query, 0);
    sqlite3_finalize(query);
    sqlite3_close(db);
    return pid;
}

static int fail_busy(const char *path, struct base_error *error)
{
    int pid = pid_of_recorder(path);
    return pid ? base_fail(error, BASE_EBUSY, "%s is being recorded by process %d", path, pid)
               : base_fail(error, BASE_EBUSY, "%s is being recorded by another process", path);
}

/* Another recorder may have moved the file away between the opening and the lock. */
static bool is_still_at(int fd, const char *path)
{
    struct stat opened, there;
    return !fstat(fd, &opened) && !stat(path, &there) && opened.st_ino == there.st_ino &&
           opened.st_dev == there.st_dev;
}

enum existing { NOTHING_THERE, EMPTY_FILE, OLDER_PROFILE };

/* What is at the path: an older profile and an empty file are locked, *fd holds the lock; what must stay is
 * an error. */
static int look_at_existing(const char *path, int *fd, struct base_error *error)
{
    struct stat status;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return errno == ENOENT ? NOTHING_THERE : base_fail_errno(error, errno, "%s", path);
    int result = OLDER_PROFILE;
    if (fstat(*fd, &status) || !S_ISREG(status.st_mode))
        result = base_fail(error, BASE_EUSAGE, "%s is no regular file", path);
    else if (status.st_size && !is_profile(*fd))
        result = base_fail(error, BASE_EUSAGE, "%s exists and is no Tally profile; it is left alone", path);
    else if (flock(*fd, LOCK_EX | LOCK_NB) || !is_still_at(*fd, path))
        result = fail_busy(path, error);
    else if (!status.st_size)
        result = EMPTY_FILE;
    if (result < 0) {
        close(*fd);
        *fd = -1;
    }
    return result;
}

/* Opening it for writing makes SQLite roll back what a killed recorder had begun. */
static void finish_older(const char *path)
{
    sqlite3 *db;
    if (store_open_read(path, &db, NULL) == BASE_OK)
        sqlite3_close(db);
}

/* To a name that nobody has, which mkostemp makes sure of. */
static int move_to_spare(struct store *store, struct base_error *error)
{
    int fd = mkostemp(store->spare, O_CLOEXEC);
    if (fd < 0)
        return base_fail_errno(error, errno, "%s", store->spare);
    close(fd);
    if (rename(store->old_path, store->spare)) {
        int number = errno;
        unlink(store->spare);
        return base_fail_errno(error, number, "cannot rename %s to %s", store->old_path, store->spare);
    }
    store->spared = true;
    return BASE_OK;
}

/* A file at PATH.old is checked like one at PATH: if it is no profile, it is refused. */
static int spare_old(struct store *store, struct base_error *error)
{
    int fd, existing = look_at_existing(store->old_path, &fd, error);
    if (existing < 0)
        return base_fail_context(error, existing, "%s cannot become %s", store->path, store->old_path);
    if (existing == OLDER_PROFILE)
        finish_older(store->old_path);
    int result = existing == NOTHING_THERE ? BASE_OK : move_to_spare(store, error);
    if (fd >= 0)
        close(fd);
    return result;
}

static int move_older(struct store *store, struct base_error *error)
{
    finish_older(store->path);
    int result = spare_old(store, error);
    if (result < 0)
        return result;
    if (stat(store->path, &store->old_file) || rename(store->path, store->old_path))
        return base_fail_errno(error, errno, "cannot rename %s to %s", store->path, store->old_path);
    return BASE_OK;
}

/* Out of the way with what is there; an empty file is worth no name of its own. */
static int move_aside(struct store *store, int existing, struct base_error *error)
{
    int result = existing == OLDER_PROFILE ? move_older(store, error) : BASE_OK;
    if (existing == EMPTY_FILE && unlink(store->path))
        result = base_fail_errno(error, errno, "%s", store->path);
    if (result == BASE_OK)
        store->moved = existing;
    return result;
}

/* The schema, the version and who records: in one transaction, so that there is never half of a profile. */
static int create_schema(struct store *store, struct base_error *error)
{
    char *last = sqlite3_mprintf("PRAGMA application_id=%d; PRAGMA user_version=%d;"
                                 "INSERT INTO data_meta VALUES('recorder_pid', '%d'); COMMIT",
                                 STORE_APPLICATION_ID, STORE_VERSION, (int)getpid());
    bool done =
        last &&
        !sqlite3_exec(store->db,
                      "PRAGMA synchronous=OFF; PRAGMA page_size=4096; PRAGMA journal_mode=TRUNCATE; BEGIN",
                      NULL, NULL, NULL) &&
        !sqlite3_exec(store->db, store_schema, NULL, NULL, NULL) &&
        !sqlite3_exec(store->db, last, NULL, NULL, NULL);
    sqlite3_free(last);
    return done ? BASE_OK : store_fail(store, "cannot set up", error);
}

static int open_new(struct store *store, struct base_error *error)
{
    store->lock = open(store->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (store->lock < 0)
        return base_fail_errno(error, errno, "%s", store->path);
    if (fchmod(store->lock, 0600) || flock(store->lock, LOCK_EX | LOCK_NB))
        return base_fail_errno(error, errno, "%s", store->path);
    if (sqlite3_open_v2(store->path, &store->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return store_fail(store, "cannot open", error);
    sqlite3_busy_timeout(store->db, 2000);
    int result = create_schema(store, error);
    for (int i = 0; i < STORE_STATEMENTS && result == BASE_OK; i++) {
        if (sqlite3_prepare_v3(store->db, statement_texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &store->statements[i], NULL))
            result = store_fail(store, "cannot prepare", error);
    }
    return result;
}

void store_close_database(struct store *store)
{
    for (int i = 0; i < STORE_STATEMENTS; i++) {
        sqlite3_finalize(store->statements[i]);
        store->statements[i] = NULL;
    }
    sqlite3_close(store->db);
    store->db = NULL;
}

void store_free(struct store *store)
{
    store_close_database(store);
    if (store->lock >= 0)
        close(store->lock);
    free(store->path);
    free(store->old_path);
    free(store->journal);
    free(store->spare);
    free(store);
}

/* Whoever records to FILE.old meanwhile has moved it on: then it is no longer ours to move. */
static void take_back_older(struct store *store)
{
    struct stat there;
    if (store->moved == OLDER_PROFILE && !stat(store->old_path, &there) &&
        there.st_ino == store->old_file.st_ino && there.st_dev == store->old_file.st_dev)
        rename(store->old_path, store->path);
    if (store->spared && lstat(store->old_path, &there) && errno == ENOENT)
        rename(store->spare, store->old_path);
}

/* The way back: the new file goes, what was there returns. */
void store_take_back(struct store *store)
{
    store_close_database(store);
    if (store->lock >= 0) {
        unlink(store->path);
        unlink(store->journal);
    }
    take_back_older(store);
    if (store->moved == EMPTY_FILE) {
        int fd = open(store->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    }
}

static char *with_ending(const char *path, const char *ending)
{
    size_t size = strlen(path) + strlen(ending) + 1;
    char *whole = malloc(size);
    if (whole)
        snprintf(whole, size, "%s%s", path, ending);
    return whole;
}

static struct store *new_store(const char *path)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->lock = -1;
    store->path = strdup(path);
    store->old_path = with_ending(path, STORE_OLD);
    store->journal = with_ending(path, "-journal");
    store->spare = with_ending(path, STORE_OLD ".XXXXXX");
    if (!store->path || !store->old_path || !store->journal || !store->spare) {
        store_free(store);
        return NULL;
    }
    return store;
}

static int create_at(const char *path, struct store **created, struct base_error *error)
{
    int fd, existing = look_at_existing(path, &fd, error);
    if (existing < 0)
        return existing;
    struct store *store = new_store(path);
    int result = store ? move_aside(store, existing, error) : base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = open_new(store, error);
    if (result < 0 && store) {
        store_take_back(store);
        store_free(store);
    }
    if (fd >= 0)
        close(fd); /* until here nobody else could begin to record to the same path */
    if (result == BASE_OK)
        *created = store;
    return result;
}

/* A link stays: what it leads to is the profile. */
int store_create(const char *path, struct store **created, struct base_error *error)
{
    char *real = NULL;
    int result = base_path_resolve(path, &real, error);
    if (result == BASE_OK)
        result = create_at(real, created, error);
    free(real);
    return result;
}
