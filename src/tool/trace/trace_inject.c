#include "trace_inject.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc_target.h"
#include "trace_step.h"
#include "trace_x86_64_call.h"

#define ROUNDS      200 /* signals that may come between before a call is given up */
#define CALM        20  /* signals that come between before others are blocked during a call's beginning */
#define TRIES       3   /* of putting registers back */
#define SEARCH_SIZE (1u << 20)
#define RED_ZONE    128
#define NAME_MAX_   64
#define RSEQ_CS     8 /* offset of the descriptor's address in struct rseq */

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
struct __ptrace_rseq_configuration {
    uint64_t rseq_abi_pointer;
    uint32_t rseq_abi_size, signature, flags, pad;
};
#endif

/* --- opening --- */

/* One inside a system call if there is one. A follower's processes share the memory, so that anybody's will
 * do, unless `process` says whose. */
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

/* The beginning of one mapping is looked through; a vDSO is a page or two. */
static bool find_in(const struct trace_inject *inject, const struct proc_mapping *mapping, uint8_t *bytes,
                    uint64_t *at)
{
    uint64_t size = mapping->end - mapping->start;
    size = size < SEARCH_SIZE ? size : SEARCH_SIZE;
    if (trace_memory_read(inject->memory, mapping->start, bytes, (size_t)size, NULL) < 0)
        return false;
    size_t found = trace_x86_64_call_find(bytes, (size_t)size);
    *at = mapping->start + found;
    return found != SIZE_MAX;
}

