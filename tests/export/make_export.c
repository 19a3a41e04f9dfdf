/* make_export DIRECTORY - the profiles that the tests of exports and of merging look at, always the same:
 *
 *   plain.tally    recursion of every kind, inlined functions on several lines, two processes, three threads,
 *                  two sampled counters, an exact one and peaks, calls counted by edge
 *   hostile.tally  names with everything that some format uses for itself
 *   empty.tally    nothing at all
 *   odd.tally      one that counts what the others sample
 *   timed.tally    with a timeline: three threads at 1000 Hz, one of which waits from 20 to 30 ms
 *   phases.tally   a sample a millisecond for two seconds: one thread sorts and then serves, another compares
 *                  in the middle
 *   many.tally     a sample a millisecond, each of another thread: 70 of one process, and one of another
 *   left.tally, right.tally  two recordings of one program that share counters, images and functions, but not
 *                            all
 *
 * make_export DIRECTORY NODES [TIMES] - large.tally, a tree of so many nodes from 174 samples each: for
 * figures of speed. With TIMES, instead, from so many samples, a third of a millisecond apart, on a
 * timeline. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "store.h"
#include "wire_loss.h"

enum { DEEPEST = 64 };

static void fail(const char *what)
{
    fprintf(stderr, "make_export: %s\n", what);
    exit(1);
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

static uint32_t add_process(struct profile *profile, int32_t pid, const char *name)
{
    uint32_t process = profile_process(profile, pid, 0);
    struct profile_process value = profile->processes[process];
    value.name = profile_string(profile, name);
    value.end_ns = 4000000000;
    profile_set_process(profile, process, &value);
    return process;
}

static uint32_t add_thread(struct profile *profile, uint32_t process, int32_t tid, const char *name)
{
    uint32_t thread = profile_thread(profile, process, tid);
    profile_set_thread_name(profile, thread, name);
    return thread;
}

/* An address in a function that begins at its last 256 bytes' border. */
static uint32_t add_place(struct profile *profile, uint32_t image, uint64_t address, const char *function,
                          const char *file, uint32_t line)
{
    uint32_t index = profile_address(profile, image, address);
    struct profile_address value = profile->addresses[index];
    value.resolution = function ? PROFILE_RESOLVED : PROFILE_NO_SYMBOL;
    value.lines_known = true;
    value.file = profile_string(profile, file);
    value.line = line;
    if (function)
        value.function = profile_function(profile, image, function, address & ~0xffull, (address | 0xff) + 1);
    profile_set_address(profile, index, &value);
    return index;
}

static void set_inlined(struct profile *profile, uint32_t place, uint32_t level)
{
    struct profile_address value = profile->addresses[place];
    value.inlined = level;
    profile_set_address(profile, place, &value);
}

static void describe(struct profile *profile, const char *host, const char *start, const char *rate)
{
    profile_set_meta(profile, "command", "shop --port 80");
    profile_set_meta(profile, "mode", "launch");
    profile_set_meta(profile, "hostname", host);
    profile_set_meta(profile, "kernel", "6.1.0");
    profile_set_meta(profile, "engine", "perf_event cpu-clock");
    profile_set_meta(profile, "start_time", start);
    profile_set_meta(profile, "rate_hz", rate);
    profile_set_meta(profile, "duration_ns", "4000000000");
    profile_set_meta(profile, "complete", "1");
}

/* --- plain --- */

struct places {
    uint32_t start, main, main_late, loop, odd, even, direct, leaf, kernel, generated, nameless;
};

