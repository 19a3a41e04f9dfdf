/* make_profile DIRECTORY - the profiles that the cases of tests/cli look at, always the same to the bit of
 * every figure:
 *
 *   whole.tally       two processes, three threads, two CPUs, an inlined function, recursion, a signal
 *                     handler, the kernel, generated code, a cut stack, a nameless address, names of every
 *                     length; losses
 *   calls.tally       the same with calls counted: several kinds, callers and threads, recursion, an unknown
 *                     caller
 *   covered.tally     the same, and how it was counted: what of three images was covered, and what it cost
 *   unfinished.tally  one whose recording was killed
 *   killed.tally      one whose recording was killed before there was a sample
 *   empty.tally       one without a sample
 *   only-calls.tally  calls without a sample: time was not recorded
 *   heap.tally        whole.tally with memory counted in two processes: all counters of it, and peaks
 *   no-leaks.tally    memory alone, all of it released
 *   sampled-heap.tally  memory that was sampled, and none of it in a sample
 *   fds.tally         descriptors alone, of every origin
 *   no-fds.tally      descriptors alone, all of them closed
 *   everything.tally  covered.tally and heap.tally in one
 *   latency.tally     everything.tally with calls timed in two processes
 *   untimed.tally     calls that were to be timed, and none was made
 *   part.tally        everything.tally, in which one more process was lost, for all collectors
 *   lost.tally        one whose only process was lost, for all collectors
 *   no-calls.tally    whole.tally, in which calls were asked for and every process was lost for that
 *   only-lost.tally   calls asked for alone, and the only process was lost */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "profile_heap.h"
#include "profile_latency.h"
#include "store.h"
#include "wire_loss.h"

enum { PERIOD_NS = 1001001, FRAMES_MOST = 10 };

enum place {
    START,
    MAIN,
    PARSE,
    WORK,
    TEMPLATE,
    WALK,
    LEAF,
    NAMELESS,
    HANDLER,
    SYSCALL,
    PAGE_FAULT,
    JIT,
    SHELL,
    PLACES,
    NONE = PLACES
};

struct place_spec {
    enum { PROGRAM, LIBRARY, KERNEL, GENERATED, OTHER } image;
    uint64_t address;
    const char *function; /* NULL: none was found */
    const char *file;
    uint32_t line;
};

static const struct place_spec places[PLACES] = {
    [START] = {PROGRAM, 0x1040, "_start", NULL, 0},
    [MAIN] = {PROGRAM, 0x11b7, "main", "src/bench.cpp", 120},
    [PARSE] = {PROGRAM, 0x1533, "parse(std::istream&)", "src/parse.cpp", 44},
    [WORK] = {PROGRAM, 0x1a02, "work(Job const&)", "src/work.cpp", 310},
    [TEMPLATE] = {LIBRARY, 0x24f10,
                  "std::vector<std::pair<std::string, unsigned long>, std::allocator<std::pair<std::string, "
                  "unsigned long> > >"
                  "::_M_realloc_insert<std::pair<std::string, unsigned long> >(std::pair<std::string, "
                  "unsigned long>&&)",
                  "/usr/include/c++/12/bits/vector.tcc", 439},
    [WALK] = {LIBRARY, 0x26000, "walk_tree", "src/tree.c", 17},
    [LEAF] = {LIBRARY, 0x26100, "hash_bytes", "src/hash.c", 91},
    [NAMELESS] = {LIBRARY, 0x27abc, NULL, NULL, 0},
    [HANDLER] = {PROGRAM, 0x1c00, "on_alarm", "src/bench.cpp", 60},
    [SYSCALL] = {KERNEL, 0xffffffff81000123, "do_syscall_64", NULL, 0},
    [PAGE_FAULT] = {KERNEL, 0xffffffff81002345, "exc_page_fault", NULL, 0},
    [JIT] = {GENERATED, 0x7f0000001000, "LazyCompile:*render /srv/app.js:12", NULL, 0},
    [SHELL] = {OTHER, 0x4010,
               "\xc3\xbc"
               "berpr\xc3\xbc"
               "fen",
               "src/shell.c", 9},
};

struct stack_spec {
    enum place frames[FRAMES_MOST]; /* outermost first, ends with NONE */
    uint32_t flags;                 /* of the outermost frame */
    int thread;
    uint16_t cpu;
    unsigned samples;
};

