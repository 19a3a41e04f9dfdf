/* Opening and searching a rows blob. Layout and invariants: wire_rows.h. A blob may come from a file that
 * anybody wrote, so unwind_rows_open proves once what unwind_rows_find and the walk then rely on: every
 * index in range, every page's rows rising from offset 0, every register number inside arch_registers. */
#include "unwind.h"

#define PAGE_SHIFT 16
#define PAGE_MASK  UINT64_C(0xffff)

/* The sizes of the three parts add up to what is there; all sums are in 64 bits and cannot overflow. */
static bool sizes_agree(const struct wire_rows_header *header, size_t size)
{
    uint64_t need = sizeof *header + (uint64_t)header->rule_count * sizeof(struct wire_rule) +
                    ((uint64_t)header->page_count + 1) * sizeof(uint32_t) +
                    (uint64_t)header->row_count * sizeof(struct wire_row);
    return need <= size && header->byte_count == need;
}

static bool header_is_valid(const struct wire_rows_header *header, size_t size)
{
    return header->magic == WIRE_ROWS_MAGIC && header->version == WIRE_ROWS_VERSION &&
           (header->base & PAGE_MASK) == 0 && header->rule_count >= 1 && header->rule_count <= 65536 &&
           header->base + ((uint64_t)header->page_count << PAGE_SHIFT) >= header->base &&
           sizes_agree(header, size);
}

static bool save_is_valid(const struct arch *arch, unsigned kind, int16_t slot)
{
    if (kind == WIRE_SAVE_REGISTER)
        return slot >= 0 && slot < arch->register_count;
    return kind <= WIRE_SAVE_CFA_VALUE;
}

static bool rule_is_valid(const struct arch *arch, const struct wire_rule *rule)
{
    return rule->cfa_kind <= WIRE_CFA_ODD && rule->cfa_register < arch->register_count &&
           save_is_valid(arch, wire_rule_fp_kind(rule), rule->fp_slot) &&
           save_is_valid(arch, wire_rule_ra_kind(rule), rule->ra_slot);
}

static bool rules_are_valid(const struct unwind_rows *rows)
{
    if (rows->rules[0].cfa_kind != WIRE_CFA_NONE)
        return false;
    for (uint32_t i = 0; i < rows->header->rule_count; i++)
        if (!rule_is_valid(rows->arch, &rows->rules[i]))
            return false;
    return true;
}

/* One page: empty, or rising from offset 0. */
static bool page_is_valid(const struct unwind_rows *rows, uint32_t first, uint32_t end)
{
    const struct wire_row *row = rows->rows;
    if (first < end && row[first].address_low != 0)
        return false;
    for (uint32_t i = first; i < end; i++) {
        if (row[i].rule >= rows->header->rule_count)
            return false;
        if (i > first && row[i].address_low <= row[i - 1].address_low)
            return false;
    }
    return true;
}

static bool pages_are_valid(const struct unwind_rows *rows)
{
    const struct wire_rows_header *header = rows->header;
    if (rows->pages[0] != 0 || rows->pages[header->page_count] != header->row_count)
        return false;
    for (uint32_t i = 0; i < header->page_count; i++) {
        uint32_t first = rows->pages[i], end = rows->pages[i + 1];
        if (end < first || end > header->row_count || !page_is_valid(rows, first, end))
            return false;
    }
    return true;
}

bool unwind_rows_open(struct unwind_rows *rows, const void *blob, size_t size)
{
    const struct wire_rows_header *header = blob;
    if (size < sizeof *header || (uintptr_t)blob % _Alignof(struct wire_rows_header) != 0 ||
        !header_is_valid(header, size))
        return false;
    const uint8_t *bytes = blob;
    rows->header = header;
    rows->rules = (const void *)(bytes + sizeof *header);
    rows->pages = (const void *)(rows->rules + header->rule_count);
    rows->rows = (const void *)(rows->pages + header->page_count + 1);
    rows->arch = header->machine <= UINT16_MAX ? arch_of_machine((uint16_t)header->machine) : NULL;
    return rows->arch != NULL && rules_are_valid(rows) && pages_are_valid(rows);
}

const struct wire_rule *unwind_rows_find(const struct unwind_rows *rows, uint64_t address)
{
    uint64_t page = (address - rows->header->base) >> PAGE_SHIFT; /* below base: a huge page number */
    if (page >= rows->header->page_count)
        return &rows->rules[0];
    uint32_t low = rows->pages[page], high = rows->pages[page + 1];
    if (low == high)
        return &rows->rules[0];
    uint16_t offset = (uint16_t)(address & PAGE_MASK);
    while (high - low > 1) { /* the answer is in [low, high): row `low` is at or below the offset */
        uint32_t middle = low + (high - low) / 2;
        if (rows->rows[middle].address_low <= offset)
            low = middle;
        else
            high = middle;
    }
    return &rows->rules[rows->rows[low].rule];
}
