/* doctor on machines made up below a directory: each setting in each of its states, with the exact remedy.
 */
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "doctor.h"

#define KERNEL "/proc/sys/kernel/"

struct machine {
    char root[64];
    struct doctor doctor;
};

static int make_machine(void **state)
{
    static struct machine machine;
    machine = (struct machine){.root = "/tmp/tally-doctor-XXXXXX"};
    if (!mkdtemp(machine.root))
        return -1;
    machine.doctor.root = machine.root;
    *state = &machine;
    return 0;
}

static int drop_machine(void **state)
{
    struct machine *machine = *state;
    char command[128];
    static const char *const files[] = {KERNEL "perf_event_paranoid",
                                        KERNEL "perf_event_mlock_kb",
                                        KERNEL "perf_event_max_sample_rate",
                                        KERNEL "perf_cpu_time_max_percent",
                                        KERNEL "kptr_restrict",
                                        KERNEL "yama/ptrace_scope",
                                        KERNEL "yama",
                                        KERNEL,
                                        "/proc/sys",
                                        "/proc/self/status",
                                        "/proc/self/mounts",
                                        "/proc/self",
                                        "/proc/kallsyms",
                                        "/proc",
                                        "/sys/fs/cgroup/perf_event",
                                        "/sys/fs/cgroup",
                                        "/sys/fs",
                                        "/sys",
                                        ""};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(command, sizeof command, "%s%s", machine->root, files[i]);
        remove(command);
    }
    return access(machine->root, F_OK) == 0 ? -1 : 0;
}

