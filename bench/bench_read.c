/* bench_read: what is read when reading is measured, the same on every machine.
 *
 *     bench_read addresses PROGRAM COUNT PROFILE PERF_DATA
 *     bench_read tree NODES SAMPLES CHANGE PROFILE
 *
 * "addresses" picks COUNT different addresses of PROGRAM's code, all over it, and writes them twice: as a
 * profile of tally's whose addresses nobody has named yet, and as a recording of perf's
 * (tools/perf/Documentation/perf.data-file-format.txt of Linux), so that both tools are asked the very same.
 * "tree" makes a profile of so many nodes from so many samples, named already; CHANGE (0: none) makes one
 * function of every hundred so many per cent dearer. */
#include <elf.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_map.h"
#include "elf_image.h"
#include "profile.h"
#include "store.h"

enum { PID = 4242, PERIOD_NS = 1001001 };

static _Noreturn void fail(const char *what, const struct base_error *error)
{
    fprintf(stderr, "bench_read: %s%s%s\n", what, error && error->text[0] ? ": " : "",
            error ? error->text : "");
    exit(1);
}

/* Splitmix64: G. Steele and others, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014. */
static uint64_t next_number(uint64_t *state)
{
    return base_hash(*state += 0x9e3779b97f4a7c15u);
}

static uint64_t number_of(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    if (!*text || *end)
        fail(text, &(struct base_error){.text = "is not a number"});
    return number;
}

static void write_profile(const char *path, struct profile *profile)
{
    struct base_error error = {0};
    struct store *store;
    profile_set_meta(profile, "command", "bench");
    profile_set_meta(profile, "complete", "yes");
    profile_set_metaf(profile, "rate_hz", "%d", 1000000000 / PERIOD_NS);
    if (store_create(path, &store, &error) < 0 || store_close(store, profile, false, &error) < 0)
        fail(path, &error);
}

/* --- the addresses of a program --- */

struct picked {
    const struct elf_image *image;
    uint64_t *addresses;
    size_t count;
};

/* Somewhere in a function; 0: what was drawn is none. */
static uint64_t draw(const struct elf_section *symbols, uint64_t *state)
{
    Elf64_Sym symbol;
    memcpy(&symbol, symbols->bytes + next_number(state) % (symbols->size / sizeof symbol) * sizeof symbol,
           sizeof symbol);
    bool function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx && symbol.st_size;
    return function ? symbol.st_value + next_number(state) % symbol.st_size : 0;
}

static struct picked pick(const struct elf_image *image, size_t count)
{
    struct picked picked = {image, calloc(count, sizeof *picked.addresses), 0};
    struct base_map taken = {0};
    struct elf_section text, symbols;
    uint64_t state = 20261121;
    if (!elf_image_section(image, ".text", &text) || !elf_image_section(image, ".symtab", &symbols) ||
        text.size < 4 * count || symbols.size < sizeof(Elf64_Sym) || !picked.addresses)
        fail(elf_image_name(image), &(struct base_error){.text = "has not so many addresses"});
    while (picked.count < count) {
        uint64_t address = draw(&symbols, &state);
        if (!address || base_map_find(&taken, address) != BASE_MAP_NONE)
            continue;
        if (!base_map_set(&taken, address, 1))
            fail("out of memory", NULL);
        picked.addresses[picked.count++] = address;
    }
    base_map_free(&taken);
    return picked;
}

static void write_addresses(const struct picked *picked, const char *path)
{
    struct profile *profile = profile_new();
    char build_id[2 * ELF_BUILD_ID_MAX + 1];
    if (!profile)
        fail("out of memory", NULL);
    elf_build_id_format(elf_image_build_id(picked->image), build_id);
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, elf_image_name(picked->image), build_id, 0);
    uint32_t thread = profile_thread(profile, profile_process(profile, PID, 0), PID);
    uint32_t counter = profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM), flags = 0;
    for (size_t i = 0; i < picked->count; i++) {
        uint32_t address = profile_address(profile, image, picked->addresses[i]);
        profile_count(
            profile,
            (struct profile_key){profile_stack(profile, &address, &flags, 1), thread, 0, (uint16_t)counter},
            PERIOD_NS, 1);
    }
    write_profile(path, profile);
    profile_free(profile);
}

/* --- the same for perf --- */

struct perf_place {
    uint64_t offset, size;
};

struct perf_head {
    char magic[8];
    uint64_t size, attribute_size;
    struct perf_place attributes, data, event_types;
    uint64_t features[4];
};

/* As of `perf record --call-graph dwarf`, for only such stacks does perf 6.1 look for inlined frames:
 * registers, and a stack of which nothing more can be read. */
struct perf_sample {
    struct perf_event_header header;
    uint64_t ip;
    uint32_t pid, tid;
    uint64_t time, period, frames, context, frame;
    uint64_t abi, stack_pointer, counter; /* in the order of the registers' numbers */
    uint64_t stack_size, stack[2], stack_used;
};

