/* agent_module.h - modules: which one an address is in, and the rows that describe its code.
 *
 * Modules come and go in generations. Tally writes one table while the other one is valid, so what was read
 * of a table counts only if its generation is still the present one afterwards. */
#ifndef AGENT_MODULE_H
#define AGENT_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_process.h"
#include "unwind.h"
#include "wire_agent_module.h"

#define AGENT_MODULE_TRIES 8 /* at most, of what takes a table that stays: each by a table that is complete */

static inline uint32_t agent_module_generation(void)
{
    return __atomic_load_n(&agent_process()->generation, __ATOMIC_ACQUIRE);
}
/* Is that generation's table the valid one still? */
bool agent_module_is_present(uint32_t generation);
/* A copy of the module of an address, of the present table. False: it is in none, nothing describes the code
 * there, or tables changed under every look. */
bool agent_module_find(uint64_t address, struct wire_agent_module *module);

/* For struct unwind_space: find and its context. */
struct agent_module_table {
    uint32_t generation;
    struct unwind_rows *rows; /* a walk's own */
};
bool agent_module_place(void *table, uint64_t pc, struct unwind_place *place);

#endif
