#include "trace_inject_inside.h"

#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "proc_target.h"
#include "trace_step.h"
#include "trace_x86_64_call.h"

#define ROUNDS      200 /* attempts at a call that a signal came before */
#define CALM        20  /* attempts before signals are blocked until the call's entry */
#define TRIES       3   /* of what must not fail */
#define SEARCH_SIZE (1u << 20)
#define RSEQ_CS     8 /* offset of the descriptor's address in struct rseq */

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
struct __ptrace_rseq_configuration {
    uint64_t rseq_abi_pointer;
    uint32_t rseq_abi_size, signature, flags, pad;
};
#endif

/* --- opening --- */

/* A thread inside a system call if there is one. A follower's processes share the memory, so that a thread of
 * any of them will do, unless `process` says of which. */
static const struct trace_stop_thread *choose_thread(const struct trace_stop *stop, pid_t process)
{
    const struct trace_stop_thread *chosen = NULL;
    for (size_t i = 0; i < stop->count; i++) {
        const struct trace_stop_thread *thread = &stop->threads[i];
        if ((thread->process != stop->pid && !stop->follower) || thread->state != TRACE_STOP_STOPPED ||
            (process && thread->process != process))
            continue;
        if (thread->in_call)
            return thread;
        chosen = chosen ? chosen : thread;
    }
    return chosen;
}

int trace_inject_maps(const struct trace_inject *inject, struct proc_maps *maps, struct base_error *error)
{
    return proc_maps_read(inject->tid, maps, error);
}

/* Searches the beginning of one mapping; a vDSO is a page or two. */
static bool find_in_mapping(const struct trace_inject *inject, const struct proc_mapping *mapping,
                            uint8_t *bytes, uint64_t *at)
{
    uint64_t size = mapping->end - mapping->start;
    size = size < SEARCH_SIZE ? size : SEARCH_SIZE;
    if (trace_memory_read(inject->memory, mapping->start, bytes, (size_t)size, NULL) < 0)
        return false;
    size_t found = trace_x86_64_call_find(bytes, (size_t)size);
    *at = mapping->start + found;
    return found != SIZE_MAX;
}

/* The vDSO first: no program rewrites it. */
static bool find_instruction(struct trace_inject *inject, const struct proc_maps *maps, uint8_t *bytes)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < maps->count; i++) {
            const struct proc_mapping *mapping = &maps->items[i];
            bool is_vdso = !strcmp(mapping->path, "[vdso]");
            if (mapping->executable && mapping->readable && is_vdso == (pass == 0) &&
                find_in_mapping(inject, mapping, bytes, &inject->syscall_at))
                return true;
        }
    return false;
}

static int find_syscall(struct trace_inject *inject, struct base_error *error)
{
    uint8_t *bytes = malloc(SEARCH_SIZE);
    int result = bytes ? trace_inject_maps(inject, &inject->maps, error)
                       : base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK && !find_instruction(inject, &inject->maps, bytes))
        result = base_fail(error, BASE_EUNSUPPORTED,
                           "process %d has no system call instruction in its text that tally could use",
                           inject->stop->pid);
    free(bytes);
    return result;
}

int trace_inject_open(struct trace_inject *inject, struct trace_stop *stop, struct trace_memory *memory,
                      struct base_error *error)
{
    return trace_inject_open_in(inject, stop, memory, 0, error);
}

int trace_inject_open_in(struct trace_inject *inject, struct trace_stop *stop, struct trace_memory *memory,
                         pid_t process, struct base_error *error)
{
    struct proc_target_facts facts;
    const struct trace_stop_thread *chosen = choose_thread(stop, process);
    *inject = (struct trace_inject){.stop = stop, .memory = memory};
    if (!chosen)
        return base_fail(
            error, BASE_EBUSY,
            "every thread of process %d sleeps inside the kernel (perhaps it waits for a vfork child): "
            "no memory can be mapped now; try again in a moment",
            stop->pid);
    inject->process = chosen->process;
    inject->tid = chosen->tid;
    if (proc_target_facts(inject->process, inject->tid, &facts) < 0)
        return base_fail(error, BASE_ENOTFOUND, "process %d is gone", stop->pid);
    int result = trace_seccomp_load(&inject->seccomp, inject->process, inject->tid, facts.seccomp, error);
    if (result == BASE_OK)
        result = find_syscall(inject, error);
    if (result < 0)
        trace_inject_close(inject);
    return result;
}

