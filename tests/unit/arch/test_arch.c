/* test_arch.c - both machines' descriptions, on whatever machine this is. The numbers are written out from
 * the kernel's headers (asm/perf_regs.h, asm/sigcontext.h); where this host has the header, it is asked as
 * well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#include "arch.h"

static const struct arch *const both[] = {&arch_x86_64, &arch_aarch64};

static void finds_machines_by_elf_number(void **state)
{
    (void)state;
    assert_ptr_equal(arch_of_machine(62), &arch_x86_64);
    assert_ptr_equal(arch_of_machine(183), &arch_aarch64);
    assert_null(arch_of_machine(3)); /* i386 */
    assert_null(arch_of_machine(0));
    assert_true(arch_host() == &arch_x86_64 || arch_host() == &arch_aarch64);
}

static void descriptions_are_consistent(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const struct arch *arch = both[i];
        uint64_t seen = 0;
        assert_int_equal(__builtin_popcountll(arch->perf_mask), arch->perf_count);
        for (unsigned k = 0; k < arch->perf_count; k++)
            seen |= UINT64_C(1) << arch->perf_to_dwarf[k];
        assert_int_equal(__builtin_popcountll(seen), arch->perf_count); /* no register twice */
        assert_true(seen >> arch->sp & 1 && seen >> arch->fp & 1 && seen >> arch->pc & 1);
        assert_true(arch->register_count <= ARCH_REGISTERS && arch->pc < arch->register_count);
        uint64_t saved = 0;
        for (unsigned k = 0; k < arch->signal_count; k++)
            saved |= UINT64_C(1) << arch->signal_slots[k].register_number;
        assert_true(saved == seen); /* a signal frame restores what a sample has */
        assert_int_equal(arch->sigreturn_size % arch->code_alignment, 0);
    }
}

/* A sample's registers in the kernel's order, each value telling its perf number. */
static void x86_64_reads_a_perf_sample(void **state)
{
    static const uint64_t values[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19, 20, 21, 22, 23};
    struct arch_registers registers;
    (void)state;
    assert_true((arch_x86_64.perf_mask & UINT64_C(0xf000)) == 0); /* DS ES FS GS: refused by the kernel */
    arch_registers_of_perf(&arch_x86_64, values, &registers);
    static const uint8_t perf_of_dwarf[] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8};
    for (unsigned i = 0; i < sizeof perf_of_dwarf; i++)
        assert_int_equal(registers.value[i], perf_of_dwarf[i]);
    assert_true(registers.valid == 0x1ffff);
}

static void aarch64_reads_a_perf_sample(void **state)
{
    uint64_t values[33];
    struct arch_registers registers;
    (void)state;
    for (unsigned i = 0; i < 33; i++)
        values[i] = 1000 + i;
    arch_registers_of_perf(&arch_aarch64, values, &registers);
    for (unsigned i = 0; i < 33; i++)
        assert_int_equal(registers.value[i], 1000 + i);
    assert_true(registers.valid == UINT64_C(0x1ffffffff));
}

static uint16_t slot_of(const struct arch *arch, unsigned number)
{
    for (unsigned i = 0; i < arch->signal_count; i++)
        if (arch->signal_slots[i].register_number == number)
            return (uint16_t)(arch->signal_context + arch->signal_slots[i].offset);
    return 0;
}

static void signal_frames_are_the_kernels(void **state)
{
    (void)state;
    assert_int_equal(slot_of(&arch_x86_64, 8), 40);          /* r8 */
    assert_int_equal(slot_of(&arch_x86_64, 3), 40 + 11 * 8); /* rbx */
    assert_int_equal(slot_of(&arch_x86_64, 7), 160);         /* rsp: libc's own CFI says so too */
    assert_int_equal(slot_of(&arch_x86_64, 16), 168);        /* rip */
    assert_int_equal(slot_of(&arch_aarch64, 0), 312);
    assert_int_equal(slot_of(&arch_aarch64, 31), 312 + 31 * 8);
    assert_int_equal(slot_of(&arch_aarch64, 32), 312 + 32 * 8);
#ifdef REG_RIP
    static const int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (unsigned i = 0; i < 17; i++)
        assert_int_equal(slot_of(&arch_x86_64, i),
                         offsetof(ucontext_t, uc_mcontext.gregs) + (size_t)order[i] * sizeof(greg_t));
#endif
}

static void strips_signatures_on_aarch64_only(void **state)
{
    (void)state;
    assert_true((UINT64_C(0x00ab5555deadbeef) & arch_x86_64.code_mask) == UINT64_C(0x00ab5555deadbeef));
    assert_true((UINT64_C(0x002a5555deadbeec) & arch_aarch64.code_mask) == UINT64_C(0x5555deadbeec));
}

__attribute__((noinline)) static uint64_t capture(struct arch_registers *registers)
{
    arch_host_capture(registers);
    return (uint64_t)__builtin_frame_address(0);
}

static void captures_its_caller(void **state)
{
    struct arch_registers registers;
    const struct arch *arch = arch_host();
    (void)state;
    memset(&registers, 0, sizeof registers);
    uint64_t frame = capture(&registers);
    uint64_t function = (uint64_t)&capture;
    assert_true(registers.valid >> arch->pc & 1 && registers.valid >> arch->sp & 1 &&
                registers.valid >> arch->fp & 1);
    assert_true(registers.value[arch->pc] > function && registers.value[arch->pc] < function + 128);
    assert_true(registers.value[arch->sp] <= frame && frame - registers.value[arch->sp] < 4096);
    assert_true(registers.value[arch->sp] % 16 == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_machines_by_elf_number),  cmocka_unit_test(descriptions_are_consistent),
        cmocka_unit_test(x86_64_reads_a_perf_sample),    cmocka_unit_test(aarch64_reads_a_perf_sample),
        cmocka_unit_test(signal_frames_are_the_kernels), cmocka_unit_test(strips_signatures_on_aarch64_only),
        cmocka_unit_test(captures_its_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