static const struct stack_spec stacks[] = {
    {{START, MAIN, WORK, LEAF, NONE}, 0, 0, 0, 4200},
    {{START, MAIN, WORK, LEAF, NONE}, 0, 0, 1, 800},
    {{START, MAIN, WORK, WALK, WALK, WALK, LEAF, NONE}, 0, 1, 1, 1500},
    {{START, MAIN, WORK, WALK, WALK, NONE}, 0, 1, 1, 700},
    {{START, MAIN, PARSE, TEMPLATE, NONE}, 0, 0, 0, 1100},
    {{START, MAIN, PARSE, TEMPLATE, PAGE_FAULT, NONE}, 0, 0, 0, 230},
    {{START, MAIN, PARSE, NONE}, 0, 0, 0, 410},
    {{START, MAIN, WORK, NAMELESS, NONE}, 0, 1, 0, 90},
    {{START, MAIN, SYSCALL, NONE}, 0, 0, 1, 320},
    {{WALK, LEAF, NONE}, PROFILE_NODE_CUT, 1, 1, 55},
    {{START, MAIN, JIT, NONE}, 0, 0, 0, 260},
    {{START, MAIN, WORK, HANDLER, NONE}, 0, 0, 0, 35},
    {{SHELL, NONE}, 0, 2, 0, 3},
};

static void fail(const char *what)
{
    fprintf(stderr, "make_profile: %s\n", what);
    exit(1);
}

static void add_process(struct profile *profile, int32_t pid, const char *name, uint32_t *process)
{
    *process = profile_process(profile, pid, 0);
    struct profile_process value = profile->processes[*process];
    value.name = profile_string(profile, name);
    value.command = value.name;
    value.end_ns = UINT64_C(10000000000);
    profile_set_process(profile, *process, &value);
}

static void add_threads(struct profile *profile, uint32_t threads[3], uint32_t *first)
{
    uint32_t bench, shell;
    add_process(profile, 4711, "bench", &bench);
    add_process(profile, 4700, "sh", &shell);
    threads[0] = profile_thread(profile, bench, 4711);
    threads[1] = profile_thread(profile, bench, 4712);
    threads[2] = profile_thread(profile, shell, 4700);
    profile_set_thread_name(profile, threads[0], "bench");
    profile_set_thread_name(profile, threads[1], "worker");
    profile_set_thread_name(profile, threads[2], "sh");
    *first = bench;
}

static void add_places(struct profile *profile, uint32_t process, uint32_t addresses[PLACES])
{
    const uint32_t images[] = {profile_image(profile, PROFILE_IMAGE_FILE, "/srv/bin/bench",
                                             "00112233445566778899aabbccddeeff00112233", 0),
                               profile_image(profile, PROFILE_IMAGE_FILE,
                                             "/usr/lib/x86_64-linux-gnu/libworkers-of-the-bench.so.2",
                                             "aabbccdd", 0),
                               profile_image(profile, PROFILE_IMAGE_KERNEL, "[kernel]", NULL, 0),
                               profile_image(profile, PROFILE_IMAGE_JIT, "[jit]", NULL, process),
                               profile_image(profile, PROFILE_IMAGE_FILE, "/bin/dash", "ddee", 0)};
    for (int i = 0; i < PLACES; i++) {
        const struct place_spec *place = &places[i];
        addresses[i] = profile_address(profile, images[place->image], place->address);
        struct profile_address value = profile->addresses[addresses[i]];
        value.resolution = place->function ? PROFILE_RESOLVED : PROFILE_NO_SYMBOL;
        value.lines_known = true;
        value.file = profile_string(profile, place->file);
        value.line = place->line;
        if (place->function)
            value.function = profile_function(profile, images[place->image], place->function,
                                              place->address & ~0xful, (place->address & ~0xful) + 0x80);
        if (i == LEAF)
            value.inlined = profile_inlined(profile, "mix", "src/hash.c", 33, 0);
        profile_set_address(profile, addresses[i], &value);
    }
}

