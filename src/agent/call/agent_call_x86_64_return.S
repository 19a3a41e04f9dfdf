/* The entry of functions that are timed, the blocks that stand in for return addresses, and the way back.
 * agent_call_function.c has the essay. All registers and the stack are as if nothing of this had happened: at
 * the body's first instruction, and at the caller's return address. Vector and floating-point registers are
 * never touched: the agent has none.
 *
 * At an entry: [rsp] = r11, [rsp + 8] = the return address in its *slot*, r11 = struct wire_hook. The 128
 * bytes below rsp are ours while we stand here: a signal's frame is put below them. */

#include "agent_x86_64_frame.h"

#define SAVED 64 /* bytes of the registers that an entry saves below the frame */

    .text

    .macro  entry name, always=0
    begin_function agent_entry_\name
    .cfi_def_cfa_offset 16
    .if     \always == 0
    save    %rax
    movq    agent_parameters+PROCESS(%rip), %rax
    cmpl    $STATE_RUNNING, STATE(%rax)
    load    %rax
    jne     pass_at_once
    .endif
    /* struct agent_frame; its `sixth` is the saved r11 */
    save_frame asked
    save    %rax
    save    %r10
    save    %rdi
    save    %rsi
    save    %rdx
    save    %rcx
    save    %r8
    save    %r9
    movq    %rsi, %rdx /* the function's own arguments, behind the frame */
    movq    %rdi, %rsi
    leaq    SAVED(%rsp), %rdi
    callq   agent_wrap_\name
    /* The body goes to slot - 8, the block to slot - 16: what was saved there is in its register again. */
    movq    SAVED+FRAME_HOOK(%rsp), %rcx
    movq    HOOK_BODY(%rcx), %rcx
    movq    SAVED+FRAME_SIXTH(%rsp), %r11
    movq    %rcx, SAVED+FRAME_SIXTH(%rsp)
    movq    %rax, SAVED+FRAME_R15(%rsp)
    testq   %rax, %rax
    load    %r9
    load    %r8
    load    %rcx
    load    %rdx
    load    %rsi
    load    %rdi
    load    %r10
    load    %rax
    drop_frame
    jz      2f
    leaq    8(%rsp), %rsp
    .cfi_def_cfa_offset 0
    jmpq    *-24(%rsp)
    .cfi_def_cfa_offset 8
2:  jmpq    *-8(%rsp)
    end_function agent_entry_\name
    .endm

    entry   function
    entry   descriptor
    entry   enter_defined
    entry   exit_defined
    entry   unwind, 1 /* also while the agent is being taken out, and in a process that is not counted */

    .type   pass_at_once, @function
pass_at_once:
    .cfi_startproc
    .cfi_def_cfa_offset 16
    movq    HOOK_BODY(%r11), %r11
    movq    %r11, -8(%rsp)
    popq    %r11
    .cfi_adjust_cfa_offset -8
    jmpq    *-16(%rsp)
    .cfi_endproc
    .size   pass_at_once, . - pass_at_once

/* What a replaced return address leads to, with the return address pushed: rsp is the slot. */
    .type   back, @function
    .p2align 4
back:
    .cfi_startproc
    save    %rax
    lahf
    seto    %al
    save    %rax /* flags: functions in assembly return in them */
    save    %rcx
    save    %rdx
    save    %rsi
    save    %rdi
    save    %r8
    save    %r9
    save    %r10
    save    %r11
    leaq    80(%rsp), %rdi
    thread_pointer %rsi
    save    %rsi /* for the alignment */
    callq   agent_wrap_return
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    load    %r11
    load    %r10
    load    %r9
    load    %r8
    load    %rdi
    load    %rsi
    load    %rdx
    load    %rcx
    load    %rax
    addb    $127, %al
    sahf
    load    %rax
    retq
    .cfi_endproc
    .size   back, . - back

/* Entered at its beginning by an entry, with the slot popped; and again, by the body's return, behind the
 * call. The processor predicts both returns, that of the body and that of `back`: each has its call. */
    .globl  agent_return_blocks
    .hidden agent_return_blocks
    .type   agent_return_blocks, @function
    .p2align 6
agent_return_blocks:
    .cfi_startproc
    .set    number, 0
    .rept   RETURNS
    callq   *-16(%rsp)
    pushq   agent_returns+8*number(%rip)
    jmp     back
    .p2align BLOCK_BITS, 0xcc
    .set    number, number+1
    .endr
    .cfi_endproc
    .size   agent_return_blocks, . - agent_return_blocks

    .section .note.GNU-stack, "", @progbits