struct perf_mapping {
    struct perf_event_header header;
    uint32_t pid, tid;
    uint64_t start, length, page_offset;
    uint32_t major, minor;
    uint64_t inode, generation;
    uint32_t protection, flags;
    char path[512];
};

static const uint64_t MAPPED_AT = 0x555555554000;

static void put(FILE *file, const void *bytes, size_t size)
{
    if (fwrite(bytes, size, 1, file) != 1)
        fail("cannot write what perf reads", NULL);
}

static void put_start(FILE *file, const struct picked *picked)
{
    struct {
        struct perf_event_header header;
        uint32_t pid, tid;
        char name[16];
    } name = {{PERF_RECORD_COMM, 0, sizeof name}, PID, PID, "bench"};
    const struct elf_segment *segments;
    struct perf_mapping mapping = {{PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, sizeof mapping},
                                   .pid = PID,
                                   .tid = PID,
                                   .protection = 5,
                                   .flags = 2};
    put(file, &name, sizeof name);
    size_t count = elf_image_segments(picked->image, &segments);
    for (size_t i = 0; i < count; i++) {
        if (!segments[i].executable)
            continue;
        mapping.start = MAPPED_AT + (segments[i].address & ~(uint64_t)4095);
        mapping.page_offset = segments[i].offset & ~(uint64_t)4095;
        mapping.length = (segments[i].file_size + (segments[i].offset & 4095) + 4095) & ~(uint64_t)4095;
        snprintf(mapping.path, sizeof mapping.path, "%s", elf_image_name(picked->image));
        put(file, &mapping, sizeof mapping);
    }
}

static void put_samples(FILE *file, const struct picked *picked)
{
    struct perf_sample sample = {{PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof sample},
                                 .pid = PID,
                                 .tid = PID,
                                 .period = PERIOD_NS,
                                 .frames = 2,
                                 .context = PERF_CONTEXT_USER,
                                 .abi = PERF_SAMPLE_REGS_ABI_64,
                                 .stack_pointer = 0x7ffffffde000,
                                 .stack_size = sizeof sample.stack,
                                 .stack_used = sizeof sample.stack};
    for (size_t i = 0; i < picked->count; i++) {
        sample.ip = sample.frame = sample.counter = MAPPED_AT + picked->addresses[i];
        sample.time = i + 1;
        put(file, &sample, sizeof sample);
    }
}

/* The numbers in perf's masks: asm/perf_regs.h of Linux. */
static uint64_t stack_and_counter(const struct elf_image *image)
{
    return elf_image_machine(image) == EM_AARCH64 ? (uint64_t)3 << 31 : 3 << 7;
}

static void write_perf(const struct picked *picked, const char *path)
{
    struct {
        struct perf_event_attr attribute;
        struct perf_place ids;
    } event = {.attribute = {.type = PERF_TYPE_SOFTWARE,
                             .size = sizeof event.attribute,
                             .config = PERF_COUNT_SW_CPU_CLOCK,
                             .sample_period = PERIOD_NS,
                             .exclude_kernel = 1,
                             .mmap = 1,
                             .mmap2 = 1,
                             .comm = 1,
                             .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                            PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN |
                                            PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
                             .sample_regs_user = stack_and_counter(picked->image),
                             .sample_stack_user = 2 * sizeof(uint64_t)}};
    struct perf_head head = {
        "PERFILE2", sizeof head, sizeof event, {sizeof head, sizeof event}, {sizeof head + sizeof event, 0},
        {0, 0},     {0}};
    FILE *file = fopen(path, "we");
    if (!file)
        fail(path, NULL);
    put(file, &head, sizeof head);
    put(file, &event, sizeof event);
    put_start(file, picked);
    put_samples(file, picked);
    head.data.size = (uint64_t)ftell(file) - head.data.offset;
    rewind(file);
    put(file, &head, sizeof head);
    if (fclose(file))
        fail(path, NULL);
}

static void make_addresses(const char *program, size_t count, const char *profile, const char *perf)
{
    struct base_error error = {0};
    struct elf_image *image;
    if (elf_image_open(program, &image, &error) < 0)
        fail(program, &error);
    struct picked picked = pick(image, count);
    write_addresses(&picked, profile);
    write_perf(&picked, perf);
    free(picked.addresses);
    elf_image_close(image);
}

/* --- a large tree --- */

enum { IMAGES = 12, FUNCTIONS = 6000, PLACES = 6, CALLEES = 5, DEEPEST = 60, THREADS = 8 };

struct forest {
    struct profile *profile;
    uint32_t addresses[FUNCTIONS][PLACES], threads[THREADS];
    uint16_t counter;
    uint64_t state, change;
};

