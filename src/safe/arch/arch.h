/* arch.h - what the rest of Tally may ask about a machine.
 *
 * Two halves. The *pure* half is one `struct arch` per machine: facts and functions of bytes, compiled and
 * tested on every host, so that a profile of one machine can be worked on by another. The *host* half
 * (arch_host_*) is about the machine this code runs on. x86_64/ and aarch64/ hold the same file names;
 * `#if` on the architecture stands nowhere else.
 * Registers are named by their DWARF number (System V ABI AMD64 figure 3.36; AADWARF64 table 4.1).
 * Context: anywhere, signal handlers included. */
#ifndef ARCH_H
#define ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARCH_REGISTERS 33 /* DWARF 0..16 on x86-64 (16 = return address), 0..31 and pc (32) on AArch64 */

/* A thread's registers. `valid` has bit n set when value[n] is known. */
struct arch_registers {
    uint64_t value[ARCH_REGISTERS];
    uint64_t valid;
};

struct arch {
    const char *name;      /* as uname -m says */
    uint16_t machine;      /* ELF e_machine */
    uint8_t sp, fp, pc;    /* DWARF numbers; pc: the slot used for the program counter */
    uint8_t link;          /* the register that holds a leaf's return address, or ARCH_NO_REGISTER */
    uint8_t base;          /* one more callee-saved register to follow (rbx), or ARCH_NO_REGISTER */
    uint8_t return_column; /* usual DWARF return-address column */
    uint8_t register_count;
    uint8_t code_alignment;      /* of an instruction: 1 or 4 bytes */
    uint64_t perf_mask;          /* perf_event_attr.sample_regs_user that fills the registers below */
    uint8_t perf_count;          /* bits in perf_mask */
    const int8_t *perf_to_dwarf; /* per set bit of perf_mask, lowest first: DWARF number, or -1 */
    uint16_t signal_context;     /* at a signal trampoline: distance from sp to the saved registers, bytes */
    uint8_t signal_count;        /* number of registers saved there that are wanted */
    const struct arch_signal_slot *signal_slots;
    uint64_t code_mask;       /* AND a return address with it: strips pointer authentication */
    const uint8_t *sigreturn; /* the machine code of rt_sigreturn as C libraries write it */
    uint8_t sigreturn_size;
};

#define ARCH_NO_REGISTER 255

struct arch_signal_slot {
    uint8_t register_number; /* DWARF */
    uint16_t offset;         /* from signal_context, bytes */
};

extern const struct arch arch_x86_64, arch_aarch64;

/* The description for an ELF machine; NULL when Tally does not know it. */
const struct arch *arch_of_machine(uint16_t machine);

/* The machine this was compiled for. */
const struct arch *arch_host(void);

/* Fills `registers` from the values of a perf sample (in the order of perf_mask's bits). */
void arch_registers_of_perf(const struct arch *arch, const uint64_t *values,
                            struct arch_registers *registers);

/* Captures the caller's registers as they are at its return address: walking from them gives the caller
 * as the first frame. Host half, written in assembly. */
void arch_host_capture(struct arch_registers *registers);

/* The processor's clock: ticks of a constant rate since some time. */
uint64_t arch_host_ticks(void);

/* A system call without a C library: no errno is touched, the result is the kernel's (-4095..-1: an
 * error). */
int64_t arch_host_syscall(uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                          uint64_t f);

#endif
