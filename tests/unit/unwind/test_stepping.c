/* test_stepping.c - after every single instruction of a whole program, is the walk right?
 *
 * A child is stepped by ptrace from its first instruction to its end. The stepper keeps the truth beside it:
 * a shadow stack of return addresses, made only of what instructions do. An instruction after which sp is 8
 * lower, the word at sp is the address behind that instruction, and pc is elsewhere, was a call; entries
 * whose slot sp has risen above are gone, by whatever means. A signal opens a level of its own (the stack may
 * be another), with the interrupted pc as truth; coming back to that pc and sp closes it. After each
 * instruction unwind_walk goes out from the child's registers, once with a cache and every so often without,
 * and must give exactly the shadow stack, then say UNWIND_OUTERMOST.
 *
 * What is excused, and how much of it, is code whose image does not describe it: see is_excused. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process_space.h"

#define DEPTH_MAX  256
#define LEVEL_MAX  8
#define STACK_SIZE 16384

/* One stack's worth of truth. */
struct level {
    uint64_t slot[DEPTH_MAX], address[DEPTH_MAX];
    unsigned count;
    uint64_t interrupted_pc, interrupted_sp; /* of the level below, when a signal opened this one */
};

struct stepper {
    pid_t pid;
    struct process_space process;
    struct unwind_cache *cache;
    struct level levels[LEVEL_MAX];
    unsigned level;
    struct user_regs_struct before, now;
    uint8_t stack[STACK_SIZE];
    uint64_t steps, wrong, excused, deepest, signal_steps;
};

static uint64_t word_at(struct stepper *stepper, uint64_t address)
{
    uint64_t word = 0;
    process_space_word(&stepper->process, address, &word);
    return word;
}

static void push(struct stepper *stepper, uint64_t slot, uint64_t address)
{
    struct level *level = &stepper->levels[stepper->level];
    if (level->count < DEPTH_MAX) {
        level->slot[level->count] = slot;
        level->address[level->count++] = address;
    }
}

/* The shadow stack after one instruction, or after the kernel delivered a signal. */
static void follow(struct stepper *stepper, bool delivered)
{
    const struct user_regs_struct *before = &stepper->before, *now = &stepper->now;
    struct level *level = &stepper->levels[stepper->level];
    if (delivered) {
        level = &stepper->levels[++stepper->level];
        *level = (struct level){.interrupted_pc = before->rip, .interrupted_sp = before->rsp};
        push(stepper, now->rsp, word_at(stepper, now->rsp));
        return;
    }
    if (stepper->level > 0 && now->rip == level->interrupted_pc && now->rsp == level->interrupted_sp) {
        stepper->level--;
        return;
    }
    while (level->count > 0 && level->slot[level->count - 1] < now->rsp)
        level->count--;
    if (now->rsp == before->rsp - 8) {
        uint64_t word = word_at(stepper, now->rsp);
        if (word - before->rip >= 2 && word - before->rip <= 8 && now->rip != word)
            push(stepper, now->rsp, word);
    }
}

/* The truth as a walk should give it; returns the number of frames. */
static size_t truth(const struct stepper *stepper, uint64_t *frames)
{
    size_t count = 0;
    frames[count++] = stepper->now.rip;
    for (unsigned i = stepper->level + 1; i-- > 0;) {
        const struct level *level = &stepper->levels[i];
        for (unsigned k = level->count; k-- > 0;)
            frames[count++] = level->address[k];
        if (i > 0)
            frames[count++] = level->interrupted_pc;
    }
    return count;
}

static void fill_registers(const struct user_regs_struct *from, struct arch_registers *to)
{
    const uint64_t values[] = {from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
                               from->rbp, from->rsp, from->r8,  from->r9,  from->r10, from->r11,
                               from->r12, from->r13, from->r14, from->r15, from->rip};
    memcpy(to->value, values, sizeof values);
    to->valid = 0x1ffff;
}

static struct unwind_result walk(struct stepper *stepper, bool cached, struct unwind_frame *frames)
{
    struct arch_registers registers;
    struct iovec local = {stepper->stack, STACK_SIZE}, remote = {(void *)stepper->now.rsp, STACK_SIZE};
    ssize_t size = process_vm_readv(stepper->pid, &local, 1, &remote, 1, 0);
    struct unwind_memory memory = {stepper->now.rsp, stepper->now.rsp + (uint64_t)(size > 0 ? size : 0),
                                   stepper->stack, process_space_word, &stepper->process};
    fill_registers(&stepper->now, &registers);
    return unwind_walk(&stepper->process.space, &memory, &registers, cached ? stepper->cache : NULL, frames,
                       DEPTH_MAX);
}

