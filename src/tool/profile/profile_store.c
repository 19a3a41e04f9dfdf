/* Writing a profile while it is being recorded.
 *
 * The file is a plain SQLite database written in one transaction an interval (journal_mode=TRUNCATE, synchronous=OFF), so it
 * is one file, readable by others at any moment, and a recorder that is killed leaves the last interval's state. Only rows that
 * changed are written: the model's dirty marks say which; they are forgotten after the commit alone.
 * The recorder holds a flock on the file as long as it records: it dies with the process, and SQLite's own locks are of
 * another kind. */
#include "profile_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile_private.h"
#include "profile_schema.h"
#include "wire_loss.h"

enum statement {
    PUT_STRING,
    PUT_META,
    PUT_IMAGE,
    PUT_PROCESS,
    PUT_THREAD,
    PUT_FUNCTION,
    PUT_INLINED,
    PUT_ADDRESS,
    PUT_NODE,
    DROP_NODE,
    PUT_COUNTER,
    PUT_CELL,
    DROP_CELLS,
    PUT_LOSS,
    PUT_BLOCK,
    STATEMENTS
};

static const char *const SQL[STATEMENTS] = {
    [PUT_STRING] = "INSERT OR REPLACE INTO data_strings VALUES(?,?)",
    [PUT_META] = "INSERT OR REPLACE INTO data_meta VALUES(?,?)",
    [PUT_IMAGE] = "INSERT OR REPLACE INTO data_images VALUES(?,?,?,?,?,?)",
    [PUT_PROCESS] = "INSERT OR REPLACE INTO data_processes VALUES(?,?,?,?,?,?,?)",
    [PUT_THREAD] = "INSERT OR REPLACE INTO data_threads VALUES(?,?,?,?)",
    [PUT_FUNCTION] = "INSERT OR REPLACE INTO data_functions VALUES(?,?,?,?,?)",
    [PUT_INLINED] = "INSERT OR REPLACE INTO data_inlined VALUES(?,?,?,?,?)",
    [PUT_ADDRESS] = "INSERT OR REPLACE INTO data_addresses VALUES(?,?,?,?,?,?,?,?,?)",
    [PUT_NODE] = "INSERT OR REPLACE INTO data_nodes VALUES(?,?,?,?)",
    [DROP_NODE] = "DELETE FROM data_nodes WHERE id = ?",
    [PUT_COUNTER] = "INSERT OR REPLACE INTO data_counters VALUES(?,?,?,?,?)",
    [PUT_CELL] = "INSERT OR REPLACE INTO data_cells VALUES(?,?,?,?,?,?,?)",
    [DROP_CELLS] = "DELETE FROM data_cells WHERE id > ?",
    [PUT_LOSS] = "INSERT OR REPLACE INTO data_losses VALUES(?,?,?)",
    [PUT_BLOCK] =
        "INSERT INTO data_timeline(epoch, fold, first_ns, last_ns, entries, bytes) VALUES(?,?,?,?,?,?)",
};

struct profile_store {
    char *path, *old_path;
    bool kept_old; /* an older profile was moved to old_path */
    int lock;      /* descriptor that holds the flock */
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    size_t strings; /* written */
};

/* --- creating --- */

static int fail_sql(struct profile_store *store, const char *what, struct base_error *error)
{
    int code = sqlite3_errcode(store->db);
    const char *reason = code == SQLITE_FULL ? "no space left on the disk" : sqlite3_errmsg(store->db);
    if (code == SQLITE_IOERR && (errno == EFBIG || errno == ENOSPC || errno == EDQUOT))
        reason = strerror(errno);
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
    return id == PROFILE_APPLICATION_ID;
}

static int pid_of_recorder(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *query = NULL;
    int pid = 0;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "SELECT value FROM data_meta WHERE key = 'recorder_pid'", -1, &query, NULL) ==
            SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW)
        pid = sqlite3_column_int(query, 0);
    sqlite3_finalize(query);
    sqlite3_close(db);
    return pid;
}

/* Looks at what is at the path: nothing (0), an older profile (1), or something that must stay (an error). */
static int look_at_existing(const char *path, struct base_error *error)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : base_fail_errno(error, errno, "%s", path);
    int result = 1;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode))
        result = base_fail(error, BASE_EUSAGE, "%s is no regular file", path);
    else if (status.st_size && !is_profile(fd))
        result = base_fail(error, BASE_EUSAGE, "%s exists and is no Tally profile; it is left alone", path);
    else if (flock(fd, LOCK_EX | LOCK_NB))
        result =
            base_fail(error, BASE_EBUSY, "%s is being recorded by process %d", path, pid_of_recorder(path));
    close(fd);
    return result;
}

