#include "shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "loader_listen.h"
#include "proc_commit.h"
#include "proc_users.h"

enum {
    CONTROL_BYTES = 4096,
    REGIONS_LEAST = 128,
    ROWS_UNIT = SHARED_ROWS_UNIT,
    MANY_REQUESTS = 1 << 30, /* more than anybody makes, and less than half of all numbers */
};

/* libLLVM's rows are 4 MB. Only what is written costs anything. */
static const uint64_t ROWS_BYTES = UINT64_C(512) << 20;

/* A region is never used again, and a shell forks for each command. They cost us
 * addresses, of which there are 128 TiB. */
static uint32_t regions_of(const struct shared_request *request)
{
    uint64_t fit = (UINT64_C(1) << 40) / wire_agent_layout(request->memory).size;
    return fit < REGIONS_LEAST        ? REGIONS_LEAST
           : fit < WIRE_AGENT_REGIONS ? (uint32_t)fit
                                      : WIRE_AGENT_REGIONS;
}

static uint64_t threads_offset(const struct shared_request *request)
{
    return CONTROL_BYTES + ROWS_BYTES + regions_of(request) * wire_agent_layout(request->memory).size;
}

static uint64_t own_offset(const struct shared_request *request)
{
    return threads_offset(request) + regions_of(request) * WIRE_AGENT_RECORDS_BYTES;
}

uint64_t shared_file_size(const struct shared_request *request)
{
    return own_offset(request) + WIRE_AGENT_OWN_BYTES;
}

struct wire_agent_control *shared_file_control(const struct shared_file *file)
{
    return (struct wire_agent_control *)(void *)file->bytes;
}

uint64_t shared_file_region(const struct shared_file *file, uint32_t index)
{
    return file->regions_offset + index * file->layout.size;
}

struct wire_agent_process *shared_file_process(const struct shared_file *file, uint32_t index)
{
    return (struct wire_agent_process *)(void *)(file->bytes + shared_file_region(file, index));
}

static struct wire_agent_control control_of(const struct shared_request *request)
{
    return (struct wire_agent_control){
        .magic = WIRE_AGENT_MAGIC,
        .version = WIRE_AGENT_VERSION,
        .flags = request->flags,
        .file_size = shared_file_size(request),
        .rows_offset = CONTROL_BYTES,
        .rows_size = ROWS_BYTES,
        .regions_offset = CONTROL_BYTES + ROWS_BYTES,
        .region_size = wire_agent_layout(request->memory).size,
        .threads_offset = threads_offset(request),
        .own_offset = own_offset(request),
        .memory = request->memory,
        .region_count = regions_of(request),
        .next_region = 1,
        .sample_bytes = request->sample_bytes,
        .sample_seed = request->seed,
        .tally_pid = (uint32_t)getpid(),
        .patience_ms = request->patience_ms,
        .ns_of_ticks = request->ns_of_ticks,
        .timer_least_ns = request->timers.least_ns,
        .timer_spread_ns = request->timers.spread_ns,
        .timer_mean_ns = request->timers.mean_ns,
        .timer_tick_ns = request->timers.tick_ns,
        .timer_signal = request->timers.signal,
        .timer_other = request->timers.other,
        .timer_clock = request->timers.clock,
    };
}

void shared_file_pieces(const struct shared_request *request, struct shared_file_pieces *pieces)
{
    const struct wire_agent_control control = control_of(request);
    const struct wire_agent_layout layout = wire_agent_layout(request->memory);
    *pieces = (struct shared_file_pieces){.span = wire_agent_span(&control, &layout)};
    for (unsigned part = 0; part < WIRE_AGENT_PARTS; part++) {
        const struct wire_agent_place place = wire_agent_place(&control, &layout, part, 0);
        if (request->parts >> part & 1)
            pieces->items[pieces->count++] = (struct trace_inject_piece){
                place.address, place.file, wire_agent_first(&layout, part), part == WIRE_AGENT_PART_OWN};
    }
}