static void add_stack(struct profile *profile, const struct stack_spec *stack,
                      const uint32_t addresses[PLACES], uint32_t thread, uint16_t counter)
{
    uint32_t chain[FRAMES_MOST], flags[FRAMES_MOST] = {stack->flags};
    size_t count = 0;
    for (; stack->frames[count] != NONE; count++) {
        chain[count] = addresses[stack->frames[count]];
        if (places[stack->frames[count]].image == KERNEL)
            flags[count] |= PROFILE_NODE_KERNEL;
        if (stack->frames[count + 1] == HANDLER)
            flags[count] |= PROFILE_NODE_SIGNAL;
    }
    uint32_t leaf = profile_stack(profile, chain, flags, count);
    profile_count(profile, (struct profile_key){leaf, thread, stack->cpu, counter},
                  (int64_t)stack->samples * PERIOD_NS, stack->samples);
}

/* By whom, into what, on which thread, how, how often. */
static const struct call_spec {
    enum place caller, callee; /* NONE: unknown */
    int thread;
    uint32_t kind;
    uint64_t calls;
} calls[] = {
    {MAIN, WORK, 0, PROFILE_CALL_DIRECT, 600},      {MAIN, WORK, 1, PROFILE_CALL_DIRECT, 600},
    {MAIN, PARSE, 0, PROFILE_CALL_DIRECT, 40},      {PARSE, TEMPLATE, 0, PROFILE_CALL_DIRECT, 2500000},
    {WORK, LEAF, 0, PROFILE_CALL_DIRECT, 15400000}, {WALK, LEAF, 1, PROFILE_CALL_INDIRECT, 3000000},
    {WORK, WALK, 1, PROFILE_CALL_DIRECT, 4000},     {WORK, WALK, 1, PROFILE_CALL_TAIL, 900},
    {NONE, WALK, 1, PROFILE_CALL_ENTRY, 100},       {WALK, WALK, 1, PROFILE_CALL_DIRECT, 95000},
    {MAIN, JIT, 0, PROFILE_CALL_INDIRECT, 12},      {SHELL, SHELL, 2, PROFILE_CALL_DIRECT, 7},
};

/* Where a function begins, resolved like the place in it. */
static uint32_t entry_of(struct profile *profile, uint32_t place)
{
    struct profile_address value = profile->addresses[place];
    uint32_t entry = profile_address(profile, value.image, value.address & ~0xfull);
    profile_set_address(profile, entry, &value);
    return entry;
}

static void add_calls(struct profile *profile, const uint32_t addresses[PLACES])
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const struct call_spec *call = &calls[i];
        uint32_t site = call->caller == NONE ? 0 : addresses[call->caller];
        profile_add_calls(profile,
                          profile_edge(profile, site, entry_of(profile, addresses[call->callee]),
                                       (uint32_t)call->thread + 1, call->kind),
                          call->calls);
    }
}

static const char SHORT_JUMP[] = "short indirect tail jumps with nothing movable before them",
                  FLAGS[] = "jumps to a function that may read the flags it is entered with",
                  ENTRY[] = "functions called by address, with a branch back to their first bytes";

/* Some functions have no names, one image has more of them than are shown, one more than are kept. */
static void add_functions(struct profile *profile, uint32_t program, uint32_t library)
{
    profile_set_uncovered(profile, program, 0x1a00, "work(Job const&)", FLAGS);
    profile_set_uncovered(profile, program, 0x1d40, NULL, "functions that a later version left alone");
    profile_set_uncovered(profile, program, 0x1e00, places[TEMPLATE].function, FLAGS);
    for (unsigned i = 0; i < 1200; i++) {
        char name[40];
        snprintf(name, sizeof name, "callback_%u", i);
        profile_set_uncovered(profile, library, 0x30000 + 16 * i, name, i % 5 == 1 ? SHORT_JUMP : ENTRY);
    }
}

