/* x86-64: the pure half, facts only.
 * Sources: System V ABI AMD64 figure 3.36 (DWARF numbers); asm/perf_regs.h; asm/sigcontext.h and
 * asm/ucontext.h (struct ucontext: flags 8, link 8, stack 24, then sigcontext: r8 ... r15, di, si, bp, bx,
 * dx, ax, cx, sp, ip). */
#include "arch.h"

enum { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP, R8, R9, R10, R11, R12, R13, R14, R15, RETURN };

/* perf's order: AX BX CX DX SI DI BP SP IP (bits 0-8), R8-R15 (bits 16-23). The flags tell an unwinder
 * nothing, and the kernel refuses a mask with the segment registers DS ES FS GS (bits 12-15). */
#define PERF_MASK UINT64_C(0xff01ff)
static const int8_t perf_to_dwarf[] = {RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP, RETURN,
                                       R8,  R9,  R10, R11, R12, R13, R14, R15};

static const struct arch_signal_slot signal_slots[] = {
    {R8, 0},   {R9, 8},   {R10, 16}, {R11, 24}, {R12, 32},  {R13, 40},  {R14, 48},  {R15, 56},     {RDI, 64},
    {RSI, 72}, {RBP, 80}, {RBX, 88}, {RDX, 96}, {RAX, 104}, {RCX, 112}, {RSP, 120}, {RETURN, 128},
};

/* mov $15,%rax; syscall */
static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};

const struct arch arch_x86_64 = {
    .name = "x86_64",
    .machine = 62, /* EM_X86_64 */
    .sp = RSP,
    .fp = RBP,
    .pc = RETURN,
    .link = ARCH_NO_REGISTER,
    .base = RBX, /* the CFA of glibc's _dl_runtime_resolve is rbx + n, while it calls */
    .return_column = RETURN,
    .register_count = 17,
    .code_alignment = 1,
    .perf_mask = PERF_MASK,
    .perf_count = sizeof perf_to_dwarf,
    .perf_to_dwarf = perf_to_dwarf,
    .signal_context = 40, /* the handler's ret has popped the trampoline's address: sp is at the ucontext */
    .signal_count = sizeof signal_slots / sizeof signal_slots[0],
    .signal_slots = signal_slots,
    .code_mask = UINT64_MAX,
    .sigreturn = sigreturn,
    .sigreturn_size = sizeof sigreturn,
};
