#include "perf_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arch.h"
#include "perf_record.h"

int64_t perf_event_setting(const char *path, int64_t otherwise)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return otherwise;
    long long value;
    int read = fscanf(file, "%lld", &value);
    fclose(file);
    return read == 1 ? value : otherwise;
}

/* Build-ids are never asked for, though MMAP2 records could carry them: the kernel writes one record for
 * all events that see a mapping, and what it marks as a build-id for us it marks so for events of other
 * tools that did not ask, which take it for a device and an inode (kernel/events/core.c,
 * perf_event_mmap_output). Images are distinguished by device and inode. */
static void fill_attr(const struct perf_event_form *form, const struct perf_event_target *target,
                      struct perf_event_attr *attr)
{
    *attr = (struct perf_event_attr){
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof *attr,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = target->period,
        .sample_type = form->fields,
        .disabled = 1,
        .inherit = form->inherit && target->cpu >= 0,
        .inherit_thread = form->inherit_threads_only && target->cpu >= 0,
        .exclude_kernel = !form->kernel_time,
        .exclude_hv = !form->kernel_time,
        .exclude_idle = 1,
        .mmap = target->side_band,
        .mmap2 = target->side_band,
        .comm = target->side_band,
        .comm_exec = target->side_band,
        .task = target->side_band,
        .enable_on_exec = target->at_exec,
        .sample_id_all = 1,
        .exclude_callchain_user = 1,
        .exclude_callchain_kernel = !form->kernel_frames,
        .watermark = 1,
        .wakeup_watermark = 0, /* half the ring */
        .sample_regs_user = form->fields & PERF_SAMPLE_REGS_USER ? arch_host()->perf_mask : 0,
        .sample_stack_user = form->fields & PERF_SAMPLE_STACK_USER ? form->stack_copy : 0,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
}

static int open_attr(struct perf_event_attr *attr, const struct perf_event_target *target)
{
    pid_t pid = target->cgroup >= 0 ? target->cgroup : target->pid;
    unsigned long flags = PERF_FLAG_FD_CLOEXEC | (target->cgroup >= 0 ? PERF_FLAG_PID_CGROUP : 0ul);
    return (int)syscall(SYS_perf_event_open, attr, pid, target->cpu, -1, flags);
}

static void describe_refusal(struct base_error *error, int number, const struct perf_event_target *target)
{
    int64_t paranoid = perf_event_setting("/proc/sys/kernel/perf_event_paranoid", 2);
    if (number == EACCES && target->pid == -1)
        base_fail(error, BASE_EPERMISSION,
                  "recording a whole CPU or cgroup is not permitted (perf_event_paranoid is %lld); as root: "
                  "sysctl kernel.perf_event_paranoid=0, or give CAP_PERFMON to tally",
                  (long long)paranoid);
    else if (number == EACCES || number == EPERM)
        base_fail(error, BASE_EPERMISSION,
                  "not permitted to record process %d (perf_event_paranoid is %lld; a seccomp filter, as "
                  "containers "
                  "have, or another owner of the process refuses too); run tally as the owner of the process "
                  "or as root, or "
                  "see 'tally doctor'",
                  (int)target->pid, (long long)paranoid);
    else if (number == ENOSYS || number == EOPNOTSUPP || number == ENOENT)
        base_fail(error, BASE_EUNSUPPORTED, "this kernel has no perf_event_open for software clocks");
    else if (number == EMFILE)
        base_fail(error, BASE_EIO, "no file descriptors left for perf events (ulimit -n)");
    else
        base_fail_errno(error, number, "perf_event_open for process %d", (int)target->pid);
}

int perf_event_start(const struct perf_event_form *form, const struct perf_event_target *target,
                     struct base_error *error)
{
    struct perf_event_attr attr;
    fill_attr(form, target, &attr);
    int fd = open_attr(&attr, target);
    if (fd >= 0)
        return fd;
    if (errno == ESRCH)
        return base_fail_errno(error, ESRCH, "process %d", (int)target->pid);
    int number = errno;
    describe_refusal(error, number, target);
    return number == EMFILE ? BASE_EBUSY : number == EACCES || number == EPERM ? BASE_EPERMISSION : BASE_EIO;
}

/* Tries the form on this very process; the event never runs. Returns 0 or an errno. */
static int try_form(const struct perf_event_form *form)
{
    struct perf_event_attr attr;
    fill_attr(form, &(struct perf_event_target){.period = 1000000, .side_band = true}, &attr);
    int fd = open_attr(&attr, &(struct perf_event_target){.pid = 0, .cpu = -1, .cgroup = -1});
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static uint64_t fields_of(const struct perf_event_form *form)
{
    uint64_t fields = PERF_SAMPLE_FIELDS;
    if (form->stacks == PERF_STACKS_FULL)
        fields |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    if (form->kernel_frames)
        fields |= PERF_SAMPLE_CALLCHAIN;
    return fields;
}

int perf_event_probe(struct perf_event_form *form, struct base_error *error)
{
    form->kernel_time = form->want_kernel_time;
    form->kernel_frames =
        form->want_kernel_frames && form->want_kernel_time && form->stacks != PERF_STACKS_NONE;
    form->register_count = arch_host()->perf_count;
    form->fields = fields_of(form);
    int number = try_form(form);
    if ((number == EACCES || number == EPERM) && form->kernel_time) {
        form->kernel_time = form->kernel_frames = false;
        form->fields = fields_of(form);
        snprintf(form->why_no_kernel_time, sizeof form->why_no_kernel_time,
                 "time in the kernel is not counted: perf_event_paranoid is %lld (1 or less allows it)",
                 (long long)perf_event_setting("/proc/sys/kernel/perf_event_paranoid", 2));
        number = try_form(form);
    }
    if (!number)
        return BASE_OK;
    describe_refusal(error, number, &(struct perf_event_target){.pid = getpid()});
    return number == EACCES || number == EPERM ? BASE_EPERMISSION : BASE_EUNSUPPORTED;
}
