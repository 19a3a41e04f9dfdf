#include "sample_process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base_array.h"
#include "base_quote.h"
#include "base_read.h"
#include "base_search.h"
#include "base_text.h"
#include "proc_cgroup.h"
#include "proc_maps.h"
#include "proc_target.h"
#include "wire_loss.h"

enum {
    NAME_SIZE = 64,         /* those of kernel threads are longest */
    COMMAND_MOST = 1 << 16, /* bytes of a command line that are read */
};

void sample_processes_init(struct sample_processes *processes, struct sample_images *images,
                           uint64_t start_ns)
{
    *processes =
        (struct sample_processes){.images = images, .profile = images->profile, .start_ns = start_ns};
}

static void free_process(struct sample_process *process)
{
    free(process->mappings);
    if (process->jit)
        symbol_jit_free(process->jit);
    if (process->jit_dump_fd >= 0)
        close(process->jit_dump_fd);
}

void sample_processes_free(struct sample_processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        free_process(&processes->items[i]);
    free(processes->items);
    base_map_free(&processes->by_pid);
    base_map_free(&processes->thread_of);
    *processes = (struct sample_processes){0};
}

/* --- names, from /proc --- */

/* A string of the profile; 0: not known, or not yet, since exec has its name before its words. */
static uint32_t read_command(const struct sample_processes *processes, pid_t pid)
{
    struct base_text words = {0}, line = {0}; /* words: each with a zero byte behind it */
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    if (!processes->replayed)
        base_read_file(path, COMMAND_MOST, &words);
    for (size_t at = 0; at < words.length; at += strlen(words.data + at) + 1)
        base_quote_word(&line, words.data + at);
    uint32_t command = line.length ? profile_string(processes->profile, line.data) : 0;
    base_text_free(&words);
    base_text_free(&line);
    return command;
}

/* Sets it, if it can be read. Before: that of the process it was forked from, or none. */
static void update_command(struct sample_processes *processes, const struct sample_process *process)
{
    struct profile_process value = processes->profile->processes[process->profile_process];
    uint32_t command = read_command(processes, process->pid);
    if (!command || command == value.command)
        return;
    value.command = command;
    profile_set_process(processes->profile, process->profile_process, &value);
}

/* After an exec, the words are no longer those of the process it was forked from. */
static void forget_command(struct sample_processes *processes, const struct sample_process *process)
{
    struct profile_process value = processes->profile->processes[process->profile_process];
    value.command = 0;
    profile_set_process(processes->profile, process->profile_process, &value);
}

static uint32_t read_cgroup(struct sample_processes *processes, pid_t pid)
{
    char group[4096];
    return !processes->replayed && proc_cgroup_of(pid, group, sizeof group)
               ? profile_string(processes->profile, group)
               : 0;
}

static void describe_process(struct sample_processes *processes, struct sample_process *process,
                             const char *name)
{
    struct profile *profile = processes->profile;
    struct profile_process value = profile->processes[process->profile_process];
    char now[NAME_SIZE] = "";
    if (!name && !processes->replayed)
        proc_target_name(process->pid, process->pid, now, sizeof now);
    value.name = profile_string(profile, name ? name : now);
    uint32_t cgroup = read_cgroup(processes, process->pid);
    value.cgroup = cgroup ? cgroup : value.cgroup;
    profile_set_process(profile, process->profile_process, &value);
    update_command(processes, process);
}

/* --- mappings --- */

static void mark_changed(struct sample_processes *processes, struct sample_process *process)
{
    process->generation = ++processes->generations;
}

/* Index of the first mapping that ends after `address`. */
static size_t mapping_after(const struct sample_process *process, uint64_t address)
{
    return base_search_up_to(process->mappings, process->mapping_count, end, address);
}

