/* A small agent for the tests of loader.h: freestanding, one position-independent image, its handlers in
 * agent_probe_entries.S.
 *
 *     probe_count    counts the call in words[cookie], and goes on in the function
 *     probe_wrap     the same with a frame of its own on the stack, counted in *inside meanwhile
 *     probe_notify   adds one to words[PROBE_NOTIFIED], wakes its waiters, and waits until words[PROBE_ANSWERED]
 *                    is as high, ten seconds at most
 *
 * `words` is the region. What the loader has to get right: the parameters, a relocated pointer, zeroed .bss,
 * the alive word. */
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
void probe_notifies(unsigned which);

__attribute__((used, visibility("hidden"))) void probe_entered(void)
{
    volatile uint64_t *words = agent_parameters.words;
    const volatile uint64_t *alive = agent_parameters.alive;
    if (*pointer != PROBE_POINTED || zeros[1023] != 0)
        words[PROBE_WRONG]++;
    words[*alive == 1 ? PROBE_ALIVE : PROBE_CHILD]++;
}

__attribute__((used, visibility("hidden"))) void probe_notifies(unsigned which)
{
    volatile uint64_t *words = agent_parameters.words;
    const long nap[2] = {0, 1000000};
    words[PROBE_PROCESS] = (uint64_t)call(39, 0, 0); /* getpid */
    uint64_t mine = __atomic_add_fetch(&words[PROBE_NOTIFIED + 2 * which], 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 10000 && words[PROBE_ANSWERED + 2 * which] < mine; i++)
        call(35, (long)nap, 0); /* nanosleep */
}
