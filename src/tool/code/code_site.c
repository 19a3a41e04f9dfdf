/* code_site.c - the pass over all functions: sites, instruction boundaries, branch targets, addresses in
 * code. */
#include <string.h>

#include "base_array.h"
#include "code_scan.h"

/* --- sites --- */

static void add_site(struct code_scan *scan, uint32_t function, const struct code_instruction *at,
                     unsigned facts)
{
    struct code_survey *survey = scan->survey;
    if (!base_array_room(survey->sites, survey->site_count, survey->site_capacity)) {
        scan->failed = true;
        return;
    }
    survey->sites[survey->site_count++] = (struct code_site){
        .address = at->address,
        .target = at->operand == CODE_OPERAND_RIP ? at->memory : at->target,
        .function = function,
        .target_function = CODE_NONE,
        .length = at->length,
        .flow = at->flow,
        .operand = at->operand,
        .displacement_at = at->displacement_at,
        .displacement_size = at->displacement_size,
        .prefixes = at->opcode_map == 0 ? at->opcode_at : (uint8_t)(at->opcode_at - 1),
        .facts = (uint16_t)facts,
    };
}

/* --- one instruction --- */

static void note_direct(struct code_scan *scan, uint32_t number, const struct code_instruction *at)
{
    const struct code_function *function = &scan->survey->functions->items[number];
    bool own = at->target >= function->start && at->target < function->end;
    bool to_start = at->target == function->start;
    bool call = at->flow == CODE_CALL;
    /* A call of the next instruction, or of one inside, is a way of jumping there. */
    code_scan_mark(scan,
                   call && (!own || to_start) && at->target != at->address + at->length ? CODE_MAP_CALL
                                                                                        : CODE_MAP_BRANCH,
                   at->target);
    if (!call && to_start)
        scan->survey->items[number].facts |= CODE_FACT_LOOPS_TO_START;
    if (!call && own)
        return;
    unsigned facts = own && !to_start ? CODE_SITE_OWN : 0;
    facts |= at->target == at->address + at->length ? CODE_SITE_NEXT : 0;
    add_site(scan, number, at, facts);
}

/* In non-PIE code an immediate may be an address: of a function, or of a label of this one. */
static void note_immediate(struct code_scan *scan, const struct code_function *function,
                           const struct code_instruction *at)
{
    uint64_t value = at->immediate_size == 4 ? (uint32_t)at->immediate : at->immediate;
    if (value < scan->survey->map_base || value >= scan->survey->map_end)
        return;
    uint32_t found = code_scan_find(scan, value);
    bool start = found != CODE_NONE && scan->survey->functions->items[found].start == value;
    if (start || (value >= function->start && value < function->end))
        code_scan_take(scan, value, CODE_TAKEN_IMMEDIATE);
}

static void note_address(struct code_scan *scan, uint32_t number, const struct code_instruction *at)
{
    const struct code_survey *survey = scan->survey;
    const struct code_function *function = &survey->functions->items[number];
    if (at->marks & CODE_LEA && at->rip_relative) {
        if (at->memory >= survey->map_base && at->memory < survey->map_end)
            code_scan_take(scan, at->memory, CODE_TAKEN_LEA);
        if (at->memory > function->start && at->memory < function->end)
            survey->items[number].facts |= CODE_FACT_LABELS;
    } else if (!survey->position_independent && at->immediate_size >= 4) {
        note_immediate(scan, function, at);
    }
}

/* --- one function --- */

static void add_candidates(struct code_scan *scan, uint32_t number)
{
    for (size_t i = 0; i < scan->instructions.count; i++) {
        const struct code_instruction *at = &scan->instructions.items[i];
        if (!(at->marks & CODE_LEA) || !at->rip_relative || at->memory % 4 != 0 ||
            code_scan_find(scan, at->memory) != CODE_NONE)
            continue;
        if (!base_array_room(scan->candidates, scan->candidate_count, scan->candidate_capacity)) {
            scan->failed = true;
            return;
        }
        scan->candidates[scan->candidate_count++] = (struct code_candidate){at->memory, number};
    }
}

