#include "perf_time.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base_array.h"

enum {
    RING_LARGEST = 16 << 20, /* a CPU's ring, where locked memory is not limited */
    RING_TOTAL = 256 << 20,  /* of all CPUs */
    RING_SMALLEST = 128 << 10,
    RING_THREAD = 256 << 10,    /* a thread's, at most */
    DESCRIPTORS_KEPT_FREE = 64, /* for images, the profile ... */
    SCANS_LIMIT = 20,           /* of a process that keeps making threads */
    /* The periods of a set are drawn again after so many samples, and after that part of all it took. */
    DRAW_AFTER = 32,
    DRAW_PART = 64,
};

/* --- periods --- */

static double random_between(uint64_t *state, double low, double high)
{
    *state += 0x9e3779b97f4a7c15u;
    return low + (high - low) * (double)(base_hash(*state) >> 11) * 0x1p-53;
}

/* Of uniform factors between LEAST and MOST, the mean rate of one event is ln(MOST / LEAST) / (MOST - LEAST).
 */
static const double LEAST = 0.6, MOST = 1.7, MEAN_RATE = 0.9467705;

void perf_time_periods(uint64_t *random, double rate_hz, unsigned count, uint64_t *periods)
{
    double factor[PERF_TIME_SET], rate = 0;
    for (unsigned i = 0; i < count; i++) {
        factor[i] = random_between(random, LEAST, MOST);
        rate += 1 / factor[i];
    }
    if (count == 1) /* scaled to the rate, one period would be no random one: it has it on average */
        rate = MEAN_RATE;
    for (unsigned i = 0; i < count; i++)
        periods[i] = (uint64_t)(factor[i] * rate / rate_hz * 1e9 + random_between(random, 0, 1));
}

/* Draws the periods of a set anew. An event that begins a new period forgets what had passed of the old one,
 * half of it on average: with `rate_hz` so much higher the set still fires at the rate. */
static void draw_set(struct perf_time *time, size_t first, double rate_hz, uint64_t now)
{
    struct perf_time_event *events = &time->events[first];
    uint64_t periods[PERF_TIME_SET];
    perf_time_periods(&time->random, rate_hz, events->set_size, periods);
    for (unsigned i = 0; i < events->set_size; i++) {
        ioctl(events[i].fd, PERF_EVENT_IOC_PERIOD, &periods[i]);
        events[i].period = periods[i];
    }
    events->taken = 0;
    events->drawn_ns = now;
}

void perf_time_redraw(struct perf_time *time, uint64_t now)
{
    for (size_t i = 0; i < time->event_count; i++)
        if (time->events[i].set_size && !time->events[i].superseded)
            draw_set(time, i, time->rate_hz, now);
}

/* What a set would have sampled since it was drawn. A thread's clock stands still while the thread does, and
 * its samples tell; a CPU's goes on whoever runs there. */
static double samples_since_draw(const struct perf_time *time, const struct perf_time_event *event,
                                 uint64_t now)
{
    return event->tid < 0 ? (double)(now - event->drawn_ns) * time->rate_hz / 1e9 : (double)event->taken;
}

void perf_time_redraw_due(struct perf_time *time, uint64_t now)
{
    for (size_t i = 0; i < time->due_count; i++) {
        struct perf_time_event *event = &time->events[time->due[i]];
        event->due = false;
        if (event->superseded)
            continue;
        double lost = event->set_size / (2 * samples_since_draw(time, event, now));
        draw_set(time, time->due[i], time->rate_hz * (1 + lost), now);
    }
    time->due_count = 0;
}

/* A single event is never due: its period has the rate on average over time, and would not if it were kept
 * for a number of samples. */
static void count_sample(struct perf_time *time, size_t set)
{
    struct perf_time_event *event = &time->events[set];
    event->taken++;
    event->samples++;
    if (event->set_size < 2 || event->due || event->taken < DRAW_AFTER ||
        event->taken < event->samples / DRAW_PART || time->due_count == PERF_TIME_DUE)
        return;
    event->due = true;
    time->due[time->due_count++] = set;
}

