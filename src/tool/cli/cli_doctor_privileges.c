#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "cli_doctor.h"

/* The number behind "NAME:" in /proc/self/status. */
static bool read_status(const struct cli_doctor *doctor, const char *name, int base, uint64_t *value)
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

void cli_doctor_check_capabilities(struct cli_doctor *doctor)
{
    char names[160] = "";
    size_t used = 0;
    if (!read_status(doctor, "CapEff", 16, &doctor->capabilities))
        doctor->capabilities = 0;
    for (size_t i = 0; i < sizeof useful / sizeof *useful; i++) {
        if (cli_doctor_has(doctor, useful[i].number))
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? " " : "", useful[i].name);
    }
    bool all = cli_doctor_has(doctor, CAP_SYS_ADMIN) ||
               (cli_doctor_has(doctor, CAP_PERFMON) && cli_doctor_has(doctor, CAP_SYS_PTRACE));
    struct cli_doctor_line *line =
        cli_doctor_add(doctor, "capabilities", all ? CLI_DOCTOR_OK : CLI_DOCTOR_LIMITED);
    if (all) {
        cli_doctor_explain(line, "%s: every process of the machine can be recorded", names);
        return;
    }
    cli_doctor_explain(
        line,
        "%s: only your own processes can be recorded, and neither -a nor --cgroup works unless "
        "perf_event_paranoid is 0 or less",
        used ? names : "none");
    cli_doctor_advise(line, "sudo tally record ...");
}

void cli_doctor_check_seccomp(struct cli_doctor *doctor)
{
    uint64_t mode = 0;
    read_status(doctor, "Seccomp", 10, &mode);
    doctor->filtered = mode != 0;
    struct cli_doctor_line *line = cli_doctor_add(doctor, "seccomp", CLI_DOCTOR_OK);
    if (doctor->filtered)
        cli_doctor_explain(
            line, "system calls are filtered (a container?); whether perf_event_open passes is said below");
    else
        cli_doctor_explain(line, "no filter on system calls");
}
