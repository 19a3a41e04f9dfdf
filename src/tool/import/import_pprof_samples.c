/* import_pprof_samples.c - samples to cells, and calls to edges. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_map.h"
#include "import_pprof.h"
#include "import_proto.h"
#include "import_stack.h"

struct labels {
    uint64_t process, thread, origin, call; /* strings */
    int64_t pid, tid;
};

struct sample {
    uint64_t *locations; /* the leaf first */
    size_t count, capacity;
    int64_t values[IMPORT_PPROF_TYPES_MOST];
    struct labels labels;
};

static void note_label(struct import_pprof *pprof, uint64_t key)
{
    for (size_t i = 0; i < pprof->unknown_count; i++)
        if (pprof->unknown_labels[i] == key)
            return;
    if (pprof->unknown_count < IMPORT_PPROF_UNKNOWN_LABELS)
        pprof->unknown_labels[pprof->unknown_count++] = key;
}

static bool read_label(struct import_pprof *pprof, struct import_proto message, struct labels *labels)
{
    uint64_t numbers[4] = {0};
    bool good = import_pprof_numbers(message, numbers, 3);
    const char *key = import_pprof_string(pprof, numbers[1]);
    if (!strcmp(key, "process") || !strcmp(key, "comm"))
        labels->process = numbers[2];
    else if (!strcmp(key, "pid"))
        labels->pid = (int64_t)numbers[3];
    else if (!strcmp(key, "thread"))
        labels->thread = numbers[2];
    else if (!strcmp(key, "tid"))
        labels->tid = (int64_t)numbers[3];
    else if (pprof->from_tally && !strcmp(key, "origin"))
        labels->origin = numbers[2];
    else if (pprof->from_tally && !strcmp(key, "call"))
        labels->call = numbers[2];
    else
        note_label(pprof, numbers[1]);
    return good;
}

static bool read_locations(struct import_pprof *pprof, struct import_proto_field *field,
                           struct sample *sample)
{
    uint64_t id;
    while (import_proto_number(field, &id)) {
        if (!base_array_room(sample->locations, sample->count, sample->capacity)) {
            pprof->no_memory = true;
            return false;
        }
        sample->locations[sample->count++] = id;
    }
    return !field->bytes.corrupt;
}

static bool read_sample(struct import_pprof *pprof, struct import_proto message, struct sample *sample)
{
    struct import_proto_field field;
    size_t values = 0;
    uint64_t value;
    sample->count = 0;
    sample->labels = (struct labels){0};
    memset(sample->values, 0, sizeof sample->values);
    while (import_proto_next(&message, &field)) {
        if (field.number == 1 && !read_locations(pprof, &field, sample))
            return false;
        while (field.number == 2 && values < pprof->type_count && import_proto_number(&field, &value))
            sample->values[values++] = (int64_t)value;
        if (field.number == 3 && field.is_bytes && !read_label(pprof, field.bytes, &sample->labels))
            return false;
    }
    return !message.corrupt && values == pprof->type_count;
}

static uint64_t hash_text(const struct import_pprof *pprof, uint64_t hash, uint64_t string)
{
    const char *text = import_pprof_string(pprof, string);
    return base_hash(hash ^ base_hash_bytes(text, strlen(text)));
}

static uint32_t process_of(struct import_pprof *pprof, const struct labels *labels)
{
    uint64_t key = hash_text(pprof, hash_text(pprof, (uint64_t)labels->pid, labels->process), labels->origin);
    uint32_t process = base_map_find(&pprof->processes, key);
    if (process != BASE_MAP_NONE)
        return process;
    process = profile_process(pprof->profile, (int32_t)labels->pid, 0);
    if (!process || !import_pprof_remember(pprof, &pprof->processes, key, process))
        return 0;
    struct profile_process value = pprof->profile->processes[process];
    value.name = profile_string(pprof->profile, import_pprof_string(pprof, labels->process));
    profile_set_process(pprof->profile, process, &value);
    return process;
}

