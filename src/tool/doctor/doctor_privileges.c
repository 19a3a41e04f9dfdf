#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"

/* The number behind "NAME:" in /proc/self/status. */
static bool read_status(const struct doctor *doctor, const char *name, int base, uint64_t *value)
{
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/proc/self/status", doctor->root);
    FILE *file = fopen(path, "re");
    bool found = false;
    size_t length = strlen(name);
    while (file && !found && fgets(line, sizeof line, file)) {
        found = !strncmp(line, name, length) && line[length] == ':' &&
                sscanf(line + length + 1, base == 16 ? "%" SCNx64 : "%" SCNu64, value) == 1;
    }
    if (file)
        fclose(file);
    return found;
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
    if (!read_status(doctor, "CapEff", 16, &doctor->capabilities))
        doctor->capabilities = 0;
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
    uint64_t mode = 0;
    read_status(doctor, "Seccomp", 10, &mode);
    doctor->filtered = mode != 0;
    struct doctor_line *line = doctor_add(doctor, "seccomp", DOCTOR_OK);
    if (doctor->filtered)
        doctor_explain(
            line, "system calls are filtered (a container?); whether perf_event_open passes is said below");
    else
        doctor_explain(line, "no filter on system calls");
}