void perf_time_describe(const struct perf_time *time, char *text, size_t size)
{
    if (time->filter)
        snprintf(
            text, size,
            "%u events a CPU, for the target's processes (BPF), random unrelated periods, drawn again and "
            "again, together at the rate",
            time->set_size);
    else if (time->per_thread)
        snprintf(text, size, "one event a thread, each with a random period of 0.57 to 1.61 / rate");
    else
        snprintf(text, size,
                 "%u events a thread and CPU, random unrelated periods, drawn again and again, together at "
                 "the rate",
                 time->set_size);
}

/* --- set-up --- */

static bool list_has(const char *list, int cpu)
{
    for (const char *at = list; *at && *at != '\n';) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at)
            return false;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (cpu >= first && cpu <= last)
            return true;
        at = *end == ',' ? end + 1 : end;
        if (*end != ',')
            break;
    }
    return false;
}

static bool list_is_valid(const char *list)
{
    for (const char *at = list; *at; at++) {
        bool sign = *at == ',' || *at == '-';
        if (!sign && !isdigit((unsigned char)*at))
            return false;
        if (sign && (at == list || !isdigit((unsigned char)at[-1]) || !isdigit((unsigned char)at[1])))
            return false;
    }
    return *list;
}

/* The first CPU of a valid list that is not in `online`; -1: all are. */
static long find_missing(const char *list, const char *online)
{
    for (const char *at = list; *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last; cpu++)
            if (cpu > INT_MAX || !list_has(online, (int)cpu))
                return cpu;
        at = *end == ',' ? end + 1 : end;
    }
    return -1;
}

/* "0,2-5" (NULL: all that are online) -> the CPUs in it. One that is not there would be missed without a
 * word. */
static int parse_cpus(const char *list, const char *online, int **cpus, size_t *count,
                      struct base_error *error)
{
    if (list && !list_is_valid(list))
        return base_fail(error, BASE_EUSAGE, "--cpu: invalid CPU list '%s' (expected CPUs such as 0,2-5)",
                         list);
    long missing = list ? find_missing(list, online) : -1;
    if (missing >= 0)
        return base_fail(error, BASE_EUSAGE, "--cpu %s: CPU %ld is not online; online are %.*s", list,
                         missing, (int)strcspn(online, "\n"), online);
    size_t capacity = 0;
    *count = 0;
    *cpus = NULL;
    long configured = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < configured; cpu++) {
        if (!list_has(online, cpu) || (list && !list_has(list, cpu)))
            continue;
        if (!base_array_room(*cpus, *count, capacity))
            return base_fail(error, BASE_ENOMEM, "out of memory");
        (*cpus)[(*count)++] = cpu;
    }
    if (!*count)
        return base_fail(error, BASE_EUSAGE, "--cpu %s: no such CPU is online", list ? list : "");
    return BASE_OK;
}

static void read_online(char *text, size_t size)
{
    FILE *file = fopen("/sys/devices/system/cpu/online", "re");
    if (!file || !fgets(text, (int)size, file))
        snprintf(text, size, "0-%ld", sysconf(_SC_NPROCESSORS_ONLN) - 1);
    if (file)
        fclose(file);
}

static void raise_descriptors(struct perf_time *time)
{
    time->descriptor_limit = RLIM_INFINITY;
    if (getrlimit(RLIMIT_NOFILE, &time->descriptors))
        return;
    struct rlimit raised = {.rlim_cur = time->descriptors.rlim_max, .rlim_max = time->descriptors.rlim_max};
    time->descriptor_limit = setrlimit(RLIMIT_NOFILE, &raised) ? time->descriptors.rlim_cur : raised.rlim_cur;
}

static size_t power_of_two_below(size_t value)
{
    size_t power = 1;
    while (power * 2 <= value)
        power *= 2;
    return power;
}

/* A ring that holds about a tenth of a second, within what may be locked: everybody may lock
 * perf_event_mlock_kb a CPU. */
