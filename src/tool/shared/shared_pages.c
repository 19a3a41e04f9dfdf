#include "shared_pages.h"

#include <sys/mman.h>

#include "wire_agent_block.h"

#define PAGE  UINT64_C(4096)
#define PIECE (UINT64_C(1) << 20) /* some milliseconds, where a page is slow to make */

bool shared_pages_make(const struct shared_file *file, uint32_t region, uint64_t *made)
{
    const struct wire_agent_process *process = shared_file_process(file, region);
    uint32_t tables = __atomic_load_n(&process->block_tables, __ATOMIC_ACQUIRE);
    if (file->committed || !tables || tables > WIRE_AGENT_TABLES_MOST)
        return false;
    uint64_t start = wire_agent_table_start(tables - 1), end = wire_agent_table_end(tables - 1);
    if (end > file->layout.block_bytes || *made >= end)
        return false;
    start = (*made > start ? *made : start) & ~(PAGE - 1);
    uint64_t size = end - start < PIECE ? end - start : PIECE;
    uint8_t *blocks = file->bytes + shared_file_region(file, region) + file->layout.blocks;
    bool failed = madvise(blocks + start, size, MADV_POPULATE_WRITE) != 0;
    *made = failed ? end : start + size;
    return *made < end;
}
