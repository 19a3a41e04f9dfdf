/* code_survey.c - questions to a survey. code_survey_make.c makes it. */
#include "code_survey.h"

#include <stdlib.h>

#include "base_search.h"

void code_survey_free(struct code_survey *survey)
{
    if (survey == NULL)
        return;
    for (unsigned i = 0; i < CODE_MAPS; i++)
        free(survey->maps[i]);
    code_text_free(&survey->text);
    free(survey->items);
    free(survey->sites);
    free(survey->slots);
    free(survey);
}

bool code_survey_marked(const struct code_survey *survey, enum code_map map, uint64_t address)
{
    if (address < survey->map_base || address >= survey->map_end)
        return false;
    uint64_t bit = address - survey->map_base;
    return survey->maps[map][bit / 64] >> bit % 64 & 1;
}

bool code_survey_entered(const struct code_survey *survey, uint64_t start, uint64_t end)
{
    if (end <= start)
        return false;
    uint64_t first = start + 1 > survey->map_base ? start + 1 : survey->map_base;
    uint64_t last = end < survey->map_end ? end : survey->map_end;
    for (uint64_t at = first; at < last; at++)
        if (code_survey_marked(survey, CODE_MAP_BRANCH, at) ||
            code_survey_marked(survey, CODE_MAP_CALL, at) || code_survey_marked(survey, CODE_MAP_TAKEN, at) ||
            code_survey_marked(survey, CODE_MAP_LANDING, at) ||
            code_functions_entry(survey->functions, at) != CODE_NONE)
            return true;
    return false;
}

uint64_t code_survey_previous(const struct code_survey *survey, uint64_t address)
{
    enum { LONGEST = 15 };
    uint32_t function = code_functions_find(survey->functions, address);
    if (function == CODE_NONE || !code_survey_marked(survey, CODE_MAP_START, address))
        return 0;
    uint64_t start = survey->functions->items[function].start;
    for (uint64_t back = 1; back <= LONGEST && address - start >= back; back++)
        if (code_survey_marked(survey, CODE_MAP_START, address - back))
            return address - back;
    return 0;
}

bool code_survey_slot(const struct code_survey *survey, uint64_t address, uint64_t *slot)
{
    struct code_instruction at;
    size_t available;
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t *bytes = code_text_at(&survey->text, address, &available);
        if (bytes == NULL || !code_instruction_decode(bytes, available, address, &at))
            return false;
        if (at.flow == CODE_JUMP_INDIRECT && at.operand == CODE_OPERAND_RIP && !(at.marks & CODE_FAR)) {
            *slot = at.memory;
            return true;
        }
        if (!(at.marks & CODE_ENDBR))
            return false;
        address += at.length;
    }
    return false;
}

const struct code_slot *code_survey_slot_at(const struct code_survey *survey, uint64_t address)
{
    size_t at = base_search_below(survey->slots, survey->slot_count, address, address);
    return at < survey->slot_count && survey->slots[at].address == address ? &survey->slots[at] : NULL;
}

const char *code_survey_slot_name(const struct code_survey *survey, uint64_t slot)
{
    const struct code_slot *found = code_survey_slot_at(survey, slot);
    return found ? found->name : NULL;
}
