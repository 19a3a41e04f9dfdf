/* A library with a site or a first instruction of every form, also of those that compilers seldom write. forms_run(n) calls all of
 * them; forms_calls holds how often, by function, in the order of forms_functions. */
        .intel_syntax noprefix
        .text

        .macro function name
        .p2align 4
        .type \name, @function
\name:
        .cfi_startproc
        .endm
        .macro packed name
        .type \name, @function
\name:
        .cfi_startproc
        .endm
        .macro end name
        .cfi_endproc
        .size \name, . - \name
        .endm
        .macro counted index
        inc qword ptr [rip + forms_calls + 8 * \index]
        .endm

/* --- called by address: each is hooked, and begins in another way --- */

function moves_immediate
        mov eax, 1
        counted 0
        ret
end moves_immediate

function moves_rip
        lea rax, [rip]
        sub rax, rax
        counted 1
        ret
end moves_rip

function moves_call
        call moves_immediate
        counted 2
        ret
end moves_call

function moves_indirect_call
        call [rip + pointer_immediate]
        counted 3
        ret
end moves_indirect_call

function moves_branch
        test dil, 1
        je 1f
        mov eax, 2
        counted 4
        ret
1:      mov eax, 3
        counted 4
        ret
end moves_branch

function moves_loop
        mov rcx, rdi
        jrcxz 1f
        mov eax, 4
1:      counted 5
        ret
end moves_loop

function moves_pushes
        push rbx
        .cfi_adjust_cfa_offset 8
        push rbp
        .cfi_adjust_cfa_offset 8
        mov rbx, rdi
        lea rbp, [rbx + 1]
        mov rax, rbp
        counted 6
        pop rbp
        .cfi_adjust_cfa_offset -8
        pop rbx
        .cfi_adjust_cfa_offset -8
        ret
end moves_pushes

function begins_with_endbr
        endbr64
        push rbx
        .cfi_adjust_cfa_offset 8
        counted 7
        pop rbx
        .cfi_adjust_cfa_offset -8
        ret
end begins_with_endbr

/* --- sites --- */

function near_target
        mov eax, 7
        counted 8
        ret
end near_target

function jumps_short
        counted 9
        jmp near_target
end jumps_short

function branches_short
        counted 10
        test dil, 1
        je near_target
        mov eax, 9
        ret
end branches_short

function jumps
        counted 11
        .byte 0xe9
        .long moves_pushes - . - 4
end jumps

function branches
        counted 12
        test dil, 1
        .byte 0x0f, 0x84
        .long moves_immediate - . - 4
        mov eax, 10
        ret
end branches

function jumps_by_slot
        counted 13
        jmp [rip + pointer_pushes]
end jumps_by_slot

function jumps_in_group
        push rbx
        .cfi_adjust_cfa_offset 8
        sub rsp, 8
        .cfi_adjust_cfa_offset 8
        counted 14
        mov rdx, [rip + pointer_loop]
        add rsp, 8
        .cfi_adjust_cfa_offset -8
        pop rbx
        .cfi_adjust_cfa_offset -8
        jmp rdx
end jumps_in_group

function calls_by_slot
        counted 15
        call [rip + pointer_branch]
        ret
end calls_by_slot

function calls_by_register
        counted 16
        mov rax, [rip + pointer_call]
        call rax
        ret
end calls_by_register

function calls_by_stack
        sub rsp, 24
        .cfi_adjust_cfa_offset 24
        counted 17
        lea rax, [rip + moves_rip]
        mov [rsp + 8], rax
        mov rdi, rsp
        call [rsp + 8]
        add rsp, 24
        .cfi_adjust_cfa_offset -24
        ret
end calls_by_stack

function calls_from_table
        push rbx
        .cfi_adjust_cfa_offset 8
        counted 18
        lea rbx, [rip + forms_functions]
        and edi, 7
        mov rdx, rbx
        call [rdx + rdi * 8]
        pop rbx
        .cfi_adjust_cfa_offset -8
        ret
end calls_from_table

/* Without a byte between them, and further from any than a two-byte jump reaches. */
function packs_before
        .fill 140, 1, 0x90
        ret
end packs_before

packed packed_target
        mov eax, 11
        counted 20
        ret
end packed_target

packed jumps_short_in_group
        counted 21
        movzx esi, di
        jmp packed_target
end jumps_short_in_group

packed packs_behind
        .fill 140, 1, 0x90
        ret
end packs_behind

        .globl forms_run
function forms_run
        push rbx
        .cfi_adjust_cfa_offset 8
        push r12
        .cfi_adjust_cfa_offset 8
        push r13
        .cfi_adjust_cfa_offset 8
        counted 19
        mov rbx, rdi
        xor r12d, r12d
        test rbx, rbx
        je 2f
1:
        .irp callee, jumps_short, branches_short, jumps, branches, jumps_by_slot, jumps_in_group, \
                jumps_short_in_group, calls_by_slot, calls_by_register, calls_by_stack, calls_from_table, \
                moves_indirect_call, moves_call
        mov rdi, rbx
        call \callee
        lea r12, [r12 + r12 * 2]
        add r12, rax
        .endr
        mov rdi, rbx
        call begins_with_endbr
        dec rbx
        jne 1b
2:      mov rax, r12
        pop r13
        .cfi_adjust_cfa_offset -8
        pop r12
        .cfi_adjust_cfa_offset -8
        pop rbx
        .cfi_adjust_cfa_offset -8
        ret
end forms_run
        .p2align 4, 0xcc

        .section .data.rel.local, "aw", @progbits
        .balign 8
        .globl forms_functions
        .hidden forms_functions
        .type forms_functions, @object
forms_functions:
        .quad moves_immediate, moves_rip, moves_call, moves_indirect_call, moves_branch, moves_loop, moves_pushes
        .quad begins_with_endbr, near_target, jumps_short, branches_short, jumps, branches, jumps_by_slot, jumps_in_group
        .quad calls_by_slot, calls_by_register, calls_by_stack, calls_from_table, forms_run
        .quad packed_target, jumps_short_in_group
        .size forms_functions, . - forms_functions
pointer_immediate: .quad moves_immediate
pointer_branch: .quad moves_branch
pointer_pushes: .quad moves_pushes
pointer_loop: .quad moves_loop
pointer_call: .quad moves_call

        .bss
        .balign 8
        .globl forms_calls
        .hidden forms_calls
        .type forms_calls, @object
forms_calls:
        .skip 8 * 32
        .size forms_calls, . - forms_calls
        .section .note.GNU-stack, "", @progbits
