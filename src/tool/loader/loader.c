/* Loading: the order is plan, stop, map, fill, hook, continue; a step that fails undoes those before it. */
#include "loader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loader_inside.h"
#include "proc_target.h"

#define HIGHEST      0x7ffffffff000ull /* end of user space with four-level page tables */
#define LOWEST       0x10000ull
#define ROOM_ABOVE   (1ull << 30) /* below other mappings, for the kernel's next ones and slabs */
#define ROOM_TO_GROW (1ull << 38) /* ... for tables: nothing should be mapped between pieces */

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- reaching a process --- */

/* 0: not known. */
static uint64_t start_of(pid_t pid)
{
    struct proc_target_facts facts;
    return proc_target_facts(pid, pid, &facts) == BASE_OK ? facts.started : 0;
}

/* After the process was seized or opened by its number: is it still the one that the agent was loaded
 * into? One that had ended before its start time was read is not. */
static int check_same(const struct loader_agent *agent, struct base_error *error)
{
    return agent->started && start_of(agent->pid) == agent->started
               ? BASE_OK
               : base_fail(error, BASE_ENOTFOUND, "process %d has ended", (int)agent->pid);
}

static int stop_same(const struct loader_agent *agent, struct loader_access *access, struct helper *helper,
                     bool held, struct base_error *error)
{
    int result = loader_stop(access, helper, agent->pid, held, error);
    if (result == BASE_OK)
        result = check_same(agent, error);
    if (result < 0)
        loader_resume(access, held);
    return result;
}

/* --- places --- */

/* Near where the kernel maps by itself, where programs expect mappings: the upper end of the highest gap
 * with room to spare, or else of the largest. */
static bool find_place(const struct proc_maps *maps, uint64_t size, uint64_t above, uint64_t *address)
{
    uint64_t from = LOWEST, start = 0, end = 0;
    for (size_t i = 0; i <= maps->count; i++) {
        uint64_t to = i < maps->count && maps->items[i].start < HIGHEST ? maps->items[i].start : HIGHEST;
        if (to > from && (to - from > end - start || to - from > size + 4 * above)) {
            start = from;
            end = to;
        }
        if (i < maps->count && maps->items[i].end > from)
            from = maps->items[i].end;
    }
    if (end - start < size)
        return false;
    uint64_t room = end - start - size > 2 * above ? above : (end - start - size) / 2;
    *address = (end - room - size) & ~(uint64_t)(LOADER_PAGE - 1);
    return *address >= start;
}

static int find_gap(const struct loader_agent *agent, uint64_t size, uint64_t above, uint64_t *address,
                    struct base_error *error)
{
    struct proc_maps maps = {0};
    int result = proc_maps_read(agent->pid, &maps, error);
    bool found = result == BASE_OK && find_place(&maps, size, above, address);
    proc_maps_free(&maps);
    if (result == BASE_OK && !found)
        return base_fail(error, BASE_EUNSUPPORTED, "process %d has no %llu MB of address space left",
                         agent->pid, (unsigned long long)(size >> 20));
    return result;
}

/* Is only execution forbidden? Then the same can be mapped for reading. */
static int explain_refused(struct loader_access *access, const struct helper_room *room,
                           const struct base_error *why, int code, struct base_error *error)
{
    struct helper_room readable = *room;
    uint64_t address;
    int file;
    readable.protection = PROT_READ;
    if (code != BASE_EPERMISSION ||
        helper_trace_share(access->helper, access->trace, &readable, &address, &file, NULL) < 0)
        return base_fail(error, code, "%s", why->text);
    close(file);
    helper_trace_unmap(access->helper, access->trace, address, readable.size, NULL);
    return base_fail(
        error, BASE_EUNSUPPORTED,
        "process %d may not execute new memory, which heap, descriptors and single functions need: allow it "
        "(SELinux: execmem; systemd: MemoryDenyWriteExecute=no), or record time alone",
        access->pid);
}

/* --- mapping --- */

static int write_at(int file, const void *bytes, uint64_t size, uint64_t offset, struct base_error *error)
{
    if (pwrite(file, bytes, size, (off_t)offset) == (ssize_t)size)
        return BASE_OK;
    return base_fail_errno(error, errno, "the agent's memory cannot be written");
}

/* By pwrite, which fails where there is no memory; an access through a mapping of ours would be a SIGBUS. */
static int write_home(const struct loader_agent *agent, const uint8_t *bytes, int file,
                      struct base_error *error)
{
    struct loader_home head = {.magic = LOADER_HOME,
                               .version = LOADER_VERSION,
                               .ranges = {{agent->home, agent->home_size, 1, 0},
                                          {agent->data, agent->alive + LOADER_PAGE - agent->data, 0, 0}}};
    head.count = 2;
    if (agent->tables != NULL)
        head.ranges[head.count++] =
            (struct loader_own_range){agent->tables->address, agent->tables->span, 0, 0};
    int result = write_at(file, &head, sizeof head, 0, error);
    return result < 0 ? result : write_at(file, bytes, agent->home_size - LOADER_PAGE, LOADER_PAGE, error);
}