static void add_coverage(struct profile *profile, const uint32_t addresses[PLACES])
{
    uint32_t program = profile->addresses[addresses[MAIN]].image,
             library = profile->addresses[addresses[LEAF]].image,
             shell = profile->addresses[addresses[SHELL]].image;
    profile_set_coverage(profile, program, PROFILE_COVERAGE_SITES, 12345, 12340);
    profile_set_coverage(profile, program, PROFILE_COVERAGE_INDIRECT, 33, 30);
    profile_set_coverage(profile, program, PROFILE_COVERAGE_FUNCTIONS, 310, 307);
    profile_set_coverage(profile, program, PROFILE_COVERAGE_TAKEN, 12, 12);
    profile_set_left(profile, program, 7, FLAGS, 4);
    profile_set_left(profile, program, 62, "functions that a later version left alone", 1);
    profile_set_coverage(profile, library, PROFILE_COVERAGE_SITES, 2048, 1024);
    profile_set_coverage(profile, library, PROFILE_COVERAGE_INDIRECT, 1024, 0);
    profile_set_coverage(profile, library, PROFILE_COVERAGE_FUNCTIONS, 1500, 300);
    profile_set_coverage(profile, library, PROFILE_COVERAGE_TAKEN, 1400, 201);
    profile_set_left(profile, library, 18, SHORT_JUMP, 1024);
    profile_set_left(profile, library, 31, ENTRY, 1199);
    profile_set_coverage(profile, shell, PROFILE_COVERAGE_SITES, 7, 7);
    profile_set_coverage(profile, shell, PROFILE_COVERAGE_INDIRECT, 0, 0);
    profile_set_coverage(profile, shell, PROFILE_COVERAGE_FUNCTIONS, 1, 1);
    profile_set_coverage(profile, shell, PROFILE_COVERAGE_TAKEN, 0, 0);
    add_functions(profile, program, library);
    profile_set_meta(profile, "calls_form", "thread");
    profile_set_meta(profile, "overhead_stub_samples", "137");
    profile_set_meta(profile, "overhead_signals", "1200");
    profile_set_meta(profile, "overhead_signal_ns", "54000000");
    profile_set_meta(profile, "overhead_births", "12");
    profile_set_meta(profile, "overhead_stopped_ns", "2100000");
    profile_set_meta(profile, "overhead_target_memory", "1290240");
}

/* By stack: all of it, at the peak, the most, at the end, how many then, the largest, temporary. */
static const struct memory_spec {
    enum place frames[FRAMES_MOST];
    int process;
    int64_t total, count, peak, most, live, live_count, largest, temporary;
} memory[] = {
    {{START, MAIN, PARSE, TEMPLATE, NONE}, 0, 734003200, 1200000, 50331648, 50331648, 0, 0, 4194304, 90000},
    {{START, MAIN, WORK, WALK, WALK, NONE}, 0, 52428800, 2200000, 5242880, 6291456, 12288, 2, 65536, 310000},
    {{START, MAIN, WORK, LEAF, NONE}, 0, 1048576, 16, 0, 65536, 1000, 1, 65536, 15},
    {{START, MAIN, NONE}, 0, 4096, 1, 4096, 4096, 4096, 1, 4096, 0},
    {{START, MAIN, WORK, NAMELESS, NONE}, 0, 0, 3, 0, 0, 0, 3, 0, 0},
    {{SHELL, NONE}, 1, 2500, 7, 1800, 2000, 40, 1, 999, 2},
};

static uint32_t stack_of(struct profile *profile, const enum place *frames, const uint32_t addresses[PLACES])
{
    uint32_t chain[FRAMES_MOST];
    size_t count = 0;
    for (; frames[count] != NONE; count++)
        chain[count] = addresses[frames[count]];
    return profile_stack(profile, chain, NULL, count);
}

static void add_memory(struct profile *profile, const uint32_t addresses[PLACES], bool leaks)
{
    uint16_t counters[PROFILE_HEAP_COUNTERS];
    uint32_t threads[2];
    for (int i = 0; i < PROFILE_HEAP_COUNTERS; i++)
        counters[i] = (uint16_t)profile_heap_counter(profile, (enum profile_heap)i, true);
    for (uint32_t i = 0; i < 2; i++) {
        threads[i] = profile_thread(profile, i + 1, 0);
        profile_set_thread_name(profile, threads[i], "(all threads)");
    }
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        const struct memory_spec *it = &memory[i];
        const int64_t values[PROFILE_HEAP_COUNTERS] = {it->total,
                                                       it->count,
                                                       it->peak,
                                                       it->most,
                                                       leaks ? it->live : 0,
                                                       leaks ? it->live_count : 0,
                                                       it->largest,
                                                       it->temporary,
                                                       leaks && it->live_count ? (int64_t)(i + 1) * 1700000000
                                                                               : 0};
        uint32_t node = stack_of(profile, it->frames, addresses);
        for (int c = 0; c < PROFILE_HEAP_COUNTERS; c++)
            if (values[c] || (c == PROFILE_HEAP_LIVE && leaks && it->live_count))
                profile_count(profile,
                              (struct profile_key){node, threads[it->process], PROFILE_NO_CPU, counters[c]},
                              values[c], (uint64_t)(c == PROFILE_HEAP_LIVE ? it->live_count : it->count));
    }
    profile_set_peak(profile, 1, counters[PROFILE_HEAP_PEAK], 55578624, 1230000000);
    profile_set_peak(profile, 2, counters[PROFILE_HEAP_PEAK], 1800, 40000);
}

