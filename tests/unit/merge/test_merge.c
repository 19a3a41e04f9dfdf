/* Several recordings in one: every figure is the sum of its parts, what is the same is one, what is not stays
 * apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing.h"
#include "merge.h"
#include "profile.h"
#include "profile_extent.h"
#include "profile_heap.h"
#include "store.h"
#include "store_timeline.h"
#include "wire_loss.h"

/* --- recordings --- */

static char directory[] = "/tmp/tally-merge-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : 1;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[256];
    for (const char *const *name = (const char *const[]){"a", "b", "c", "m", NULL}; *name; name++) {
        snprintf(command, sizeof command, "%s/%s", directory, *name);
        unlink(command);
    }
    return rmdir(directory);
}

static const char *path_of(const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", directory, name);
    return path;
}

/* Writes it, reads it back: merging is of what is in files. Frees the one, the caller the other. */
static struct profile *stored(struct profile *profile, const char *name)
{
    char path[256];
    struct store *store;
    struct base_error error = {0};
    struct profile *loaded = NULL;
    unlink(path_of(name, path));
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    assert_int_equal(store_close(store, profile, false, &error), BASE_OK);
    profile_free(profile);
    assert_int_equal(store_load(path, &loaded, &error), BASE_OK);
    return loaded;
}

struct recording {
    struct profile *profile;
    uint32_t process, thread;
    uint16_t cpu_time;
};

static struct recording begin(const char *host)
{
    struct recording made = {.profile = profile_new()};
    assert_non_null(made.profile);
    made.cpu_time = (uint16_t)profile_counter(made.profile, "time.cpu", "ns", false, PROFILE_SUM);
    made.process = profile_process(made.profile, 100, 0);
    made.thread = profile_thread(made.profile, made.process, 100);
    profile_set_meta(made.profile, "hostname", host);
    return made;
}

/* An address in a function that has its name. */
static uint32_t place(struct recording *to, uint32_t kind, const char *path, const char *build_id,
                      uint64_t start, const char *function)
{
    uint32_t image = profile_image(to->profile, kind, path, build_id, 0);
    uint32_t index = profile_address(to->profile, image, start + 4);
    struct profile_address value = to->profile->addresses[index];
    value.resolution = PROFILE_RESOLVED;
    value.function = profile_function(to->profile, image, function, start, start + 16);
    profile_set_address(to->profile, index, &value);
    return index;
}

static void count(struct recording *to, uint32_t outer, uint32_t inner, int64_t value)
{
    uint32_t stack[] = {outer, inner};
    profile_count(to->profile,
                  (struct profile_key){profile_stack(to->profile, stack, NULL, inner ? 2 : 1), to->thread, 0,
                                       to->cpu_time},
                  value, 1);
}

/* Merges a and b, and frees them; the result has been written and read. */
static struct profile *merged(struct profile *a, struct profile *b)
{
    char path[256];
    struct base_error error = {0};
    struct profile *into = profile_new();
    assert_int_equal(merge_add(into, a, path_of("a", path), &error), BASE_OK);
    assert_int_equal(merge_add(into, b, path_of("b", path), &error), BASE_OK);
    assert_int_equal(merge_finish(into, &error), BASE_OK);
    assert_string_equal(error.text, "");
    profile_free(a);
    profile_free(b);
    struct profile *result = stored(into, "m");
    assert_int_equal(profile_check(result, &error), BASE_OK);
    return result;
}

/* What the function's own cells amount to, in all images of that path. */
static int64_t self_of(const struct profile *profile, const char *function, uint32_t origin)
{
    int64_t sum = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        uint32_t index = profile->addresses[profile->nodes[cell->node].address].function;
        uint32_t process = profile->threads[cell->thread].process;
        if (!strcmp(profile_text(profile, profile->functions[index].name), function) &&
            (!origin || profile->processes[process].origin == origin))
            sum += cell->value;
    }
    return sum;
}

static size_t images_at(const struct profile *profile, const char *path)
{
    size_t found = 0;
    for (size_t i = 1; i < profile->image_count; i++)
        found += !strcmp(profile_text(profile, profile->images[i].path), path);
    return found;
}