static int map_home(struct loader_agent *agent, struct loader_access *access, const uint8_t *bytes,
                    struct base_error *error)
{
    struct base_error why = {0};
    const struct helper_room room = {.low = agent->home,
                                     .size = agent->home_size,
                                     .protection = PROT_READ | PROT_EXEC,
                                     .name = LOADER_NAME};
    uint64_t address;
    int file, result = helper_trace_share(access->helper, access->trace, &room, &address, &file, &why);
    if (result < 0) {
        agent->home_size = 0;
        return explain_refused(access, &room, &why, result, error);
    }
    result = write_home(agent, bytes, file, error);
    close(file);
    return result;
}

/* The image's data; in the page behind it the word that a child of fork finds to be 0. */
static int map_data(struct loader_agent *agent, struct loader_access *access, const uint8_t *bytes,
                    struct base_error *error)
{
    const struct helper_room room = {
        .low = agent->data, .size = agent->data_size, .protection = PROT_READ | PROT_WRITE};
    const uint64_t alive = 1;
    uint64_t address, size = agent->alive - agent->data;
    int result = helper_trace_map(access->helper, access->trace, &room, &address, error);
    if (result < 0) {
        agent->data_size = 0;
        return result;
    }
    result = helper_trace_wipe(access->helper, access->trace, agent->alive, LOADER_PAGE, error);
    if (result == BASE_OK && size)
        result = helper_trace_write(access->helper, access->trace, agent->data, bytes, size, error);
    if (result == BASE_OK)
        result = helper_trace_write(access->helper, access->trace, agent->alive, &alive, sizeof alive, error);
    return result;
}

static int map_tables(struct loader_agent *agent, struct loader_access *access,
                      const struct loader_options *options, struct base_error *error)
{
    if (options->piece_count == 0)
        return BASE_OK;
    struct loader_tables *tables = calloc(1, sizeof *tables);
    if (tables == NULL)
        return no_memory(error);
    tables->span = options->span;
    int result = find_gap(agent, tables->span, ROOM_TO_GROW, &tables->address, error);
    const struct trace_inject_shared shared = {.name = LOADER_NAME,
                                               .address = tables->address,
                                               .size = options->file_size,
                                               .pieces = options->pieces,
                                               .piece_count = options->piece_count};
    if (result == BASE_OK)
        result = helper_trace_share_pieces(access->helper, access->trace, &shared, &tables->file, error);
    if (result < 0) {
        free(tables);
        return base_fail_context(
            error, result, "the agent's tables (a limit of addresses, set with ulimit -v, may forbid them)");
    }
    tables->owners = 1;
    agent->tables = tables;
    return BASE_OK;
}

static int map_image(struct loader_agent *agent, struct loader_access *access, struct base_error *error)
{
    uint64_t span = loader_image_span(agent->image), fixed = loader_image_fixed(agent->image);
    uint64_t start;
    int result = find_gap(agent, span + 2 * LOADER_PAGE, ROOM_ABOVE, &start, error);
    if (result < 0)
        return result;
    agent->home = start;
    agent->base = start + LOADER_PAGE;
    agent->home_size = LOADER_PAGE + fixed;
    agent->data = agent->base + fixed;
    agent->data_size = span - fixed + LOADER_PAGE;
    agent->alive = agent->base + span;
    uint8_t *bytes = malloc(span);
    result = bytes == NULL ? no_memory(error) : loader_image_make(agent->image, agent->base, bytes, error);
    uint64_t data_size = agent->data_size;
    agent->data_size = 0;
    if (result == BASE_OK)
        result = map_home(agent, access, bytes, error);
    else
        agent->home_size = 0;
    if (result == BASE_OK) {
        agent->data_size = data_size;
        result = map_data(agent, access, bytes + fixed, error);
    }
    free(bytes);
    return result;
}

static void unmap_all(struct loader_agent *agent, struct loader_access *access,
                      const struct loader_options *options)
{
    struct helper *helper = access->helper;
    if (agent->home_size)
        helper_trace_unmap(helper, access->trace, agent->home, agent->home_size, NULL);
    if (agent->data_size)
        helper_trace_unmap(helper, access->trace, agent->data, agent->data_size, NULL);
    for (size_t i = 0; agent->tables != NULL && i < options->piece_count; i++)
        helper_trace_unmap(helper, access->trace, agent->tables->address + options->pieces[i].at,
                           options->pieces[i].size, NULL);
    loader_unmap_slabs(agent, access);
}