/* The kernel's own page first: nobody rewrites it. */
static bool find_instruction(struct trace_inject *inject, const struct proc_maps *maps, uint8_t *bytes)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < maps->count; i++) {
            const struct proc_mapping *mapping = &maps->items[i];
            bool is_vdso = !strcmp(mapping->path, "[vdso]");
            if (mapping->executable && mapping->readable && is_vdso == (pass == 0) &&
                find_in(inject, mapping, bytes, &inject->syscall_at))
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

static int save(struct trace_inject *inject, struct base_error *error)
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

static int put_back_registers(const struct trace_inject *inject, const struct trace_inject_place *place)
{
    for (int i = 0; i < TRIES; i++)
        if (!ptrace(PTRACE_SETREGS, inject->tid, 0, &place->registers))
            return BASE_OK;
    return errno == ESRCH ? BASE_OK : BASE_EIO; /* killed: there is nobody to put back */
}

/* The kernel clears the field when the thread returns to user mode outside the sequence, as it did for our
 * call. */
static void put_back_rseq(const struct trace_inject *inject, const struct trace_inject_place *place)
{
    if (place->rseq_cs_at && place->rseq_cs)
        trace_memory_write(inject->memory, place->rseq_cs_at, &place->rseq_cs, sizeof place->rseq_cs, NULL);
}

static int request(struct trace_stop_thread *thread, int request_, int signal, int *status,
                   struct base_error *error)
{
    int result = BASE_OK;
    for (int i = 0; i < TRIES; i++) {
        struct base_error why = {0};
        result = trace_stop_step(thread, request_, signal, status, &why);
        if (result == BASE_OK || thread->state == TRACE_STOP_GONE || i + 1 == TRIES) {
            if (result < 0)
                base_fail(error, result, "%s", why.text);
            break;
        }
    }
    return result;
}

/* Registers put back, then into the trap; on the way a signal may be delivered, where the thread was. */
static int return_to_trap(struct trace_inject *inject, struct trace_stop_thread *thread, int signal,
                          struct base_error *error)
{
    const struct trace_inject_place *place = &inject->place;
    int status, result = put_back_registers(inject, place);
    inject->inside = false;
    if (result < 0)
        return base_fail(error, result, "registers of thread %d cannot be put back", inject->tid);
    for (int i = 0; i < TRIES && ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0); i++)
        ;
    put_back_rseq(inject, place);
    result = request(thread, PTRACE_CONT, signal, &status, error);
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

/* The next stop that is not a trap's that was pending. `storm`: signals come faster than the thread can be let
 * run; they are blocked until it stands on the call's entry. */
static int run_to_entry(const struct trace_inject *inject, struct trace_stop_thread *thread, bool storm,
                        int *status, struct base_error *error)
{
    uint64_t mask;
    int result = BASE_OK;
    bool blocked = storm && !trace_step_block_signals(inject->tid, &mask);
    do
        result = request(thread, PTRACE_SYSCALL, 0, status, error);
    while (result == BASE_OK && is_trap(*status));
    if (blocked)
        trace_step_put_back_signals(inject->tid, mask);
    return result;
}

/* 1: the thread stands on the call's entry; 0: a signal came first and was delivered, try again; else an
 * error, with the thread where it was before (or gone). */
static int enter(struct trace_inject *inject, struct trace_stop_thread *thread,
                 const struct user_regs_struct *call, bool storm, struct base_error *error)
{
    int status;
    if (ptrace(PTRACE_SETREGS, inject->tid, 0, call)) {
        int number = errno;
        put_back_registers(inject, &inject->place);
        return base_fail_errno(error, number, "registers of thread %d cannot be written", inject->tid);
    }
    int result = run_to_entry(inject, thread, storm, &status, error);
    if (result < 0) {
        put_back_registers(inject, &inject->place);
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

/* From the entry to the exit, and to the trap, where the thread was before, unless another call follows. */
static int leave(struct trace_inject *inject, struct trace_stop_thread *thread, int64_t *answer,
                 struct base_error *error)
{
    struct user_regs_struct registers = {.rax = (unsigned long long)-EIO};
    inject->inside = false;
    int status, result = request(thread, PTRACE_SYSCALL, 0, &status, error);
    if (result < 0)
        return result;
    for (int i = 0; i < TRIES && ptrace(PTRACE_GETREGS, inject->tid, 0, &registers); i++)
        ;
    *answer = (int64_t)registers.rax;
    inject->inside = inject->chained;
    return inject->chained ? BASE_OK : return_to_trap(inject, thread, 0, error);
}

static int judge(const struct trace_inject *inject, const char *name, long number,
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
    int result = judge(inject, name, number, arguments, error);
    if (result < 0)
        return result;
    if (!thread || thread->state != TRACE_STOP_STOPPED)
        return base_fail(error, BASE_ENOTFOUND, "thread %d is gone", inject->tid);
    for (int round = 0; round < ROUNDS; round++) {
        result = inject->inside ? BASE_OK : save(inject, error);
        if (result < 0)
            return result;
        struct user_regs_struct call =
            trace_x86_64_call_make(&inject->place.registers, inject->syscall_at, number, arguments);
        result = enter(inject, thread, &call, round >= CALM, error);
        if (result < 0)
            return result;
        if (result > 0)
            return leave(inject, thread, answer, error);
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

/* --- calls that are needed --- */

/* The same, where a failure of the call is an error. Returns BASE_OK and *answer >= 0, or what went wrong. */
static int call(struct trace_inject *inject, const char *name, long number, const uint64_t arguments[6],
                int64_t *answer, struct base_error *error)
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
    return call(inject, "munmap", SYS_munmap, (uint64_t[6]){address, size}, &answer, error);
}

int trace_inject_give_back(struct trace_inject *inject, uint64_t address, uint64_t size,
                           struct base_error *error)
{
    int64_t answer;
    return call(inject, "madvise", SYS_madvise, (uint64_t[6]){address, size, MADV_DONTNEED}, &answer, error);
}

int trace_inject_wipe(struct trace_inject *inject, uint64_t address, uint64_t size, struct base_error *error)
{
    int64_t answer;
    return call(inject, "madvise", SYS_madvise, (uint64_t[6]){address, size, MADV_WIPEONFORK}, &answer,
                error);
}

int trace_inject_protect(struct trace_inject *inject, uint64_t address, uint64_t size, int protection,
                         struct base_error *error)
{
    int64_t answer;
    return call(inject, "mprotect", SYS_mprotect, (uint64_t[6]){address, size, (uint64_t)protection}, &answer,
                error);
}

/* `how`: MAP_FIXED or MAP_FIXED_NOREPLACE; of a file, with MAP_PRIVATE unless it is shared. */
static int map(struct trace_inject *inject, uint64_t address, uint64_t size, int protection, int file,
               uint64_t offset, int how, struct base_error *error)
{
    int flags = how | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : how & MAP_PRIVATE ? 0 : MAP_SHARED);
    uint64_t arguments[6] = {address, size, (uint64_t)protection, (uint64_t)flags, (uint64_t)(int64_t)file,
                             offset};
    int64_t answer;
    int result = call(inject, "mmap", SYS_mmap, arguments, &answer, error);
    if (result < 0)
        return result;
    if ((uint64_t)answer == address)
        return BASE_OK;
    /* Kernels before 4.17 take the address as a wish. */
    trace_inject_unmap(inject, (uint64_t)answer, size, NULL);
    return base_fail(error, BASE_EBUSY, "the memory at 0x%llx of process %d is not free",
                     (unsigned long long)address, inject->stop->pid);
}

int trace_inject_map(struct trace_inject *inject, uint64_t address, uint64_t size, int protection, int file,
                     struct base_error *error)
{
    return map(inject, address, size, protection, file, 0, MAP_FIXED_NOREPLACE, error);
}

/* --- shared memory --- */

static int close_there(struct trace_inject *inject, int64_t file, struct base_error *error)
{
    int64_t answer;
    int result = BASE_OK;
    for (int i = 0; i < TRIES; i++) {
        result = call(inject, "close", SYS_close, (uint64_t[6]){(uint64_t)file}, &answer,
                      i + 1 < TRIES ? NULL : error);
        if (result == BASE_OK)
            break;
    }
    return result;
}

/* The name must stand in the target's memory during the call: below the red zone of the thread's stack, where
 * nothing lives, and what stood there is put back; unless a signal came before the call (*moved), whose frame
 * lies there now. */
static int try_create_file(struct trace_inject *inject, const char *name, int64_t *file, bool *moved,
                           struct base_error *error)
{
    struct user_regs_struct registers, after;
    char before[NAME_MAX_], text[NAME_MAX_] = "";
    snprintf(text, sizeof text, "%s", name);
    int result = trace_stop_read(inject->stop, inject->tid, &registers, error);
    if (result < 0)
        return result;
    uint64_t at = (registers.rsp - RED_ZONE - sizeof text) & ~(uint64_t)15;
    result = trace_memory_read(inject->memory, at, before, sizeof before, error);
    if (result == BASE_OK)
        result = trace_memory_write(inject->memory, at, text, sizeof text, error);
    if (result < 0)
        return result;
    result = call(inject, "memfd_create", SYS_memfd_create,
                  (uint64_t[6]){at, MFD_CLOEXEC | MFD_ALLOW_SEALING}, file, error);
    *moved =
        trace_stop_read(inject->stop, inject->tid, &after, NULL) == BASE_OK && after.rsp != registers.rsp;
    for (int i = 0; !*moved && i < TRIES; i++)
        if (trace_memory_write(inject->memory, at, before, sizeof before, NULL) == BASE_OK)
            break;
    return result;
}

/* A file that was made while the thread moved has what name there was: another one is made, below its new
 * place. */
static int create_file(struct trace_inject *inject, const char *name, int64_t *file, struct base_error *error)
{
    for (int i = 0; i < ROUNDS; i++) {
        bool moved = false;
        int result = try_create_file(inject, name, file, &moved, error);
        if (!moved)
            return result;
        if (result == BASE_OK && (result = close_there(inject, *file, error)) < 0)
            return result;
    }
    return base_fail(error, BASE_EBUSY, "process %d receives signals so fast that nothing comes between them",
                     inject->stop->pid);
}

static int open_outside(const struct trace_inject *inject, int64_t file, uint64_t size,
                        struct base_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%lld", inject->tid, (long long)file);
    int ours = open(path, O_RDWR | O_CLOEXEC);
    if (ours < 0)
        return base_fail_errno(error, errno, "shared memory of process %d cannot be opened",
                               inject->stop->pid);
    if (!ftruncate(ours, (off_t)size))
        return ours;
    int number = errno;
    close(ours);
    return base_fail_errno(error, number, "%llu bytes of shared memory", (unsigned long long)size);
}

/* What is to be mapped of one file. */
struct shared {
    uint64_t address, size;
    int protection;
    struct trace_inject_data data;
    int how;
    const struct trace_inject_word *words; /* written before anything is mapped */
    size_t word_count;
    const struct trace_inject_piece *pieces; /* NULL: all of it is mapped */
    size_t piece_count;
};

/* Where all of it lies; its size is that of both parts. */
static uint64_t start_of(const struct shared *shared)
{
    return shared->address - (shared->data.first ? shared->data.size : 0);
}

/* Our files are mostly holes: for a core dump of the target the kernel would make every page of them. Where
 * it may not be asked for, things are as without. */
static void leave_out_of_dumps(struct trace_inject *inject, const struct shared *shared)
{
    int64_t answer;
    for (size_t i = 0; i < shared->piece_count; i++)
        trace_inject_call(
            inject, "madvise", SYS_madvise,
            (uint64_t[6]){shared->address + shared->pieces[i].at, shared->pieces[i].size, MADV_DONTDUMP},
            &answer, NULL);
    if (shared->pieces)
        return;
    uint64_t arguments[6] = {start_of(shared), shared->size + shared->data.size, MADV_DONTDUMP};
    trace_inject_call(inject, "madvise", SYS_madvise, arguments, &answer, NULL);
}

static int write_words(const struct shared *shared, int ours, struct base_error *error)
{
    for (size_t i = 0; i < shared->word_count; i++) {
        const struct trace_inject_word *word = &shared->words[i];
        if (word->offset > shared->size - sizeof word->value)
            return base_fail(error, BASE_EUSAGE, "a word outside of the shared memory");
        if (pwrite(ours, &word->value, sizeof word->value, (off_t)word->offset) != sizeof word->value)
            return base_fail_errno(error, errno, "shared memory");
    }
    return BASE_OK;
}

static void unmap_pieces(struct trace_inject *inject, const struct shared *shared, size_t count)
{
    for (size_t i = 0; i < count; i++)
        trace_inject_unmap(inject, shared->address + shared->pieces[i].at, shared->pieces[i].size, NULL);
}

static int map_pieces(struct trace_inject *inject, const struct shared *shared, int theirs,
                      struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < shared->piece_count && result == BASE_OK; i++) {
        const struct trace_inject_piece *piece = &shared->pieces[i];
        result = map(inject, shared->address + piece->at, piece->size, shared->protection, theirs,
                     piece->offset, shared->how | (piece->is_own ? MAP_PRIVATE : 0), error);
        if (result < 0)
            unmap_pieces(inject, shared, i);
    }
    return result;
}

static int map_shared(struct trace_inject *inject, const struct shared *shared, int theirs,
                      struct base_error *error)
{
    if (shared->pieces)
        return map_pieces(inject, shared, theirs, error);
    int result =
        map(inject, shared->address, shared->size, shared->protection, theirs, 0, shared->how, error);
    if (result < 0 || !shared->data.size)
        return result;
    uint64_t at = shared->data.first ? start_of(shared) : shared->address + shared->size;
    result =
        map(inject, at, shared->data.size, PROT_READ | PROT_WRITE, theirs, shared->size, shared->how, error);
    if (result < 0)
        trace_inject_unmap(inject, shared->address, shared->size, NULL);
    return result;
}

static int make_shared(struct trace_inject *inject, const char *name, const struct shared *shared, int *file,
                       struct base_error *error)
{
    int64_t theirs;
    int result = create_file(inject, name, &theirs, error);
    if (result < 0)
        return result;
    int ours = open_outside(inject, theirs, shared->size + shared->data.size, error);
    result = ours < 0 ? ours : write_words(shared, ours, error);
    if (result == BASE_OK)
        result = map_shared(inject, shared, (int)theirs, error);
    if (result == BASE_OK)
        leave_out_of_dumps(inject, shared);
    int closed = close_there(inject, theirs, error);
    if (result == BASE_OK && closed == BASE_OK) {
        *file = ours;
        return BASE_OK;
    }
    if (result == BASE_OK && shared->pieces)
        unmap_pieces(inject, shared, shared->piece_count);
    else if (result == BASE_OK && shared->how == MAP_FIXED_NOREPLACE)
        trace_inject_unmap(inject, start_of(shared), shared->size + shared->data.size, NULL);
    if (ours >= 0)
        close(ours);
    return result < 0 ? result : closed;
}

static int share(struct trace_inject *inject, const char *name, const struct shared *shared, int *file,
                 struct base_error *error)
{
    trace_inject_chain(inject);
    int result = make_shared(inject, name, shared, file, error);
    int settled = trace_inject_settle(inject, result < 0 ? NULL : error);
    if (result < 0 || settled == BASE_OK)
        return result;
    close(*file);
    return settled;
}

int trace_inject_share(struct trace_inject *inject, const char *name, uint64_t address, uint64_t size,
                       int protection, int *file, struct base_error *error)
{
    return trace_inject_share_both(inject, name, address, size, protection, (struct trace_inject_data){0},
                                   file, error);
}

int trace_inject_share_both(struct trace_inject *inject, const char *name, uint64_t address, uint64_t size,
                            int protection, struct trace_inject_data data, int *file,
                            struct base_error *error)
{
    const struct shared shared = {
        .address = address, .size = size, .protection = protection, .data = data, .how = MAP_FIXED_NOREPLACE};
    return share(inject, name, &shared, file, error);
}

int trace_inject_share_pieces(struct trace_inject *inject, const char *name, uint64_t address, uint64_t size,
                              const struct trace_inject_piece *pieces, size_t count, int *file,
                              struct base_error *error)
{
    const struct shared shared = {.address = address,
                                  .size = size,
                                  .protection = PROT_READ | PROT_WRITE,
                                  .how = MAP_FIXED_NOREPLACE,
                                  .pieces = pieces,
                                  .piece_count = count};
    return share(inject, name, &shared, file, error);
}

/* Does every byte lie in a mapping of a memfd of that name? */
static bool is_shared(const struct proc_maps *maps, const char *name, uint64_t address, uint64_t size)
{
    char path[NAME_MAX_];
    uint64_t at = address;
    int length = snprintf(path, sizeof path, "/memfd:%s", name);
    for (size_t i = 0; i < maps->count && at < address + size; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        if (mapping->end <= at || mapping->start > at)
            continue;
        if (strncmp(mapping->path, path, (size_t)length) ||
            (mapping->path[length] && mapping->path[length] != ' '))
            return false;
        at = mapping->end;
    }
    return at >= address + size && size && address + size > address;
}

int trace_inject_reshare(struct trace_inject *inject, const char *name, uint64_t address, uint64_t size,
                         int protection, const struct trace_inject_word *words, size_t count, int *file,
                         struct base_error *error)
{
    struct proc_maps maps = {0};
    int result = trace_inject_maps(inject, &maps, error);
    bool ours = result == BASE_OK && is_shared(&maps, name, address, size);
    proc_maps_free(&maps);
    if (result == BASE_OK && !ours)
        return base_fail(error, BASE_EUSAGE, "the memory at 0x%llx of process %d is none that tally shares",
                         (unsigned long long)address, inject->stop->pid);
    const struct shared shared = {.address = address,
                                  .size = size,
                                  .protection = protection,
                                  .how = MAP_FIXED,
                                  .words = words,
                                  .word_count = count};
    return result < 0 ? result : share(inject, name, &shared, file, error);
}
