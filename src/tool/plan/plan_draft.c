/* A plan while it is being made: the facts of functions, what is refused, and the padding between functions,
 * which hooks and two-byte jumps share. */
#include "plan_draft.h"

#include <stdlib.h>
#include <string.h>

#include "base_search.h"
#include "cfi.h"
#include "plan_pieces.h"

void plan_draft_refuse(struct plan_draft *draft, enum stub_reason reason)
{
    draft->header.reasons[reason]++;
}

#define ENTRY_OFFSET 24 /* of e_entry in an ELF64 header */

static bool is_padding(const struct code_text *text, uint64_t start, uint64_t end)
{
    while (start < end) {
        struct code_instruction in;
        size_t available = 0;
        const uint8_t *bytes = code_text_at(text, start, &available);
        if (available > end - start)
            available = end - start;
        if (bytes == NULL || !code_instruction_decode(bytes, available, start, &in) ||
            (in.marks & CODE_PADDING) == 0)
            return false;
        start += in.length;
    }
    return true;
}

size_t plan_draft_padding(const struct plan_draft *draft, uint32_t index)
{
    const struct code_functions *functions = draft->functions;
    const struct code_survey_function *found = &draft->survey->items[index];
    uint64_t end = functions->items[index].end;
    if (index + 1 >= functions->count || found->verdict != CODE_VERDICT_FINE ||
        (found->facts & CODE_FACT_FALLS_THROUGH) != 0)
        return 0;
    uint64_t next = functions->items[index + 1].start;
    if (next <= end || next - end > 64 || code_survey_entered(draft->survey, end - 1, next) ||
        !is_padding(&draft->survey->text, end, next))
        return 0;
    return next - end;
}

static bool has_cfi(const struct plan_draft *draft, uint64_t address)
{
    size_t at = base_search_up_to(draft->ranges, draft->range_count, end, address);
    return at < draft->range_count && draft->ranges[at].start <= address;
}

static uint64_t entry_point(const struct elf_image *image)
{
    size_t size;
    uint64_t entry = 0;
    const uint8_t *bytes = elf_image_bytes(image, &size);
    if (bytes != NULL && size >= ENTRY_OFFSET + sizeof entry)
        memcpy(&entry, bytes + ENTRY_OFFSET, sizeof entry);
    return entry;
}

static void note_function(struct plan_draft *draft, uint32_t index, uint64_t entry)
{
    const struct code_function *function = &draft->functions->items[index];
    const struct code_survey_function *found = &draft->survey->items[index];
    struct plan_draft_function *of = &draft->of[index];
    bool loader = (found->taken & CODE_TAKEN_LOADER) != 0 || function->start == entry;
    of->hook = PLAN_NONE;
    of->has_cfi = has_cfi(draft, function->start);
    of->entered = found->taken != 0;
    if (of->piece == PLAN_PIECE_HALF)
        of->facts |= PLAN_FUNCTION_FRAGMENT;
    if ((found->facts & CODE_FACT_LINKAGE) != 0)
        of->facts |= PLAN_FUNCTION_LINKAGE;
    else if (found->verdict != CODE_VERDICT_FINE && found->verdict != CODE_VERDICT_EMPTY)
        plan_draft_refuse(draft, STUB_REASON_UNDECODABLE);
    else if (!of->has_cfi && found->site_count > 0)
        plan_draft_refuse(draft, STUB_REASON_NO_CFI);
    if (found->taken != 0 && !loader)
        of->facts |= PLAN_FUNCTION_TAKEN;
}

static int gather_functions(struct plan_draft *draft, struct code_bounds *bounds,
                            struct code_functions *functions, struct base_error *error)
{
    int code = code_bounds_add_symbols(bounds, draft->image, error);
    if (code == BASE_OK)
        code = cfi_ranges(draft->image, &draft->ranges, &draft->range_count, error);
    for (size_t i = 0; code == BASE_OK && i < draft->range_count; i++)
        code = code_bounds_add(bounds,
                               &(struct code_bound){.start = draft->ranges[i].start,
                                                    .end = draft->ranges[i].end,
                                                    .origin = CODE_FROM_FDE},
                               error);
    return code == BASE_OK ? code_functions_make(bounds, draft->image, functions, error) : code;
}