/* --- loading --- */

static bool has_agent(pid_t pid)
{
    struct proc_maps maps = {0};
    bool found = false;
    proc_maps_read(pid, &maps, NULL);
    for (size_t i = 0; i < maps.count; i++)
        found |= strcmp(maps.items[i].path, LOADER_PATH) == 0;
    proc_maps_free(&maps);
    return found;
}

/* A second agent would count the first one's calls. */
static int refuse_second(pid_t pid, struct base_error *error)
{
    return has_agent(pid) ? base_fail(error, BASE_EBUSY, "process %d has an agent already", pid) : BASE_OK;
}

static int load_held(struct loader_agent *agent, struct loader_access *access,
                     const struct loader_options *options, struct base_error *error)
{
    int result = refuse_second(agent->pid, error);
    if (result == BASE_OK)
        result = loader_survey(agent, error); /* again: it ran */
    if (result == BASE_OK)
        result = map_tables(agent, access, options, error);
    if (result == BASE_OK)
        result = map_image(agent, access, error);
    if (result == BASE_OK && options->prepare != NULL) {
        agent->loading = access;
        result = options->prepare(options->context, agent, error);
        agent->loading = NULL;
    }
    if (result == BASE_OK)
        result = loader_set_hooks(agent, access, error);
    if (result < 0)
        unmap_all(agent, access, options);
    return result < 0 ? result : BASE_OK;
}

int loader_load(struct helper *helper, pid_t pid, bool held, const struct loader_options *options,
                struct loader_agent **agent, struct base_error *error)
{
    struct loader_access access;
    struct loader_agent *made = calloc(1, sizeof *made);
    if (made == NULL)
        return no_memory(error);
    *made = (struct loader_agent){.pid = pid, .image = options->image, .plans = options->plans};
    int result = has_agent(pid) ? loader_remove_remains(helper, pid, held, error) : BASE_OK;
    if (result == BASE_OK)
        result = loader_survey(made, error);
    if (result == BASE_OK)
        result = loader_stop(&access, helper, pid, held, error);
    if (result == BASE_OK) {
        made->started = start_of(pid);
        result = load_held(made, &access, options, error);
        loader_resume(&access, held);
    }
    if (result == BASE_OK)
        *agent = made;
    else
        loader_free(made);
    return result;
}

/* --- a fork child's --- */

static struct loader_object *copy_object(const struct loader_object *from)
{
    struct loader_object *object = malloc(sizeof *object);
    if (object == NULL)
        return NULL;
    *object = *from;
    object->path = strdup(from->path);
    if (object->path != NULL)
        return object;
    free(object);
    return NULL;
}

/* Hooks have the paths of objects; the copies' are in the same order. */
static const char *copied_path(const struct loader_agent *from, const struct loader_agent *to,
                               const char *path)
{
    for (size_t i = 0; i < from->object_count; i++)
        if (from->objects[i]->path == path)
            return to->objects[i]->path;
    return "";
}

static bool copy_lists(const struct loader_agent *from, struct loader_agent *to)
{
    to->objects = calloc(from->object_count + 1, sizeof(struct loader_object *));
    to->slabs = calloc(from->slab_count + 1, sizeof(struct loader_slab *));
    to->hooks = calloc(from->hook_count + 1, sizeof *to->hooks);
    if (to->objects == NULL || to->slabs == NULL || to->hooks == NULL)
        return false;
    to->object_capacity = from->object_count + 1;
    to->slab_capacity = from->slab_count + 1;
    to->hook_capacity = from->hook_count + 1;
    for (; to->object_count < from->object_count; to->object_count++)
        if ((to->objects[to->object_count] = copy_object(from->objects[to->object_count])) == NULL)
            return false;
    for (; to->slab_count < from->slab_count; to->slab_count++) {
        to->slabs[to->slab_count] = from->slabs[to->slab_count];
        to->slabs[to->slab_count]->owners++;
    }
    for (; to->hook_count < from->hook_count; to->hook_count++) {
        to->hooks[to->hook_count] = from->hooks[to->hook_count];
        to->hooks[to->hook_count].path = copied_path(from, to, from->hooks[to->hook_count].path);
    }
    return true;
}

