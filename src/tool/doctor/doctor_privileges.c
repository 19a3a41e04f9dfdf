#include <linux/capability.h>
#include <stdio.h>

#include "base_read.h"
#include "doctor.h"
#include "proc_status.h"

#define STATUS_MOST (1u << 20)

/* /proc/self/status; empty where there is none. */
static void read_status(const struct doctor *doctor, struct base_text *status)
{
    char path[512];
    snprintf(path, sizeof path, "%s/proc/self/status", doctor->root);
    base_read_file(path, STATUS_MOST, status);
}

struct capability {
    unsigned number;
    const char *name;
};

static const struct capability useful[] = {
    {CAP_PERFMON, "perfmon"},     {CAP_SYS_PTRACE, "sys_ptrace"},
    {CAP_SYSLOG, "syslog"},       {CAP_CHECKPOINT_RESTORE, "checkpoint_restore"},
    {CAP_IPC_LOCK, "ipc_lock"},   {CAP_BPF, "bpf"},
    {CAP_SYS_ADMIN, "sys_admin"},
};

void doctor_check_capabilities(struct doctor *doctor)
{
    char names[160] = "";
    size_t used = 0;
    struct base_text status = {0};
    read_status(doctor, &status);
    doctor->capabilities = proc_status_set(base_text_string(&status), "CapEff");
    base_text_free(&status);
    for (size_t i = 0; i < sizeof useful / sizeof *useful; i++) {
        if (doctor_has(doctor, useful[i].number))
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? " " : "", useful[i].name);
    }
    bool all = doctor_has(doctor, CAP_SYS_ADMIN) ||
               (doctor_has(doctor, CAP_PERFMON) && doctor_has(doctor, CAP_SYS_PTRACE));
    struct doctor_line *line = doctor_add(doctor, "capabilities", all ? DOCTOR_OK : DOCTOR_LIMITED);
    if (all) {
        doctor_explain(line, "%s: every process of the machine can be recorded", names);
        return;
    }
    doctor_explain(line,
                   "%s: only your own processes can be recorded, and neither -a nor --cgroup works unless "
                   "perf_event_paranoid is 0 or less",
                   used ? names : "none");
    doctor_advise(line, "sudo tally record ...");
}

void doctor_check_seccomp(struct doctor *doctor)
{
    struct base_text status = {0};
    read_status(doctor, &status);
    doctor->filtered = proc_status_number(base_text_string(&status), "Seccomp", 0) != 0;
    base_text_free(&status);
    struct doctor_line *line = doctor_add(doctor, "seccomp", DOCTOR_OK);
    if (doctor->filtered)
        doctor_explain(
            line, "system calls are filtered (a container?); whether perf_event_open passes is said below");
    else
        doctor_explain(line, "no filter on system calls");
}
