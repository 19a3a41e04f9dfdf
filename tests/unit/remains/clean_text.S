/* Text that is changed by hand: eight pages in a pattern that holds the bytes of prefixes, and a function that is called. */
    .text
    .balign 4096
    .globl clean_text
clean_text:
    .rept 8 * 1024
    .byte 0x90, 0x2e, 0x40, 0xcc
    .endr

    .globl clean_entry
    .type clean_entry, @function
clean_entry:
    call clean_leaf
    inc %eax
    ret
clean_leaf:
    mov $41, %eax
    ret
    .size clean_entry, . - clean_entry
    .balign 4096
    .section .note.GNU-stack, "", @progbits
