/* x86-64: arch_host_syscall (below) and arch_host_capture(struct arch_registers *registers in rdi).
 *
 * Only what a call preserves is known of the caller at its return address: rbx, rbp, r12-r15, and rsp as it
 * will be after our ret. value[n] is at 8 * n, `valid` behind the 33 values. */
#if defined(__x86_64__) && !defined(__ILP32__)
    .text
    .globl  arch_host_capture
    .type   arch_host_capture, @function
    .p2align 4
arch_host_capture:
    .cfi_startproc
#if defined(__CET__) && (__CET__ & 1)
    endbr64
#endif
    movq    %rbx, 3*8(%rdi)
    movq    %rbp, 6*8(%rdi)
    leaq    8(%rsp), %rax
    movq    %rax, 7*8(%rdi)
    movq    %r12, 12*8(%rdi)
    movq    %r13, 13*8(%rdi)
    movq    %r14, 14*8(%rdi)
    movq    %r15, 15*8(%rdi)
    movq    (%rsp), %rax
    movq    %rax, 16*8(%rdi)
    movl    $0x1f0c8, %eax          /* bits 3 6 7 12 13 14 15 16 */
    movq    %rax, 33*8(%rdi)
    ret
    .cfi_endproc
    .size   arch_host_capture, . - arch_host_capture

/* number rdi, arguments rsi rdx rcx r8 r9 and on the stack: one further than the kernel wants them. */
    .globl  arch_host_syscall
    .type   arch_host_syscall, @function
    .p2align 4
arch_host_syscall:
    .cfi_startproc
#if defined(__CET__) && (__CET__ & 1)
    endbr64
#endif
    movq    %rdi, %rax
    movq    %rsi, %rdi
    movq    %rdx, %rsi
    movq    %rcx, %rdx
    movq    %r8, %r10
    movq    %r9, %r8
    movq    8(%rsp), %r9
    syscall
    ret
    .cfi_endproc
    .size   arch_host_syscall, . - arch_host_syscall
#endif
    .section .note.GNU-stack, "", @progbits
