#include "process_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

const struct process_mapping *process_space_mapping(const struct process_space *process, uint64_t pc)
{
    for (unsigned i = 0; i < process->count; i++)
        if (pc >= process->mappings[i].start && pc < process->mappings[i].end)
            return &process->mappings[i];
    return NULL;
}

static bool find(void *context, uint64_t pc, struct unwind_place *place)
{
    const struct process_space *process = context;
    const struct process_mapping *mapping = process_space_mapping(process, pc);
    if (mapping == NULL)
        return false;
    *place = (struct unwind_place){mapping->has_rows ? &mapping->rows : NULL, mapping->bias,
                                   (uint32_t)(mapping - process->mappings)};
    return true;
}

static bool read_memory(pid_t pid, uint64_t address, void *bytes, size_t size)
{
    struct iovec local = {bytes, size}, remote = {(void *)address, size};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

bool process_space_word(void *context, uint64_t address, uint64_t *word)
{
    const struct process_space *process = context;
    return read_memory(process->pid, address, word, sizeof *word);
}

static bool open_image(const struct process_mapping *mapping, pid_t pid, struct elf_image **image)
{
    if (mapping->path[0] == '/')
        return elf_image_open(mapping->path, image, NULL) == BASE_OK;
    size_t size = mapping->end - mapping->start;
    void *bytes = strcmp(mapping->path, "[vdso]") == 0 ? malloc(size) : NULL;
    bool opened = bytes != NULL && read_memory(pid, mapping->start, bytes, size) &&
                  elf_image_open_memory(bytes, size, "[vdso]", image, NULL) == BASE_OK;
    free(bytes);
    return opened;
}

static void compile(struct process_mapping *mapping, pid_t pid)
{
    struct elf_image *image;
    uint64_t address;
    if (!open_image(mapping, pid, &image))
        return;
    if (elf_image_address_of_offset(image, mapping->offset, &address) &&
        cfi_compile(image, NULL, &mapping->blob, &mapping->blob_size, NULL, NULL) == BASE_OK)
        mapping->has_rows = unwind_rows_open(&mapping->rows, mapping->blob, mapping->blob_size);
    mapping->bias = mapping->start - address;
    elf_image_close(image);
}

/* Takes the rows over from the same mapping of the last look, or makes them. */
static void take_over(struct process_space *last, struct process_mapping *mapping, pid_t pid)
{
    for (unsigned i = 0; i < last->count; i++) {
        struct process_mapping *old = &last->mappings[i];
        if (old->start == mapping->start && old->end == mapping->end &&
            strcmp(old->path, mapping->path) == 0) {
            *mapping = *old;
            *old = (struct process_mapping){0};
            return;
        }
    }
    compile(mapping, pid);
}

bool process_space_read(struct process_space *process, pid_t pid)
{
    char name[64], line[512], rights[8];
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "r");
    struct process_space *last = malloc(sizeof *last);
    if (maps == NULL || last == NULL)
        return false;
    *last = *process;
    process->pid = pid;
    process->count = 0;
    while (process->count < 256 && fgets(line, sizeof line, maps) != NULL) {
        struct process_mapping mapping = {0};
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %255[^\n]", &mapping.start, &mapping.end, rights,
                   &mapping.offset, mapping.path) < 4 ||
            rights[2] != 'x' || strcmp(mapping.path, "[vsyscall]") == 0)
            continue;
        take_over(last, &mapping, pid);
        process->mappings[process->count++] = mapping;
    }
    fclose(maps);
    process_space_free(last);
    free(last);
    process->space.arch = arch_host();
    process->space.find = find;
    process->space.context = process;
    process->space.frame_pointers = true;
    process->space.generation++;
    return true;
}

void process_space_free(struct process_space *process)
{
    for (unsigned i = 0; i < process->count; i++)
        free(process->mappings[i].blob);
    process->count = 0;
}
