/* A small agent for the tests of patch_agent.h: freestanding, one position-independent image, its handlers in assembly.
 *
 *     probe_count   counts the call in words[cookie], and goes on in the function
 *     probe_wrap    the same with a frame of its own on the stack, counted in words[PROBE_INSIDE] meanwhile
 *     probe_bell    rings words[PROBE_RUNG] and waits until words[PROBE_ANSWERED] is as high, ten seconds at most
 *
 * `words` is the region. What the loader has to get right: the parameters, a relocated pointer, zeroed .bss, the alive word. */
#include "agent_probe.h"

__attribute__((visibility("hidden"))) struct probe_parameters agent_parameters = {.magic = PROBE_MAGIC};

static uint64_t pointed[2] = {5, PROBE_POINTED};
static uint64_t *volatile pointer = &pointed[1]; /* a relocation */
static volatile uint64_t zeros[1024];

static long call(long number, long a, long b)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return result;
}

void probe_entered(void);
void probe_rings(unsigned which);

__attribute__((used, visibility("hidden"))) void probe_entered(void)
{
    volatile uint64_t *words = agent_parameters.words;
    const volatile uint64_t *alive = agent_parameters.alive;
    if (*pointer != PROBE_POINTED || zeros[1023] != 0)
        words[PROBE_WRONG]++;
    words[*alive == 1 ? PROBE_ALIVE : PROBE_CHILD]++;
}

__attribute__((used, visibility("hidden"))) void probe_rings(unsigned which)
{
    volatile uint64_t *words = agent_parameters.words;
    const long nap[2] = {0, 1000000};
    uint64_t mine = __atomic_add_fetch(&words[PROBE_RUNG + 2 * which], 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 10000 && words[PROBE_ANSWERED + 2 * which] < mine; i++)
        call(35, (long)nap, 0); /* nanosleep */
}

#define SAVE                                                                                                 \
    "push %rax; push %rcx; push %rdx; push %rsi; push %rdi; push %r8; push %r9; push %r10; push %r11;"       \
    "push %rbp; mov %rsp, %rbp; and $-16, %rsp; cld;"
#define RESTORE                                                                                              \
    "mov %rbp, %rsp; pop %rbp; pop %r11; pop %r10; pop %r9; pop %r8; pop %rdi; pop %rsi; pop %rdx; pop "     \
    "%rcx;"                                                                                                  \
    "pop %rax;"
#define HIDDEN(name) ".globl " name "; .hidden " name "; .type " name ", @function; " name ":"

/* In SAVE's frame the hook, r11, lies at 8(%rbp). */
__asm__(".text;" /* */
        HIDDEN("probe_count") SAVE
        "mov 8(%rbp), %r11; mov 24(%r11), %rcx; mov agent_parameters+8(%rip), %rax;"
        "lock incq (%rax,%rcx,8); call probe_entered;" RESTORE "jmp *8(%r11);"
        /* The body is called with the stack as the function's caller left it: arguments in registers only. */
        HIDDEN("probe_wrap") "push %rbp; mov %rsp, %rbp; push %r11; push %r11;"
                             "mov agent_parameters+8(%rip), %r10; lock incq 8*" PROBE_TEXT(
                                 PROBE_INSIDE) "(%r10);"
                                               "call *8(%r11); mov -8(%rbp), %r11; mov 24(%r11), %rcx;"
                                               "mov agent_parameters+8(%rip), %r10; lock incq (%r10,%rcx,8);"
                                               "lock decq 8*" PROBE_TEXT(
                                                   PROBE_INSIDE) "(%r10); leave; ret;" HIDDEN("probe_bell")
                                                   SAVE "xor %edi, %edi; call probe_rings;" RESTORE
                                                        "jmp *8(%r11);" HIDDEN("probe_exec") SAVE
        "mov $1, %edi; call probe_rings;" RESTORE "jmp *8(%r11);");