/* --- what is the same --- */

static void images_by_build_id(void **state)
{
    (void)state;
    struct recording a = begin("a"), b = begin("b");
    count(&a, place(&a, PROFILE_IMAGE_FILE, "/bin/x", "11", 0x100, "main"), 0, 1);
    place(&b, PROFILE_IMAGE_FILE, "/first", "99", 0, "other"); /* other numbers than in a */
    count(&b, place(&b, PROFILE_IMAGE_FILE, "/opt/x", "11", 0x100, "main"), 0, 20);
    count(&b, place(&b, PROFILE_IMAGE_FILE, "/bin/x", "22", 0x100, "main"), 0, 300);
    struct profile *all = merged(stored(a.profile, "a"), stored(b.profile, "b"));
    assert_int_equal(self_of(all, "main", 0), 321);
    assert_int_equal(self_of(all, "main", 1), 1);
    assert_int_equal(self_of(all, "main", 2), 320);
    assert_int_equal(images_at(all, "/bin/x"), 2);
    assert_int_equal(images_at(all, "/opt/x"), 0);
    assert_int_equal(all->node_count, 3); /* two mains, for there are two images */
    profile_free(all);
}

static void kernels_that_lie_elsewhere(void **state)
{
    (void)state;
    const uint64_t here = 0xffffffff81000000, there = 0xffffffffa3200000;
    struct recording a = begin("a"), b = begin("b");
    count(&a, place(&a, PROFILE_IMAGE_KERNEL, "[kernel]", NULL, here + 0x100, "do_one"), 0, 1);
    place(&a, PROFILE_IMAGE_KERNEL, "[kernel]", NULL, here + 0x200, "do_two");
    count(&b, place(&b, PROFILE_IMAGE_KERNEL, "[kernel]", NULL, there + 0x100, "do_one"), 0, 20);
    count(&b, place(&b, PROFILE_IMAGE_KERNEL, "[kernel]", NULL, there + 0x300, "do_three"), 0, 300);
    struct profile *all = merged(stored(a.profile, "a"), stored(b.profile, "b"));
    assert_int_equal(images_at(all, "[kernel]"), 1);
    assert_int_equal(all->node_count, 3);
    assert_int_equal(self_of(all, "do_one", 0), 21);
    for (size_t i = 1; i < all->function_count; i++)
        assert_in_range(all->functions[i].start, here, here + 0x300);
    profile_free(all);
}

static void images_that_only_share_a_path(void **state)
{
    (void)state;
    struct recording a = begin("a"), b = begin("b");
    count(&a, place(&a, PROFILE_IMAGE_FILE, "/bin/x", NULL, 0x100, "main"), 0, 1);
    count(&a, place(&a, PROFILE_IMAGE_FILE, "/bin/same", NULL, 0x100, "same"), 0, 5);
    count(&b, place(&b, PROFILE_IMAGE_FILE, "/bin/x", NULL, 0x180, "main"), 0, 20); /* it was built again */
    count(&b, place(&b, PROFILE_IMAGE_FILE, "/bin/same", NULL, 0x100, "same"), 0, 50);
    struct profile *all = merged(stored(a.profile, "a"), stored(b.profile, "b"));
    assert_int_equal(images_at(all, "/bin/x"), 2);
    assert_int_equal(images_at(all, "/bin/same"), 1);
    assert_int_equal(self_of(all, "main", 0), 21);
    assert_int_equal(self_of(all, "same", 0), 55);
    profile_free(all);
}

static void addresses_that_contradict(void **state)
{
    (void)state;
    struct recording a = begin("a"), b = begin("b");
    place(&a, PROFILE_IMAGE_FILE, "/bin/x", NULL, 0x100, "main");
    count(&a, place(&a, PROFILE_IMAGE_FILE, "/bin/x", NULL, 0x200, "old"), 0, 1);
    place(&b, PROFILE_IMAGE_FILE, "/bin/x", NULL, 0x100, "main");
    count(&b, place(&b, PROFILE_IMAGE_FILE, "/bin/x", NULL, 0x200, "new"), 0, 20);
    struct profile *all = merged(stored(a.profile, "a"), stored(b.profile, "b"));
    assert_int_equal(self_of(all, "old", 0), 1);
    assert_int_equal(self_of(all, "new", 0), 20);
    assert_int_equal(images_at(all, "/bin/x"), 2);
    profile_free(all);
}

