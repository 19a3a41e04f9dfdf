/* stub_harness.S - see stub_harness.h. in/out: general 0, flags 128, vector 136, entry 392, leave 400, host_sp 408,
 * stack 416, times 544. */
        .intel_syntax noprefix
        .text
        .globl stub_harness_enter
        .type stub_harness_enter, @function
stub_harness_enter:
        push rbx
        push rbp
        push r12
        push r13
        push r14
        push r15
        lea r15, stub_harness_in[rip]
        mov [rip + saved_sp], rsp
        sub rsp, 1024
        mov [r15 + 408], rsp
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        movups xmm\n, [r15 + 136 + 16 * \n]
        .endr
        push qword ptr [r15 + 128]
        popfq
        mov rax, [r15 + 0]
        mov rcx, [r15 + 8]
        mov rdx, [r15 + 16]
        mov rbx, [r15 + 24]
        mov rbp, [r15 + 40]
        mov rsi, [r15 + 48]
        mov rdi, [r15 + 56]
        mov r8, [r15 + 64]
        mov r9, [r15 + 72]
        mov r10, [r15 + 80]
        mov r11, [r15 + 88]
        mov r12, [r15 + 96]
        mov r13, [r15 + 104]
        mov r14, [r15 + 112]
        mov r15, [r15 + 120]
        jmp qword ptr [rip + stub_harness_in + 392]

        .globl stub_harness_leave
stub_harness_leave:
        mov rsp, [rip + saved_sp]
        cld
        pop r15
        pop r14
        pop r13
        pop r12
        pop rbp
        pop rbx
        ret
        .size stub_harness_enter, . - stub_harness_enter

        .globl stub_harness_seen
stub_harness_seen:
        mov [rip + stub_harness_out + 120], r15
        lea r15, stub_harness_out[rip]
        mov [r15 + 0], rax
        /* The stack first: pushf writes on it. */
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        mov rax, [rsp - 64 + 8 * \n]
        mov [r15 + 416 + 8 * \n], rax
        .endr
        pushfq
        pop qword ptr [r15 + 128]
        mov [r15 + 8], rcx
        mov [r15 + 16], rdx
        mov [r15 + 24], rbx
        mov [r15 + 32], rsp
        mov [r15 + 40], rbp
        mov [r15 + 48], rsi
        mov [r15 + 56], rdi
        mov [r15 + 64], r8
        mov [r15 + 72], r9
        mov [r15 + 80], r10
        mov [r15 + 88], r11
        mov [r15 + 96], r12
        mov [r15 + 104], r13
        mov [r15 + 112], r14
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        movups [r15 + 136 + 16 * \n], xmm\n
        .endr
        inc qword ptr [r15 + 544]
        mov rax, [r15 + 0]
        mov r15, [r15 + 120]
        ret

        .bss
        .balign 8
saved_sp:
        .skip 8
        .globl stub_harness_in
        .balign 64
stub_harness_in:
        .skip 552
        .globl stub_harness_out
        .balign 64
stub_harness_out:
        .skip 552
        .section .note.GNU-stack, "", @progbits
