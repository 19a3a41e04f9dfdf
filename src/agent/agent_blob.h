/* agent_blob.h - the agent's image, as it is put into targets: an ELF shared object for the host, RELATIVE
 * relocations only, with the symbols of wire_agent_entry.h in .symtab. Context: tool. */
#ifndef AGENT_BLOB_H
#define AGENT_BLOB_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t agent_blob[];
extern const size_t agent_blob_size;

#endif