static void who_knows_more_is_believed(void **state)
{
    (void)state;
    struct recording a = begin("a"), b = begin("b");
    uint32_t nameless =
        profile_address(a.profile, profile_image(a.profile, PROFILE_IMAGE_FILE, "/bin/x", "11", 0), 0x104);
    count(&a, nameless, 0, 1);
    uint32_t named = place(&b, PROFILE_IMAGE_FILE, "/bin/x", "11", 0x100, "main");
    struct profile_address value = b.profile->addresses[named];
    value.file = profile_string(b.profile, "x.c");
    value.line = 7;
    value.lines_known = true;
    value.inlined = profile_inlined(b.profile, "inner", "x.h", 2, 0);
    profile_set_address(b.profile, named, &value);
    count(&b, named, 0, 20);
    struct profile *all = merged(stored(a.profile, "a"), stored(b.profile, "b"));
    assert_int_equal(self_of(all, "main", 0), 21);
    assert_int_equal(all->addresses[1].line, 7);
    assert_string_equal(profile_text(all, all->inlined[all->addresses[1].inlined].function_name), "inner");
    profile_free(all);
}

static void generated_code_is_its_process_s(void **state)
{
    (void)state;
    struct profile *parts[2];
    for (int i = 0; i < 2; i++) {
        struct recording a = begin(i ? "b" : "a");
        uint32_t image = profile_image(a.profile, PROFILE_IMAGE_JIT, "[jit]", NULL, a.process);
        count(&a, profile_address(a.profile, image, 0x7f00), 0, 1);
        parts[i] = stored(a.profile, i ? "b" : "a");
    }
    struct profile *all = merged(parts[0], parts[1]);
    assert_int_equal(images_at(all, "[jit]"), 2);
    assert_int_equal(all->processes[all->images[1].process].origin, 1);
    assert_int_equal(all->processes[all->images[2].process].origin, 2);
    profile_free(all);
}

/* --- sums --- */

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

enum { PLACES = 40 };

/* Stacks, edges and losses at random; in b other functions have other numbers. */
static struct profile *random_recording(const char *host, uint64_t seed, const char *name)
{
    struct recording a = begin(host);
    uint32_t places[PLACES];
    uint16_t other = (uint16_t)profile_counter(a.profile, "heap", "bytes", true, PROFILE_SUM);
    a.profile->max_nodes = 300; /* some of it is folded */
    for (size_t i = 0; i < PLACES; i++) {
        char function[32];
        size_t which = (i * 7 + seed) % PLACES;
        snprintf(function, sizeof function, "f%zu", which);
        places[i] = place(&a, PROFILE_IMAGE_FILE, "/bin/x", "11", 0x100 * (which + 1), function);
    }
    for (int i = 0; i < 1500; i++) {
        uint32_t stack[6];
        size_t depth = 1 + next_random(&seed) % 6;
        for (size_t f = 0; f < depth; f++)
            stack[f] = places[next_random(&seed) % PLACES];
        uint32_t node = profile_stack(a.profile, stack, NULL, depth);
        profile_count(a.profile,
                      (struct profile_key){node, a.thread, (uint16_t)(i % 3), i % 4 ? a.cpu_time : other},
                      (int64_t)(next_random(&seed) % 1000), 1 + i % 2);
        profile_timeline_add(a.profile, (uint64_t)i, a.thread, node, 0, a.cpu_time);
        profile_add_calls(a.profile,
                          profile_edge(a.profile, stack[0], stack[depth - 1], a.thread, PROFILE_CALL_DIRECT),
                          next_random(&seed) % 50);
    }
    profile_lose(a.profile, WIRE_LOSS_RING_FULL, 5 + seed % 3);
    return stored(a.profile, name);
}

static int64_t sum_of_counter(const struct profile *profile, const char *name, uint64_t *samples)
{
    int64_t sum = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_counter *counter = &profile->counters[profile->cells[i].counter];
        if (strcmp(profile_text(profile, counter->name), name))
            continue;
        sum += profile->cells[i].value;
        *samples += profile->cells[i].samples;
    }
    return sum;
}

