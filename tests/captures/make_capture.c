/* make_capture.c - writes a capture (README.md) of a program at the first moment that is of a kind.
 *
 *     make_capture PROGRAM WHAT > FILE
 *
 * The program is single-stepped from its main on; WHAT is one of the names in `moments`. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process_space.h"

#define MOST       64
#define WORDS_MOST 4096

struct capture {
    pid_t pid;
    struct process_space process;
    struct arch_registers registers;
    struct unwind_frame frames[MOST];
    const struct wire_rule *rules[MOST];
    struct unwind_result result;
    uint64_t addresses[WORDS_MOST], words[WORDS_MOST]; /* what the walk has read */
    size_t word_count;
};

static bool read_and_note(void *context, uint64_t address, uint64_t *word)
{
    struct capture *capture = context;
    if (!process_space_word(&capture->process, address, word) || capture->word_count == WORDS_MOST)
        return false;
    capture->addresses[capture->word_count] = address;
    capture->words[capture->word_count++] = *word;
    return true;
}

static void walk(struct capture *capture, const struct user_regs_struct *from)
{
    const uint64_t values[] = {from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
                               from->rbp, from->rsp, from->r8,  from->r9,  from->r10, from->r11,
                               from->r12, from->r13, from->r14, from->r15, from->rip};
    struct unwind_memory memory = {0, 0, NULL, read_and_note, capture};
    static const struct wire_rule none = {.cfa_kind = WIRE_CFA_NONE};
    memcpy(capture->registers.value, values, sizeof values);
    capture->registers.valid = 0x1ffff;
    capture->word_count = 0;
    capture->result =
        unwind_walk(&capture->process.space, &memory, &capture->registers, NULL, capture->frames, MOST);
    for (size_t i = 0; i < capture->result.count; i++) {
        const struct unwind_frame *frame = &capture->frames[i];
        uint64_t key = frame->pc - (i > 0 && !(frame->flags & UNWIND_SIGNAL));
        const struct process_mapping *mapping = process_space_mapping(&capture->process, key);
        capture->rules[i] = mapping != NULL && mapping->has_rows
                                ? unwind_rows_find(&mapping->rows, key - mapping->bias)
                                : &none;
    }
}

/* The frame behind the first signal trampoline, or 0. */
static size_t interrupted(struct capture *capture)
{
    for (size_t i = 1; i < capture->result.count; i++)
        if (capture->frames[i].flags & UNWIND_SIGNAL)
            return i;
    return 0;
}

static bool is_signal(struct capture *capture)
{
    return interrupted(capture) >= 4;
}

/* The interrupted stack is more than 1 MB away: words that were read show it. */
static bool is_alternate(struct capture *capture)
{
    uint64_t first = capture->addresses[0], last = capture->addresses[capture->word_count - 1];
    return interrupted(capture) >= 3 && (first > last ? first - last : last - first) > 1 << 20;
}

static bool is_plt(struct capture *capture)
{
    return capture->rules[0]->cfa_kind == WIRE_CFA_PLT && (capture->frames[0].pc & 15) >= 11;
}

static bool is_epilogue(struct capture *capture)
{
    uint64_t word;
    return capture->result.count >= 6 &&
           process_space_word(&capture->process, capture->frames[0].pc, &word) && (word & 0xff) == 0xc3 &&
           wire_rule_fp_kind(capture->rules[0]) == WIRE_SAVE_CFA;
}

static bool is_realigned(struct capture *capture)
{
    for (size_t i = 1; i < capture->result.count; i++)
        if (capture->rules[i]->cfa_kind == WIRE_CFA_DEREFERENCE)
            return true;
    return false;
}

static bool is_binding(struct capture *capture)
{
    for (size_t i = 2; i < capture->result.count; i++)
        if (capture->rules[i]->cfa_kind == WIRE_CFA_REGISTER && capture->rules[i]->cfa_register == 3)
            return true;
    return false;
}

static bool is_vdso(struct capture *capture)
{
    const struct process_mapping *mapping = process_space_mapping(&capture->process, capture->frames[0].pc);
    return mapping != NULL && strcmp(mapping->path, "[vdso]") == 0 && capture->result.count > 3;
}

static bool is_odd(struct capture *capture)
{
    return capture->result.end == UNWIND_ODD_RULE;
}

/* Eleven frames deep, so that two builds of one program have the moment in common. */
static bool is_deep(struct capture *capture)
{
    return capture->result.count >= 11;
}

static const struct {
    const char *name;
    bool (*holds)(struct capture *capture);
} moments[] = {{"signal", is_signal},
               {"alternate", is_alternate},
               {"plt", is_plt},
               {"epilogue", is_epilogue},
               {"realigned", is_realigned},
               {"binding", is_binding},
               {"vdso", is_vdso},
               {"odd", is_odd},
               {"deep", is_deep}};

