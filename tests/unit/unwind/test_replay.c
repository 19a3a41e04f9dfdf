/* test_replay.c - stored moments of real programs (tests/captures/README.md), walked again.
 *
 * All captures share one cache, as the processes that a collector watches do; each is a generation of its
 * own. Two builds of one program lie at the same addresses, as code does after dlclose and dlopen. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rows_blob.h"

#define MOST          64
#define MAPPINGS_MOST 32
#define WORDS_MOST    4096

struct mapping {
    uint64_t start, end, bias;
    uint32_t cookie;
    struct rows_blob_row rows[ROWS_BLOB_ROWS];
    uint64_t ends[ROWS_BLOB_ROWS];
    unsigned row_count;
};

struct capture {
    struct unwind_space space;
    struct unwind_memory memory;
    struct arch_registers registers;
    uint64_t stack[WORDS_MOST], addresses[MOST], words[MOST];
    size_t stack_count, word_count, frame_count;
    struct mapping mappings[MAPPINGS_MOST];
    unsigned mapping_count;
    struct unwind_frame frames[MOST];
    int end;
};

/* A capture's rules are few and far apart: they are looked up one by one, each as a blob of its own would. */
struct lookup {
    struct rows_blob blob;
    struct unwind_rows rows;
};

static struct lookup lookup; /* what `find` answered last: rows must outlive the call */

/* A blob for the 64 KiB page of `address` with the capture's rules in it. */
static const struct unwind_rows *make_rows(const struct mapping *mapping, uint16_t machine, uint64_t address)
{
    uint64_t base = address & ~UINT64_C(0xffff);
    struct rows_blob_row rows[ROWS_BLOB_ROWS] = {{base, {.cfa_kind = WIRE_CFA_NONE}}};
    unsigned count = 1;
    for (unsigned i = 0; i < mapping->row_count; i++) {
        uint64_t start = mapping->rows[i].address, end = mapping->ends[i];
        if (address < start || address >= end)
            continue;
        count = start <= base ? 0 : 1;
        rows[count++] = (struct rows_blob_row){start <= base ? base : start, mapping->rows[i].rule};
        if (end - base <= 0xffff)
            rows[count++] = (struct rows_blob_row){end, {.cfa_kind = WIRE_CFA_NONE}};
        break;
    }
    rows_blob_make(&lookup.blob, machine, base, 1, rows, count);
    assert_true(unwind_rows_open(&lookup.rows, &lookup.blob, lookup.blob.header.byte_count));
    return &lookup.rows;
}

static bool find(void *context, uint64_t pc, struct unwind_place *place)
{
    const struct capture *capture = context;
    for (unsigned i = 0; i < capture->mapping_count; i++) {
        const struct mapping *mapping = &capture->mappings[i];
        if (pc < mapping->start || pc >= mapping->end)
            continue;
        *place = (struct unwind_place){make_rows(mapping, capture->space.arch->machine, pc - mapping->bias),
                                       mapping->bias, mapping->cookie};
        return true;
    }
    return false;
}

static bool read_outside(void *context, uint64_t address, uint64_t *word)
{
    const struct capture *capture = context;
    for (size_t i = 0; i < capture->word_count; i++) {
        if (capture->addresses[i] == address) {
            *word = capture->words[i];
            return true;
        }
    }
    return false;
}

static void read_stack(struct capture *capture, FILE *file, uint64_t low)
{
    uint64_t word;
    while (capture->stack_count < WORDS_MOST && fscanf(file, "%lx", &word) == 1)
        capture->stack[capture->stack_count++] = word;
    assert_int_equal(fscanf(file, " %*[.]"), 0);
    capture->memory = (struct unwind_memory){low, low + capture->stack_count * 8, (uint8_t *)capture->stack,
                                             read_outside, capture};
}

static void read_rule(struct capture *capture, uint32_t cookie, uint64_t start, uint64_t end,
                      const char *text)
{
    struct wire_rule rule;
    for (unsigned i = 0; i < sizeof rule; i++) {
        unsigned byte;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
        ((uint8_t *)&rule)[i] = (uint8_t)byte;
    }
    for (unsigned i = 0; i < capture->mapping_count; i++) {
        struct mapping *mapping = &capture->mappings[i];
        if (mapping->cookie != cookie || mapping->row_count == ROWS_BLOB_ROWS)
            continue;
        mapping->ends[mapping->row_count] = end;
        mapping->rows[mapping->row_count++] = (struct rows_blob_row){start, rule};
    }
}

