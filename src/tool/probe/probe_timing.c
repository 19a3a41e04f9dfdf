#include "probe_timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "base_array.h"
#include "base_clock.h"
#include "proc_status.h"

enum {
    KEPT_MOST = 64, /* tables of processes that have ended */
    TRIES = 20,     /* to read two clocks at one moment */
    FIXED_NS =
        10000000, /* two readings that far apart, each off by some 100 ns, give a tick to a ten thousandth */
};

struct probe_timing_table {
    pid_t pid;
    const struct shared_file *file; /* NULL: it is gone. Its mapping moves (shared_file_outlives) */
    uint32_t region;
    uint64_t *returns; /* a copy, once the file is gone, */
    uint64_t start;    /* and of the blocks */
};

/* The reading in which the least time passed between those of the ticks: the reading thread may be
 * interrupted. */
static struct probe_timing_moment read_clocks(void)
{
    struct probe_timing_moment best = {0, 0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = arch_host_ticks(), ns = base_clock_now(), width = arch_host_ticks() - before;
        if (width >= least)
            continue;
        least = width;
        best = (struct probe_timing_moment){before + width / 2, ns};
    }
    return best;
}

/* The kernel has looked at the counter, on this machine and below it: its clocks that are made of it are
 * good. */
static bool clock_is_ticks(void)
{
    char line[64] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (file) {
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
        fclose(file);
    }
    return !strcmp(line, "tsc\n") || !strcmp(line, "kvm-clock\n") || !strncmp(line, "hyperv_clocksource", 18);
}

int probe_timing_begin(struct probe_timing *timing, bool clock, struct base_error *error)
{
    *timing = (struct probe_timing){.start = read_clocks()};
    if (clock && !clock_is_ticks())
        return base_fail(error, BASE_EUNSUPPORTED,
                         "functions are timed by the processor's time-stamp counter, which this kernel does "
                         "not take for a clock (current_clocksource)");
    return BASE_OK;
}

void probe_timing_end(struct probe_timing *timing)
{
    for (size_t i = 0; i < timing->count; i++)
        if (!timing->tables[i].file)
            free(timing->tables[i].returns);
    free(timing->tables);
    *timing = (struct probe_timing){0};
}

double probe_timing_ns(const struct probe_timing *timing)
{
    struct probe_timing_moment now = read_clocks();
    uint64_t ticks = now.ticks - timing->start.ticks, ns = now.ns - timing->start.ns;
    return ticks ? (double)ns / (double)ticks : 1;
}

uint64_t probe_timing_fixed(const struct probe_timing *timing)
{
    uint64_t passed = base_clock_now() - timing->start.ns;
    if (passed < FIXED_NS)
        base_clock_sleep(FIXED_NS - passed); /* what it lacks when a signal comes is a little precision */
    return (uint64_t)(probe_timing_ns(timing) * 4294967296.0 + 0.5);
}

int probe_timing_allows(pid_t pid, struct base_error *error)
{
    struct proc_status status;
    proc_status_read(pid, 0, &status);
    const char *features = proc_status_field(status.text, "x86_Thread_features");
    const char *found = features ? strstr(features, "shstk") : NULL;
    bool shadow = found && !memchr(features, '\n', (size_t)(found - features));
    return shadow
               ? base_fail(error, BASE_EUNSUPPORTED,
                           "process %d runs with shadow stacks, on which return addresses cannot be replaced",
                           (int)pid)
               : BASE_OK;
}

int probe_timing_add(struct probe_timing *timing, pid_t pid, const struct shared_file *file, uint32_t region,
                     struct base_error *error)
{
    if (!base_array_room(timing->tables, timing->count, timing->capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    timing->tables[timing->count++] = (struct probe_timing_table){.pid = pid, .file = file, .region = region};
    return BASE_OK;
}

static void forget_table(struct probe_timing *timing, size_t index)
{
    if (!timing->tables[index].file)
        free(timing->tables[index].returns);
    memmove(&timing->tables[index], &timing->tables[index + 1],
            (--timing->count - index) * sizeof *timing->tables);
}

/* As the file has it now; NULL: it is not mapped. */
static const uint64_t *live_table(const struct probe_timing_table *table, uint64_t *start)
{
    const struct shared_file *file = table->file;
    if (!file->bytes)
        return NULL;
    *start = shared_file_process(file, table->region)->returns_start;
    return (const void *)(file->bytes + shared_file_region(file, table->region) + file->layout.returns);
}

static void copy_table(struct probe_timing_table *table)
{
    const uint64_t *live = live_table(table, &table->start);
    table->returns = live ? malloc(WIRE_AGENT_RETURNS * sizeof *live) : NULL;
    if (table->returns)
        memcpy(table->returns, live, WIRE_AGENT_RETURNS * sizeof *live);
    table->file = NULL;
}

void probe_timing_keep(struct probe_timing *timing, const struct shared_file *file)
{
    size_t kept = 0;
    for (size_t i = 0; i < timing->count; i++) {
        if (timing->tables[i].file == file)
            copy_table(&timing->tables[i]);
        kept += timing->tables[i].file == NULL;
    }
    for (size_t i = 0; i < timing->count && kept > KEPT_MOST;) {
        if (timing->tables[i].file == NULL) {
            forget_table(timing, i);
            kept--;
        } else {
            i++;
        }
    }
}

uint64_t probe_timing_real(const struct probe_timing *timing, pid_t pid, uint64_t pc)
{
    for (size_t i = timing->count; i-- > 0;) {
        const struct probe_timing_table *table = &timing->tables[i];
        if (table->pid != pid)
            continue;
        uint64_t start = table->start;
        const uint64_t *returns = table->file ? live_table(table, &start) : table->returns;
        uint64_t real = returns ? wire_agent_return(start, returns, pc) : pc;
        if (real != pc)
            return real;
    }
    return pc;
}
