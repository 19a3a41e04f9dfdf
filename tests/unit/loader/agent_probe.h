/* agent_probe.h - what the probe and the test share. */
#ifndef AGENT_PROBE_H
#define AGENT_PROBE_H

#include <stdint.h>

#define PROBE_MAGIC   0x45424f5250u
#define PROBE_POINTED 77

/* Words of the region; those below PROBE_WRONG are counters. */
#define PROBE_WRONG    65
#define PROBE_ALIVE    66
#define PROBE_CHILD    67
#define PROBE_NOTIFIED 68 /* and ANSWERED: of the doorbell; 2 further on: of exec */
#define PROBE_ANSWERED 69
#define PROBE_PROCESS  72 /* that notified last */
#define PROBE_WORDS    512

struct probe_parameters {
    uint64_t magic;
    volatile uint64_t *words;
    const volatile uint64_t *alive;
    volatile uint32_t *inside; /* hooks with a frame, now */
};

#endif
