/* The handler makes one system call, and keeps nothing: it needs no list of mappings, because no other
 * memory of ours has addresses without bytes behind them. What is no such fault, or cannot be mended, is
 * raised again by the same instruction, with the default action. */
#include "base_fault.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    int kept = errno;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)info->si_addr & ~(page - 1);
    if (info->si_code != BUS_ADRERR || mmap((void *)at, page, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        signal(number, SIG_DFL);
    errno = kept;
}

void base_fault_survive(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    if (sigaction(SIGBUS, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGBUS, &action, NULL);
}
