#include "view_select.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_text.h"
#include "profile_heap.h"
#include "profile_statistics.h"

enum { CPUS = UINT16_MAX + 1, LISTED = 24 };

/* --- counter --- */

static int unknown_counter(const struct profile *profile, const char *name, struct base_error *error)
{
    struct base_text list = {0};
    for (size_t i = 1; i < profile->counter_count; i++)
        base_text_addf(&list, "%s%s", i > 1 ? ", " : "", profile_text(profile, profile->counters[i].name));
    base_fail(error, BASE_EUSAGE, "no counter %s in this profile; it has %s", name,
              list.length ? base_text_string(&list) : "none");
    base_text_free(&list);
    return BASE_EUSAGE;
}

/* The counter that a view of memory or descriptors is of; NULL: the reader chooses. */
static const char *counter_of_view(enum view_kind view)
{
    return view == VIEW_LEAKS  ? profile_heap_name(PROFILE_HEAP_LIVE)
           : view == VIEW_PEAK ? profile_heap_name(PROFILE_HEAP_PEAK)
           : view == VIEW_FDS  ? VIEW_DESCRIPTORS_COUNTER
                               : NULL;
}

static int choose_counter(const struct profile *profile, enum view_kind view, const char *wanted,
                          struct view_selection *selection, struct base_error *error)
{
    size_t found, calls = profile_counts_calls(profile);
    const char *of_view = counter_of_view(view);
    if (of_view && !profile_counter_named(profile, of_view))
        return base_fail(error, BASE_EUSAGE,
                         view == VIEW_FDS
                             ? "no descriptors were counted in this profile: tally record --fds does it"
                             : "no memory was counted in this profile: tally record --heap does it");
    if (view == VIEW_LATENCY && !profile_counter_named(profile, VIEW_LATENCY_COUNTER))
        return base_fail(error, BASE_EUSAGE,
                         "no calls were timed in this profile: tally record --function does it");
    wanted = view == VIEW_LATENCY ? VIEW_LATENCY_COUNTER : of_view ? of_view : wanted;
    if (wanted && calls && !strcmp(wanted, PROFILE_CALLS))
        return base_fail(
            error, BASE_EUSAGE,
            "calls are counted by edge, not by stack: --edges shows them, and --flat and --graph do "
            "beside the time");
    found = profile_counter_named(profile, wanted ? wanted : "time.cpu");
    if (!found && wanted)
        return unknown_counter(profile, wanted, error);
    for (size_t i = 1; i < profile->counter_count && !found; i++)
        found = i == calls ? 0 : i;
    selection->name = "time.cpu";
    selection->unit = "ns";
    if (!found)
        return 0; /* an empty profile has no counters: nothing matches counter 0 */
    const struct profile_counter *counter = &profile->counters[found];
    selection->counter = (uint16_t)found;
    selection->exact = counter->exact;
    selection->peak = counter->combine == PROFILE_PEAK;
    selection->name = profile_text(profile, counter->name);
    selection->unit = profile_text(profile, counter->unit);
    return 0;
}

/* --- threads and processes --- */

/* Patterns fit numbers as well as names. */
static bool select_matches(const char *pattern, int32_t id, const char *name)
{
    char digits[16];
    snprintf(digits, sizeof digits, "%d", id);
    return !fnmatch(pattern, digits, 0) || !fnmatch(pattern, name, 0);
}

/* "WHAT@ORIGIN" of merged profiles: WHAT as without an origin, nothing standing for anything. */
static bool origin_matches(const struct profile *profile, const struct profile_process *process,
                           const char *pattern)
{
    const char *at = strrchr(pattern, '@'), *name = profile_origin(profile, process->origin, "name");
    if (!at || !name || fnmatch(at + 1, name, 0))
        return false;
    char *what = strndup(pattern, (size_t)(at - pattern));
    bool fits = what && (!*what || select_matches(what, process->pid, profile_text(profile, process->name)));
    free(what);
    return fits;
}

static bool process_matches(const struct profile *profile, uint32_t index, const char *pattern)
{
    const struct profile_process *process = &profile->processes[index];
    return select_matches(pattern, process->pid, profile_text(profile, process->name)) ||
           origin_matches(profile, process, pattern);
}

/* "no thread x; there are 12 main, 13 worker, ...": each id and name once. */
static int nothing_matches(struct base_text *list, size_t count, const char *kind, const char *pattern,
                           struct base_error *error)
{
    if (count > LISTED)
        base_text_addf(list, " and %zu more", count - LISTED);
    base_fail(error, BASE_EUSAGE, "no %s %s in this profile; it has %s", kind, pattern,
              count ? base_text_string(list) : "none");
    base_text_free(list);
    return BASE_EUSAGE;
}

static void list_item(struct base_text *list, size_t *count, long id, const char *name)
{
    if (++*count > LISTED)
        return;
    base_text_add(list, *count > 1 ? ", " : "");
    if (id >= 0)
        base_text_addf(list, "%ld ", id);
    base_text_add(list, name);
}