static bool insert_at(struct sample_process *process, size_t at, const struct sample_mapping *mapping)
{
    if (!base_array_room(process->mappings, process->mapping_count, process->mapping_capacity))
        return false;
    memmove(&process->mappings[at + 1], &process->mappings[at],
            (process->mapping_count - at) * sizeof *process->mappings);
    process->mappings[at] = *mapping;
    process->mapping_count++;
    return true;
}

static void remove_at(struct sample_process *process, size_t at)
{
    process->mapping_count--;
    memmove(&process->mappings[at], &process->mappings[at + 1],
            (process->mapping_count - at) * sizeof *process->mappings);
}

/* Cuts [start, end) out of what is mapped. */
static bool make_hole(struct sample_process *process, uint64_t start, uint64_t end)
{
    size_t at = mapping_after(process, start);
    while (at < process->mapping_count && process->mappings[at].start < end) {
        struct sample_mapping *mapping = &process->mappings[at];
        if (mapping->start < start && mapping->end > end) {
            struct sample_mapping upper = *mapping;
            upper.offset += end - upper.start;
            upper.start = end;
            mapping->end = start;
            return insert_at(process, at + 1, &upper);
        }
        if (mapping->start < start) {
            mapping->end = start;
            at++;
        } else if (mapping->end > end) {
            mapping->offset += end - mapping->start;
            mapping->start = end;
            return true;
        } else {
            remove_at(process, at);
        }
    }
    return true;
}

