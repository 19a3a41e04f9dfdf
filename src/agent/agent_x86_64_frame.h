/* agent_x86_64_frame.h - macros of the entries in assembly (*_x86_64_*.S): struct agent_frame as it is
 * pushed. Offsets in structures are made from them (agent_offsets.c). Every push is described to foreign
 * unwinders (a sample inside of malloc); ours never walk through here. */
#ifndef AGENT_X86_64_FRAME_H
#define AGENT_X86_64_FRAME_H

#include "agent_offsets.h"

/* clang-format off */

/* A function in assembly that C or hooks refer to, until end_function. */
    .macro  begin_function symbol
    .globl  \symbol
    .hidden \symbol
    .type   \symbol, @function
    .p2align 4
\symbol:
    .cfi_startproc
    .endm

    .macro  end_function symbol
    .cfi_endproc
    .size   \symbol, . - \symbol
    .endm

    .macro  save register
    pushq   \register
    .cfi_adjust_cfa_offset 8
    .endm

    .macro  load register
    popq    \register
    .cfi_adjust_cfa_offset -8
    .endm

/* The thread pointer, 0 while there is none; flags are lost. Where rdfsbase may not be used (kernels before
 * 5.9, processors and virtual machines without it) fs:0 holds it, by the ABI of thread-local storage on
 * x86-64: read only when it was once seen to be so in this process, since before there is a thread pointer
 * fs:0 is no memory, and Go keeps something else there. Until then the kernel is asked. `register` is not
 * rax. */
    .macro  thread_pointer register
    testb   $FSGSBASE, agent_parameters+FLAGS(%rip)
    jnz     701f
    testb   $FS_SELF, agent_parameters+FLAGS(%rip)
    jnz     702f
    save    %rax
    callq   agent_thread_pointer_asked
    movq    %rax, \register
    load    %rax
    jmp     703f
702:
    movq    %fs:0, \register
    jmp     703f
701:
    rdfsbase \register
703:
    .endm

/* struct agent_frame, but for its `sixth`, which is on the stack: r11 is the hook. `thread`: asked, or never
 * where the wrapper in C asks. rbx is free then, until drop_frame. */
    .macro  save_frame thread
    save    %r15
    save    %r14
    save    %r13
    save    %r12
    save    %rbp
    save    %rbx
    .cfi_rel_offset %rbx, 0
    .ifc    \thread, never
    xorl    %ebx, %ebx
    .else
    thread_pointer %rbx
    .endif
    save    %rbx
    save    %r11
    .endm

/* All of it, with `sixth`. Flags stay. */
    .macro  drop_frame
    movq    FRAME_RBX(%rsp), %rbx
    .cfi_same_value %rbx
    leaq    FRAME_BYTES(%rsp), %rsp
    .cfi_adjust_cfa_offset -FRAME_BYTES
    .endm

/* A frame as by the usual prologue, for what follows frame pointers inside of the hooked function
 * (LeakSanitizer): the agent seems to be called from where the function was. `above`: bytes from rsp to the
 * return address. rbp is free behind it. */
    .macro  link_frame above
    pushq   \above(%rsp)
    .cfi_adjust_cfa_offset 8
    save    %rbp
    .cfi_rel_offset %rbp, 0
    movq    %rsp, %rbp
    .endm

/* Flags are lost. */
    .macro  unlink_frame
    load    %rbp
    .cfi_same_value %rbp
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    .endm

/* A function's own arguments go behind the frame, which is to be the first one. */
    .macro  shift_arguments
    movq    %r8, %r9
    movq    %rcx, %r8
    movq    %rdx, %rcx
    movq    %rsi, %rdx
    movq    %rdi, %rsi
    .endm

/* clang-format on */

#endif