void shared_file_parameters(const struct shared_file *file, const struct shared_request *request,
                            uint64_t control, struct wire_agent_parameters *parameters)
{
    const struct wire_agent_control made = control_of(request), *page = &made;
    const struct wire_agent_layout *layout = &file->layout;
    parameters->control = control;
    parameters->process = control + file->regions_offset;
    parameters->threads = control + wire_agent_place(page, layout, WIRE_AGENT_PART_THREADS, 0).address;
    parameters->own = request->parts >> WIRE_AGENT_PART_OWN & 1
                          ? control + wire_agent_place(page, layout, WIRE_AGENT_PART_OWN, 0).address
                          : 0;
    for (unsigned part = 0; part < WIRE_AGENT_PARTS; part++)
        parameters->mapped[part] = request->parts >> part & 1 ? wire_agent_first(layout, part) : 0;
}

static int map_file(struct shared_file *file, int how, struct base_error *error)
{
    void *bytes = mmap(NULL, file->size, PROT_READ | PROT_WRITE, how | MAP_NORESERVE, file->file, 0);
    file->bytes = bytes == MAP_FAILED ? NULL : bytes;
    if (!file->bytes)
        return base_fail_errno(error, errno, "the agent's memory cannot be mapped");
    /* as in the target: a dump would make every page */
    madvise(file->bytes, file->size, MADV_DONTDUMP);
    return BASE_OK;
}

/* What a process maps at first, and the beginning of each region: tally reads that of one whose process has
 * not made its pages yet. */
static int commit_first(const struct shared_file *file, const struct shared_request *request,
                        struct base_error *error)
{
    struct shared_file_pieces pieces;
    shared_file_pieces(request, &pieces);
    int result = BASE_OK;
    for (size_t i = 0; i < pieces.count && result == BASE_OK; i++) {
        const struct trace_inject_piece *piece = &pieces.items[i];
        result = proc_commit_pages(file->file, piece->offset, piece->size, error);
    }
    for (uint32_t i = 1; i < file->region_count && result == BASE_OK; i++)
        result = proc_commit_pages(file->file, shared_file_region(file, i), CONTROL_BYTES, error);
    return result;
}

