/* code_table.c - jump tables of 32-bit differences, as compilers make them for position-independent switches:
 *
 *     lea    table(%rip), %rdx         the address of the table, and what its entries count from
 *     movslq (%rdx,%rax,4), %rax       an entry: target - table
 *     add    %rdx, %rax
 *     jmp    *%rax
 *
 * Nothing says how long a table is. It ends at the latest where the next one begins, or where an entry leads
 * to no instruction; reading too far only marks targets too many. Every lea of a function that has such a
 * jump is a candidate, for the jump need not stand near it. Tables of 64-bit addresses need no search: their
 * words are relocations, or data of non-PIE images. */
#include <stdlib.h>
#include <string.h>

#include "code_scan.h"

static int candidate_order(const void *left, const void *right)
{
    const struct code_candidate *a = left, *b = right;
    if (a->table != b->table)
        return a->table < b->table ? -1 : 1;
    return a->function < b->function ? -1 : a->function > b->function;
}

/* Could a branch go there? Code that did not decode may have an instruction anywhere. */
static bool is_target(const struct code_scan *scan, uint64_t address)
{
    uint32_t function = code_scan_find(scan, address);
    if (function == CODE_NONE)
        return false;
    return scan->survey->items[function].verdict != CODE_VERDICT_FINE ||
           code_survey_marked(scan->survey, CODE_MAP_START, address);
}

/* Marks the targets of the table; true if one lies in `owner`. */
static bool read_table(struct code_scan *scan, uint64_t table, uint64_t end, uint32_t owner)
{
    size_t available;
    const uint8_t *bytes = elf_image_at(scan->image, table, &available);
    bool owned = false;
    if (bytes == NULL)
        return false;
    for (uint64_t at = 0; at + 4 <= available && table + at + 4 <= end; at += 4) {
        int32_t difference;
        memcpy(&difference, bytes + at, sizeof difference);
        uint64_t target = table + (uint64_t)(int64_t)difference;
        if (!is_target(scan, target))
            break;
        code_scan_mark(scan, CODE_MAP_LANDING, target);
        owned |= code_scan_find(scan, target) == owner;
    }
    return owned;
}

/* A switch without a table, and a jump of unknown origin where labels are taken by lea, may go anywhere
 * inside the function. (Labels in words of data are all known.) */
static bool is_unresolved(const struct code_scan *scan, uint32_t number, const struct code_site *site)
{
    const struct code_survey_function *item = &scan->survey->items[number];
    if (site->facts & CODE_SITE_UNKNOWN)
        return (item->facts & CODE_FACT_LABELS) != 0;
    return (site->facts & CODE_SITE_TABLE) && site->operand == CODE_OPERAND_REGISTER &&
           !(item->facts & CODE_FACT_TABLES) && scan->labels[number] == 0;
}

static void judge_function(struct code_scan *scan, uint32_t number)
{
    struct code_survey_function *item = &scan->survey->items[number];
    for (uint32_t i = 0; i < item->site_count; i++) {
        struct code_site *site = &scan->survey->sites[item->first_site + i];
        if (is_unresolved(scan, number, site))
            item->facts |= CODE_FACT_UNRESOLVED;
        site->facts &= (uint16_t)~CODE_SITE_UNKNOWN;
    }
    item->facts &= (uint16_t)~CODE_FACT_LABELS;
}

/* Jumps through 8-byte words are a switch where words of data point into the function, else a table of
 * functions. */
static void judge_indexed(struct code_scan *scan)
{
    struct code_survey *survey = scan->survey;
    for (size_t i = 0; i < survey->site_count; i++) {
        struct code_site *site = &survey->sites[i];
        if (!(site->facts & CODE_SITE_INDEXED))
            continue;
        site->facts &= (uint16_t)~CODE_SITE_INDEXED;
        if (scan->labels[site->function] == 0)
            continue;
        site->facts |= CODE_SITE_TABLE;
        survey->items[site->function].facts |= CODE_FACT_TABLES;
    }
}

/* Reads the tables from the last to the first, for each ends where the next begins. One that very many
 * functions name is no table of a compiler's: the rest of them stay unresolved. */
static void read_tables(struct code_scan *scan)
{
    enum { SHARED = 16 };
    uint64_t end = UINT64_MAX, next = UINT64_MAX;
    size_t shared = 0;
    for (size_t i = scan->candidate_count; i-- > 0;) {
        const struct code_candidate *candidate = &scan->candidates[i];
        if (candidate->table != next) {
            end = next;
            next = candidate->table;
            shared = 0;
        }
        if (shared++ < SHARED && read_table(scan, candidate->table, end, candidate->function))
            scan->survey->items[candidate->function].facts |= CODE_FACT_TABLES;
    }
}

static void drop_repeated(struct code_scan *scan)
{
    size_t kept = 0;
    for (size_t i = 0; i < scan->candidate_count; i++)
        if (kept == 0 || candidate_order(&scan->candidates[kept - 1], &scan->candidates[i]) != 0)
            scan->candidates[kept++] = scan->candidates[i];
    scan->candidate_count = kept;
}

void code_table_all(struct code_scan *scan)
{
    if (scan->candidate_count)
        qsort(scan->candidates, scan->candidate_count, sizeof *scan->candidates, candidate_order);
    drop_repeated(scan);
    read_tables(scan);
    for (size_t i = 0; i < scan->survey->functions->count; i++)
        judge_function(scan, (uint32_t)i);
    judge_indexed(scan);
}
