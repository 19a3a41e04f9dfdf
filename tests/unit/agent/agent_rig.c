#include "agent_rig.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent_blob.h"
#include "process_space.h"

#define ROWS_SIZE  (64u << 20)
#define REGIONS    4
#define FAR        (UINT64_C(64) << 30) /* below where the kernel maps by itself */
#define CODE_SIZE  65536
#define IMAGE_SIZE (1 << 20)

static void must(bool holds, const char *what)
{
    if (!holds) {
        perror(what);
        abort();
    }
}

static void *map(size_t size, int protection)
{
    void *memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    return memory;
}

static void relocate(uint8_t *base, const Elf64_Dyn *dynamic)
{
    uint64_t rela = 0, size = 0;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        rela = dynamic->d_tag == DT_RELA ? dynamic->d_un.d_ptr : rela;
        size = dynamic->d_tag == DT_RELASZ ? dynamic->d_un.d_val : size;
    }
    for (const Elf64_Rela *entry = (const void *)(base + rela); size >= sizeof *entry;
         entry++, size -= sizeof *entry) {
        must(ELF64_R_TYPE(entry->r_info) == R_X86_64_RELATIVE, "relocation");
        uint64_t value = (uint64_t)base + (uint64_t)entry->r_addend;
        memcpy(base + entry->r_offset, &value, sizeof value);
    }
}

static int protection_of(uint32_t flags)
{
    return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

static uint8_t *load_image(void)
{
    const Elf64_Ehdr *header = (const void *)agent_blob;
    const Elf64_Phdr *segments = (const void *)(agent_blob + header->e_phoff);
    uint8_t *base = map(IMAGE_SIZE, PROT_READ | PROT_WRITE);
    uint64_t image_end = 0;
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD)
            memcpy(base + segments[i].p_vaddr, agent_blob + segments[i].p_offset, segments[i].p_filesz);
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            relocate(base, (const void *)(base + segments[i].p_vaddr));
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD) {
            uint64_t start = segments[i].p_vaddr & ~UINT64_C(4095);
            must(mprotect(base + start, segments[i].p_vaddr + segments[i].p_memsz - start,
                          protection_of(segments[i].p_flags)) == 0,
                 "mprotect");
            uint64_t end = (segments[i].p_vaddr + segments[i].p_memsz + 4095) & ~UINT64_C(4095);
            image_end = end > image_end ? end : image_end;
        }
    must(mprotect(base + image_end, IMAGE_SIZE - image_end, PROT_NONE) == 0,
         "mprotect"); /* no more than it has */
    return base;
}

static void *symbol_at(uint8_t *base, const char *name)
{
    const Elf64_Ehdr *header = (const void *)agent_blob;
    const Elf64_Shdr *sections = (const void *)(agent_blob + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *symbols = (const void *)(agent_blob + sections[i].sh_offset);
        const char *names = (const char *)agent_blob + sections[sections[i].sh_link].sh_offset;
        for (uint64_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++)
            if (symbols[s].st_shndx != SHN_UNDEF && strcmp(names + symbols[s].st_name, name) == 0)
                return base + symbols[s].st_value;
    }
    must(false, name);
    return NULL;
}

static void fill_control(struct agent_rig *rig, const struct agent_rig_options *options, uint64_t memory)
{
    struct wire_agent_control *control = rig->control;
    control->magic = WIRE_AGENT_MAGIC;
    control->version = WIRE_AGENT_VERSION;
    control->flags = options->flags;
    control->rows_offset = 4096;
    control->rows_size = ROWS_SIZE;
    control->regions_offset = 4096 + ROWS_SIZE;
    control->region_size = rig->layout.size;
    control->region_count = REGIONS;
    control->next_region = 1;
    control->memory = memory;
    control->threads_offset = control->regions_offset + REGIONS * rig->layout.size;
    control->own_offset = control->threads_offset + REGIONS * WIRE_AGENT_RECORDS_BYTES;
    control->file_size = control->own_offset + WIRE_AGENT_OWN_BYTES;
    control->sample_bytes = options->sample_bytes;
    control->sample_seed = 4711;
    control->now_ns = 1000;
    control->patience_ms = 300;
}

static void fill_process(struct agent_rig *rig, const struct agent_rig_options *options)
{
    rig->process = agent_rig_process(rig, 0);
    rig->process->magic = WIRE_AGENT_MAGIC;
    rig->process->version = WIRE_AGENT_VERSION;
    rig->process->pid = (uint32_t)getpid();
    rig->process->scale = options->sample_bytes != 0 ? WIRE_AGENT_SCALE : 1;
    if (!options->no_rows)
        agent_rig_modules(rig, 100);
    rig->process->state = WIRE_AGENT_RUNNING;
}

/* What a process maps (wire_agent_layout.h), beside the test's own view: with all that parts may become, or
 * their beginnings. */