static struct places add_places(struct profile *profile, uint32_t process)
{
    uint32_t program =
        profile_image(profile, PROFILE_IMAGE_FILE, "/opt/shop/bin/shop", "0011223344556677", 0);
    uint32_t library = profile_image(profile, PROFILE_IMAGE_FILE, "/usr/lib/libsort.so.1", "8899aabb", 0);
    uint32_t kernel = profile_image(profile, PROFILE_IMAGE_KERNEL, "[kernel]", NULL, 0);
    uint32_t jit = profile_image(profile, PROFILE_IMAGE_JIT, "[jit]", NULL, process);
    struct places places = {
        .start = add_place(profile, program, 0x1010, "_start", NULL, 0),
        .main = add_place(profile, program, 0x1120, "main", "src/shop.c", 20),
        .main_late = add_place(profile, program, 0x1170, "main", "src/shop.c", 31),
        .loop = add_place(profile, program, 0x1250, "serve(Request const&)", "src/serve.cc", 8),
        .odd = add_place(profile, library, 0x2140, "is_odd", "sort/parity.c", 5),
        .even = add_place(profile, library, 0x2240, "is_even", "sort/parity.c", 11),
        .direct = add_place(profile, library, 0x2340, "quick_sort", "sort/quick.c", 40),
        .leaf = add_place(profile, library, 0x2460, "compare", "sort/compare.c", 3),
        .kernel = add_place(profile, kernel, 0xffffffff81000140, "do_page_fault", NULL, 0),
        .generated = add_place(profile, jit, 0x7f0000000010, "lambda:1", NULL, 0),
        .nameless = add_place(profile, library, 0x2fffc, NULL, NULL, 0),
    };
    uint32_t outer = profile_inlined(profile, "swap", "sort/swap.h", 7, 0);
    set_inlined(profile, places.leaf, profile_inlined(profile, "load", "sort/load.h", 2, outer));
    return places;
}

static void put(struct profile *profile, uint32_t thread, uint16_t counter, int64_t each, uint64_t samples,
                const uint32_t *stack, size_t depth)
{
    uint32_t node = profile_stack(profile, stack, NULL, depth);
    profile_count(profile, (struct profile_key){node, thread, (uint16_t)(samples % 3), counter},
                  each * (int64_t)samples, samples);
}

