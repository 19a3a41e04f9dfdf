/* code_scan.c - what the passes of a survey share: finding functions, marking addresses, taking them. */
#include "code_scan.h"

#include <string.h>

uint32_t code_scan_find(const struct code_scan *scan, uint64_t address)
{
    const struct code_survey *survey = scan->survey;
    const struct code_functions *functions = survey->functions;
    if (address < survey->map_base || address >= survey->map_end)
        return CODE_NONE;
    uint32_t at = scan->index[(address - survey->map_base) >> 8];
    while (at < functions->count && functions->items[at].end <= address)
        at++;
    return at < functions->count && functions->items[at].start <= address ? at : CODE_NONE;
}

void code_scan_mark(struct code_scan *scan, enum code_map map, uint64_t address)
{
    const struct code_survey *survey = scan->survey;
    if (address >= survey->map_base && address < survey->map_end) {
        uint64_t bit = address - survey->map_base;
        survey->maps[map][bit / 64] |= UINT64_C(1) << bit % 64;
    }
}

bool code_scan_in_linkage(const struct code_scan *scan, uint64_t address)
{
    for (size_t i = 0; i < scan->linkage_count; i++)
        if (address >= scan->linkage[i].start && address < scan->linkage[i].end)
            return true;
    return false;
}

bool code_scan_is_one(const char *name, const char *const *names, size_t count)
{
    size_t length = name ? strcspn(name, "@") : 0;
    for (size_t i = 0; i < count; i++)
        if (length == strlen(names[i]) && memcmp(name, names[i], length) == 0)
            return true;
    return false;
}

bool code_scan_is_profiler(const char *name)
{
    static const char *const names[] = {"mcount", "_mcount", "__mcount", "__fentry__"};
    return code_scan_is_one(name, names, sizeof names / sizeof *names);
}

/* Code without symbols and call-frame information (assembly), or constants among it: nobody can know. */
static void take_nowhere(struct code_scan *scan, uint64_t address)
{
    size_t available;
    if (!code_text_at(&scan->survey->text, address, &available) ||
        code_survey_marked(scan->survey, CODE_MAP_NOWHERE, address))
        return;
    code_scan_mark(scan, CODE_MAP_NOWHERE, address);
    scan->survey->taken_nowhere++;
}

void code_scan_take(struct code_scan *scan, uint64_t address, enum code_taken how)
{
    uint32_t function = code_scan_find(scan, address);
    if (function == CODE_NONE) {
        if (how != CODE_TAKEN_LOADER)
            take_nowhere(scan, address);
        return;
    }
    code_scan_mark(scan, CODE_MAP_TAKEN, address);
    if (address == scan->survey->functions->items[function].start)
        scan->survey->items[function].taken |= (uint8_t)how;
    else if (how == CODE_TAKEN_RELOCATION || how == CODE_TAKEN_DATA)
        scan->labels[function]++;
}
