/* Stubs and sites. */
#include <stddef.h>
#include <string.h>

#include "patch_block.h"
#include "patch_x86_64_move.h"
#include "patch_x86_64_stub.h"

#define MARK_STACK offsetof(struct patch_block, mark_stack)
#define MARK_SITE  offsetof(struct patch_block, mark_site)

bool patch_x86_64_stub_is_jump(enum patch_kind kind)
{
    return kind == PATCH_JUMP || kind == PATCH_BRANCH || kind == PATCH_JUMP_SHORT ||
           kind == PATCH_BRANCH_SHORT || kind == PATCH_JUMP_INDIRECT || kind == PATCH_JUMP_GROUP ||
           kind == PATCH_JUMP_GROUP_SHORT;
}

bool patch_x86_64_stub_is_group(enum patch_kind kind)
{
    return kind == PATCH_CALL_GROUP || kind == PATCH_JUMP_GROUP || kind == PATCH_JUMP_GROUP_SHORT;
}

bool patch_x86_64_stub_is_direct(enum patch_kind kind)
{
    return kind < PATCH_CALL_INDIRECT || kind == PATCH_JUMP_GROUP_SHORT;
}

/* gs offsets and displacements from a block's start are signed 32 bits. */
static void check_index(struct patch_x86_64_code *code, const struct patch_x86_64_counter *counter)
{
    if (counter->word + 8 * (uint64_t)counter->index > INT32_MAX)
        patch_x86_64_code_refuse(code, PATCH_REASON_TOO_MANY);
}

static void count_thread(struct patch_x86_64_code *code, const struct patch_x86_64_counter *counter,
                         bool unmarks)
{
    patch_x86_64_code_put(code, 0x50);                         /* push rax */
    patch_x86_64_code_put(code, 0x65, 0x48, 0x8b, 0x04, 0x25); /* mov rax, gs:[word] */
    patch_x86_64_code_32(code, counter->word);
    patch_x86_64_code_put(code, 0x48, 0xff, 0x80); /* inc qword [rax+8*index] */
    patch_x86_64_code_32(code, 8 * counter->index);
    if (unmarks)
        patch_x86_64_code_put(code, 0x48, 0x89, 0x40,
                              MARK_STACK); /* mov [rax+mark_stack], rax: no stack pointer */
    patch_x86_64_code_put(code, 0x58);     /* pop rax */
}

/* Slower where one counter is hot (a load from a segment with a base does not get a store forwarded as
 * early), but needs neither register nor stack. */
static void count_thread_jump(struct patch_x86_64_code *code, const struct patch_x86_64_counter *counter)
{
    patch_x86_64_code_put(code, 0x65, 0x48, 0xff, 0x04, 0x25); /* inc qword gs:[word+8*index] */
    patch_x86_64_code_32(code, counter->word + 8 * counter->index);
}

static void count_shared(struct patch_x86_64_code *code, const struct patch_x86_64_counter *counter)
{
    if (counter->form == PATCH_LOCK)
        patch_x86_64_code_put(code, 0xf0);
    patch_x86_64_code_put(code, 0x48, 0xff, 0x05); /* [lock] inc qword [rip+d32] */
    patch_x86_64_code_relative(code, counter->block + 8 * (uint64_t)counter->index, 0);
}

void patch_x86_64_stub_count(struct patch_x86_64_code *code, const struct patch_x86_64_counter *counter,
                             bool is_jump)
{
    check_index(code, counter);
    if (counter->form != PATCH_THREAD)
        count_shared(code, counter);
    else if (is_jump)
        count_thread_jump(code, counter);
    else
        count_thread(code, counter, false);
}

/* --- marks (patch_block.h): the stack pointer first, so that a signal handler that comes between the two
 * leaves no mark of its own under this site's name --- */

static void put_mark(struct patch_x86_64_code *code, const struct patch_x86_64_counter *counter)
{
    if (counter->form == PATCH_THREAD) {
        patch_x86_64_code_put(code, 0x65, 0x48, 0x89, 0x24, 0x25); /* mov gs:[word+mark_stack], rsp */
        patch_x86_64_code_32(code, counter->word + MARK_STACK);
        patch_x86_64_code_put(code, 0x65, 0x48, 0xc7, 0x04, 0x25); /* mov qword gs:[word+mark_site], ~index */
        patch_x86_64_code_32(code, counter->word + MARK_SITE);
    } else {
        patch_x86_64_code_put(code, 0x48, 0x89, 0x25); /* mov [rip+mark_stack], rsp */
        patch_x86_64_code_relative(code, counter->block + MARK_STACK, 0);
        patch_x86_64_code_put(code, 0x48, 0xc7, 0x05); /* mov qword [rip+mark_site], ~index */
        patch_x86_64_code_relative(code, counter->block + MARK_SITE, 4);
    }
    patch_x86_64_code_32(code, ~counter->index);
}

