/* Checks of the kernel and its settings. */
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "calls_probe.h"
#include "doctor.h"
#include "perf_event.h"
#include "perf_filter.h"

static bool may_all(const struct doctor *doctor)
{
    return doctor_has(doctor, CAP_PERFMON) || doctor_has(doctor, CAP_SYS_ADMIN);
}

void doctor_check_kernel(struct doctor *doctor)
{
    struct utsname name;
    unsigned major = 0, minor = 0;
    if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
        return;
    bool old = major < 4 || (major == 4 && minor < 1);
    bool middling = major < 5 || (major == 5 && minor < 12);
    enum doctor_state state = old ? DOCTOR_MISSING : middling ? DOCTOR_LIMITED : DOCTOR_OK;
    struct doctor_line *line = doctor_add(doctor, "kernel", state);
    if (old)
        doctor_explain(line, "Linux %u.%u: Tally needs 4.1 or later", major, minor);
    else if (middling)
        doctor_explain(
            line,
            "Linux %u.%u: works; since 5.12 the kernel itself says which build of a file is mapped, "
            "until then a file replaced while it runs may be mistaken",
            major, minor);
    else
        doctor_explain(line, "Linux %u.%u", major, minor);
}

/* Exactly what `tally record` would open. */
void doctor_check_perf(struct doctor *doctor)
{
    struct perf_event_form form = {.want_kernel_time = true,
                                   .want_kernel_frames = true,
                                   .stacks = PERF_STACKS_FULL,
                                   .stack_copy = 16384};
    struct base_error error = {0};
    int result = perf_event_probe(&form, &error);
    doctor->sampled = result == BASE_OK;
    struct doctor_line *line =
        doctor_add(doctor, "perf_event_open", result == BASE_OK ? DOCTOR_OK : DOCTOR_MISSING);
    if (result == BASE_OK) {
        doctor_explain(line, "tried: samples with stacks, %s",
                       form.kernel_time ? "with the kernel's part" : "of user mode");
        return;
    }
    if (result != BASE_EPERMISSION)
        doctor_explain(line, "tried without success: %s", error.text);
    else if (doctor->filtered)
        doctor_explain(line, "tried and refused, probably by the filter on system calls");
    else
        doctor_explain(line, "tried and refused: see perf_event_paranoid");
    if (result == BASE_EPERMISSION && doctor->filtered)
        doctor_advise(line, "docker run --cap-add PERFMON --security-opt seccomp=unconfined IMAGE");
    else if (result == BASE_EPERMISSION)
        doctor_advise(line, "sudo sysctl kernel.perf_event_paranoid=1");
}

/* 3 is Debian's and 4 Ubuntu's; other kernels take them as 2. */
static void explain_paranoid(struct doctor_line *line, int64_t value, bool sampled)
{
    if (value >= 3 && sampled)
        doctor_explain(
            line, "%" PRId64 ", which this kernel takes as 2: your own processes, in user mode only", value);
    else if (value >= 3)
        doctor_explain(line, "%" PRId64 ": perf events are refused without CAP_PERFMON", value);
    else if (value == 2)
        doctor_explain(line, "2: your own processes, in user mode only; time in the kernel is not counted");
    else if (value == 1)
        doctor_explain(line, "1: your own processes, with the kernel's part; -a and --cgroup need 0 or less");
    else
        doctor_explain(line, "%" PRId64 ": your own processes and whole CPUs", value);
}