static void show_parts(struct agent_rig *rig, int file, bool small)
{
    uint64_t span = wire_agent_span(rig->control, &rig->layout);
    uint8_t *place = mmap(NULL, span + FAR, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(place != MAP_FAILED && munmap(place, span + FAR) == 0, "mmap");
    rig->shown = place;
    rig->parameters->control = (uint64_t)place;
    for (unsigned part = 0; part < WIRE_AGENT_PARTS; part++) {
        struct wire_agent_place there = wire_agent_place(rig->control, &rig->layout, part, 0);
        uint64_t size = small ? wire_agent_first(&rig->layout, part) : there.most;
        int flags = part == WIRE_AGENT_PART_OWN ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
        must(mmap(place + there.address, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, file,
                  (off_t)there.file) == place + there.address,
             "mmap");
        must(madvise(place + there.address, size, MADV_DONTDUMP) == 0, "MADV_DONTDUMP");
        rig->parameters->mapped[part] = size;
        if (part == WIRE_AGENT_PART_THREADS)
            rig->parameters->threads = (uint64_t)place + there.address;
        if (part == WIRE_AGENT_PART_OWN)
            rig->own = (void *)(place + there.address);
    }
    rig->parameters->process = (uint64_t)place + rig->control->regions_offset;
    rig->parameters->own = (uint64_t)rig->own;
}

void agent_rig_begin(struct agent_rig *rig, const struct agent_rig_options *options)
{
    uint64_t memory = options->memory != 0 ? options->memory : 64u << 20;
    memset(rig, 0, sizeof *rig);
    rig->layout = wire_agent_layout(memory);
    int file = memfd_create("rig", MFD_CLOEXEC);
    size_t size =
        4096 + ROWS_SIZE + REGIONS * (rig->layout.size + WIRE_AGENT_RECORDS_BYTES) + WIRE_AGENT_OWN_BYTES;
    must(file >= 0 && ftruncate(file, (off_t)size) == 0, "memfd");
    rig->file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(rig->file != MAP_FAILED, "mmap");
    rig->control = (void *)rig->file;
    rig->image = load_image();
    rig->code = map(CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC);
    rig->alive = map(4096, PROT_READ | PROT_WRITE);
    must(madvise(rig->alive, 4096, MADV_WIPEONFORK) == 0, "MADV_WIPEONFORK");
    *rig->alive = 1;
    fill_control(rig, options, memory);
    fill_process(rig, options);
    rig->parameters = symbol_at(rig->image, "agent_parameters");
    *rig->parameters = (struct wire_agent_parameters){
        .alive = (uint64_t)rig->alive,
        .flags = getauxval(AT_HWCAP2) & 2 ? WIRE_AGENT_FSGSBASE : 0,
        .code = (uint64_t)rig->image,
        .code_end = (uint64_t)rig->image + IMAGE_SIZE,
    };
    show_parts(rig, file, options->small);
    close(file);
}

void agent_rig_end(struct agent_rig *rig)
{
    for (unsigned part = 0; part < WIRE_AGENT_PARTS; part++)
        munmap(rig->shown + wire_agent_place(rig->control, &rig->layout, part, 0).address,
               rig->parameters->mapped[part]);
    munmap(rig->file, rig->control->file_size);
    munmap(rig->image, IMAGE_SIZE);
    munmap(rig->code, CODE_SIZE);
    munmap(rig->alive, 4096);
}

void *agent_rig_symbol(const struct agent_rig *rig, const char *name)
{
    return symbol_at(rig->image, name);
}

void *agent_rig_hook(struct agent_rig *rig, const char *symbol, void *body)
{
    uint8_t *code = rig->code + rig->code_used;
    struct wire_hook *hook = (void *)(code + 32);
    static const uint8_t stub[] = {0x4c, 0x8d, 0x1d, 25, 0, 0, 0, /* lea 25(%rip),%r11 */
                                   0xff, 0x25, 19,   0,  0, 0};   /* jmp *19(%rip) */
    memcpy(code, stub, sizeof stub);
    *hook = (struct wire_hook){(uint64_t)symbol_at(rig->image, symbol), (uint64_t)body, (uint64_t)code, 0};
    rig->code_used += 64;
    return code;
}

void *agent_rig_hook_whole(struct agent_rig *rig, const char *symbol, void *body)
{
    return agent_rig_hook_published(rig, symbol, body, 0);
}

void *agent_rig_hook_published(struct agent_rig *rig, const char *symbol, void *body, uint64_t cookie)
{
    uint8_t *inner = agent_rig_hook(rig, symbol, body);
    uint8_t *code = rig->code + rig->code_used;
    struct wire_hook *hook = (void *)(inner + 32);
    const int32_t distance = (int32_t)(inner - (code + 7));
    memcpy(code, (const uint8_t[]){0x41, 0x53, 0xe9}, 3); /* push %r11; jmp inner */
    memcpy(code + 3, &distance, sizeof distance);
    hook->function = (uint64_t)code;
    hook->cookie = cookie;
    rig->code_used += 64;
    return code;
}

void agent_rig_modules(struct agent_rig *rig, uint32_t cookie)
{
    static struct process_space space;
    uint32_t generation = rig->process->generation, table = (generation + 1) & 1;
    struct wire_agent_module *modules = (void *)((uint8_t *)rig->process + rig->layout.modules[table]);
    uint64_t used = 0;
    must(process_space_read(&space, getpid()), "maps");
    for (unsigned i = 0; i < space.count; i++) {
        const struct process_mapping *mapping = &space.mappings[i];
        modules[i] =
            (struct wire_agent_module){mapping->start, mapping->end, mapping->bias, 0, 0, cookie + i, 0};
        if (!mapping->has_rows)
            continue;
        modules[i].rows_offset = used;
        modules[i].rows_size = mapping->blob_size;
        must(used + mapping->blob_size <= ROWS_SIZE, "rows");
        memcpy(rig->file + rig->control->rows_offset + used, mapping->blob, mapping->blob_size);
        used += (mapping->blob_size + 15) & ~UINT64_C(15);
    }
    rig->process->module_count[table] = space.count;
    __atomic_store_n(&rig->process->generation, generation + 1, __ATOMIC_RELEASE);
    process_space_free(&space);
    memset(&space, 0, sizeof space);
}

struct wire_agent_process *agent_rig_process(const struct agent_rig *rig, unsigned number)
{
    return (void *)(rig->file + rig->control->regions_offset + number * rig->control->region_size);
}

struct wire_agent_thread *agent_rig_thread(const struct agent_rig *rig, unsigned number)
{
    return (void *)(rig->file + rig->control->threads_offset + (uint64_t)number * WIRE_AGENT_THREAD_BYTES);
}

struct wire_agent_node *agent_rig_nodes(const struct agent_rig *rig, const struct wire_agent_process *process)
{
    return (void *)((uintptr_t)process + rig->layout.nodes);
}

struct wire_agent_cell *agent_rig_cells(const struct agent_rig *rig, const struct wire_agent_process *process)
{
    return (void *)((uintptr_t)process + rig->layout.cells);
}

static bool is_below(const struct wire_agent_node *nodes, uint32_t node, uint64_t low, uint64_t high)
{
    for (; node != 0 && nodes[node].parent != 0; node = nodes[node].parent)
        if (nodes[node].pc >= low && nodes[node].pc < high)
            return true;
    return high == 0;
}

struct agent_rig_figures agent_rig_read(const struct agent_rig *rig, const struct wire_agent_process *process,
                                        uint64_t low, uint64_t high)
{
    const struct wire_agent_node *nodes = agent_rig_nodes(rig, process);
    const struct wire_agent_cell *cells = agent_rig_cells(rig, process);
    uint64_t mean = rig->control->sample_bytes;
    double unit = (double)(mean != 0 ? mean : wire_agent_level_bytes(1)), square = unit * unit / 65536;
    struct agent_rig_figures sum = {0, 0, 0, 0, 0, 0, 0, 0, 0};
    for (uint32_t i = 1; i <= process->node_count; i++) {
        if (nodes[i].cell == 0 || !is_below(nodes, i, low, high))
            continue;
        const struct wire_agent_cell *cell = &cells[nodes[i].cell];
        uint64_t live = cell->total - cell->freed_own - cell->freed_other;
        sum.total += cell->total;
        sum.count += cell->count;
        sum.live += live;
        sum.live_count += cell->count - cell->freed_own_count - cell->freed_other_count;
        sum.max += cell->max;
        sum.peak += cell->peak_epoch == process->peak_epoch ? cell->peak : live;
        sum.largest = cell->largest > sum.largest ? cell->largest : sum.largest;
        sum.temporary += cell->temporary;
        sum.variance += (double)cell->variance * square;
    }
    return sum;
}

uint64_t agent_rig_blocks(const struct agent_rig *rig, const struct wire_agent_process *process,
                          uint64_t *bytes)
{
    const struct wire_agent_bucket *buckets = (const void *)((uintptr_t)process + rig->layout.blocks);
    uint64_t count = 0, sum = 0;
    for (uint64_t b = 0; b < wire_agent_table_before(process->block_tables); b++)
        for (unsigned s = 0; s < WIRE_AGENT_SLOTS; s++)
            if (buckets[b].slots[s].key != 0) {
                count++;
                sum += wire_agent_slot_size(&buckets[b].slots[s]);
            }
    if (bytes != NULL)
        *bytes = sum;
    return count;
}