int shared_file_begin(struct shared_file *file, int descriptor, const struct shared_request *request,
                      struct base_error *error)
{
    *file = (struct shared_file){.file = descriptor,
                                 .size = threads_offset(request),
                                 .rows_offset = CONTROL_BYTES,
                                 .rows_size = ROWS_BYTES,
                                 .rows_used = ROWS_UNIT,
                                 .regions_offset = CONTROL_BYTES + ROWS_BYTES,
                                 .layout = wire_agent_layout(request->memory),
                                 .region_count = regions_of(request)};
    struct stat status;
    if (fstat(descriptor, &status) || (uint64_t)status.st_size < shared_file_size(request))
        return base_fail(error, BASE_EIO, "the agent's memory is smaller than was asked for");
    file->committed = request->flags & WIRE_AGENT_COMMIT;
    if (file->committed && commit_first(file, request, error) < 0)
        return BASE_EIO;
    if (fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
        return base_fail_errno(error, errno, "the agent's memory cannot be sealed");
    file->modules = calloc(WIRE_AGENT_MODULES, sizeof *file->modules);
    if (!file->modules)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = map_file(file, MAP_SHARED, error);
    if (result < 0) {
        free(file->modules);
        file->modules = NULL;
        return result;
    }
    *shared_file_control(file) = control_of(request);
    return BASE_OK;
}

/* The kernel refuses a seal against writing while a process has the file mapped for that. We must not be
 * that. */
int shared_file_outlives(struct shared_file *file, struct base_error *error)
{
    munmap(file->bytes, file->size);
    bool theirs = fcntl(file->file, F_ADD_SEALS, F_SEAL_WRITE) && errno == EBUSY;
    int result = map_file(file, theirs ? MAP_SHARED : MAP_PRIVATE, error);
    return result < 0 ? result : theirs;
}

void shared_file_end(struct shared_file *file)
{
    if (file->bytes)
        munmap(file->bytes, file->size);
    free(file->modules);
    *file = (struct shared_file){.file = -1};
}

static bool is_of_file(const void *context, const struct proc_mapping *mapping)
{
    const struct stat *file = context;
    return mapping->inode == file->st_ino && mapping->shared &&
           makedev(mapping->device_major, mapping->device_minor) == file->st_dev;
}

bool shared_file_is_users(const struct shared_file *file, pid_t pid)
{
    struct stat status;
    return !fstat(file->file, &status) && proc_users_is(pid, is_of_file, &status);
}

size_t shared_file_users(const struct shared_file *file, pid_t **pids)
{
    struct stat status;
    *pids = NULL;
    return fstat(file->file, &status) ? 0 : proc_users_list(is_of_file, &status, false, pids);
}

/* --- rows and modules --- */

int shared_file_rows(struct shared_file *file, const void *blob, uint64_t size, uint64_t *offset,
                     struct base_error *error)
{
    if (size > file->rows_size - file->rows_used)
        return base_fail(error, BASE_ENOMEM, "no room for more call-frame information in the agent's memory");
    *offset = file->rows_used;
    if (file->committed && proc_commit_pages(file->file, file->rows_offset + *offset, size, error) < 0)
        return BASE_ENOMEM;
    memcpy(file->bytes + file->rows_offset + *offset, blob, size);
    uint64_t used = file->rows_used + (size + ROWS_UNIT - 1) / ROWS_UNIT * ROWS_UNIT;
    file->rows_used = used < file->rows_size ? used : file->rows_size;
    return BASE_OK;
}

void shared_file_modules(struct shared_file *file)
{
    file->module_count = 0;
}

bool shared_file_module(struct shared_file *file, const struct wire_agent_module *module)
{
    if (file->module_count == WIRE_AGENT_MODULES)
        return false;
    file->modules[file->module_count++] = *module;
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct wire_agent_module *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* The other table is written, and then becomes the valid one. */
void shared_file_publish(struct shared_file *file, uint32_t region)
{
    struct wire_agent_process *process = shared_file_process(file, region);
    uint32_t generation = __atomic_load_n(&process->generation, __ATOMIC_ACQUIRE);
    generation += generation ? 1 : 2; /* 0 says that there is no table at all */
    unsigned table = generation & 1;
    qsort(file->modules, file->module_count, sizeof *file->modules, by_start);
    memcpy(file->bytes + shared_file_region(file, region) + file->layout.modules[table], file->modules,
           file->module_count * sizeof *file->modules);
    __atomic_store_n(&process->module_count[table], file->module_count, __ATOMIC_RELEASE);
    __atomic_store_n(&process->generation, generation, __ATOMIC_RELEASE);
}

void shared_file_claim_region(struct shared_file *file, pid_t pid, uint64_t start_time)
{
    struct wire_agent_process *process = shared_file_process(file, 0);
    process->magic = WIRE_AGENT_MAGIC;
    process->version = WIRE_AGENT_VERSION;
    process->pid = (uint32_t)pid;
    process->start_time = start_time;
    process->scale = shared_file_control(file)->sample_bytes ? WIRE_AGENT_SCALE : 1;
    __atomic_store_n(&process->state, WIRE_AGENT_RUNNING, __ATOMIC_RELEASE);
}

/* --- requests --- */

static int failed_first(const void *left, const void *right)
{
    const struct shared_ask *a = left, *b = right;
    return (b->what == WIRE_AGENT_EXEC_FAILED) - (a->what == WIRE_AGENT_EXEC_FAILED);
}

static void take_asks(struct wire_agent_process *process, struct shared_asks *asks)
{
    asks->count = 0;
    for (size_t i = 0; i < WIRE_AGENT_ASKS; i++) {
        uint64_t word = __atomic_exchange_n(&process->asks[i], 0, __ATOMIC_ACQ_REL);
        if (word)
            asks->items[asks->count++] = (struct shared_ask){(uint32_t)(word >> 32), (uint32_t)word};
    }
    qsort(asks->items, asks->count, sizeof *asks->items, failed_first);
}

bool shared_file_request(const struct shared_file *file, uint32_t region, uint32_t *asked, uint32_t *sequence,
                         struct shared_asks *asks)
{
    struct wire_agent_process *process = shared_file_process(file, region);
    asks->count = *asked = 0;
    *sequence = __atomic_load_n(&process->request_sequence, __ATOMIC_ACQUIRE);
    if (*sequence == __atomic_load_n(&process->answer_sequence, __ATOMIC_ACQUIRE))
        return false;
    *asked = __atomic_exchange_n(&process->request, 0, __ATOMIC_ACQ_REL);
    take_asks(process, asks);
    return true;
}

void shared_file_answer(struct shared_file *file, uint32_t region, uint32_t sequence)
{
    struct wire_agent_process *process = shared_file_process(file, region);
    __atomic_store_n(&process->answer_sequence, sequence, __ATOMIC_RELEASE);
    loader_listen_wake(&process->answer_sequence);
}

void shared_file_release(struct shared_file *file, uint32_t region)
{
    struct wire_agent_process *process = shared_file_process(file, region);
    uint32_t asked = __atomic_load_n(&process->request_sequence, __ATOMIC_RELAXED);
    __atomic_store_n(&process->answer_sequence, asked + MANY_REQUESTS, __ATOMIC_RELEASE);
    loader_listen_wake(&process->answer_sequence);
}

void shared_file_leave(struct shared_file *file)
{
    __atomic_store_n(&shared_file_control(file)->gone, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < shared_file_regions(file); i++)
        loader_listen_wake(&shared_file_process(file, i)->answer_sequence);
}

void shared_file_suspend(struct shared_file *file, bool suspended)
{
    __atomic_store_n(&shared_file_control(file)->suspended, suspended, __ATOMIC_RELEASE);
}

uint32_t shared_file_regions(const struct shared_file *file)
{
    uint32_t next = __atomic_load_n(&shared_file_control(file)->next_region, __ATOMIC_ACQUIRE);
    return next < file->region_count ? next : file->region_count;
}

static void punch_range(const struct shared_file *file, uint64_t offset, uint64_t size)
{
    fallocate(file->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
}

/* The first pages stay: a child that comes to a hook later copies the modules, and knows by `state` that it
 * may count. */
void shared_file_forget(struct shared_file *file, uint32_t region)
{
    uint64_t kept = WIRE_AGENT_SAMPLED_AT;
    punch_range(file, shared_file_region(file, region) + kept, file->layout.size - kept);
    punch_range(file, file->size + region * WIRE_AGENT_RECORDS_BYTES, WIRE_AGENT_RECORDS_BYTES);
}

uint64_t shared_file_used(const struct shared_file *file)
{
    struct stat status;
    return fstat(file->file, &status) ? 0 : (uint64_t)status.st_blocks * 512;
}

/* --- reading --- */

static uint32_t at_most(uint32_t value, uint64_t most)
{
    return value < most ? value : (uint32_t)most;
}

/* A copy of items 0 to `count`; they are read by a call, so that nothing the target does to its memory ends
 * us. */
static void *copy_items(const struct shared_file *file, uint64_t offset, uint32_t count, size_t size)
{
    uint8_t *items = calloc((size_t)count + 1, size);
    size_t wanted = ((size_t)count + 1) * size, got = 0;
    while (items && got < wanted) {
        ssize_t read = pread(file->file, items + got, wanted - got, (off_t)(offset + got));
        if (read <= 0)
            break;
        got += (size_t)read;
    }
    return items;
}

int shared_file_read(const struct shared_file *file, uint32_t region, struct shared_tree *tree,
                     struct base_error *error)
{
    const struct wire_agent_layout *layout = &file->layout;
    uint64_t start = shared_file_region(file, region);
    memcpy(&tree->process, shared_file_process(file, region), sizeof tree->process);
    tree->node_count = at_most(tree->process.node_count, layout->node_count - 1);
    tree->cell_count = at_most(tree->process.cell_count, layout->cell_count - 1);
    tree->nodes = copy_items(file, start + layout->nodes, tree->node_count, sizeof *tree->nodes);
    tree->cells = copy_items(file, start + layout->cells, tree->cell_count, sizeof *tree->cells);
    tree->latency_count = at_most(tree->process.latency_count, WIRE_AGENT_LATENCIES - 1);
    tree->latencies =
        copy_items(file, start + layout->latencies, tree->latency_count, sizeof *tree->latencies);
    if (tree->nodes && tree->cells && tree->latencies)
        return BASE_OK;
    shared_tree_free(tree);
    return base_fail(error, BASE_ENOMEM, "out of memory for what the agent counted");
}

void shared_tree_free(struct shared_tree *tree)
{
    free(tree->nodes);
    free(tree->cells);
    free(tree->latencies);
    *tree = (struct shared_tree){0};
}
