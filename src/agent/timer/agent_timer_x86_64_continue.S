/* The way back from the timers' handler to a call that is about to be continued (agent_timer_restart.c, 3):
 * all that rt_sigreturn does, but for its forgetting how the kernel continues that call.
 *
 * void agent_timer_continue(const struct context *found): does not return, unless the thread has a shadow
 * stack, which only the kernel may put back, or has closed memory of protection key 0 to itself (pkeys(7)),
 * in which its other registers are saved: the kernel opens that for a handler, and XRSTOR closes it again. */

#include "agent_x86_64_frame.h"

#define CALL_MASK     14 /* rt_sigprocmask */
#define CALL_CONTINUE 219 /* restart_syscall */
#define SET_MASK      2  /* SIG_SETMASK */
#define SET_BYTES     8

/* struct context; arch/x86/include/uapi/asm/sigcontext.h */
#define R8      40
#define R9      48
#define R10     56
#define R12     72
#define R13     80
#define R14     88
#define R15     96
#define RDI     104 /* from here on in the order in which they are loaded: rsi, rbp, rbx, rdx, rax, rcx, rsp, rip */
#define RAX     144
#define RFLAGS  176
#define VECTOR  224
#define BLOCKED 296

/* Of the state that it points to: the components that were saved, 8 bytes (struct _fpx_sw_bytes). */
#define COMPONENTS 472

#define KEYS        0x200 /* of the components: which protection keys are closed (PKRU) */
#define KEY_0_BITS  3     /* of PKRU */

    .text

    begin_function agent_timer_continue
    xorl    %eax, %eax
    rdsspq  %rax /* does nothing where there is none */
    testq   %rax, %rax
    jnz     1f
    save    %rbx
    save    %r12
    save    %r13
    movq    %rdi, %rbx
    movq    VECTOR(%rbx), %r12
    movl    COMPONENTS(%r12), %r13d
    xorl    %ecx, %ecx
    testl   $KEYS, %r13d
    jz      2f
    rdpkru
    movl    %eax, %esi /* the handler's */
2:  movl    COMPONENTS+4(%r12), %edx
    movl    %r13d, %eax
    xrstor64 (%r12)
    testl   $KEYS, %r13d
    jz      3f
    rdpkru
    testl   $KEY_0_BITS, %eax
    jz      3f
    movl    %esi, %eax
    wrpkru
    load    %r13
    load    %r12
    load    %rbx
1:  retq
3:  .cfi_undefined %rip /* what is outside is no more on this stack as it was */
    movq    R8(%rbx), %r8
    movq    R9(%rbx), %r9
    movq    R12(%rbx), %r12
    movq    R13(%rbx), %r13
    movq    R14(%rbx), %r14
    movq    R15(%rbx), %r15
    movq    R10(%rbx), %rax
    movq    %rax, RAX(%rbx)
    leaq    RDI(%rbx), %rsp /* what a handler may write that comes as soon as it may lies below */
    leaq    BLOCKED(%rbx), %rsi
    movl    $SET_MASK, %edi
    xorl    %edx, %edx
    movl    $SET_BYTES, %r10d
    movl    $CALL_MASK, %eax
    pushq   RFLAGS(%rbx)
    popfq
    syscall
    popq    %rdi
    popq    %rsi
    popq    %rbp
    popq    %rbx
    popq    %rdx
    popq    %r10
    popq    %rcx
    movq    8(%rsp), %rcx /* this and r11 are the call's to change */
    movq    (%rsp), %rsp
    movl    $CALL_CONTINUE, %eax
    jmpq    *%rcx
    end_function agent_timer_continue

    .section .note.GNU-stack, "", @progbits
