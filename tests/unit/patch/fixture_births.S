/* Functions with system calls of every shape; test_births.c says what is to be found in each. */
    .text
    .macro begin name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    .endm
    .macro finish name
    .cfi_endproc
    .size \name, . - \name
    .endm

    begin births_plain
    mov $56, %eax
    syscall
    ret
    finish births_plain

    begin births_harmless
    mov $39, %eax
    syscall
    ret
    finish births_harmless

    begin births_zero /* read(2) */
    xor %eax, %eax
    syscall
    ret
    finish births_zero

    begin births_hoisted /* the number outlives a call in a register, and an early way out restores it */
    push %rbx
    mov $202, %ebx
    test %edi, %edi
    jne 1f
    pop %rbx
    ret
1:  call births_harmless
    mov %ebx, %eax
    syscall
    pop %rbx
    ret
    finish births_hoisted

    begin births_hoisted_clone
    push %rbx
    mov $435, %ebx
    call births_harmless
    mov %ebx, %eax
    syscall
    pop %rbx
    ret
    finish births_hoisted_clone

    begin births_two_ways /* the nearest number is harmless; another one comes by a jump */
    test %edi, %edi
    je 1f
    mov $57, %eax
    jmp 2f
1:  mov $39, %eax
2:  syscall
    ret
    finish births_two_ways

    begin births_by_first /* syscall(2) */
    mov %rdi, %rax
    mov %rsi, %rdi
    mov %rdx, %rsi
    syscall
    ret
    finish births_by_first

    begin births_by_second
    mov %rsi, %rax
    mov %rdx, %rdi
    syscall
    ret
    finish births_by_second

    begin births_from_memory
    mov (%rdi), %eax
    mov 8(%rdi), %rdi
    syscall
    ret
    finish births_from_memory

    begin births_loops /* what follows leads back */
    mov $7, %r8d
    mov %rdi, %r9
1:  mov %r9, %rdi
    mov $56, %eax
    syscall
    cmp $-11, %rax
    je 1b
    ret
    finish births_loops

    begin births_immediate /* 0f 05 within an instruction */
    mov $0x050f, %eax
    ret
    finish births_immediate

    begin births_unwound /* its unwind information ends before its instruction, as glibc's clone's does */
    test %rdi, %rdi
    je 1f
    mov $56, %eax
    .cfi_endproc
    syscall
    .cfi_startproc
1:  ret
    finish births_unwound

    .p2align 4 /* glibc's way back from a signal handler: FDE from the byte before */
    nop
births_restorer:
    mov $15, %rax
    syscall
    .size births_restorer, 0

#ifdef ENTERED
    begin births_entered /* a loop leads into its first bytes */
    nop
1:  nop
    mov $56, %eax
    syscall
    test %eax, %eax
    jne 1b
    ret
    finish births_entered
#endif
#ifdef NAMELESS
    .p2align 4
    .cfi_startproc /* nothing calls it: it may be a part of another function */
    mov $58, %eax
    syscall
    ret
    .cfi_endproc
#endif
#ifdef COMPATIBLE
    begin births_compatible
    mov $2, %eax
    int $0x80
    ret
    finish births_compatible
#endif
    .section .note.GNU-stack, "", @progbits
