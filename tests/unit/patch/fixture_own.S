/* A static program that has functions under names of the C library's: some its own, some that make system calls. */
.macro function name
    .p2align 4
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
.endm
.macro end name
    .cfi_endproc
    .size \name, . - \name
.endm

    .text
function _start
    mov $60, %eax
    xor %edi, %edi
    syscall
    hlt
end _start

function accept                 /* the program's */
    lea 40(%rdi), %rax
    ret
end accept

function pipe                   /* the program's, and somebody goes over it */
    lea 41(%rdi), %rax
    ret
end pipe

function socket                 /* as glibc makes it */
    mov $41, %eax
    syscall
    ret
end socket

function dup                    /* as musl and glibc from 2.41 on do */
    mov $32, %eax
    call __syscall_ret
    ret
end dup

function creat
    mov $85, %eax
    jmp __syscall_ret
end creat

function __syscall_ret
    xor %esi, %esi
    syscall
    ret
end __syscall_ret

    .section .note.GNU-stack, "", @progbits
