/* Random profiles against the naive truth: each cell's stack is walked up with a set, and self, total and the
 * calls on it are added to a table. The reports are read back from their JSON, whose rows stand one on a
 * line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check_json.h"
#include "sample_profile.h"

enum { FUNCTIONS = 24, STACKS = 400, DEEPEST = 40, SIGNAL = FUNCTIONS, CUT, NAMES };

struct truth {
    int64_t self[NAMES], total[NAMES], edges[NAMES][NAMES], all;
    uint64_t self_samples[NAMES];
};

struct random_profile {
    struct sample_profile sample;
    uint32_t addresses[FUNCTIONS * 2]; /* two in each function; the odd ones have f(n / 2 + 1) inlined */
    uint32_t threads[4];
    uint16_t other; /* another counter, whose figures must not leak in */
};

static uint64_t random_below(uint64_t *seed, uint64_t limit)
{
    *seed = base_hash(*seed + 1);
    return *seed % limit;
}

static void name_of(unsigned function, char name[16])
{
    snprintf(name, 16, "f%u", function);
}

static void add_stack(struct random_profile *random, uint64_t *seed)
{
    struct profile *profile = random->sample.profile;
    uint32_t stack[DEEPEST], flags[DEEPEST];
    size_t depth = 1 + random_below(seed, DEEPEST);
    unsigned spread = 1 + (unsigned)random_below(seed, FUNCTIONS * 2);
    for (size_t i = 0; i < depth; i++) {
        stack[i] = random->addresses[random_below(seed, spread)];
        flags[i] = random_below(seed, 20) ? 0 : PROFILE_NODE_SIGNAL;
    }
    flags[0] |= random_below(seed, 10) ? 0 : PROFILE_NODE_CUT;
    flags[depth - 1] &= ~(uint32_t)PROFILE_NODE_SIGNAL;
    uint32_t leaf = profile_stack(profile, stack, flags, depth);
    uint32_t thread = random->threads[random_below(seed, 4)];
    uint16_t counter = random_below(seed, 4) ? random->sample.counter : random->other;
    uint64_t samples = 1 + random_below(seed, 50);
    profile_count(profile, (struct profile_key){leaf, thread, (uint16_t)random_below(seed, 3), counter},
                  (int64_t)samples * 1000, samples);
}

static struct random_profile make(uint64_t seed)
{
    struct random_profile random = {.sample = sample_profile_new()};
    struct profile *profile = random.sample.profile;
    char name[16];
    for (unsigned i = 0; i < FUNCTIONS * 2; i++) {
        uint64_t start = 0x1000 + 0x100 * (i / 2);
        name_of(i / 2, name);
        if (i % 2 == 0) {
            random.addresses[i] =
                sample_profile_function(&random.sample, random.sample.program, name, start, "a.c", i + 1);
            continue;
        }
        random.addresses[i] = profile_address(profile, random.sample.program, start + 16);
        struct profile_address address = profile->addresses[random.addresses[i]];
        address.function = profile->addresses[random.addresses[i - 1]].function;
        profile_set_address(profile, random.addresses[i], &address);
        name_of(i / 2 + 100, name);
        sample_profile_inline(&random.sample, random.addresses[i], name, "a.c", 1000 + i);
    }
    for (size_t i = 0; i < 2; i++)
        random.threads[i] = random.sample.threads[i];
    uint32_t second = profile_process(profile, 200, 5);
    random.threads[2] = profile_thread(profile, second, 200);
    random.threads[3] = profile_thread(profile, second, 201);
    random.other = (uint16_t)profile_counter(profile, "other", "count", true, PROFILE_SUM);
    for (unsigned i = 0; i < STACKS; i++)
        add_stack(&random, &seed);
    return random;
}

static unsigned number_of(const struct random_profile *random, uint32_t address)
{
    const struct profile *profile = random->sample.profile;
    const char *name = profile_text(profile, profile->functions[profile->addresses[address].function].name);
    return (unsigned)strtoul(name + 1, NULL, 10);
}

