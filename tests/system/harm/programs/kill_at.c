/* kill_at.so - preloaded into tally: kills it at a numbered step of its life, a call that changes something, made by tally or by its
 * helper.
 *
 *   KILL_AT_FILE   a file of 16 bytes: steps so far, and tally's process number
 *   KILL_AT_STEP   the step at which tally is killed, before it is taken; 0: none, they are only counted
 *
 * What the helper does at that step it does with tally dead. Programs that tally starts are not concerned. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct steps {
    uint64_t count, tally;
};

static struct steps *steps;
static uint64_t last;

/* By the system call itself: mmap is one of the steps. */
__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("KILL_AT_FILE"), *step = getenv("KILL_AT_STEP");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0 || !step)
        return;
    void *map = (void *)syscall(SYS_mmap, NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED)
        return;
    unsetenv("LD_PRELOAD");
    last = strtoull(step, NULL, 10);
    ((struct steps *)map)->tally = (uint64_t)getpid();
    steps = map;
}

static void take_step(void)
{
    if (steps && __atomic_add_fetch(&steps->count, 1, __ATOMIC_SEQ_CST) == last)
        kill((pid_t)steps->tally, SIGKILL);
}

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

long ptrace(enum __ptrace_request request, ...)
{
    va_list list;
    va_start(list, request);
    pid_t pid = va_arg(list, pid_t);
    void *address = va_arg(list, void *), *data = va_arg(list, void *);
    va_end(list);
    take_step();
    return NEXT(ptrace)(request, pid, address, data);
}

ssize_t sendmsg(int file, const struct msghdr *message, int flags)
{
    take_step();
    return NEXT(sendmsg)(file, message, flags);
}

ssize_t recvmsg(int file, struct msghdr *message, int flags)
{
    take_step();
    return NEXT(recvmsg)(file, message, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                          const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    take_step();
    return NEXT(process_vm_writev)(pid, local, locals, remote, remotes, flags);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at)
{
    take_step();
    return NEXT(pwrite64)(file, bytes, size, at);
}

void *mmap64(void *address, size_t size, int protection, int flags, int file, off64_t offset)
{
    take_step();
    return NEXT(mmap64)(address, size, protection, flags, file, offset);
}

int munmap(void *address, size_t size)
{
    take_step();
    return NEXT(munmap)(address, size);
}
