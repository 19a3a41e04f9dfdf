/* agent_call_block.h - the block of code that stands in for a return address. */
#ifndef AGENT_CALL_BLOCK_H
#define AGENT_CALL_BLOCK_H

#include <stdint.h>

/* The block that leads back to a return address; 0: there is none left, or the address is none that may be
 * replaced. */
uint64_t agent_call_block(uint64_t address);

#endif