static int note_functions(struct plan_draft *draft, struct base_error *error)
{
    uint64_t entry = entry_point(draft->image);
    struct elf_section section;
    draft->of = calloc(draft->functions->count + 1, sizeof *draft->of);
    if (draft->of == NULL)
        return base_fail(error, BASE_ENOMEM, "no memory for the plan of a program's calls");
    draft->handles_faults = elf_image_section(draft->image, ".gopclntab", &section) ||
                            elf_image_section(draft->image, ".data.rel.ro.gopclntab", &section);
    int code = plan_pieces_judge(draft, error);
    if (code != BASE_OK)
        return code;
    for (uint32_t i = 0; i < draft->functions->count; i++)
        note_function(draft, i, entry);
    draft->header.reasons[STUB_REASON_ENTRY_UNKNOWN] = draft->survey->taken_nowhere;
    return BASE_OK;
}

/* --- padding that is taken --- */

static size_t occupied_bytes(const struct plan_draft *draft)
{
    return (size_t)(draft->survey->map_end - draft->survey->map_base) / 8 + 1;
}

static bool is_occupied(const struct plan_draft *draft, uint64_t address)
{
    uint64_t at = address - draft->survey->map_base;
    return address < draft->survey->map_base || address >= draft->survey->map_end ||
           (draft->occupied[at / 8] >> at % 8 & 1) != 0;
}

void plan_draft_occupy(struct plan_draft *draft, uint64_t start, uint64_t end)
{
    for (; start < end; start++)
        if (!is_occupied(draft, start))
            draft->occupied[(start - draft->survey->map_base) / 8] |=
                (uint8_t)(1u << (start - draft->survey->map_base) % 8);
}

void plan_draft_vacate(struct plan_draft *draft)
{
    memset(draft->occupied, 0, occupied_bytes(draft));
}

/* --- islands --- */

struct reach { /* of a two-byte jump */
    uint64_t low, high;
};

/* Five bytes in a row of [start, end) that are free and begin within reach; 0: there are none. */
static uint64_t take_free(struct plan_draft *draft, uint64_t start, uint64_t end, const struct reach *reach)
{
    uint64_t at = start > reach->low ? start : reach->low;
    for (uint64_t free_end = at; free_end < end && at <= reach->high; free_end++) {
        if (is_occupied(draft, free_end))
            at = free_end + 1;
        if (free_end + 1 - at < PLAN_DRAFT_ISLAND)
            continue;
        plan_draft_occupy(draft, at, at + PLAN_DRAFT_ISLAND);
        return at;
    }
    return 0;
}

static uint64_t take_behind(struct plan_draft *draft, uint32_t index, const struct reach *reach)
{
    uint64_t end = draft->functions->items[index].end;
    return end <= reach->high ? take_free(draft, end, end + plan_draft_padding(draft, index), reach) : 0;
}

static bool decode_at(const struct plan_draft *draft, uint64_t address, struct code_instruction *in)
{
    size_t available = 0;
    const uint8_t *bytes = code_survey_marked(draft->survey, CODE_MAP_START, address)
                               ? code_text_at(&draft->survey->text, address, &available)
                               : NULL;
    return bytes != NULL && code_instruction_decode(bytes, available, address, in);
}

/* Control does not come back behind it. (What stops may be skipped by a signal handler.) */
static bool leaves(const struct code_instruction *in)
{
    return in->flow == CODE_JUMP || in->flow == CODE_JUMP_INDIRECT || in->flow == CODE_RETURN;
}

/* A nop as assemblers fill gaps with it. Any other may be there to be patched (a sled of XRay has a number in
 * it), and 0xcc may be data. */
static bool is_filler(const struct plan_draft *draft, uint64_t address, const struct code_instruction *in)
{
    size_t available = 0, at = 0;
    const uint8_t *bytes = code_text_at(&draft->survey->text, address, &available);
    if (bytes == NULL || available < in->length || (in->marks & CODE_PADDING) == 0)
        return false;
    while (at < in->length && (bytes[at] == 0x66 || bytes[at] == 0x2e))
        at++;
    if (at + 1 == in->length)
        return bytes[at] == 0x90;
    for (size_t i = at + 3; i < in->length; i++) /* behind 0f 1f and ModRM */
        if (bytes[i] != 0)
            return false;
    return at + 2 < in->length && bytes[at] == 0x0f;
}

