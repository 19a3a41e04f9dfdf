#include "doctor.h"

static doctor_check *const checks[] = {
    doctor_check_capabilities, doctor_check_seccomp,     doctor_check_kernel, doctor_check_perf,
    doctor_check_paranoid,     doctor_check_mlock,       doctor_check_rate,   doctor_check_cpu_time,
    doctor_check_ptrace,       doctor_check_short_lives, doctor_check_calls,  doctor_check_refused,
    doctor_check_kernel_names, doctor_check_descriptors, doctor_check_memory, doctor_check_cgroup,
    doctor_check_processes,    doctor_check_symbols,     doctor_check_cache,  doctor_check_space,
};

void doctor_check_all(struct doctor *doctor)
{
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        checks[i](doctor);
}