void trace_inject_close(struct trace_inject *inject)
{
    proc_maps_free(&inject->maps);
    trace_seccomp_free(&inject->seccomp);
}

/* --- one call --- */

static int save_place(struct trace_inject *inject, struct base_error *error)
{
    struct trace_inject_place *place = &inject->place;
    struct __ptrace_rseq_configuration rseq = {0};
    place->rseq_cs_at = 0;
    if (ptrace(PTRACE_GETREGS, inject->tid, 0, &place->registers))
        return base_fail_errno(error, errno, "registers of thread %d cannot be read", inject->tid);
    long size =
        ptrace((enum __ptrace_request)PTRACE_GET_RSEQ_CONFIGURATION, inject->tid, (void *)sizeof rseq, &rseq);
    if (size > 0 && rseq.rseq_abi_pointer &&
        trace_memory_read(inject->memory, rseq.rseq_abi_pointer + RSEQ_CS, &place->rseq_cs,
                          sizeof place->rseq_cs, NULL) == BASE_OK)
        place->rseq_cs_at = rseq.rseq_abi_pointer + RSEQ_CS;
    return BASE_OK;
}

static int restore_registers(const struct trace_inject *inject, const struct trace_inject_place *place)
{
    for (int i = 0; i < TRIES; i++)
        if (!ptrace(PTRACE_SETREGS, inject->tid, 0, &place->registers))
            return BASE_OK;
    return errno == ESRCH ? BASE_OK : BASE_EIO; /* killed: there is nothing to restore */
}

/* The kernel clears the field when the thread returns to user mode outside the sequence, as it did for our
 * call. */
static void restore_rseq(const struct trace_inject *inject, const struct trace_inject_place *place)
{
    if (place->rseq_cs_at && place->rseq_cs)
        trace_memory_write(inject->memory, place->rseq_cs_at, &place->rseq_cs, sizeof place->rseq_cs, NULL);
}

static int continue_thread(struct trace_stop_thread *thread, int request, int signal, int *status,
                           struct base_error *error)
{
    int result = BASE_OK;
    for (int i = 0; i < TRIES; i++) {
        struct base_error why = {0};
        result = trace_stop_step(thread, request, signal, status, &why);
        if (result == BASE_OK || thread->state == TRACE_STOP_GONE || i + 1 == TRIES) {
            if (result < 0)
                base_fail(error, result, "%s", why.text);
            break;
        }
    }
    return result;
}

/* Restores the registers, and returns the thread to the trap; before that a signal may be delivered, at the
 * place where the thread was. */
static int return_to_trap(struct trace_inject *inject, struct trace_stop_thread *thread, int signal,
                          struct base_error *error)
{
    const struct trace_inject_place *place = &inject->place;
    int status, result = restore_registers(inject, place);
    inject->inside = false;
    if (result < 0)
        return base_fail(error, result, "registers of thread %d cannot be restored", inject->tid);
    for (int i = 0; i < TRIES && ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0); i++)
        ;
    restore_rseq(inject, place);
    result = continue_thread(thread, PTRACE_CONT, signal, &status, error);
    return result < 0 ? result : trace_stop_settle(inject->stop, thread, status, error);
}

