#include "proc_target.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "proc_status.h"

#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD of linux/sched.h, shown in stat */
#define PAGE          PROC_TARGET_PAGE
#define PAGE_PRESENT  (3ull << 62) /* in a word of pagemap: in memory or swapped */
#define PAGE_FILE     (1ull << 61)

int proc_target_pages(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static uint64_t pagemap_word(int pages, uint64_t page)
{
    uint64_t word;
    off_t at = (off_t)(page / PAGE * sizeof word);
    return pread(pages, &word, sizeof word, at) == (ssize_t)sizeof word ? word : PAGE_PRESENT;
}

bool proc_target_page_written(int pages, uint64_t page)
{
    uint64_t word = pagemap_word(pages, page);
    return (word & PAGE_PRESENT) && !(word & PAGE_FILE);
}

bool proc_target_page_present(int pages, uint64_t page)
{
    return (pagemap_word(pages, page) & PAGE_PRESENT) != 0;
}

/* The beginning of a file of /proc, terminated. Its length, or -1 with errno. */
static ssize_t read_proc_text(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t got;
    while ((got = read(file, text, size - 1)) < 0 && errno == EINTR)
        ;
    int number = errno;
    close(file);
    errno = number;
    if (got >= 0)
        text[got] = '\0';
    return got;
}

ssize_t proc_target_text(pid_t pid, pid_t tid, const char *name, char *text, size_t size)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
    ssize_t got = read_proc_text(path, text, size);
    return got < 0 ? -errno : got;
}

uint64_t proc_target_stat(pid_t pid, enum proc_target_stat_field field)
{
    char text[1024];
    const char *at = proc_target_text(pid, pid, "stat", text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    /* The name is the second field, and may hold anything, spaces too: counted from the last ')' on. */
    for (int passed = 2; at && passed < (int)field; passed++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

/* --- facts --- */

/* "PID (name) S ppid pgrp session tty tpgid flags ... starttime ...": the name may hold anything, so the last
 * ')' ends it. */
static bool parse_stat(const char *text, struct proc_target_facts *facts)
{
    unsigned flags;
    const char *end = strrchr(text, ')');
    if (!end ||
        sscanf(end + 1, " %c %*d %*d %d %d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
               &facts->state, &facts->session, &facts->terminal, &flags, &facts->started) != 5)
        return false;
    facts->kernel_thread = (flags & KERNEL_THREAD) != 0;
    const char *begin = strchr(text, '(');
    size_t length = begin && begin < end ? (size_t)(end - begin - 1) : 0;
    length = length < sizeof facts->name ? length : sizeof facts->name - 1;
    if (length)
        memcpy(facts->name, begin + 1, length);
    facts->name[length] = '\0';
    return true;
}

int proc_target_facts(pid_t pid, pid_t tid, struct proc_target_facts *facts)
{
    char stat[4096];
    struct proc_status status;
    status.text[0] = '\0';
    *facts = (struct proc_target_facts){0};
    bool found = proc_target_text(pid, tid, "stat", stat, sizeof stat) > 0 && parse_stat(stat, facts) &&
                 proc_status_read(pid, tid, &status) == BASE_OK;
    const char *text = status.text;
    facts->process = (pid_t)proc_status_number(text, "Tgid", 0);
    facts->tracer = (pid_t)proc_status_number(text, "TracerPid", 0);
    facts->threads = proc_status_number(text, "Threads", 0);
    facts->parent = (pid_t)proc_status_number(text, "PPid", 0);
    facts->user = (uid_t)proc_status_number(text, "Uid", 1);
    facts->seccomp = (int)proc_status_number(text, "Seccomp", 0);
    facts->filters = (int)proc_status_number(text, "Seccomp_filters", 0);
    facts->caught = proc_status_set(text, "SigCgt");
    return found ? BASE_OK : BASE_ENOTFOUND;
}

int proc_target_credentials(pid_t pid, struct proc_target_credentials *credentials)
{
    struct proc_status status;
    bool found = proc_status_read(pid, 0, &status) == BASE_OK;
    const char *text = status.text;
    *credentials = (struct proc_target_credentials){
        .user = (uid_t)proc_status_number(text, "Uid", 1),
        .group = (gid_t)proc_status_number(text, "Gid", 1),
        .permitted = proc_status_set(text, "CapPrm"),
        .effective = proc_status_set(text, "CapEff"),
        .bounding = proc_status_set(text, "CapBnd"),
        .gives_up = proc_status_number(text, "NoNewPrivs", 0) != 0,
    };
    return found ? BASE_OK : BASE_ENOTFOUND;
}

bool proc_target_name(pid_t pid, pid_t tid, char *name, size_t size)
{
    char text[128];
    ssize_t got = proc_target_text(pid, tid, "comm", text, sizeof text);
    if (got <= 0)
        return false;
    if (text[got - 1] == '\n')
        text[got - 1] = '\0';
    snprintf(name, size, "%s", text);
    return true;
}

pid_t proc_target_own_parent(void)
{
    struct proc_target_facts facts;
    return proc_target_facts(getpid(), getpid(), &facts) == BASE_OK ? facts.parent : 0;
}

bool proc_target_shares_memory(pid_t pid, pid_t other)
{
    return syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0) == 0;
}

pid_t proc_target_vfork_parent(pid_t pid)
{
    struct proc_target_facts facts;
    bool known = proc_target_facts(pid, pid, &facts) == BASE_OK && facts.parent > 0;
    return known && proc_target_shares_memory(facts.parent, pid) ? facts.parent : 0;
}

bool proc_target_has_thread(pid_t pid, pid_t tid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", pid, tid);
    return access(path, F_OK) == 0;
}

/* The first two numbers are the call and its first argument, the last two sp and pc. */
bool proc_target_parse_call(const char *line, struct proc_target_call *call)
{
    const char *last = strrchr(line, ' '), *before = last;
    while (before && before > line && (before == last || *before != ' '))
        before--;
    if (!last || before == line || sscanf(line, "%ld %" SCNx64, &call->number, &call->first) != 2)
        return false;
    call->sp = strtoull(before, NULL, 16);
    call->pc = strtoull(last, NULL, 16);
    return call->pc;
}

int proc_target_call(pid_t pid, pid_t tid, struct proc_target_call *call)
{
    char line[256];
    *call = (struct proc_target_call){.number = -1};
    ssize_t got = proc_target_text(pid, tid, "syscall", line, sizeof line);
    if (got <= 0)
        return got == -EPERM || got == -EACCES || got == -ENOENT ? BASE_EPERMISSION : BASE_ENOTFOUND;
    if (!strncmp(line, "running", 7))
        return BASE_EBUSY;
    return proc_target_parse_call(line, call) ? BASE_OK : BASE_ENOTFOUND;
}

bool proc_target_is_in_kernel(pid_t pid, pid_t tid, uint64_t *pc, uint64_t *sp)
{
    struct proc_target_call call;
    struct proc_target_facts facts;
    int result = proc_target_call(pid, tid, &call);
    if (result == BASE_OK) {
        *pc = call.pc;
        *sp = call.sp;
        return true;
    }
    return result != BASE_EBUSY && proc_target_facts(pid, tid, &facts) == BASE_OK && facts.state == 'D';
}

/* For where seccomp filters of containers refuse process_vm_readv. A thread without memory reads as the end
 * of the file. */
static ssize_t read_by_mem_file(pid_t tid, uint64_t address, void *bytes, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", tid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : pread(file, bytes, size, (off_t)address);
    if (file >= 0)
        close(file);
    if (got == 0 && size)
        errno = ESRCH;
    return got == 0 && size ? -1 : got;
}

static ssize_t read_by_thread(pid_t tid, uint64_t address, void *bytes, size_t size)
{
    struct iovec local = {bytes, size}, remote = {(void *)(uintptr_t)address, size};
    ssize_t got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
    return got < 0 && base_error_is_refusal(errno) ? read_by_mem_file(tid, address, bytes, size) : got;
}

/* A thread that has ended has no memory, though its process has: the others are tried. */
static ssize_t read_by_other_threads(pid_t pid, uint64_t address, void *bytes, size_t size)
{
    char path[64];
    ssize_t got = -1;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && got < 0 && (entry = readdir(directory));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid > 0 && tid != pid)
            got = read_by_thread(tid, address, bytes, size);
    }
    if (directory)
        closedir(directory);
    return got;
}

