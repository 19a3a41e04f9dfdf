/* AArch64: the pure half, facts only.
 * Sources: AADWARF64 table 4.1 (DWARF numbers); asm/perf_regs.h; asm/sigcontext.h and asm/ucontext.h. At the
 * trampoline sp is at struct rt_sigframe: siginfo 128, ucontext up to its mcontext 176 (flags 8, link 8,
 * stack 24, signal mask padded to 128, alignment 8), fault_address 8, then regs[31], sp, pc.
 * Known limit: with 39-bit or smaller user addresses the pointer authentication code reaches below bit 48
 * and is not wholly stripped by code_mask; no processor with such a code runs those kernels by default. */
#include "arch.h"

enum { FP = 29, LINK = 30, SP = 31, PC = 32 };

#define FOUR(n) (n), (n) + 1, (n) + 2, (n) + 3

/* perf's order is DWARF's: x0-x29, lr, sp, pc. */
#define PERF_MASK UINT64_C(0x1ffffffff)
static const int8_t perf_to_dwarf[] = {FOUR(0),  FOUR(4),  FOUR(8),  FOUR(12), FOUR(16),
                                       FOUR(20), FOUR(24), FOUR(28), PC};

#define SLOT(n)                                                                                              \
    {                                                                                                        \
        (n), (n)*8                                                                                           \
    }
#define FOUR_SLOTS(n) SLOT(n), SLOT((n) + 1), SLOT((n) + 2), SLOT((n) + 3)
static const struct arch_signal_slot signal_slots[] = {
    FOUR_SLOTS(0),  FOUR_SLOTS(4),  FOUR_SLOTS(8),  FOUR_SLOTS(12), FOUR_SLOTS(16),
    FOUR_SLOTS(20), FOUR_SLOTS(24), FOUR_SLOTS(28), SLOT(PC),
};

/* mov x8, #139; svc #0 */
static const uint8_t sigreturn[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};

const struct arch arch_aarch64 = {
    .name = "aarch64",
    .machine = 183, /* EM_AARCH64 */
    .sp = SP,
    .fp = FP,
    .pc = PC,
    .link = LINK,
    .base = ARCH_NO_REGISTER,
    .return_column = LINK,
    .register_count = 33,
    .code_alignment = 4,
    .perf_mask = PERF_MASK,
    .perf_count = sizeof perf_to_dwarf,
    .perf_to_dwarf = perf_to_dwarf,
    .signal_context = 312,
    .signal_count = sizeof signal_slots / sizeof signal_slots[0],
    .signal_slots = signal_slots,
    .code_mask = (UINT64_C(1) << 48) - 1,
    .sigreturn = sigreturn,
    .sigreturn_size = sizeof sigreturn,
};
