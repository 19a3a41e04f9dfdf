/* A signal's handler that has interrupted a function behind its first instruction, in the bytes that a jump at its entry takes, and that
 * waits for input: malloc, or one of the program's own ("own"). Then the function goes on there. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define AWAY __attribute__((noinline, noclone))

enum { TRAP_FLAG = 256, JUMP_BYTES = 5 };

static volatile uintptr_t entry;
static volatile bool met;
static volatile unsigned trapped;

static AWAY long inner(long value)
{
    __asm__ volatile("" : "+r"(value));
    return value * 3;
}
static AWAY long own(long value)
{
    return inner(value + 1) + 1;
}
static long (*volatile own_pointer)(long) = own;

static void step(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t offset = (uintptr_t)registers[REG_RIP] - entry;
    char byte;
    (void)signal;
    (void)info;
    trapped++;
    if (offset == 0 || offset >= JUMP_BYTES)
        return;
    met = write(STDOUT_FILENO, "begun\n", 6) == 6;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    registers[REG_EFL] &= ~TRAP_FLAG;
}

/* From here on instruction by instruction. */
static inline void trap(void)
{
    __asm__ volatile("pushfq\n\torl $256, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

int main(int argc, char **argv)
{
    static char stack[65536];
    bool of_malloc = argc > 1 && strcmp(argv[1], "malloc") == 0;
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO | (argc > 2 ? SA_ONSTACK : 0)};
    sigaltstack(&other, NULL);
    sigaction(SIGTRAP, &action, NULL);
    void *(*volatile allocate)(size_t) = malloc;
    entry = of_malloc ? (uintptr_t)allocate : (uintptr_t)own_pointer;
    char *block = NULL;
    long result = 0;
    trap();
    if (of_malloc)
        block = allocate(100);
    else
        result = own_pointer(4);
    if (block != NULL)
        result = (long)strlen(strcpy(block, "thirteen char"));
    printf("met %d result %ld\n", met, result);
    free(block);
    return 0;
}