static void make_places(struct forest *forest)
{
    struct profile *profile = forest->profile;
    uint32_t images[IMAGES];
    char text[96];
    for (uint32_t i = 0; i < IMAGES; i++) {
        snprintf(text, sizeof text, "/opt/shop/lib/libpart%u.so", i);
        images[i] = profile_image(profile, PROFILE_IMAGE_FILE, text, "", 0);
    }
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        uint32_t image = images[f % IMAGES];
        uint64_t start = 0x1000 + 0x400 * (uint64_t)(f / IMAGES);
        snprintf(text, sizeof text, "shop::part%u::Step<%u>::run(shop::Order const&, unsigned int)",
                 f % IMAGES, f);
        uint32_t function = profile_function(profile, image, text, start, start + 0x400);
        snprintf(text, sizeof text, "/src/shop/part%u/step%u.cpp", f % IMAGES, f / IMAGES);
        for (uint32_t p = 0; p < PLACES; p++) {
            uint32_t address = forest->addresses[f][p] = profile_address(profile, image, start + 0x40 * p);
            struct profile_address value = profile->addresses[address];
            value.function = function;
            value.file = profile_string(profile, text);
            value.line = 10 + p;
            value.lines_known = true;
            value.resolution = PROFILE_RESOLVED;
            profile_set_address(profile, address, &value);
        }
    }
    uint32_t process = profile_process(profile, PID, 0);
    for (uint32_t t = 0; t < THREADS; t++)
        forest->threads[t] = profile_thread(profile, process, (int32_t)(PID + t));
    forest->counter = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
}

/* Each function calls a few others, one of them mostly; a stack is a walk of random length. Returns its
 * leaf. */
static uint32_t grow_stack(struct forest *forest)
{
    uint32_t addresses[DEEPEST], flags[DEEPEST] = {0}, function = 0;
    size_t depth = 4 + next_number(&forest->state) % 20 + next_number(&forest->state) % 20;
    for (size_t i = 0; i < depth; i++) {
        uint64_t number = next_number(&forest->state);
        addresses[i] = forest->addresses[function][number % PLACES];
        uint64_t callee = number >> 8 & 3 ? 0 : (number >> 16) % CALLEES;
        if (i + 1 < depth)
            function = (uint32_t)(base_hash(function * CALLEES + callee) % FUNCTIONS);
    }
    return profile_stack(forest->profile, addresses, flags, depth);
}

/* A few stacks have most of the samples. */
static void add_samples(struct forest *forest, uint64_t samples, size_t stacks)
{
    struct profile *profile = forest->profile;
    for (uint64_t sent = 0; sent < samples;) {
        uint64_t number = next_number(&forest->state),
                 place = (number >> 40) * (number >> 16 & 0xffffff) >> 24;
        uint32_t node = profile->cells[place * stacks >> 24].node;
        uint32_t function = profile->addresses[profile->nodes[node].address].function;
        uint64_t weight = 1 + (function % 100 == 1 && number % 100 < forest->change);
        profile_count(profile,
                      (struct profile_key){node, forest->threads[number >> 9 & (THREADS - 1)],
                                           number >> 8 & 1, forest->counter},
                      (int64_t)(weight * PERIOD_NS), weight);
        sent += weight;
    }
}

static void make_tree(uint64_t nodes, uint64_t samples, uint64_t change, const char *path)
{
    struct forest *forest = calloc(1, sizeof *forest);
    struct profile *profile = forest ? forest->profile = profile_new() : NULL;
    if (!profile)
        fail("out of memory", NULL);
    forest->state = 7;
    forest->change = change;
    make_places(forest);
    profile->max_nodes = (uint32_t)(2 * nodes);
    while (profile->live_nodes < nodes) {
        uint32_t node = grow_stack(forest);
        profile_count(profile,
                      (struct profile_key){node, forest->threads[node % THREADS], 0, forest->counter},
                      PERIOD_NS, 1);
    }
    size_t stacks = profile->cell_count;
    forest->state = 8 + change;
    add_samples(forest, samples - stacks, stacks);
    write_profile(path, profile);
    printf("nodes %u\nsamples %llu\ncells %zu\n", profile->live_nodes, (unsigned long long)samples,
           profile->cell_count);
    profile_free(profile);
    free(forest);
}

int main(int argc, char **argv)
{
    if (argc == 6 && !strcmp(argv[1], "addresses")) {
        make_addresses(argv[2], number_of(argv[3]), argv[4], argv[5]);
    } else if (argc == 6 && !strcmp(argv[1], "tree")) {
        make_tree(number_of(argv[2]), number_of(argv[3]), number_of(argv[4]), argv[5]);
    } else {
        fprintf(stderr, "usage: bench_read addresses PROGRAM COUNT PROFILE PERF_DATA\n"
                        "       bench_read tree NODES SAMPLES CHANGE PROFILE\n");
        return 2;
    }
    return 0;
}