static uint64_t sum_of_calls(const struct profile *profile)
{
    uint64_t sum = 0;
    for (size_t i = 1; i < profile->edge_count; i++)
        sum += profile->edges[i].calls;
    return sum;
}

static bool count_entry(void *context, const struct store_timeline_sample *sample)
{
    size_t *entries = context;
    (void)sample;
    ++*entries;
    return true;
}

static void sums_are_those_of_the_parts(void **state)
{
    (void)state;
    struct profile *a = random_recording("a", 1, "a"), *b = random_recording("b", 2, "b");
    uint64_t samples[2] = {0, 0}, losses[PROFILE_LOSSES], calls = sum_of_calls(a) + sum_of_calls(b);
    int64_t cpu = sum_of_counter(a, "time.cpu", &samples[0]) + sum_of_counter(b, "time.cpu", &samples[0]);
    int64_t heap = sum_of_counter(a, "heap", &samples[1]) + sum_of_counter(b, "heap", &samples[1]);
    int64_t functions[PLACES][2];
    for (size_t i = 0; i < PLACES; i++) {
        char function[32];
        snprintf(function, sizeof function, "f%zu", i);
        functions[i][0] = self_of(a, function, 0);
        functions[i][1] = self_of(b, function, 0);
    }
    for (size_t i = 0; i < PROFILE_LOSSES; i++)
        losses[i] = a->losses[i] + b->losses[i];
    assert_true(losses[WIRE_LOSS_FOLDED]);
    struct profile *all = merged(a, b);
    uint64_t found[2] = {0, 0};
    assert_int_equal(sum_of_counter(all, "time.cpu", &found[0]), cpu);
    assert_int_equal(sum_of_counter(all, "heap", &found[1]), heap);
    assert_memory_equal(found, samples, sizeof found);
    assert_int_equal(sum_of_calls(all), calls);
    assert_memory_equal(all->losses, losses, sizeof losses);
    for (size_t i = 0; i < PLACES; i++) {
        char function[32];
        snprintf(function, sizeof function, "f%zu", i);
        assert_int_equal(self_of(all, function, 1), functions[i][0]);
        assert_int_equal(self_of(all, function, 2), functions[i][1]);
    }
    assert_int_equal(images_at(all, "(folded)"), 1);
    assert_true(all->folded_address);
    size_t entries = 0;
    char path[256];
    struct base_error error = {0};
    assert_int_equal(store_timeline_each(path_of("m", path), count_entry, &entries, &error), BASE_OK);
    assert_int_equal(entries, 3000);
    profile_free(all);
}

/* --- what does not go together --- */

static void refused(const char *unit, bool exact, uint32_t combine, const char *words)
{
    char path[256];
    struct base_error error = {0};
    struct profile *into = profile_new();
    struct recording a = begin("a"), b = {.profile = profile_new()};
    profile_counter(b.profile, "time.cpu", unit, exact, combine);
    struct profile *first = stored(a.profile, "a"), *second = stored(b.profile, "b");
    assert_int_equal(merge_add(into, first, path_of("a", path), &error), BASE_OK);
    assert_int_equal(merge_add(into, second, path_of("b", path), &error), BASE_EUSAGE);
    assert_string_equal(error.text, words);
    profile_free(into);
    profile_free(first);
    profile_free(second);
}

static void counters_that_differ(void **state)
{
    (void)state;
    refused("ns", true, PROFILE_SUM, "its counter time.cpu was counted, that of the others sampled");
    refused("us", false, PROFILE_SUM, "its counter time.cpu is in us, that of the others in ns");
    refused("ns", false, PROFILE_PEAK, "its counter time.cpu is of another kind than that of the others");
}

/* --- meta, origins --- */

static const char *meta_of(const struct profile *profile, const char *key)
{
    const char *value = profile_meta(profile, key);
    return value ? value : "(none)";
}