static int open_new(struct profile_store *store, struct base_error *error)
{
    store->lock = open(store->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (store->lock < 0)
        return base_fail_errno(error, errno, "%s", store->path);
    fchmod(store->lock, 0600);
    flock(store->lock, LOCK_EX | LOCK_NB);
    if (sqlite3_open_v2(store->path, &store->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return fail_sql(store, "cannot open", error);
    sqlite3_busy_timeout(store->db, 2000);
    char set_up[256];
    sqlite3_snprintf(
        sizeof set_up, set_up,
        "PRAGMA synchronous=OFF; PRAGMA page_size=4096; PRAGMA application_id=%d; PRAGMA user_version=%d;"
        "PRAGMA journal_mode=TRUNCATE; BEGIN;",
        PROFILE_APPLICATION_ID, PROFILE_STORE_VERSION);
    if (sqlite3_exec(store->db, set_up, NULL, NULL, NULL) ||
        sqlite3_exec(store->db, profile_schema, NULL, NULL, NULL))
        return fail_sql(store, "cannot set up", error);
    sqlite3_stmt *pid = NULL;
    if (sqlite3_prepare_v2(store->db, "INSERT INTO data_meta VALUES('recorder_pid', ?)", -1, &pid, NULL) ||
        sqlite3_bind_int(pid, 1, getpid()) || sqlite3_step(pid) != SQLITE_DONE || sqlite3_finalize(pid) ||
        sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL))
        return fail_sql(store, "cannot set up", error);
    for (int i = 0; i < STATEMENTS; i++) {
        if (sqlite3_prepare_v3(store->db, SQL[i], -1, SQLITE_PREPARE_PERSISTENT, &store->statements[i], NULL))
            return fail_sql(store, "cannot prepare", error);
    }
    return BASE_OK;
}

static void free_store(struct profile_store *store)
{
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->db);
    if (store->lock >= 0)
        close(store->lock);
    free(store->path);
    free(store->old_path);
    free(store);
}

/* The way back: the new file goes, the older one returns. */
static void take_back(struct profile_store *store)
{
    if (store->lock >= 0) {
        char journal[4200];
        unlink(store->path);
        snprintf(journal, sizeof journal, "%s-journal", store->path);
        unlink(journal);
    }
    if (store->kept_old)
        rename(store->old_path, store->path);
}

int profile_store_create(const char *path, struct profile_store **created, struct base_error *error)
{
    int existing = look_at_existing(path, error);
    if (existing < 0)
        return existing;
    struct profile_store *store = calloc(1, sizeof *store);
    if (!store)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    store->lock = -1;
    store->path = strdup(path);
    int result = asprintf(&store->old_path, "%s.old", path) < 0 || !store->path
                     ? base_fail(error, BASE_ENOMEM, "out of memory")
                     : BASE_OK;
    if (result == BASE_OK && existing) {
        if (rename(path, store->old_path))
            result = base_fail_errno(error, errno, "cannot rename %s to %s", path, store->old_path);
        store->kept_old = result == BASE_OK;
    }
    if (result == BASE_OK)
        result = open_new(store, error);
    if (result < 0) {
        take_back(store);
        free_store(store);
        return result;
    }
    *created = store;
    return BASE_OK;
}

uint64_t profile_store_size(const struct profile_store *store)
{
    struct stat status;
    return fstat(store->lock, &status) ? 0 : (uint64_t)status.st_size;
}

/* --- rows --- */

static bool run(sqlite3_stmt *statement)
{
    int result = sqlite3_step(statement);
    sqlite3_reset(statement);
    return result == SQLITE_DONE;
}

/* Binds `count` whole numbers from the first parameter on, and runs. */
static bool put(struct profile_store *store, enum statement which, const int64_t *values, int count)
{
    sqlite3_stmt *statement = store->statements[which];
    for (int i = 0; i < count; i++)
        sqlite3_bind_int64(statement, i + 1, values[i]);
    return run(statement);
}

#define PUT(store, which, ...)                                                                               \
    put(store, which, (const int64_t[]){__VA_ARGS__},                                                        \
        sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static bool put_image(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_image *it = &profile->images[row];
    return PUT(store, PUT_IMAGE, (int64_t)row, it->name, it->path, it->build_id, it->kind, it->process);
}

static bool put_process(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_process *it = &profile->processes[row];
    return PUT(store, PUT_PROCESS, (int64_t)row, it->pid, it->parent_pid, it->name, it->command,
               (int64_t)it->start_ns, (int64_t)it->end_ns);
}

static bool put_thread(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_thread *it = &profile->threads[row];
    return PUT(store, PUT_THREAD, (int64_t)row, it->process, it->tid, it->name);
}

static bool put_function(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_function *it = &profile->functions[row];
    return PUT(store, PUT_FUNCTION, (int64_t)row, it->name, it->image, (int64_t)it->start, (int64_t)it->end);
}

static bool put_inlined(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_inlined *it = &profile->inlined[row];
    return PUT(store, PUT_INLINED, (int64_t)row, it->function_name, it->file, it->line, it->outer);
}

static bool put_address(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_address *it = &profile->addresses[row];
    return PUT(store, PUT_ADDRESS, (int64_t)row, (int64_t)it->address, it->image, it->function, it->file,
               it->line, it->inlined, it->resolution, it->lines_known);
}

static bool put_node(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_node *it = &profile->nodes[row];
    if (!profile_node_lives(profile, row))
        return PUT(store, DROP_NODE, (int64_t)row);
    return PUT(store, PUT_NODE, (int64_t)row, it->parent, it->address, it->flags);
}

static bool put_counter(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_counter *it = &profile->counters[row];
    return PUT(store, PUT_COUNTER, (int64_t)row, it->name, it->unit, it->exact, it->combine);
}

static bool put_cell(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_cell *it = &profile->cells[row];
    return PUT(store, PUT_CELL, (int64_t)row + 1, it->node, it->thread,
               it->cpu == PROFILE_NO_CPU ? -1 : it->cpu, it->counter, it->value, (int64_t)it->samples);
}

/* --- a flush --- */

typedef bool put_row(struct profile_store *store, const struct profile *profile, size_t row);

static bool put_marked(struct profile_store *store, const struct profile *profile,
                       const struct profile_marks *marks, size_t count, put_row *put_one)
{
    for (size_t i = 0; !marks->all && i < marks->count; i++) {
        if (!put_one(store, profile, marks->changed[i]))
            return false;
    }
    for (size_t row = marks->all ? 1 : marks->written; row < count; row++) {
        if (row && !put_one(store, profile, row))
            return false;
    }
    return true;
}

static bool put_text(sqlite3_stmt *statement, int at, const char *text)
{
    return sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC) == SQLITE_OK;
}

static bool put_strings(struct profile_store *store, const struct profile *profile)
{
    sqlite3_stmt *statement = store->statements[PUT_STRING];
    for (size_t i = store->strings ? store->strings : 1; i < profile->self->strings.count; i++) {
        if (sqlite3_bind_int64(statement, 1, (int64_t)i) ||
            !put_text(statement, 2, profile_text(profile, (uint32_t)i)) || !run(statement))
            return false;
    }
    return true;
}

static bool put_meta(struct profile_store *store, const struct profile *profile)
{
    sqlite3_stmt *statement = store->statements[PUT_META];
    for (size_t i = 0; profile->self->meta_changed && i < profile->meta_count; i++) {
        if (!put_text(statement, 1, profile_text(profile, profile->meta[i].key)) ||
            !put_text(statement, 2, profile_text(profile, profile->meta[i].value)) || !run(statement))
            return false;
    }
    return true;
}

static const char *text_of_loss(unsigned reason)
{
    switch (reason) {
#define X(number, name, text)                                                                                \
    case number:                                                                                             \
        return text;
        WIRE_LOSSES(X)
#undef X
    default:
        return "unknown";
    }
}

static bool put_losses(struct profile_store *store, const struct profile *profile)
{
    sqlite3_stmt *statement = store->statements[PUT_LOSS];
    for (unsigned i = 0; i < PROFILE_LOSSES; i++) {
        if (profile->losses[i] == profile->self->stored_losses[i])
            continue;
        sqlite3_bind_int64(statement, 1, i);
        sqlite3_bind_int64(statement, 3, (int64_t)profile->losses[i]);
        if (!put_text(statement, 2, text_of_loss(i)) || !run(statement))
            return false;
    }
    return true;
}

static bool put_cells(struct profile_store *store, const struct profile *profile)
{
    const struct profile_private *self = profile->self;
    if (self->stored_cells > profile->cell_count && !PUT(store, DROP_CELLS, (int64_t)profile->cell_count))
        return false;
    if (self->dirty_unlisted) {
        for (size_t i = 0; i < profile->cell_count; i++) {
            if (profile->cells[i].dirty && !put_cell(store, profile, i))
                return false;
        }
        return true;
    }
    for (size_t i = 0; i < self->dirty_count; i++) {
        if (self->dirty_cells[i] < profile->cell_count && !put_cell(store, profile, self->dirty_cells[i]))
            return false;
    }
    return true;
}

static bool put_blocks(struct profile_store *store, const struct profile *profile)
{
    sqlite3_stmt *statement = store->statements[PUT_BLOCK];
    for (const struct profile_block *block = profile->self->timeline.first; block; block = block->next) {
        const int64_t values[] = {(int64_t)block->epoch, block->fold, (int64_t)block->first_ns,
                                  (int64_t)block->last_ns, block->entries};
        for (int i = 0; i < 5; i++)
            sqlite3_bind_int64(statement, i + 1, values[i]);
        sqlite3_bind_blob64(statement, 6, block->bytes, block->length, SQLITE_STATIC);
        if (!run(statement))
            return false;
    }
    return true;
}

static bool put_everything(struct profile_store *store, const struct profile *profile)
{
    const struct profile_private *self = profile->self;
    return put_strings(store, profile) && put_meta(store, profile) &&
           put_marked(store, profile, &self->images, profile->image_count, put_image) &&
           put_marked(store, profile, &self->processes, profile->process_count, put_process) &&
           put_marked(store, profile, &self->threads, profile->thread_count, put_thread) &&
           put_marked(store, profile, &self->functions, profile->function_count, put_function) &&
           put_marked(store, profile, &self->inlined, profile->inlined_count, put_inlined) &&
           put_marked(store, profile, &self->addresses, profile->address_count, put_address) &&
           put_marked(store, profile, &self->nodes, profile->node_count, put_node) &&
           put_marked(store, profile, &self->counters, profile->counter_count, put_counter) &&
           put_cells(store, profile) && put_losses(store, profile) && put_blocks(store, profile);
}

static void commit_marks(struct profile_store *store, struct profile *profile)
{
    struct profile_private *self = profile->self;
    store->strings = self->strings.count;
    profile_marks_commit(&self->images, profile->image_count);
    profile_marks_commit(&self->processes, profile->process_count);
    profile_marks_commit(&self->threads, profile->thread_count);
    profile_marks_commit(&self->functions, profile->function_count);
    profile_marks_commit(&self->inlined, profile->inlined_count);
    profile_marks_commit(&self->addresses, profile->address_count);
    profile_marks_commit(&self->nodes, profile->node_count);
    profile_marks_commit(&self->counters, profile->counter_count);
    for (size_t i = 0; i < profile->cell_count; i++)
        profile->cells[i].dirty = 0;
    self->dirty_count = 0;
    self->dirty_unlisted = false;
    self->stored_cells = profile->cell_count;
    self->meta_changed = false;
    memcpy(self->stored_losses, profile->losses, sizeof profile->losses);
    profile_timeline_free(profile, true);
}

int profile_store_flush(struct profile_store *store, struct profile *profile, struct base_error *error)
{
    profile_timeline_seal(profile);
    if (sqlite3_exec(store->db, "BEGIN", NULL, NULL, NULL))
        return fail_sql(store, "cannot write", error);
    if (put_everything(store, profile) && sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK) {
        commit_marks(store, profile);
        return BASE_OK;
    }
    int result = fail_sql(store, "cannot write", error);
    if (!sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

int profile_store_close(struct profile_store *store, struct profile *profile, bool discard,
                        struct base_error *error)
{
    int result = discard ? BASE_OK : profile_store_flush(store, profile, error);
    if (!discard)
        sqlite3_exec(store->db, "DELETE FROM data_meta WHERE key = 'recorder_pid'", NULL, NULL, NULL);
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(store->statements[i]);
        store->statements[i] = NULL;
    }
    sqlite3_close(store->db);
    store->db = NULL;
    if (discard) {
        take_back(store);
    } else {
        char journal[4200];
        snprintf(journal, sizeof journal, "%s-journal", store->path);
        unlink(journal); /* empty now: nothing is left but the profile */
    }
    free_store(store);
    return result;
}
