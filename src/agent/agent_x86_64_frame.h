/* agent_x86_64_frame.h - macros of the entries in assembly (agent_x86_64_*.S): offsets in shared structures,
 * and struct agent_frame as it is pushed. Every push tells other people's unwinders (a sample inside of
 * malloc); ours never walk through here. */
#ifndef AGENT_X86_64_FRAME_H
#define AGENT_X86_64_FRAME_H

#define HOOK_BODY     8  /* struct wire_hook.body */
#define PROCESS       8  /* struct wire_agent_parameters.process */
#define FLAGS         24 /* struct wire_agent_parameters.flags */
#define STATE         12 /* struct wire_agent_process.state */
#define STATE_RUNNING 1
#define UNMAPPED      60 /* struct wire_agent_process.unmapped */
#define STATE_FREE    0
#define FORBIDDEN     56 /* struct wire_agent_parameters.forbidden */

/* clang-format off */

    .macro  save register
    pushq   \register
    .cfi_adjust_cfa_offset 8
    .endm

    .macro  load register
    popq    \register
    .cfi_adjust_cfa_offset -8
    .endm

/* struct agent_frame, but for its `sixth`, which is on the stack: r11 is the hook. `thread`: always, the
 * processor is known to have rdfsbase; asked, it may have none; never, there may be no thread pointer yet,
 * and fs:0 is not touched. rbx is free then, until drop_frame. */
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
    .ifc    \thread, asked
    testb   $1, agent_parameters+FLAGS(%rip)
    jnz     701f
    movq    %fs:0, %rbx
    jmp     702f
    .endif
701:
    rdfsbase %rbx
702:
    .endif
    save    %rbx
    save    %r11
    .endm

/* All of it, with `sixth`. Flags stay. */
    .macro  drop_frame
    movq    16(%rsp), %rbx
    .cfi_same_value %rbx
    leaq    72(%rsp), %rsp
    .cfi_adjust_cfa_offset -72
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
