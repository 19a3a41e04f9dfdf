/* Writing a profile while it is being recorded.
 *
 * The file is a plain SQLite database written in one transaction an interval (journal_mode=TRUNCATE,
 * synchronous=OFF), so it is one file, readable by others at any moment, and a recorder that is killed leaves
 * the last interval's state. Only rows that changed are written: the model's dirty marks say which; they are
 * forgotten after the commit alone. The recorder holds a flock on the file as long as it records: it dies
 * with the process, and SQLite's own locks are of another kind. An older profile is moved aside under that
 * same lock, and only after a journal that its killed recorder left has been rolled back: the journal belongs
 * to the name, not to the file, and would be lost with the name. What has the name that it gets goes only when
 * the new profile is closed; until then it waits under a third name. */
#include "profile_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_path.h"
#include "profile_loss.h"
#include "profile_open.h"
#include "profile_private.h"
#include "profile_schema.h"

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
    PUT_EDGE,
    PUT_COVERAGE,
    PUT_LEFT,
    PUT_UNCOVERED,
    PUT_PEAK,
    PUT_LATENCY,
    PUT_LATENCY_CALLS,
    PUT_DESCRIPTOR,
    STATEMENTS
};

static const char *const SQL[STATEMENTS] = {
    [PUT_STRING] = "INSERT OR REPLACE INTO data_strings VALUES(?,?)",
    [PUT_META] = "INSERT OR REPLACE INTO data_meta VALUES(?,?)",
    [PUT_IMAGE] = "INSERT OR REPLACE INTO data_images VALUES(?,?,?,?,?,?)",
    [PUT_PROCESS] = "INSERT OR REPLACE INTO data_processes VALUES(?,?,?,?,?,?,?,?)",
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
    [PUT_EDGE] = "INSERT OR REPLACE INTO data_edges VALUES(?,?,?,?,?,?)",
    [PUT_COVERAGE] = "INSERT OR REPLACE INTO data_coverage VALUES(?,?,?,?,?)",
    [PUT_LEFT] = "INSERT OR REPLACE INTO data_left VALUES(?,?,?,?,?)",
    [PUT_UNCOVERED] = "INSERT OR REPLACE INTO data_uncovered VALUES(?,?,?,?,?)",
    [PUT_PEAK] = "INSERT OR REPLACE INTO data_peaks VALUES(?,?,?,?,?)",
    [PUT_LATENCY] = "INSERT OR REPLACE INTO data_latency VALUES(?,?,?,?,?,?)",
    [PUT_LATENCY_CALLS] = "INSERT OR REPLACE INTO data_latency_calls VALUES(?,?,?,?)",
    [PUT_DESCRIPTOR] = "INSERT OR REPLACE INTO data_descriptors VALUES(?,?,?,?,?,?,?,?,?)",
};

struct profile_store {
    char *path, *old_path, *journal;
    char *spare;          /* where what was at old_path waits */
    bool spared;          /* something does */
    int moved;            /* enum existing: what had to make room */
    struct stat old_file; /* of an older profile that was moved */
    int lock;             /* descriptor that holds the flock */
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    size_t strings; /* written */
};

/* --- creating --- */

static int fail_sql(struct profile_store *store, const char *what, struct base_error *error)
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
    return id == PROFILE_APPLICATION_ID;
}

static int pid_of_recorder(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *query = NULL;
    int pid = 0;
    if (profile_open_read(path, &db, NULL) < 0)
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
    if (profile_open_read(path, &db, NULL) == BASE_OK)
        sqlite3_close(db);
}

/* To a name that nobody has, which mkostemp makes sure of. */
static int move_to_spare(struct profile_store *store, struct base_error *error)
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

/* What has the name that an older profile gets is looked at as what has the profile's: it may be somebody's
 * file. */
static int spare_old(struct profile_store *store, struct base_error *error)
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

static int move_older(struct profile_store *store, struct base_error *error)
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
static int move_aside(struct profile_store *store, int existing, struct base_error *error)
{
    int result = existing == OLDER_PROFILE ? move_older(store, error) : BASE_OK;
    if (existing == EMPTY_FILE && unlink(store->path))
        result = base_fail_errno(error, errno, "%s", store->path);
    if (result == BASE_OK)
        store->moved = existing;
    return result;
}

