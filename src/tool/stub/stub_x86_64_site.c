/* Stubs and sites. */
#include <stddef.h>
#include <string.h>

#include "stub_block.h"
#include "stub_x86_64_move.h"
#include "stub_x86_64_site.h"

#define MARK_STACK offsetof(struct stub_block, mark_stack)
#define MARK_SITE  offsetof(struct stub_block, mark_site)

bool stub_x86_64_site_is_jump(enum stub_kind kind)
{
    return kind == STUB_JUMP || kind == STUB_BRANCH || kind == STUB_JUMP_SHORT || kind == STUB_BRANCH_SHORT ||
           kind == STUB_JUMP_INDIRECT || kind == STUB_JUMP_GROUP || kind == STUB_JUMP_GROUP_SHORT ||
           kind == STUB_JUMP_INDIRECT_SHORT;
}

bool stub_x86_64_site_has_island(enum stub_kind kind)
{
    return kind == STUB_JUMP_SHORT || kind == STUB_BRANCH_SHORT || kind == STUB_JUMP_INDIRECT_SHORT;
}

bool stub_x86_64_site_is_group(enum stub_kind kind)
{
    return kind == STUB_CALL_GROUP || kind == STUB_JUMP_GROUP || kind == STUB_JUMP_GROUP_SHORT;
}

bool stub_x86_64_site_is_direct(enum stub_kind kind)
{
    return kind < STUB_CALL_INDIRECT || kind == STUB_JUMP_GROUP_SHORT;
}

/* gs offsets and displacements from a block's start are signed 32 bits. */
static void check_counter_index(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    if (counter->word + 8 * (uint64_t)counter->index > INT32_MAX)
        stub_x86_64_code_refuse(code, STUB_REASON_TOO_MANY);
}

static void count_thread(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter,
                         bool unmarks)
{
    stub_x86_64_code_put(code, 0x50);                         /* push rax */
    stub_x86_64_code_put(code, 0x65, 0x48, 0x8b, 0x04, 0x25); /* mov rax, gs:[word] */
    stub_x86_64_code_32(code, counter->word);
    stub_x86_64_code_put(code, 0x48, 0xff, 0x80); /* inc qword [rax+8*index] */
    stub_x86_64_code_32(code, 8 * counter->index);
    if (unmarks)
        stub_x86_64_code_put(code, 0x48, 0x89, 0x40,
                             MARK_STACK); /* mov [rax+mark_stack], rax: no stack pointer */
    stub_x86_64_code_put(code, 0x58);     /* pop rax */
}

/* Slower where one counter is hot (a load from a segment with a base does not get a store forwarded as
 * early), but needs neither register nor stack. */
static void count_thread_jump(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    stub_x86_64_code_put(code, 0x65, 0x48, 0xff, 0x04, 0x25); /* inc qword gs:[word+8*index] */
    stub_x86_64_code_32(code, counter->word + 8 * counter->index);
}

static void count_shared(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    if (counter->form == STUB_LOCK)
        stub_x86_64_code_put(code, 0xf0);
    stub_x86_64_code_put(code, 0x48, 0xff, 0x05); /* [lock] inc qword [rip+d32] */
    stub_x86_64_code_relative(code, counter->block + 8 * (uint64_t)counter->index, 0);
}

void stub_x86_64_site_count(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter,
                            bool is_jump)
{
    check_counter_index(code, counter);
    if (counter->form != STUB_THREAD)
        count_shared(code, counter);
    else if (is_jump)
        count_thread_jump(code, counter);
    else
        count_thread(code, counter, false);
}

/* --- marks (stub_block.h): the stack pointer first, so that a signal handler that comes between the two
 * leaves no mark of its own under this site's name --- */

static void put_mark(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    if (counter->form == STUB_THREAD) {
        stub_x86_64_code_put(code, 0x65, 0x48, 0x89, 0x24, 0x25); /* mov gs:[word+mark_stack], rsp */
        stub_x86_64_code_32(code, counter->word + MARK_STACK);
        stub_x86_64_code_put(code, 0x65, 0x48, 0xc7, 0x04, 0x25); /* mov qword gs:[word+mark_site], ~index */
        stub_x86_64_code_32(code, counter->word + MARK_SITE);
    } else {
        stub_x86_64_code_put(code, 0x48, 0x89, 0x25); /* mov [rip+mark_stack], rsp */
        stub_x86_64_code_relative(code, counter->block + MARK_STACK, 0);
        stub_x86_64_code_put(code, 0x48, 0xc7, 0x05); /* mov qword [rip+mark_site], ~index */
        stub_x86_64_code_relative(code, counter->block + MARK_SITE, 4);
    }
    stub_x86_64_code_32(code, ~counter->index);
}