static unsigned facts_of_end(const struct code_instructions *instructions)
{
    size_t last = instructions->count;
    while (last > 0 && (instructions->items[last - 1].marks & CODE_PADDING))
        last--;
    if (last == 0)
        return CODE_FACT_FALLS_THROUGH;
    const struct code_instruction *at = &instructions->items[last - 1];
    bool stays = code_instruction_ends(at) || at->flow == CODE_CALL || at->flow == CODE_CALL_INDIRECT;
    return stays ? 0 : CODE_FACT_FALLS_THROUGH;
}

/* Does the function call arch_prctl(ARCH_SET_GS) by its numbers? Then gs is in use though no instruction here
 * names it. */
static bool sets_gs(const struct code_instructions *instructions, const uint8_t *code)
{
    enum { MOV_LENGTH = 5, NUMBER = 158, SET_GS = 0x1001 };
    bool number = false, set = false;
    uint64_t start = instructions->items[0].address;
    for (size_t i = 0; i < instructions->count; i++) {
        const struct code_instruction *at = &instructions->items[i];
        const uint8_t *bytes = code + (at->address - start);
        uint32_t value;
        if (at->length != MOV_LENGTH || bytes[0] < 0xb8 || bytes[0] > 0xbf) /* mov r32, imm32 */
            continue;
        memcpy(&value, bytes + 1, sizeof value);
        number |= value == NUMBER;
        set |= value == SET_GS;
    }
    return number && set;
}

static void note_instructions(struct code_scan *scan, uint32_t number, const uint8_t *code)
{
    struct code_survey *survey = scan->survey;
    bool tables = false;
    for (size_t i = 0; i < scan->instructions.count; i++) {
        const struct code_instruction *at = &scan->instructions.items[i];
        code_scan_mark(scan, CODE_MAP_START, at->address);
        if (at->displacement_size && !at->rip_relative)
            note_direct(scan, number, at);
        else if (at->flow == CODE_CALL_INDIRECT)
            add_site(scan, number, at, 0);
        else if (at->flow == CODE_JUMP_INDIRECT) {
            unsigned facts = code_jump_facts(&scan->instructions, i, code);
            tables |= (facts & (CODE_SITE_TABLE | CODE_SITE_UNKNOWN)) && at->operand == CODE_OPERAND_REGISTER;
            add_site(scan, number, at, facts);
        } else
            note_address(scan, number, at);
        if (at->marks & CODE_GS && survey->gs_users++ == 0)
            survey->first_gs = at->address;
    }
    if (sets_gs(&scan->instructions, code) && survey->gs_users++ == 0)
        survey->first_gs = scan->instructions.items[0].address;
    if (tables)
        add_candidates(scan, number);
}

static int decode_function(struct code_scan *scan, const struct code_function *function, uint64_t *where)
{
    int verdict = code_instructions_decode(&scan->survey->text, function->start, function->end,
                                           &scan->instructions, where);
    return verdict == CODE_VERDICT_FINE && function->cut ? CODE_VERDICT_CUT : verdict;
}

static void scan_function(struct code_scan *scan, uint32_t number)
{
    struct code_survey *survey = scan->survey;
    const struct code_function *function = &survey->functions->items[number];
    struct code_survey_function *item = &survey->items[number];
    size_t available;
    item->first_site = (uint32_t)survey->site_count;
    int verdict = decode_function(scan, function, &item->where);
    if (verdict < 0) {
        scan->failed = true;
        return;
    }
    item->verdict = (uint8_t)verdict;
    survey->verdicts[verdict]++;
    if (verdict != CODE_VERDICT_FINE)
        return;
    survey->instructions += scan->instructions.count;
    item->facts |= (uint16_t)facts_of_end(&scan->instructions);
    item->facts |= scan->instructions.items[0].marks & CODE_ENDBR ? CODE_FACT_ENDBR : 0;
    item->facts |= code_scan_in_linkage(scan, function->start) ? CODE_FACT_LINKAGE : 0;
    const uint8_t *code = code_text_at(&survey->text, function->start, &available);
    item->facts |= code_return_is_read(&scan->instructions, code) ? CODE_FACT_READS_RETURN : 0;
    note_instructions(scan, number, code);
    item->site_count = (uint32_t)(survey->site_count - item->first_site);
}

void code_site_all(struct code_scan *scan)
{
    size_t count = scan->survey->functions->count;
    for (size_t i = 0; i < count && !scan->failed; i++)
        scan_function(scan, (uint32_t)i);
    code_instructions_free(&scan->instructions);
}