static struct profile *described(const char *host, const char *name, const char *start, bool more)
{
    struct recording a = begin(host);
    profile_set_meta(a.profile, "command", "shop");
    profile_set_meta(a.profile, "start_time", start);
    profile_set_meta(a.profile, "duration_ns", more ? "700" : "50");
    profile_set_meta(a.profile, "target_cpu_ns", "9");
    profile_set_meta(a.profile, "overhead_births", more ? "3" : NULL);
    profile_set_meta(a.profile, "rate_hz", more ? "499" : "999");
    profile_set_meta(a.profile, "heap_overhead", more ? "include" : "none");
    profile_set_meta(a.profile, "empty_pages", more ? "unused" : "zero");
    profile_set_meta(a.profile, "rate_notice", more ? "slow here" : "slow there");
    if (more)
        profile_set_meta(a.profile, "complete", "1");
    else
        profile_set_meta(a.profile, "recorder_pid", "77");
    return stored(a.profile, name);
}

static void meta_is_settled(void **state)
{
    (void)state;
    struct profile *all = merged(described("east", "a", "2000", true), described("west", "b", "1000", false));
    assert_string_equal(meta_of(all, "command"), "shop");
    assert_string_equal(meta_of(all, "hostname"), "(none)");
    assert_string_equal(meta_of(all, "start_time"), "1000");
    assert_string_equal(meta_of(all, "duration_ns"), "750");
    assert_string_equal(meta_of(all, "target_cpu_ns"), "18");
    assert_string_equal(meta_of(all, "overhead_births"), "3");
    assert_string_equal(meta_of(all, "overhead_tool_cpu_ns"), "(none)");
    assert_string_equal(meta_of(all, "rate_hz"), "(none)");
    assert_string_equal(meta_of(all, "heap_overhead"), "mixed");
    assert_int_equal(profile_heap_empty(all), PROFILE_HEAP_EMPTY_MIXED);
    assert_string_equal(meta_of(all, "complete"), "(none)");
    assert_string_equal(meta_of(all, "recorder_pid"), "(none)");
    assert_string_equal(meta_of(all, "rate_notice"), "east: slow here; west: slow there");
    assert_string_equal(meta_of(all, "origins"), "2");
    assert_string_equal(profile_origin(all, 1, "rate_hz"), "499");
    assert_string_equal(profile_origin(all, 2, "name"), "west");
    assert_null(profile_origin(all, 2, "complete"));
    assert_null(profile_origin(all, 2, "recorder_pid"));
    assert_null(profile_origin(all, 0, "name"));
    profile_free(all);
}

static void origins_have_names_of_their_own(void **state)
{
    (void)state;
    struct profile *all = merged(described("same", "a", "1", true), described("same", "b", "2", true));
    assert_string_equal(profile_origin(all, 1, "name"), "a");
    assert_string_equal(profile_origin(all, 2, "name"), "b");
    assert_string_equal(meta_of(all, "hostname"), "same");
    assert_string_equal(meta_of(all, "complete"), "1");
    assert_string_equal(meta_of(all, "heap_overhead"), "include");
    assert_int_equal(profile_heap_empty(all), PROFILE_HEAP_EMPTY_UNUSED);
    profile_free(all);
}

/* What was merged is merged again, as if all had been merged at once. */
static void merging_what_was_merged(void **state)
{
    (void)state;
    char path[256];
    struct base_error error = {0};
    struct profile *pair = merged(described("a", "a", "30", true), described("b", "b", "20", true));
    struct profile *third = described("c", "c", "10", true), *into = profile_new();
    assert_int_equal(merge_add(into, third, path_of("c", path), &error), BASE_OK);
    assert_int_equal(merge_add(into, pair, path_of("m", path), &error), BASE_OK);
    assert_int_equal(merge_finish(into, &error), BASE_OK);
    assert_string_equal(meta_of(into, "origins"), "3");
    assert_string_equal(profile_origin(into, 1, "hostname"), "c");
    assert_string_equal(profile_origin(into, 2, "hostname"), "a");
    assert_string_equal(profile_origin(into, 3, "name"), "b");
    assert_string_equal(meta_of(into, "duration_ns"), "2100");
    assert_string_equal(meta_of(into, "start_time"), "10");
    assert_int_equal(into->process_count, 4);
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(into->processes[i].origin, i);
    profile_free(pair);
    profile_free(third);
    profile_free(into);
}

