/* plan_creation.h - which functions of an image create threads and processes or execute programs: those whose
 * system calls do.
 *
 * The calls of a process that is not traced are counted exactly as long as it creates no thread or process
 * and executes no program. Each of these needs a `syscall` instruction with one of six numbers (clone,
 * clone3, fork, vfork, execve, execveat), so these are looked for: every byte pair that may be such an
 * instruction, the function around it (symbols, FDEs), and what that puts into eax. A number that is not a
 * known constant may be any. Each such function can be given a doorbell (stub_doorbell.h) at its entry, if
 *   its start is an entry (no fragment; a nameless one must be called directly),
 *   nothing else leads past its first instructions, and these can be moved.
 * Where that is not so, or the instruction is in no function, the image has a *raw* syscall site.
 *
 * Hand-written functions often end, for the unwinder, before their instruction: one that follows a function
 * at once belongs to it. In between functions bytes are data when they do not decode.
 *
 * Not seen: code that a program writes itself, and an instruction inside the bytes of another. What compilers
 * emit is understood, not what is hidden on purpose. Pure. Context: tool. Source: Intel SDM volume 2;
 * arch/x86/entry/syscalls/syscall_64.tbl. */
#ifndef PLAN_CREATION_H
#define PLAN_CREATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "elf_image.h"

#define PLAN_CREATION_NUMBERS 6
extern const uint32_t plan_creation_numbers[PLAN_CREATION_NUMBERS];

/* The function is one of them only if this register holds one of the numbers at its entry (syscall(2), and
 * what musl's functions that can be cancelled come through). x86-64's number of the register. */
enum plan_creation_argument { PLAN_CREATION_ALWAYS = 0, PLAN_CREATION_BY_RSI = 6, PLAN_CREATION_BY_RDI = 7 };

struct plan_creation {
    uint64_t start, end; /* image addresses of the function */
    /* From here on no instruction leads to one of them any more; `end` where that is not known. */
    uint64_t past;
    unsigned length;  /* of the first instructions, five bytes or more, that a doorbell moves */
    uint8_t argument; /* enum plan_creation_argument */
};

struct plan_creations {
    struct plan_creation *items; /* by address */
    size_t count, capacity;
    bool is_raw;
    uint64_t raw; /* the first system call that no doorbell can precede */
};

/* Fills *creations ({0}); free it also after an error. */
int plan_creation_find(const struct elf_image *image, struct plan_creations *creations,
                       struct base_error *error);
void plan_creation_free(struct plan_creations *creations);

#endif
