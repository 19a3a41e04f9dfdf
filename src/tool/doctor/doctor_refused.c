/* System calls that a filter may refuse, as those of containers do: each is tried, harmlessly and on this
 * process. perf_event_open, bpf and ptrace have checks of their own. */
#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"

#define PAGE ((size_t)4096)

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* A descriptor, or -1. */
static bool is_open(int file)
{
    if (file >= 0)
        close(file);
    return file >= 0;
}

static bool try_pidfd(void)
{
    return is_open((int)syscall(SYS_pidfd_open, getpid(), 0));
}

static bool try_memfd(void)
{
    return is_open(memfd_create("tally-doctor", MFD_CLOEXEC));
}

static bool try_eventfd(void)
{
    return is_open(eventfd(0, EFD_CLOEXEC));
}

static bool try_epoll(void)
{
    return is_open(epoll_create1(EPOLL_CLOEXEC));
}

static bool try_signalfd(void)
{
    sigset_t none;
    sigemptyset(&none);
    return is_open(signalfd(-1, &none, SFD_CLOEXEC));
}

static bool try_sockets(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return false;
    close(ends[1]);
    return is_open(ends[0]);
}

static bool try_read(void)
{
    char from = 1, to = 0;
    struct iovec there = {&from, 1}, here = {&to, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

static bool try_kcmp(void)
{
    return syscall(SYS_kcmp, getpid(), getpid(), KCMP_VM, 0, 0) == 0;
}

/* Without words to wait for it is an error of its own. */
static bool try_waitv(void)
{
    return syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == EINVAL;
}

/* With two pages of memory. */
static bool try_memory(int kind, bool (*passes)(char *pages))
{
    const size_t size = 2 * PAGE;
    char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    bool done = pages != MAP_FAILED && passes(pages);
    int number = errno;
    if (pages != MAP_FAILED)
        munmap(pages, size);
    errno = number;
    return done;
}

static bool doctor_refused_wipe(char *pages)
{
    return madvise(pages, PAGE, MADV_WIPEONFORK) == 0;
}

static bool doctor_refused_show(char *pages)
{
    return remap_file_pages(pages, PAGE, 0, 1, 0) == 0;
}

static bool doctor_refused_grow(char *pages)
{
    return mremap(pages, PAGE, PAGE, 0) != MAP_FAILED;
}

static bool try_wipe(void)
{
    return try_memory(MAP_PRIVATE, doctor_refused_wipe);
}

static bool try_show(void)
{
    return try_memory(MAP_SHARED, doctor_refused_show);
}

static bool try_grow(void)
{
    return try_memory(MAP_SHARED, doctor_refused_grow);
}

static bool try_timer(void)
{
    struct sigevent none = {.sigev_notify = SIGEV_NONE};
    timer_t timer;
    return timer_create(CLOCK_THREAD_CPUTIME_ID, &none, &timer) == 0 && timer_delete(timer) == 0;
}

static const struct call {
    const char *name;
    bool (*passes)(void);
    const char *missing;
} calls[] = {
    {"memfd_create", try_memfd, "no --calls, --heap, --fds, --throws, --function, --engine=agent"},
    {"eventfd2", try_eventfd, "no --calls, --heap, --fds, --throws, --function, --engine=agent"},
    {"socketpair", try_sockets, "no --calls, --heap, --fds, --throws, --function, --engine=agent"},
    {"madvise", try_wipe, "no --heap, --fds, --throws, --function, --engine=agent"},
    {"remap_file_pages", try_show, "children of fork are not counted by --heap, --fds, --throws, --function"},
    {"mremap", try_grow,
     "children of fork are not counted by --heap, --fds, --throws, --function, and of long recordings what "
     "its first tables cannot hold"},
    {"timer_create", try_timer, "no time by --engine=agent"},
    {"process_vm_readv", try_read, "memory of programs is read by /proc, which takes longer"},
    {"signalfd4", try_signalfd,
     "Ctrl-C is looked for at every step of a recording, not notified; no tally view, no tally browse"},
    {"pidfd_open", try_pidfd,
     "ends of processes are looked for, not notified; exact calls keep tracing programs in which no thread "
     "begins"},
    {"epoll_create1", try_epoll, "exact calls keep tracing programs in which no thread begins"},
    {"kcmp", try_kcmp, "of processes that share their memory only vfork's are recognised (--calls)"},
    {"futex_waitv", try_waitv,
     "what programs load is looked for every millisecond, not notified: they wait longer"},
};

void doctor_check_refused(struct doctor *doctor)
{
    size_t refused = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (calls[i].passes())
            continue;
        const char *why = errno == ENOSYS ? "this kernel has no such call" : strerror(errno);
        struct doctor_line *line = doctor_add(doctor, calls[i].name, DOCTOR_LIMITED);
        doctor_explain(line, "tried and refused (%s): %s", why, calls[i].missing);
        if (doctor->filtered)
            doctor_advise(line, "docker run --cap-add PERFMON --security-opt seccomp=unconfined IMAGE");
        refused++;
    }
    if (!refused)
        doctor_explain(doctor_add(doctor, "system calls", DOCTOR_OK),
                       "tried: the others that Tally makes pass");
}