static void calls_of_some_are_noted(void **state)
{
    (void)state;
    struct recording a = begin("a"), b = begin("b");
    profile_calls_counter(a.profile);
    struct profile *all = merged(stored(a.profile, "a"), stored(b.profile, "b"));
    assert_non_null(strstr(meta_of(all, "calls_notice"), "calls were counted in 1 of 2 recordings"));
    assert_string_equal(meta_of(all, "calls_partial"), "1");
    assert_true(profile_counts_calls(all));
    profile_free(all);
}

static struct profile *with_counter(const char *name, const char *counter, const char *throws_absent)
{
    struct recording a = begin(name);
    if (counter)
        profile_counter(a.profile, counter, "bytes", true, PROFILE_SUM);
    if (throws_absent)
        profile_set_meta(a.profile, "throws_absent", throws_absent);
    profile_set_meta(a.profile, "complete", "1");
    return stored(a.profile, name);
}

static void extent_is(const struct profile *profile, const char *counter, enum profile_extent_degree degree,
                      const char *reason)
{
    struct profile_extent extent = profile_extent_named(profile, counter);
    struct base_text text = {0};
    profile_extent_reason(&extent, &text);
    assert_int_equal(extent.degree, degree);
    assert_string_equal(base_text_string(&text), reason);
    base_text_free(&text);
}

/* A counter that stands at 0 says nothing of a recording that did not have it. */
static void counters_of_some_are_noted(void **state)
{
    (void)state;
    struct profile *all = merged(with_counter("a", "heap.live", NULL), with_counter("b", NULL, NULL));
    extent_is(all, "heap.live", PROFILE_EXTENT_PART, "counted in 1 of 2 recordings");
    extent_is(all, "time.cpu", PROFILE_EXTENT_ALL, "");
    struct profile *again = merged(stored(all, "a"), with_counter("b", "heap.live.else", NULL));
    extent_is(again, "heap.live", PROFILE_EXTENT_PART, "counted in 1 of 3 recordings");
    profile_free(again);
    all = merged(with_counter("a", "fd.left", NULL), with_counter("b", "fd.left", NULL));
    extent_is(all, "fd.left", PROFILE_EXTENT_ALL, "");
    profile_free(all);
    all = merged(with_counter("a", "throw.count", NULL), with_counter("b", "throw.count", "not here"));
    extent_is(all, "throw.count", PROFILE_EXTENT_PART, "counted in 1 of 2 recordings");
    profile_free(all);
    all = merged(with_counter("a", "throw.count", "nor there"), with_counter("b", "throw.count", "not here"));
    extent_is(all, "throw.count", PROFILE_EXTENT_NONE, "a: nor there; b: not here");
    profile_free(all);
}

/* A number that no origin's values stand behind: the profile is taken as one recording. */
static void forged_numbers_of_origins(void **state)
{
    (void)state;
    struct recording a = begin("a"), b = begin("b");
    profile_set_meta(a.profile, "origins", "2000000000");
    profile_set_meta(b.profile, "origins", "18446744073709551615");
    struct profile *all = merged(stored(a.profile, "a"), stored(b.profile, "b"));
    assert_string_equal(meta_of(all, "origins"), "2");
    assert_string_equal(profile_origin(all, 2, "name"), "b");
    profile_free(all);
}

/* Both count calls: all of them, of other names, or of another image. */
static const char *partial_of(const char *names, bool covered)
{
    struct recording parts[2] = {begin("a"), begin("b")};
    for (int i = 0; i < 2; i++) {
        uint32_t image = profile_image(parts[i].profile, PROFILE_IMAGE_FILE, "/bin/x", "11", 0);
        profile_calls_counter(parts[i].profile);
        if (covered || !i)
            profile_set_coverage(parts[i].profile, image, PROFILE_COVERAGE_SITES, 10, 10);
        if (i && names)
            profile_set_meta(parts[i].profile, "calls_names", names);
    }
    struct profile *all = merged(stored(parts[0].profile, "a"), stored(parts[1].profile, "b"));
    bool partial = profile_meta(all, "calls_partial");
    profile_free(all);
    return partial ? "partial" : "all";
}