static size_t choose_ring_size(const struct perf_time *time)
{
    size_t record = 512 + (time->form.fields & PERF_SAMPLE_STACK_USER ? time->form.stack_copy : 0);
    size_t wanted = (size_t)((double)record * time->rate_hz / 10);
    size_t limit = RING_TOTAL / time->cpu_count < RING_LARGEST ? RING_TOTAL / time->cpu_count : RING_LARGEST;
    wanted = wanted < limit ? wanted : limit;
    wanted = wanted > RING_SMALLEST ? wanted : RING_SMALLEST;
    size_t size = power_of_two_below(wanted);
    return size < wanted && size * 2 <= limit ? size * 2 : size;
}

int perf_time_init(struct perf_time *time, struct perf_rings *rings, const char *cpus,
                   struct base_error *error)
{
    char online[4096];
    read_online(online, sizeof online);
    int result = parse_cpus(cpus, online, &time->cpus, &time->cpu_count, error);
    if (result < 0)
        return result;
    result = perf_event_probe(&time->form, error);
    if (result < 0)
        return result;
    time->rings = rings;
    time->set_size = PERF_TIME_SET;
    if (getrandom(&time->random, sizeof time->random, GRND_NONBLOCK) != sizeof time->random)
        time->random = base_hash((uint64_t)getpid());
    time->ring_size = choose_ring_size(time);
    raise_descriptors(time);
    return BASE_OK;
}

void perf_time_free(struct perf_time *time)
{
    perf_time_disable(time);
    for (size_t i = 0; i < time->event_count; i++) {
        if (time->events[i].fd >= 0)
            close(time->events[i].fd);
    }
    free(time->events);
    free(time->cpus);
    base_map_free(&time->ring_of_cpu);
    base_map_free(&time->event_of);
    base_map_free(&time->opened);
    *time = (struct perf_time){0};
}

/* --- opening --- */

/* The ring shrinks until the kernel agrees to lock it. */
static int add_ring(struct perf_time *time, int fd, size_t size, struct base_error *error)
{
    for (;;) {
        struct base_error attempt = {0};
        int ring = perf_rings_add(time->rings, fd, size, &attempt);
        if (ring >= 0 || size <= RING_SMALLEST || ring == BASE_ENOTFOUND)
            return ring >= 0 ? ring
                             : base_fail(error, ring, "%s (see perf_event_mlock_kb in 'tally doctor')",
                                         attempt.text);
        size /= 2;
    }
}

static int attach_ring(struct perf_time *time, int fd, int cpu, struct base_error *error)
{
    if (cpu < 0)
        return add_ring(time, fd, time->thread_ring_size, error);
    uint32_t first = base_map_find(&time->ring_of_cpu, (uint64_t)cpu);
    if (first != BASE_MAP_NONE) {
        if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, time->events[first].fd))
            return base_fail_errno(error, errno, "cannot join the ring of CPU %d", cpu);
        return BASE_OK;
    }
    int ring = add_ring(time, fd, time->ring_size, error);
    if (ring >= 0 && !base_map_set(&time->ring_of_cpu, (uint64_t)cpu, (uint32_t)time->event_count))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    return ring;
}

static int open_event(struct perf_time *time, const struct perf_event_target *target,
                      struct base_error *error)
{
    if (!base_array_room(time->events, time->event_count, time->event_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int fd = perf_event_start(&time->form, target, error);
    if (fd < 0)
        return fd;
    if ((rlim_t)fd + DESCRIPTORS_KEPT_FREE >= time->descriptor_limit) {
        close(fd);
        return base_fail(error, BASE_EBUSY, "no file descriptors left for perf events (ulimit -n is %llu)",
                         (unsigned long long)time->descriptor_limit);
    }
    uint64_t id = 0;
    int result = ioctl(fd, PERF_EVENT_IOC_ID, &id) ? base_fail_errno(error, errno, "perf event id")
                                                   : attach_ring(time, fd, target->cpu, error);
    if (result >= 0 && time->filter && target->pid < 0)
        result = perf_filter_apply(time->filter, fd, error);
    if (result >= 0 && target->pid >= 0 && !base_map_set(&time->opened, (uint64_t)target->pid, 1))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result >= 0 && !base_map_set(&time->event_of, id, (uint32_t)time->event_count))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result < 0) {
        close(fd);
        return result;
    }
    time->events[time->event_count] = (struct perf_time_event){
        .fd = fd, .cpu = target->cpu, .id = id, .period = target->period, .tid = target->pid};
    time->events[time->event_count].set = time->event_count;
    time->event_count++;
    return BASE_OK;
}

