#include "sample_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PERIOD = 1001001 };

struct sample_profile sample_profile_new(void)
{
    struct sample_profile sample = {.profile = profile_new()};
    struct profile *profile = sample.profile;
    assert_non_null(profile);
    sample.program = profile_image(profile, PROFILE_IMAGE_FILE, "/usr/bin/sqlite3", "aa", 0);
    sample.library = profile_image(profile, PROFILE_IMAGE_FILE, "/usr/lib/libsqlite3.so.0", "bb", 0);
    sample.counter = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    sample.process = profile_process(profile, 100, 0);
    struct profile_process process = profile->processes[sample.process];
    process.name = profile_string(profile, "sqlite3");
    process.command = profile_string(profile, "sqlite3 bench.db");
    process.cgroup = profile_string(profile, "/user.slice/user-1000.slice/session-2.scope");
    profile_set_process(profile, sample.process, &process);
    for (int i = 0; i < 2; i++) {
        sample.threads[i] = profile_thread(profile, sample.process, 100 + i);
        profile_set_thread_name(profile, sample.threads[i], i ? "worker" : "sqlite3");
    }
    return sample;
}

uint32_t sample_profile_function(struct sample_profile *sample, uint32_t image, const char *name,
                                 uint64_t start, const char *file, uint32_t line)
{
    uint32_t index = profile_address(sample->profile, image, start + 8);
    struct profile_address address = sample->profile->addresses[index];
    address.function = profile_function(sample->profile, image, name, start, start + 64);
    address.file = profile_string(sample->profile, file);
    address.line = line;
    address.resolution = PROFILE_RESOLVED;
    address.lines_known = true;
    profile_set_address(sample->profile, index, &address);
    return index;
}

void sample_profile_inline(struct sample_profile *sample, uint32_t index, const char *name, const char *file,
                           uint32_t line)
{
    struct profile_address address = sample->profile->addresses[index];
    address.inlined = profile_inlined(sample->profile, name, file, line, address.inlined);
    profile_set_address(sample->profile, index, &address);
}

void sample_profile_count_flags(struct sample_profile *sample, size_t thread, uint64_t samples,
                                const uint32_t *stack, const uint32_t *flags)
{
    size_t depth = 0;
    while (stack[depth])
        depth++;
    uint32_t leaf = profile_stack(sample->profile, stack, flags, depth);
    profile_count(sample->profile,
                  (struct profile_key){leaf, sample->threads[thread], (uint16_t)thread, sample->counter},
                  (int64_t)samples * PERIOD, samples);
}

void sample_profile_count(struct sample_profile *sample, size_t thread, uint64_t samples,
                          const uint32_t *stack)
{
    size_t depth = 0;
    while (stack[depth])
        depth++;
    uint32_t *flags = calloc(depth + 1, sizeof *flags);
    assert_non_null(flags);
    sample_profile_count_flags(sample, thread, samples, stack, flags);
    free(flags);
}

void sample_profile_call(struct sample_profile *sample, size_t thread, uint32_t site, uint32_t callee,
                         uint32_t kind, uint64_t calls)
{
    struct profile *profile = sample->profile;
    struct profile_address address = profile->addresses[callee];
    uint32_t entry = profile_address(profile, address.image, profile->functions[address.function].start);
    address.inlined = 0;
    profile_set_address(profile, entry, &address);
    uint32_t edge = profile_edge(profile, site, entry, sample->threads[thread], kind);
    assert_true(edge);
    profile_add_calls(profile, edge, calls);
}

static void describe(struct profile *profile)
{
    profile_set_meta(profile, "command", "sqlite3 bench.db");
    profile_set_meta(profile, "hostname", "host");
    profile_set_meta(profile, "kernel", "6.18.2");
    profile_set_meta(profile, "start_time", "1795342440");
    profile_set_meta(profile, "duration_ns", "2310000000");
    profile_set_meta(profile, "rate_hz", "999");
    profile_set_meta(profile, "engine", "perf_event cpu-clock, user and kernel time");
    profile_set_meta(profile, "overhead_tool_cpu_ns", "21000000");
    profile_set_meta(profile, "target_cpu_ns", "2301000000");
    profile_set_meta(profile, "complete", "1");
    profile_lose(profile, 1, 12);
    profile_lose(profile, 3, 57);
}

