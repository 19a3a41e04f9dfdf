/* bench_replay: what a long or a varied recording costs in memory and file, without taking as long.
 *
 *     bench_replay hour  OUTPUT COMMAND    an hour at 999 Hz on 16 busy threads
 *     bench_replay nodes OUTPUT COMMAND    a tree of 1,000,000 distinct nodes
 *
 * COMMAND (for sh) is sampled while it runs, and its raw records are kept in a file's pages, so that they do
 * not count as memory. "hour" sends its samples again and again, with the time moving on and 16 thread
 * numbers, through the code that a recording runs (sample_stream: unwinding, tree, cells), writing what
 * changed as often as a recording does. "nodes" varies the captured stacks below a random depth until the
 * tree is as large as wanted. Prints "name value unit" lines. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"
#include "perf_time.h"
#include "record_launch.h"
#include "sample_stream.h"
#include "store.h"

enum { RATE = 999, THREADS = 16, HOUR_S = 3600, NODES = 1000000 };
static const size_t CAPTURE_LIMIT = (size_t)1 << 30;

struct capture {
    uint8_t *bytes; /* records back to back; a shared mapping of a deleted file */
    size_t size;
    struct perf_event_form form;
    uint64_t samples;
};

static _Noreturn void fail(const char *what, const struct base_error *error)
{
    fprintf(stderr, "bench_replay: %s: %s\n", what, error && error->text[0] ? error->text : strerror(errno));
    exit(1);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- capturing --- */

static void map_capture(struct capture *capture, const char *output)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.capture", output);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)CAPTURE_LIMIT))
        fail(path, NULL);
    unlink(path);
    capture->bytes = mmap(NULL, CAPTURE_LIMIT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (capture->bytes == MAP_FAILED)
        fail("mmap", NULL);
}

static void keep_records(struct capture *capture, struct perf_rings *rings, uint64_t horizon)
{
    const struct perf_event_header *header;
    uint64_t time;
    perf_rings_refresh(rings);
    while ((header = perf_rings_next(rings, horizon, &time))) {
        if (capture->size + header->size <= CAPTURE_LIMIT) {
            memcpy(capture->bytes + capture->size, header, header->size);
            capture->size += header->size;
            capture->samples += header->type == PERF_RECORD_SAMPLE;
        }
        perf_rings_pop(rings);
    }
}

static pid_t start_command(struct perf_time *time, const char *command)
{
    struct base_error error = {0};
    struct record_launch launch;
    struct record_launch_inherited inherited = {.descriptors = time->descriptors, .nice = 0};
    char shell[] = "sh", option[] = "-c";
    char *argv[] = {shell, option, (char *)(uintptr_t)command, NULL};
    sigemptyset(&inherited.signals);
    if (record_launch_prepare(&launch, argv, &inherited, &error) < 0 ||
        perf_time_open_child(time, launch.pid, &error) < 0 || record_launch_go(&launch, "sh", &error) < 0)
        fail("cannot start the command", &error);
    return launch.pid;
}

static void take_capture(struct capture *capture, const char *command, const char *output)
{
    struct base_error error = {0};
    struct perf_rings rings = {0};
    struct perf_time time = {.rate_hz = RATE,
                             .form = {.want_kernel_time = true, .inherit = true, .stack_copy = 16384}};
    map_capture(capture, output);
    if (perf_time_init(&time, &rings, NULL, &error) < 0)
        fail("perf_event", &error);
    pid_t pid = start_command(&time, command);
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        usleep(20000);
        keep_records(capture, &rings, clock_ns(CLOCK_MONOTONIC) - 20000000);
    }
    perf_time_disable(&time);
    keep_records(capture, &rings, UINT64_MAX - 1);
    capture->form = time.form;
    perf_time_free(&time);
    perf_rings_free(&rings);
    if (!capture->samples)
        fail("no samples were captured", &(struct base_error){"the command used no CPU time"});
}

static const struct perf_event_header *record_at(const struct capture *capture, size_t at)
{
    return (const struct perf_event_header *)(const void *)(capture->bytes + at);
}

/* --- memory --- */

static uint64_t anonymous_kb(void)
{
    char line[256];
    unsigned long kb = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "RssAnon: %lu kB", &kb) == 1)
            break;
    }
    if (file)
        fclose(file);
    return kb;
}

static void print_figure(const char *mode, const char *name, double value, const char *unit)
{
    printf("%s_%s %.1f %s\n", mode, name, value, unit);
}

static void print_end(const char *mode, struct store *store, struct profile *profile, uint64_t peak_kb,
                      uint64_t start_cpu)
{
    struct base_error error = {0};
    uint64_t size = store_size(store);
    if (store_close(store, profile, false, &error) < 0)
        fail("profile", &error);
    print_figure(mode, "memory", (double)peak_kb / 1000, "MB");
    print_figure(mode, "file", (double)size / 1e6, "MB");
    print_figure(mode, "nodes", profile->live_nodes, "nodes");
    print_figure(mode, "cpu", (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu) / 1e9, "s");
}

/* --- an hour on 16 threads --- */

static struct sample_stream new_stream(const struct capture *capture, struct profile *profile)
{
    struct base_error error = {0};
    struct sample_stream stream = {
        .profile = profile, .form = &capture->form, .follow = true, .sample_value = 1000000000 / RATE};
    stream.counter = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    if (sample_stream_init(&stream, &error) < 0)
        fail("stream", &error);
    return stream;
}

