/* truth.h - what every program of this directory has in common: it knows the truth about itself.
 *
 *   PROGRAM --truth [options]        prints the truth and ends
 *   PROGRAM [--seconds S] [options]  works for S seconds of its thread's CPU time (0.5)
 *
 * The truth is lines of text; the tests read them (tests/system/truth.py):
 *
 *   contains FUNCTION   samples with this function in their stack are the ones to check; `*` stands for any
 * letters stack F;F;...       what such a sample's stack may be, from the named outermost function to the
 * leaf. A frame is a pattern: `*` is any one frame, `**` any number of them, F{n} is F n times origin start
 * above the first function of `stack` there is only start-up code, from _start on origin thread       above
 * it there are only the C library's frames that start a thread or a context origin any          nothing is
 * known of what is above it share FUNCTION S    (after a run) seconds of CPU time that were spent in this
 * function and what it called process S           (after a run) seconds of CPU time of the whole process
 *
 * Functions whose names matter are TRUTH_FUNCTION, so that the compiler neither inlines, clones nor drops
 * them, and they call through TRUTH_CALL, so that no call becomes a jump. They are global so that a stripped
 * symbol table would still name them. */
#ifndef TRUTH_H
#define TRUTH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__clang__)
#define TRUTH_FUNCTION __attribute__((noinline, used, optnone))
#else
#define TRUTH_FUNCTION __attribute__((noipa, used))
#endif

/* A call that is not the function's last act. */
#define TRUTH_CALL(call)                                                                                     \
    do {                                                                                                     \
        call;                                                                                                \
        __asm__ volatile("" ::: "memory");                                                                   \
    } while (0)

/* Work that no compiler removes, about one cycle a round, in the function itself. */
#define TRUTH_WORK(rounds)                                                                                   \
    do {                                                                                                     \
        for (unsigned long round_ = 0; round_ < (unsigned long)(rounds); round_++)                           \
            __asm__ volatile("" : "+r"(round_));                                                             \
    } while (0)

#define TRUTH_CHUNK 400000ul /* rounds: about 0.1 to 0.2 ms */

struct truth {
    bool asked;     /* --truth was given */
    double seconds; /* how long to work */
    double started; /* thread's CPU time at the start of the work */
    int argument_count;
    char **arguments; /* what is left of the command line; [0] is the first argument */
};

static inline double truth_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline struct truth truth_begin(int argc, char **argv)
{
    struct truth truth = {false, 0.5, truth_clock(CLOCK_THREAD_CPUTIME_ID), argc - 1, argv + 1};

    while (truth.argument_count > 0) {
        if (strcmp(truth.arguments[0], "--truth") == 0) {
            truth.asked = true;
        } else if (strcmp(truth.arguments[0], "--seconds") == 0 && truth.argument_count > 1) {
            truth.seconds = atof(truth.arguments[1]);
            truth.arguments++;
            truth.argument_count--;
        } else {
            break;
        }
        truth.arguments++;
        truth.argument_count--;
    }
    return truth;
}

/* Whether there is CPU time left to work in. Of the thread that called truth_begin. */
static inline bool truth_more(const struct truth *truth)
{
    return truth_clock(CLOCK_THREAD_CPUTIME_ID) - truth->started < truth->seconds;
}

/* Argument `index` as a number, or `otherwise` when there is none. */
static inline long truth_number(const struct truth *truth, int index, long otherwise)
{
    return index < truth->argument_count ? atol(truth->arguments[index]) : otherwise;
}

static inline bool truth_flag(const struct truth *truth, const char *name)
{
    for (int i = 0; i < truth->argument_count; i++)
        if (strcmp(truth->arguments[i], name) == 0)
            return true;
    return false;
}

static inline void truth_share(const char *function, double seconds)
{
    printf("share %s %.9f\n", function, seconds);
}

/* Last line of a run. */
static inline void truth_process(void)
{
    printf("process %.9f\n", truth_clock(CLOCK_PROCESS_CPUTIME_ID));
}

#endif