static void put_unmark(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    stub_x86_64_code_put(code, 0x48, 0xc7, 0x05); /* mov qword [rip+mark_stack], 0 */
    stub_x86_64_code_relative(code, counter->block + MARK_STACK, 4);
    stub_x86_64_code_32(code, 0);
}

/* The increment, and what the hook at the callee, if there is one, must know. */
static void put_count(struct stub_x86_64_code *code, const struct stub_x86_64_request *site,
                      const struct stub_x86_64_counter *counter)
{
    bool is_jump = stub_x86_64_site_is_jump(site->kind);
    bool meets_hooks = (!stub_x86_64_site_is_direct(site->kind) && !site->quiet) || site->by_slot;
    if (!meets_hooks || counter->form == STUB_LOCK) {
        stub_x86_64_site_count(code, counter, is_jump);
    } else if (is_jump) {
        stub_x86_64_site_count(code, counter, true);
        put_mark(code, counter);
    } else if (counter->form == STUB_THREAD) {
        check_counter_index(code, counter);
        count_thread(code, counter, true);
    } else {
        stub_x86_64_site_count(code, counter, false);
        put_unmark(code, counter);
    }
}

/* The group's instructions but for the last; a call's return address is on the stack already. Returns where
 * the last one begins, or the length when the bytes are no instructions. */
static unsigned move_group(struct stub_x86_64_code *code, const struct stub_x86_64_request *site,
                           unsigned last, unsigned pushed)
{
    unsigned at = 0;
    while (at < last) {
        unsigned length =
            stub_x86_64_move(code, &(struct stub_x86_64_move){.bytes = site->old + at,
                                                              .available = site->length - at,
                                                              .from = site->address + at,
                                                              .pushed = pushed,
                                                              .hole = site->address,
                                                              .hole_end = site->address + site->length});
        if (length == 0)
            return site->length;
        at += length;
    }
    return at;
}

/* Where the last instruction begins: the longest suffix would do, but only a walk from the start is sure. */
static unsigned last_instruction(const struct stub_x86_64_request *site)
{
    struct stub_x86_64_code scratch;
    unsigned at = 0;
    for (;;) {
        stub_x86_64_code_begin(&scratch, site->address);
        unsigned length =
            stub_x86_64_move(&scratch, &(struct stub_x86_64_move){.bytes = site->old + at,
                                                                  .available = site->length - at,
                                                                  .from = site->address + at});
        if (length == 0 || at + length >= site->length)
            return length == 0 ? site->length : at;
        at += length;
    }
}

/* Groups with a jump that names its target. */
static void put_direct_group(struct stub_x86_64_code *code, const struct stub_x86_64_request *site,
                             const struct stub_x86_64_counter *counter)
{
    if (move_group(code, site, last_instruction(site), 0) >= site->length)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    put_count(code, site, counter);
    stub_x86_64_code_jump(code, site->target);
}

/* The instructions before the indirect one, if it is a group. Returns where that one begins. */
static unsigned move_before(struct stub_x86_64_code *code, const struct stub_x86_64_request *site)
{
    unsigned pushed = stub_x86_64_site_is_jump(site->kind) ? 0 : 8;
    return stub_x86_64_site_is_group(site->kind) ? move_group(code, site, last_instruction(site), pushed) : 0;
}

/* Counts, then does what the instruction at `at` of the site did. */
static void put_last(struct stub_x86_64_code *code, const struct stub_x86_64_request *site, unsigned at,
                     const struct stub_x86_64_counter *counter)
{
    unsigned pushed = stub_x86_64_site_is_jump(site->kind) ? 0 : 8;
    put_count(code, site, counter);
    unsigned length = at >= site->length ? 0
                                         : stub_x86_64_move_as_jump(code, site->old + at, site->length - at,
                                                                    site->address + at, pushed);
    if (length == 0 || at + length != site->length)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
}