/* pid and tid stand together behind the identifier and the address of a sample; the time behind them. */
static void send_again(struct sample_stream *stream, uint8_t *record, uint32_t thread, uint64_t time)
{
    uint32_t pid, tid;
    memcpy(&pid, record + 24, sizeof pid);
    tid = pid * THREADS + thread;
    memcpy(record + 28, &tid, sizeof tid);
    memcpy(record + 32, &time, sizeof time);
    sample_stream_record(stream, (const struct perf_event_header *)(const void *)record, time);
}

static void replay_hour(const struct capture *capture, const char *output)
{
    const char *mode = "hour";
    struct base_error error = {0};
    struct profile *profile = profile_new();
    struct store *store;
    uint8_t *record = malloc(1 << 16);
    if (!profile || !record || store_create(output, &store, &error) < 0)
        fail(output, &error);
    struct sample_stream stream = new_stream(capture, profile);
    uint64_t wanted = (uint64_t)RATE * HOUR_S * THREADS, sent = 0, time = 0, peak = 0;
    uint64_t start_cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (size_t at = 0; at < capture->size; at += record_at(capture, at)->size) {
        const struct perf_event_header *header = record_at(capture, at);
        if (header->type == PERF_RECORD_SAMPLE)
            memcpy(&time, (const uint8_t *)header + 32, sizeof time);
        sample_stream_record(&stream, header, time);
    }
    while (sent < wanted) {
        for (size_t at = 0; at < capture->size && sent < wanted; at += record_at(capture, at)->size) {
            const struct perf_event_header *header = record_at(capture, at);
            if (header->type != PERF_RECORD_SAMPLE)
                continue;
            memcpy(record, header, header->size);
            for (uint32_t thread = 0; thread < THREADS; thread++, sent++)
                send_again(&stream, record, thread, time++);
            if (sent % (RATE * THREADS / 2) < THREADS && store_flush(store, profile, &error) < 0)
                fail("flush", &error);
        }
        uint64_t now = anonymous_kb();
        peak = now > peak ? now : peak;
    }
    print_figure(mode, "samples", (double)stream.samples, "samples");
    sample_stream_free(&stream);
    free(record);
    print_end(mode, store, profile, peak, start_cpu);
    profile_free(profile);
}

/* --- a million nodes --- */

static size_t stack_of(const struct profile *profile, uint32_t leaf, uint32_t *frames, size_t max)
{
    size_t count = 0;
    for (uint32_t node = leaf; node && count < max; node = profile->nodes[node].parent)
        frames[count++] = node;
    return count;
}

/* The stack of `leaf` with the frames below a random depth moved by `variant` bytes. */
static void add_variant(const struct profile *from, uint32_t leaf, struct profile *to, uint64_t variant,
                        const uint32_t *threads_and_counter)
{
    uint32_t frames[1024], addresses[1024], flags[1024];
    size_t count = stack_of(from, leaf, frames, 1024);
    size_t kept = count ? base_hash(variant * 31 + leaf) % count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct profile_node *node = &from->nodes[frames[count - 1 - i]];
        const struct profile_address *address = &from->addresses[node->address];
        const struct profile_image *image = &from->images[address->image];
        uint32_t same = profile_image(to, image->kind, profile_text(from, image->path), "", 0);
        addresses[i] = profile_address(to, same, address->address + (i >= kept ? variant : 0));
        flags[i] = node->flags;
    }
    uint32_t node = profile_stack(to, addresses, flags, count);
    profile_count(to, (struct profile_key){node, threads_and_counter[0], 0, (uint16_t)threads_and_counter[1]},
                  1000000, 1);
}

static void replay_nodes(const struct capture *capture, const char *output)
{
    const char *mode = "nodes";
    struct base_error error = {0};
    struct profile *seed = profile_new(), *profile = profile_new();
    struct store *store;
    uint64_t time = 0, peak = 0, start_cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID), added = 0;
    if (!seed || !profile || store_create(output, &store, &error) < 0)
        fail(output, &error);
    profile->max_nodes = 2 * NODES;
    struct sample_stream stream = new_stream(capture, seed);
    for (size_t at = 0; at < capture->size; at += record_at(capture, at)->size)
        sample_stream_record(&stream, record_at(capture, at), time++);
    sample_stream_free(&stream);
    uint32_t process = profile_process(profile, 1, 0);
    uint32_t where[2] = {profile_thread(profile, process, 1),
                         profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM)};
    for (uint64_t variant = 0; profile->live_nodes < NODES; variant++) {
        for (size_t i = 0; i < seed->cell_count && profile->live_nodes < NODES; i++, added++) {
            add_variant(seed, seed->cells[i].node, profile, variant, where);
            if (added % 1000 == 0 && store_flush(store, profile, &error) < 0)
                fail("flush", &error);
        }
        uint64_t now = anonymous_kb();
        peak = now > peak ? now : peak;
    }
    print_figure(mode, "samples", (double)added, "samples");
    profile_free(seed);
    print_end(mode, store, profile, peak, start_cpu);
    profile_free(profile);
}

int main(int argc, char **argv)
{
    struct capture capture = {0};
    bool hour = argc == 4 && !strcmp(argv[1], "hour"), nodes = argc == 4 && !strcmp(argv[1], "nodes");
    if (!hour && !nodes) {
        fprintf(stderr, "usage: bench_replay hour|nodes OUTPUT COMMAND\n");
        return 2;
    }
    take_capture(&capture, argv[3], argv[2]);
    print_figure(argv[1], "captured", (double)capture.samples, "samples");
    if (hour)
        replay_hour(&capture, argv[2]);
    else
        replay_nodes(&capture, argv[2]);
    return 0;
}