size_t proc_target_read(pid_t pid, uint64_t address, void *bytes, size_t size)
{
    ssize_t got = read_by_thread(pid, address, bytes, size);
    if (got < 0 && errno == ESRCH)
        got = read_by_other_threads(pid, address, bytes, size);
    return got > 0 ? (size_t)got : 0;
}

size_t proc_target_stack(pid_t pid, uint64_t sp, uint64_t *words, size_t size)
{
    size_t got = 0;
    for (size_t most = size; most >= PAGE && !got; most /= 2)
        got = proc_target_read(pid, sp & ~7ull, words, most);
    return got / sizeof *words;
}

bool proc_target_is_frame_pc(const uint64_t *words, size_t count, size_t at)
{
    /* Words of struct ucontext, by their distance from the saved pc. */
    enum { FLAGS = 21, EFLAGS = 1, SEGMENTS = 2, TRAP = 4 };
    enum {
        FLAGS_END = 256,
        EFLAGS_ALWAYS = 0x202,
        EFLAGS_END = 1 << 22,
        CODE_SEGMENT = 0x33,
        TRAP_END = 256
    };
    const uint64_t *pc = words + at;
    return at >= FLAGS && count - at > TRAP && pc[-FLAGS] < FLAGS_END && pc[EFLAGS] < EFLAGS_END &&
           (pc[EFLAGS] & EFLAGS_ALWAYS) == EFLAGS_ALWAYS && (pc[SEGMENTS] & 0xffff) == CODE_SEGMENT &&
           pc[TRAP] < TRAP_END;
}

/* --- refusals --- */