void doctor_check_paranoid(struct doctor *doctor)
{
    int64_t value;
    if (!doctor_setting(doctor, "/proc/sys/kernel/perf_event_paranoid", &value)) {
        doctor_explain(doctor_add(doctor, "perf_event_paranoid", DOCTOR_MISSING),
                       "absent: this kernel was built without perf events");
        return;
    }
    bool exempt = may_all(doctor);
    enum doctor_state state = exempt || value < 1              ? DOCTOR_OK
                              : value >= 3 && !doctor->sampled ? DOCTOR_MISSING
                                                               : DOCTOR_LIMITED;
    struct doctor_line *line = doctor_add(doctor, "perf_event_paranoid", state);
    if (exempt)
        doctor_explain(line, "%" PRId64 ": does not bind you (CAP_PERFMON or CAP_SYS_ADMIN)", value);
    else
        explain_paranoid(line, value, doctor->sampled);
    if (state != DOCTOR_OK)
        doctor_advise(line, "sudo sysctl kernel.perf_event_paranoid=%d", value >= 2 ? 1 : 0);
}

/* A ring a CPU, 128 KB at least and a page for its head. */
void doctor_check_mlock(struct doctor *doctor)
{
    enum { SMALLEST_KB = 132, DEFAULT_KB = 516 };
    int64_t value;
    if (!doctor_setting(doctor, "/proc/sys/kernel/perf_event_mlock_kb", &value))
        return;
    bool exempt = doctor_has(doctor, CAP_IPC_LOCK);
    bool ok = exempt || value >= SMALLEST_KB;
    struct doctor_line *line = doctor_add(doctor, "perf_event_mlock_kb", ok ? DOCTOR_OK : DOCTOR_LIMITED);
    if (exempt)
        doctor_explain(line,
                       "%" PRId64 " kB a CPU: does not bind you (CAP_IPC_LOCK); rings are as large as useful",
                       value);
    else
        doctor_explain(line, "%" PRId64 " kB a CPU for rings: %s", value,
                       ok ? "enough at usual rates"
                          : "less than the smallest ring, 132 kB; what exceeds it counts "
                            "against the limit on locked memory");
    if (!ok)
        doctor_advise(line, "sudo sysctl kernel.perf_event_mlock_kb=%d", DEFAULT_KB);
}

void doctor_check_rate(struct doctor *doctor)
{
    enum { DEFAULT_HZ = 999, GOOD_HZ = 10000 };
    int64_t value;
    if (!doctor_setting(doctor, "/proc/sys/kernel/perf_event_max_sample_rate", &value))
        return;
    bool ok = value >= GOOD_HZ;
    struct doctor_line *line =
        doctor_add(doctor, "perf_event_max_sample_rate", ok ? DOCTOR_OK : DOCTOR_LIMITED);
    doctor_explain(line, "%" PRId64 ": %s", value,
                   ok ? "rates up to this (-F)"
                   : value >= DEFAULT_HZ
                       ? "the default rate works, faster ones do not; the kernel lowers "
                         "this by itself when samples took it long"
                       : "less than the default rate of 999; the kernel lowers this by itself when "
                         "samples took it long");
    if (!ok)
        doctor_advise(line, "sudo sysctl kernel.perf_event_max_sample_rate=100000");
}

void doctor_check_cpu_time(struct doctor *doctor)
{
    enum { DEFAULT_PERCENT = 25, LITTLE_PERCENT = 5 };
    int64_t value;
    if (!doctor_setting(doctor, "/proc/sys/kernel/perf_cpu_time_max_percent", &value))
        return;
    bool off = value == 0 || value == 100, ok = off || value >= LITTLE_PERCENT;
    struct doctor_line *line =
        doctor_add(doctor, "perf_cpu_time_max_percent", ok ? DOCTOR_OK : DOCTOR_LIMITED);
    if (off)
        doctor_explain(line, "%" PRId64 ": the kernel never lowers the rate", value);
    else
        doctor_explain(line,
                       "%" PRId64
                       ": the kernel lowers the rate when samples take more of a CPU than this many "
                       "percent",
                       value);
    if (!ok)
        doctor_advise(line, "sudo sysctl kernel.perf_cpu_time_max_percent=%d", DEFAULT_PERCENT);
}

