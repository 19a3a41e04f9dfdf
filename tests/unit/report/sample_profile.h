/* sample_profile.h - small profiles whose every figure is known, built through the model's own functions. */
#ifndef SAMPLE_PROFILE_H
#define SAMPLE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "profile.h"
#include "report.h"

struct sample_profile {
    struct profile *profile;
    uint32_t program, library, process, threads[2];
    uint16_t counter; /* time.cpu */
};

/* A profile with a process, two threads, two images, the counter, and no samples. */
struct sample_profile sample_profile_new(void);

/* The address 8 bytes into a function, with its line (0: none). */
uint32_t sample_profile_function(struct sample_profile *sample, uint32_t image, const char *name,
                                 uint64_t start, const char *file, uint32_t line);
/* Puts a function that was inlined at the address innermost. */
void sample_profile_inline(struct sample_profile *sample, uint32_t address, const char *name,
                           const char *file, uint32_t line);

/* Counts samples of 1,001,001 ns on a stack, outermost first, ended by 0. CPU: the thread's number. */
void sample_profile_count(struct sample_profile *sample, size_t thread, uint64_t samples,
                          const uint32_t *stack);
#define SAMPLE(sample, thread, samples, ...)                                                                 \
    sample_profile_count(sample, thread, samples, (const uint32_t[]){__VA_ARGS__, 0})

/* The same with node flags for each frame. */
void sample_profile_count_flags(struct sample_profile *sample, size_t thread, uint64_t samples,
                                const uint32_t *stack, const uint32_t *flags);

/* Counts calls from a place (0: unknown) to the beginning of the function that another place lies in. */
void sample_profile_call(struct sample_profile *sample, size_t thread, uint32_t site, uint32_t callee,
                         uint32_t kind, uint64_t calls);

/* The one that the views' expected texts show: recursion, mutual recursion, a signal handler, a cut stack, an
 * inlined function, a long C++ name, an address without a symbol, two threads. */
struct sample_profile sample_profile_full(void);
/* The same with calls: of every kind, recursive, from two threads, from a caller unknown; some functions' not
 * counted. */
struct sample_profile sample_profile_counted(void);

/* Says what of its calls was counted and what counting cost: 24 functions of the program are not covered, one
 * of the library, for reasons that were and were not counted themselves; some have no name. */
void sample_profile_cover(struct sample_profile *sample);

/* A report as text (malloc); fails the test when there is none. */
char *sample_profile_report(const struct profile *profile, const struct view_options *options);

/* The same by annotate_print or the like. */
typedef int sample_profile_printer(const struct profile *profile, const struct view_options *options,
                                   struct base_text *out, struct base_error *error);
char *sample_profile_report_by(sample_profile_printer *print, const struct profile *profile,
                               const struct view_options *options);

#endif
