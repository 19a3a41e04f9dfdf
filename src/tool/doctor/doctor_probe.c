#include "doctor_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf_event.h"

#define DEVICES "/sys/bus/event_source/devices"

struct event {
    const char *name;
    uint64_t config;
};

static const struct event software[] = {
    {"cpu-clock", PERF_COUNT_SW_CPU_CLOCK},           {"task-clock", PERF_COUNT_SW_TASK_CLOCK},
    {"page-faults", PERF_COUNT_SW_PAGE_FAULTS},       {"minor-faults", PERF_COUNT_SW_PAGE_FAULTS_MIN},
    {"major-faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ},  {"context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cpu-migrations", PERF_COUNT_SW_CPU_MIGRATIONS}, {"alignment-faults", PERF_COUNT_SW_ALIGNMENT_FAULTS},
};

static const struct event hardware[] = {
    {"cycles", PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_COUNT_HW_INSTRUCTIONS},
    {"cache-references", PERF_COUNT_HW_CACHE_REFERENCES},
    {"cache-misses", PERF_COUNT_HW_CACHE_MISSES},
    {"branches", PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", PERF_COUNT_HW_BRANCH_MISSES},
    {"stalled-cycles-frontend", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"stalled-cycles-backend", PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
};

static const char *const tracepoints[] = {"sched/sched_switch", "syscalls/sys_enter_openat"};

struct list {
    struct doctor_probe *items;
    size_t count;
};

static struct doctor_probe *probe_add(struct list *list, const char *group, const char *name)
{
    struct doctor_probe *probe =
        &list->items[list->count < DOCTOR_PROBES_MOST ? list->count++ : DOCTOR_PROBES_MOST - 1];
    *probe = (struct doctor_probe){.group = group};
    snprintf(probe->name, sizeof probe->name, "%s", name);
    return probe;
}

/* --- one event --- */

/* Why perf_event_open(attr) failed with errno `number`: for people, names the setting. */
static void explain_probe(int number, const struct perf_event_attr *attr, char why[DOCTOR_PROBE_WHY])
{
    int64_t paranoid = perf_event_setting("/proc/sys/kernel/perf_event_paranoid", 2);
    switch (number) {
    case EACCES:
        snprintf(why, DOCTOR_PROBE_WHY, "not permitted: perf_event_paranoid is %" PRId64, paranoid);
        break;
    case EPERM:
        snprintf(why, DOCTOR_PROBE_WHY,
                 "not permitted: a seccomp filter, as containers have, refuses perf_event_open");
        break;
    case ENOSYS:
        snprintf(why, DOCTOR_PROBE_WHY, "this kernel has no perf_event_open");
        break;
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
        snprintf(why, DOCTOR_PROBE_WHY,
                 attr->type == PERF_TYPE_SOFTWARE ? "this kernel does not have it"
                                                  : "this CPU does not have it, or a hypervisor hides it");
        break;
    default:
        snprintf(why, DOCTOR_PROBE_WHY, "perf_event_open: %s", strerror(number));
    }
}

static int open_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
    attr->size = sizeof *attr;
    return (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, (unsigned long)PERF_FLAG_FD_CLOEXEC);
}

/* Work enough for every counter that is one to move. */
static bool is_counting_event(int event)
{
    uint64_t count = 0;
    if (ioctl(event, PERF_EVENT_IOC_ENABLE, 0) < 0)
        return false;
    for (volatile int i = 0; i < 200000; i++)
        continue;
    return read(event, &count, sizeof count) == sizeof count && count > 0;
}

/* First with the kernel's part, then without. */
static void try_on_self(struct doctor_probe *probe, struct perf_event_attr *attr)
{
    attr->disabled = 1;
    attr->exclude_hv = 1;
    int event = open_event(attr, 0, -1);
    if (event < 0 && (errno == EACCES || errno == EPERM)) {
        attr->exclude_kernel = 1;
        event = open_event(attr, 0, -1);
        if (event >= 0)
            snprintf(probe->why, sizeof probe->why, "in user mode only: perf_event_paranoid is %" PRId64,
                     perf_event_setting("/proc/sys/kernel/perf_event_paranoid", 2));
    }
    probe->available = event >= 0;
    if (event < 0) {
        explain_probe(errno, attr, probe->why);
        return;
    }
    /* Some hypervisors let a counter be opened that never moves. */
    bool moves = attr->type == PERF_TYPE_HARDWARE && attr->config <= PERF_COUNT_HW_INSTRUCTIONS;
    if (moves && !is_counting_event(event)) {
        probe->available = false;
        snprintf(probe->why, sizeof probe->why, "it can be opened but does not count (a virtual machine)");
    }
    close(event);
}

static void try_events(struct list *list, const char *group, uint32_t type, const struct event *events,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct perf_event_attr attr = {.type = type, .config = events[i].config};
        try_on_self(probe_add(list, group, events[i].name), &attr);
    }
}

/* --- tracepoints --- */

static int64_t tracepoint_number(const char *name)
{
    static const char *const directories[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    int64_t number = -1;
    for (size_t i = 0; i < 2 && number < 0; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/events/%s/id", directories[i], name);
        number = perf_event_setting(path, -1);
    }
    return number;
}

static void try_tracepoint(struct list *list, const char *name)
{
    struct doctor_probe *probe = probe_add(list, "tracepoint", name);
    int64_t number = tracepoint_number(name);
    if (number >= 0) {
        struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT, .config = (uint64_t)number};
        try_on_self(probe, &attr);
    } else if (access("/sys/kernel/tracing/events", R_OK) == 0 || access("/sys/kernel/tracing", F_OK) < 0) {
        snprintf(probe->why, sizeof probe->why, "this kernel does not have it");
    } else if (access("/sys/kernel/tracing", R_OK) < 0) {
        snprintf(probe->why, sizeof probe->why, "not permitted: /sys/kernel/tracing is for root");
    } else {
        snprintf(probe->why, sizeof probe->why, "tracefs is not mounted at /sys/kernel/tracing");
    }
}

/* --- PMUs that sysfs describes --- */

/* "event=0x02" and the like; only plain event numbers are understood, which is all that energy counters have.
 */
static bool read_event(const char *path, uint64_t *config)
{
    FILE *file = fopen(path, "re");
    unsigned long long number;
    if (!file)
        return false;
    bool read = fscanf(file, "event=%llx", &number) == 1;
    fclose(file);
    *config = read ? number : 0;
    return read;
}

/* Energy belongs to a package, not to a process: it is opened on a CPU. */
static void try_energy(struct list *list)
{
    static const char *const names[] = {"energy-pkg", "energy-cores", "energy-ram", "energy-gpu",
                                        "energy-psys"};
    int64_t type = perf_event_setting(DEVICES "/power/type", -1);
    size_t before = list->count;
    for (size_t i = 0; type >= 0 && i < sizeof names / sizeof *names; i++) {
        char path[128];
        struct perf_event_attr attr = {.type = (uint32_t)type};
        snprintf(path, sizeof path, DEVICES "/power/events/%s", names[i]);
        uint64_t config;
        if (!read_event(path, &config))
            continue;
        attr.config = config;
        struct doctor_probe *probe = probe_add(list, "energy", names[i]);
        int event = open_event(&attr, -1, (int)perf_event_setting(DEVICES "/power/cpumask", 0));
        probe->available = event >= 0;
        if (event >= 0)
            close(event);
        else
            explain_probe(errno, &attr, probe->why);
    }
    if (list->count == before)
        snprintf(probe_add(list, "energy", "energy-pkg")->why, DOCTOR_PROBE_WHY,
                 "no RAPL counters here (no PMU called power)");
}

static void try_device(struct list *list, const char *name, const char *group, const char *without)
{
    char path[128];
    snprintf(path, sizeof path, DEVICES "/%s/type", name);
    int64_t type = perf_event_setting(path, -1);
    struct doctor_probe *probe = probe_add(list, group, name);
    if (type < 0) {
        snprintf(probe->why, sizeof probe->why, "%s", without);
        return;
    }
    struct perf_event_attr attr = {.type = (uint32_t)type, .sample_period = 1 << 20};
    try_on_self(probe, &attr);
}

/* --- BPF --- */

/* The smallest program of the kind that walks stacks in the kernel: r0 = 0; exit. */
static void try_bpf(struct list *list)
{
    static const struct bpf_insn program[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
                                              {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_PERF_EVENT,
                           .insn_cnt = 2,
                           .insns = (uint64_t)(uintptr_t)program,
                           .license = (uint64_t)(uintptr_t) "GPL"};
    struct doctor_probe *probe = probe_add(list, "bpf", "perf-event-program");
    int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
    probe->available = fd >= 0;
    if (fd >= 0)
        close(fd);
    else if (errno == EPERM || errno == EACCES)
        snprintf(probe->why, sizeof probe->why, "not permitted: needs CAP_BPF and CAP_PERFMON");
    else if (errno == ENOSYS || errno == EINVAL)
        snprintf(probe->why, sizeof probe->why, "this kernel has no BPF programs for perf events");
    else
        snprintf(probe->why, sizeof probe->why, "bpf: %s", strerror(errno));
}

size_t doctor_probe_all(struct doctor_probe probes[DOCTOR_PROBES_MOST])
{
    struct list list = {.items = probes};
    try_events(&list, "software", PERF_TYPE_SOFTWARE, software, sizeof software / sizeof *software);
    try_events(&list, "hardware", PERF_TYPE_HARDWARE, hardware, sizeof hardware / sizeof *hardware);
    try_device(&list, "ibs_op", "hardware", "only AMD CPUs have it, and few hypervisors show it");
    try_device(&list, "ibs_fetch", "hardware", "only AMD CPUs have it, and few hypervisors show it");
    for (size_t i = 0; i < sizeof tracepoints / sizeof *tracepoints; i++)
        try_tracepoint(&list, tracepoints[i]);
    try_energy(&list);
    try_bpf(&list);
    return list.count;
}