/* 0: labels say nothing of it. */
static uint32_t thread_of(struct import_pprof *pprof, const struct labels *labels)
{
    if (!labels->process && !labels->pid && !labels->thread && !labels->tid)
        return 0;
    uint32_t process = process_of(pprof, labels);
    uint64_t key = hash_text(pprof, (uint64_t)labels->tid << 32 | process, labels->thread);
    uint32_t thread = base_map_find(&pprof->threads, key);
    if (thread != BASE_MAP_NONE)
        return thread;
    thread = process ? profile_thread(pprof->profile, process, (int32_t)labels->tid) : 0;
    if (!thread || !import_pprof_remember(pprof, &pprof->threads, key, thread)) {
        pprof->no_memory = true;
        return 0;
    }
    profile_set_thread_name(pprof->profile, thread,
                            import_pprof_string(pprof, labels->thread ? labels->thread : labels->process));
    return thread;
}

static uint32_t node_of(struct import_pprof *pprof, const struct sample *sample)
{
    import_stack_begin(&pprof->stack);
    for (size_t i = sample->count; i-- > 0;) {
        const char *mark = import_pprof_mark(pprof, sample->locations[i]);
        if (mark && import_stack_mark(&pprof->stack, mark))
            continue;
        uint32_t address = import_pprof_address(pprof, sample->locations[i], false);
        uint32_t image = address ? pprof->profile->addresses[address].image : 0;
        bool kernel = pprof->profile->images[image].kind == PROFILE_IMAGE_KERNEL;
        import_stack_add(&pprof->stack, address, kernel ? PROFILE_NODE_KERNEL : 0);
    }
    uint32_t node = import_stack_node(&pprof->stack);
    pprof->no_memory |= pprof->stack.failed;
    return node;
}

static int64_t scale_value(int64_t value, int64_t scale)
{
    int64_t product;
    if (__builtin_mul_overflow(value, scale, &product))
        return value < 0 ? INT64_MIN : INT64_MAX;
    return product;
}

static void count_sample(struct import_pprof *pprof, const struct sample *sample)
{
    uint32_t thread = thread_of(pprof, &sample->labels);
    uint32_t node = node_of(pprof, sample);
    for (size_t i = 0; i < pprof->type_count && !pprof->no_memory; i++) {
        const struct import_pprof_type *type = &pprof->types[i];
        int64_t samples = type->samples >= 0 ? sample->values[type->samples] : 0;
        if (type->counter && (sample->values[i] || samples > 0))
            profile_count(pprof->profile, (struct profile_key){node, thread, PROFILE_NO_CPU, type->counter},
                          scale_value(sample->values[i], type->scale), samples > 0 ? (uint64_t)samples : 0);
    }
}

/* Of Tally's exports: a callee and a site. */
static bool pprof_samples_count_calls(struct import_pprof *pprof, const struct sample *sample, int64_t calls)
{
    static const char *const kinds[PROFILE_CALL_KINDS] = {"", "direct", "indirect", "tail", "entry"};
    uint32_t kind = PROFILE_CALL_KINDS;
    while (--kind && !import_pprof_is_text(pprof, sample->labels.call, kinds[kind]))
        ;
    if (sample->count != 2 || !kind || calls < 0)
        return false;
    const char *unknown = import_pprof_mark(pprof, sample->locations[1]);
    uint32_t callee = import_pprof_address(pprof, sample->locations[0], true);
    uint32_t site = unknown && !strcmp(unknown, "[unknown]")
                        ? 0
                        : import_pprof_address(pprof, sample->locations[1], false);
    uint32_t edge = profile_edge(pprof->profile, site, callee, thread_of(pprof, &sample->labels), kind);
    pprof->no_memory |= !edge;
    profile_add_calls(pprof->profile, edge, (uint64_t)calls);
    return true;
}

static bool add_sample(struct import_pprof *pprof, const struct sample *sample)
{
    for (size_t i = 0; i < pprof->type_count; i++)
        if (pprof->types[i].calls && sample->values[i])
            return pprof_samples_count_calls(pprof, sample, sample->values[i]);
    count_sample(pprof, sample);
    return true;
}

int import_pprof_samples(struct import_pprof *pprof, struct import_proto whole, struct base_error *error)
{
    struct import_proto_field field;
    struct sample sample = {0};
    bool good = true;
    while (good && !pprof->no_memory && import_proto_next(&whole, &field))
        if (field.number == IMPORT_PPROF_SAMPLE && field.is_bytes)
            good = read_sample(pprof, field.bytes, &sample) && add_sample(pprof, &sample);
    free(sample.locations);
    return good && !pprof->no_memory ? BASE_OK : import_pprof_fail(pprof, error);
}
