/* Writing a profile while it is being recorded.
 *
 * The file is a plain SQLite database written in one transaction an interval (journal_mode=TRUNCATE,
 * synchronous=OFF), so it is one file, readable by others at any moment, and a recorder that is killed
 * leaves the last interval's state. Only rows that changed are written: the model's dirty marks say which;
 * they are forgotten after the commit alone. The recorder holds a flock on the file as long as it records:
 * it dies with the process, and SQLite's own locks are of another kind. An older profile is moved aside
 * under that same lock, and only after a journal that its killed recorder left has been rolled back: the
 * journal belongs to the name, not to the file, and would be lost with the name. What has the name that it
 * gets goes only when the new profile is closed; until then it waits under a third name. */
#include "store.h"

#include <sqlite3.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile_loss.h"
#include "profile_model.h"
#include "store_inside.h"

uint64_t store_size(const struct store *store)
{
    struct stat status;
    return fstat(store->lock, &status) ? 0 : (uint64_t)status.st_size;
}

/* --- rows --- */

static bool store_run(sqlite3_stmt *statement)
{
    int result = sqlite3_step(statement);
    sqlite3_reset(statement);
    return result == SQLITE_DONE;
}

/* Binds `count` whole numbers from the first parameter on, and runs. */
static bool store_put(struct store *store, enum store_statement which, const int64_t *values, int count)
{
    sqlite3_stmt *statement = store->statements[which];
    for (int i = 0; i < count; i++)
        sqlite3_bind_int64(statement, i + 1, values[i]);
    return store_run(statement);
}