static void put_unmark(struct patch_x86_64_code *code, const struct patch_x86_64_counter *counter)
{
    patch_x86_64_code_put(code, 0x48, 0xc7, 0x05); /* mov qword [rip+mark_stack], 0 */
    patch_x86_64_code_relative(code, counter->block + MARK_STACK, 4);
    patch_x86_64_code_32(code, 0);
}

/* The increment, and what the hook at the callee, if there is one, must know. */
static void put_count(struct patch_x86_64_code *code, const struct patch_x86_64_site *site,
                      const struct patch_x86_64_counter *counter)
{
    bool is_jump = patch_x86_64_stub_is_jump(site->kind);
    bool meets_hooks = (!patch_x86_64_stub_is_direct(site->kind) && !site->quiet) || site->by_slot;
    if (!meets_hooks || counter->form == PATCH_LOCK) {
        patch_x86_64_stub_count(code, counter, is_jump);
    } else if (is_jump) {
        patch_x86_64_stub_count(code, counter, true);
        put_mark(code, counter);
    } else if (counter->form == PATCH_THREAD) {
        check_index(code, counter);
        count_thread(code, counter, true);
    } else {
        patch_x86_64_stub_count(code, counter, false);
        put_unmark(code, counter);
    }
}

/* The group's instructions but for the last; a call's return address is on the stack already. Returns where
 * the last one begins, or the length when the bytes are no instructions. */
static unsigned move_group(struct patch_x86_64_code *code, const struct patch_x86_64_site *site,
                           unsigned last, unsigned pushed)
{
    unsigned at = 0;
    while (at < last) {
        unsigned length = patch_x86_64_move(code, site->old + at, site->length - at, site->address + at,
                                            pushed, site->address, site->address + site->length);
        if (length == 0)
            return site->length;
        at += length;
    }
    return at;
}

/* Where the last instruction begins: the longest suffix would do, but only a walk from the start is sure. */
static unsigned last_instruction(const struct patch_x86_64_site *site)
{
    struct patch_x86_64_code scratch;
    unsigned at = 0;
    for (;;) {
        patch_x86_64_code_begin(&scratch, site->address);
        unsigned length =
            patch_x86_64_move(&scratch, site->old + at, site->length - at, site->address + at, 0, 0, 0);
        if (length == 0 || at + length >= site->length)
            return length == 0 ? site->length : at;
        at += length;
    }
}

/* Groups with a jump that names its target. */
static void put_direct_group(struct patch_x86_64_code *code, const struct patch_x86_64_site *site,
                             const struct patch_x86_64_counter *counter)
{
    if (move_group(code, site, last_instruction(site), 0) >= site->length)
        patch_x86_64_code_refuse(code, PATCH_REASON_IMMOVABLE);
    put_count(code, site, counter);
    patch_x86_64_code_jump(code, site->target);
}

/* The instructions before the indirect one, if it is a group. Returns where that one begins. */
static unsigned move_before(struct patch_x86_64_code *code, const struct patch_x86_64_site *site)
{
    unsigned pushed = patch_x86_64_stub_is_jump(site->kind) ? 0 : 8;
    return patch_x86_64_stub_is_group(site->kind) ? move_group(code, site, last_instruction(site), pushed)
                                                  : 0;
}

/* Counts, then does what the instruction at `at` of the site did. */
static void put_last(struct patch_x86_64_code *code, const struct patch_x86_64_site *site, unsigned at,
                     const struct patch_x86_64_counter *counter)
{
    unsigned pushed = patch_x86_64_stub_is_jump(site->kind) ? 0 : 8;
    put_count(code, site, counter);
    unsigned length = at >= site->length ? 0
                                         : patch_x86_64_move_as_jump(code, site->old + at, site->length - at,
                                                                     site->address + at, pushed);
    if (length == 0 || at + length != site->length)
        patch_x86_64_code_refuse(code, PATCH_REASON_IMMOVABLE);
}