/* One cell: the frames from the leaf outwards, with the marks, each name and each pair once. */
static void add_cell(const struct random_profile *random, const struct profile_cell *cell, bool marks,
                     struct truth *truth)
{
    const struct profile *profile = random->sample.profile;
    bool seen[NAMES] = {false}, called[NAMES][NAMES] = {{false}};
    unsigned inner = NAMES;
    for (uint32_t node = cell->node; node; node = profile->nodes[node].parent) {
        const struct profile_node *n = &profile->nodes[node];
        bool cut = n->flags & PROFILE_NODE_CUT,
             handler = profile->nodes[n->parent].flags & PROFILE_NODE_SIGNAL;
        unsigned frames[2] = {number_of(random, n->address), cut ? CUT : SIGNAL};
        for (unsigned i = 0; i < (marks && (cut || handler) ? 2u : 1u); i++) {
            if (inner == NAMES)
                truth->self[frames[i]] += cell->value;
            else
                called[frames[i]][inner] = true;
            if (inner == NAMES)
                truth->self_samples[frames[i]] += cell->samples;
            seen[frames[i]] = true;
            inner = frames[i];
        }
    }
    for (unsigned i = 0; i < NAMES; i++) {
        truth->total[i] += seen[i] ? cell->value : 0;
        for (unsigned j = 0; j < NAMES; j++)
            truth->edges[i][j] += called[i][j] ? cell->value : 0;
    }
    truth->all += cell->value;
}

static struct truth *find_truth(const struct random_profile *random, bool marks, uint32_t only_thread)
{
    const struct profile *profile = random->sample.profile;
    struct truth *truth = calloc(1, sizeof *truth);
    assert_non_null(truth);
    for (size_t i = 0; i < profile->cell_count; i++)
        if (profile->cells[i].counter == random->sample.counter &&
            (!only_thread || profile->cells[i].thread == only_thread))
            add_cell(random, &profile->cells[i], marks, truth);
    return truth;
}

static unsigned name_number(const char *name)
{
    if (!strncmp(name, "<signal>", 8))
        return SIGNAL;
    if (!strncmp(name, "[stack cut]", 11))
        return CUT;
    assert_true(name[0] == 'f');
    return (unsigned)strtoul(name + 1, NULL, 10);
}

/* The number after `member` at or behind `at`, which must come before `end`. */
static int64_t figure(const char *at, const char *member, const char *end)
{
    const char *found = strstr(at, member);
    if (!found || found >= end)
        fail_msg("no %s in %.80s", member, at);
    return strtoll(found + strlen(member), NULL, 10);
}

static char *json_of(const struct random_profile *random, struct view_options options)
{
    options.json = true;
    char *json = sample_profile_report(random->sample.profile, &options);
    const char *wrong = check_json(json);
    if (wrong)
        fail_msg("no JSON: %.60s", wrong);
    return json;
}

/* Rows one after another: each a line of its own below "rows", which is ended in place. */
static char *next_line(char **rest)
{
    char *line = *rest, *end = line;
    if (!*line)
        return NULL;
    while (*end && *end != '\n')
        end++;
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return line;
}

static char *next_row(char **rest)
{
    char *line = next_line(rest);
    return line && !strncmp(line, "    {", 5) ? line : NULL;
}

static char *rows_of(char *json)
{
    char *rows = strstr(json, "\n  \"rows\": [");
    assert_non_null(rows);
    rows[1] = '\0'; /* what is above stays text of its own */
    next_line(&(char *){rows + 2});
    return rows + 2 + strlen(rows + 2) + 1;
}

static void compare_flat(const struct random_profile *random, struct view_options options,
                         uint32_t only_thread)
{
    struct truth *truth = find_truth(random, false, only_thread);
    char *json = json_of(random, options);
    unsigned rows = 0, expected = 0;
    char *rest = rows_of(json);
    for (const char *row; (row = next_row(&rest)); rows++) {
        const char *end = row + strlen(row);
        unsigned name = name_number(strstr(row, "\"function\": \"") + 13);
        assert_int_equal(figure(row, "\"self\": {\"value\": ", end), truth->self[name]);
        assert_int_equal(figure(strstr(row, "\"self\""), "\"samples\": ", end), truth->self_samples[name]);
        assert_int_equal(figure(row, "\"total\": {\"value\": ", end), truth->total[name]);
    }
    for (unsigned i = 0; i < FUNCTIONS; i++)
        expected += truth->total[i] > 0;
    assert_int_equal(rows, expected);
    assert_int_equal(figure(strstr(json, "\"selected\""), "\"value\": ", json + strlen(json)), truth->all);
    free(json);
    free(truth);
}

static void flat_is_true(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct random_profile random = make(seed);
        compare_flat(&random, (struct view_options){0}, 0);
        compare_flat(&random, (struct view_options){.part.thread = "201"}, random.threads[3]);
        profile_free(random.sample.profile);
    }
}