static struct sample_profile make(bool counted)
{
    struct sample_profile s = sample_profile_new();
    uint32_t start = sample_profile_function(&s, s.program, "_start", 0x100, NULL, 0);
    uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x200, "/src/shell.c", 100);
    uint32_t alarm = sample_profile_function(&s, s.program, "on_alarm", 0x400, "/src/shell.c", 7);
    uint32_t exec = sample_profile_function(&s, s.library, "sqlite3VdbeExec", 0x1000, "/src/vdbe.c", 800);
    uint32_t next = sample_profile_function(&s, s.library, "sqlite3BtreeNext", 0x2000, "/src/btree.c", 5000);
    uint32_t fib = sample_profile_function(&s, s.library, "fib", 0x3000, "/src/fib.c", 3);
    uint32_t map = sample_profile_function(
        &s, s.library,
        "std::__detail::_Map_base<std::basic_string<char, std::char_traits<char> >, int>::operator[]("
        "std::basic_string<char, std::char_traits<char> > const&)",
        0x5000, "/src/map.h", 3);
    uint32_t bare = profile_address(s.profile, s.library, 0xdead);
    sample_profile_inline(&s, map, "hash_bytes", "/usr/include/hash.h", 12);
    SAMPLE(&s, 0, 800, start, mainly, exec);
    SAMPLE(&s, 0, 500, start, mainly, exec, next);
    SAMPLE(&s, 0, 300, start, mainly, fib, fib, fib, fib);
    SAMPLE(&s, 1, 200, start, mainly, exec, map);
    SAMPLE(&s, 1, 100, start, mainly, bare);
    SAMPLE(&s, 0, 4, start, mainly, exec, alarm);
    SAMPLE(&s, 0, 150, start, mainly, exec, fib, exec);
    SAMPLE(&s, 0, 3, start, mainly, alarm);
    const uint32_t interrupted[] = {0, 0, PROFILE_NODE_SIGNAL, 0}, cut[] = {PROFILE_NODE_CUT, 0},
                   by_frame_pointer[] = {0, PROFILE_NODE_FRAME_POINTER, 0};
    sample_profile_count_flags(&s, 0, 90, (const uint32_t[]){start, mainly, next, alarm, 0}, interrupted);
    sample_profile_count_flags(&s, 0, 57, (const uint32_t[]){next, alarm, 0}, cut);
    sample_profile_count_flags(&s, 0, 30, (const uint32_t[]){start, alarm, fib, 0}, by_frame_pointer);
    describe(s.profile);
    if (!counted)
        return s;
    sample_profile_call(&s, 0, mainly, exec, PROFILE_CALL_DIRECT, 1000);
    sample_profile_call(&s, 1, mainly, exec, PROFILE_CALL_DIRECT, 204);
    sample_profile_call(&s, 0, exec, next, PROFILE_CALL_DIRECT, 18400000);
    sample_profile_call(&s, 0, mainly, fib, PROFILE_CALL_DIRECT, 10);
    sample_profile_call(&s, 0, fib, fib, PROFILE_CALL_DIRECT, 5000);
    sample_profile_call(&s, 0, exec, fib, PROFILE_CALL_INDIRECT, 150);
    sample_profile_call(&s, 0, fib, exec, PROFILE_CALL_DIRECT, 150);
    sample_profile_call(&s, 1, exec, map, PROFILE_CALL_TAIL, 300);
    sample_profile_call(&s, 0, 0, alarm, PROFILE_CALL_ENTRY, 7);
    return s;
}

struct sample_profile sample_profile_full(void)
{
    return make(false);
}

struct sample_profile sample_profile_counted(void)
{
    return make(true);
}

static void cover_functions(struct sample_profile *sample)
{
    struct profile *profile = sample->profile;
    for (unsigned i = 0; i < 24; i++) {
        char name[32];
        snprintf(name, sizeof name, "handler_%u", i);
        profile_set_uncovered(profile, sample->program, 0x5000 + i, i % 6 ? name : NULL,
                              i % 3 ? "functions too short for a jump" : "jumps that read the flags");
    }
    profile_set_uncovered(profile, sample->library, 0x9000, "sqlite3_größe(int)", "something else");
}

void sample_profile_cover(struct sample_profile *sample)
{
    struct profile *profile = sample->profile;
    profile_set_coverage(profile, sample->program, PROFILE_COVERAGE_SITES, 1000, 999);
    profile_set_coverage(profile, sample->program, PROFILE_COVERAGE_INDIRECT, 10, 10);
    profile_set_coverage(profile, sample->program, PROFILE_COVERAGE_FUNCTIONS, 124, 100);
    profile_set_coverage(profile, sample->program, PROFILE_COVERAGE_TAKEN, 30, 14);
    profile_set_coverage(profile, sample->library, PROFILE_COVERAGE_SITES, 12000000, 11999999);
    profile_set_coverage(profile, sample->library, PROFILE_COVERAGE_FUNCTIONS, 1, 0);
    profile_set_left(profile, sample->program, 7, "jumps that read the flags", 1);
    profile_set_left(profile, sample->program, 30, "functions too short for a jump", 16);
    profile_set_left(profile, sample->program, 31, "nothing of this kind", 5);
    profile_set_left(profile, sample->program, 31, "nothing of this kind", 0);
    cover_functions(sample);
    profile_set_meta(profile, "calls_form", "lock");
    profile_set_meta(profile, "overhead_stub_samples", "22");
    profile_set_meta(profile, "overhead_signals", "1");
    profile_set_meta(profile, "overhead_signal_ns", "45000");
    profile_set_meta(profile, "overhead_births", "1");
    profile_set_meta(profile, "overhead_target_memory", "65536");
}

char *sample_profile_report(const struct profile *profile, const struct view_options *options)
{
    return sample_profile_report_by(report_print, profile, options);
}

char *sample_profile_report_by(sample_profile_printer *print, const struct profile *profile,
                               const struct view_options *options)
{
    struct base_text out = {0};
    struct base_error error = {0};
    int code = print(profile, options, &out, &error);
    if (code)
        print_error("%s\n", error.text);
    assert_int_equal(code, 0);
    char *text = base_text_detach(&out);
    assert_non_null(text);
    return text;
}
