/* Which objects a process has mapped, and which of the functions their files have. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_array.h"
#include "loader_inside.h"
#include "plan_image.h"
#include "plan_linkage.h"
#include "plan_select.h"

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- files --- */

struct loader_plans *loader_plans_new(const struct loader_function *functions, size_t count)
{
    struct loader_plans *plans = calloc(1, sizeof *plans);
    struct plan_function_request *requests = calloc(count + 1, sizeof *requests);
    if (plans == NULL || requests == NULL) {
        free(plans);
        free(requests);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        requests[i] = functions[i].request;
    *plans = (struct loader_plans){.functions = functions, .function_count = count, .requests = requests};
    return plans;
}

void loader_plans_leave_out(struct loader_plans *plans, const char *const *globs, size_t glob_count)
{
    plans->globs = globs;
    plans->glob_count = glob_count;
}

static void free_file(struct loader_file *file)
{
    plan_functions_free(&file->functions);
    free(file->segments);
    free(file);
}

void loader_plans_free(struct loader_plans *plans)
{
    if (plans == NULL)
        return;
    for (size_t i = 0; i < plans->count; i++)
        free_file(plans->files[i]);
    free(plans->files);
    free(plans->requests);
    free(plans);
}

static bool is_same(const struct loader_file *file, const struct stat *facts)
{
    return file->device == facts->st_dev && file->inode == facts->st_ino &&
           file->size == (uint64_t)facts->st_size && file->seconds == facts->st_mtim.tv_sec &&
           file->nanoseconds == facts->st_mtim.tv_nsec;
}

static int keep_segments(struct loader_file *file, const struct elf_image *image, struct base_error *error)
{
    const struct elf_segment *segments;
    file->segment_count = elf_image_segments(image, &segments);
    file->segments = calloc(file->segment_count + 1, sizeof *file->segments);
    if (file->segments == NULL)
        return no_memory(error);
    file->low = UINT64_MAX;
    for (size_t i = 0; i < file->segment_count; i++) {
        uint64_t end = segments[i].address + segments[i].memory_size;
        file->segments[i] = segments[i];
        file->low = segments[i].address < file->low ? segments[i].address : file->low;
        file->high = end > file->high ? end : file->high;
    }
    return BASE_OK;
}

/* Where a program calls one function for two purposes, the calls cannot be distinguished: each purpose
 * must have its own function. */
static void refuse_shared_functions(const struct loader_plans *plans, struct plan_functions *found)
{
    for (size_t i = 0; i < found->count; i++) {
        uint32_t distinct_from = plans->functions[found->items[i].request].distinct_from;
        bool is_distinct = distinct_from == 0;
        for (size_t j = 0; j < found->count && !is_distinct; j++)
            is_distinct = found->items[j].request == distinct_from - 1;
        if (!is_distinct)
            found->items[i].reason = STUB_REASON_ENTRY_SAME;
    }
}

static void refuse_left_out(const struct loader_plans *plans, const struct elf_image *image, const char *path,
                            struct plan_functions *found)
{
    if (!plan_select_leaves_out(plan_select_image_name(image, path), plans->globs, plans->glob_count))
        return;
    for (size_t i = 0; i < found->count; i++)
        found->items[i].reason = STUB_REASON_LEFT_OUT;
}

static int read_loader_file(struct loader_plans *plans, struct loader_file *file, int descriptor,
                            const char *path, struct base_error *error)
{
    struct elf_image *image = NULL;
    int result = elf_image_open_fd(descriptor, path, &image, error);
    if (result == BASE_OK)
        result = keep_segments(file, image, error);
    if (result == BASE_OK)
        result =
            plan_function_plan(image, path, plans->requests, plans->function_count, &file->functions, error);
    refuse_shared_functions(plans, &file->functions);
    if (result == BASE_OK)
        result =
            plan_linkage_add(image, path, plans->requests, plans->function_count, &file->functions, error);
    if (result == BASE_OK)
        refuse_left_out(plans, image, path, &file->functions);
    if (result == BASE_OK && file->functions.count)
        file->owns_stacks = plan_image_owns_stacks(image);
    if (image != NULL)
        elf_image_close(image);
    return result;
}

/* Which of the functions the open file `descriptor` (which is closed) has; the result is cached. `path`:
 * of the object, for requests and messages. */
static int find_loader_file(struct loader_plans *plans, int descriptor, const char *path,
                            const struct loader_file **file, struct base_error *error)
{
    struct stat facts = {0};
    int result = fstat(descriptor, &facts);
    for (size_t i = 0; result == 0 && i < plans->count; i++)
        if (is_same(plans->files[i], &facts)) {
            close(descriptor);
            *file = plans->files[i];
            return BASE_OK;
        }
    struct loader_file *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL || !base_array_room(plans->files, plans->count, plans->capacity)) {
        close(descriptor);
        free(fresh);
        return no_memory(error);
    }
    *fresh = (struct loader_file){.device = facts.st_dev,
                                  .inode = facts.st_ino,
                                  .size = (uint64_t)facts.st_size,
                                  .seconds = facts.st_mtim.tv_sec,
                                  .nanoseconds = facts.st_mtim.tv_nsec};
    result = read_loader_file(plans, fresh, descriptor, path, error);
    if (result < 0) {
        free_file(fresh);
        return result;
    }
    plans->files[plans->count++] = fresh;
    *file = fresh;
    return BASE_OK;
}