static void compare_edges(const char *row, const char *key, const char *end, unsigned name, bool callers,
                          const struct truth *truth)
{
    const char *list = strstr(row, key), *close = strchr(list, ']');
    unsigned count = 0, expected = 0;
    assert_true(close < end);
    if (strstr(list, "[stack cut]") && strstr(list, "[stack cut]") < end)
        close = strstr(strstr(list, "[stack cut]") + 11, "]");
    for (const char *edge = list; (edge = strstr(edge, "{\"rank\"")) && edge < close; edge++, count++) {
        unsigned other = name_number(strstr(edge, "\"function\": \"") + 13);
        int64_t value = figure(edge, "\"total\": {\"value\": ", end);
        assert_int_equal(value, callers ? truth->edges[other][name] : truth->edges[name][other]);
    }
    for (unsigned i = 0; i < NAMES; i++)
        expected += (callers ? truth->edges[i][name] : truth->edges[name][i]) > 0;
    assert_int_equal(count, expected);
}

static void graph_is_true(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed <= 120; seed++) {
        struct random_profile random = make(seed);
        struct truth *truth = find_truth(&random, true, 0);
        char *json = json_of(&random, (struct view_options){.view = VIEW_GRAPH});
        int64_t last = INT64_MAX;
        unsigned entries = 0, expected = 0;
        char *lines = rows_of(json);
        for (const char *row; (row = next_row(&lines));) {
            const char *end = row + strlen(row);
            unsigned name = name_number(strstr(row, "\"function\": \"") + 13);
            int64_t total = figure(row, "\"total\": {\"value\": ", end);
            assert_int_equal(figure(row, "\"self\": {\"value\": ", end), truth->self[name]);
            assert_int_equal(total, truth->total[name]);
            assert_true(total <= last);
            last = total;
            entries++;
            compare_edges(row, "\"callers\": [", end, name, true, truth);
            compare_edges(row, "\"callees\": [", end, name, false, truth);
        }
        for (unsigned i = 0; i < NAMES; i++)
            expected += truth->total[i] > 0;
        assert_int_equal(entries, expected);
        free(json);
        free(truth);
        profile_free(random.sample.profile);
    }
}

/* Of a tree: each branch's total is its self and its children's totals; all selfs make the whole. */
static void tree_adds_up(void **state)
{
    (void)state;
    enum { MOST = STACKS * DEEPEST * 3 };
    for (uint64_t seed = 200; seed <= 210; seed++) {
        struct random_profile random = make(seed);
        struct truth *truth = find_truth(&random, true, 0);
        int64_t *rest = calloc(MOST, sizeof *rest), selfs = 0, *self = calloc(MOST, sizeof *self);
        char *json = json_of(&random, (struct view_options){.view = VIEW_TREE});
        char *lines = rows_of(json);
        for (const char *row; (row = next_row(&lines));) {
            const char *end = row + strlen(row);
            int64_t id = figure(row, "\"id\": ", end), parent = figure(row, "\"parent\": ", end);
            int64_t total = figure(row, "\"total\": {\"value\": ", end);
            assert_in_range(id, 1, MOST - 1);
            self[id] = figure(row, "\"self\": {\"value\": ", end);
            assert_true(!parent || rest[parent] >= total); /* parents come first */
            rest[parent] -= total;
            rest[id] = total;
            selfs += self[id];
        }
        assert_int_equal(selfs, truth->all);
        assert_int_equal(rest[0], -truth->all);
        for (size_t i = 1; i < MOST; i++)
            assert_int_equal(rest[i], self[i]);
        free(rest);
        free(self);
        free(json);
        free(truth);
        profile_free(random.sample.profile);
    }
}

/* The stacks of --paths make the whole, whatever is inlined; so do lines, addresses, images, threads and
 * CPUs. */
static void every_view_adds_up(void **state)
{
    (void)state;
    for (uint64_t seed = 300; seed <= 305; seed++) {
        struct random_profile random = make(seed);
        struct truth *truth = find_truth(&random, true, 0);
        for (int by = 0; by < 8; by++) {
            struct view_options options = {.by = (enum view_by)by, .lines = by == 7, .inlines = by == 0};
            if (by >= 6)
                options = (struct view_options){.view = VIEW_PATHS, .lines = by == 7};
            char *json = json_of(&random, options);
            int64_t sum = 0;
            char *rest = rows_of(json);
            for (const char *row; (row = next_row(&rest));)
                sum += figure(row, "\"self\": {\"value\": ", row + strlen(row));
            assert_int_equal(sum, truth->all);
            free(json);
        }
        free(truth);
        profile_free(random.sample.profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(flat_is_true), cmocka_unit_test(graph_is_true),
                                       cmocka_unit_test(tree_adds_up), cmocka_unit_test(every_view_adds_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
