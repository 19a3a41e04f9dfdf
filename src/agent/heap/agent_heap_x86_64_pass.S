/* Quick entries of functions that allocate or release, for when blocks are sampled: nearly all only pass, and
 * are not worth a struct agent_frame and a wrapper in C.
 *
 * A block passes if its bytes do not reach the next sample, one that is released if no sample has an address
 * of its hash (agent_heap_sample.c). Whatever else may be (another state, another thread's record in this
 * place, a hook inside, timed calls that are pending, a thread pointer that only the kernel knows) goes to
 * the usual entry, as it came; nothing is written until all is clear.
 *
 * The body is called with the thread inside, as the wrapper does: what it maps or calls itself is not the
 * program's. Registers are as in agent_hook_x86_64_entry.S; rax belongs to nobody at the entry of a function
 * whose result it holds, or that has none. */

#include "agent_x86_64_frame.h"

    .section .rodata
    .p2align 3
golden:
    .quad   0x9e3779b97f4a7c15 /* agent_thread_home, agent_heap_sample_mark */

    .text

    .macro  pass name
    begin_function agent_entry_\name\()_pass
    movq    agent_parameters+ALIVE(%rip), %rax
    movq    agent_parameters+PROCESS(%rip), %r10
    cmpl    $PROCESS_ALIVE, (%rax)
    jne     agent_entry_\name
    cmpl    $STATE_RUNNING, STATE(%r10)
    jne     agent_entry_\name
    testb   $FSGSBASE+FS_SELF, agent_parameters+FLAGS(%rip)
    jz      agent_entry_\name
    .ifc    \name, free
    movq    %rdi, %rax
    shrq    $4, %rax
    imulq   golden(%rip), %rax
    shrq    $48, %rax
    cmpb    $0, SAMPLED(%r10,%rax)
    jne     agent_entry_\name
    .endif
    save    %rbx
    .cfi_rel_offset %rbx, 0
    thread_pointer %rbx
    movq    %rbx, %rax
    shrq    $6, %rbx
    imulq   golden(%rip), %rbx
    shrq    $49, %rbx
    movq    PLACES(%r10,%rbx,8), %r10 /* wire_agent_place_word */
    movzwl  %r10w, %ebx
    shrq    $16, %r10
    cmpq    %rax, %r10
    jne     9f
    shlq    $RECORD_BITS, %rbx
    addq    agent_parameters+THREADS(%rip), %rbx
    cmpq    %rax, (%rbx)
    jne     9f
    cmpl    $IS_OUTSIDE, INSIDE(%rbx)
    jne     9f
    movq    CALLS(%rbx), %rax
    testq   %rax, %rax
    jz      3f
    cmpl    $0, (%rax) /* struct wire_agent_calls.count */
    jne     9f
3:
    .ifnc   \name, free
    movq    %rdi, %r10
    .ifc    \name, calloc
    imulq   %rsi, %r10
    jo      9f
    .endif
    testq   %r10, %r10
    jle     9f
    cmpq    %r10, UNTIL_SAMPLE(%rbx)
    jle     9f
    .endif
    leaq    16(%rsp), %rax
1:  movq    %rax, ENTERED_SP(%rbx)
    movl    $IS_INSIDE, INSIDE(%rbx)
    cmpq    %rax, ENTERED_SP(%rbx)
    jne     1b
    cmpl    $IS_INSIDE, INSIDE(%rbx)
    jne     1b
    .ifnc   \name, free
    subq    %r10, UNTIL_SAMPLE(%rbx)
    .endif
    link_frame 8
    callq   *HOOK_BODY(%r11)
    unlink_frame
    .ifnc   \name, free
    testq   %rax, %rax
    jz      2f
    movq    %rax, LAST_BLOCK(%rbx)
2:
    .endif
    movl    $IS_OUTSIDE, INSIDE(%rbx)
    .cfi_remember_state
    load    %rbx
    .cfi_same_value %rbx
    retq
    .cfi_restore_state
9:  load    %rbx
    .cfi_same_value %rbx
    jmp     agent_entry_\name
    end_function agent_entry_\name\()_pass
    .endm

    pass    malloc
    pass    calloc
    pass    free

    .section .note.GNU-stack, "", @progbits