/* --- guesses --- */

#define RCX           1
#define MODRM_DIRECT  0xc0 /* mod 3: the operand is a register */
#define WORD_MISSING  4    /* a displacement that is filled in later */
#define INDIRECT_MOST 9    /* REX, opcode, modrm, SIB, displacement, and a prefix */

/* cmp reg, [rip+d32]; returns where the displacement ends. */
static unsigned put_compare(struct stub_x86_64_code *code, unsigned reg)
{
    stub_x86_64_code_put(code, (uint8_t)(0x48 | (reg & 8) >> 1), 0x3b, (uint8_t)(0x05 | (reg & 7) << 3));
    stub_x86_64_code_32(code, 0);
    return code->size;
}

/* Compares the operand of the call at `bytes`, which is in memory, by way of rcx. Flags survive the pop. */
static unsigned put_compare_memory(struct stub_x86_64_code *code, const uint8_t *bytes, unsigned length,
                                   uint64_t from)
{
    uint8_t load[INDIRECT_MOST];
    bool extended = (bytes[0] & 0xf0) == 0x40;
    unsigned opcode = extended ? 1 : 0, grown = extended ? 0 : 1;
    if (bytes[opcode] != 0xff || length + grown > sizeof load) { /* other prefixes: not worth it */
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
        return code->size;
    }
    load[0] = (uint8_t)(0x48 | (extended ? bytes[0] & 0x03 : 0)); /* X and B are the operand's */
    load[1] = 0x8b;
    memcpy(load + 2, bytes + opcode + 1, length - opcode - 1);
    load[2] = (uint8_t)((load[2] & 0xc7) | RCX << 3);
    stub_x86_64_code_put(code, 0x51); /* push rcx */
    /* mov rcx, [operand]: what is relative to rip is so to the end */
    if (stub_x86_64_move(code, &(struct stub_x86_64_move){.bytes = load,
                                                          .available = length + grown,
                                                          .from = from - grown,
                                                          .pushed = 16}) != length + grown)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    unsigned word = put_compare(code, RCX);
    stub_x86_64_code_put(code, 0x59); /* pop rcx */
    return word;
}

/* Compares where the instruction at `at` of the site goes. Returns where the displacement of the constant
 * ends. */
static unsigned put_compare_target(struct stub_x86_64_code *code, const struct stub_x86_64_request *site,
                                   unsigned at)
{
    const uint8_t *bytes = site->old + at;
    unsigned length = site->length - at;
    bool extended = length > 2 && (bytes[0] & 0xf0) == 0x40;
    const uint8_t *plain = bytes + (extended ? 1 : 0);
    if (length - (extended ? 1u : 0u) == 2 && plain[0] == 0xff && plain[1] >= MODRM_DIRECT)
        return put_compare(code, (plain[1] & 7u) | (extended ? (bytes[0] & 1u) << 3 : 0));
    if (length >= 2 && !stub_x86_64_site_is_jump(site->kind))
        return put_compare_memory(code, bytes, length, site->address + at);
    stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    return code->size;
}

/* The constant, behind the code; 8 bytes at a multiple of 8, so that they lie in one line. */
static void put_constant(struct stub_x86_64_code *code, unsigned word, uint64_t value)
{
    while (stub_x86_64_code_here(code) % 8 != 0)
        stub_x86_64_code_put(code, 0xcc);
    uint32_t distance = (uint32_t)(code->size - word);
    stub_x86_64_code_32(code, (uint32_t)value);
    stub_x86_64_code_32(code, (uint32_t)(value >> 32));
    if (code->refused == STUB_FINE)
        memcpy(code->bytes + word - WORD_MISSING, &distance, sizeof distance);
}

void stub_x86_64_site_guessing(struct stub_x86_64_code *code, const struct stub_x86_64_request *site,
                               const struct stub_x86_64_counter *counter,
                               const struct stub_x86_64_guess *guess)
{
    struct stub_x86_64_counter guessed = *counter;
    guessed.index = guess->index;
    unsigned at = move_before(code, site);
    if (stub_x86_64_site_is_direct(site->kind) || at >= site->length) {
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
        return;
    }
    unsigned word = put_compare_target(code, site, at);
    stub_x86_64_code_put(code, 0x75, 0); /* jne miss */
    unsigned miss = code->size;
    stub_x86_64_site_count(code, &guessed, stub_x86_64_site_is_jump(site->kind));
    stub_x86_64_code_jump(code, guess->past);
    code->bytes[miss - 1] = (uint8_t)(code->size - miss); /* miss: */
    put_last(code, site, at, counter);
    put_constant(code, word, guess->callee);
}