static int no_such_thread(const struct profile *profile, const char *pattern, struct base_error *error)
{
    struct base_text list = {0};
    size_t count = 0;
    for (size_t i = 1; i < profile->thread_count; i++)
        list_item(&list, &count, profile->threads[i].tid, profile_text(profile, profile->threads[i].name));
    return nothing_matches(&list, count, "thread", pattern, error);
}

static int no_such_process(const struct profile *profile, const char *pattern, struct base_error *error)
{
    struct base_text list = {0}, name = {0};
    size_t count = 0;
    for (size_t i = 1; i < profile->process_count; i++) {
        const char *origin = profile_origin(profile, profile->processes[i].origin, "name");
        base_text_clear(&name);
        base_text_addf(&name, "%s%s%s", profile_text(profile, profile->processes[i].name), origin ? "@" : "",
                       origin ? origin : "");
        list_item(&list, &count, profile->processes[i].pid, base_text_string(&name));
    }
    base_text_free(&name);
    return nothing_matches(&list, count, "process", pattern, error);
}

static int select_threads(const struct profile *profile, const struct view_options *options,
                          struct view_selection *selection, struct base_error *error)
{
    size_t by_thread = 0, by_process = 0;
    selection->thread_total = selection->threads_taken =
        profile->thread_count ? profile->thread_count - 1 : 0;
    if (!options->part.thread && !options->part.process)
        return 0;
    selection->threads = calloc(profile->thread_count + 1, sizeof *selection->threads);
    if (!selection->threads)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    selection->threads_taken = 0;
    for (size_t i = 1; i < profile->thread_count; i++) {
        const struct profile_thread *thread = &profile->threads[i];
        bool named = !options->part.thread ||
                     select_matches(options->part.thread, thread->tid, profile_text(profile, thread->name));
        bool inside =
            !options->part.process || process_matches(profile, thread->process, options->part.process);
        by_thread += named;
        by_process += inside;
        selection->threads[i] = named && inside;
        selection->threads_taken += named && inside;
    }
    if (!by_thread)
        return no_such_thread(profile, options->part.thread, error);
    if (!by_process)
        return no_such_process(profile, options->part.process, error);
    if (!selection->threads_taken)
        return base_fail(error, BASE_EUSAGE, "no thread %s in process %s", options->part.thread,
                         options->part.process);
    return 0;
}

/* --- images --- */

static int select_images(const struct profile *profile, const char *pattern, struct view_selection *selection,
                         struct base_error *error)
{
    struct base_text list = {0};
    size_t count = 0, taken = 0;
    if (!pattern)
        return 0;
    selection->images = calloc(profile->image_count + 1, sizeof *selection->images);
    if (!selection->images)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 1; i < profile->image_count; i++) {
        const char *name = profile_text(profile, profile->images[i].name);
        selection->images[i] = !fnmatch(pattern, name, 0);
        taken += selection->images[i];
        list_item(&list, &count, -1, name);
    }
    if (!taken)
        return nothing_matches(&list, count, "image", pattern, error);
    base_text_free(&list);
    return 0;
}

/* --- CPUs --- */

static bool is_bit_set(const uint8_t *set, size_t index)
{
    return set[index / 8] >> (index % 8) & 1;
}

static void set_bit(uint8_t *set, size_t index)
{
    set[index / 8] = (uint8_t)(set[index / 8] | 1u << (index % 8));
}

/* "0,2-5": false when it is anything else. */
static bool parse_cpus(const char *list, uint8_t *set)
{
    for (;;) {
        char *end;
        if (*list < '0' || *list > '9')
            return false;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (*end == '-') {
            list = end + 1;
            if (*list < '0' || *list > '9')
                return false;
            last = strtoul(list, &end, 10);
        }
        if (first > last || last >= PROFILE_NO_CPU)
            return false;
        for (unsigned long cpu = first; cpu <= last; cpu++)
            set_bit(set, cpu);
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        list = end + 1;
    }
}

static int no_such_cpu(const uint8_t *present, const char *wanted, struct base_error *error)
{
    struct base_text list = {0};
    for (size_t cpu = 0; cpu < PROFILE_NO_CPU; cpu++) {
        size_t last = cpu;
        if (!is_bit_set(present, cpu))
            continue;
        while (last + 1 < PROFILE_NO_CPU && is_bit_set(present, last + 1))
            last++;
        base_text_addf(&list, list.length ? ",%zu" : "%zu", cpu);
        if (last > cpu)
            base_text_addf(&list, "-%zu", last);
        cpu = last;
    }
    if (list.length)
        base_fail(error, BASE_EUSAGE, "no samples on CPU %s; this profile has some on %s", wanted,
                  base_text_string(&list));
    else
        base_fail(error, BASE_EUSAGE, "no samples on CPU %s: of nothing in this profile the CPU is known",
                  wanted);
    base_text_free(&list);
    return BASE_EUSAGE;
}

static int check_cpus(const struct profile *profile, const char *wanted, const uint8_t *set,
                      struct base_error *error)
{
    uint8_t *present = calloc(CPUS / 8, 1);
    bool met = !profile->cell_count;
    if (!present)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < profile->cell_count; i++) {
        set_bit(present, profile->cells[i].cpu);
        met |= is_bit_set(set, profile->cells[i].cpu);
    }
    int code = met ? 0 : no_such_cpu(present, wanted, error);
    free(present);
    return code;
}

