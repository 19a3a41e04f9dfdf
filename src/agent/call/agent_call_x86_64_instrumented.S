/* The entries of hooks in instrumented functions that come by a linkage stub: calls of another object's
 * function, which may change whatever the ABI lets it change. agent_call_instrumented.c has the essay; hooks
 * of the program's own are in agent_call_x86_64_return.S.
 *
 * At an entry: [rsp] = the return address in its *slot*, rdi = function, rsi = caller, r11 = struct
 * wire_hook. */

#include "agent_x86_64_frame.h"

    .text

    .macro  entry name
    begin_function agent_entry_\name
    movq    agent_parameters+PROCESS(%rip), %rax
    cmpl    $STATE_RUNNING, STATE(%rax)
    jne     1f
    save    %r11
    save    %rsi
    save    %rdi
    xorl    %r8d, %r8d
    testl   $NO_TICKS, agent_parameters+FORBIDDEN(%rip)
    jnz     2f
    rdtsc
    shlq    $32, %rdx
    leaq    (%rax,%rdx), %r8 /* now; 0: it may not be known */
2:
    leaq    24(%rsp), %rdx
    thread_pointer %rcx
    callq   agent_wrap_\name
    load    %rdi
    load    %rsi
    load    %r11
    .ifc    \name, enter
    testb   %al, %al
    jnz     enter_first
    .endif
1:  jmpq    *HOOK_BODY(%r11)
    end_function agent_entry_\name
    .endm

    entry   enter
    entry   exit

/* The same event once more, with struct agent_frame: its stack is to be walked. */
    .type   enter_first, @function
    .p2align 4
enter_first:
    .cfi_startproc
    save    %r9
    save_frame asked
    save    %rsi
    save    %rdi
    movq    %rsi, %rdx
    movq    %rdi, %rsi
    leaq    16(%rsp), %rdi
    callq   agent_wrap_enter_first
    load    %rdi
    load    %rsi
    movq    FRAME_HOOK(%rsp), %r11
    drop_frame
    jmpq    *HOOK_BODY(%r11)
    .cfi_endproc
    .size   enter_first, . - enter_first

    .section .note.GNU-stack, "", @progbits