int loader_adopt(const struct loader_agent *parent, pid_t pid, struct loader_agent **agent,
                 struct base_error *error)
{
    struct loader_agent *made = malloc(sizeof *made);
    if (made == NULL)
        return no_memory(error);
    *made = *parent;
    made->pid = pid;
    made->started = start_of(pid);
    made->objects = NULL;
    made->slabs = NULL;
    made->hooks = NULL;
    made->object_count = made->slab_count = made->hook_count = 0;
    if (made->tables != NULL)
        made->tables->owners++;
    if (copy_lists(parent, made)) {
        *agent = made;
        return BASE_OK;
    }
    loader_free(made);
    return no_memory(error);
}

static void release_tables(struct loader_tables *tables)
{
    if (tables == NULL || --tables->owners)
        return;
    close(tables->file);
    free(tables);
}

void loader_free(struct loader_agent *agent)
{
    if (agent == NULL)
        return;
    for (size_t i = 0; i < agent->slab_count; i++)
        loader_slab_release(agent->slabs[i]);
    for (size_t i = 0; i < agent->object_count; i++) {
        free(agent->objects[i]->path);
        free(agent->objects[i]);
    }
    release_tables(agent->tables);
    free(agent->slabs);
    free(agent->objects);
    free(agent->hooks);
    free(agent);
}

/* --- what is where --- */

pid_t loader_pid(const struct loader_agent *agent)
{
    return agent->pid;
}

uint64_t loader_base(const struct loader_agent *agent)
{
    return agent->base;
}

uint64_t loader_region(const struct loader_agent *agent)
{
    return agent->tables != NULL ? agent->tables->address : 0;
}

uint64_t loader_alive(const struct loader_agent *agent)
{
    return agent->alive;
}

int loader_region_file(const struct loader_agent *agent)
{
    return agent->tables != NULL ? agent->tables->file : -1;
}

int loader_write(struct loader_agent *agent, uint64_t offset, const void *bytes, size_t size,
                 struct base_error *error)
{
    struct trace_memory memory;
    uint64_t address = agent->base + offset;
    if (address < agent->data || address > agent->alive || size > agent->alive - address)
        return base_fail(error, BASE_EUSAGE, "not in the writable part of the agent");
    if (agent->loading != NULL)
        return helper_trace_write(agent->loading->helper, agent->loading->trace, address, bytes, size, error);
    int result = trace_memory_open(&memory, agent->pid, error);
    if (result == BASE_OK)
        result = trace_memory_write(&memory, address, bytes, size, error);
    trace_memory_close(&memory);
    return result;
}

/* --- visits --- */

int loader_visit(struct loader_agent *agent, struct helper *helper, bool held,
                 int (*visit)(void *context, struct loader_agent *agent, struct base_error *error),
                 void *context, struct base_error *error)
{
    struct loader_access access;
    int result = stop_same(agent, &access, helper, held, error);
    if (result < 0)
        return result;
    agent->loading = &access;
    result = visit(context, agent, error);
    agent->loading = NULL;
    loader_resume(&access, held);
    return result;
}

int loader_call(struct loader_agent *agent, struct helper_trace_call *calls, size_t count,
                struct base_error *error)
{
    const struct loader_access *access = agent->loading;
    if (access == NULL)
        return base_fail(error, BASE_EUSAGE, "process %d is not stopped", agent->pid);
    return helper_trace_call(access->helper, access->trace, agent->pid, calls, count, error);
}

/* --- new objects --- */

static bool has_work(const struct loader_agent *agent)
{
    for (size_t i = 0; i < agent->object_count; i++)
        if (agent->objects[i]->live && !agent->objects[i]->done && agent->objects[i]->file != NULL &&
            agent->objects[i]->file->functions.count)
            return true;
    return false;
}

/* Without a stop; BASE_EBUSY: a stop is needed. */
static int update_running(struct loader_agent *agent)
{
    struct loader_access access = {.pid = agent->pid};
    if (trace_memory_open(&access.memory, agent->pid, NULL) < 0)
        return BASE_EBUSY;
    int result = check_same(agent, NULL);
    if (result == BASE_OK)
        result = loader_set_hooks(agent, &access, NULL);
    trace_memory_close(&access.memory);
    return result;
}

int loader_update(struct loader_agent *agent, struct helper *helper, bool held, bool quiet,
                  struct base_error *error)
{
    struct loader_access access;
    int result = loader_survey(agent, error);
    if (result < 0 || !has_work(agent))
        return result;
    result = quiet && !held ? update_running(agent) : BASE_EBUSY;
    if (result != BASE_EBUSY)
        return result < 0 ? base_fail(error, result, "hooks of new objects cannot be set") : result;
    result = stop_same(agent, &access, helper, held, error);
    if (result < 0)
        return result;
    result = loader_survey(agent, error);
    if (result == BASE_OK)
        result = loader_set_hooks(agent, &access, error);
    loader_resume(&access, held);
    return result;
}
