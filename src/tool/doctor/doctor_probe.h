/* doctor_probe.h - what this machine gives this user, found out by asking for it: every event is opened for
 * an instant on Tally itself, a BPF program of two instructions is loaded and dropped. Nothing stays.
 * Context: tool. Source: perf_event_open(2), bpf(2),
 * Documentation/ABI/testing/sysfs-bus-event_source-devices-*. */
#ifndef DOCTOR_PROBE_H
#define DOCTOR_PROBE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DOCTOR_PROBE_WHY = 160 };

struct doctor_probe {
    const char *group; /* "software", "hardware", "tracepoint", "energy", "bpf" */
    char name[48];
    bool available;
    char why[DOCTOR_PROBE_WHY]; /* when not: the cause; when only partly: what is missing; else empty */
};

enum { DOCTOR_PROBES_MOST = 48 };

/* Tries everything; returns how many there are. */
size_t doctor_probe_all(struct doctor_probe probes[DOCTOR_PROBES_MOST]);

#endif