/* --- guesses --- */

#define RCX           1
#define MODRM_DIRECT  0xc0 /* mod 3: the operand is a register */
#define WORD_MISSING  4    /* a displacement that is filled in later */
#define INDIRECT_MOST 9    /* REX, opcode, modrm, SIB, displacement, and a prefix */

/* cmp reg, [rip+d32]; returns where the displacement ends. */
static unsigned put_compare(struct patch_x86_64_code *code, unsigned reg)
{
    patch_x86_64_code_put(code, (uint8_t)(0x48 | (reg & 8) >> 1), 0x3b, (uint8_t)(0x05 | (reg & 7) << 3));
    patch_x86_64_code_32(code, 0);
    return code->size;
}

/* Compares the operand of the call at `bytes`, which is in memory, by way of rcx. Flags survive the pop. */
static unsigned put_compare_memory(struct patch_x86_64_code *code, const uint8_t *bytes, unsigned length,
                                   uint64_t from)
{
    uint8_t load[INDIRECT_MOST];
    bool extended = (bytes[0] & 0xf0) == 0x40;
    unsigned opcode = extended ? 1 : 0, grown = extended ? 0 : 1;
    if (bytes[opcode] != 0xff || length + grown > sizeof load) { /* other prefixes: not worth it */
        patch_x86_64_code_refuse(code, PATCH_REASON_IMMOVABLE);
        return code->size;
    }
    load[0] = (uint8_t)(0x48 | (extended ? bytes[0] & 0x03 : 0)); /* X and B are the operand's */
    load[1] = 0x8b;
    memcpy(load + 2, bytes + opcode + 1, length - opcode - 1);
    load[2] = (uint8_t)((load[2] & 0xc7) | RCX << 3);
    patch_x86_64_code_put(code, 0x51); /* push rcx */
    /* mov rcx, [operand]: what is relative to rip is so to the end */
    if (patch_x86_64_move(code, load, length + grown, from - grown, 16, 0, 0) != length + grown)
        patch_x86_64_code_refuse(code, PATCH_REASON_IMMOVABLE);
    unsigned word = put_compare(code, RCX);
    patch_x86_64_code_put(code, 0x59); /* pop rcx */
    return word;
}

/* Compares where the instruction at `at` of the site goes. Returns where the displacement of the constant
 * ends. */
static unsigned put_compare_target(struct patch_x86_64_code *code, const struct patch_x86_64_site *site,
                                   unsigned at)
{
    const uint8_t *bytes = site->old + at;
    unsigned length = site->length - at;
    bool extended = length > 2 && (bytes[0] & 0xf0) == 0x40;
    const uint8_t *plain = bytes + (extended ? 1 : 0);
    if (length - (extended ? 1u : 0u) == 2 && plain[0] == 0xff && plain[1] >= MODRM_DIRECT)
        return put_compare(code, (plain[1] & 7u) | (extended ? (bytes[0] & 1u) << 3 : 0));
    if (length >= 2 && !patch_x86_64_stub_is_jump(site->kind))
        return put_compare_memory(code, bytes, length, site->address + at);
    patch_x86_64_code_refuse(code, PATCH_REASON_IMMOVABLE);
    return code->size;
}

/* The constant, behind the code; 8 bytes at a multiple of 8, so that they lie in one line. */
static void put_constant(struct patch_x86_64_code *code, unsigned word, uint64_t value)
{
    while (patch_x86_64_code_here(code) % 8 != 0)
        patch_x86_64_code_put(code, 0xcc);
    uint32_t distance = (uint32_t)(code->size - word);
    patch_x86_64_code_32(code, (uint32_t)value);
    patch_x86_64_code_32(code, (uint32_t)(value >> 32));
    if (code->refused == PATCH_FINE)
        memcpy(code->bytes + word - WORD_MISSING, &distance, sizeof distance);
}