#define PUT(thread, counter, each, samples, ...)                                                             \
    put(profile, thread, (uint16_t)(counter), each, samples, (const uint32_t[]){__VA_ARGS__},                \
        sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void add_edge(struct profile *profile, uint32_t site, uint32_t image, uint64_t entry,
                     const char *function, uint32_t thread, uint32_t kind, uint64_t calls)
{
    uint32_t callee = add_place(profile, image, entry, function, NULL, 0);
    profile_add_calls(profile, profile_edge(profile, site, callee, thread, kind), calls);
}

static void fill_plain(struct profile *profile)
{
    uint16_t cpu = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint16_t misses = (uint16_t)profile_counter(profile, "cache-misses", "events", false, PROFILE_SUM);
    uint16_t heap = (uint16_t)profile_counter(profile, "heap.bytes", "bytes", true, PROFILE_SUM);
    uint16_t peak = (uint16_t)profile_counter(profile, "heap.peak", "bytes", true, PROFILE_PEAK);
    uint32_t shop = add_process(profile, 100, "shop"), child = add_process(profile, 101, "shop");
    uint32_t one = add_thread(profile, shop, 100, "shop"), two = add_thread(profile, shop, 102, "sorter"),
             other = add_thread(profile, child, 101, "shop");
    struct places p = add_places(profile, shop);
    PUT(one, cpu, 1000000, 300, p.start, p.main, p.loop, p.direct, p.direct, p.direct, p.leaf);
    PUT(one, cpu, 1000000, 70, p.start, p.main, p.loop, p.direct);
    PUT(one, cpu, 1000000, 40, p.start, p.main_late, p.odd, p.even, p.odd, p.even, p.leaf);
    PUT(one, cpu, 1000000, 10, p.start, p.main_late, p.odd, p.even, p.odd);
    PUT(two, cpu, 1000000, 55, p.start, p.main, p.odd, p.direct, p.odd, p.nameless);
    PUT(two, cpu, 1000000, 25, p.start, p.main, p.loop, p.kernel);
    PUT(two, cpu, 1000000, 25, p.start, p.main, p.generated);
    PUT(other, cpu, 1000000, 90, p.start, p.main, p.loop, p.direct, p.leaf);
    PUT(one, misses, 500, 12, p.start, p.main, p.loop, p.direct, p.leaf);
    PUT(other, misses, 500, 30, p.start, p.main, p.loop);
    PUT(one, heap, 64, 9, p.start, p.main, p.loop);
    PUT(one, peak, 4096, 1, p.start, p.main, p.loop);
    PUT(two, peak, 1024, 1, p.start, p.main, p.loop);
    uint32_t root =
        profile_stack(profile, (const uint32_t[]){p.odd, p.leaf}, (const uint32_t[]){PROFILE_NODE_CUT, 0}, 2);
    profile_count(profile, (struct profile_key){root, one, PROFILE_NO_CPU, cpu}, 5000000, 5);
    profile_count(profile, (struct profile_key){0, two, 1, cpu}, 2000000, 2); /* no stack at all */
    uint32_t program = profile->addresses[p.main].image, library = profile->addresses[p.odd].image;
    add_edge(profile, p.main, program, 0x1200, "serve(Request const&)", one, PROFILE_CALL_DIRECT, 120000);
    add_edge(profile, p.main, program, 0x1200, "serve(Request const&)", other, PROFILE_CALL_DIRECT, 7);
    add_edge(profile, p.direct, library, 0x2300, "quick_sort", one, PROFILE_CALL_DIRECT, 999999);
    add_edge(profile, p.direct, library, 0x2400, "compare", one, PROFILE_CALL_INDIRECT, 123456789012);
    add_edge(profile, 0, library, 0x2100, "is_odd", two, PROFILE_CALL_ENTRY, 3);
    add_edge(profile, p.main_late, library, 0x2500, "never_sampled", one, PROFILE_CALL_TAIL, 44);
    profile_lose(profile, WIRE_LOSS_STACK_CUT, 5);
}

/* --- timed --- */

/* Samples of one stack, a millisecond apart, from `first_us` on. */
static void put_times(struct profile *profile, uint32_t thread, uint16_t cpu, uint64_t first_us,
                      unsigned count, const uint32_t *stack, size_t depth)
{
    uint16_t counter = (uint16_t)profile_counter_named(profile, "time.cpu");
    uint32_t node = profile_stack(profile, stack, NULL, depth);
    for (unsigned i = 0; i < count; i++) {
        profile_count(profile, (struct profile_key){node, thread, cpu, counter}, 1000000, 1);
        profile_timeline_add(profile, (first_us + i * 1000) * 1000, thread, node, cpu, counter);
    }
}

#define PUT_TIMES(thread, cpu, first_us, count, ...)                                                         \
    put_times(profile, thread, cpu, first_us, count, (const uint32_t[]){__VA_ARGS__},                        \
              sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void fill_timed(struct profile *profile)
{
    profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint16_t heap = (uint16_t)profile_counter(profile, "heap.bytes", "bytes", true, PROFILE_SUM);
    uint32_t shop = add_process(profile, 100, "shop"), child = add_process(profile, 101, "shop");
    uint32_t one = add_thread(profile, shop, 100, "shop"), two = add_thread(profile, shop, 102, "sorter"),
             other = add_thread(profile, child, 101, "shop");
    struct places p = add_places(profile, shop);
    PUT_TIMES(one, 0, 0, 10, p.start, p.main, p.loop, p.direct, p.leaf);
    PUT_TIMES(one, 0, 10000, 10, p.start, p.main, p.loop, p.direct);
    PUT_TIMES(one, 1, 30000, 10, p.start, p.main_late, p.odd, p.even, p.odd, p.even, p.leaf);
    PUT_TIMES(two, 1, 5500, 20, p.start, p.main, p.generated);
    PUT_TIMES(other, PROFILE_NO_CPU, 12250, 3, p.start, p.main, p.loop, p.kernel);
    PUT(one, heap, 64, 9, p.start, p.main, p.loop);
    add_edge(profile, p.main, profile->addresses[p.main].image, 0x1200, "serve(Request const&)", one,
             PROFILE_CALL_DIRECT, 12);
}

/* --- hostile --- */

static const char *const hostile[] = {
    "semi;colon;s",
    "tab\there",
    "new\nline 99",
    "carriage\rreturn",
    "quote\"s and, commas",
    "bad\xff\xfeutf\xc3",
    "(12) like a compressed name",
    "fn=(3) trick",
    "calls=7 1",
    "  blanks around  ",
    "back\\slash \\n",
    "escape\033[31mred",
    "=1+1",
    "'single' `tick` $dollar",
    "\xe2\x80\xaeright to left",
    "unit\x1fseparator\x7f",
    "events: faked",
    "100 200",
    "</script><b>&amp;",
    "\xf0\x9f\x94\xa5 fire \xe4\xb8\xad",
    "percent%s%n%d",
    "-1",
};

static void fill_hostile(struct profile *profile)
{
    enum { NAMES = sizeof hostile / sizeof *hostile };
    uint32_t places[NAMES];
    uint16_t odd = (uint16_t)profile_counter(profile, "odd counter;\"x\"\n", "u n i t", true, PROFILE_SUM);
    uint32_t process = add_process(profile, 7, "pro;cess\n\"\xff");
    uint32_t thread = add_thread(profile, process, 8, "thr\nead;,");
    for (uint32_t i = 0; i < NAMES; i++) {
        char path[256];
        snprintf(path, sizeof path, "/odd/%s", hostile[i]);
        uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, path, NULL, 0);
        places[i] = add_place(profile, image, 0x1000 + i * 256, hostile[i], path, i);
        put(profile, thread, odd, 1, i + 1, places, i + 1 > DEEPEST ? DEEPEST : i + 1);
        profile_add_calls(profile,
                          profile_edge(profile, places[i], places[i / 2], thread, PROFILE_CALL_DIRECT), i);
    }
    profile_set_meta(profile, "command", "od\"d\n;\xff --x");
}

/* --- phases --- */

static void fill_phases(struct profile *profile)
{
    uint16_t cpu = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint32_t shop = add_process(profile, 100, "shop");
    uint32_t one = add_thread(profile, shop, 100, "shop"), two = add_thread(profile, shop, 102, "helper");
    struct places p = add_places(profile, shop);
    uint32_t sort = profile_stack(profile, (const uint32_t[]){p.main, p.direct}, NULL, 2);
    uint32_t serve = profile_stack(profile, (const uint32_t[]){p.main, p.loop}, NULL, 2);
    uint32_t compare = profile_stack(profile, (const uint32_t[]){p.main_late, p.even, p.leaf}, NULL, 3);
    for (uint64_t ms = 0; ms < 2000; ms++) {
        uint32_t node = ms < 1000 ? sort : serve;
        profile_count(profile, (struct profile_key){node, one, 0, cpu}, 1000000, 1);
        profile_timeline_add(profile, ms * 1000000, one, node, 0, cpu);
        if (ms < 500 || ms >= 1500)
            continue;
        profile_count(profile, (struct profile_key){compare, two, 1, cpu}, 1000000, 1);
        profile_timeline_add(profile, ms * 1000000 + 7, two, compare, 1, cpu);
    }
    add_edge(profile, p.main, profile->addresses[p.main].image, 0x1200, "serve(Request const&)", one,
             PROFILE_CALL_DIRECT, 12);
    profile_set_meta(profile, "duration_ns", "2000000000");
}

/* --- many --- */

static void fill_many(struct profile *profile)
{
    enum { THREADS = 70 };
    uint16_t cpu = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint32_t shop = add_process(profile, 100, "shop"), other = add_process(profile, 200, "other");
    struct places p = add_places(profile, shop);
    uint32_t node = profile_stack(profile, (const uint32_t[]){p.main, p.leaf}, NULL, 2);
    for (int32_t i = 0; i <= THREADS; i++) {
        uint32_t thread = i < THREADS ? add_thread(profile, shop, 100 + i, "shop")
                                      : add_thread(profile, other, 200, "other");
        profile_count(profile, (struct profile_key){node, thread, 0, cpu}, 1000000, 1);
        profile_timeline_add(profile, (uint64_t)i * 1000000, thread, node, 0, cpu);
    }
}

/* --- for merging --- */

static void fill_side(struct profile *profile, bool right)
{
    uint16_t cpu = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint16_t own = (uint16_t)profile_counter(profile, right ? "cycles" : "heap.bytes",
                                             right ? "cycles" : "bytes", !right, PROFILE_SUM);
    uint32_t shop = add_process(profile, 100, "shop"); /* the same number on both */
    uint32_t thread = add_thread(profile, shop, 100, right ? "right" : "left");
    if (right) /* other indices than on the other side */
        add_place(profile, profile_image(profile, PROFILE_IMAGE_FILE, "/only/right", "77", 0), 0x10, "r",
                  NULL, 0);
    struct places p = add_places(profile, shop);
    PUT(thread, cpu, right ? 2000000 : 1000000, 300, p.start, p.main, p.loop, p.direct, p.leaf);
    PUT(thread, cpu, right ? 2000000 : 1000000, right ? 11 : 17, p.start, p.main, p.generated);
    PUT(thread, own, 64, 5, p.start, p.main, p.loop);
    uint32_t program = profile->addresses[p.main].image;
    add_edge(profile, p.main, program, 0x1200, "serve(Request const&)", thread, PROFILE_CALL_DIRECT,
             right ? 41 : 1);
    profile_lose(profile, WIRE_LOSS_STACK_CUT, right ? 4 : 3);
    profile_timeline_add(profile, 5, thread, profile->cells[0].node, 0, cpu);
}

/* --- large --- */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

enum { FUNCTIONS = 6000, PLACES = 40000, THREADS = 16 };

static void add_code(struct profile *profile, uint32_t *places, uint64_t *state)
{
    uint32_t images[8];
    for (int i = 0; i < 8; i++) {
        char path[64];
        snprintf(path, sizeof path, "/opt/large/lib/libpart%d.so", i);
        images[i] = profile_image(profile, PROFILE_IMAGE_FILE, path, "0123456789abcdef", 0);
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        uint32_t function = i % FUNCTIONS;
        char name[160], file[64];
        snprintf(name, sizeof name,
                 "large::part%u::Worker<std::vector<unsigned long> >::step_%u(large::Request const&, int)",
                 function % 8, function);
        snprintf(file, sizeof file, "src/part%u/worker_%u.cc", function % 8, function / 16);
        places[i] =
            add_place(profile, images[function % 8], 0x100000ull + function * 256ull + i / FUNCTIONS * 8,
                      name, file, 10 + (uint32_t)(next_random(state) % 900));
        if (i % 5 == 0)
            set_inlined(profile, places[i],
                        profile_inlined(profile, i % 2 ? "begin" : "operator[]", "vector.h", i % 97, 0));
    }
}

static void put_large(struct profile *profile, uint16_t counter, const uint32_t *threads, uint32_t times,
                      uint64_t *state)
{
    for (uint32_t i = 0; i < times; i++) {
        uint32_t node = 1 + (uint32_t)(next_random(state) % (profile->node_count - 1)),
                 thread = threads[i % THREADS];
        profile_count(profile, (struct profile_key){node, thread, (uint16_t)(i % 3), counter}, 1001001, 1);
        profile_timeline_add(profile, i * UINT64_C(333333), thread, node, (uint16_t)(i % 3), counter);
    }
}

static void fill_large(struct profile *profile, uint32_t nodes, uint32_t times)
{
    uint32_t *places = calloc(PLACES, sizeof *places), threads[THREADS];
    uint64_t state = 42;
    uint16_t cpu = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint32_t process = add_process(profile, 4000, "large");
    for (int i = 0; i < THREADS; i++)
        threads[i] = add_thread(profile, process, 4000 + i, "worker");
    add_code(profile, places, &state);
    profile->max_nodes = nodes + 1;
    while (profile->live_nodes <
           nodes) { /* a random node, and some frames below it: depths as of real programs */
        uint32_t node = profile->node_count > 1 ? (uint32_t)(next_random(&state) % profile->node_count) : 0;
        for (uint64_t frames = 1 + next_random(&state) % 6; frames-- && profile->live_nodes < nodes;)
            node = profile_node(profile, node, places[next_random(&state) % PLACES], 0);
        for (int i = 0; i < 2 && !times; i++)
            profile_count(
                profile,
                (struct profile_key){node, threads[next_random(&state) % THREADS], (uint16_t)(i * 3), cpu},
                1001001 * 87, 87);
    }
    put_large(profile, cpu, threads, times, &state);
    free(places);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        fail("needs a directory");
    struct profile *profile = profile_new();
    if (argc > 2) {
        describe(profile, "big", "1763700000", "999");
        fill_large(profile, (uint32_t)strtoul(argv[2], NULL, 10),
                   argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0);
        write_profile(argv[1], "large", profile);
        return 0;
    }
    describe(profile, "testbed", "1763700000", "999");
    fill_plain(profile);
    write_profile(argv[1], "plain", profile);
    profile = profile_new();
    describe(profile, "testbed", "1763700000", "1000");
    fill_timed(profile);
    write_profile(argv[1], "timed", profile);
    profile = profile_new();
    fill_hostile(profile);
    write_profile(argv[1], "hostile", profile);
    profile = profile_new();
    profile_set_meta(profile, "complete", "1");
    write_profile(argv[1], "empty", profile);
    profile = profile_new();
    profile_counter(profile, "time.cpu", "ns", true, PROFILE_SUM);
    write_profile(argv[1], "odd", profile);
    profile = profile_new();
    describe(profile, "testbed", "1763700000", "1000");
    fill_phases(profile);
    write_profile(argv[1], "phases", profile);
    profile = profile_new();
    fill_many(profile);
    write_profile(argv[1], "many", profile);
    for (int right = 0; right < 2; right++) {
        profile = profile_new();
        describe(profile, right ? "east" : "west", right ? "1763700900" : "1763700000",
                 right ? "499" : "999");
        fill_side(profile, right);
        write_profile(argv[1], right ? "right" : "left", profile);
    }
    return 0;
}