void stub_x86_64_site(struct stub_x86_64_code *code, const struct stub_x86_64_request *site,
                      const struct stub_x86_64_counter *counter)
{
    switch (site->kind) {
    case STUB_CALL:
    case STUB_JUMP:
    case STUB_BRANCH:
    case STUB_JUMP_SHORT:
    case STUB_BRANCH_SHORT:
        put_count(code, site, counter);
        stub_x86_64_code_jump(code, site->target);
        break;
    case STUB_CALL_INDIRECT:
    case STUB_JUMP_INDIRECT:
    case STUB_CALL_GROUP:
    case STUB_JUMP_GROUP:
    case STUB_JUMP_INDIRECT_SHORT:
        put_last(code, site, move_before(code, site), counter);
        break;
    case STUB_JUMP_GROUP_SHORT:
        put_direct_group(code, site, counter);
        break;
    default:
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    }
}

/* Only the displacement, the last four bytes, changes. */
static enum stub_reason redirect_site(const struct stub_x86_64_request *site, uint64_t stub, uint8_t *fresh)
{
    uint64_t next = site->address + site->length;
    if (!stub_x86_64_code_reaches(next, stub))
        return STUB_REASON_OUT_OF_REACH;
    uint32_t displacement = (uint32_t)(stub - next);
    memcpy(fresh, site->old, site->length);
    for (unsigned i = 0; i < 4; i++)
        fresh[site->length - 4 + i] = (uint8_t)(displacement >> 8 * i);
    return STUB_FINE;
}

/* One instruction as long as what it replaces is made by cs prefixes, which 64-bit mode ignores, and before
 * 32 bits of displacement a REX without bits. */
static enum stub_reason redirect_short(const struct stub_x86_64_request *site, uint8_t *fresh)
{
    int64_t distance = (int64_t)(site->island - (site->address + site->length));
    if (distance < INT8_MIN || distance > INT8_MAX)
        return STUB_REASON_NO_ISLAND;
    memcpy(fresh, site->old, site->length);
    if (site->kind == STUB_JUMP_INDIRECT_SHORT) {
        memset(fresh, 0x2e, site->length);
        fresh[site->length - 2] = 0xeb;
    }
    fresh[site->length - 1] = (uint8_t)distance;
    return STUB_FINE;
}

static enum stub_reason redirect_padded(const struct stub_x86_64_request *site, uint64_t stub, uint8_t *fresh)
{
    uint8_t whole[STUB_X86_64_SITE_MAX];
    struct stub_x86_64_request padded = *site;
    unsigned length = site->length;
    if (length < 5 || length > STUB_X86_64_SITE_MAX)
        return STUB_REASON_TOO_SHORT;
    memset(whole, 0x2e, sizeof whole);
    if (length > 5)
        whole[length - 6] = 0x40;
    whole[length - 5] = stub_x86_64_site_is_jump(site->kind) ? 0xe9 : 0xe8;
    padded.old = whole;
    return redirect_site(&padded, stub, fresh);
}

enum stub_reason stub_x86_64_site_bytes(const struct stub_x86_64_request *site, uint64_t stub,
                                        uint8_t fresh[STUB_X86_64_SITE_MAX])
{
    switch (site->kind) {
    case STUB_CALL:
    case STUB_JUMP:
    case STUB_BRANCH:
        return redirect_site(site, stub, fresh);
    case STUB_JUMP_SHORT:
    case STUB_BRANCH_SHORT:
    case STUB_JUMP_INDIRECT_SHORT:
        return redirect_short(site, fresh);
    default:
        return redirect_padded(site, stub, fresh);
    }
}

enum stub_reason stub_x86_64_site_island(uint64_t island, uint64_t stub, uint8_t fresh[5])
{
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, island);
    stub_x86_64_code_jump(&code, stub);
    memcpy(fresh, code.bytes, 5);
    return code.refused;
}