/* The schema, the version and who records: in one transaction, so that there is never half of a profile. */
static int set_up(struct profile_store *store, struct base_error *error)
{
    char *last = sqlite3_mprintf("PRAGMA application_id=%d; PRAGMA user_version=%d;"
                                 "INSERT INTO data_meta VALUES('recorder_pid', '%d'); COMMIT",
                                 PROFILE_APPLICATION_ID, PROFILE_STORE_VERSION, (int)getpid());
    bool done =
        last &&
        !sqlite3_exec(store->db,
                      "PRAGMA synchronous=OFF; PRAGMA page_size=4096; PRAGMA journal_mode=TRUNCATE; BEGIN",
                      NULL, NULL, NULL) &&
        !sqlite3_exec(store->db, profile_schema, NULL, NULL, NULL) &&
        !sqlite3_exec(store->db, last, NULL, NULL, NULL);
    sqlite3_free(last);
    return done ? BASE_OK : fail_sql(store, "cannot set up", error);
}

static int open_new(struct profile_store *store, struct base_error *error)
{
    store->lock = open(store->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (store->lock < 0)
        return base_fail_errno(error, errno, "%s", store->path);
    if (fchmod(store->lock, 0600) || flock(store->lock, LOCK_EX | LOCK_NB))
        return base_fail_errno(error, errno, "%s", store->path);
    if (sqlite3_open_v2(store->path, &store->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return fail_sql(store, "cannot open", error);
    sqlite3_busy_timeout(store->db, 2000);
    int result = set_up(store, error);
    for (int i = 0; i < STATEMENTS && result == BASE_OK; i++) {
        if (sqlite3_prepare_v3(store->db, SQL[i], -1, SQLITE_PREPARE_PERSISTENT, &store->statements[i], NULL))
            result = fail_sql(store, "cannot prepare", error);
    }
    return result;
}

static void close_database(struct profile_store *store)
{
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(store->statements[i]);
        store->statements[i] = NULL;
    }
    sqlite3_close(store->db);
    store->db = NULL;
}

static void free_store(struct profile_store *store)
{
    close_database(store);
    if (store->lock >= 0)
        close(store->lock);
    free(store->path);
    free(store->old_path);
    free(store->journal);
    free(store->spare);
    free(store);
}

/* Whoever records to FILE.old meanwhile has moved it on: then it is no longer ours to move. */
static void take_back_older(struct profile_store *store)
{
    struct stat there;
    if (store->moved == OLDER_PROFILE && !stat(store->old_path, &there) &&
        there.st_ino == store->old_file.st_ino && there.st_dev == store->old_file.st_dev)
        rename(store->old_path, store->path);
    if (store->spared && lstat(store->old_path, &there) && errno == ENOENT)
        rename(store->spare, store->old_path);
}

/* The way back: the new file goes, what was there returns. */
static void take_back(struct profile_store *store)
{
    close_database(store);
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

static struct profile_store *new_store(const char *path)
{
    struct profile_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->lock = -1;
    store->path = strdup(path);
    store->old_path = with_ending(path, PROFILE_STORE_OLD);
    store->journal = with_ending(path, "-journal");
    store->spare = with_ending(path, PROFILE_STORE_OLD ".XXXXXX");
    if (!store->path || !store->old_path || !store->journal || !store->spare) {
        free_store(store);
        return NULL;
    }
    return store;
}

static int create_at(const char *path, struct profile_store **created, struct base_error *error)
{
    int fd, existing = look_at_existing(path, &fd, error);
    if (existing < 0)
        return existing;
    struct profile_store *store = new_store(path);
    int result = store ? move_aside(store, existing, error) : base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = open_new(store, error);
    if (result < 0 && store) {
        take_back(store);
        free_store(store);
    }
    if (fd >= 0)
        close(fd); /* until here nobody else could begin to record to the same path */
    if (result == BASE_OK)
        *created = store;
    return result;
}

/* A link stays: what it leads to is the profile. */
int profile_store_create(const char *path, struct profile_store **created, struct base_error *error)
{
    char *real = NULL;
    int result = base_path_resolve(path, &real, error);
    if (result == BASE_OK)
        result = create_at(real, created, error);
    free(real);
    return result;
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
               (int64_t)it->start_ns, (int64_t)it->end_ns, it->origin);
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

static bool put_edge(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_edge *it = &profile->edges[row];
    return PUT(store, PUT_EDGE, (int64_t)row, it->site, it->callee, it->thread, it->kind, (int64_t)it->calls);
}

static bool put_coverage(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_coverage *it = &profile->coverage[row];
    return PUT(store, PUT_COVERAGE, (int64_t)row, it->image, it->kind, (int64_t)it->found,
               (int64_t)it->counted);
}

static bool put_left(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_left *it = &profile->left[row];
    return PUT(store, PUT_LEFT, (int64_t)row, it->image, it->code, it->reason, (int64_t)it->count);
}

static bool put_uncovered(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_uncovered *it = &profile->uncovered[row];
    return PUT(store, PUT_UNCOVERED, (int64_t)row, it->image, (int64_t)it->address, it->name, it->reason);
}

static bool put_peak(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_peak *it = &profile->peaks[row];
    return PUT(store, PUT_PEAK, (int64_t)row, it->process, it->counter, it->value, (int64_t)it->time_ns);
}

static bool put_latency(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_latency *it = &profile->latencies[row];
    return PUT(store, PUT_LATENCY, (int64_t)row, it->process, it->address, (int64_t)it->sum_ns,
               (int64_t)it->min_ns, (int64_t)it->max_ns);
}

static bool put_latency_calls(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_latency_bucket *it = &profile->latency_buckets[row];
    return PUT(store, PUT_LATENCY_CALLS, (int64_t)row, it->latency, it->bucket, (int64_t)it->calls);
}

static bool put_descriptor(struct profile_store *store, const struct profile *profile, size_t row)
{
    const struct profile_descriptor *it = &profile->descriptors[row];
    return PUT(store, PUT_DESCRIPTOR, (int64_t)row, it->process, it->node, it->number, it->origin, it->kind,
               it->name, (int64_t)it->opened_ns, (int64_t)it->age_ns);
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

static bool put_losses(struct profile_store *store, const struct profile *profile)
{
    sqlite3_stmt *statement = store->statements[PUT_LOSS];
    for (unsigned i = 0; i < PROFILE_LOSSES; i++) {
        if (profile->losses[i] == profile->self->stored_losses[i])
            continue;
        sqlite3_bind_int64(statement, 1, i);
        sqlite3_bind_int64(statement, 3, (int64_t)profile->losses[i]);
        const char *text = profile_loss_text(i);
        if (!put_text(statement, 2, text ? text : "unknown") || !run(statement))
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
           put_marked(store, profile, &self->edges, profile->edge_count, put_edge) &&
           put_marked(store, profile, &self->coverage, profile->coverage_count, put_coverage) &&
           put_marked(store, profile, &self->left, profile->left_count, put_left) &&
           put_marked(store, profile, &self->uncovered, profile->uncovered_count, put_uncovered) &&
           put_marked(store, profile, &self->peaks, profile->peak_count, put_peak) &&
           put_marked(store, profile, &self->latencies, profile->latency_count, put_latency) &&
           put_marked(store, profile, &self->latency_buckets, profile->latency_bucket_count,
                      put_latency_calls) &&
           put_marked(store, profile, &self->descriptors, profile->descriptor_count, put_descriptor) &&
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
    profile_marks_commit(&self->edges, profile->edge_count);
    profile_marks_commit(&self->coverage, profile->coverage_count);
    profile_marks_commit(&self->left, profile->left_count);
    profile_marks_commit(&self->uncovered, profile->uncovered_count);
    profile_marks_commit(&self->peaks, profile->peak_count);
    profile_marks_commit(&self->latencies, profile->latency_count);
    profile_marks_commit(&self->latency_buckets, profile->latency_bucket_count);
    profile_marks_commit(&self->descriptors, profile->descriptor_count);
    for (size_t i = 0; i < profile->cell_count; i++)
        profile->cells[i].dirty = 0;
    self->dirty_count = 0;
    self->dirty_unlisted = false;
    self->stored_cells = profile->cell_count;
    self->meta_changed = false;
    memcpy(self->stored_losses, profile->losses, sizeof profile->losses);
    profile_timeline_free(profile, true);
}

static int flush(struct profile_store *store, struct profile *profile, bool last, struct base_error *error)
{
    profile_timeline_seal(profile);
    if (!sqlite3_get_autocommit(store->db)) /* an earlier flush could not even be undone */
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    if (sqlite3_exec(store->db, "BEGIN", NULL, NULL, NULL))
        return fail_sql(store, "cannot write", error);
    const char *end = last ? "DELETE FROM data_meta WHERE key = 'recorder_pid'; COMMIT" : "COMMIT";
    if (put_everything(store, profile) && sqlite3_exec(store->db, end, NULL, NULL, NULL) == SQLITE_OK) {
        commit_marks(store, profile);
        return BASE_OK;
    }
    int result = fail_sql(store, "cannot write", error);
    if (!sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

int profile_store_flush(struct profile_store *store, struct profile *profile, struct base_error *error)
{
    return flush(store, profile, false, error);
}

/* A journal that is not empty still has something to undo: then it stays for whoever reads next. */
static void remove_journal(const struct profile_store *store)
{
    struct stat status;
    if (!stat(store->journal, &status) && !status.st_size)
        unlink(store->journal);
}

int profile_store_close(struct profile_store *store, struct profile *profile, bool discard,
                        struct base_error *error)
{
    int result = discard ? BASE_OK : flush(store, profile, true, error);
    close_database(store);
    if (discard)
        take_back(store);
    else
        remove_journal(store);
    if (!discard && store->spared)
        unlink(store->spare);
    free_store(store);
    return result;
}
