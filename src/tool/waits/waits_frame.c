#include "waits_frame.h"

#include <string.h>

#include "arch.h"
#include "proc_target.h"

enum {
    DEPTH_MOST = 64,    /* frames that leave the frame pointer alone */
    ROWS_MOST = 100000, /* of one function */
    PROLOGUE_MOST = 64, /* bytes */
    LANDING = 4,        /* endbr64 */
    PAGE_BITS = 16,     /* of the rows' pages */
};

struct search {
    struct sample_stacks *sampler;
    struct sample_process *process;
    const struct waits_stack *stack;
};

/* Where an address belongs. */
struct site {
    const struct unwind_rows *rows;
    const struct elf_image *elf;
    uint64_t bias, address; /* of the image */
};

static bool find_site(const struct search *search, uint64_t pc, struct site *site)
{
    struct sample_processes *processes = search->sampler->processes;
    const struct sample_mapping *mapping = sample_processes_mapping(processes, search->process, pc);
    if (!mapping || mapping->image == SAMPLE_NO_IMAGE)
        return false;
    *site = (struct site){.rows = sample_images_rows(processes->images, mapping->image),
                          .elf = processes->images->items[mapping->image].elf,
                          .bias = mapping->bias,
                          .address = pc - mapping->bias};
    return site->elf;
}

static bool load_word(const struct search *search, uint64_t address, uint64_t *word)
{
    uint64_t at = address - search->stack->sp;
    if (search->stack->size < sizeof *word || at > search->stack->size - sizeof *word)
        return false;
    memcpy(word, search->stack->bytes + at, sizeof *word);
    return true;
}

/* --- the function --- */

static bool is_by_sp(const struct wire_rule *rule, int32_t offset)
{
    return rule->cfa_kind == WIRE_CFA_REGISTER && rule->cfa_register == arch_host()->sp &&
           rule->cfa_offset == offset;
}

/* The address behind the `push %rbp` with which the function at `address` begins. */
static bool find_push(const struct unwind_rows *rows, uint64_t address, uint64_t *push_end)
{
    uint64_t base = rows->header->base, page = (address - base) >> PAGE_BITS;
    if (address < base || page >= rows->header->page_count)
        return false;
    uint32_t at = rows->pages[page + 1];
    while (at > rows->pages[page] && rows->rows[at - 1].address_low > (address & 0xffff))
        at--;
    for (uint32_t seen = 0; at > 1 && seen < ROWS_MOST; seen++) {
        at--;
        while (page > 0 && at < rows->pages[page])
            page--;
        const struct wire_rule *rule = &rows->rules[rows->rows[at].rule],
                               *before = &rows->rules[rows->rows[at - 1].rule];
        if (rule->cfa_kind == WIRE_CFA_NONE) /* what lies between functions */
            return false;
        if (is_by_sp(rule, 16) && wire_rule_fp_kind(rule) == WIRE_SAVE_CFA && rule->fp_slot == -2 &&
            is_by_sp(before, 8)) {
            *push_end = base + (page << PAGE_BITS) + rows->rows[at].address_low;
            return true;
        }
    }
    return false;
}

uint64_t waits_frame_size(const uint8_t *code, size_t size)
{
    uint64_t pushed = 0;
    size_t at = 3;
    if (size < 3 || (memcmp(code, "\x48\x89\xe5", 3) && memcmp(code, "\x48\x8b\xec", 3)))
        return UINT64_MAX;
    for (; at < size; pushed += 8) {
        if (at + 1 < size && code[at] == 0x41 && (code[at + 1] & 0xf8) == 0x50)
            at += 2;
        else if ((code[at] & 0xf8) == 0x50)
            at++;
        else
            break;
    }
    if (at + 4 <= size && !memcmp(code + at, "\x48\x83\xec", 3))
        return pushed + code[at + 3];
    uint32_t bytes;
    if (at + 3 + sizeof bytes > size || memcmp(code + at, "\x48\x81\xec", 3))
        return UINT64_MAX;
    memcpy(&bytes, code + at + 3, sizeof bytes);
    return pushed + bytes;
}

/* --- candidates --- */

enum call { CALL_NONE, CALL_ELSEWHERE, CALL_INDIRECT, CALL_OF_IT };

struct function {
    uint64_t push_end; /* of its `push %rbp`, at run time */
};

static bool is_start(const struct function *function, uint64_t target)
{
    return target == function->push_end - 1 || target == function->push_end - 1 - LANDING;
}