/* A whole set on one CPU. */
static int open_set(struct perf_time *time, struct perf_event_target target, struct base_error *error)
{
    uint64_t periods[PERF_TIME_SET];
    perf_time_periods(&time->random, time->rate_hz, time->set_size, periods);
    for (unsigned i = 0; i < time->set_size; i++) {
        target.period = periods[i];
        target.side_band = i == 0;
        int result = open_event(time, &target, error);
        if (result < 0)
            return result;
    }
    size_t first = time->event_count - time->set_size;
    time->events[first].set_size = time->set_size;
    for (size_t i = first; i < time->event_count; i++)
        time->events[i].set = first;
    return BASE_OK;
}

static int open_on_cpus(struct perf_time *time, struct perf_event_target target, struct base_error *error)
{
    if (time->per_thread) {
        target.cpu = -1;
        return open_set(time, target, error);
    }
    for (size_t i = 0; i < time->cpu_count; i++) {
        target.cpu = time->cpus[i];
        int result = open_set(time, target, error);
        if (result < 0)
            return result;
    }
    return BASE_OK;
}

int perf_time_open_child(struct perf_time *time, pid_t pid, struct base_error *error)
{
    return open_on_cpus(time, (struct perf_event_target){.pid = pid, .cgroup = -1, .at_exec = true}, error);
}

int perf_time_open_cpus(struct perf_time *time, int cgroup, struct base_error *error)
{
    time->cgroup = cgroup;
    return open_on_cpus(time, (struct perf_event_target){.pid = -1, .cgroup = cgroup}, error);
}

/* --- threads of running processes --- */

struct tid_list {
    pid_t *items;
    size_t count, capacity;
};

static int list_threads(pid_t pid, struct tid_list *tids, struct base_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *directory = opendir(path);
    if (!directory)
        return base_fail(error, BASE_ENOTFOUND, "no process %d", (int)pid);
    int result = BASE_OK;
    errno = 0;
    for (struct dirent *entry; result == BASE_OK && (entry = readdir(directory));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        if (!base_array_room(tids->items, tids->count, tids->capacity))
            result = base_fail(error, BASE_ENOMEM, "out of memory");
        else
            tids->items[tids->count++] = tid;
    }
    if (result == BASE_OK && base_error_is_refusal(errno))
        result = base_fail_errno(error, errno, "%s cannot be read", path);
    closedir(directory);
    return result;
}

static int list_all_threads(perf_time_list *list, void *context, struct tid_list *tids,
                            struct base_error *error)
{
    pid_t *pids = NULL;
    size_t count = list(context, &pids), alive = 0;
    int result = BASE_OK;
    struct base_error last = {0};
    tids->count = 0;
    for (size_t i = 0; i < count; i++) {
        base_error_clear(&last);
        result = list_threads(pids[i], tids, &last);
        alive += result == BASE_OK;
        if (result < 0 && result != BASE_ENOTFOUND)
            break;
    }
    free(pids);
    if (alive && (result == BASE_OK || result == BASE_ENOTFOUND))
        return BASE_OK;
    return base_fail(error, result < 0 ? result : BASE_ENOTFOUND, "%s",
                     count == 1 && last.text[0] ? last.text : "none of the processes is there");
}