/* Where the padding from `start` on ends. */
static uint64_t padding_end(const struct plan_draft *draft, uint64_t start, uint64_t end)
{
    struct code_instruction in;
    while (start < end && decode_at(draft, start, &in) && is_filler(draft, start, &in))
        start += in.length;
    return start;
}

/* Would a stack be walked from there as from the site whose jump passes it, with nothing but a return address?
 * The program may unwind itself, in a handler that interrupts the island. */
static bool has_bare_frame(const struct plan_draft *draft, uint64_t address)
{
    bool bare = false;
    return cfi_bare_frames(draft->image, &address, 1, &bare, NULL) == BASE_OK && bare;
}

/* Is padding [start, end) of a function unused: nothing goes to it, and the label behind it is entered? */
static bool is_unused(const struct plan_draft *draft, const struct code_function *function, uint64_t start,
                      uint64_t end)
{
    return !code_survey_entered(draft->survey, start - 1, end) &&
           (end == function->end || code_survey_entered(draft->survey, end - 1, end + 1));
}

static uint64_t take_inside(struct plan_draft *draft, uint32_t index, const struct reach *reach)
{
    enum { LONGEST = 15 };
    const struct code_function *function = &draft->functions->items[index];
    const struct code_survey_function *found = &draft->survey->items[index];
    uint64_t first = function->start + PLAN_HOOK_MAX, island = 0;
    uint64_t at = reach->low - LONGEST > function->start ? reach->low - LONGEST : function->start;
    bool left = false; /* by the instruction before */
    if (found->verdict != CODE_VERDICT_FINE || (found->facts & CODE_FACT_UNRESOLVED) != 0)
        return 0;
    while (at < function->end && at <= reach->high && island == 0) {
        struct code_instruction in;
        if (!decode_at(draft, at, &in)) {
            at++;
            continue;
        }
        uint64_t end = padding_end(draft, at, function->end);
        bool wide = end - at >= PLAN_DRAFT_ISLAND && end > reach->low;
        if (wide && left && is_unused(draft, function, at, end) && has_bare_frame(draft, at))
            island = take_free(draft, at > first ? at : first, end, reach);
        left = end == at && leaves(&in);
        at = end > at ? end : at + in.length;
    }
    return island;
}

uint64_t plan_draft_island(struct plan_draft *draft, uint32_t index, uint64_t next, uint32_t before)
{
    const struct code_function *functions = draft->functions->items;
    const struct reach reach = {next - 128, next + 127};
    uint64_t island = 0;
    while (index > 0 && functions[index - 1].end + 64 >= reach.low)
        index--;
    for (uint32_t i = index; i < before && functions[i].start <= reach.high && island == 0; i++)
        island = take_behind(draft, i, &reach);
    for (uint32_t i = index; i < before && functions[i].start <= reach.high && island == 0; i++)
        island = take_inside(draft, i, &reach);
    return island;
}

/* --- beginning and end --- */

int plan_draft_begin(struct plan_draft *draft, struct plan_draft_basis *basis, const struct elf_image *image,
                     const struct code_survey_options *options, struct base_error *error)
{
    *draft = (struct plan_draft){.image = image};
    int code = gather_functions(draft, &basis->bounds, &basis->functions, error);
    if (code == BASE_OK)
        code = code_survey_make(image, &basis->functions, options, &basis->survey, error);
    draft->functions = &basis->functions;
    draft->survey = basis->survey;
    if (code == BASE_OK)
        draft->occupied = calloc(occupied_bytes(draft), 1);
    if (code == BASE_OK && draft->occupied == NULL)
        code = base_fail(error, BASE_ENOMEM, "no memory for the plan of a program's calls");
    return code == BASE_OK ? note_functions(draft, error) : code;
}

void plan_draft_end(struct plan_draft *draft, struct plan_draft_basis *basis)
{
    free(draft->of);
    free(draft->within);
    free(draft->occupied);
    free(draft->sites);
    free(draft->hooks);
    free(draft->ranges);
    if (basis->survey != NULL)
        code_survey_free(basis->survey);
    code_functions_free(&basis->functions);
    code_bounds_free(&basis->bounds);
    *basis = (struct plan_draft_basis){0};
}