static const struct descriptor_spec {
    enum place frames[FRAMES_MOST]; /* of what was opened */
    uint32_t process, number, origin;
    const char *kind, *name;
    uint64_t opened_ns;
} opened[] = {
    {{START, MAIN, WORK, LEAF, NONE}, 1, 12, 1, "tcp", "127.0.0.1:8080 <-> 127.0.0.1:50814", 2500000000},
    {{START, MAIN, WORK, LEAF, NONE}, 1, 13, 1, "tcp", "127.0.0.1:8080 <-> 127.0.0.1:50816", 3500000000},
    {{START, MAIN, WORK, LEAF, NONE}, 1, 14, 1, "socket", NULL, 9990000000},
    {{START, MAIN, NONE},
     1,
     5,
     1,
     "file",
     "/var/log/bench/of a rather long name/that does not fit/the.log",
     120},
    {{SHELL, NONE}, 2, 255, 1, "pipe", NULL, 1000},
    {{NONE}, 1, 0, 2, "device", "/dev/null", 0},
    {{NONE}, 1, 1, 2, "file", "/tmp/out\033[31m", 0},
    {{NONE}, 2, 0, 3, "device", "/dev/null", 0},
    {{NONE}, 1, 17, 4, "io_uring", NULL, 0},
};

static void add_descriptors(struct profile *profile, const uint32_t addresses[PLACES], bool left)
{
    uint16_t used = (uint16_t)profile_counter(profile, "fd.used", "descriptors", true, PROFILE_SUM),
             live = (uint16_t)profile_counter(profile, "fd.live", "descriptors", true, PROFILE_LIVE);
    uint32_t threads[2] = {profile_thread(profile, 1, 0), profile_thread(profile, 2, 0)};
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++) {
        const struct descriptor_spec *it = &opened[i];
        bool ours = it->origin == PROFILE_DESCRIPTOR_OPENED;
        uint32_t node = ours ? stack_of(profile, it->frames, addresses) : 0;
        const struct profile_descriptor row = {.process = it->process,
                                               .node = node,
                                               .number = it->number,
                                               .origin = it->origin,
                                               .kind = profile_string(profile, it->kind),
                                               .name = profile_string(profile, it->name),
                                               .opened_ns = it->opened_ns,
                                               .age_ns = ours ? 10000000000 - it->opened_ns : 0};
        if (ours)
            profile_count(profile, (struct profile_key){node, threads[it->process - 1], PROFILE_NO_CPU, used},
                          4, 4);
        if (ours && left)
            profile_count(profile, (struct profile_key){node, threads[it->process - 1], PROFILE_NO_CPU, live},
                          1, 1);
        if (left || !ours)
            profile_add_descriptor(profile, &row);
    }
    profile_lose(profile, WIRE_LOSS_DESCRIPTOR_UNSEEN, left);
}

