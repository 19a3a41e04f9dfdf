/* bench_unwind.c - what a frame costs, in this very process.
 *
 * A stack 30 calls deep, built without frame pointers, is walked over and over from one set of registers: by
 * unwind_walk with its cache, by libunwind's unw_step, by libunwind's unw_backtrace, and by glibc's
 * backtrace. The rounds are interleaved and the medians printed, one figure a line: name value unit. In three
 * places (a function, a signal handler, a handler on an alternate stack) the program counters of unwind_walk
 * and unw_step must be the same; `equal_...` says how many were. Then libLLVM's rows, if it is there: their
 * size and the time to compile them. */
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "process_space.h"

#define DEPTH      43 /* makes 30 frames with those around it */
#define ROUNDS     31
#define FRAMES_MAX 64

struct bench {
    struct process_space process;
    struct unwind_cache *cache;
    uint64_t stack_high;
    int (*glibc_backtrace)(void **, int); /* libunwind has one of the same name */
    double tally[ROUNDS], step[ROUNDS], cached[ROUNDS], glibc[ROUNDS];
};

static struct bench bench; /* a signal handler has no other way to it */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static void registers_of(const ucontext_t *context, struct arch_registers *registers)
{
    static const int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++)
        registers->value[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
    registers->valid = 0x1ffff;
}

/* The live stack from here to its end; what is elsewhere (a stack left by a signal) is asked of the kernel.
 */
static struct unwind_memory live_memory(uint64_t sp)
{
    uint64_t low = sp - 256, high = bench.stack_high;
    if (sp > high || high - sp > 8 << 20) /* an alternate stack */
        high = low;
    return (struct unwind_memory){low, high, (const uint8_t *)low, process_space_word, &bench.process};
}

static size_t walk_tally(const struct arch_registers *registers, struct unwind_frame *frames)
{
    struct unwind_memory memory = live_memory(registers->value[7]);
    return unwind_walk(&bench.process.space, &memory, registers, bench.cache, frames, FRAMES_MAX).count;
}

static size_t walk_step(unw_context_t *context, uint64_t *frames)
{
    unw_cursor_t cursor;
    unw_word_t pc;
    size_t count = 0;
    unw_init_local(&cursor, context);
    do {
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        frames[count++] = pc;
    } while (count < FRAMES_MAX && unw_step(&cursor) > 0);
    return count;
}

static void compare(const char *where, unw_context_t *context)
{
    struct arch_registers registers;
    struct unwind_frame frames[FRAMES_MAX];
    uint64_t expected[FRAMES_MAX];
    registers_of(context, &registers);
    size_t count = walk_tally(&registers, frames), truth = walk_step(context, expected), equal = 0;
    while (equal < count && equal < truth && frames[equal].pc == expected[equal])
        equal++;
    printf("equal_%s %zu of_%zu_and_%zu\n", where, equal, count, truth);
}

static void measure_one(unw_context_t *context, unsigned round)
{
    struct arch_registers registers;
    struct unwind_frame frames[FRAMES_MAX];
    uint64_t others[FRAMES_MAX];
    void *addresses[FRAMES_MAX];
    size_t count = 0;
    registers_of(context, &registers);
    double start = now();
    for (int i = 0; i < 20000; i++)
        count += walk_tally(&registers, frames);
    bench.tally[round] = (now() - start) / (double)count;
    count = 0;
    start = now();
    for (int i = 0; i < 100; i++)
        count += walk_step(context, others);
    bench.step[round] = (now() - start) / (double)count;
    count = 0;
    start = now();
    for (int i = 0; i < 2000; i++)
        count += (size_t)unw_backtrace(addresses, FRAMES_MAX);
    bench.cached[round] = (now() - start) / (double)count;
    count = 0;
    start = now();
    for (int i = 0; i < 100; i++)
        count += (size_t)bench.glibc_backtrace(addresses, FRAMES_MAX);
    bench.glibc[round] = (now() - start) / (double)count;
}

__attribute__((noinline)) static int measure(void)
{
    unw_context_t context;
    unw_getcontext(&context);
    compare("function", &context);
    for (unsigned round = 0; round < ROUNDS; round++)
        measure_one(&context, round);
    return 1;
}

static void handle(int number)
{
    unw_context_t context;
    unw_getcontext(&context);
    compare(number == SIGUSR1 ? "signal" : "alternate", &context);
}

/* 30 frames of three functions with different frames. */
static int descend(int depth, int (*bottom)(void));

__attribute__((noinline)) static int descend_small(int depth, int (*bottom)(void))
{
    return descend(depth - 1, bottom) + depth;
}

__attribute__((noinline)) static int descend_large(int depth, int (*bottom)(void))
{
    volatile char room[400];
    room[depth] = (char)depth;
    int sum = descend_small(depth - 1, bottom);
    return sum + room[depth];
}

__attribute__((noinline)) static int descend(int depth, int (*bottom)(void))
{
    volatile char room[40];
    if (depth <= 0)
        return bottom();
    room[depth % 40] = (char)depth;
    int sum = descend_large(depth - 1, bottom);
    return sum + room[depth % 40];
}

static int raise_both(void)
{
    return raise(SIGUSR1) + raise(SIGUSR2);
}

static void run(void)
{
    static char other_stack[1 << 16];
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR2, &action, NULL);
    descend(DEPTH - 5, measure);
    descend(DEPTH - 5, raise_both);
    double tally = median(bench.tally), step = median(bench.step);
    printf(
        "tally_walk %.2f ns/frame\nlibunwind_unw_step %.1f ns/frame\nlibunwind_unw_backtrace %.2f ns/frame\n"
        "glibc_backtrace %.1f ns/frame\nunw_step_over_tally %.1f times\n",
        tally, step, median(bench.cached), median(bench.glibc), step / tally);
}

static void compile_big(const char *path)
{
    struct elf_image *image;
    struct cfi_statistics statistics = {0};
    double times[ROUNDS];
    size_t size = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        void *blob;
        double start = now();
        if (elf_image_open(path, &image, NULL) != BASE_OK)
            return;
        if (cfi_compile(image, NULL, &blob, &size, &statistics, NULL) == BASE_OK)
            free(blob);
        times[round] = (now() - start) / 1e6;
        elf_image_close(image);
    }
    printf("libllvm_rows %lu rows\nlibllvm_blob %.2f MB\nlibllvm_compile %.1f ms\n", statistics.rows,
           (double)size / 1e6, median(times));
}

int main(int argc, char **argv)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    *(void **)&bench.glibc_backtrace = libc != NULL ? dlsym(libc, "backtrace") : NULL;
    bench.cache = calloc(1, unwind_cache_size());
    if (bench.cache == NULL || bench.glibc_backtrace == NULL || !process_space_read(&bench.process, getpid()))
        return 1;
    bench.stack_high = (uint64_t)(argv + argc); /* above every frame */
    run();
    compile_big(argc > 1 ? argv[1] : "/usr/lib/llvm-14/lib/libLLVM-14.so.1");
    return 0;
}