/* Writes a file below the root, with its directories. */
static void put(struct machine *machine, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", machine->root, name);
    for (char *slash = path + strlen(machine->root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Runs one check; it must add a line in this state, with this remedy. */
static const struct doctor_line *expect(struct machine *machine, doctor_check *check, enum doctor_state state,
                                        const char *remedy)
{
    machine->doctor.count = 0;
    check(&machine->doctor);
    assert_int_equal(machine->doctor.count, 1);
    const struct doctor_line *line = &machine->doctor.lines[0];
    assert_int_equal(line->state, state);
    assert_string_equal(line->remedy, remedy);
    assert_true(line->meaning[0]);
    return line;
}

static void paranoid(void **state)
{
    struct machine *machine = *state;
    static const struct {
        const char *value;
        enum doctor_state state;
        const char *remedy;
    } cases[] = {
        {"-1\n", DOCTOR_OK, ""},
        {"0\n", DOCTOR_OK, ""},
        {"1\n", DOCTOR_LIMITED, "sudo sysctl kernel.perf_event_paranoid=0"},
        {"2\n", DOCTOR_LIMITED, "sudo sysctl kernel.perf_event_paranoid=1"},
        {"3\n", DOCTOR_MISSING, "sudo sysctl kernel.perf_event_paranoid=1"},
        {"4\n", DOCTOR_MISSING, "sudo sysctl kernel.perf_event_paranoid=1"},
    };
    expect(machine, doctor_check_paranoid, DOCTOR_MISSING, ""); /* no such file */
    machine->doctor.sampled = false;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(machine, KERNEL "perf_event_paranoid", cases[i].value);
        machine->doctor.capabilities = 0;
        expect(machine, doctor_check_paranoid, cases[i].state, cases[i].remedy);
        machine->doctor.capabilities = UINT64_C(1) << CAP_PERFMON;
        expect(machine, doctor_check_paranoid, DOCTOR_OK, "");
    }
    machine->doctor.capabilities = 0;
    machine->doctor.sampled = true; /* a kernel without the patch that gives 3 and 4 a meaning */
    expect(machine, doctor_check_paranoid, DOCTOR_LIMITED, "sudo sysctl kernel.perf_event_paranoid=1");
}

static void locked_memory_for_rings(void **state)
{
    struct machine *machine = *state;
    machine->doctor.capabilities = 0;
    put(machine, KERNEL "perf_event_mlock_kb", "516");
    expect(machine, doctor_check_mlock, DOCTOR_OK, "");
    put(machine, KERNEL "perf_event_mlock_kb", "64");
    expect(machine, doctor_check_mlock, DOCTOR_LIMITED, "sudo sysctl kernel.perf_event_mlock_kb=516");
    machine->doctor.capabilities = UINT64_C(1) << CAP_IPC_LOCK;
    expect(machine, doctor_check_mlock, DOCTOR_OK, "");
}

static void rates(void **state)
{
    struct machine *machine = *state;
    static const char remedy[] = "sudo sysctl kernel.perf_event_max_sample_rate=100000";
    put(machine, KERNEL "perf_event_max_sample_rate", "100000");
    expect(machine, doctor_check_rate, DOCTOR_OK, "");
    put(machine, KERNEL "perf_event_max_sample_rate", "4000");
    assert_non_null(strstr(expect(machine, doctor_check_rate, DOCTOR_LIMITED, remedy)->meaning,
                           "the default rate works"));
    put(machine, KERNEL "perf_event_max_sample_rate", "300");
    assert_non_null(strstr(expect(machine, doctor_check_rate, DOCTOR_LIMITED, remedy)->meaning,
                           "less than the default rate"));
    put(machine, KERNEL "perf_cpu_time_max_percent", "25");
    expect(machine, doctor_check_cpu_time, DOCTOR_OK, "");
    put(machine, KERNEL "perf_cpu_time_max_percent", "0");
    expect(machine, doctor_check_cpu_time, DOCTOR_OK, "");
    put(machine, KERNEL "perf_cpu_time_max_percent", "1");
    expect(machine, doctor_check_cpu_time, DOCTOR_LIMITED, "sudo sysctl kernel.perf_cpu_time_max_percent=25");
}

static void kernel_names(void **state)
{
    struct machine *machine = *state;
    machine->doctor.capabilities = 0;
    put(machine, KERNEL "kptr_restrict", "1");
    put(machine, KERNEL "perf_event_paranoid", "2");
    expect(machine, doctor_check_kernel_names, DOCTOR_LIMITED, ""); /* no kallsyms: nothing helps */
    put(machine, "/proc/kallsyms", "0000000000000000 T startup_64\n0000000000000000 T secondary\n");
    expect(machine, doctor_check_kernel_names, DOCTOR_LIMITED,
           "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1");
    put(machine, KERNEL "perf_event_paranoid", "1");
    expect(machine, doctor_check_kernel_names, DOCTOR_LIMITED, "sudo sysctl kernel.kptr_restrict=0");
    /* The first symbols of a kernel really are at 0: per-CPU variables. */
    put(machine, "/proc/kallsyms", "0000000000000000 A fixed_percpu_data\nffffffff81000000 T startup_64\n");
    expect(machine, doctor_check_kernel_names, DOCTOR_OK, "");
}

static void who_we_are(void **state)
{
    struct machine *machine = *state;
    static const char remedy[] = "sudo tally record ...";
    put(machine, "/proc/self/status",
        "Name:\tx\nSeccomp:\t2\nCapEff:\t0000004000080000\nSeccomp_filters:\t1\n");
    const struct doctor_line *line = expect(machine, doctor_check_capabilities, DOCTOR_OK, "");
    assert_string_equal(line->meaning, "perfmon sys_ptrace: every process of the machine can be recorded");
    assert_true(doctor_has(&machine->doctor, CAP_PERFMON));
    assert_false(doctor_has(&machine->doctor, CAP_SYS_ADMIN));
    expect(machine, doctor_check_seccomp, DOCTOR_OK, "");
    assert_true(machine->doctor.filtered);
    put(machine, "/proc/self/status", "Name:\tx\nSeccomp:\t0\nCapEff:\t0000000000000000\n");
    expect(machine, doctor_check_capabilities, DOCTOR_LIMITED, remedy);
    expect(machine, doctor_check_seccomp, DOCTOR_OK, "");
    assert_false(machine->doctor.filtered);
}

static void other_settings(void **state)
{
    struct machine *machine = *state;
    assert_string_equal(expect(machine, doctor_check_ptrace, DOCTOR_OK, "")->meaning,
                        "absent: no restriction");
    put(machine, KERNEL "yama/ptrace_scope", "3");
    expect(machine, doctor_check_ptrace, DOCTOR_OK, "");
    expect(machine, doctor_check_cgroup, DOCTOR_LIMITED, "sudo mount -t cgroup2 none /sys/fs/cgroup");
    put(machine, "/sys/fs/cgroup/perf_event", "");
    expect(machine, doctor_check_cgroup, DOCTOR_LIMITED,
           "reboot with the kernel option systemd.unified_cgroup_hierarchy=1");
    put(machine, "/proc/self/mounts",
        "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n");
    expect(machine, doctor_check_cgroup, DOCTOR_LIMITED,
           "reboot with the kernel option systemd.unified_cgroup_hierarchy=1");
    put(machine, "/proc/self/mounts",
        "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /a\\040place/unified cgroup2 rw 0 0\n");
    expect(machine, doctor_check_cgroup, DOCTOR_OK, "");
    assert_string_equal(machine->doctor.lines[machine->doctor.count - 1].meaning,
                        "mounted at /a place/unified");
}

static void nonsense_is_no_setting(void **state)
{
    struct machine *machine = *state;
    machine->doctor.count = 0;
    put(machine, KERNEL "perf_event_mlock_kb", "");
    doctor_check_mlock(&machine->doctor);
    put(machine, KERNEL "perf_event_max_sample_rate", "many");
    doctor_check_rate(&machine->doctor);
    assert_int_equal(machine->doctor.count, 0);
}

/* On the machine at hand: every check says something, in bounds, and remedies stand only beside faults. */
static void the_real_machine(void **state)
{
    (void)state;
    struct doctor doctor = {.root = ""};
    doctor_check_all(&doctor);
    assert_in_range(doctor.count, 10, DOCTOR_LINES);
    bool missing = false;
    for (size_t i = 0; i < doctor.count; i++) {
        const struct doctor_line *line = &doctor.lines[i];
        assert_true(line->meaning[0] && strlen(line->meaning) + 1 < sizeof line->meaning);
        assert_true(line->state != DOCTOR_OK || !line->remedy[0]);
        missing |= line->state == DOCTOR_MISSING;
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(line->name, doctor.lines[j].name);
    }
    assert_int_equal(doctor_can_record(&doctor), !missing);
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, make_machine, drop_machine)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(paranoid),
        ON_A_MACHINE(locked_memory_for_rings),
        ON_A_MACHINE(rates),
        ON_A_MACHINE(kernel_names),
        ON_A_MACHINE(who_we_are),
        ON_A_MACHINE(other_settings),
        ON_A_MACHINE(nonsense_is_no_setting),
        cmocka_unit_test(the_real_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