/* The image addresses around `at` for which the rule is the same one. */
static void write_rule(const struct process_mapping *mapping, unsigned cookie, uint64_t at)
{
    const struct wire_rule *rule = unwind_rows_find(&mapping->rows, at);
    uint64_t start = at, end = at + 1;
    while (at - start < 4096 && unwind_rows_find(&mapping->rows, start - 1) == rule)
        start--;
    while (end - at < 4096 && unwind_rows_find(&mapping->rows, end) == rule)
        end++;
    printf("rule %u %lx %lx ", cookie, start, end);
    for (unsigned i = 0; i < sizeof *rule; i++)
        printf("%02x", ((const uint8_t *)rule)[i]);
    printf("\n");
}

static void write_stack(struct capture *capture)
{
    uint64_t low = capture->registers.value[7], high = low;
    for (size_t i = 0; i < capture->word_count; i++)
        if (capture->addresses[i] >= low && capture->addresses[i] - low < 32768 &&
            capture->addresses[i] + 8 > high)
            high = capture->addresses[i] + 8;
    printf("stack %lx", low);
    for (uint64_t at = low; at < high; at += 8) {
        uint64_t word = 0;
        process_space_word(&capture->process, at, &word);
        printf("%c%lx", (at - low) % 64 == 0 ? '\n' : ' ', word);
    }
    printf("\n.\n");
    for (size_t i = 0; i < capture->word_count; i++)
        if (capture->addresses[i] < low || capture->addresses[i] >= high)
            printf("word %lx %lx\n", capture->addresses[i], capture->words[i]);
}

static void write_capture(struct capture *capture, const char *what)
{
    printf("# %s\nmachine %x\n", what, arch_host()->machine);
    for (unsigned i = 0; i < 17; i++)
        printf("register %u %lx\n", i, capture->registers.value[i]);
    write_stack(capture);
    for (unsigned i = 0; i < capture->process.count; i++) {
        const struct process_mapping *mapping = &capture->process.mappings[i];
        const char *slash = strrchr(mapping->path, '/');
        printf("mapping %lx %lx %lx %u %s\n", mapping->start, mapping->end, mapping->bias, i,
               slash != NULL ? slash + 1 : mapping->path);
    }
    for (size_t i = 0; i < capture->result.count; i++) {
        const struct unwind_frame *frame = &capture->frames[i];
        uint64_t key = frame->pc - (i > 0 && !(frame->flags & UNWIND_SIGNAL));
        if (frame->cookie != UNWIND_NO_COOKIE && capture->process.mappings[frame->cookie].has_rows)
            write_rule(&capture->process.mappings[frame->cookie], frame->cookie,
                       key - capture->process.mappings[frame->cookie].bias);
    }
    for (size_t i = 0; i < capture->result.count; i++)
        printf("frame %lx %u %u\n", capture->frames[i].pc, capture->frames[i].cookie,
               capture->frames[i].flags);
    printf("end %d\n", (int)capture->result.end);
}

static bool step(struct capture *capture, int *signal, struct user_regs_struct *registers)
{
    int status;
    if (ptrace(PTRACE_SINGLESTEP, capture->pid, NULL, (void *)(long)*signal) != 0 ||
        waitpid(capture->pid, &status, 0) != capture->pid || !WIFSTOPPED(status))
        return false;
    *signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    return ptrace(PTRACE_GETREGS, capture->pid, NULL, registers) == 0;
}

static bool is_main_image(struct capture *capture, uint64_t pc, const char *program)
{
    const struct process_mapping *mapping = process_space_mapping(&capture->process, pc);
    return mapping != NULL && strcmp(mapping->path, program) == 0;
}

int main(int argc, char **argv)
{
    static struct capture capture;
    struct user_regs_struct registers;
    int signal = 0;
    bool (*holds)(struct capture *) = NULL;
    for (unsigned i = 0; argc == 3 && i < sizeof moments / sizeof moments[0]; i++)
        if (strcmp(argv[2], moments[i].name) == 0)
            holds = moments[i].holds;
    char *program = holds != NULL ? realpath(argv[1], NULL) : NULL;
    if (program == NULL)
        return 1;
    capture.pid = fork();
    if (capture.pid == 0) {
        personality(ADDR_NO_RANDOMIZE);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execl(program, program, NULL);
        _exit(127);
    }
    waitpid(capture.pid, NULL, 0);
    bool started = false;
    while (step(&capture, &signal, &registers)) {
        if (signal != 0)
            continue;
        if (registers.rcx == registers.rip) /* behind a system call */
            process_space_read(&capture.process, capture.pid);
        started = started || is_main_image(&capture, registers.rip, program);
        if (!started)
            continue;
        walk(&capture, &registers);
        if (holds(&capture)) {
            write_capture(&capture, argv[2]);
            kill(capture.pid, SIGKILL);
            return 0;
        }
    }
    return 1;
}
