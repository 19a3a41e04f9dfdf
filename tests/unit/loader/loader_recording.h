/* loader_recording.h - a recording as far as the loader is concerned: real programs with the agent in them,
 * and what they counted.
 *
 *     test_loader PROBE LIBRARY TARGET ...     TARGETs: dynamic ones first; those that end in "static" are static
 *
 * The probe (agent_probe.c) counts calls; the programs (agent_target.c) know how many they made. */
#ifndef LOADER_RECORDING_H
#define LOADER_RECORDING_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "agent_target.h"
#include "loader.h"

enum { MEMORY = 1 << 20, FUNCTIONS = 16, OWN_SIZE = 8192, RECORDS = 2 };

/* A recording, as far as the loader is concerned. */
struct tally {
    struct helper helper;
    struct loader_function functions[FUNCTIONS];
    size_t function_count;
    struct loader_plans *plans;
    struct target_truth *truth;
    int truth_file, go;
    pid_t pid;
    struct loader_agent *agent;
    uint8_t *region;
    uint64_t *words; /* in it, the probe's */
    uint32_t *inside;
    int status;
    bool (*constrain)(void); /* in the program, before it begins; NULL: nothing */
    bool refuses;            /* prepare fails */
    bool large;              /* its tables are, from the beginning */
};

enum { PIECES = 4, LARGE = 256 << 20 };
extern const char *loader_test_library;
extern char **loader_test_targets;
extern int loader_test_target_count;
extern struct loader_image *loader_test_probe;

void loader_test_must(int result, const struct base_error *error);

void loader_test_nap_us(long us);

void loader_test_want(struct tally *tally, const char *name, const char *image, const char *handler,
                      uint64_t cookie);

struct tally loader_test_begin_tally(const char *handler);

void loader_test_plan(struct tally *tally);

void loader_test_finish_tally(struct tally *tally);

struct loader_options loader_test_options_of(struct tally *tally);

int loader_test_load(struct tally *tally, pid_t pid, bool held, struct base_error *error);

const struct loader_hook *loader_test_hook_of(const struct tally *tally, const char *name);

void loader_test_start(struct tally *tally, const char *target, const char *mode, const char *argument,
                       const char *number);

void loader_test_let_it_begin(struct tally *tally);

unsigned loader_test_ours_in(pid_t pid, unsigned *all);

void loader_test_end(struct tally *tally);

void loader_test_begin_loop(struct tally *tally, const char *target, const char *mode, const char *number);

void loader_test_wait_for_more(const struct tally *tally);

void loader_test_must_leave(struct tally *tally, pid_t pid, struct loader_left *left);

bool loader_test_open_probe(const char *path);

#endif
