#include "arch.h"

const struct arch *arch_of_machine(uint16_t machine)
{
    static const struct arch *const known[] = {&arch_x86_64, &arch_aarch64};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i]->machine == machine)
            return known[i];
    return NULL;
}

void arch_registers_of_perf(const struct arch *arch, const uint64_t *values, struct arch_registers *registers)
{
    registers->valid = 0;
    for (unsigned i = 0; i < arch->perf_count; i++) {
        int number = arch->perf_to_dwarf[i];
        if (number < 0)
            continue;
        registers->value[number] = values[i];
        registers->valid |= UINT64_C(1) << number;
    }
}