/* One line that is not a comment; false at the end. */
static bool read_fact(struct capture *capture, FILE *file)
{
    char what[16], text[40];
    uint64_t a, b, c;
    uint32_t number, flags;
    if (fscanf(file, " %15s", what) != 1)
        return false;
    if (what[0] == '#') {
        assert_int_equal(fscanf(file, "%*[^\n]"), 0);
    } else if (strcmp(what, "machine") == 0 && fscanf(file, "%lx", &a) == 1) {
        capture->space.arch = arch_of_machine((uint16_t)a);
        assert_non_null(capture->space.arch);
    } else if (strcmp(what, "register") == 0 && fscanf(file, "%u %lx", &number, &a) == 2) {
        assert_true(number < ARCH_REGISTERS);
        capture->registers.value[number] = a;
        capture->registers.valid |= UINT64_C(1) << number;
    } else if (strcmp(what, "stack") == 0 && fscanf(file, "%lx", &a) == 1) {
        read_stack(capture, file, a);
    } else if (strcmp(what, "word") == 0 && fscanf(file, "%lx %lx", &a, &b) == 2) {
        assert_true(capture->word_count < MOST);
        capture->addresses[capture->word_count] = a;
        capture->words[capture->word_count++] = b;
    } else if (strcmp(what, "mapping") == 0 && fscanf(file, "%lx %lx %lx %u %*s", &a, &b, &c, &number) == 4) {
        assert_true(capture->mapping_count < MAPPINGS_MOST);
        capture->mappings[capture->mapping_count++] =
            (struct mapping){.start = a, .end = b, .bias = c, .cookie = number};
    } else if (strcmp(what, "rule") == 0 && fscanf(file, "%u %lx %lx %39s", &number, &a, &b, text) == 4) {
        read_rule(capture, number, a, b, text);
    } else if (strcmp(what, "frame") == 0 && fscanf(file, "%lx %u %u", &a, &number, &flags) == 3) {
        assert_true(capture->frame_count < MOST);
        capture->frames[capture->frame_count++] = (struct unwind_frame){a, number, flags};
    } else {
        assert_string_equal(what, "end");
        assert_int_equal(fscanf(file, "%d", &capture->end), 1);
    }
    return true;
}

static struct capture *load(const char *name)
{
    char path[512];
    struct capture *capture = calloc(1, sizeof *capture);
    snprintf(path, sizeof path, "%s/%s", CAPTURES, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (read_fact(capture, file))
        continue;
    fclose(file);
    capture->space.find = find;
    capture->space.context = capture;
    capture->space.frame_pointers = true; /* as make_capture walked */
    return capture;
}

static bool replays(struct capture *capture, struct unwind_cache *cache, uint32_t generation)
{
    struct unwind_frame frames[MOST];
    capture->space.generation = generation;
    struct unwind_result result =
        unwind_walk(&capture->space, &capture->memory, &capture->registers, cache, frames, MOST);
    return (int)result.end == capture->end && result.count == capture->frame_count &&
           memcmp(frames, capture->frames, result.count * sizeof frames[0]) == 0;
}

static void every_capture_replays(void **state)
{
    struct unwind_cache *cache = calloc(1, unwind_cache_size());
    struct capture *captures[MOST];
    unsigned count = 0;
    (void)state;
    DIR *directory = opendir(CAPTURES);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (strstr(entry->d_name, ".capture") != NULL && count < MOST)
            captures[count++] = load(entry->d_name);
    closedir(directory);
    assert_true(count >= 10);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < count; i++) {
            assert_true(replays(captures[i], NULL, 0));
            assert_true(
                replays(captures[i], cache, 100 * round + i + 1)); /* cold: another process' entries */
            assert_true(replays(captures[i], cache, 100 * round + i + 1)); /* warm */
        }
    for (unsigned i = 0; i < count; i++)
        free(captures[i]);
    free(cache);
}

static void code_at_a_reused_address_needs_a_new_generation(void **state)
{
    struct unwind_cache *cache = calloc(1, unwind_cache_size());
    struct capture *before = load("o1-deep.capture"), *after = load("o2-deep.capture");
    (void)state;
    assert_true(replays(before, cache, 1));
    assert_true(replays(after, cache, 2));
    assert_true(replays(before, cache, 3));
    free(before);
    free(after);
    free(cache);
}

/* Every shorter copy of the stack gives the first frames and then UNWIND_CUT. */
static void a_cut_copy_gives_the_first_frames(void **state)
{
    struct capture *capture = load("o2-deep.capture");
    (void)state;
    const uint64_t high = capture->memory.high;
    size_t last = 0;
    for (capture->memory.high = capture->memory.low; capture->memory.high < high; capture->memory.high++) {
        struct unwind_frame frames[MOST];
        struct unwind_result result =
            unwind_walk(&capture->space, &capture->memory, &capture->registers, NULL, frames, MOST);
        if (result.end == UNWIND_OUTERMOST)
            continue; /* the last word read is not the stack's last */
        assert_int_equal(result.end, UNWIND_CUT);
        assert_true(result.count >= last && result.count < capture->frame_count);
        assert_memory_equal(frames, capture->frames, result.count * sizeof frames[0]);
        last = result.count;
    }
    assert_true(last + 2 >= capture->frame_count);
    free(capture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_capture_replays),
        cmocka_unit_test(code_at_a_reused_address_needs_a_new_generation),
        cmocka_unit_test(a_cut_copy_gives_the_first_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
