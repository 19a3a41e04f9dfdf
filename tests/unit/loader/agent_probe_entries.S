/* The probe's handlers: r11 = struct wire_hook, whose cookie is at 24 and whose body at 8. */
.macro save
    push %rax
    push %rcx
    push %rdx
    push %rsi
    push %rdi
    push %r8
    push %r9
    push %r10
    push %r11
    push %rbp
    mov %rsp, %rbp
    and $-16, %rsp
    cld
.endm
.macro restore
    mov %rbp, %rsp
    pop %rbp
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
    pop %rdx
    pop %rcx
    pop %rax
.endm
.macro begin name
    .globl \name
    .hidden \name
    .type \name, @function
\name:
.endm

    .text
begin probe_count
    save
    mov 24(%r11), %rcx
    mov agent_parameters+8(%rip), %rax
    lock incq (%rax,%rcx,8)
    call probe_entered
    restore
    jmp *8(%r11)

/* Only registers reach the body as they were: for functions without arguments on the stack. */
begin probe_wrap
    push %rbp
    mov %rsp, %rbp
    push %r11
    push %r11
    mov agent_parameters+24(%rip), %r10
    lock incl (%r10)
    call *8(%r11)
    mov -8(%rbp), %r11
    mov 24(%r11), %rcx
    mov agent_parameters+8(%rip), %r10
    lock incq (%r10,%rcx,8)
    mov agent_parameters+24(%rip), %r10
    lock decl (%r10)
    leave
    ret

begin probe_notify
    save
    xor %edi, %edi
    call probe_notifies
    restore
    jmp *8(%r11)

begin probe_exec
    save
    mov $1, %edi
    call probe_notifies
    restore
    jmp *8(%r11)

    .section .note.GNU-stack, "", @progbits
