/* The entries: from a hooked function's stub to a wrapper in C, and back to the function's caller.
 *
 * At an entry every register is as the caller of the hooked function left it, but r11 = struct wire_hook. r10
 * and r11 are free: they belong to nobody between a call and the callee's first instruction (System V ABI
 * AMD64 3.2.3).
 *   1. When the agent is being taken out, or counts nothing in this process, the body is jumped to: nothing
 *      of ours is on the stack of a thread that came later.
 *   2. struct agent_frame is pushed. rbx serves as a scratch register behind it, and is put back from it.
 *   3. The return address and rbp are pushed once more, as a frame of the usual form: whoever follows frame
 *      pointers from inside the function comes to its caller.
 *   4. The wrapper is called with struct agent_frame before the function's first five arguments. The stack is
 *      aligned: eleven words and the return address. */

#include "agent_x86_64_frame.h"

#define ARCH_PRCTL  158 /* the system call */
#define ARCH_GET_FS 0x1003

    .text

/* What an entry does that has no other way. */
    .macro  call_wrapper wrapper, thread
    save    %r9
    save_frame \thread
    shift_arguments
    movq    %rsp, %rdi
    link_frame FRAME_BYTES
    callq   \wrapper
    unlink_frame
    drop_frame
    retq
    .endm

/* r10: the wrapper */
    .type   enter_early, @function
    .p2align 4
enter_early:
    .cfi_startproc
    call_wrapper *%r10, never
    .cfi_endproc
    .size   enter_early, . - enter_early

/* The wrapper says 0: nothing happened, go on as if there were no hook. For functions that may throw. */
    .type   enter_or_pass, @function
    .p2align 4
enter_or_pass:
    .cfi_startproc
    save    %r9
    save_frame asked
    save    %rdi
    save    %rsi
    save    %rdx
    save    %rcx
    shift_arguments
    leaq    32(%rsp), %rdi
    link_frame 32+FRAME_BYTES
    callq   *%r10
    unlink_frame
    load    %rcx
    load    %rdx
    load    %rsi
    load    %rdi
    movq    FRAME_HOOK(%rsp), %r11
    drop_frame
    testq   %rax, %rax
    jz      3f
    retq
3:  jmpq    *HOOK_BODY(%r11)
    .cfi_endproc
    .size   enter_or_pass, . - enter_or_pass

/* The wrapper answers { handled, result } in rax and rdx. Not handled: the body is jumped to. */
    .type   enter_or_answer, @function
    .p2align 4
enter_or_answer:
    .cfi_startproc
    save    %r9
    save_frame never
    save    %rdi
    save    %rsi
    save    %rdx
    save    %rcx
    save    %r8
    save    %rax
    shift_arguments
    leaq    48(%rsp), %rdi
    link_frame 48+FRAME_BYTES
    callq   *%r10
    unlink_frame
    movq    %rax, %r10
    load    %rax
    load    %r8
    load    %rcx
    movq    %rdx, %r11
    load    %rdx
    load    %rsi
    load    %rdi
    testq   %r10, %r10
    jz      4f
    movq    %r11, %rax
    .cfi_remember_state
    drop_frame
    retq
    .cfi_restore_state
4:  movq    FRAME_HOOK(%rsp), %r11
    movq    FRAME_SIXTH(%rsp), %r9
    drop_frame
    jmpq    *HOOK_BODY(%r11)
    .cfi_endproc
    .size   enter_or_answer, . - enter_or_answer

/* A function that is called often: its entry does all by itself, so that no jump of it has many targets. One that
 * would return into the agent was reached by a tail call of a function that a wrapper called (realloc goes on in
 * malloc): the wrapper counts, and the body is jumped to. A block that stands in for the caller's return address
 * (agent_call_x86_64_return.S) is no such wrapper: the function is timed, too. */
    .macro  own_entry name
    begin_function agent_entry_\name
    movq    agent_parameters+PROCESS(%rip), %r10
    cmpl    $STATE_RUNNING, STATE(%r10)
    jne     1f
    movq    (%rsp), %r10
    cmpq    agent_parameters+CODE_END(%rip), %r10
    jae     2f
    cmpq    agent_parameters+CODE(%rip), %r10
    jb      2f
    save    %rax
    leaq    agent_return_blocks(%rip), %rax
    subq    %rax, %r10
    load    %rax
    cmpq    $RETURNS << BLOCK_BITS, %r10
    jae     1f
2:  .cfi_remember_state
    call_wrapper agent_wrap_\name, asked
    .cfi_restore_state
