/* stub_harness.h - runs emitted code on this machine and looks at everything it may have changed.
 *
 * stub_harness_enter loads every register from `in`, jumps to `in.entry`, and returns when something reaches
 * stub_harness_leave. What comes to stub_harness_seen (as a function that is called) leaves all registers,
 * the flags and the top of the stack in `out`. */
#ifndef STUB_HARNESS_H
#define STUB_HARNESS_H

#include <stdint.h>

struct stub_harness_registers {
    uint64_t general[16]; /* in the order of their encoding: rax rcx rdx rbx rsp rbp rsi rdi r8 ... r15 */
    uint64_t flags;
    uint64_t vector[16][2];
    uint64_t entry, leave, host_sp; /* host_sp: rsp of the code that is tried, at its first instruction */
    uint64_t stack[16]; /* from rsp - 8 * 8 upwards, at stub_harness_seen: stack[8] is the return address */
    uint64_t times;
};

extern struct stub_harness_registers stub_harness_in, stub_harness_out;
extern const char stub_harness_seen[], stub_harness_leave[];
void stub_harness_enter(void);

#endif