/* Calls by the bits of their times: `calls` of each power of two from `low` on, spread over it. */
static const struct latency_spec {
    enum place place;
    int process;
    unsigned low;
    uint64_t calls[12];
} latencies[] = {
    {PARSE, 0, 6, {3, 40, 1204331, 882000, 120, 17, 0, 0, 2, 1, 0, 1}},
    {WALK, 0, 0, {1, 12000000, 900, 0, 1}},
    {TEMPLATE, 0, 14, {900, 30, 7, 1}},
    {LEAF, 0, 4, {250}},
    {NAMELESS, 0, 40, {1}},
    {PARSE, 1, 7, {0, 55, 44, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {SHELL, 1, 30, {1, 1}},
};

enum { SPREAD = 5 };

static void add_latency(struct profile *profile, const struct latency_spec *it, uint32_t address)
{
    const struct profile_address *place = &profile->addresses[address];
    uint64_t start = profile->functions[place->function].start;
    uint32_t first = place->function ? profile_address(profile, place->image, start) : address;
    struct profile_address value = profile->addresses[first];
    value.function = place->function;
    value.resolution = PROFILE_RESOLVED;
    profile_set_address(profile, first, &value);
    uint32_t row = profile_latency(profile, (uint32_t)it->process + 1, first);
    for (unsigned i = 0; i < sizeof it->calls / sizeof *it->calls; i++)
        for (uint64_t part = 0; part < SPREAD && it->calls[i]; part++) {
            uint64_t ns = (UINT64_C(1) << (it->low + i)) + (part << (it->low + i)) / SPREAD;
            uint64_t each = it->calls[i] / SPREAD + (part < it->calls[i] % SPREAD);
            if (!each)
                continue;
            profile_add_latency(profile, row, each * ns, ns, ns);
            profile_add_latency_calls(profile, row, wire_latency_bucket(ns), each);
        }
}

static void add_timing(struct profile *profile, const uint32_t addresses[PLACES])
{
    uint16_t count = (uint16_t)profile_counter(profile, "function.calls", "calls", true, PROFILE_SUM),
             time = (uint16_t)profile_counter(profile, "function.time", "ns", true, PROFILE_SUM);
    const enum place frames[] = {START, MAIN, PARSE, NONE};
    uint32_t node = stack_of(profile, frames, addresses);
    profile_count(profile, (struct profile_key){node, 1, PROFILE_NO_CPU, count}, 2086514, 2086514);
    profile_count(profile, (struct profile_key){node, 1, PROFILE_NO_CPU, time}, 812345678, 1);
    for (size_t i = 0; i < sizeof latencies / sizeof *latencies; i++)
        add_latency(profile, &latencies[i], addresses[latencies[i].place]);
}

enum content {
    SAMPLES = 1,
    CALLS = 2,
    COVERAGE = 4,
    HEAP = 8,
    LEAKS = 16,
    TIMING = 32,
    FDS = 64,
    OPEN = 128
};

static void add_content(struct profile *profile, unsigned content)
{
    uint32_t threads[3], addresses[PLACES], process;
    uint16_t counter = 0;
    if (content & SAMPLES)
        counter = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    add_threads(profile, threads, &process);
    add_places(profile, process, addresses);
    if (content & CALLS)
        add_calls(profile, addresses);
    if (content & COVERAGE)
        add_coverage(profile, addresses);
    for (size_t i = 0; content & SAMPLES && i < sizeof stacks / sizeof *stacks; i++)
        add_stack(profile, &stacks[i], addresses, threads[stacks[i].thread], counter);
    if (content & FDS)
        add_descriptors(profile, addresses, content & OPEN);
    if (content & HEAP)
        add_memory(profile, addresses, content & LEAKS);
    if (content & TIMING)
        add_timing(profile, addresses);
    profile_lose(profile, WIRE_LOSS_STACK_CUT, 55);
    profile_lose(profile, WIRE_LOSS_NO_SYMBOL, 1);
    profile_lose(profile, WIRE_LOSS_RING_FULL, 12);
}

/* A process that nobody could count in. */
static void lose_process(struct profile *profile)
{
    profile_set_meta(profile, "calls_notice", "calls of process 4243 are not counted: it is run by valgrind");
    profile_set_meta(profile, "agent_notice", "a program is not counted: it is run by valgrind");
    profile_lose(profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    profile_lose(profile, WIRE_LOSS_AGENT_ABSENT, 1);
}

static void describe(struct profile *profile, const char *command)
{
    profile_set_meta(profile, "command", command);
    profile_set_meta(profile, "mode", "launch");
    profile_set_meta(profile, "hostname", "testbed");
    profile_set_meta(profile, "kernel", "6.1.0-13-amd64");
    profile_set_meta(profile, "machine", "x86_64");
    profile_set_meta(profile, "tally_version", "0.1.0");
    profile_set_meta(profile, "start_time", "1763700000");
    profile_set_meta(profile, "duration_ns", "10000000000");
    profile_set_meta(profile, "target_cpu_ns", "9720000000");
    profile_set_meta(profile, "overhead_tool_cpu_ns", "120000000");
}

/* What a recording with --no-time does not have. */
static void describe_time(struct profile *profile)
{
    profile_set_meta(profile, "engine", "perf_event cpu-clock, user and kernel time");
    profile_set_meta(profile, "rate_hz", "999");
}

static void write_profile(const char *directory, const char *name, struct profile *profile)
{
    char path[4096];
    struct store *store;
    struct base_error error = {0};
    snprintf(path, sizeof path, "%s/%s.tally", directory, name);
    if (store_create(path, &store, &error) < 0 || store_close(store, profile, false, &error) < 0)
        fail(error.text);
    profile_free(profile);
}

static void write_full(const char *directory, const char *name, unsigned content)
{
    struct profile *profile = profile_new();
    describe(profile, "bench --jobs 2 'a file'");
    profile_set_meta(profile, "exit_status", "0");
    profile_set_meta(profile, "complete", "1");
    if (content & SAMPLES)
        describe_time(profile);
    add_content(profile, content);
    write_profile(directory, name, profile);
}

static void write_part(const char *directory)
{
    struct profile *profile = profile_new();
    describe(profile, "bench --jobs 2 'a file'");
    profile_set_meta(profile, "exit_status", "0");
    profile_set_meta(profile, "complete", "1");
    describe_time(profile);
    add_content(profile, SAMPLES | CALLS | COVERAGE | HEAP | LEAKS);
    lose_process(profile);
    write_profile(directory, "part", profile);
}

static void write_lost(const char *directory)
{
    static const char *const counters[][2] = {{"map.total", "bytes"},        {"map.live", "bytes"},
                                              {"throw.count", "exceptions"}, {"fd.used", "descriptors"},
                                              {"fd.live", "descriptors"},    {"function.calls", "calls"},
                                              {"function.time", "ns"}};
    struct profile *profile = profile_new();
    describe(profile, "valgrind bench");
    profile_set_meta(profile, "exit_status", "0");
    profile_set_meta(profile, "complete", "1");
    uint32_t process = profile_process(profile, 4243, 0);
    profile_set_process(profile, process,
                        &(struct profile_process){.pid = 4243, .name = profile_string(profile, "bench")});
    profile_thread(profile, process, 4243);
    profile_calls_counter(profile);
    for (int i = 0; i < PROFILE_HEAP_COUNTERS; i++)
        profile_heap_counter(profile, (enum profile_heap)i, true);
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        profile_counter(profile, counters[i][0], counters[i][1], true, PROFILE_SUM);
    lose_process(profile);
    write_profile(directory, "lost", profile);
}

static void write_without_calls(const char *directory, const char *name, unsigned content, unsigned processes)
{
    struct profile *profile = profile_new();
    describe(profile, "bench --jobs 2 'a file'");
    profile_set_meta(profile, "exit_status", "0");
    profile_set_meta(profile, "complete", "1");
    if (content & SAMPLES) {
        describe_time(profile);
        add_content(profile, content);
    }
    profile_calls_counter(profile);
    profile_set_meta(profile, "calls_notice", "calls of process 4711 are not counted: it may not be traced");
    profile_lose(profile, WIRE_LOSS_CALLS_UNSEEN, processes);
    write_profile(directory, name, profile);
}

/* Counters without a figure: memory that was sampled, and time when the recorder was killed at once. */
static void write_without_samples(const char *directory)
{
    struct profile *profile = profile_new();
    describe(profile, "true");
    describe_time(profile);
    profile_set_meta(profile, "complete", "1");
    profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    profile_counter(profile, profile_heap_name(PROFILE_HEAP_LIVE), "bytes", false, PROFILE_LIVE);
    write_profile(directory, "sampled-heap", profile);

    profile = profile_new();
    describe(profile, "true");
    describe_time(profile);
    profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    write_profile(directory, "killed", profile);
}

/* A third process, in a control group of its own, and samples that lie in Tally itself: in the agent, in the
 * kernel that it called, and in stubs. */
static void write_own(const char *directory)
{
    struct profile *profile = profile_new();
    describe(profile, "bench --jobs 2 'a file'");
    describe_time(profile);
    profile_set_meta(profile, "exit_status", "0");
    profile_set_meta(profile, "complete", "1");
    add_content(profile, SAMPLES | CALLS);
    uint16_t counter = (uint16_t)profile_counter_named(profile, "time.cpu");
    uint32_t process;
    add_process(profile, 4720, "bench", &process);
    struct profile_process value = profile->processes[process];
    value.cgroup = profile_string(profile, "/system.slice/bench.service");
    profile_set_process(profile, process, &value);
    uint32_t thread = profile_thread(profile, process, 4720);
    profile_set_thread_name(profile, thread, "bench");
    uint32_t agent = profile_image(profile, PROFILE_IMAGE_FILE, PROFILE_AGENT_IMAGE, "", 0);
    uint32_t insert = profile_address(profile, agent, 0x1010);
    struct profile_address place = profile->addresses[insert];
    place.function = profile_function(profile, agent, "insert_block", 0x1000, 0x1100);
    place.resolution = PROFILE_RESOLVED;
    profile_set_address(profile, insert, &place);
    uint32_t special = profile_image(profile, PROFILE_IMAGE_SPECIAL, PROFILE_STUBS_IMAGE, "", 0);
    uint32_t stub = profile_address(profile, special, 0);
    uint32_t kernel =
        profile_address(profile, profile_image(profile, PROFILE_IMAGE_KERNEL, "[kernel]", NULL, 0), 0x77);
    const uint32_t main_address = profile->nodes[1].address;
    const struct {
        uint32_t frames[3], flags[3];
        size_t count;
        uint64_t samples;
    } own[] = {{{main_address, insert}, {0}, 2, 3000},
               {{main_address, insert, kernel}, {0, 0, PROFILE_NODE_KERNEL}, 3, 297},
               {{main_address, stub}, {0}, 2, 1000},
               {{main_address}, {0}, 1, 1000}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        profile_count(profile,
                      (struct profile_key){profile_stack(profile, own[i].frames, own[i].flags, own[i].count),
                                           thread, 0, counter},
                      (int64_t)own[i].samples * PERIOD_NS, own[i].samples);
    write_profile(directory, "own", profile);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        fail("needs a directory");
    write_full(argv[1], "whole", SAMPLES);
    write_full(argv[1], "calls", SAMPLES | CALLS);
    write_full(argv[1], "covered", SAMPLES | CALLS | COVERAGE);
    write_full(argv[1], "only-calls", CALLS);
    write_full(argv[1], "heap", SAMPLES | HEAP | LEAKS);
    write_full(argv[1], "no-leaks", HEAP);
    write_full(argv[1], "fds", FDS | OPEN);
    write_full(argv[1], "no-fds", FDS);
    write_full(argv[1], "everything", SAMPLES | CALLS | COVERAGE | HEAP | LEAKS);
    write_full(argv[1], "latency", SAMPLES | CALLS | COVERAGE | HEAP | LEAKS | TIMING);

    struct profile *profile = profile_new();
    describe(profile, "bench --jobs 2 'a file'");
    describe_time(profile);
    add_content(profile, SAMPLES);
    write_profile(argv[1], "unfinished", profile);

    profile = profile_new();
    describe(profile, "true");
    describe_time(profile);
    profile_set_meta(profile, "exit_status", "0");
    profile_set_meta(profile, "complete", "1");
    profile_set_meta(profile, "no_samples_reason",
                     "the target used less CPU time than lies between two samples");
    profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    write_profile(argv[1], "empty", profile);

    profile = profile_new();
    describe(profile, "true");
    profile_set_meta(profile, "exit_status", "0");
    profile_set_meta(profile, "complete", "1");
    profile_counter(profile, "function.calls", "calls", true, PROFILE_SUM);
    profile_counter(profile, "function.time", "ns", true, PROFILE_SUM);
    write_profile(argv[1], "untimed", profile);
    write_without_samples(argv[1]);
    write_part(argv[1]);
    write_lost(argv[1]);
    write_own(argv[1]);
    write_without_calls(argv[1], "no-calls", SAMPLES, 2);
    write_without_calls(argv[1], "only-lost", 0, 1);
    return 0;
}
