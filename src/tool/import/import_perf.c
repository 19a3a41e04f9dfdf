/* import_perf.c - perf.data, through the very code that records: processes and mappings are followed, stacks
 * are unwound from their copies by our own rows, and names are looked for, as if the records came from rings.
 *
 * What differs is that the processes are gone. Nothing is asked of /proc; images are opened by path and held
 * to the build-ids in the file, or taken from where perf keeps those of its recordings. The kernel's
 * addresses have names only if this is the same kernel, since the same start: its own marker must be where it
 * was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "arch.h"
#include "import_formats.h"
#include "import_perf.h"
#include "import_stack.h"
#include "sample_resolve.h"
#include "sample_stream.h"
#include "symbol.h"
#include "wire_loss.h"

struct replay {
    struct import_perf perf;
    const struct import_options *options;
    struct sample_stream stream;
    struct perf_event_form form;
    struct import_perf_sample sample;
    uint64_t first, last; /* times of samples */
    uint64_t unread;      /* samples that do not fit their event */
    bool same_kernel;     /* its functions can be named */
    bool kernel_seen;
    bool foreign; /* recorded on another architecture */
};

bool import_perf_is(const uint8_t *bytes, size_t size)
{
    return size >= 8 && (!memcmp(bytes, "PERFILE2", 8) || !memcmp(bytes, "2ELIFREP", 8));
}

/* --- counters --- */

/* Events that count ns. */
static bool is_clock(const struct perf_event_attr *attr)
{
    return attr->type == PERF_TYPE_SOFTWARE &&
           (attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK);
}

static void default_name(const struct perf_event_attr *attr, char *name, size_t size)
{
    static const char *const hardware[] = {"cycles",   "instructions",  "cache-references", "cache-misses",
                                           "branches", "branch-misses", "bus-cycles"};
    static const char *const software[] = {"cpu-clock",        "task-clock",     "page-faults",
                                           "context-switches", "cpu-migrations", "minor-faults",
                                           "major-faults"};
    if (attr->type == PERF_TYPE_HARDWARE && attr->config < sizeof hardware / sizeof *hardware)
        snprintf(name, size, "%s", hardware[attr->config]);
    else if (attr->type == PERF_TYPE_SOFTWARE && attr->config < sizeof software / sizeof *software)
        snprintf(name, size, "%s", software[attr->config]);
    else
        snprintf(name, size, "event %u:0x%llx", attr->type, (unsigned long long)attr->config);
}

/* The CPU's clock is the time that Tally itself records; a second one goes by its own name. */
static bool make_counter(struct replay *replay, struct import_perf_event *event)
{
    struct profile *profile = replay->stream.profile;
    char name[128];
    default_name(&event->attr, name, sizeof name);
    event->timed = is_clock(&event->attr);
    const char *time = event->attr.exclude_kernel ? "time.user" : "time.cpu";
    const char *chosen = event->name && *event->name ? event->name : name;
    if (event->timed && !profile_counter_named(profile, time))
        chosen = time;
    event->counter =
        (uint16_t)profile_counter(profile, chosen, event->timed ? "ns" : "events", false, PROFILE_SUM);
    return event->counter;
}

/* Without a period a sample of a clock stands for what its rate says, another for one event. */
static uint64_t sample_weight(const struct import_perf_sample *sample)
{
    const struct perf_event_attr *attr = &sample->event->attr;
    if (sample->period)
        return sample->period < INT64_MAX ? sample->period : INT64_MAX;
    if (sample->event->timed && attr->freq && attr->sample_freq)
        return 1000000000 / attr->sample_freq;
    return 1;
}

/* --- records --- */

/* Without a stack, the interrupted instruction alone. */
static void add_lone_kernel(struct perf_sample *sample, uint64_t *chain)
{
    if (!sample->in_kernel || sample->chain_count)
        return;
    chain[0] = (uint64_t)PERF_CONTEXT_KERNEL;
    chain[1] = sample->ip;
    sample->chain = chain;
    sample->chain_count = 2;
}

static bool on_sample(struct replay *replay, const struct perf_event_header *header)
{
    struct import_perf_sample *sample = &replay->sample;
    uint64_t lone[2];
    if (!import_perf_read_sample(&replay->perf, header, sample)) {
        replay->unread++;
        return true;
    }
    if (!sample->event->counter && !make_counter(replay, sample->event))
        return false;
    if (replay->foreign) {
        sample->sample.registers = NULL;
        sample->sample.stack = NULL;
        sample->sample.stack_asked = 0;
    }
    uint64_t time = sample->sample.time;
    replay->first = time && time < replay->first ? time : replay->first;
    replay->last = time > replay->last ? time : replay->last;
    add_lone_kernel(&sample->sample, lone);
    replay->kernel_seen |= sample->sample.chain_count != 0;
    replay->stream.counter = sample->event->counter;
    replay->stream.sample_value = (int64_t)sample_weight(sample);
    sample_stream_sample(&replay->stream, &sample->sample);
    return true;
}

