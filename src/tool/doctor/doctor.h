/* doctor.h - what keeps Tally from measuring, one check a function, each with the exact remedy.
 *
 * Checks only read and try; nothing is changed on the machine. Settings are read below `root` ("" on a real
 * machine, a directory made up by a test), so that every state can be tested on any machine. Context: tool.
 * Source: Documentation/admin-guide/sysctl/kernel.rst, perf-security.rst, capabilities(7). */
#ifndef DOCTOR_H
#define DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_LIMITED, /* recording works, something of it does not */
    DOCTOR_MISSING, /* recording does not work */
};

struct doctor_line {
    const char *name; /* "perf_event_paranoid" */
    enum doctor_state state;
    char meaning[360]; /* the value found, and what it means for Tally */
    char remedy[256];  /* a command, or empty */
};

enum { DOCTOR_LINES = 32 };

struct doctor {
    const char *root;
    uint64_t capabilities; /* effective, of this process; bit CAP_x */
    bool filtered;         /* a seccomp filter is on this process */
    bool sampled;          /* perf_event_open was tried with success */
    struct doctor_line lines[DOCTOR_LINES];
    size_t count;
};

/* The checks, in the order of the report. The first ones fill `capabilities`, `filtered` and
 * `sampled`, which others use.
 */
typedef void doctor_check(struct doctor *doctor);

doctor_check doctor_check_capabilities, doctor_check_seccomp, doctor_check_kernel, doctor_check_perf,
    doctor_check_paranoid, doctor_check_mlock, doctor_check_rate, doctor_check_cpu_time, doctor_check_ptrace,
    doctor_check_short_lives, doctor_check_calls, doctor_check_refused, doctor_check_kernel_names,
    doctor_check_descriptors, doctor_check_memory, doctor_check_cgroup, doctor_check_processes,
    doctor_check_symbols, doctor_check_cache, doctor_check_space;

void doctor_check_all(struct doctor *doctor);

/* Is nothing missing? */
bool doctor_can_record(const struct doctor *doctor);

/* --- for the checks --- */

/* Adds a line; its meaning and remedy follow by doctor_explain and doctor_advise (printf rules). */
struct doctor_line *doctor_add(struct doctor *doctor, const char *name, enum doctor_state state);
void doctor_explain(struct doctor_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_advise(struct doctor_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool doctor_has(const struct doctor *doctor, unsigned capability);

/* A number below root; false when it cannot be read. */
bool doctor_setting(const struct doctor *doctor, const char *path, int64_t *value);

#endif
