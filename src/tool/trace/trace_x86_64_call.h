/* trace_x86_64_call.h - system calls in the registers of a stopped thread: which one it is in, and how to
 * make one.
 *
 * Pure: registers in, registers out. When a thread is stopped inside a system call, orig_rax holds the call's
 * number and rax the answer that it would give; an answer of -512 to -516 (-ERESTARTSYS ...) never reaches
 * the program: before it returns to user mode the kernel either runs the call again (rip - 2) or, when a
 * handler runs first, makes EINTR of it. orig_rax -1 means: not in a call, change nothing. Context: any.
 * Source: arch/x86/kernel/signal.c, include/linux/errno.h, ptrace(2), signal(7). */
#ifndef TRACE_X86_64_CALL_H
#define TRACE_X86_64_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

/* Some calls answer EINTR as soon as anything wakes them, a tracer's stop too (signal(7), at its end;
 * epoll_wait, semop, sigtimedwait, io_uring_enter ...). Replaces that answer by -ERESTARTNOHAND: EINTR if a
 * handler runs, as it would be without us, else the call again. A relative time-out then begins again; it is
 * never shortened. True when something changed. */
bool trace_x86_64_call_restart(struct user_regs_struct *registers);

/* Was a call interrupted that the kernel restarts, or continues, unless a handler runs first? */
bool trace_x86_64_call_is_cut(const struct user_regs_struct *registers);

/* Is the thread inside vfork, or a clone that may wait as vfork does? `number` is a system call's. */
bool trace_x86_64_call_is_vfork(long number);

/* Registers that make system call `number` from the two bytes `syscall` at `at`, and nothing of the call
 * before. */
struct user_regs_struct trace_x86_64_call_make(const struct user_regs_struct *registers, uint64_t at,
                                               long number, const uint64_t arguments[6]);

/* The offset of a `syscall` (0f 05) in `bytes`, or SIZE_MAX. */
size_t trace_x86_64_call_find(const uint8_t *bytes, size_t size);

/* Registers show a 32-bit program (code segment 0x23). */
bool trace_x86_64_call_is_32_bit(const struct user_regs_struct *registers);

#endif
