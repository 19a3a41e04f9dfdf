/* Modules: which one an address is in, and the rows that describe its code. */
#include "agent_module.h"

#include "agent_memory.h"
#include "agent_return.h"
#include "arch.h"
#include "wire_agent_layout.h"
#include "wire_rows.h"

/* Is that generation's table the valid one still? As soon as the next one is published tally may write this
 * one again, so what was read of it counts only if it is. */
bool agent_module_is_present(uint32_t generation)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* the table is read before the generation */
    return __atomic_load_n(&agent_process()->generation, __ATOMIC_RELAXED) == generation;
}

/* A blob that tally wrote and checked; here only what keeps reads inside the file. `module` is a copy. */
static bool find_rows(struct unwind_rows *rows, const struct wire_agent_module *module)
{
    const struct wire_agent_control *control = agent_control();
    if (module->rows_size < sizeof(struct wire_rows_header) || module->rows_size > control->rows_size ||
        module->rows_offset > control->rows_size - module->rows_size ||
        !agent_memory_has(WIRE_AGENT_PART_ROWS, module->rows_offset + module->rows_size))
        return false;
    const uint8_t *blob =
        (const uint8_t *)(agent_parameters.control + control->rows_offset + module->rows_offset);
    const struct wire_rows_header *header = (const void *)blob;
    rows->header = header;
    rows->rules = (const void *)(blob + sizeof *header);
    rows->pages = (const void *)(rows->rules + header->rule_count);
    rows->rows = (const void *)(rows->pages + header->page_count + 1);
    rows->arch = arch_host();
    return header->magic == WIRE_ROWS_MAGIC && header->machine == rows->arch->machine;
}

/* The module of an address in the table of that generation; NULL: none. */
static const struct wire_agent_module *module_at(uint32_t generation, uint64_t pc)
{
    const struct wire_agent_process *process = agent_process();
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    const struct wire_agent_module *modules = agent_part(layout.modules[generation & 1]);
    uint32_t low = 0, high = __atomic_load_n(&process->module_count[generation & 1], __ATOMIC_RELAXED);
    if (generation == 0 || high > WIRE_AGENT_MODULES)
        return NULL;
    const uint32_t count = high;
    while (low < high) { /* the first module that ends behind pc */
        uint32_t middle = low + (high - low) / 2;
        if (modules[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low >= count || pc < modules[low].start)
        return NULL;
    return &modules[low];
}

/* A copy of the module of an address, of one table. All that is used of a module comes from such a copy:
 * tally writes the table itself while we look, so a word of it that was checked may be another one when it is
 * read again. */
static bool copy_module(uint32_t generation, uint64_t address, struct wire_agent_module *module)
{
    const struct wire_agent_module *there = module_at(generation, address);
    if (there != NULL)
        *module = *there;
    return agent_module_is_present(generation) && there != NULL;
}

/* What stands for a return address (agent_return.c) is described as that is: the walk looks at the word
 * before it. */
bool agent_module_place(void *context, uint64_t pc, struct unwind_place *found)
{
    const struct agent_module_table *table = context;
    uint64_t real = agent_return_real(pc + 1) - 1;
    struct wire_agent_module module;
    if (!copy_module(table->generation, real, &module))
        return false;
    *found = (struct unwind_place){find_rows(table->rows, &module) ? table->rows : NULL,
                                   module.bias + (pc - real), module.cookie};
    return true;
}

/* False: the address is in no module, or tables changed under every look. */
static bool copy_present_module(uint64_t address, struct wire_agent_module *module)
{
    for (unsigned i = 0; i < AGENT_MODULE_TRIES; i++) {
        uint32_t generation = agent_module_generation();
        if (copy_module(generation, address, module))
            return true;
        if (agent_module_is_present(generation))
            return false;
    }
    return false;
}

bool agent_module_find(uint64_t address, struct wire_agent_module *module)
{
    struct unwind_rows rows;
    return copy_present_module(address, module) && find_rows(&rows, module) &&
           unwind_rows_find(&rows, address - module->bias)->cfa_kind != WIRE_CFA_NONE;
}