void patch_x86_64_stub_guessing(struct patch_x86_64_code *code, const struct patch_x86_64_site *site,
                                const struct patch_x86_64_counter *counter,
                                const struct patch_x86_64_guess *guess)
{
    struct patch_x86_64_counter guessed = *counter;
    guessed.index = guess->index;
    unsigned at = move_before(code, site);
    if (patch_x86_64_stub_is_direct(site->kind) || at >= site->length) {
        patch_x86_64_code_refuse(code, PATCH_REASON_IMMOVABLE);
        return;
    }
    unsigned word = put_compare_target(code, site, at);
    patch_x86_64_code_put(code, 0x75, 0); /* jne miss */
    unsigned miss = code->size;
    patch_x86_64_stub_count(code, &guessed, patch_x86_64_stub_is_jump(site->kind));
    patch_x86_64_code_jump(code, guess->past);
    code->bytes[miss - 1] = (uint8_t)(code->size - miss); /* miss: */
    put_last(code, site, at, counter);
    put_constant(code, word, guess->callee);
}

void patch_x86_64_stub(struct patch_x86_64_code *code, const struct patch_x86_64_site *site,
                       const struct patch_x86_64_counter *counter)
{
    switch (site->kind) {
    case PATCH_CALL:
    case PATCH_JUMP:
    case PATCH_BRANCH:
    case PATCH_JUMP_SHORT:
    case PATCH_BRANCH_SHORT:
        put_count(code, site, counter);
        patch_x86_64_code_jump(code, site->target);
        break;
    case PATCH_CALL_INDIRECT:
    case PATCH_JUMP_INDIRECT:
    case PATCH_CALL_GROUP:
    case PATCH_JUMP_GROUP:
        put_last(code, site, move_before(code, site), counter);
        break;
    case PATCH_JUMP_GROUP_SHORT:
        put_direct_group(code, site, counter);
        break;
    default:
        patch_x86_64_code_refuse(code, PATCH_REASON_IMMOVABLE);
    }
}

/* Only the displacement, the last four bytes, changes. */
static enum patch_reason aim(const struct patch_x86_64_site *site, uint64_t stub, uint8_t *fresh)
{
    uint64_t next = site->address + site->length;
    if (!patch_x86_64_code_reaches(next, stub))
        return PATCH_REASON_OUT_OF_REACH;
    uint32_t displacement = (uint32_t)(stub - next);
    memcpy(fresh, site->old, site->length);
    for (unsigned i = 0; i < 4; i++)
        fresh[site->length - 4 + i] = (uint8_t)(displacement >> 8 * i);
    return PATCH_FINE;
}

static enum patch_reason aim_short(const struct patch_x86_64_site *site, uint8_t *fresh)
{
    int64_t distance = (int64_t)(site->island - (site->address + site->length));
    if (distance < INT8_MIN || distance > INT8_MAX)
        return PATCH_REASON_NO_ISLAND;
    memcpy(fresh, site->old, site->length);
    fresh[site->length - 1] = (uint8_t)distance;
    return PATCH_FINE;
}

/* One instruction as long as what it replaces: cs prefixes, which 64-bit mode ignores, and a REX without
 * bits. */
static enum patch_reason replace(const struct patch_x86_64_site *site, uint64_t stub, uint8_t *fresh)
{
    uint8_t whole[PATCH_X86_64_SITE_MAX];
    struct patch_x86_64_site padded = *site;
    unsigned length = site->length;
    if (length < 5 || length > PATCH_X86_64_SITE_MAX)
        return PATCH_REASON_TOO_SHORT;
    memset(whole, 0x2e, sizeof whole);
    if (length > 5)
        whole[length - 6] = 0x40;
    whole[length - 5] = patch_x86_64_stub_is_jump(site->kind) ? 0xe9 : 0xe8;
    padded.old = whole;
    return aim(&padded, stub, fresh);
}

enum patch_reason patch_x86_64_stub_site(const struct patch_x86_64_site *site, uint64_t stub,
                                         uint8_t fresh[PATCH_X86_64_SITE_MAX])
{
    switch (site->kind) {
    case PATCH_CALL:
    case PATCH_JUMP:
    case PATCH_BRANCH:
        return aim(site, stub, fresh);
    case PATCH_JUMP_SHORT:
    case PATCH_BRANCH_SHORT:
        return aim_short(site, fresh);
    default:
        return replace(site, stub, fresh);
    }
}

enum patch_reason patch_x86_64_stub_island(uint64_t island, uint64_t stub, uint8_t fresh[5])
{
    struct patch_x86_64_code code;
    patch_x86_64_code_begin(&code, island);
    patch_x86_64_code_jump(&code, stub);
    memcpy(fresh, code.bytes, 5);
    return code.refused;
}
