/* AArch64: arch_host_syscall (below) and arch_host_capture(struct arch_registers *registers in x0).
 *
 * Only what a call preserves is known of the caller at its return address: x19-x29 and sp. The link register
 * holds our own return address, which is the program counter and not the caller's: it is left out.
 * value[n] is at 8 * n, `valid` behind the 33 values. */
#if defined(__aarch64__) && !defined(__ILP32__) && !defined(__AARCH64EB__)
    .text
    .globl  arch_host_capture
    .type   arch_host_capture, %function
    .p2align 4
arch_host_capture:
    .cfi_startproc
    hint    #34                     /* bti c */
    str     x19, [x0, #19*8]
    stp     x20, x21, [x0, #20*8]
    stp     x22, x23, [x0, #22*8]
    stp     x24, x25, [x0, #24*8]
    stp     x26, x27, [x0, #26*8]
    stp     x28, x29, [x0, #28*8]
    mov     x1, sp
    str     x1, [x0, #31*8]
    str     x30, [x0, #32*8]
    mov     x1, #0xbff8             /* bits 19-29 and 31, 32: 0x1_bff8_0000 */
    lsl     x1, x1, #16
    orr     x1, x1, #0x100000000
    str     x1, [x0, #33*8]
    ret
    .cfi_endproc
    .size   arch_host_capture, . - arch_host_capture

/* number x0, arguments x1-x6: one further than the kernel wants them. */
    .globl  arch_host_syscall
    .type   arch_host_syscall, %function
    .p2align 4
arch_host_syscall:
    .cfi_startproc
    hint    #34                     /* bti c */
    mov     x8, x0
    mov     x0, x1
    mov     x1, x2
    mov     x2, x3
    mov     x3, x4
    mov     x4, x5
    mov     x5, x6
    svc     #0
    ret
    .cfi_endproc
    .size   arch_host_syscall, . - arch_host_syscall
#endif
    .section .note.GNU-stack, "", %progbits