/* "[kernel.kallsyms]_text" with the marker's address: is it there now? */
static void look_at_kernel(struct replay *replay, const struct perf_mmap *mapping)
{
    const char *marker = strchr(mapping->path, ']'), *name, *module;
    struct symbol_kernel *kernel = NULL;
    struct utsname own;
    uint64_t start;
    if (strncmp(mapping->path, "[kernel.kallsyms]", 17) || !marker || !marker[1] || uname(&own) < 0 ||
        !replay->perf.release || strcmp(own.release, replay->perf.release))
        return;
    if (symbol_kernel_open(NULL, &kernel, NULL) == BASE_OK)
        replay->same_kernel |=
            symbol_kernel_find(kernel, mapping->offset, &name, &module, &start) && start == mapping->offset;
    if (kernel)
        symbol_kernel_close(kernel);
}

static void on_mmap(struct replay *replay, const struct perf_event_header *header, uint64_t time)
{
    struct perf_mmap mapping;
    if (!import_perf_read_mmap(&replay->perf, header, &mapping))
        return;
    if (mapping.pid == UINT32_MAX) {
        look_at_kernel(replay, &mapping);
        return;
    }
    const struct elf_build_id *id = import_perf_build_id(&replay->perf, mapping.path);
    if (!mapping.build_id && id) {
        mapping.build_id = id->bytes;
        mapping.build_id_size = id->size;
    }
    sample_processes_on_mmap(&replay->stream.processes, &mapping, time);
}

static void on_task(struct replay *replay, const struct perf_event_header *header)
{
    struct perf_task task;
    const uint32_t *words = (const uint32_t *)(const void *)(header + 1);
    if (header->size < sizeof *header + 24)
        return;
    task = (struct perf_task){words[0], words[1], words[2], words[3], 0};
    memcpy(&task.time, words + 4, sizeof task.time);
    sample_stream_task(&replay->stream, &task, header->type == PERF_RECORD_EXIT);
}

static void on_lost(struct replay *replay, const struct perf_event_header *header)
{
    uint64_t lost = 0;
    size_t at = header->type == PERF_RECORD_LOST ? 8 : 0; /* behind the event's id */
    if (header->size < sizeof *header + at + sizeof lost)
        return;
    memcpy(&lost, (const uint8_t *)(header + 1) + at, sizeof lost);
    profile_lose(replay->stream.profile, WIRE_LOSS_RING_FULL, lost);
}

static bool on_record(struct replay *replay, const struct perf_event_header *header, uint64_t time)
{
    struct perf_comm comm;
    switch (header->type) {
    case PERF_RECORD_SAMPLE:
        return on_sample(replay, header);
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
        on_mmap(replay, header, time);
        break;
    case PERF_RECORD_COMM:
        if (import_perf_read_comm(&replay->perf, header, &comm))
            sample_processes_on_comm(&replay->stream.processes, &comm, time);
        break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        on_task(replay, header);
        break;
    case PERF_RECORD_LOST:
    case PERF_RECORD_LOST_SAMPLES:
        on_lost(replay, header);
        break;
    case PERF_RECORD_THROTTLE:
        profile_lose(replay->stream.profile, WIRE_LOSS_THROTTLED, 1);
        break;
    default:
        break;
    }
    return true;
}

/* --- names --- */

static const struct elf_image *image_for(void *context, uint32_t profile_image)
{
    const struct sample_images *images = context;
    for (size_t i = 0; i < images->count; i++)
        if (images->items[i].profile_image == profile_image)
            return images->items[i].elf;
    return NULL;
}

/* Of another kernel this machine has no names. */
static void leave_kernel(struct profile *profile)
{
    for (uint32_t i = 1; i < profile->address_count; i++) {
        struct profile_address value = profile->addresses[i];
        if (profile->images[value.image].kind != PROFILE_IMAGE_KERNEL || value.resolution)
            continue;
        value.resolution = PROFILE_NO_SYMBOL;
        value.lines_known = true;
        profile_set_address(profile, i, &value);
    }
}

