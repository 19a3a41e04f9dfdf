"""Writes the assembly of a library whose functions are all called by address: many_hooks.py NUMBER FUNCTIONS > lib.S"""
import sys

number, functions = int(sys.argv[1]), int(sys.argv[2])
lines = [".text"]
for i in range(functions):
    name = f"f{number}_{i}"
    lines += [".p2align 4", f".type {name}, @function", f"{name}:", ".cfi_startproc", "lea 1(%rdi), %rax", "add $2, %rax", "ret", ".cfi_endproc",
              f".size {name}, .-{name}"]
lines += ['.section .data.rel.ro,"aw",@progbits', f".globl table_{number}", f"table_{number}:"]
lines += [f".quad f{number}_{i}" for i in range(functions)] + [".quad 0", '.section .note.GNU-stack,"",@progbits']
print("\n".join(lines))