1:  jmpq    *HOOK_BODY(%r11)
    end_function agent_entry_\name
    .endm

/* `always`: 1: also in a process that is not counted; 2: in any state. */
    .macro  entry name, way, always=0
    begin_function agent_entry_\name
    .if     \always == 2
    leaq    agent_wrap_\name(%rip), %r10
    jmp     \way
    .else
    movq    agent_parameters+PROCESS(%rip), %r10
    cmpl    $STATE_RUNNING, STATE(%r10)
    leaq    agent_wrap_\name(%rip), %r10
    je      \way
    .if     \always
    movq    agent_parameters+PROCESS(%rip), %r10
    cmpl    $STATE_FREE, STATE(%r10)
    leaq    agent_wrap_\name(%rip), %r10
    je      \way
    .endif
    jmpq    *HOOK_BODY(%r11)
    .endif
    end_function agent_entry_\name
    .endm

    own_entry malloc
    own_entry calloc
    own_entry realloc
    own_entry reallocarray
    own_entry free
    own_entry aligned
    own_entry posix_memalign
    own_entry pool_calloc
    own_entry pool_realloc
    own_entry pool_free
    entry   new, enter_or_pass
    entry   throw, enter_or_pass
    entry   close, enter_or_pass
    entry   close_range, enter_or_pass
    entry   fork, enter_or_pass
    entry   mmap, enter_early
    entry   munmap, enter_early
    entry   mremap, enter_early
    entry   brk, enter_early
    entry   sbrk, enter_early
    entry   objects, enter_early
    entry   end, enter_early
    entry   execve, enter_early
    entry   execveat, enter_early
    entry   thread, enter_or_answer
    entry   process, enter_or_answer
    entry   mask, enter_or_answer
    entry   action, enter_or_answer
    entry   prctl, enter_or_answer, 1
    entry   stack, enter_or_answer
    entry   syscall, enter_or_answer, 1
    entry   ring, enter_or_answer
    entry   object, enter_or_answer, 2 /* as long as the agent is on a stack */
    entry   headers, enter_or_answer, 2

/* Stacks are read as far as they were found readable. What another thread maps, protects or unmaps may have
 * been such a stack; so that is said before (agent_stack.c), and the body jumped to. */
    .globl  agent_entry_unmap
    .hidden agent_entry_unmap
    .type   agent_entry_unmap, @function
    begin_function agent_entry_protect
    testb   $1, %dl /* PROT_READ */
    jnz     1f
agent_entry_unmap:
    movq    agent_parameters+PROCESS(%rip), %r10
    cmpl    $STATE_FREE, STATE(%r10)
    je      1f /* agent_process_inert, which nobody may write */
    lock incl UNMAPPED(%r10)
1:  jmpq    *HOOK_BODY(%r11)
    end_function agent_entry_protect

/* The start routine of threads that are created while time is sampled: what it was to be is jumped to, so
 * that nothing of ours stays on the thread's stack. */
    begin_function agent_entry_started
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    callq   agent_timer_started
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    movq    %rdx, %rdi
    jmpq    *%rax
    end_function agent_entry_started

/* Where the handler returns to: the very bytes by which unwinders know the end of a handler. */
    .globl  agent_entry_restorer
    .hidden agent_entry_restorer
    .type   agent_entry_restorer, @function
    .p2align 4
    nop
agent_entry_restorer:
    movq    $15, %rax /* rt_sigreturn */
    syscall
    .size   agent_entry_restorer, . - agent_entry_restorer

/* uint64_t agent_thread_pointer(void): 0 while there is none. */
    begin_function agent_thread_pointer
    thread_pointer %rdx
    movq    %rdx, %rax
    retq
    end_function agent_thread_pointer

/* The same by a system call, and whether it need be made again: all registers but rax stay. */
    begin_function agent_thread_pointer_asked
    save    %rcx
    save    %r11
    save    %rdi
    save    %rsi
    pushq   $0
    .cfi_adjust_cfa_offset 8
    testl   $NO_ARCH_PRCTL, agent_parameters+FORBIDDEN(%rip)
    jnz     1f
    movl    $ARCH_GET_FS, %edi
    movq    %rsp, %rsi
    movl    $ARCH_PRCTL, %eax
    syscall
1:  load    %rax
    testq   %rax, %rax
    jz      2f
    cmpq    %fs:0, %rax
    jne     2f
    lock orl $FS_SELF, agent_parameters+FLAGS(%rip)
2:  load    %rsi
    load    %rdi
    load    %r11
    load    %rcx
    retq
    end_function agent_thread_pointer_asked

    .section .note.GNU-stack, "", @progbits