static int name_all(struct replay *replay, struct base_error *error)
{
    struct profile *profile = replay->stream.profile;
    if (!replay->same_kernel)
        leave_kernel(profile);
    if (!replay->same_kernel && replay->kernel_seen)
        import_stack_notice(profile, "functions of the kernel have no names: it is another one than this "
                                     "machine's, or its symbols are hidden");
    sample_processes_name_generated(&replay->stream.processes);
    struct sample_resolve_options options = {.debuginfod = replay->options->debuginfod,
                                             .lines = true,
                                             .image = image_for,
                                             .context = &replay->stream.images};
    return sample_resolve(profile, &options, error);
}

/* --- what was recorded --- */

static void set_text(struct profile *profile, const char *key, const char *value)
{
    if (value && *value)
        profile_set_meta(profile, key, value);
}

static void describe_rate(const struct replay *replay)
{
    for (size_t i = 0; i < replay->perf.event_count; i++) {
        const struct import_perf_event *event = &replay->perf.events[i];
        const struct perf_event_attr *attr = &event->attr;
        double rate = attr->freq                ? (double)attr->sample_freq
                      : attr->sample_period > 0 ? 1e9 / (double)attr->sample_period
                                                : 0;
        if (event->counter && event->timed && rate > 0) {
            profile_set_metaf(replay->stream.profile, "rate_hz", "%.6g", rate);
            return;
        }
    }
}

static void perf_report(const struct replay *replay)
{
    struct profile *profile = replay->stream.profile;
    const struct import_perf *perf = &replay->perf;
    if (perf->cut)
        import_stack_notice(profile, "the file is truncated, or perf did not end it: there is what it has");
    if (perf->corrupt)
        import_stack_notice(profile, "the file is corrupt: there is what came before that");
    if (perf->too_large)
        import_stack_notice(profile, "the file unpacks to more than is taken: the rest was left out");
    if (replay->unread)
        import_stack_notice(profile, "%llu samples do not fit what the file says of them, and were left out",
                            (unsigned long long)replay->unread);
    if (perf->cut || perf->corrupt || perf->too_large || replay->unread)
        import_stack_partial(profile, "the file is not whole");
    if (replay->foreign)
        import_stack_notice(profile, "recorded on %s: copies of stacks cannot be unwound here",
                            perf->machine);
}

static void perf_describe(const struct replay *replay)
{
    struct profile *profile = replay->stream.profile;
    const struct import_perf *perf = &replay->perf;
    set_text(profile, "command", perf->command);
    set_text(profile, "hostname", perf->hostname);
    set_text(profile, "kernel", perf->release);
    set_text(profile, "machine", perf->machine);
    if (replay->last > replay->first)
        profile_set_metaf(profile, "duration_ns", "%llu", (unsigned long long)(replay->last - replay->first));
    describe_rate(replay);
    perf_report(replay);
}

/* --- all of it --- */

static uint64_t first_sample(struct import_perf *perf)
{
    for (size_t i = 0; i < perf->place_count; i++)
        if (import_perf_record(perf, &perf->places[i])->type == PERF_RECORD_SAMPLE)
            return perf->places[i].time;
    return 0;
}

/* Where perf keeps what it recorded. */
static void find_store(struct sample_images *images)
{
    const char *home = getenv("HOME");
    if (home && strlen(home) + 8 < sizeof images->store)
        snprintf(images->store, sizeof images->store, "%s/.debug", home);
}

static int replay_all(struct replay *replay, struct base_error *error)
{
    struct import_perf *perf = &replay->perf;
    int result = sample_stream_init(&replay->stream, error);
    if (result < 0)
        return result;
    find_store(&replay->stream.images);
    for (size_t i = 0; i < perf->place_count; i++)
        if (!on_record(replay, import_perf_record(perf, &perf->places[i]), perf->places[i].time))
            return base_fail(error, BASE_ENOMEM, "out of memory");
    perf_describe(replay);
    return name_all(replay, error);
}

int import_perf(const uint8_t *bytes, size_t size, const struct import_options *options,
                struct profile *profile, struct base_error *error)
{
    struct replay *replay = calloc(1, sizeof *replay);
    if (!replay)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = import_perf_open(bytes, size, &replay->perf, error);
    if (result == BASE_OK) {
        const char *machine = replay->perf.machine;
        replay->foreign = machine && strcmp(machine, arch_host()->name) != 0;
        replay->options = options;
        replay->first = UINT64_MAX;
        replay->form = (struct perf_event_form){.stacks = PERF_STACKS_FULL};
        replay->stream = (struct sample_stream){.profile = profile,
                                                .form = &replay->form,
                                                .follow = true,
                                                .replayed = true,
                                                .start_ns = first_sample(&replay->perf)};
        result = replay_all(replay, error);
        sample_stream_free(&replay->stream);
    }
    import_perf_close(&replay->perf);
    free(replay);
    return result;
}