/* Yama restricts attaching by ptrace; perf asks only for the right to read. */
void doctor_check_ptrace(struct doctor *doctor)
{
    int64_t value;
    if (!doctor_setting(doctor, "/proc/sys/kernel/yama/ptrace_scope", &value)) {
        doctor_explain(doctor_add(doctor, "ptrace_scope", DOCTOR_OK), "absent: no restriction");
        return;
    }
    struct doctor_line *line = doctor_add(doctor, "ptrace_scope", DOCTOR_OK);
    doctor_explain(line, "%" PRId64 ": no matter, sampling uses no ptrace", value);
}

/* Exactly what `tally record` would load for programs of many short-lived threads or processes. */
void doctor_check_short_lives(struct doctor *doctor)
{
    struct perf_filter filter;
    struct base_error error = {0};
    int result = perf_filter_open(&filter, true, &error);
    struct doctor_line *line = doctor_add(doctor, "bpf", result == BASE_OK ? DOCTOR_OK : DOCTOR_LIMITED);
    if (result == BASE_OK) {
        perf_filter_close(&filter);
        doctor_explain(line, "tried: threads and processes are sampled however short they live");
        return;
    }
    doctor_explain(line,
                   "tried without success (%s): threads and processes that live shorter than a sampling "
                   "period are missed",
                   error.text);
    if (result == BASE_EPERMISSION)
        doctor_advise(line, "sudo setcap cap_bpf,cap_perfmon+ep $(command -v tally)");
}

/* The addresses of the kernel's symbols read as 0 for those who may not see them. */
static bool kernel_names_shown(const struct doctor *doctor, bool *readable)
{
    char path[512];
    snprintf(path, sizeof path, "%s/proc/kallsyms", doctor->root);
    FILE *file = fopen(path, "re");
    uint64_t address = 0;
    *readable = file != NULL;
    for (int i = 0; file && i < 64 && !address; i++) {
        if (fscanf(file, "%" SCNx64 " %*[^\n]", &address) != 1)
            break;
    }
    if (file)
        fclose(file);
    return address != 0;
}

/* As for short-lived threads: only trying it tells. */
void doctor_check_calls(struct doctor *doctor)
{
    struct base_error error = {0};
    int result = calls_probe(&error);
    struct doctor_line *line = doctor_add(doctor, "calls", result == BASE_OK ? DOCTOR_OK : DOCTOR_LIMITED);
    if (result == BASE_OK)
        doctor_explain(line, "tried: calls and memory can be counted (--calls, --heap)");
    else
        doctor_explain(line, "calls and memory cannot be counted (--calls, --heap): %s", error.text);
}

void doctor_check_kernel_names(struct doctor *doctor)
{
    int64_t restrict_value = 0, paranoid = 0;
    bool readable, shown = kernel_names_shown(doctor, &readable);
    bool known = doctor_setting(doctor, "/proc/sys/kernel/kptr_restrict", &restrict_value);
    struct doctor_line *line = doctor_add(doctor, "kptr_restrict", shown ? DOCTOR_OK : DOCTOR_LIMITED);
    char value[32] = "absent";
    if (known)
        snprintf(value, sizeof value, "%" PRId64, restrict_value);
    if (shown)
        doctor_explain(line, "%s: kernel functions have names", value);
    else if (!readable)
        doctor_explain(line, "%s: there is no /proc/kallsyms, kernel functions (--kernel) have no names",
                       value);
    else
        doctor_explain(line,
                       "%s: kernel addresses are hidden from you, kernel functions (--kernel) have no names",
                       value);
    if (shown || !readable)
        return;
    /* With 0 they are shown to those whom perf_event_paranoid lets see the kernel. */
    doctor_setting(doctor, "/proc/sys/kernel/perf_event_paranoid", &paranoid);
    doctor_advise(line, "sudo sysctl kernel.kptr_restrict=0%s",
                  paranoid > 1 && !may_all(doctor) ? " kernel.perf_event_paranoid=1" : "");
}