/* Everything that fits: a set a CPU, one event a CPU, one event. */
static void choose_density(struct perf_time *time, size_t threads)
{
    size_t taken = time->event_count + 2 * DESCRIPTORS_KEPT_FREE;
    size_t room = time->descriptor_limit > taken ? (size_t)time->descriptor_limit - taken : 0;
    size_t on_cpus = threads * time->cpu_count;
    time->per_thread = on_cpus > room;
    size_t share = power_of_two_below(RING_TOTAL / (threads ? threads : 1));
    time->thread_ring_size = share > RING_THREAD     ? RING_THREAD
                             : share > RING_SMALLEST ? share
                                                     : RING_SMALLEST;
    time->set_size = !time->per_thread && on_cpus * PERF_TIME_SET <= room ? PERF_TIME_SET : 1;
}

/* Opens the threads of the list that are not in `seen` yet and counts them in *opened. Threads that are
 * gone are no loss; `first` keeps the first reason of another kind. */
static int open_new_threads(struct perf_time *time, const struct tid_list *tids, struct base_map *seen,
                            size_t *opened, struct base_error *first)
{
    for (size_t i = 0; i < tids->count; i++) {
        uint64_t tid = (uint64_t)tids->items[i];
        if (base_map_find(seen, tid) != BASE_MAP_NONE)
            continue;
        if (!base_map_set(seen, tid, 1))
            return base_fail(first, BASE_ENOMEM, "out of memory");
        struct base_error one = {0};
        int result =
            open_on_cpus(time, (struct perf_event_target){.pid = tids->items[i], .cgroup = -1}, &one);
        *opened += result == BASE_OK;
        if (result == BASE_OK || result == BASE_ENOTFOUND)
            continue;
        base_fail(first, result, "%s", one.text);
        if (result == BASE_EPERMISSION || result == BASE_ENOMEM)
            return result;
        time->unseen++;
    }
    return BASE_OK;
}

int perf_time_open_processes(struct perf_time *time, perf_time_list *list, void *context,
                             struct base_error *error)
{
    struct tid_list tids = {0};
    struct base_map seen = {0};
    struct base_error first = {0};
    int result = list_all_threads(list, context, &tids, error);
    if (result == BASE_OK)
        choose_density(time, tids.count);
    size_t opened = 0;
    for (int scan = 0; result == BASE_OK && scan < SCANS_LIMIT; scan++) {
        size_t before = opened;
        result = open_new_threads(time, &tids, &seen, &opened, &first);
        if (opened == before || list_all_threads(list, context, &tids, NULL) < 0)
            break;
    }
    free(tids.items);
    base_map_free(&seen);
    if (result == BASE_OK && !opened)
        result = first.text[0]
                     ? BASE_EIO
                     : base_fail(error, BASE_ENOTFOUND, "the process ended before it could be recorded");
    return result < 0 && first.text[0] ? base_fail(error, result, "%s", first.text) : result;
}

void perf_time_open_thread(struct perf_time *time, pid_t tid)
{
    size_t first = time->event_count;
    struct perf_event_target target = {.pid = tid, .cgroup = -1};
    if (open_on_cpus(time, target, NULL) < 0)
        time->unseen++;
    for (size_t i = first; i < time->event_count; i++)
        ioctl(time->events[i].fd, PERF_EVENT_IOC_ENABLE, 0);
}