static void add_mapping(struct sample_processes *processes, struct sample_process *process,
                        const struct sample_mapping *mapping)
{
    mark_changed(processes, process);
    if (!make_hole(process, mapping->start, mapping->end) ||
        !insert_at(process, mapping_after(process, mapping->start), mapping))
        profile_lose(processes->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

/* Anonymous memory and the kernel's special areas hold no file. */
static bool is_file(const char *path)
{
    return path[0] == '/' && strncmp(path, "//anon", 6) && strncmp(path, "/dev/zero", 9) &&
           strncmp(path, "/memfd:", 7) && strncmp(path, "/SYSV", 5);
}

static uint32_t image_of(struct sample_processes *processes, const struct sample_image_key *key)
{
    if (!is_file(key->path) && strcmp(key->path, "[vdso]") && !sample_images_knows(processes->images, key))
        return SAMPLE_NO_IMAGE;
    return sample_images_find(processes->images, key);
}

void sample_processes_reread_one(struct sample_processes *processes, struct sample_process *process)
{
    struct proc_maps maps = {0};
    if (processes->replayed)
        return;
    if (proc_maps_read(process->pid, &maps, NULL) < 0) {
        profile_lose(processes->profile, WIRE_LOSS_PROCESS_GONE, 1);
        return;
    }
    for (size_t i = 0; i < maps.count; i++) {
        const struct proc_mapping *from = &maps.items[i];
        if (!from->executable)
            continue;
        struct sample_image_key key = {.path = from->path,
                                       .major = from->device_major,
                                       .minor = from->device_minor,
                                       .inode = from->inode,
                                       .deleted = from->deleted};
        struct sample_mapping mapping = {.start = from->start,
                                         .end = from->end,
                                         .offset = from->offset,
                                         .image = image_of(processes, &key),
                                         .origin_start = from->start,
                                         .origin_end = from->end};
        add_mapping(processes, process, &mapping);
    }
    proc_maps_free(&maps);
}

void sample_processes_reread(struct sample_processes *processes)
{
    for (size_t i = 0; i < processes->count; i++) {
        struct sample_process *process = &processes->items[i];
        const struct profile_process *known = &processes->profile->processes[process->profile_process];
        if (!known->end_ns && base_map_find(&processes->by_pid, (uint64_t)process->pid) == i)
            sample_processes_reread_one(processes, process);
    }
}

/* --- coming and going --- */

static struct sample_process *new_process(struct sample_processes *processes, pid_t pid, uint64_t time)
{
    if (!base_array_room(processes->items, processes->count, processes->capacity) ||
        !base_map_set(&processes->by_pid, (uint64_t)pid, (uint32_t)processes->count))
        return NULL;
    struct sample_process *process = &processes->items[processes->count++];
    uint64_t since = time > processes->start_ns ? time - processes->start_ns : 0;
    *process = (struct sample_process){.pid = pid, .jit_dump_fd = -1, .alive = true};
    process->profile_process = profile_process(processes->profile, pid, since);
    mark_changed(processes, process);
    return process;
}

static struct sample_process *living_process(const struct sample_processes *processes, pid_t pid)
{
    uint32_t index = base_map_find(&processes->by_pid, (uint64_t)pid);
    if (index == BASE_MAP_NONE || !processes->items[index].alive)
        return NULL;
    return &processes->items[index];
}

bool sample_processes_knows(const struct sample_processes *processes, pid_t pid)
{
    return living_process(processes, pid);
}

void sample_processes_forget(struct sample_processes *processes, pid_t pid)
{
    struct sample_process *process = living_process(processes, pid);
    if (!process)
        return;
    process->alive = false;
    free(process->mappings);
    process->mappings = NULL;
    process->mapping_count = process->mapping_capacity = 0;
}

struct sample_process *sample_processes_expect(struct sample_processes *processes, pid_t pid, uint64_t time)
{
    return new_process(processes, pid, time);
}

struct sample_process *sample_processes_get(struct sample_processes *processes, pid_t pid, uint64_t time)
{
    struct sample_process *process = living_process(processes, pid);
    if (process)
        return process;
    process = new_process(processes, pid, time);
    if (process) {
        describe_process(processes, process, NULL);
        sample_processes_reread_one(processes, process);
    }
    return process;
}

struct sample_process *sample_processes_latest(struct sample_processes *processes, pid_t pid, uint64_t time)
{
    uint32_t index = base_map_find(&processes->by_pid, (uint64_t)pid);
    return index == BASE_MAP_NONE ? sample_processes_get(processes, pid, time) : &processes->items[index];
}

uint32_t sample_processes_thread(struct sample_processes *processes, struct sample_process *process,
                                 pid_t tid)
{
    uint32_t thread = base_map_find(&processes->thread_of, (uint64_t)tid);
    struct profile *profile = processes->profile;
    if (thread != BASE_MAP_NONE && thread && profile->threads[thread].process == process->profile_process)
        return thread;
    thread = profile_thread(profile, process->profile_process, tid);
    if (!thread || !base_map_set(&processes->thread_of, (uint64_t)tid, thread))
        return 0;
    char name[NAME_SIZE] = "";
    if (!processes->replayed)
        proc_target_name(process->pid, tid, name, sizeof name);
    const char *own = profile_text(profile, profile->processes[process->profile_process].name);
    profile_set_thread_name(profile, thread, name[0] ? name : own);
    return thread;
}

enum { SAME_START_NS = 100000 };

/* Two events may report one process creation: while events are replaced, and when another collector
 * discovered the process before its event was read. Then it is older than it was thought. */
static bool is_known_creation(struct sample_processes *processes, const struct perf_task *event)
{
    const struct sample_process *child = living_process(processes, (pid_t)event->pid);
    if (!child)
        return false;
    struct profile_process value = processes->profile->processes[child->profile_process];
    uint64_t created = value.start_ns + processes->start_ns;
    if (value.end_ns)
        return false;
    if (event->time >= created)
        return value.parent_pid == (int32_t)event->parent_pid && event->time - created < SAME_START_NS;
    value.start_ns = event->time > processes->start_ns ? event->time - processes->start_ns : 0;
    value.parent_pid = (int32_t)event->parent_pid;
    profile_set_process(processes->profile, child->profile_process, &value);
    return true;
}

void sample_processes_on_fork(struct sample_processes *processes, const struct perf_task *event)
{
    if (event->pid == event->parent_pid) { /* a thread: the number may be an old one */
        base_map_set(&processes->thread_of, event->tid, 0);
        return;
    }
    if (is_known_creation(processes, event))
        return;
    struct sample_process *parent = sample_processes_get(processes, (pid_t)event->parent_pid, event->time);
    uint32_t parent_index = parent ? (uint32_t)(parent - processes->items) : BASE_MAP_NONE;
    struct sample_process *child = new_process(processes, (pid_t)event->pid, event->time);
    base_map_set(&processes->thread_of, event->tid, 0);
    if (!child || parent_index == BASE_MAP_NONE)
        return;
    parent = &processes->items[parent_index];
    for (size_t i = 0; i < parent->mapping_count; i++)
        insert_at(child, child->mapping_count, &parent->mappings[i]);
    struct profile *profile = processes->profile;
    struct profile_process value = profile->processes[child->profile_process];
    value.parent_pid = (int32_t)event->parent_pid;
    value.name = profile->processes[parent->profile_process].name;
    value.command = profile->processes[parent->profile_process].command;
    value.cgroup = profile->processes[parent->profile_process].cgroup;
    profile_set_process(profile, child->profile_process, &value);
}

/* A last look at what can be read only while the process runs, or from a file that it may remove. */
static void read_generated_names(struct sample_process *process)
{
    if (!process->jit)
        return;
    if (process->jit_dump_fd >= 0)
        symbol_jit_read_dump(process->jit, process->jit_dump_fd, NULL);
    symbol_jit_read_map(process->jit, process->pid, NULL);
}

void sample_processes_on_exit(struct sample_processes *processes, const struct perf_task *event)
{
    struct sample_process *process =
        event->pid == event->tid ? living_process(processes, (pid_t)event->pid) : NULL;
    if (!process)
        return;
    read_generated_names(process);
    struct profile_process value = processes->profile->processes[process->profile_process];
    value.end_ns = event->time > processes->start_ns ? event->time - processes->start_ns : 0;
    profile_set_process(processes->profile, process->profile_process, &value);
    /* A leader may exit before its other threads do: it stays known until its number is used again. */
}

void sample_processes_on_comm(struct sample_processes *processes, const struct perf_comm *event,
                              uint64_t time)
{
    struct sample_process *process = event->exec ? living_process(processes, (pid_t)event->pid)
                                                 : sample_processes_get(processes, (pid_t)event->pid, time);
    if (!process)
        process = new_process(processes, (pid_t)event->pid, time);
    if (!process)
        return;
    if (event->exec) {
        process->mapping_count = 0;
        process->jit_image = 0;
        mark_changed(processes, process);
        forget_command(processes, process);
    }
    if (event->exec || event->pid == event->tid)
        describe_process(processes, process, event->name);
    uint32_t thread = base_map_find(&processes->thread_of, event->tid);
    if (thread != BASE_MAP_NONE && thread)
        profile_set_thread_name(processes->profile, thread, event->name);
}

/* jit-PID.dump, mapped by its writer as a mark for profilers. */
static bool is_jitdump(const char *path)
{
    const char *name = strrchr(path, '/');
    size_t length = name ? strlen(name) : 0;
    return length > 10 && !strncmp(name, "/jit-", 5) && !strcmp(name + length - 5, ".dump");
}

static void open_jitdump(const struct sample_processes *processes, struct sample_process *process,
                         const char *path)
{
    char through_root[4200];
    int fd = -1;
    const int how =
        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY; /* a FIFO may be there by now */
    snprintf(through_root, sizeof through_root, "/proc/%d/root%s", (int)process->pid, path);
    if (!processes->replayed)
        fd = open(through_root, how);
    if (fd < 0)
        fd = open(path, how);
    if (fd < 0)
        return;
    if (process->jit_dump_fd >= 0)
        close(process->jit_dump_fd);
    process->jit_dump_fd = fd;
    if (!process->jit)
        process->jit = symbol_jit_new();
}

void sample_processes_on_mmap(struct sample_processes *processes, const struct perf_mmap *event,
                              uint64_t time)
{
    struct sample_process *process = sample_processes_get(processes, (pid_t)event->pid, time);
    if (!process || !(event->protection & PROT_EXEC))
        return;
    if (!processes->profile->processes[process->profile_process].command)
        update_command(processes, process);
    if (is_jitdump(event->path)) {
        open_jitdump(processes, process, event->path);
        return;
    }
    struct sample_image_key key = {
        .path = event->path, .major = event->major, .minor = event->minor, .inode = event->inode};
    if (event->build_id) {
        key.build_id.size = event->build_id_size;
        memcpy(key.build_id.bytes, event->build_id, event->build_id_size);
    }
    struct sample_mapping mapping = {.start = event->start,
                                     .end = event->start + event->length,
                                     .offset = event->offset,
                                     .image = image_of(processes, &key),
                                     .origin_start = event->start,
                                     .origin_end = event->start + event->length};
    if (mapping.end > mapping.start)
        add_mapping(processes, process, &mapping);
}

struct sample_mapping *sample_processes_mapping(struct sample_processes *processes,
                                                struct sample_process *process, uint64_t address)
{
    size_t at = mapping_after(process, address);
    if (at == process->mapping_count || process->mappings[at].start > address)
        return NULL;
    struct sample_mapping *mapping = &process->mappings[at];
    if (mapping->ready || mapping->image == SAMPLE_NO_IMAGE)
        return mapping;
    struct sample_image *image = sample_images_open(processes->images, mapping->image, process->pid,
                                                    mapping->origin_start, mapping->origin_end);
    uint64_t image_address = mapping->offset;
    if (image->lead)
        image_address = mapping->offset - image->lead;
    else if (image->elf)
        elf_image_address_of_offset(image->elf, mapping->offset, &image_address);
    mapping->bias = mapping->start - image_address;
    mapping->ready = true;
    return mapping;
}

static struct sample_process *generator_of(struct sample_processes *processes, uint32_t profile_process)
{
    for (size_t i = 0; i < processes->count; i++) {
        if (processes->items[i].profile_process == profile_process)
            return &processes->items[i];
    }
    return NULL;
}

static void name_generated(struct sample_processes *processes, uint32_t index)
{
    struct profile *profile = processes->profile;
    struct profile_address value = profile->addresses[index];
    const struct sample_process *process = generator_of(processes, profile->images[value.image].process);
    const char *name;
    uint64_t start, end;
    value.lines_known = true;
    value.resolution = PROFILE_NO_SYMBOL;
    if (process && process->jit &&
        symbol_jit_find(process->jit, value.address, UINT64_MAX, &name, &start, &end)) {
        value.function = profile_function(profile, value.image, name, start, end);
        value.resolution = PROFILE_RESOLVED;
    } else {
        profile_lose(profile, WIRE_LOSS_JIT_UNKNOWN, 1);
    }
    profile_set_address(profile, index, &value);
}

void sample_processes_name_generated(struct sample_processes *processes)
{
    const struct profile *profile = processes->profile;
    for (size_t i = 0; i < processes->count; i++)
        read_generated_names(&processes->items[i]);
    for (uint32_t i = 1; i < profile->address_count; i++) {
        const struct profile_address *address = &profile->addresses[i];
        if (address->resolution == PROFILE_UNRESOLVED &&
            profile->images[address->image].kind == PROFILE_IMAGE_JIT)
            name_generated(processes, i);
    }
}

size_t sample_processes_living(const struct sample_processes *processes, pid_t **pids)
{
    *pids = malloc((processes->count + 1) * sizeof **pids);
    if (!*pids)
        return 0;
    size_t count = 0;
    for (size_t i = 0; i < processes->count; i++) {
        const struct sample_process *process = &processes->items[i];
        if (process->alive && base_map_find(&processes->by_pid, (uint64_t)process->pid) == i &&
            !processes->profile->processes[process->profile_process].end_ns)
            (*pids)[count++] = process->pid;
    }
    return count;
}