/* Where an entry of a linkage table leads; 0: it is none. */
static uint64_t linked_target(const struct search *search, uint64_t target)
{
    static const char landing[] = "\xf3\x0f\x1e\xfa";
    struct site site;
    size_t size = 0, at = 0;
    const uint8_t *code =
        find_site(search, target, &site) ? elf_image_at(site.elf, site.address, &size) : NULL;
    if (code && size >= LANDING && !memcmp(code, landing, LANDING))
        at = LANDING;
    at += code && at < size && code[at] == 0xf2;
    if (!code || size < at + 6 || code[at] != 0xff || code[at + 1] != 0x25)
        return 0;
    int32_t distance;
    memcpy(&distance, code + at + 2, sizeof distance);
    uint64_t word = 0, slot = target + at + 6 + (uint64_t)(int64_t)distance;
    return proc_target_read(search->process->pid, slot, &word, sizeof word) == sizeof word ? word : 0;
}

/* FF /2 with 2 to 7 bytes, before `end`. */
static bool is_indirect(const uint8_t *end, size_t before)
{
    for (size_t length = 2; length <= 7 && length <= before; length++)
        if (end[-(ptrdiff_t)length] == 0xff && (end[1 - (ptrdiff_t)length] & 0x38) == 0x10)
            return true;
    return false;
}

/* What stands before a return address. */
static enum call call_before(const struct search *search, const struct function *function, uint64_t word)
{
    enum { DIRECT = 5, LONGEST = 7 };
    struct site site;
    size_t size = 0;
    int32_t distance;
    if (!find_site(search, word - 1, &site))
        return CALL_NONE;
    const uint8_t *code = elf_image_at(site.elf, site.address + 1 - LONGEST, &size);
    if (!code || size < LONGEST)
        return CALL_NONE;
    const uint8_t *end = code + LONGEST;
    if (end[-DIRECT] == 0xe8) {
        memcpy(&distance, end + 1 - DIRECT, sizeof distance);
        uint64_t target = word + (uint64_t)(int64_t)distance;
        if (is_start(function, target) || is_start(function, linked_target(search, target)))
            return CALL_OF_IT;
        if (!is_indirect(end, LONGEST))
            return CALL_ELSEWHERE;
    }
    return is_indirect(end, LONGEST) ? CALL_INDIRECT : CALL_NONE;
}

static enum call judge_call(const struct search *search, const struct function *function, uint64_t pointer)
{
    uint64_t word;
    return load_word(search, pointer + 8, &word) ? call_before(search, function, word) : CALL_NONE;
}

/* The function at `pc` has its frame from `sp` on, and the pointer to it in a register. */
static bool search_frame(const struct search *search, uint64_t pc, uint64_t sp, uint64_t *pointer)
{
    struct site site;
    struct function function;
    size_t size = 0;
    if (!find_site(search, pc, &site) || !site.rows ||
        !find_push(site.rows, site.address, &function.push_end))
        return false;
    const uint8_t *code = elf_image_at(site.elf, function.push_end, &size);
    uint64_t frame = waits_frame_size(code, !code ? 0 : size < PROLOGUE_MOST ? size : PROLOGUE_MOST);
    function.push_end += site.bias;
    if (frame != UINT64_MAX && judge_call(search, &function, sp + frame) != CALL_NONE) {
        *pointer = sp + frame;
        return true;
    }
    uint64_t end = search->stack->sp + search->stack->size, second = 0;
    for (uint64_t at = sp; at + 16 <= end; at += 8) {
        enum call call = judge_call(search, &function, at);
        *pointer = at;
        if (call == CALL_OF_IT)
            return true;
        if (call == CALL_INDIRECT && !second)
            second = at;
    }
    *pointer = second;
    return second;
}

/* Does the walk get on by sp, with the frame pointer still in its register? */
static bool leaves_it(const struct wire_rule *rule)
{
    return rule->cfa_kind == WIRE_CFA_REGISTER && rule->cfa_register == arch_host()->sp &&
           rule->cfa_offset > 0 && wire_rule_fp_kind(rule) == WIRE_SAVE_SAME &&
           wire_rule_ra_kind(rule) == WIRE_SAVE_CFA;
}

bool waits_frame_pointer(struct sample_stacks *sampler, struct sample_process *process,
                         const struct waits_stack *stack, uint64_t *pointer)
{
    struct search search = {sampler, process, stack};
    uint64_t pc = stack->pc, sp = stack->sp;
    if (arch_host() != &arch_x86_64)
        return false;
    for (unsigned depth = 0; depth < DEPTH_MOST; depth++) {
        struct site site;
        uint64_t word;
        if (!find_site(&search, pc, &site) || !site.rows)
            return false;
        const struct wire_rule *rule = unwind_rows_find(site.rows, site.address);
        if (rule->cfa_kind == WIRE_CFA_REGISTER && rule->cfa_register == arch_host()->fp &&
            rule->cfa_offset == 16)
            return search_frame(&search, pc, sp, pointer);
        sp += (uint64_t)(int64_t)rule->cfa_offset;
        if (!leaves_it(rule) || !load_word(&search, sp + (uint64_t)(int64_t)rule->ra_slot * 8, &word))
            return false;
        if (sampler->changed.original)
            word = sampler->changed.original(sampler->changed.probe, process->pid, word);
        pc = word - 1;
    }
    return false;
}