#define PUT(store, which, ...)                                                                               \
    store_put(store, which, (const int64_t[]){__VA_ARGS__},                                                  \
              sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static bool put_image(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_image *it = &profile->images[row];
    return PUT(store, STORE_PUT_IMAGE, (int64_t)row, it->name, it->path, it->build_id, it->kind, it->process);
}

static bool put_process(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_process *it = &profile->processes[row];
    return PUT(store, STORE_PUT_PROCESS, (int64_t)row, it->pid, it->parent_pid, it->name, it->command,
               (int64_t)it->start_ns, (int64_t)it->end_ns, it->origin, it->cgroup);
}

static bool put_thread(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_thread *it = &profile->threads[row];
    return PUT(store, STORE_PUT_THREAD, (int64_t)row, it->process, it->tid, it->name);
}

static bool put_function(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_function *it = &profile->functions[row];
    return PUT(store, STORE_PUT_FUNCTION, (int64_t)row, it->name, it->image, (int64_t)it->start,
               (int64_t)it->end);
}

static bool put_inlined(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_inlined *it = &profile->inlined[row];
    return PUT(store, STORE_PUT_INLINED, (int64_t)row, it->function_name, it->file, it->line, it->outer);
}

static bool put_address(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_address *it = &profile->addresses[row];
    return PUT(store, STORE_PUT_ADDRESS, (int64_t)row, (int64_t)it->address, it->image, it->function,
               it->file, it->line, it->inlined, it->resolution, it->lines_known);
}

static bool put_node(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_node *it = &profile->nodes[row];
    if (!profile_node_lives(profile, row))
        return PUT(store, STORE_DROP_NODE, (int64_t)row);
    return PUT(store, STORE_PUT_NODE, (int64_t)row, it->parent, it->address, it->flags);
}

static bool put_counter(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_counter *it = &profile->counters[row];
    return PUT(store, STORE_PUT_COUNTER, (int64_t)row, it->name, it->unit, it->exact, it->combine);
}

static bool put_cell(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_cell *it = &profile->cells[row];
    return PUT(store, STORE_PUT_CELL, (int64_t)row + 1, it->node, it->thread,
               it->cpu == PROFILE_NO_CPU ? -1 : it->cpu, it->counter, it->value, (int64_t)it->samples);
}

static bool put_edge(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_edge *it = &profile->edges[row];
    return PUT(store, STORE_PUT_EDGE, (int64_t)row, it->site, it->callee, it->thread, it->kind,
               (int64_t)it->calls);
}

static bool put_coverage(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_coverage *it = &profile->coverage[row];
    return PUT(store, STORE_PUT_COVERAGE, (int64_t)row, it->image, it->kind, (int64_t)it->found,
               (int64_t)it->counted);
}

static bool put_left(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_left *it = &profile->left[row];
    return PUT(store, STORE_PUT_LEFT, (int64_t)row, it->image, it->code, it->reason, (int64_t)it->count);
}

static bool put_uncovered(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_uncovered *it = &profile->uncovered[row];
    return PUT(store, STORE_PUT_UNCOVERED, (int64_t)row, it->image, (int64_t)it->address, it->name,
               it->reason);
}

static bool put_peak(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_peak *it = &profile->peaks[row];
    return PUT(store, STORE_PUT_PEAK, (int64_t)row, it->process, it->counter, it->value,
               (int64_t)it->time_ns);
}

static bool put_latency(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_latency *it = &profile->latencies[row];
    return PUT(store, STORE_PUT_LATENCY, (int64_t)row, it->process, it->address, (int64_t)it->sum_ns,
               (int64_t)it->min_ns, (int64_t)it->max_ns);
}

static bool put_latency_calls(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_latency_bucket *it = &profile->latency_buckets[row];
    return PUT(store, STORE_PUT_LATENCY_CALLS, (int64_t)row, it->latency, it->bucket, (int64_t)it->calls);
}

static bool put_descriptor(struct store *store, const struct profile *profile, size_t row)
{
    const struct profile_descriptor *it = &profile->descriptors[row];
    return PUT(store, STORE_PUT_DESCRIPTOR, (int64_t)row, it->process, it->node, it->number, it->origin,
               it->kind, it->name, (int64_t)it->opened_ns, (int64_t)it->age_ns);
}

/* --- a flush --- */

typedef bool put_row(struct store *store, const struct profile *profile, size_t row);

static bool put_marked(struct store *store, const struct profile *profile, const struct profile_marks *marks,
                       size_t count, put_row *put_one)
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

static bool put_strings(struct store *store, const struct profile *profile)
{
    sqlite3_stmt *statement = store->statements[STORE_PUT_STRING];
    for (size_t i = store->strings ? store->strings : 1; i < profile->self->strings.count; i++) {
        if (sqlite3_bind_int64(statement, 1, (int64_t)i) ||
            !put_text(statement, 2, profile_text(profile, (uint32_t)i)) || !store_run(statement))
            return false;
    }
    return true;
}

static bool put_meta(struct store *store, const struct profile *profile)
{
    sqlite3_stmt *statement = store->statements[STORE_PUT_META];
    for (size_t i = 0; profile->self->meta_changed && i < profile->meta_count; i++) {
        if (!put_text(statement, 1, profile_text(profile, profile->meta[i].key)) ||
            !put_text(statement, 2, profile_text(profile, profile->meta[i].value)) || !store_run(statement))
            return false;
    }
    return true;
}

static bool put_losses(struct store *store, const struct profile *profile)
{
    sqlite3_stmt *statement = store->statements[STORE_PUT_LOSS];
    for (unsigned i = 0; i < PROFILE_LOSSES; i++) {
        if (profile->losses[i] == profile->self->stored_losses[i])
            continue;
        sqlite3_bind_int64(statement, 1, i);
        sqlite3_bind_int64(statement, 3, (int64_t)profile->losses[i]);
        const char *text = profile_loss_text(i);
        if (!put_text(statement, 2, text ? text : "unknown") || !store_run(statement))
            return false;
    }
    return true;
}

static bool put_cells(struct store *store, const struct profile *profile)
{
    const struct profile_model *self = profile->self;
    if (self->stored_cells > profile->cell_count &&
        !PUT(store, STORE_DROP_CELLS, (int64_t)profile->cell_count))
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

static bool put_blocks(struct store *store, const struct profile *profile)
{
    sqlite3_stmt *statement = store->statements[STORE_PUT_BLOCK];
    for (const struct profile_block *block = profile->self->timeline.first; block; block = block->next) {
        const int64_t values[] = {(int64_t)block->epoch, block->fold, (int64_t)block->first_ns,
                                  (int64_t)block->last_ns, block->entries};
        for (int i = 0; i < 5; i++)
            sqlite3_bind_int64(statement, i + 1, values[i]);
        sqlite3_bind_blob64(statement, 6, block->bytes, block->length, SQLITE_STATIC);
        if (!store_run(statement))
            return false;
    }
    return true;
}

static bool put_everything(struct store *store, const struct profile *profile)
{
    const struct profile_model *self = profile->self;
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

static void commit_marks(struct store *store, struct profile *profile)
{
    struct profile_model *self = profile->self;
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

static int flush_store(struct store *store, struct profile *profile, bool last, struct base_error *error)
{
    profile_timeline_seal(profile);
    if (!sqlite3_get_autocommit(store->db)) /* an earlier flush could not even be undone */
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    if (sqlite3_exec(store->db, "BEGIN", NULL, NULL, NULL))
        return store_fail(store, "cannot write", error);
    const char *end = last ? "DELETE FROM data_meta WHERE key = 'recorder_pid'; COMMIT" : "COMMIT";
    if (put_everything(store, profile) && sqlite3_exec(store->db, end, NULL, NULL, NULL) == SQLITE_OK) {
        commit_marks(store, profile);
        return BASE_OK;
    }
    int result = store_fail(store, "cannot write", error);
    if (!sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

int store_flush(struct store *store, struct profile *profile, struct base_error *error)
{
    return flush_store(store, profile, false, error);
}

/* A journal that is not empty still has something to undo: then it stays for whoever reads next. */
static void remove_journal(const struct store *store)
{
    struct stat status;
    if (!stat(store->journal, &status) && !status.st_size)
        unlink(store->journal);
}

int store_close(struct store *store, struct profile *profile, bool discard, struct base_error *error)
{
    int result = discard ? BASE_OK : flush_store(store, profile, true, error);
    store_close_database(store);
    if (discard)
        store_take_back(store);
    else
        remove_journal(store);
    if (!discard && store->spared)
        unlink(store->spare);
    store_free(store);
    return result;
}
