#include "cli_doctor.h"

static cli_doctor_check *const checks[] = {
    cli_doctor_check_capabilities, cli_doctor_check_seccomp,     cli_doctor_check_kernel,
    cli_doctor_check_perf,         cli_doctor_check_paranoid,    cli_doctor_check_mlock,
    cli_doctor_check_rate,         cli_doctor_check_cpu_time,    cli_doctor_check_ptrace,
    cli_doctor_check_short_lives,  cli_doctor_check_calls,       cli_doctor_check_refused,
    cli_doctor_check_kernel_names, cli_doctor_check_descriptors, cli_doctor_check_memory,
    cli_doctor_check_cgroup,       cli_doctor_check_processes,   cli_doctor_check_symbols,
    cli_doctor_check_cache,        cli_doctor_check_space,
};

void cli_doctor_check_all(struct cli_doctor *doctor)
{
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        checks[i](doctor);
}