static int select_cpus(const struct profile *profile, const char *list, struct view_selection *selection,
                       struct base_error *error)
{
    if (!list)
        return 0;
    selection->cpus = calloc(CPUS / 8, 1);
    if (!selection->cpus)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (!parse_cpus(list, selection->cpus))
        return base_fail(error, BASE_EUSAGE, "invalid CPU list: %s (such as 0,2-5)", list);
    return check_cpus(profile, list, selection->cpus, error);
}

/* --- figures --- */

bool view_select_takes(const struct view_selection *selection, const struct profile *profile,
                       const struct profile_cell *cell)
{
    if (cell->counter != selection->counter || !cell->counter)
        return false;
    if (selection->threads && !selection->threads[cell->thread])
        return false;
    if (selection->cpus && !is_bit_set(selection->cpus, cell->cpu))
        return false;
    return !selection->images ||
           selection->images[profile->addresses[profile->nodes[cell->node].address].image];
}

bool view_select_takes_edge(const struct view_selection *selection, const struct profile *profile,
                            const struct profile_edge *edge)
{
    if (selection->threads && !selection->threads[edge->thread])
        return false;
    return !selection->images || selection->images[profile->addresses[edge->site].image] ||
           selection->images[profile->addresses[edge->callee].image];
}

bool *view_select_processes(const struct view_selection *selection, const struct profile *profile)
{
    bool *processes = calloc(profile->process_count + 1, sizeof *processes);
    for (size_t i = 1; processes && !selection->threads && i < profile->process_count; i++)
        processes[i] = true;
    for (size_t i = 1; processes && selection->threads && i < profile->thread_count; i++)
        if (selection->threads[i])
            processes[profile->threads[i].process] = true;
    return processes;
}

bool view_select_filtered(const struct view_selection *selection)
{
    return selection->threads || selection->images || selection->cpus;
}

bool view_select_is_time(const char *counter)
{
    return !strncmp(counter, "time.", 5);
}

void view_select_combine(bool peak, int64_t *sum, int64_t more)
{
    if (peak)
        *sum = more > *sum ? more : *sum;
    else if (__builtin_add_overflow(*sum, more, sum))
        *sum = more < 0 ? INT64_MIN : INT64_MAX;
}

void view_select_add(const struct view_selection *selection, struct view_figure *sum,
                     const struct view_figure *more)
{
    if (__builtin_add_overflow(sum->samples, more->samples, &sum->samples))
        sum->samples = UINT64_MAX;
    view_select_combine(selection->peak, &sum->value, more->value);
}

/* Samples may weigh differently (the rate was lowered half-way). Then fewer samples than their number carry
 * the evidence: (sum of w)^2 / sum of w^2, L. Kish, Survey Sampling (1965), 8.2. A cell keeps only sums, so
 * its samples count as equal. */
static void sum_selection(const struct profile *profile, struct view_selection *selection)
{
    double weight = 0, squares = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        struct view_figure figure = {cell->value, cell->samples};
        if (cell->counter != selection->counter || !cell->counter)
            continue;
        view_select_add(selection, &selection->all, &figure);
        if (!view_select_takes(selection, profile, cell))
            continue;
        view_select_add(selection, &selection->taken, &figure);
        weight += (double)cell->value;
        if (cell->samples)
            squares += (double)cell->value * (double)cell->value / (double)cell->samples;
    }
    double samples = (double)selection->taken.samples;
    selection->effective = squares > 0 ? fmin(weight * weight / squares, samples) : samples;
}

struct view_share view_select_share(const struct view_selection *selection, const struct view_figure *figure)
{
    struct view_share result = {0, 0, 0};
    if (selection->taken.value > 0)
        result.share = (double)figure->value / (double)selection->taken.value;
    result.low = result.high = result.share;
    if (selection->exact || selection->peak)
        return result;
    double inside = fmin(fmax(result.share, 0), 1);
    struct profile_interval interval = profile_wilson((uint64_t)llround(inside * selection->effective),
                                                      (uint64_t)llround(selection->effective));
    result.low = fmin(interval.low, inside);
    result.high = fmax(interval.high, inside);
    return result;
}

int view_select(const struct profile *profile, const struct view_options *options,
                struct view_selection *selection, struct base_error *error)
{
    *selection = (struct view_selection){.period = options->part.from_ns || options->part.to_ns};
    int code = choose_counter(profile, options->view, options->counter, selection, error);
    if (!code)
        code = select_threads(profile, options, selection, error);
    if (!code)
        code = select_images(profile, options->part.image, selection, error);
    if (!code)
        code = select_cpus(profile, options->part.cpus, selection, error);
    if (code)
        view_select_free(selection);
    else
        sum_selection(profile, selection);
    return code;
}

void view_select_free(struct view_selection *selection)
{
    free(selection->threads);
    free(selection->images);
    free(selection->cpus);
    selection->threads = selection->images = NULL;
    selection->cpus = NULL;
}