static bool agrees(const struct unwind_frame *frames, struct unwind_result result, const uint64_t *expected,
                   size_t count)
{
    if (result.end != UNWIND_OUTERMOST || result.count != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (frames[i].pc != expected[i])
            return false;
    return true;
}

static void explain(const struct stepper *stepper, const struct unwind_frame *frames,
                    struct unwind_result result, const uint64_t *expected, size_t count)
{
    size_t most = result.count > count ? result.count : count;
    fprintf(stderr, "# step %lu: end %d, %zu frames, truth %zu\n", stepper->steps, (int)result.end,
            result.count, count);
    for (size_t i = 0; i < most && i < 20; i++) {
        uint64_t pc = i < count ? expected[i] : frames[i].pc;
        const struct process_mapping *mapping = process_space_mapping(&stepper->process, pc);
        fprintf(stderr, "#  %2zu walk %12lx truth %12lx  %s+0x%lx\n", i, i < result.count ? frames[i].pc : 0,
                i < count ? expected[i] : 0, mapping != NULL ? mapping->path : "?",
                mapping != NULL ? pc - mapping->bias : pc);
    }
}

/* What an image does not say cannot be known. Such a walk must be right as far as it goes and say why it
 * ended: NO_ROWS: crtbegin.o's __do_global_dtors_aux is compiled without call-frame information, and the C
 * library calls it on its way out; ODD_RULE: the end of __longjmp, where sp is already another stack's,
 * restored from a register. */
static bool is_excused(const struct unwind_frame *frames, struct unwind_result result,
                       const uint64_t *expected, size_t count)
{
    for (size_t i = 0; i < result.count; i++)
        if (i >= count || frames[i].pc != expected[i])
            return false;
    return result.end == UNWIND_ODD_RULE || result.end == UNWIND_NO_ROWS;
}

/* mmap, mprotect or munmap just returned: `syscall` leaves the next address in rcx. */
static bool maps_changed(const struct stepper *stepper)
{
    uint64_t number = stepper->before.rax;
    return stepper->now.rcx == stepper->now.rip && (number == 9 || number == 10 || number == 11);
}

static void check(struct stepper *stepper)
{
    struct unwind_frame frames[DEPTH_MAX];
    uint64_t expected[DEPTH_MAX * 2];
    size_t count = truth(stepper, expected);
    struct unwind_result result = walk(stepper, stepper->steps % 16 != 0, frames);
    stepper->deepest = count > stepper->deepest ? count : stepper->deepest;
    stepper->signal_steps += stepper->level > 0;
    if (agrees(frames, result, expected, count))
        return;
    if (is_excused(frames, result, expected, count)) {
        stepper->excused++;
        return;
    }
    if (stepper->wrong++ < 20)
        explain(stepper, frames, result, expected, count);
}

static pid_t start_child(const char *program)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        unsetenv("LD_BIND_NOW"); /* lazy binding is the interesting code */
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl(program, program, NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return WIFSTOPPED(status) ? pid : -1;
}

/* Runs the child for one instruction, or lets it enter a signal handler. False when it has ended. */
static bool step(struct stepper *stepper, int signal, int *next_signal)
{
    int status;
    if (ptrace(PTRACE_SINGLESTEP, stepper->pid, NULL, (void *)(long)signal) != 0 ||
        waitpid(stepper->pid, &status, 0) != stepper->pid || !WIFSTOPPED(status))
        return false;
    *next_signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    return ptrace(PTRACE_GETREGS, stepper->pid, NULL, &stepper->now) == 0;
}

static void run(struct stepper *stepper)
{
    int signal = 0, next_signal;
    ptrace(PTRACE_GETREGS, stepper->pid, NULL, &stepper->now);
    for (;;) {
        check(stepper);
        stepper->before = stepper->now;
        do {
            if (!step(stepper, signal, &next_signal))
                return;
            if (next_signal == 0)
                follow(stepper, signal != 0);
            signal = next_signal;
        } while (signal != 0);
        stepper->steps++;
        if (maps_changed(stepper))
            process_space_read(&stepper->process, stepper->pid);
    }
}

static void every_instruction_can_be_walked_from(void **state)
{
    (void)state;
    struct stepper *stepper = calloc(1, sizeof *stepper);
    assert_non_null(stepper);
    stepper->cache = calloc(1, unwind_cache_size());
    stepper->pid = start_child(STEPPED_PROGRAM);
    if (stepper->pid < 0) {
        fprintf(stderr, "# needs ptrace: not permitted here\n");
        skip();
    }
    assert_true(process_space_read(&stepper->process, stepper->pid));
    run(stepper);
    fprintf(stderr, "# %lu instructions, deepest stack %lu, %lu in signal handlers, %lu excused, %lu wrong\n",
            stepper->steps, stepper->deepest, stepper->signal_steps, stepper->excused, stepper->wrong);
    assert_int_equal(stepper->wrong, 0);
    assert_true(stepper->steps > 20000 && stepper->signal_steps > 500);
    assert_true(stepper->excused < 200 && stepper->excused < stepper->steps / 100);
    process_space_free(&stepper->process);
    free(stepper->cache);
    free(stepper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_instruction_can_be_walked_from)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
