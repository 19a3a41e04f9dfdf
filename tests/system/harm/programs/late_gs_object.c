/* Memory at gs, set by the system call, and read around calls of functions that are counted. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static long memory[512];

__attribute__((noinline)) static long read_gs(void)
{
    long value;
    __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
    return value;
}

/* From now on, and whatever becomes of the object. */
long late_gs_set(void *base)
{
    return syscall(SYS_arch_prctl, ARCH_SET_GS, base);
}

/* How often gs was not the memory. */
long late_gs_work(long (*call)(long), long rounds)
{
    long wrong = 0, sum = 0;
    for (int i = 0; i < 512; i++)
        memory[i] = 0x5a5a0000 + i;
    if (syscall(SYS_arch_prctl, ARCH_SET_GS, memory))
        return -1;
    for (long i = 0; i < rounds; i++) {
        sum = call(sum);
        wrong += read_gs() != 0x5a5a0001;
    }
    for (int i = 0; i < 512; i++)
        wrong += memory[i] != 0x5a5a0000 + i;
    return wrong + (sum != rounds);
}
