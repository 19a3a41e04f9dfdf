/* Functions with first instructions of every form, for hooks of single functions. Each takes a number in rdi and answers in rax what the
 * test's table says. */
.macro function name
    .p2align 4
    .globl wrap_\name
    .type wrap_\name, @function
wrap_\name:
    .cfi_startproc
.endm
.macro end name
    .cfi_endproc
    .size wrap_\name, . - wrap_\name
.endm

    .text
function plain                  /* moves as it is: rdi + 1 */
    push %rbp
    mov %rsp, %rbp
    lea 1(%rdi), %rax
    pop %rbp
    ret
end plain

function endbr                  /* rdi + 2 */
    endbr64
    lea 2(%rdi), %rax
    ret
end endbr

function relative               /* an operand by rip: rdi + 1000 */
    mov constant(%rip), %rax
    add %rdi, %rax
    ret
end relative

function branch                 /* a short branch moves: rdi + 4, or -4 */
    test %rdi, %rdi
    js 1f
    lea 4(%rdi), %rax
    ret
1:  mov $-4, %rax
    ret
end branch

function counted                /* so does jrcxz: rdi + 5, or 5 */
    mov %rdi, %rcx
    jrcxz 1f
    lea 5(%rdi), %rax
    ret
1:  mov $5, %eax
    ret
end counted

function calling                /* so does a call, whose return address stays: rdi + 6 */
    push %rdi
    call helper
    pop %rdi
    add %rdi, %rax
    ret
end calling

    .p2align 4
    .type helper, @function
helper:
    .cfi_startproc
    mov $6, %eax
    ret
    .cfi_endproc
    .size helper, . - helper

function empty                  /* one byte, and padding: rax is what the caller left */
    ret
end empty
    .p2align 4, 0x90

function tail                   /* a jump alone: rdi + 1 */
    jmp wrap_plain
end tail

/* --- those that are refused --- */

function loops                  /* a branch to the start would count as calls */
    dec %rdi
    jns wrap_loops
    mov %rdi, %rax
    ret
end loops

function back                   /* a branch into what would be replaced */
    xor %eax, %eax
1:  inc %eax
    dec %edi
    jns 1b
    ret
end back

function returns                /* a call that returns into what would be replaced */
    xchg %rax, %rdi
    call *%rdi
    nop
    nop
    nop
    ret
end returns

    .p2align 4
    .globl wrap_short
    .type wrap_short, @function
wrap_short:                     /* no room: the next function begins at once */
    .cfi_startproc
    mov %edi, %eax
    ret
    .cfi_endproc
    .size wrap_short, . - wrap_short
    .globl wrap_next
    .type wrap_next, @function
wrap_next:
    .cfi_startproc
    lea 7(%rdi), %rax
    ret
    .cfi_endproc
    .size wrap_next, . - wrap_next

/* --- names --- */

    .globl wrap_alias
    .type wrap_alias, @function
    .set wrap_alias, wrap_plain
    .size wrap_alias, 9

    .p2align 4
    .globl wrap_chosen
    .type wrap_chosen, @gnu_indirect_function
wrap_chosen:
    .cfi_startproc
    lea wrap_next(%rip), %rax
    ret
    .cfi_endproc
    .size wrap_chosen, . - wrap_chosen

    .globl _ZN4wrap4mangEl
    .type _ZN4wrap4mangEl, @function
    .p2align 4
_ZN4wrap4mangEl:                /* wrap::mang(long): rdi + 9 */
    .cfi_startproc
    lea 9(%rdi), %rax
    nop
    ret
    .cfi_endproc
    .size _ZN4wrap4mangEl, . - _ZN4wrap4mangEl

    .section .rodata
constant:
    .quad 1000
    .section .note.GNU-stack, "", @progbits