static int refuse_traced(pid_t pid, pid_t tracer, struct base_error *error)
{
    char name[64] = "?";
    proc_target_name(tracer, tracer, name, sizeof name);
    return base_fail(error, BASE_EBUSY,
                     "process %d is traced by %s (process %d) already; a process has one tracer: end that "
                     "one, or detach it",
                     pid, name, tracer);
}

static bool is_ended_state(char state)
{
    return state == 'Z' || state == 'X' || state == 'x';
}

/* A first thread that has ended is a zombie as long as others live. */
bool proc_target_is_alive(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *directory = opendir(path);
    bool found = false;
    for (struct dirent *entry; directory && !found && (entry = readdir(directory));) {
        struct proc_target_facts facts;
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        found = tid > 0 && proc_target_facts(pid, tid, &facts) == BASE_OK && !is_ended_state(facts.state);
    }
    if (directory)
        closedir(directory);
    return found;
}

static int check_machine(pid_t pid, struct base_error *error)
{
    char path[64];
    unsigned char header[20] = {0};
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == EACCES || errno == EPERM ? proc_target_explain(pid, errno, error)
                                                 : BASE_OK; /* deleted in odd ways: stopping it will show */
    ssize_t got = pread(file, header, sizeof header, 0);
    close(file);
    if (got != (ssize_t)sizeof header || memcmp(header, ELFMAG, SELFMAG))
        return BASE_OK;
    unsigned machine = header[18] | (unsigned)header[19] << 8;
    if (header[EI_CLASS] != ELFCLASS64 || machine != EM_X86_64)
        return base_fail(error, BASE_EUNSUPPORTED,
                         "process %d is not a 64-bit x86 program (%s, machine %u): counting calls needs one",
                         pid, header[EI_CLASS] == ELFCLASS64 ? "64-bit" : "32-bit", machine);
    return BASE_OK;
}

int proc_target_check(pid_t pid, struct base_error *error)
{
    struct proc_target_facts facts;
    if (pid <= 0 || proc_target_facts(pid, pid, &facts) < 0)
        return base_fail(error, BASE_ENOTFOUND, "there is no process %d", pid);
    if (facts.process != pid)
        return base_fail(error, BASE_EUSAGE, "%d is a thread of process %d: give that number", pid,
                         facts.process);
    if (pid == getpid())
        return base_fail(error, BASE_EUSAGE, "tally cannot count its own calls");
    if (facts.kernel_thread)
        return base_fail(error, BASE_EUNSUPPORTED,
                         "process %d (%s) is a thread of the kernel and has no program", pid, facts.name);
    if (facts.tracer)
        return refuse_traced(pid, facts.tracer, error);
    if (is_ended_state(facts.state) && !proc_target_is_alive(pid))
        return base_fail(error, BASE_ENOTFOUND,
                         "process %d (%s) has ended: only its exit status is left for its parent", pid,
                         facts.name);
    return check_machine(pid, error);
}

static int refuse_by_yama(pid_t pid, int scope, struct base_error *error)
{
    if (scope == 1)
        return base_fail(
            error, BASE_EPERMISSION,
            "not permitted to trace process %d: kernel.yama.ptrace_scope is 1, which allows only programs "
            "that tally started; run tally as root, or set it to 0 (sysctl kernel.yama.ptrace_scope=0)",
            pid);
    return base_fail(
        error, BASE_EPERMISSION,
        scope == 2 ? "not permitted to trace process %d: kernel.yama.ptrace_scope is 2: run tally as root"
                   : "not permitted to trace process %d: kernel.yama.ptrace_scope is 3, which forbids "
                     "tracing until the next boot",
        pid);
}

int proc_target_explain(pid_t pid, int number, struct base_error *error)
{
    struct proc_target_facts facts;
    if (number == ESRCH || proc_target_facts(pid, pid, &facts) < 0)
        return base_fail(error, BASE_ENOTFOUND, "process %d is gone", pid);
    if (number != EPERM && number != EACCES)
        return base_fail_errno(error, number, "process %d cannot be traced", pid);
    if (facts.tracer && facts.tracer != getpid())
        return refuse_traced(pid, facts.tracer, error);
    if (geteuid() != 0 && facts.user != geteuid())
        return base_fail(
            error, BASE_EPERMISSION,
            "not permitted to trace process %d: it runs as user %u, tally as user %u; run tally as that "
            "user or as root",
            pid, (unsigned)facts.user, (unsigned)geteuid());
    char text[16];
    int scope = read_proc_text("/proc/sys/kernel/yama/ptrace_scope", text, sizeof text) > 0
                    ? (int)strtol(text, NULL, 10)
                    : 0;
    if (scope == 3 || (scope > 0 && geteuid() != 0))
        return refuse_by_yama(pid, scope, error);
    return base_fail(
        error, BASE_EPERMISSION,
        "not permitted to trace process %d: it has privileges or a user namespace that tally does not have, "
        "or is not dumpable; run tally as root with CAP_SYS_PTRACE (in a container: --cap-add SYS_PTRACE)",
        pid);
}
