/* agent_readable.h - which memory can be read, found out without a fault. */
#ifndef AGENT_READABLE_H
#define AGENT_READABLE_H

#include <stdbool.h>
#include <stdint.h>

/* Can the page that the address is in be read? False, too, where it may not be found out. */
bool agent_readable(uint64_t address);
/* May it be found out? */
bool agent_readable_may_ask(void);

#endif
