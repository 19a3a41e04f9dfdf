/* cli_doctor.h - what keeps Tally from measuring, one check a function, each with the exact remedy.
 *
 * Checks only read and try; nothing is changed on the machine. Settings are read below `root` ("" on a real
 * machine, a directory made up by a test), so that every state can be tested on any machine. Context: tool.
 * Source: Documentation/admin-guide/sysctl/kernel.rst, perf-security.rst, capabilities(7). */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_doctor_state {
    CLI_DOCTOR_OK,
    CLI_DOCTOR_LIMITED, /* recording works, something of it does not */
    CLI_DOCTOR_MISSING, /* recording does not work */
};

struct cli_doctor_line {
    const char *name; /* "perf_event_paranoid" */
    enum cli_doctor_state state;
    char meaning[360]; /* the value found, and what it means for Tally */
    char remedy[256];  /* a command, or empty */
};

enum { CLI_DOCTOR_LINES = 32 };

struct cli_doctor {
    const char *root;
    uint64_t capabilities; /* effective, of this process; bit CAP_x */
    bool filtered;         /* a seccomp filter is on this process */
    bool sampled;          /* perf_event_open was tried with success */
    struct cli_doctor_line lines[CLI_DOCTOR_LINES];
    size_t count;
};

/* The checks, in the order of the report. The first ones fill `capabilities`, `filtered` and
 * `sampled`, which others use.
 */
typedef void cli_doctor_check(struct cli_doctor *doctor);

cli_doctor_check cli_doctor_check_capabilities, cli_doctor_check_seccomp, cli_doctor_check_kernel,
    cli_doctor_check_perf, cli_doctor_check_paranoid, cli_doctor_check_mlock, cli_doctor_check_rate,
    cli_doctor_check_cpu_time, cli_doctor_check_ptrace, cli_doctor_check_short_lives, cli_doctor_check_calls,
    cli_doctor_check_refused, cli_doctor_check_kernel_names, cli_doctor_check_descriptors,
    cli_doctor_check_memory, cli_doctor_check_cgroup, cli_doctor_check_processes, cli_doctor_check_symbols,
    cli_doctor_check_cache, cli_doctor_check_space;

void cli_doctor_check_all(struct cli_doctor *doctor);

/* Is nothing missing? */
bool cli_doctor_can_record(const struct cli_doctor *doctor);

/* --- for the checks --- */

/* Adds a line; its meaning and remedy follow by cli_doctor_explain and cli_doctor_advise (printf rules). */
struct cli_doctor_line *cli_doctor_add(struct cli_doctor *doctor, const char *name,
                                       enum cli_doctor_state state);
void cli_doctor_explain(struct cli_doctor_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cli_doctor_advise(struct cli_doctor_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

bool cli_doctor_has(const struct cli_doctor *doctor, unsigned capability);

/* A number below root; false when it cannot be read. */
bool cli_doctor_setting(const struct cli_doctor *doctor, const char *path, int64_t *value);

#endif