static bool is_call_stop(int status)
{
    return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

static bool is_trap(int status)
{
    return status >> 16 == PTRACE_EVENT_STOP;
}

/* A SIGSYS that our own call raised must not reach the program. */
static bool is_own_sigsys(const struct trace_inject *inject, int status)
{
    siginfo_t info;
    return WSTOPSIG(status) == SIGSYS && !ptrace(PTRACE_GETSIGINFO, inject->tid, 0, &info) &&
           info.si_code > 0 && (uint64_t)(uintptr_t)info.si_call_addr == inject->syscall_at + 2;
}

/* Continues the thread to its next stop, other than a pending trap. `storm`: signals come faster than the
 * thread can run; they are blocked until it is stopped at the call's entry. */
static int run_to_entry(const struct trace_inject *inject, struct trace_stop_thread *thread, bool storm,
                        int *status, struct base_error *error)
{
    uint64_t mask;
    int result = BASE_OK;
    bool blocked = storm && !trace_step_block_signals(inject->tid, &mask);
    do
        result = continue_thread(thread, PTRACE_SYSCALL, 0, status, error);
    while (result == BASE_OK && is_trap(*status));
    if (blocked)
        trace_step_restore_signals(inject->tid, mask);
    return result;
}

/* 1: the thread is stopped at the call's entry; 0: a signal came first and was delivered, try again; else an
 * error, with the thread where it was before (or gone). */
static int enter_call(struct trace_inject *inject, struct trace_stop_thread *thread,
                      const struct user_regs_struct *call, bool storm, struct base_error *error)
{
    int status;
    if (ptrace(PTRACE_SETREGS, inject->tid, 0, call)) {
        int number = errno;
        restore_registers(inject, &inject->place);
        return base_fail_errno(error, number, "registers of thread %d cannot be written", inject->tid);
    }
    int result = run_to_entry(inject, thread, storm, &status, error);
    if (result < 0) {
        restore_registers(inject, &inject->place);
        return result;
    }
    if (is_call_stop(status))
        return 1;
    bool own = is_own_sigsys(inject, status);
    inject->stop->delivered += !own;
    bool dropped = own || trace_stop_drops_signal(inject->tid, &inject->place.registers);
    result = return_to_trap(inject, thread, dropped ? 0 : WSTOPSIG(status), error);
    if (result < 0 || !own)
        return result < 0 ? result : 0;
    return base_fail(error, BASE_EPERMISSION,
                     "process %d catches its own system calls (syscall user dispatch)", inject->stop->pid);
}

/* From the entry to the exit, and back to the trap, where the thread was before, unless another call
 * follows. */
static int finish_call(struct trace_inject *inject, struct trace_stop_thread *thread, int64_t *answer,
                       struct base_error *error)
{
    struct user_regs_struct registers = {.rax = (unsigned long long)-EIO};
    inject->inside = false;
    int status, result = continue_thread(thread, PTRACE_SYSCALL, 0, &status, error);
    if (result < 0)
        return result;
    for (int i = 0; i < TRIES && ptrace(PTRACE_GETREGS, inject->tid, 0, &registers); i++)
        ;
    *answer = (int64_t)registers.rax;
    inject->inside = inject->chained;
    return inject->chained ? BASE_OK : return_to_trap(inject, thread, 0, error);
}

static int check_filters(const struct trace_inject *inject, const char *name, long number,
                         const uint64_t arguments[6], struct base_error *error)
{
    struct seccomp_data data = {
        .nr = (int)number, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = inject->syscall_at + 2};
    memcpy(data.args, arguments, sizeof data.args);
    return trace_seccomp_check(&inject->seccomp, &data, name, error);
}

int trace_inject_call(struct trace_inject *inject, const char *name, long number, const uint64_t arguments[6],
                      int64_t *answer, struct base_error *error)
{
    struct trace_stop_thread *thread = trace_stop_find(inject->stop, inject->tid);
    int result = check_filters(inject, name, number, arguments, error);
    if (result < 0)
        return result;
    if (!thread || thread->state != TRACE_STOP_STOPPED)
        return base_fail(error, BASE_ENOTFOUND, "thread %d is gone", inject->tid);
    for (int round = 0; round < ROUNDS; round++) {
        result = inject->inside ? BASE_OK : save_place(inject, error);
        if (result < 0)
            return result;
        struct user_regs_struct call =
            trace_x86_64_call_make(&inject->place.registers, inject->syscall_at, number, arguments);
        result = enter_call(inject, thread, &call, round >= CALM, error);
        if (result < 0)
            return result;
        if (result > 0)
            return finish_call(inject, thread, answer, error);
    }
    return base_fail(error, BASE_EBUSY, "process %d receives signals so fast that nothing comes between them",
                     inject->stop->pid);
}

void trace_inject_chain(struct trace_inject *inject)
{
    inject->chained = true;
}

int trace_inject_settle(struct trace_inject *inject, struct base_error *error)
{
    bool inside = inject->inside;
    struct trace_stop_thread *thread = inside ? trace_stop_find(inject->stop, inject->tid) : NULL;
    inject->chained = inject->inside = false;
    if (!inside || (thread && thread->state == TRACE_STOP_STOPPED))
        return inside ? return_to_trap(inject, thread, 0, error) : BASE_OK;
    return base_fail(error, BASE_ENOTFOUND, "thread %d is gone", inject->tid);
}

/* --- calls that must succeed --- */

/* The same, where a failure of the call is an error. Returns BASE_OK and *answer >= 0, or what went wrong. */
int trace_inject_require(struct trace_inject *inject, const char *name, long number,
                         const uint64_t arguments[6], int64_t *answer, struct base_error *error)
{
    int result = trace_inject_call(inject, name, number, arguments, answer, error);
    if (result < 0)
        return result;
    if (*answer < 0 && *answer > -4096)
        return base_fail_errno(error, (int)-*answer, "%s in process %d", name, inject->stop->pid);
    return BASE_OK;
}

int trace_inject_unmap(struct trace_inject *inject, uint64_t address, uint64_t size, struct base_error *error)
{
    int64_t answer;
    return trace_inject_require(inject, "munmap", SYS_munmap, (uint64_t[6]){address, size}, &answer, error);
}

int trace_inject_give_back(struct trace_inject *inject, uint64_t address, uint64_t size,
                           struct base_error *error)
{
    int64_t answer;
    return trace_inject_require(inject, "madvise", SYS_madvise, (uint64_t[6]){address, size, MADV_DONTNEED},
                                &answer, error);
}

int trace_inject_wipe(struct trace_inject *inject, uint64_t address, uint64_t size, struct base_error *error)
{
    int64_t answer;
    return trace_inject_require(inject, "madvise", SYS_madvise, (uint64_t[6]){address, size, MADV_WIPEONFORK},
                                &answer, error);
}

int trace_inject_map_file(struct trace_inject *inject, const struct trace_inject_mapping *mapping,
                          struct base_error *error)
{
    const int file = mapping->file;
    int flags = mapping->how | (file < 0                     ? MAP_PRIVATE | MAP_ANONYMOUS
                                : mapping->how & MAP_PRIVATE ? 0
                                                             : MAP_SHARED);
    uint64_t arguments[6] = {mapping->address, mapping->size,           (uint64_t)mapping->protection,
                             (uint64_t)flags,  (uint64_t)(int64_t)file, mapping->offset};
    int64_t answer;
    int result = trace_inject_require(inject, "mmap", SYS_mmap, arguments, &answer, error);
    if (result < 0)
        return result;
    if ((uint64_t)answer == mapping->address)
        return BASE_OK;
    /* Kernels before 4.17 do not know MAP_FIXED_NOREPLACE: the address is a hint to them. */
    trace_inject_unmap(inject, (uint64_t)answer, mapping->size, NULL);
    return base_fail(error, BASE_EBUSY, "the memory at 0x%llx of process %d is not free",
                     (unsigned long long)mapping->address, inject->stop->pid);
}

int trace_inject_map(struct trace_inject *inject, uint64_t address, uint64_t size, int protection, int file,
                     struct base_error *error)
{
    const struct trace_inject_mapping mapping = {address, size, 0, protection, file, MAP_FIXED_NOREPLACE};
    return trace_inject_map_file(inject, &mapping, error);
}