static void calls_of_the_same_are_complete(void **state)
{
    (void)state;
    assert_string_equal(partial_of(NULL, true), "all");
    assert_string_equal(partial_of("f*", true), "partial");
    assert_string_equal(partial_of(NULL, false), "partial");
}

/* --- coverage --- */

static struct profile *covered(const char *host, const char *name, uint64_t counted, uint64_t functions)
{
    struct recording a = begin(host);
    if (name[0] == 'b')
        profile_image(a.profile, PROFILE_IMAGE_FILE, "/other", "22", 0);
    uint32_t image = profile_image(a.profile, PROFILE_IMAGE_FILE, "/bin/x", "11", 0);
    profile_set_coverage(a.profile, image, PROFILE_COVERAGE_SITES, 100, counted);
    profile_set_left(a.profile, image, 7, "calls that are odd", 100 - counted);
    for (uint64_t i = 0; i < functions; i++)
        profile_set_uncovered(a.profile, image, i, "f", "odd");
    return stored(a.profile, name);
}

static void coverage_survives(void **state)
{
    (void)state;
    struct profile *all = merged(covered("a", "a", 90, 3), covered("b", "b", 80, 1200));
    assert_int_equal(all->coverage_count, 3);
    for (size_t i = 1; i < all->coverage_count; i++) {
        const struct profile_coverage *it = &all->coverage[i];
        bool sites = it->kind == PROFILE_COVERAGE_SITES;
        assert_int_equal(it->found, sites ? 100 : 1200);
        assert_int_equal(it->counted, sites ? 80 : 1000);
    }
    assert_int_equal(all->left_count, 2);
    assert_int_equal(all->left[1].count, 20);
    assert_int_equal(all->uncovered_count, 1001);
    profile_free(all);
}

/* --- memory --- */

static void every_allocation(void **state)
{
    (void)state;
    char path[256];
    struct profile *a = random_recording("a", 1, "a"), *b = covered("b", "b", 80, 3);
    uint64_t samples = 0, calls = sum_of_calls(a);
    int64_t cpu = sum_of_counter(a, "time.cpu", &samples);
    uint64_t failing = 0;
    for (bool reached = true; reached; failing += failing < 300 ? 1 : 17) {
        struct base_error error = {0};
        struct profile *into = profile_new();
        failing_begin(failing + 1);
        int result = merge_add(into, a, path_of("a", path), &error);
        if (result == BASE_OK)
            result = merge_add(into, b, path_of("b", path), &error);
        if (result == BASE_OK)
            result = merge_finish(into, &error);
        reached = failing_end() > failing;
        assert_true(result == BASE_OK || error.text[0]);
        assert_true(reached || result == BASE_OK);
        if (result == BASE_OK) { /* then nothing is missing */
            assert_int_equal(sum_of_counter(into, "time.cpu", &samples), cpu);
            assert_int_equal(sum_of_calls(into), calls);
            assert_string_equal(meta_of(into, "origins"), "2");
            assert_int_equal(into->uncovered_count, 4);
        }
        profile_free(into);
    }
    assert_true(failing > 100);
    profile_free(a);
    profile_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_by_build_id),
        cmocka_unit_test(kernels_that_lie_elsewhere),
        cmocka_unit_test(images_that_only_share_a_path),
        cmocka_unit_test(addresses_that_contradict),
        cmocka_unit_test(who_knows_more_is_believed),
        cmocka_unit_test(generated_code_is_its_process_s),
        cmocka_unit_test(sums_are_those_of_the_parts),
        cmocka_unit_test(counters_that_differ),
        cmocka_unit_test(meta_is_settled),
        cmocka_unit_test(origins_have_names_of_their_own),
        cmocka_unit_test(merging_what_was_merged),
        cmocka_unit_test(calls_of_some_are_noted),
        cmocka_unit_test(counters_of_some_are_noted),
        cmocka_unit_test(forged_numbers_of_origins),
        cmocka_unit_test(calls_of_the_same_are_complete),
        cmocka_unit_test(coverage_survives),
        cmocka_unit_test(every_allocation),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