/* --- objects --- */

static bool is_object(const struct proc_mapping *mapping)
{
    return mapping->executable && !mapping->shared && mapping->inode != 0 && mapping->path[0] == '/';
}

static bool is_mapping_of(const struct loader_object *object, const struct proc_mapping *mapping)
{
    return object->live && object->start == mapping->start && object->end == mapping->end &&
           object->inode == mapping->inode && object->device_major == mapping->device_major &&
           object->device_minor == mapping->device_minor;
}

/* The mapping's bias, from the executable segment that it is of. */
static bool find_bias(const struct loader_file *file, const struct proc_mapping *mapping, uint64_t *bias)
{
    for (size_t i = 0; i < file->segment_count; i++) {
        const struct elf_segment *segment = &file->segments[i];
        uint64_t first = segment->offset & ~(uint64_t)(LOADER_PAGE - 1);
        if (!segment->executable || mapping->offset < first ||
            mapping->offset >= segment->offset + segment->file_size)
            continue;
        *bias = mapping->start - (segment->address - segment->offset + mapping->offset);
        return true;
    }
    return false;
}

/* An object whose file cannot be read, or is no ELF image, stays in the list, and has no functions. */
static int read_object_file(struct loader_agent *agent, struct loader_object *object,
                            const struct proc_mapping *mapping)
{
    struct base_error why = {0};
    const struct loader_file *file = NULL;
    int descriptor = proc_maps_open(agent->pid, mapping, &why);
    int result =
        descriptor < 0 ? descriptor : find_loader_file(agent->plans, descriptor, mapping->path, &file, &why);
    if (result == BASE_OK && find_bias(file, mapping, &object->bias))
        object->file = file;
    return result == BASE_ENOMEM ? result : BASE_OK;
}

static int add_object(struct loader_agent *agent, const struct proc_mapping *mapping,
                      struct base_error *error)
{
    struct loader_object *object = calloc(1, sizeof *object);
    if (object == NULL || !base_array_room(agent->objects, agent->object_count, agent->object_capacity)) {
        free(object);
        return no_memory(error);
    }
    *object = (struct loader_object){.start = mapping->start,
                                     .end = mapping->end,
                                     .inode = mapping->inode,
                                     .device_major = mapping->device_major,
                                     .device_minor = mapping->device_minor,
                                     .live = true,
                                     .seen = true,
                                     .path = strdup(mapping->path)};
    agent->objects[agent->object_count++] = object;
    if (object->path == NULL || read_object_file(agent, object, mapping) < 0)
        return no_memory(error);
    return BASE_OK;
}

static void forget_hooks(struct loader_agent *agent, const struct loader_object *object)
{
    for (size_t i = 0; i < agent->hook_count; i++) {
        struct loader_hook *hook = &agent->hooks[i];
        if (hook->address >= object->start && hook->address < object->end)
            hook->state = LOADER_GONE;
    }
}

static void forget_unseen(struct loader_agent *agent)
{
    for (size_t i = 0; i < agent->object_count; i++) {
        struct loader_object *object = agent->objects[i];
        if (!object->live || object->seen)
            continue;
        object->live = false;
        forget_hooks(agent, object);
    }
}

static struct loader_object *find_object(struct loader_agent *agent, const struct proc_mapping *mapping)
{
    for (size_t i = 0; i < agent->object_count; i++)
        if (is_mapping_of(agent->objects[i], mapping))
            return agent->objects[i];
    return NULL;
}

int loader_survey(struct loader_agent *agent, struct base_error *error)
{
    struct proc_maps maps = {0};
    int result = proc_maps_read(agent->pid, &maps, error);
    for (size_t i = 0; i < agent->object_count; i++)
        agent->objects[i]->seen = false;
    for (size_t i = 0; i < maps.count && result == BASE_OK; i++) {
        struct loader_object *object;
        if (!is_object(&maps.items[i]))
            continue;
        if ((object = find_object(agent, &maps.items[i])) != NULL)
            object->seen = true;
        else
            result = add_object(agent, &maps.items[i], error);
    }
    if (result == BASE_OK)
        forget_unseen(agent);
    proc_maps_free(&maps);
    return result;
}