static void close_events_of(struct perf_time *time, pid_t tid)
{
    for (size_t i = 0; i < time->event_count; i++) {
        if (time->events[i].tid == tid && !time->events[i].superseded) {
            ioctl(time->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
            time->events[i].superseded = true;
        }
    }
}

/* Whether the thread has events of its own beside the one that it inherited; its own are closed then. */
static bool ends_double(struct perf_time *time, pid_t tid)
{
    if (base_map_find(&time->opened, (uint64_t)tid) != 1)
        return false;
    base_map_set(&time->opened, (uint64_t)tid, 0);
    close_events_of(time, tid);
    return true;
}

bool perf_time_take(struct perf_time *time, pid_t tid, uint64_t id)
{
    uint32_t found = base_map_find(&time->event_of, id);
    if (found >= time->event_count)
        return true;
    const struct perf_time_event *event = &time->events[found];
    if (event->tid >= 0 && event->tid != tid) /* inherited: its periods cannot be drawn again */
        return found < time->replaced || !ends_double(time, tid);
    count_sample(time, event->set);
    return true;
}

/* --- on, off, larger copies --- */

static void switch_events(struct perf_time *time, size_t first, size_t end, unsigned long request)
{
    for (size_t i = first; i < end; i++) {
        if (!time->events[i].superseded)
            ioctl(time->events[i].fd, request, 0);
    }
}

void perf_time_enable(struct perf_time *time)
{
    switch_events(time, 0, time->event_count, PERF_EVENT_IOC_ENABLE);
}

void perf_time_disable(struct perf_time *time)
{
    switch_events(time, 0, time->event_count, PERF_EVENT_IOC_DISABLE);
}

/* An event whose ring others join keeps its descriptor; the rest give theirs back. What is in the rings
 * stays. */
static void retire_events(struct perf_time *time, size_t end)
{
    switch_events(time, 0, end, PERF_EVENT_IOC_DISABLE);
    for (size_t i = 0; i < end; i++) {
        struct perf_time_event *event = &time->events[i];
        event->superseded = true;
        if (event->fd >= 0 &&
            (event->cpu < 0 || base_map_find(&time->ring_of_cpu, (uint64_t)event->cpu) != i)) {
            close(event->fd);
            event->fd = -1;
        }
    }
}

/* Replaces all events by those that `open` opens: theirs run before the old ones stop, so that no thread
 * creation and no mapping falls between. On failure everything stays as it was. */
static int replace_events(struct perf_time *time,
                          int (*open)(struct perf_time *time, void *context, struct base_error *error),
                          void *context, struct base_error *error)
{
    size_t old_count = time->event_count, old_replaced = time->replaced;
    time->replaced = old_count; /* what is read while opening says nothing of the new ones */
    int result = open(time, context, error);
    if (result < 0) {
        for (size_t i = old_count; i < time->event_count; i++)
            close(time->events[i].fd);
        time->event_count = old_count;
        time->replaced = old_replaced;
        return result;
    }
    switch_events(time, old_count, time->event_count, PERF_EVENT_IOC_ENABLE);
    retire_events(time, old_count);
    return BASE_OK;
}

struct list_call {
    perf_time_list *list;
    void *context;
};

static int reopen_events(struct perf_time *time, void *context, struct base_error *error)
{
    const struct list_call *call = context;
    return call->list ? perf_time_open_processes(time, call->list, call->context, error)
                      : perf_time_open_cpus(time, time->cgroup, error);
}

int perf_time_grow_copy(struct perf_time *time, uint32_t bytes, perf_time_list *list, void *context,
                        struct base_error *error)
{
    uint32_t old_bytes = time->form.stack_copy;
    struct list_call call = {list, context};
    time->form.stack_copy = bytes;
    int result = replace_events(time, reopen_events, &call, error);
    if (result < 0)
        time->form.stack_copy = old_bytes;
    return result;
}

struct enter_call {
    bool (*enter)(void *context);
    void *context;
};

static int open_filtered(struct perf_time *time, void *context, struct base_error *error)
{
    const struct enter_call *call = context;
    int result = perf_time_open_cpus(time, -1, error);
    if (result < 0)
        return result;
    return call->enter(call->context) ? BASE_OK : base_fail(error, BASE_EBUSY, "too many processes");
}

int perf_time_switch_to_cpus(struct perf_time *time, const struct perf_filter *filter,
                             bool (*enter)(void *context), void *context, struct base_error *error)
{
    bool per_thread = time->per_thread;
    unsigned set_size = time->set_size;
    struct enter_call call = {enter, context};
    time->filter = filter;
    time->per_thread = false;
    time->set_size = PERF_TIME_SET;
    int result = replace_events(time, open_filtered, &call, error);
    if (result < 0) {
        time->filter = NULL;
        time->per_thread = per_thread;
        time->set_size = set_size;
    }
    return result;
}
