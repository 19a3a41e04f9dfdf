/* proc_target.h - may this process be patched, and if not, why.
 *
 * Everything is read from /proc: nothing is touched. A refusal is a message that names the cause and the
 * remedy. Context: tool and helper (helper.h). Source: ptrace(2), proc(5),
 * Documentation/admin-guide/LSM/Yama.rst. */
#ifndef PROC_TARGET_H
#define PROC_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"

enum proc_target_seccomp { PROC_TARGET_NO_SECCOMP, PROC_TARGET_STRICT, PROC_TARGET_FILTERED };

/* What /proc/PID/task/TID/stat and status say of one thread. */
struct proc_target_facts {
    char state; /* R S D T t Z X ... */
    bool kernel_thread;
    pid_t process; /* the thread group it belongs to */
    pid_t tracer;  /* 0: none */
    pid_t parent;
    pid_t session; /* its leader; 0: of another PID namespace */
    int terminal;  /* the session's, a device's number; 0: none */
    long threads;  /* of its process */
    uid_t user;    /* the effective one */
    /* When its first thread started: clock ticks since boot, as the initial PID namespace has it. */
    uint64_t started;
    int seccomp;     /* enum proc_target_seccomp */
    int filters;     /* of seccomp; 0 too where the kernel does not report it (before Linux 5.9) */
    uint64_t caught; /* signals that have a handler: bit number - 1 */
    char name[64];
};

/* BASE_OK, or BASE_ENOTFOUND when there is no such thread (then without a message). */
int proc_target_facts(pid_t pid, pid_t tid, struct proc_target_facts *facts);

/* Who the process acts as: its effective user and group, and its capabilities. */
struct proc_target_credentials {
    uid_t user;
    gid_t group;
    uint64_t permitted, effective, bounding; /* sets of capabilities, bit CAP_X */
    bool gives_up;                           /* no_new_privs: no exec gives it any */
};

/* BASE_OK, or BASE_ENOTFOUND when there is no such process (then without a message). */
int proc_target_credentials(pid_t pid, struct proc_target_credentials *credentials);

/* The name that a thread has now, as prctl(PR_SET_NAME) takes it; a process's is that of its first thread.
 * False: it is gone, and `name` is as it was. */
bool proc_target_name(pid_t pid, pid_t tid, char *name, size_t size);

/* The caller's parent, where getppid may be refused; 0: unknown. */
pid_t proc_target_own_parent(void);

/* Has the process a thread of that number? */
bool proc_target_has_thread(pid_t pid, pid_t tid);

/* Has the process a thread that has not ended? False too when there is none of that number. */
bool proc_target_is_alive(pid_t pid);

/* Do two processes run in the same memory? False too where the kernel has no CONFIG_KCMP. */
bool proc_target_shares_memory(pid_t pid, pid_t other);
/* The parent in whose memory the process runs (vfork): whatever is done there is done to both. 0: none. */
pid_t proc_target_vfork_parent(pid_t pid);

/* Is the process one that can be stopped and patched: there, alive, no kernel thread, 64-bit x86, not this
 * very process and without a tracer? Whether it is permitted the kernel says when it is tried. BASE_OK or a
 * refusal. */
int proc_target_check(pid_t pid, struct base_error *error);

/* Turns errno `number` of a refused PTRACE_SEIZE into a refusal: another tracer came first, Yama, another
 * user, capabilities. */
int proc_target_explain(pid_t pid, int number, struct base_error *error);

/* A file of /proc/PID/task/TID, its beginning, terminated. Returns its length, or -errno. */
ssize_t proc_target_text(pid_t pid, pid_t tid, const char *name, char *text, size_t size);

/* A number of /proc/PID/stat; 0 also when it cannot be read. Source: proc_pid_stat(5). */
enum proc_target_stat_field {
    PROC_TARGET_STARTED = 22, /* clock ticks since boot, as this PID namespace has it */
    /* Where the kernel put the stack of the process's image; another image has it elsewhere. */
    PROC_TARGET_STACK = 28,
    PROC_TARGET_HEAP = 47 /* where its brk begins, whether it has grown yet or not */
};
uint64_t proc_target_stat(pid_t pid, enum proc_target_stat_field field);

/* Where a thread that sleeps in the kernel is. */
struct proc_target_call {
    long number;     /* of the system call; -1: a page fault, say */
    uint64_t first;  /* its first argument, where there is a call */
    uint64_t pc, sp; /* of the program */
};
/* BASE_EBUSY: it runs, or waits for a CPU. BASE_EPERMISSION: the kernel does not report it, or not to this
 * user. BASE_ENOTFOUND: it has ended. Source: proc_pid_syscall(5). */
int proc_target_call(pid_t pid, pid_t tid, struct proc_target_call *call);
/* A line of that file. False: the thread runs, or has ended. */
bool proc_target_parse_call(const char *line, struct proc_target_call *call);

/* Is the thread asleep inside the kernel (a system call, a page fault)? False when it runs, waits for a CPU,
 * or is gone. *pc and *sp are where the program is, or unchanged if the kernel does not report it. */
bool proc_target_is_in_kernel(pid_t pid, pid_t tid, uint64_t *pc, uint64_t *sp);

/* Reads memory of a process, also of one whose first thread has ended. Returns how many bytes, which are
 * fewer where a page is missing; 0: none. */
size_t proc_target_read(pid_t pid, uint64_t address, void *bytes, size_t size);

/* Reads the stack from the word that holds `sp` up, to its end or as far as `size` bytes (a multiple of a
 * page) go. Returns how many words; 0: there is no stack there, or it may not be read. */
size_t proc_target_stack(pid_t pid, uint64_t sp, uint64_t *words, size_t size);

/* `count` words of a stack from sp up: is word `at` the pc that a signal's frame keeps? Compared is what the
 * kernel writes around it into every frame, and no handler has a reason to change, so that hardly any numbers
 * of a program pass for one. False where too few words are there to decide: of a frame whose handler runs, no
 * word lies below sp. Source: struct rt_sigframe, arch/x86/include/asm/sigframe.h, uapi/asm/sigcontext.h and
 * uapi/asm/ucontext.h. */
bool proc_target_is_frame_pc(const uint64_t *words, size_t count, size_t at);

#define PROC_TARGET_PAGE 4096u

/* /proc/PID/pagemap, what the kernel says of a process's pages: a descriptor of the caller's, or -1, with
 * which every page may be anything. Source: Documentation/admin-guide/mm/pagemap.rst. */
int proc_target_pages(pid_t pid);
/* Does the page differ, or may it differ, from the file that is mapped there? */
bool proc_target_page_written(int pages, uint64_t page);
/* Is there memory, or may there be, behind the page's address? */
bool proc_target_page_present(int pages, uint64_t page);

#endif
